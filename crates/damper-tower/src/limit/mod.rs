//! Services behind a limiter.

// | file | idea |
// |---|---|
// | `layer` | which limiter, and whether to wait |
// | `shared_limiter` | limiters that services share, and those that a call can wait for |
// | `request_cost` | how many tokens a request costs |
// | `service`, `future` | a service behind a limiter, and its calls |

mod future;
mod layer;
mod request_cost;
mod service;
mod shared_limiter;

pub use future::LimitFuture;
pub use layer::LimitLayer;
pub use request_cost::{OneToken, RequestCost};
pub use service::LimitService;
pub use shared_limiter::{SharedLimiter, WaitingLimiter};
