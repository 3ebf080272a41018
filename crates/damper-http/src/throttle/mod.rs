//! Services behind throttles.

// | file | idea |
// |---|---|
// | `layer` | which throttle, and when a call has ended |
// | `throttles` | which throttle a request belongs to |
// | `rejections` | which responses are rejections |
// | `service` | a service behind throttles |
// | `future` | its calls |
// | `permit` | its permit, as an observer |

mod future;
mod layer;
mod permit;
mod rejections;
mod service;
mod throttles;

pub use future::ThrottleFuture;
pub use layer::ThrottleLayer;
pub use permit::ThrottleObserver;
pub use rejections::Rejections;
pub use service::ThrottleService;
pub use throttles::Throttles;
