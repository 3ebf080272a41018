//! The verdict of a status on its server, and where a response has its status.

use core::time::Duration;
use damper_core::breaker;
use damper_core::gate::{Ending, Verdict};
use damper_http::internal::is_grpc_type;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tonic_types::StatusExt;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(super) const PUSHBACK_KEY: &str = "grpc-retry-pushback-ms";
pub(super) const PUSHBACK: HeaderName = HeaderName::from_static(PUSHBACK_KEY);
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// Says how a call with this code ended, for a breaker.
///
/// It is a failure if the server cannot serve now. Failures are `UNAVAILABLE`, `DEADLINE_EXCEEDED` and `RESOURCE_EXHAUSTED`, which is taken as [`Ending::Unavailable`] here.
///
/// This is the default of [`AtTrailers::classify`](crate::AtTrailers::classify).
///
/// [`AtTrailers`](crate::AtTrailers) counts `RESOURCE_EXHAUSTED` with a `google.rpc.RetryInfo` as [`Ending::Limited`]: that is a limiter, which is
/// alive and has said when to come back, as HTTP's 429 does.
#[must_use]
pub const fn unavailability(code: Code) -> Ending {
    match code {
        // Without a `RetryInfo` it may be the server's own resources that are exhausted.
        Code::ResourceExhausted => Ending::Unavailable,
        code => Ending::of_grpc_code(code as u32),
    }
}

/// Says how a call with this code ended, for a throttle.
///
/// As [`unavailability`], but `RESOURCE_EXHAUSTED` is ignored: that is about one quota or one message: one tenant beyond its quota would have the calls of all others refused.
///
/// This is the rule of [`AtTrailers::rejections`](crate::AtTrailers::rejections).
#[must_use]
pub const fn rejection(code: Code) -> Ending {
    Ending::of_grpc_code(code as u32)
}

/// Returns the verdict on the head of a response, if it has a status or is no response of gRPC.
pub(super) fn verdict_on_head<R, T: Into<Verdict>>(
    response: &Response<R>,
    classify: &impl Fn(Code) -> T,
) -> Option<Verdict> {
    if let Some(verdict) = verdict_in(response.headers(), classify) {
        return Some(verdict);
    }
    // A page in the place of messages has no trailers, and the client does not read it to its end.
    let is_page = response.headers().get(CONTENT_TYPE).is_some_and(|value| !is_grpc_type(value.as_bytes()));
    match response.status() {
        StatusCode::OK if !is_page => None,
        // A limiter's refusal, as `RESOURCE_EXHAUSTED` with a `RetryInfo` is.
        StatusCode::TOO_MANY_REQUESTS if response.headers().contains_key(RETRY_AFTER) => {
            let code = Code::ResourceExhausted;
            Some(with_retry_info(code, classify(code).into(), || Some(Duration::ZERO)))
        }
        status => Some(code_of(status).map_or(Verdict::of(Ending::Broken), |code| classify(code).into())),
    }
}

/// Returns the code that gRPC's `http-grpc-status-mapping` gives a response without one.
///
/// `None` if that is `UNKNOWN`.
pub(super) fn code_of(status: StatusCode) -> Option<Code> {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Some(Code::Internal),
        StatusCode::UNAUTHORIZED => Some(Code::Unauthenticated),
        StatusCode::FORBIDDEN => Some(Code::PermissionDenied),
        StatusCode::NOT_FOUND => Some(Code::Unimplemented),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Some(Code::Unavailable),
        _ => None,
    }
}

/// Returns the verdict on the status in headers or trailers, if they have one.
pub(super) fn verdict_in<T: Into<Verdict>>(headers: &HeaderMap, classify: &impl Fn(Code) -> T) -> Option<Verdict> {
    let code = Code::from_bytes(headers.get(STATUS)?.as_bytes());
    Some(with_retry_info(code, classify(code).into(), || retry_after_in(headers)))
}

/// Returns the verdict on a status.
pub(super) fn verdict_on<T: Into<Verdict>>(status: &Status, classify: &impl Fn(Code) -> T) -> Verdict {
    with_retry_info(status.code(), classify(status.code()).into(), || retry_after(status))
}

/// Adjusts a failure by the `RetryInfo` of its status.
///
/// A limiter's refusal is no failure, and any other failure keeps the breaker open for that time. Other verdicts are not
/// changed.
fn with_retry_info(code: Code, verdict: Verdict, retry_after: impl FnOnce() -> Option<Duration>) -> Verdict {
    match (&verdict).into() {
        breaker::Verdict::Failure | breaker::Verdict::DeadlineExceeded => match retry_after() {
            None => verdict,
            Some(_) if code == Code::ResourceExhausted => Verdict::of(Ending::Limited),
            wait => verdict.with_retry_after(wait),
        },
        _ => verdict,
    }
}

/// Malformed details have no `RetryInfo`. (`Status::from_header_map` would panic on them.)
#[cold]
pub(super) fn retry_after_in(headers: &HeaderMap) -> Option<Duration> {
    let details = HeaderMap::from_iter([(DETAILS, headers.get(DETAILS)?.clone())]);
    let details = MetadataMap::from_headers(details).get_bin(DETAILS.as_str())?.to_bytes().ok()?;
    retry_after(&Status::with_details(Code::Unknown, "", details))
}

/// Returns the server's pushback, if it allows a retry.
pub(super) fn pushback_in(headers: &HeaderMap) -> Option<Duration> {
    let mut values = headers.get_all(PUSHBACK).into_iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let millis = value.to_str().ok()?.parse::<i32>().ok()?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// Returns the delay of the `RetryInfo`, if there is one; zero if it has no delay.
pub(super) fn retry_after(status: &Status) -> Option<Duration> {
    Some(status.get_details_retry_info()?.retry_delay.unwrap_or_default())
}
