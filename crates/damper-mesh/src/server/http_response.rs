//! A document as a response of HTTP.

use crate::document::Response;
use crate::refusal_body::JSON;
use bytes::Bytes;
use damper_http::wire;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http_body_util::Full;

/// Writes an answer, with the status and the headers that it has over HTTP. Caches must not store it.
pub(super) fn http_response(answer: &Response) -> http::Response<Full<Bytes>> {
    let mut response = http::Response::new(Full::new(answer.to_json()));
    *response.status_mut() = answer.status();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(Some(limited)) = answer.rate_limited()
        && let Some(wait) = limited.retry_after
    {
        response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait.duration()));
    }
    response
}
