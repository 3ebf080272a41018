//! What the head of an answer says already.

use super::code::verdict_in;
use damper_core::breaker::Verdict;
use damper_http::internal::is_grpc_type;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Response, StatusCode};
use tonic::Code;

/// The verdict, if the head says it: by a status that has nothing before it, or by being none of gRPC's.
pub(super) fn verdict<R>(answer: &Response<R>, classify: &impl Fn(Code) -> Verdict) -> Option<Verdict> {
    if let Some(verdict) = verdict_in(answer.headers(), classify) {
        return Some(verdict);
    }
    // A page where messages should be has no trailers, and nobody reads it to its end.
    let is_page = answer.headers().get(CONTENT_TYPE).is_some_and(|value| !is_grpc_type(value.as_bytes()));
    match answer.status() {
        StatusCode::OK if !is_page => None,
        // A limiter's refusal, as `RESOURCE_EXHAUSTED` with a `RetryInfo` is.
        StatusCode::TOO_MANY_REQUESTS if answer.headers().contains_key(RETRY_AFTER) => Some(Verdict::Success),
        status => Some(code_of(status).map_or(Verdict::Failure, classify)),
    }
}

/// The code that takes the place of one that is missing, by gRPC's `http-grpc-status-mapping`; `None` for what is
/// `UNKNOWN` by it.
fn code_of(status: StatusCode) -> Option<Code> {
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
