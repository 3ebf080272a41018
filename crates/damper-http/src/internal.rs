//! For damper's own crates: what `damper-tonic` needs. Do not use it.
//!
//! It is public only because that is a crate of its own. It is no part of the semver promise: any of it may change or
//! go in any release, so `damper-tonic` is released together with this crate.

pub use crate::circuit_breaker::readiness::Readiness;
#[cfg(feature = "tonic")]
pub use crate::rate_limit::grpc::{is_grpc_type, refusal_status, status};

#[cfg(feature = "tonic")]
use crate::CircuitBreakerLayer;
use crate::{ClassifyEnd, WatchedBody};
use damper_core::breaker::{BreakerRef, Permit, Verdict};
use http_body::Body;

/// Returns the breakers of a layer.
#[cfg(feature = "tonic")]
pub fn breakers<B, V, W>(layer: &CircuitBreakerLayer<B, V, W>) -> &B {
    layer.breakers()
}

/// Watches a body until its end, which may be reached already, and records the verdict then.
#[inline]
pub fn watch<R: Body, B: BreakerRef, V: ClassifyEnd>(body: R, permit: Permit<B>, classify: V) -> WatchedBody<R, B, V> {
    WatchedBody::watch(body, permit, classify)
}

/// Records the verdict on the head at once, and does not watch the body.
#[inline]
pub fn settled<R: Body, B: BreakerRef, V: ClassifyEnd>(
    body: R,
    permit: Permit<B>,
    verdict: Verdict,
) -> WatchedBody<R, B, V> {
    WatchedBody::settled(body, permit, verdict)
}
