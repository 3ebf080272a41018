//! Stacks, which put the layers of a client or a server into the right order.

// | file | idea |
// |---|---|
// | `client` | the builder of a client's stack, and its order |
// | `server` | the builder of a server's stack, and its order |
// | `explanation` | the answers of the parts to a request that is not made |
// | `explain` | the parts that can say what they would do |
// | `groups` | the groups of a client's parts, each with its order |
// | `part` | a part of a client's stack: a layer, a gate, or nothing |
// | `repeat_part` | retries, a hedge and pacing, which the protocol completes |
// | `side` | a gate in a client's stack, and which gates stand before one service |
// | `protocol` | the differences between HTTP and gRPC that the parts need |
// | `stack_part` | the names of the parts; the places of a client's stack, as types |
// | `error` | the error of a client's stack |
// | `part_error` | the conversion of the parts' errors into the stack's error |
// | `service` | a service that converts the error of another one |
// | `attempt_timeout` | the timeout of one attempt |
// | `http_client` | an adapter for a client with its own request type, such as reqwest |
// | `request_not_made` | the error of a request that the adapter could not convert |
// | `boxed` | a client without the types of its parts |

mod attempt_timeout;
mod boxed;
mod client;
mod error;
mod explain;
mod explanation;
mod groups;
mod http_client;
mod part;
mod part_error;
mod protocol;
#[cfg(feature = "tokio")]
mod repeat_part;
mod request_not_made;
mod server;
mod service;
mod side;
mod stack_part;

pub use attempt_timeout::{AttemptTimedOut, AttemptTimeoutLayer};
pub use boxed::{BoxedBody, BoxedClient};
pub use client::{ClientStack, client_stack};
pub use error::StackError;
pub(crate) use error::reason_of;
pub use explain::Explain;
pub use explanation::{ExplainedPart, Explanation, PartOutcome};
pub use groups::{AttemptParts, CallParts, RepeatParts};
pub use http_client::HttpClient;
#[cfg(feature = "tokio")]
use part::DeadlinePart;
pub use part::{GatePart, LayerPart, NoPart};
pub use part_error::PartErrors;
pub use protocol::{HttpProtocol, StackProtocol};
#[cfg(feature = "tokio")]
use repeat_part::{PacingPart, RepeatPart, StackBudget};
pub use request_not_made::RequestNotMade;
pub use server::{PeerLimit, ServerStack, server_stack};
use service::{OfPart, OfStack, OfTransport, StackErrorService};
pub use stack_part::StackPart;

type BoxError = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;
