//! One concurrency limit per key.

// | file | type |
// |---|---|
// | `keyed_bulkhead` | `KeyedBulkhead`: one bulkhead per key; its constructors and calls |
// | `keyed_adaptive_limit` | `KeyedAdaptiveLimit`: one adaptive limit per key; its constructors and calls |
// | `limit_template` | `LimitTemplate`: the settings of all limits; the methods that both have |

mod keyed_adaptive_limit;
mod keyed_bulkhead;
mod limit_template;

pub use keyed_adaptive_limit::KeyedAdaptiveLimit;
pub use keyed_bulkhead::KeyedBulkhead;
pub use limit_template::LimitTemplate;
use limit_template::sealed;
