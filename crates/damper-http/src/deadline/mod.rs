//! Deadlines, which are read from requests, enforced and passed on.
//!
//! A server's layer turns the client's timeout into a [`Deadline`](damper_core::Deadline), a handler passes it on by value, and a client's
//! layer sends the time left to the next server. So a chain of calls has one deadline.

// | file | idea |
// |---|---|
// | `layer` | what the layers of a server and a client have in common |
// | `server` | the layer of a server, which finds the deadline of a request |
// | `client` | the layer of a client, which finds the deadline and sends the time left |
// | `request_deadline` | gives the deadline of a request to a layer of tower |
// | `side` | the differences between the two |
// | `service`, `future` | a service whose calls have deadlines, and its calls |
// | `timeouts` | the deadline of a request, from header, default and extensions; the timeout that a client sends |
// | `timeout_header` | a timeout as a number in a header of the user's choosing; a deadline as an instant in one |
// | `protocol` | how HTTP and gRPC carry a timeout, and how a server reports that it has passed |
// | `expiry` | sleeps until a deadline |
// | `body` | a body that ends at a deadline |

mod body;
mod client;
mod expiry;
mod future;
mod layer;
mod protocol;
mod request_deadline;
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
use layer::Deadlines;
use layer::Role;
use protocol::Protocol;
pub use request_deadline::RequestDeadline;
pub use server::DeadlineLayer;
pub(crate) use service::DeadlineService;
use side::{Answer, Bounds, BoundsOf, Over, Side};
pub use timeout_header::TimeoutUnit;
use timeout_header::{InstantHeader, TimeoutHeader};
pub(crate) use timeouts::SentTimeout;
use timeouts::Timeouts;

type BoxError = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;
