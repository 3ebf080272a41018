//! Reads hints for a pacer from Mesh responses.

use crate::document::Response;
use damper_core::Reads;
use damper_core::throttle::Hints;

/// Reads the [`Hints`] of a [`Pacer`](damper_core::throttle::Pacer) from Mesh responses.
///
/// The hints are those of [`Response::hints`]. A call without a response gives none.
///
/// A [`Client`](crate::Client) paces calls itself and does not need this. It serves other clients.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use damper::Quota;
/// use damper::mesh::{MeshHints, Request, Response};
/// use damper::throttle::{PacedRetry, Pacer};
///
/// static ORDERS: Pacer = Pacer::new(Quota::per_minute(100));
///
/// # fn send(request: &Request) -> Result<Response, std::io::Error> { Ok(Response::ok(&*request.id, serde_json::json!(7))) }
/// let request = Request::new("req_1", "orders.count", "1", serde_json::json!({}));
/// let answer = ORDERS.call(&PacedRetry::DEFAULT, MeshHints, |_attempt| send(&request))?;
/// # assert_eq!(answer.result, 7);
/// # Ok::<(), damper::RetryError<std::io::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MeshHints;

impl Reads<Response, Hints> for MeshHints {
    fn read_from(&self, answer: &Response) -> Hints {
        answer.hints()
    }
}

impl<E> Reads<Result<Response, E>, Hints> for MeshHints {
    fn read_from(&self, outcome: &Result<Response, E>) -> Hints {
        outcome.as_ref().map_or(Hints::UNKNOWN, Response::hints)
    }
}
