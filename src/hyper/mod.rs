//! Wrappers for hyper's services: [`RateLimit`] for a server's, [`CircuitBreak`] for a client's.

mod body;
mod circuit_break;
mod rate_limit;

pub use body::Body;
pub use circuit_break::{CircuitBreak, CircuitBreakFuture};
pub use rate_limit::{RateLimit, RateLimitFuture};
