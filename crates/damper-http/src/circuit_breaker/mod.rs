//! Services behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breakers, and when a call has ended |
// | `single`, `per_host` | breakers with telemetry, and their builders |
// | `layer_listener` | their listener |

mod layer;
mod layer_listener;
mod per_host;
mod single;

pub use layer::{CircuitBreak, CircuitBreakerLayer};
pub use per_host::{PerHost, PerHostBuilder};
pub use single::{Single, SingleBuilder};
