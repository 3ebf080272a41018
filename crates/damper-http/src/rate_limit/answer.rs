//! The answer to a request that may not pass.

use crate::Head;
use crate::limit::{LimitError, Limited, Refusal};
use crate::wire;
use alloc::format;
use alloc::sync::Arc;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

/// What the body of a refusal is.
#[derive(Clone)]
pub(super) enum Body {
    /// A line.
    Text,
    /// A problem document of RFC 9457.
    Problem,
    /// Somebody else's: the content type, and the bytes.
    Own(Own),
}

type Own = Arc<dyn Fn(&Head<'_>, &Limited) -> (&'static str, Bytes) + Send + Sync>;

const TEXT: &str = "text/plain; charset=utf-8";

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Answers a request that may not pass, in the protocol that it speaks. No cache may store a refusal: it is one client's,
/// and of one moment.
pub(super) fn answer(body: &Body, head: &Head<'_>, refusal: &Refusal) -> Response<Bytes> {
    #[cfg(feature = "tonic")]
    if super::grpc::is_grpc(head) {
        return super::grpc::answer(head, refusal);
    }
    match refusal {
        Refusal::Limited(limited) => too_many_requests(body, head, limited),
        Refusal::Failed(error) => internal_error(error),
    }
}

/// `429 Too Many Requests`.
fn too_many_requests(body: &Body, head: &Head<'_>, limited: &Limited) -> Response<Bytes> {
    let (content_type, bytes) = match body {
        Body::Text => (TEXT, format!("{limited}\n").into()),
        Body::Problem => ("application/problem+json", problem(limited)),
        Body::Own(body) => body(head, limited),
    };
    let mut response = response(StatusCode::TOO_MANY_REQUESTS, content_type, bytes);
    if let Some(wait) = limited.retry_after {
        response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait));
    }
    response
}

/// A sentence of ours has nothing that JSON would have to escape.
fn problem(limited: &Limited) -> Bytes {
    format!(r#"{{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"{limited}"}}"#).into()
}

/// `500 Internal Server Error`. What went wrong is the error's source, which is for hooks and logs and not for clients.
fn internal_error(error: &LimitError) -> Response<Bytes> {
    response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n").into())
}

fn response(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Bytes> {
    let mut response = Response::new(bytes);
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    // A content type that is none is left out.
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}
