//! A document as a response of HTTP.

use crate::document::Response;
use crate::refusal_body::JSON;
use bytes::Bytes;
use damper_http::wire;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use http_body_util::Full;
use std::time::Duration;

/// The layer's own action on a request. It decides the status, whatever codes the errors of a function have.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// The function was called, or the layer answered in its place.
    Served,
    /// The request could not be read.
    Unreadable,
    /// A limit of the layer refused the request; the wait, if one helps.
    Limited(Option<Duration>),
    /// The deadline passed.
    Expired,
}

/// Writes an answer, with the status and the headers that it has over HTTP. Caches must not store it.
pub(super) fn http_response(answer: &Response, outcome: Outcome) -> http::Response<Full<Bytes>> {
    let mut response = http::Response::new(Full::new(answer.to_json()));
    *response.status_mut() = match outcome {
        Outcome::Served => StatusCode::OK,
        Outcome::Unreadable => StatusCode::BAD_REQUEST,
        Outcome::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
        Outcome::Expired => StatusCode::GATEWAY_TIMEOUT,
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Outcome::Limited(Some(wait)) = outcome {
        response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait));
    }
    response
}
