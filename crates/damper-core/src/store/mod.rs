//! Bounded stores: of any value per key, and of values that are created from a template.

// | file | idea |
// |---|---|
// | `bounded_store` | the store: shards, their sizes, and what is evicted |
// | `keyed` | `Keyed`: a value per key, created from a `Template` whose settings can change |
// | `second_chance` | one shard: entries in the order of the second-chance algorithm, and the marks of those that an eviction spares |
// | `walk` | goes through the values of all shards, one at a time |

mod bounded_store;
mod keyed;
mod second_chance;
mod walk;

pub use bounded_store::BoundedStore;
pub use keyed::{Evictable, Keyed, Template};
