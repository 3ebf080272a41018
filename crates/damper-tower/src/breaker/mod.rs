//! Services behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breaker, and what is a failure |
// | `select` | the breaker of a request |
// | `service`, `future` | a service behind breakers, and its calls |

mod future;
mod layer;
mod select;
mod service;

pub use future::BreakerFuture;
pub use layer::BreakerLayer;
pub use select::{SelectBreaker, SharedBreaker};
pub use service::BreakerService;
