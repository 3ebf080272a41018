//! Deadlines: read from requests, kept, and passed on.
//!
//! A server's layer turns the timeout that a client sent into a [`Deadline`](damper_core::Deadline), a handler passes it
//! on by value, and a client's layer sends what is left of it. So a chain of calls has one deadline.

// | file | idea |
// |---|---|
// | `server` | the layer of a server: where the deadline of a request comes from |
// | `client` | the layer of a client: and what of it is sent |
// | `sent_timeout` | what a request tells the server of its deadline, for each attempt anew |
// | `side` | what differs between the two |
// | `service`, `future` | a service whose calls have deadlines, and its calls |
// | `timeouts` | the deadline of a request: header, default, and what its extensions hold |
// | `timeout_header` | a timeout as a number in a header of the user's choosing |
// | `instant_header` | a deadline as an instant in such a header, and whether to believe it |
// | `protocol` | how HTTP and gRPC carry a timeout, and say that it has passed |
// | `expiry` | sleeps until a deadline |
// | `body` | a body that ends by a deadline |

mod body;
mod client;
mod expiry;
mod future;
mod instant_header;
mod protocol;
mod sent_timeout;
mod server;
mod service;
mod side;
mod timeout_header;
mod timeouts;

pub use body::DeadlineBody;
use body::End;
pub use client::ClientDeadlineLayer;
pub(crate) use expiry::Expiry;
pub use future::DeadlineFuture;
use instant_header::InstantHeader;
use protocol::Protocol;
pub(crate) use sent_timeout::SentTimeout;
pub use server::DeadlineLayer;
pub use service::DeadlineService;
use side::{Answer, Bounds, Over, Side};
use timeout_header::TimeoutHeader;
pub use timeout_header::TimeoutUnit;
use timeouts::Timeouts;

type BoxError = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;
