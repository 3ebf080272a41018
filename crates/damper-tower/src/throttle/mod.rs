//! Services behind throttles.

// | file | idea |
// |---|---|
// | `layer` | which throttle, and what is a rejection |
// | `select` | the throttle of a request |
// | `service`, `future` | a service behind throttles, and its calls |

mod future;
mod layer;
mod select;
mod service;

pub use future::ThrottleFuture;
pub use layer::ThrottleLayer;
pub use select::{SelectThrottle, SharedThrottle};
pub use service::ThrottleService;
