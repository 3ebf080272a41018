//! One concurrency limit per key.

// | file | type |
// |---|---|
// | `keyed_concurrency_limit` | `KeyedConcurrencyLimit`: the limits of keys, in a bounded store |
// | `keyed_bulkhead` | `KeyedBulkhead`: one bulkhead per key; its constructors and calls |
// | `keyed_adaptive_limit` | `KeyedAdaptiveLimit`: one adaptive limit per key; its constructors and calls |

mod keyed_adaptive_limit;
mod keyed_bulkhead;
mod keyed_concurrency_limit;

pub use keyed_adaptive_limit::KeyedAdaptiveLimit;
pub use keyed_bulkhead::KeyedBulkhead;
pub use keyed_concurrency_limit::KeyedConcurrencyLimit;
pub(in crate::concurrency) use keyed_concurrency_limit::sealed;
