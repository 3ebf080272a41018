//! Services behind a limiter.

// | file | idea |
// |---|---|
// | `layer` | which limiter, and whether to wait |
// | `waiting` | limiters and services that can wait |
// | `service`, `future` | a service behind a limiter, and its calls |
// | `error` | the error of a call |

mod error;
mod future;
mod layer;
mod service;
mod waiting;

pub use error::LimitedError;
pub use future::LimitFuture;
pub use layer::LimitLayer;
pub use service::LimitService;
pub use waiting::{FindDeadline, NoDeadline, Refusing, SharedLimiter, Waiting, WaitingLimiter, WaitingService};
