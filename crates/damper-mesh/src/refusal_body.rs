//! The refusal document as the body of a layer.

use crate::document::{Meta, RateLimitUsage, RateLimited, Response};
use bytes::Bytes;
use damper_http::{Head, Limited};

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
