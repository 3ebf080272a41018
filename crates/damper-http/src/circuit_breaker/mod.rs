//! Services behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breakers, and when a call has ended |
// | `breakers` | which breaker a request belongs to |
// | `single`, `per_host` | breakers with telemetry, and their builders |
// | `shadowed` | breakers in force, and candidates beside them |
// | `host_listener` | their listeners |
// | `service` | a service behind breakers |
// | `future` | its calls |
// | `permit` | its permit, as an observer |

mod breakers;
mod future;
mod host_listener;
mod layer;
mod per_host;
mod permit;
mod service;
mod shadowed;
mod single;

pub use breakers::Breakers;
pub use future::CircuitBreakFuture;
pub use host_listener::HostListener;
pub use layer::CircuitBreakerLayer;
pub use per_host::{PerHost, PerHostBuilder};
pub use service::CircuitBreak;
pub use shadowed::ShadowedBreakers;
pub use single::{Single, SingleBuilder};
