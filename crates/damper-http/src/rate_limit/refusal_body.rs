//! The response to a request that may not pass.

use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt::{self, Display, Write};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};

/// The format in which a layer answers requests that it refuses with a `T`, which displays as a sentence.
pub(crate) enum RefusalBody<T> {
    /// A line of text.
    Text,
    /// A problem document of RFC 9457.
    Problem,
    /// The user's own.
    Custom(CustomBody<T>),
}

/// Returns the content type and the bytes.
type CustomBody<T> = Arc<dyn Fn(&Head<'_>, &T) -> (&'static str, Bytes) + Send + Sync>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

impl<T: Display> RefusalBody<T> {
    /// Returns the response of this status.
    ///
    /// Caches must not store it: it is for one client, at one time.
    pub(crate) fn response(&self, head: &Head<'_>, status: StatusCode, refusal: &T) -> Response<Bytes> {
        match self {
            Self::Text => plain_text(status, refusal).map(Bytes::from),
            Self::Problem => uncached(status, Some(PROBLEM), problem(status, refusal)),
            Self::Custom(body) => {
                let (content_type, bytes) = body(head, refusal);
                // The user's content type may be no valid header value. Then it is left out.
                let content_type = HeaderValue::from_maybe_shared(Bytes::from_static(content_type.as_bytes()));
                uncached(status, content_type.ok(), bytes)
            }
        }
    }
}

impl<T> RefusalBody<T> {
    /// Creates the user's own format.
    pub(crate) fn custom<B: Into<Bytes>>(
        body: impl Fn(&Head<'_>, &T) -> (&'static str, B) + Send + Sync + 'static,
    ) -> Self {
        Self::Custom(Arc::new(move |head, refusal| {
            let (content_type, bytes) = body(head, refusal);
            (content_type, bytes.into())
        }))
    }
}

impl<T> Clone for RefusalBody<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Text => Self::Text,
            Self::Problem => Self::Problem,
            Self::Custom(body) => Self::Custom(Arc::clone(body)),
        }
    }
}

fn problem(status: StatusCode, refusal: &impl Display) -> Bytes {
    let (title, code) = (status.canonical_reason().unwrap_or_default(), status.as_u16());
    let mut json = String::with_capacity(128);
    // Writing to a string cannot fail.
    _ = write!(json, r#"{{"type":"about:blank","title":"{title}","status":{code},"detail":""#);
    _ = write!(JsonText(&mut json), "{refusal}");
    json.push_str("\"}");
    json.into()
}

/// Writes a text as JSON has it between quotation marks (RFC 8259, section 7).
struct JsonText<'a>(&'a mut String);

impl Write for JsonText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '"' | '\\' => write!(self.0, "\\{character}"),
            control @ '\0'..='\x1f' => write!(self.0, "\\u{:04x}", u32::from(control)),
            other => self.0.write_char(other),
        })
    }
}

/// Returns a response of one line of text, which caches must not store.
pub(crate) fn plain_text(status: StatusCode, text: &impl Display) -> Response<String> {
    uncached(status, Some(TEXT), line(text))
}

/// Returns a line of text. The usual ones fit the room that is reserved.
fn line(text: &impl Display) -> String {
    let mut line = String::with_capacity(64);
    // Writing to a string cannot fail.
    _ = writeln!(line, "{text}");
    line
}

/// Returns a response that caches must not store.
fn uncached<T>(status: StatusCode, content_type: Option<HeaderValue>, body: T) -> Response<T> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_document_escapes_the_refusals_text() {
        let json = problem(StatusCode::SERVICE_UNAVAILABLE, &"no \"slot\"\\\nfor ü");
        let expected =
            r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"no \"slot\"\\\u000afor ü"}"#;
        assert_eq!(json, expected);
    }
}
