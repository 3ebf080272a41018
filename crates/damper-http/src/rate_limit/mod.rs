//! Services behind a limit.

// | file | idea |
// |---|---|
// | `layer` | which limit, and how its decisions are reported |
// | `per_key` | layers with a limit for each client, header value or key |
// | `tree` | layers with the limits of a quota tree |
// | `headers` | which responses carry rate limit headers |
// | `costs` | the costs of requests, before and after their responses |
// | `settings` | what all services of a layer share; what follows from a decision: logs, metrics, callbacks, headers |
// | `shadow` | a candidate that decides beside the limit |
// | `marking` | a layer that marks the requests over its limit, and refuses none |
// | `gate` | the limit as a gate |
// | `side` | the gate before a server: refusals are responses, and responses get headers or correct the cost |
// | `body` | the body of a response |
// | `refusal_body` | the response to a request that may not pass, of other layers too |
// | `refusal_response` | the response of a handler that asked a gate itself |
// | `refused` | the mark of such a response |
// | `grpc` | that response in gRPC |

mod body;
mod costs;
mod gate;
pub(crate) mod grpc;
mod headers;
mod layer;
mod marking;
mod per_key;
pub(crate) mod refusal_body;
mod refusal_response;
mod refused;
mod settings;
mod shadow;
mod side;
mod tree;

pub use body::Body;
pub use headers::Headers;
pub use layer::RateLimitLayer;
pub use marking::{Mark, MarkingLayer, Marks};
pub use refusal_response::refusal_response;
pub use refused::Refused;

/// A service behind a limit. Made by [`RateLimitLayer`].
///
/// Ready whenever the service behind it is, which has to be `Clone` for limits at which requests wait. A response has the service's
/// body, whose data have to be `Bytes`, or that of a refusal.
///
/// # Cancel safety
///
/// The tokens are taken in `call`; dropping the future afterwards does not give them back, unless the request still waits for them.
pub type RateLimit<S, L> = damper_tower::GateService<S, RateLimitLayer<L>>;
