//! A bounded store of any value.

// | file | idea |
// |---|---|
// | `lru_store` | the store: shards, their sizes, and what is evicted |
// | `second_chance` | one shard: entries in the order of the second-chance algorithm, and the marks of those that an eviction spares |

mod lru_store;
mod second_chance;

pub use lru_store::LruStore;
