//! Services behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breakers, and when a call has ended |
// | `single`, `per_host` | breakers with telemetry, and their builders |
// | `host_listener` | their listeners |

mod host_listener;
mod layer;
mod per_host;
mod single;

pub use host_listener::HostListener;
pub use layer::{CircuitBreak, CircuitBreakerLayer};
pub use per_host::{PerHost, PerHostBuilder};
pub use single::{Single, SingleBuilder};
