//! The response to a request that may not pass.

use crate::Head;
use crate::limit::{LimitError, Limited, Refusal};
use crate::wire;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt::{self, Write};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

/// The format in which a layer answers requests over the limit.
#[derive(Clone)]
pub(super) enum RefusalBody {
    /// A line of text.
    Text,
    /// A problem document of RFC 9457.
    Problem,
    /// The user's own.
    Custom(CustomBody),
}

/// Returns the content type and the bytes.
type CustomBody = Arc<dyn Fn(&Head<'_>, &Limited) -> (&'static str, Bytes) + Send + Sync>;

const TEXT: &str = "text/plain; charset=utf-8";

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

impl RefusalBody {
    /// Returns the response to a request that may not pass, in the request's protocol.
    ///
    /// Caches must not store it: it is for one client, at one time.
    pub(super) fn response(&self, head: &Head<'_>, refusal: &Refusal) -> Response<Bytes> {
        #[cfg(feature = "tonic")]
        if super::grpc::is_grpc(head) {
            return super::grpc::response(head, refusal);
        }
        match refusal {
            Refusal::Limited(limited) => self.too_many_requests(head, limited),
            Refusal::Failed(error) => internal_server_error(error),
        }
    }

    fn too_many_requests(&self, head: &Head<'_>, limited: &Limited) -> Response<Bytes> {
        let (content_type, bytes) = match self {
            Self::Text => (TEXT, line(limited)),
            Self::Problem => ("application/problem+json", problem(limited)),
            Self::Custom(body) => body(head, limited),
        };
        let mut response = uncached(StatusCode::TOO_MANY_REQUESTS, content_type, bytes);
        if let Some(wait) = limited.retry_after {
            response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait));
        }
        response
    }
}

/// `Limited` displays no character that JSON would have to escape.
fn problem(limited: &Limited) -> Bytes {
    format!(r#"{{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"{limited}"}}"#).into()
}

/// The body leaves out the error's source, which is for callbacks and logs and not for clients.
fn internal_server_error(error: &LimitError) -> Response<Bytes> {
    plain_text(StatusCode::INTERNAL_SERVER_ERROR, error)
}

/// Returns a response of one line of text, which caches must not store.
pub(crate) fn plain_text(status: StatusCode, text: &impl fmt::Display) -> Response<Bytes> {
    uncached(status, TEXT, line(text))
}

/// Returns a line of text. The usual ones fit the room that is reserved.
fn line(text: &impl fmt::Display) -> Bytes {
    let mut line = String::with_capacity(64);
    // Writing to a string cannot fail.
    _ = writeln!(line, "{text}");
    line.into()
}

/// Returns a response that caches must not store.
fn uncached(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Bytes> {
    let mut response = Response::new(bytes);
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    // The user's content type may be no valid header value. Then it is left out.
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from_static(content_type.as_bytes())) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}
