//! Services behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breaker, and what is a failure |
// | `select` | the breaker of a request |
// | `classify` | the verdict on a result |
// | `service`, `future` | a service behind breakers, and its calls |

mod classify;
mod future;
mod layer;
mod select;
mod service;

pub use classify::{ClassifyResult, EveryErr};
pub use future::BreakerFuture;
pub use layer::BreakerLayer;
pub use select::{BreakerKey, One, PerKey, SelectBreaker, SharedBreaker};
pub use service::BreakerService;
