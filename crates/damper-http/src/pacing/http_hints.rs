//! The hints of an HTTP response about the server's limit.

use crate::wire::{self, RateLimitStatus};
use crate::{HttpProtocol, ResponseHead};
use damper_core::Reads;
use damper_core::throttle::Hints;
use http::StatusCode;

/// Reads the hints of HTTP: the status 429, `Retry-After` and the headers of rate limits.
///
/// | in the response | is |
/// |---|---|
/// | the status 429 | a rejection |
/// | the status 5xx, without headers of rate limits | no sign that the limit has seen the call |
/// | any other status | a call that the limit accepted |
/// | `Retry-After`, as seconds or as a date, with the status 429 | the time after which the server wants the call again |
/// | `RateLimit` and `RateLimit-Policy`, or else `RateLimit-*` of older drafts, `X-RateLimit-*` and those of some services | what remains, of how many, and when the limit is reset: see [`RateLimitStatus`] |
///
/// The remaining calls are the most useful hint, because a pacer slows down by them before the server rejects anything. A server of
/// damper sends them with [`RateLimitLayer::headers`](crate::RateLimitLayer::headers).
///
/// Transport errors say nothing about the limit, so they are not read.
///
/// # Examples
///
/// A server that rejects calls with a 403, as some do:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::{Hosts, HttpProtocol, PacingLayer, ResponseHead};
/// use damper::throttle::Hints;
/// use damper::{Quota, Reads};
///
/// # async fn sleep(_: std::time::Duration) {}
/// let layer = PacingLayer::sleeping_by(Hosts::pacers(Quota::per_hour(5_000)), sleep)
///     .hints(|head: &ResponseHead<'_>| match HttpProtocol.read_from(head) {
///         hints if head.status == 403 && hints.remaining == Some(0) => Hints::REJECTED.resets_in(hints.resets_in),
///         hints => hints,
///     });
/// # let _ = layer;
/// ```
impl Reads<ResponseHead<'_>, Hints> for HttpProtocol {
    fn read_from(&self, head: &ResponseHead<'_>) -> Hints {
        let status = RateLimitStatus::in_headers(head.headers);
        let hints = match head.status {
            StatusCode::TOO_MANY_REQUESTS => Hints::REJECTED.retry_after(wire::retry_after_in(head.headers)),
            // A gateway, for example, may respond before the limit has seen the call.
            error if error.is_server_error() && status.is_none() => Hints::UNKNOWN,
            _ => Hints::ACCEPTED,
        };
        match status {
            Some(status) => hints.remaining(Some(status.remaining)).limit(status.limit).resets_in(status.resets_in),
            None => hints,
        }
    }
}
