//! Services behind a limit.

// | file | idea |
// |---|---|
// | `layer` | which limit, and what is told |
// | `policy` | what all services of a layer share: whether a request is asked about, and what then happens |
// | `answer` | the answer to a request that may not pass |
// | `grpc` | the answer to such a request of gRPC |
// | `service` | a service behind a limit |
// | `future` | its calls |

mod answer;
mod future;
#[cfg(feature = "tonic")]
pub(crate) mod grpc;
mod layer;
#[cfg(feature = "tonic")]
mod named;
mod policy;
mod service;

pub use future::RateLimitFuture;
pub use layer::RateLimitLayer;
pub use service::RateLimit;
