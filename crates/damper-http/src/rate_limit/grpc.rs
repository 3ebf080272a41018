//! Refusals in gRPC: which requests speak it, and the status that they get.

use super::RateLimitLayer;
use crate::Head;
use crate::limit::{Detail, Limit, NoWait, Refusal};
use crate::wire::{StatusDetails, write_grpc_pushback, write_grpc_status};
use alloc::string::String;
use bytes::Bytes;
use core::fmt::{Display, Write};
use damper_core::gate::{Refusal as _, RefusalKind};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response};

const GRPC: &[u8] = b"application/grpc";

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Returns the content type of a request of gRPC or gRPC-Web; `None` for another request.
///
/// Such a request is a POST with a content type such as `application/grpc+proto`.
///
/// gRPC refuses a call with a `200 OK`, and only a gRPC client reads the status in it. A cache could store such a
/// response to a GET.
pub(crate) fn grpc_type<'a>(head: &Head<'a>) -> Option<&'a HeaderValue> {
    if *head.method != Method::POST {
        return None;
    }
    head.headers.get(CONTENT_TYPE).filter(|value| is_grpc_type(value.as_bytes()))
}

/// Returns whether a content type is one of gRPC.
#[inline]
#[must_use]
pub fn is_grpc_type(content_type: &[u8]) -> bool {
    content_type.split_at_checked(GRPC.len()).is_some_and(|(start, rest)| {
        start.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b'-' | b';' | b' ', ..])
    })
}

/// Returns the response to a gRPC request that a rate limit refuses.
pub(super) fn response(content_type: &HeaderValue, refusal: &Refusal) -> Response<Bytes> {
    // The message leaves out the source of a limit's error, which is for callbacks and logs and not for clients.
    self::refusal(content_type, refusal.kind(), refusal, &StatusDetails::of(refusal))
}

/// Returns a response with the status of a refusal of this kind, and these details.
///
/// A limit's wait is also its pushback, which gRPC's own clients read if `RESOURCE_EXHAUSTED` is among the codes that they retry.
#[cold]
pub(crate) fn refusal(
    content_type: &HeaderValue,
    kind: RefusalKind,
    refusal: &impl Display,
    details: &StatusDetails,
) -> Response<Bytes> {
    let mut response = trailers_only(content_type, kind.grpc_code(), refusal, details);
    if let (RefusalKind::OverLimit, Some(wait)) = (kind, details.retry_after) {
        write_grpc_pushback(response.headers_mut(), wait);
    }
    response
}

/// Returns a response that has the status in its headers, and no messages.
///
/// It has the content type of the request, because gRPC-Web expects its own. To HTTP it is a `200 OK`, which caches must not store.
pub(crate) fn trailers_only(
    content_type: &HeaderValue,
    code: u32,
    message: &impl Display,
    details: &StatusDetails,
) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(CACHE_CONTROL, NO_STORE);
    write_status(headers, code, message, details);
    response
}

/// Writes a status whose message displays like this.
pub(crate) fn write_status(headers: &mut HeaderMap, code: u32, message: &impl Display, details: &StatusDetails) {
    // Most messages fit, so that it does not grow while it is written.
    let mut text = String::with_capacity(64);
    // Writing to a string cannot fail.
    _ = write!(text, "{message}");
    write_grpc_status(headers, code, &text, details);
}

/// Decides on a gRPC request that another service answers.
///
/// Returns the refusal to answer with, or `None` if it may pass. The cost that it takes is not corrected by its
/// response, which is not seen here.
#[must_use]
pub fn ask_limit<L: Limit<Future = NoWait>>(layer: &RateLimitLayer<L>, request: &Request<()>) -> Option<Refusal> {
    let (settings, head) = (&*layer.settings, layer.head(request));
    let cost = settings.cost_of(&head)?;
    let candidate = settings.ask_candidate(&head, cost);
    match settings.limit.decide(&head, cost, Detail::None).into_result() {
        Ok(_) => {
            settings.record_allowed(|| head, &candidate);
            None
        }
        Err(refusal) => {
            settings.record_refused(&head, &refusal, &candidate);
            Some(refusal)
        }
    }
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
