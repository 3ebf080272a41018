//! Documents as HTTP responses, and the body of a refusal.

use crate::document::{Meta, RateLimitUsage, RateLimited, Response};
use bytes::Bytes;
use damper_http::{Head, Limited, wire};
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

/// The content type of documents.
pub(crate) const JSON: &str = "application/json";

/// Returns a [body](damper_http::RateLimitLayer::body) for refusals of a `RateLimitLayer`.
///
/// It has the error `RATE_LIMITED` and the usage of the limit.
///
/// The layer does not read request bodies, so it does not know their ids. The closure may find an id in the head;
/// otherwise the document has null. If the id matters, use a [`MeshLayer`](crate::MeshLayer).
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; pub extern crate damper_http as http; }
/// use damper::Quota;
/// use damper::http::RateLimitLayer;
/// use damper::mesh::refusal_body;
///
/// let id = refusal_body(|head| head.headers.get("x-request-id")?.to_str().ok().map(str::to_owned));
/// let layer = RateLimitLayer::global(Quota::per_minute(1_000)).body(id);
/// # let _ = layer;
/// ```
pub fn refusal_body(
    id_of: impl Fn(&Head<'_>) -> Option<String> + Send + Sync + 'static,
) -> impl Fn(&Head<'_>, &Limited) -> (&'static str, Bytes) + Send + Sync + 'static {
    move |head, limited| {
        let usage = RateLimitUsage::of_standing(&limited.standing());
        let response = Response::error(id_of(head), RateLimited::by_layer(limited))
            .with_meta(usage.map(Meta::of).unwrap_or_default());
        (JSON, response.to_json())
    }
}
