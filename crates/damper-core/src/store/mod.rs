//! Bounded stores: of any value per key, and of values that are created from a template.

// | file | idea |
// |---|---|
// | `lru_store` | the store: shards, their sizes, and what is evicted |
// | `keyed` | `Keyed`: a value per key, created from a `Template` whose settings can change |
// | `second_chance` | one shard: entries in the order of the second-chance algorithm, and the marks of those that an eviction spares |
// | `walk` | goes through the values of all shards, one at a time |

mod keyed;
mod lru_store;
mod second_chance;
mod walk;

pub use keyed::{Evictable, Keyed, Template};
pub use lru_store::LruStore;
