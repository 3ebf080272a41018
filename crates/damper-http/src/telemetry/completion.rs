//! Logs responses that are judged by the wrong protocol.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

#[cfg(feature = "tracing")]
use core::sync::atomic::{AtomicBool, Ordering};
use http::Response;

/// Logs a gRPC response whose call is judged by HTTP.
///
/// The first of the process is logged at the level warn, others at debug.
///
/// Such a breaker never trips on a gRPC status, and nothing else shows that. It is no error, because a proxy may pass gRPC on beside HTTP. Once
/// the warning is logged, the header is looked up only while the level debug is enabled.
#[inline]
pub(crate) fn log_grpc_judged_by_http<R>(response: &Response<R>) {
    #[cfg(feature = "tracing")]
    {
        // ORDERING: Relaxed, here and below: a flag, through which nothing is published.
        let is_warned = WARNED.load(Ordering::Relaxed);
        let is_logged = if is_warned {
            tracing::enabled!(target: "damper", tracing::Level::DEBUG)
        } else {
            tracing::enabled!(target: "damper", tracing::Level::WARN)
        };
        if is_logged
            && let Some(content_type) = response.headers().get(http::header::CONTENT_TYPE)
            && content_type.as_bytes().starts_with(b"application/grpc")
        {
            log();
        }
    }
}

/// Whether the warning was logged.
#[cfg(feature = "tracing")]
static WARNED: AtomicBool = AtomicBool::new(false);

#[cfg(feature = "tracing")]
#[cold]
fn log() {
    if WARNED.swap(true, Ordering::Relaxed) {
        tracing::debug!(target: "damper", "gRPC response judged by its HTTP status; `AtTrailers` judges by its gRPC status");
    } else {
        tracing::warn!(
            target: "damper",
            "gRPC response judged by its HTTP status, so its breaker or throttle sees no gRPC failure: set \
             `.completion(AtTrailers::new())` on a breaker's layer, `AtTrailers::rejections()` on a throttle's (logged once)"
        );
    }
}
