//! Deadlines: read from requests, kept, and passed on.
//!
//! A server's layer turns the timeout that a client sent into a [`Deadline`](damper_core::Deadline), a handler passes it
//! on by value, and a client's layer sends what is left of it. So a chain of calls has one deadline.

// | file | idea |
// |---|---|
// | `server` | services whose responses end by the deadline |
// | `client` | services whose requests carry what is left of it |
// | `timeouts` | the deadline of a request: header, default, and what its extensions hold |
// | `timeout_header` | a timeout as a number in a header of the user's choosing |
// | `protocol` | how HTTP and gRPC carry a timeout, and say that it has passed |
// | `expiry` | sleeps until a deadline |
// | `body` | a body that ends by a deadline |

mod body;
mod client;
mod expiry;
mod protocol;
mod server;
mod timeout_header;
mod timeouts;

pub use body::DeadlineBody;
use body::End;
pub use client::{ClientDeadline, ClientDeadlineFuture, ClientDeadlineLayer};
use expiry::Expiry;
use protocol::Protocol;
pub use server::{DeadlineLayer, ServerDeadline, ServerDeadlineFuture};
use timeout_header::TimeoutHeader;
pub use timeout_header::TimeoutUnit;
use timeouts::Timeouts;

type BoxError = alloc::boxed::Box<dyn core::error::Error + Send + Sync>;
