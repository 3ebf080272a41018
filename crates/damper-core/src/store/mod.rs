//! A bounded store of any value.

// | file | idea |
// |---|---|
// | `lru_store` | the store: shards, their sizes, and what is evicted |
// | `second_chance` | one shard: entries in the order of the second-chance algorithm, and the marks of those that an eviction spares |
// | `walk` | goes through the values of all shards, one at a time |

mod lru_store;
mod second_chance;
mod walk;

pub use lru_store::LruStore;
