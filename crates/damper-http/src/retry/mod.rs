//! Services whose calls are retried.

// | file | idea |
// |---|---|
// | `layer` | which calls are retried, when, and how often |
// | `service` | a service whose calls are retried |
// | `attempts_service` | a service whose calls are made in attempts, of tower or hyper; hedges and pacing use it too |
// | `future` | the attempts of a call, as their future makes them |
// | `pace` | when attempts are made: after a backoff, or as a pacer says |
// | `call` | the decision on each outcome, and the request that is kept for the next attempt |
// | `callee` | the service that makes the attempts, of tower or hyper; hedges use it too |
// | `budgets` | the choice of a budget for a request's retries |
// | `classify` | whether another attempt may help, by `Statuses`, and the errors of unprocessed requests |
// | `protocol` | the rules of a protocol for retries |
// | `http_retries` | the retries of HTTP, and the mark of a request that may be sent again |
// | `replayable_body` | a body that can be sent again |
// | `buffered_body` | a body that keeps the data read from it |

mod attempts_service;
mod budgets;
mod buffered_body;
mod call;
mod callee;
pub(crate) mod classify;
mod future;
mod http_retries;
mod layer;
mod pace;
mod protocol;
mod replayable_body;
mod service;

pub(crate) use attempts_service::{AttemptBody, AttemptsService, CallInAttempts};
pub use budgets::Budgets;
pub use buffered_body::BufferedBody;
pub(crate) use call::{BegunCall, Call};
pub(crate) use callee::BorrowedCallee;
pub(crate) use future::{CallAttempts, RetryingFuture};
pub(crate) use http_retries::Buffered;
pub use http_retries::{HttpRetries, Idempotent};
pub use layer::RetryLayer;
pub(crate) use layer::RetrySettings;
pub(crate) use pace::Pace;
pub(crate) use protocol::deadline_of;
pub use protocol::{GiveUp, RetryProtocol};
pub use replayable_body::ReplayableBody;
pub use service::Retrying;
