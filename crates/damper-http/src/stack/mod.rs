//! Stacks, which put the layers of a client or a server into the right order.

// | file | idea |
// |---|---|
// | `client` | the builder of a client's stack, and its order |
// | `server` | the builder of a server's stack, and its order |
// | `client_part` | a part of a client's stack: a finished layer, or one that the protocol completes |
// | `protocol` | the differences between HTTP and gRPC that the parts need |
// | `stack_part` | the names of the parts |
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
mod client_part;
mod error;
mod http_client;
mod part_error;
mod protocol;
mod request_not_made;
mod server;
mod service;
mod stack_part;

pub use attempt_timeout::{AttemptTimedOut, AttemptTimeout, AttemptTimeoutFuture, AttemptTimeoutLayer};
pub use boxed::{BoxedBody, BoxedClient, BoxedClientFuture};
pub use client::{ClientStack, client_stack};
pub use client_part::{BreakerPart, ClientPart, HedgePart, LayerPart, NoPart, PacingPart, RetryPart, ThrottlePart};
pub use error::StackError;
#[cfg(feature = "tonic")]
pub(crate) use error::{reason_of, wait_of};
pub use http_client::{HttpClient, HttpClientFuture};
pub use part_error::PartError;
pub use protocol::{HttpProtocol, StackProtocol, StackRetries};
pub use request_not_made::RequestNotMade;
#[cfg(feature = "tokio")]
pub use server::SharedAdmission;
pub use server::{PeerLimit, ServerStack, server_stack};
pub use service::{OfPart, OfStack, OfTransport, StackErrorFuture, StackErrorService, ToStackError};
pub use stack_part::StackPart;

type BoxError = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;
