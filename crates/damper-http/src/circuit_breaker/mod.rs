//! Services behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breakers, what is a failure, and when that is known |
// | `breakers` | which breaker a request belongs to |
// | `per_host`, `single`, `host_listener` | breakers that a layer makes itself, and who is told of their changes |
// | `host` | the host that a request is for |
// | `classify` | what an answer says about its server |
// | `completion`, `body` | when the verdict falls |
// | `service` | a service behind breakers |
// | `readiness` | whether the service behind them may be called |
// | `future` | its calls |

mod body;
mod breakers;
mod classify;
mod completion;
mod future;
mod host;
mod host_listener;
mod layer;
mod per_host;
#[cfg(feature = "tower")]
pub(crate) mod readiness;
mod service;
mod single;

pub use body::{BodyEnd, Ending, WatchedBody};
pub use breakers::Breakers;
pub use classify::{Classify, ServerErrors};
pub use completion::{BodyEnds, Completion, HeadArrives};
pub use future::CircuitBreakFuture;
pub use host_listener::HostListener;
pub use layer::CircuitBreakerLayer;
pub use per_host::PerHost;
#[cfg(feature = "tower")]
pub(crate) use readiness::Readiness;
pub use service::CircuitBreak;
pub use single::Single;
