//! What a status says about its server.

use core::time::Duration;
use damper_core::breaker::Verdict;
use http::{HeaderMap, HeaderName};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tonic_types::StatusExt;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// `UNAVAILABLE`, `DEADLINE_EXCEEDED` and `RESOURCE_EXHAUSTED` are failures, all other codes successes: what a
/// [`CircuitBreakerLayer`](super::CircuitBreakerLayer) goes by unless told otherwise.
///
/// The layer counts `RESOURCE_EXHAUSTED` with a `google.rpc.RetryInfo` as a success: that is a limiter, which is alive
/// and has said when to come back, as HTTP's 429 does.
#[must_use]
pub fn unavailability(code: Code) -> Verdict {
    Verdict::failure_if(matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted))
}

/// The verdict on the status that headers or trailers have, if they have one.
pub(super) fn verdict_in(headers: &HeaderMap, classify: &impl Fn(Code) -> Verdict) -> Option<Verdict> {
    let code = Code::from_bytes(headers.get(STATUS)?.as_bytes());
    Some(with_retry_info(code, classify(code), || retry_after_in(headers)))
}

/// The verdict on a status.
pub(super) fn verdict_on(status: &Status, classify: &impl Fn(Code) -> Verdict) -> Verdict {
    with_retry_info(status.code(), classify(status.code()), || retry_after(status))
}

/// What a `RetryInfo` makes of a failure: a limiter's refusal is none, and any other server is left alone for as long as
/// it says. Verdicts other than a plain failure stand.
fn with_retry_info(code: Code, verdict: Verdict, retry_after: impl FnOnce() -> Option<Duration>) -> Verdict {
    match verdict {
        Verdict::Failure => match retry_after() {
            None => Verdict::Failure,
            Some(_) if code == Code::ResourceExhausted => Verdict::Success,
            Some(wait) => Verdict::RetryAfter(wait),
        },
        verdict => verdict,
    }
}

/// Of details that are malformed there is none: `Status::from_header_map` would panic on them.
#[cold]
fn retry_after_in(headers: &HeaderMap) -> Option<Duration> {
    let details = HeaderMap::from_iter([(DETAILS, headers.get(DETAILS)?.clone())]);
    let details = MetadataMap::from_headers(details).get_bin(DETAILS.as_str())?.to_bytes().ok()?;
    retry_after(&Status::with_details(Code::Unknown, "", details))
}

/// The delay of the `RetryInfo`, if there is one; zero if it names none.
fn retry_after(status: &Status) -> Option<Duration> {
    Some(status.get_details_retry_info()?.retry_delay.unwrap_or_default())
}
