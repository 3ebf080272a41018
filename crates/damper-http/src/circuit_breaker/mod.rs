//! Services behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breakers, what is a failure, and when the verdict is made |
// | `breakers` | which breaker a request belongs to |
// | `single`, `per_host` | breakers that a layer creates itself |
// | `host_listener` | their listeners |
// | `classify` | what a response says about its server |
// | `completion` | when the verdict is made |
// | `watched_body` | a response body that reports how it ended |
// | `service` | a service behind breakers |
// | `readiness` | whether the service behind them may be called |
// | `future` | its calls |

mod breakers;
mod classify;
mod completion;
mod future;
mod host_listener;
mod layer;
mod per_host;
#[cfg(feature = "tower")]
pub(crate) mod readiness;
mod service;
mod single;
mod watched_body;

pub use breakers::Breakers;
pub use classify::{Classify, ResponseHead, ServerErrors};
pub use completion::{AtBodyEnd, AtHead, Completion};
pub use future::CircuitBreakFuture;
pub use host_listener::HostListener;
pub use layer::CircuitBreakerLayer;
pub use per_host::PerHost;
#[cfg(feature = "tower")]
pub(crate) use readiness::Readiness;
pub use service::CircuitBreak;
pub use single::Single;
pub use watched_body::{BodyEnd, ClassifyEnd, WatchedBody};
