//! Services behind a limit.
//!
//! | file | idea |
//! |---|---|
//! | `layer` | which limit, and what is told |
//! | `policy` | what all services of a layer share: whether a request is asked about, and what then happens |
//! | `answer` | the answer to a request that may not pass |
//! | `service` | a service behind a limit |
//! | `future` | its calls |

mod answer;
mod future;
mod layer;
mod policy;
mod service;

pub use future::RateLimitFuture;
pub use layer::RateLimitLayer;
pub use service::RateLimit;
