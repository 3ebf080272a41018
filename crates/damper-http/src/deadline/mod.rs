//! Deadlines, which are read from requests, enforced and passed on.
//!
//! A server's layer turns the client's timeout into a [`Deadline`](damper_core::Deadline), a handler passes it on by value, and a client's
//! layer sends the time left to the next server. So a chain of calls has one deadline.

// | file | idea |
// |---|---|
// | `server` | the layer of a server, which finds the deadline of a request |
// | `client` | the layer of a client, which finds the deadline and sends the time left |
// | `request_deadline` | gives the deadline of a request to a layer of tower |
// | `sent_timeout` | the timeout that a request sends to the server, updated for each attempt |
// | `side` | the differences between the two |
// | `service`, `future` | a service whose calls have deadlines, and its calls |
// | `timeouts` | the deadline of a request: from header, default and extensions |
// | `timeout_header` | a timeout as a number in a header of the user's choosing |
// | `instant_header` | a deadline as an instant in such a header, and whether to believe it |
// | `protocol` | how HTTP and gRPC carry a timeout, and how a server reports that it has passed |
// | `expiry` | sleeps until a deadline |
// | `body` | a body that ends at a deadline |

mod body;
mod client;
mod expiry;
mod future;
mod instant_header;
mod protocol;
mod request_deadline;
mod sent_timeout;
mod server;
mod service;
mod side;
mod timeout_header;
mod timeouts;

use body::{DeadlineBody, End};
pub use client::ClientDeadlineLayer;
pub(crate) use client::DeadlineError;
pub(crate) use expiry::Expiry;
use future::DeadlineFuture;
use instant_header::InstantHeader;
use protocol::Protocol;
pub use request_deadline::RequestDeadline;
pub(crate) use sent_timeout::SentTimeout;
pub use server::DeadlineLayer;
pub use service::DeadlineService;
use side::{Answer, Bounds, BoundsOf, Over, Side};
use timeout_header::TimeoutHeader;
pub use timeout_header::TimeoutUnit;
use timeouts::Timeouts;

type BoxError = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;
