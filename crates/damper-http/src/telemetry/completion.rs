//! Logs responses that are judged by the wrong protocol.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

use http::Response;

/// Logs a gRPC response whose call is judged by HTTP, at the level debug.
///
/// Such a breaker never trips on a gRPC status. It is no error, because a proxy may pass gRPC on beside HTTP. The header
/// is looked up only while that level is enabled, so that nothing is added to a call otherwise.
#[inline]
pub(crate) fn log_grpc_judged_by_http<R>(response: &Response<R>) {
    #[cfg(feature = "tracing")]
    if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
        && let Some(content_type) = response.headers().get(http::header::CONTENT_TYPE)
        && content_type.as_bytes().starts_with(b"application/grpc")
    {
        tracing::debug!(target: "damper", "gRPC response judged by its HTTP status; `AtTrailers` judges by its gRPC status");
    }
}
