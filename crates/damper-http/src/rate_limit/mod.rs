//! Services behind a limit.

// | file | idea |
// |---|---|
// | `layer` | which limit, and how its decisions are reported |
// | `per_key` | layers with a limit for each client, header value or key |
// | `headers` | which responses carry rate limit headers |
// | `costs` | the costs of requests, before and after their responses |
// | `settings` | what all services of a layer share; what follows from a decision: logs, metrics, callbacks, headers |
// | `shadow` | a candidate that decides beside the limit |
// | `service` | a service behind a limit |
// | `future` | its calls, and the requests that wait |
// | `body` | the body of a response |
// | `refusal_body` | the response to a request that may not pass, of other layers too |
// | `refused` | the mark of such a response |
// | `grpc` | that response in gRPC |

mod body;
mod costs;
mod future;
#[cfg(feature = "tonic")]
pub(crate) mod grpc;
mod headers;
mod layer;
mod per_key;
pub(crate) mod refusal_body;
mod refused;
mod service;
mod settings;
mod shadow;

pub use body::Body;
pub use future::RateLimitFuture;
pub use headers::Headers;
pub use layer::RateLimitLayer;
pub use refused::Refused;
pub use service::RateLimit;
