//! Stacks: the layers of a client or a server, put into the right order.

// | file | idea |
// |---|---|
// | `client` | the builder of a client's stack, and its order |
// | `server` | the same of a server |
// | `client_part` | a part of a client's stack: a finished layer, or one that the protocol completes |
// | `protocol` | what the parts need to know of HTTP or gRPC |
// | `stack_part` | the names of the parts |
// | `error` | the error of a client's stack |
// | `part_error` | what the errors of the parts become |
// | `service` | a service that changes the error of another one |
// | `attempt_timeout` | the time that one attempt may take |
// | `http_client` | a client with requests of its own, such as reqwest |
// | `request_not_made` | the error of a request that it could not make |
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
pub use client_part::{BreakerPart, ClientPart, HedgePart, LayerPart, NoPart, RetryPart, ThrottlePart};
pub use error::StackError;
#[cfg(feature = "tonic")]
pub(crate) use error::wait_of;
pub use http_client::{HttpClient, HttpClientFuture};
pub use part_error::PartError;
pub use protocol::{HttpProtocol, StackProtocol, StackRetries};
pub use request_not_made::RequestNotMade;
pub use server::{PeerLimit, ServerStack, server_stack};
pub use service::{OfPart, OfTransport, StackErrorFuture, StackErrorService, ToStackError};
pub use stack_part::StackPart;

type BoxError = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;
