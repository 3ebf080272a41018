//! The answer to a gRPC request that may not pass.

use crate::Head;
use crate::limit::Refusal;
use alloc::string::ToString;
use bytes::Bytes;
use core::fmt::Display;
use core::time::Duration;
use http::header::CONTENT_TYPE;
use http::{Method, Response};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

const GRPC: &[u8] = b"application/grpc";

/// Whether a request is one of gRPC, or of gRPC-Web: a POST with a content type such as `application/grpc+proto`.
///
/// gRPC's answer to a refused call is a `200 OK`. A cache may store that of a GET, and only a client of gRPC reads the
/// status in it.
pub(super) fn is_grpc(head: &Head<'_>) -> bool {
    *head.method == Method::POST && head.headers.get(CONTENT_TYPE).is_some_and(|value| is_grpc_type(value.as_bytes()))
}

/// Whether a content type is one of gRPC.
#[must_use]
pub fn is_grpc_type(content_type: &[u8]) -> bool {
    content_type.split_at_checked(GRPC.len()).is_some_and(|(start, rest)| {
        start.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b'-' | b';' | b' ', ..])
    })
}

/// A status without anything before it: in the headers, which are the trailers at once.
pub(super) fn answer(head: &Head<'_>, refusal: &Refusal) -> Response<Bytes> {
    let mut response = status_of(refusal).into_http();
    // In the form that was asked for: gRPC-Web looks for its own.
    if let Some(content_type) = head.headers.get(CONTENT_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
    }
    response
}

/// `RESOURCE_EXHAUSTED`, or `INTERNAL` where the limit could not decide.
pub(super) fn status_of(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Limited(limited) => status(Code::ResourceExhausted, limited, limited.retry_after),
        // What went wrong is the error's source, which is for hooks and logs and not for clients.
        Refusal::Failed(error) => uncached(Status::internal(error.to_string())),
    }
}

/// A refusal as a status, with how long to wait as a `google.rpc.RetryInfo`.
pub fn status(code: Code, refusal: &impl Display, retry_after: Option<Duration>) -> Status {
    let message = refusal.to_string();
    uncached(match retry_after {
        Some(wait) => Status::with_error_details(code, message, ErrorDetails::with_retry_info(Some(wait))),
        None => Status::new(code, message),
    })
}

/// The same status with `Cache-Control: no-store`: to HTTP it is a `200 OK`, which a cache might keep.
fn uncached(mut status: Status) -> Status {
    status.metadata_mut().insert("cache-control", MetadataValue::from_static("no-store"));
    status
}

#[cfg(test)]
mod tests {
    use super::is_grpc_type;

    #[test]
    fn grpc_is_told_from_others() {
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
