//! Reads what a response of gRPC says about the server's limit.

use crate::Grpc;
use crate::verdict::{PUSHBACK, pushback_in, retry_after_in};
use core::time::Duration;
use damper_core::Reads;
use damper_core::throttle::Hints;
use damper_http::{HttpProtocol, ResponseHead};
use http::HeaderName;
use tonic::Code;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Reads the hints of gRPC: `RESOURCE_EXHAUSTED`, and when the server wants the call again.
///
/// | in the head of the response | is |
/// |---|---|
/// | the status `RESOURCE_EXHAUSTED`, with any of the three that follow | a rejection |
/// | `grpc-retry-pushback-ms`, or else the `google.rpc.RetryInfo` of the status, with a rejection | the time after which the server wants the call again |
/// | the headers of rate limits, which the handlers of tonic set as metadata | what remains: see [`HttpProtocol`] |
/// | the status `RESOURCE_EXHAUSTED` with none of them | no sign that a limit of calls was the reason: servers also say it of messages that are too large, or of a full disk |
/// | the statuses `UNAVAILABLE`, `DEADLINE_EXCEEDED`, `CANCELLED` and `UNKNOWN` | no sign that the limit has seen the call |
/// | any other status, or messages | a call that the limit accepted |
/// | the status 429 of HTTP, of a proxy, whatever the status of gRPC | a rejection, with its `Retry-After` |
///
/// A server that limits calls without any of these needs hints of your own:
///
/// ```
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
/// use damper::{Quota, Reads};
/// use damper::http::{Hosts, PacingLayer, ResponseHead};
/// use damper::throttle::Hints;
/// use damper::tonic::Grpc;
///
/// # async fn sleep(_: std::time::Duration) {}
/// let layer = PacingLayer::sleeping_by(Hosts::pacers(Quota::per_second(100)), sleep)
///     .protocol(Grpc::new())
///     .hints(|head: &ResponseHead<'_>| match head.headers.get("grpc-status") {
///         Some(status) if status == "8" => Hints::REJECTED,
///         _ => Grpc::new().read_from(head),
///     });
/// # let _ = layer;
/// ```
///
/// A status that comes after messages, in the trailers, is not read: such a call cannot be made again.
impl<V> Reads<ResponseHead<'_>, Hints> for Grpc<V> {
    fn read_from(&self, head: &ResponseHead<'_>) -> Hints {
        let of_http = HttpProtocol.read_from(head);
        let Some(status) = head.headers.get(STATUS) else { return of_http };
        let hints = match Code::from_bytes(status.as_bytes()) {
            _ if of_http.is_rejected() => Hints::REJECTED.retry_after(wait_in(head).or(of_http.retry_after)),
            Code::ResourceExhausted => match wait_in(head) {
                None if of_http.remaining.is_none() && !head.headers.contains_key(PUSHBACK) => Hints::UNKNOWN,
                wait => Hints::REJECTED.retry_after(wait),
            },
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => Hints::UNKNOWN,
            _ => Hints::ACCEPTED,
        };
        hints.remaining(of_http.remaining).limit(of_http.limit).resets_in(of_http.resets_in)
    }
}

/// Returns the wait that the server asked for.
#[cold]
fn wait_in(head: &ResponseHead<'_>) -> Option<Duration> {
    pushback_in(head.headers).or_else(|| retry_after_in(head.headers))
}
