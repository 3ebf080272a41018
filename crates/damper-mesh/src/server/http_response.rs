//! A document as an HTTP response.

use crate::document::Response;
use crate::refusal_body::JSON;
use bytes::Bytes;
use damper_http::wire;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use http_body_util::Full;
use std::time::Duration;

/// The layer's own action on a request, which decides the status.
///
/// The codes of a function's errors do not matter.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// The function was called, or the layer responded in its place.
    Served,
    /// The request could not be read.
    Unreadable,
    /// The method of the HTTP request is not POST.
    WrongMethod,
    /// A limit of the layer refused the request, with the wait if one helps.
    Limited(Option<Duration>),
    /// The deadline passed.
    Expired,
}

/// Writes a response with its HTTP status and headers. Caches must not store it.
pub(super) fn http_response(answer: &Response, outcome: Outcome) -> http::Response<Full<Bytes>> {
    let mut response = http::Response::new(Full::new(answer.to_json()));
    *response.status_mut() = match outcome {
        Outcome::Served => StatusCode::OK,
        Outcome::Unreadable => StatusCode::BAD_REQUEST,
        Outcome::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
        Outcome::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
        Outcome::Expired => StatusCode::GATEWAY_TIMEOUT,
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match outcome {
        Outcome::Limited(Some(wait)) => {
            response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait));
        }
        Outcome::WrongMethod => {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        _ => {}
    }
    response
}
