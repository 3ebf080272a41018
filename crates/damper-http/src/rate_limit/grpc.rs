//! Refusals in gRPC: which requests speak it, and the status that they get.

use super::RateLimitLayer;
use super::gate::Decided;
use crate::Head;
use crate::limit::{Detail, Limit, NoWait, Refusal};
use alloc::string::{String, ToString};
use bytes::Bytes;
use core::fmt::{Display, Write};
use core::time::Duration;
use damper_core::gate::RefusalKind;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

const GRPC: &[u8] = b"application/grpc";

/// The metadata that tells gRPC's own clients when to retry.
///
/// They do not read the details of a status.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Returns whether a request is one of gRPC or gRPC-Web.
///
/// Such a request is a POST with a content type such as `application/grpc+proto`.
///
/// gRPC refuses a call with a `200 OK`, and only a gRPC client reads the status in it. A cache could store such a
/// response to a GET.
pub(crate) fn is_grpc(head: &Head<'_>) -> bool {
    *head.method == Method::POST && head.headers.get(CONTENT_TYPE).is_some_and(|value| is_grpc_type(value.as_bytes()))
}

/// Returns whether a content type is one of gRPC.
#[inline]
#[must_use]
pub fn is_grpc_type(content_type: &[u8]) -> bool {
    content_type.split_at_checked(GRPC.len()).is_some_and(|(start, rest)| {
        start.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b'-' | b';' | b' ', ..])
    })
}

/// Returns a response that has the status in its headers, and no messages.
pub(super) fn response(head: &Head<'_>, refusal: &Refusal) -> Response<Bytes> {
    trailers_only(status_of(refusal), head.headers.get(CONTENT_TYPE).cloned())
}

/// Returns a response with this status in its headers, and the request's content type.
///
/// gRPC-Web expects its own.
pub(crate) fn trailers_only(status: Status, content_type: Option<HeaderValue>) -> Response<Bytes> {
    let mut response = status.into_http();
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

/// Returns a response with the status of a refusal of this kind, and this wait.
pub(crate) fn refusal(head: &Head<'_>, kind: RefusalKind, refusal: &impl Display, wait: Duration) -> Response<Bytes> {
    let code = Code::from_i32(kind.grpc_code().cast_signed());
    trailers_only(status(code, refusal, Some(wait)), head.headers.get(CONTENT_TYPE).cloned())
}

/// Decides on a gRPC request that another service answers.
///
/// Returns the status to refuse it with, or `None` if it may pass. The cost that it takes is not corrected by its
/// response, which is not seen here.
#[must_use]
pub fn refusal_status<L: Limit<Future = NoWait>>(layer: &RateLimitLayer<L>, request: &Request<()>) -> Option<Status> {
    let (settings, head) = (&*layer.settings, layer.head(request));
    let cost = settings.cost_of(&head)?;
    let candidate = settings.ask_candidate(&head, cost);
    match settings.limit.decide(&head, cost, Detail::None).into_result() {
        Ok(_) => {
            settings.record_allowed(&head, &candidate);
            None
        }
        Err(decision) => {
            let refused = Decided { decision, cost, candidate };
            settings.record_refused(&head, &refused);
            Some(status_of(&refused.decision))
        }
    }
}

fn status_of(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Limited(limited) => status(Code::ResourceExhausted, limited, limited.retry_after()),
        // The message leaves out the error's source, which is for callbacks and logs and not for clients.
        Refusal::Failed(error) => uncached(Status::internal(error.to_string())),
    }
}

/// Returns a wait as the value of [`PUSHBACK`], rounded up; `None` if it is too long for one.
fn pushback_millis(wait: Duration) -> Option<i32> {
    i32::try_from(wait.as_nanos().div_ceil(1_000_000)).ok()
}

/// Returns a refusal as a status, with the wait as a `google.rpc.RetryInfo`.
///
/// A limit's wait is also its pushback, which gRPC's own clients read if `RESOURCE_EXHAUSTED` is among the codes that they retry.
pub fn status(code: Code, refusal: &impl Display, retry_after: Option<Duration>) -> Status {
    // Most messages fit, so that it does not grow while it is written.
    let mut message = String::with_capacity(64);
    // Writing to a string cannot fail.
    _ = write!(message, "{refusal}");
    let mut status = match retry_after {
        Some(wait) => Status::with_error_details(code, message, ErrorDetails::with_retry_info(Some(wait))),
        None => Status::new(code, message),
    };
    if code == Code::ResourceExhausted
        && let Some(millis) = retry_after.and_then(pushback_millis)
    {
        status.metadata_mut().insert(PUSHBACK, millis.into());
    }
    uncached(status)
}

/// Adds `Cache-Control: no-store`: to HTTP the status is a `200 OK`, which a cache might store.
fn uncached(mut status: Status) -> Status {
    status.metadata_mut().insert("cache-control", MetadataValue::from_static("no-store"));
    status
}

#[cfg(test)]
mod tests {
    use super::is_grpc_type;

    #[test]
    fn recognizes_grpc_content_types() {
        for content_type in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;charset=utf-8",
            "Application/GRPC",
            "application/grpc-web-text+proto",
        ] {
            assert!(is_grpc_type(content_type.as_bytes()), "{content_type}");
        }
        for content_type in ["", "application/json", "application/grpcs", "text/html; application/grpc"] {
            assert!(!is_grpc_type(content_type.as_bytes()), "{content_type}");
        }
    }
}
