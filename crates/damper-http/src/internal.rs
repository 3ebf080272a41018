//! For damper's own crates: what `damper-tonic` needs and nobody else should.
//!
//! It is public only because that is a crate of its own. It is no part of the semver promise: any of it may change or go
//! in any release, so `damper-tonic` is released together with this crate.

pub use crate::circuit_breaker::readiness::Readiness;
#[cfg(feature = "tonic")]
pub use crate::rate_limit::grpc::{is_grpc_type, status};

#[cfg(feature = "tonic")]
use crate::{Answer, CircuitBreakerLayer, Head, Limit, RateLimitLayer};
use crate::{Ending, WatchedBody};
use damper_core::breaker::{BreakerRef, Permit, Verdict};
use http_body::Body;

/// The breakers of a layer.
#[cfg(feature = "tonic")]
pub fn breakers<B, V, W>(layer: &CircuitBreakerLayer<B, V, W>) -> &B {
    layer.breakers()
}

/// Decides on a request of gRPC that is answered by somebody else: with this status, if it may not pass.
#[cfg(feature = "tonic")]
#[must_use]
pub fn refused<L: Limit<Later = core::future::Ready<Answer>>>(
    layer: &RateLimitLayer<L>,
    head: &Head<'_>,
) -> Option<tonic::Status> {
    layer.refused(head)
}

/// A body that tells its verdict at its end, unless it is over already.
#[inline]
pub fn watch<R: Body, B: BreakerRef, V: Ending>(body: R, permit: Permit<B>, ending: V) -> WatchedBody<R, B, V> {
    WatchedBody::watch(body, permit, ending)
}

/// A body whose head said the verdict, which is told at once.
#[inline]
pub fn settled<R: Body, B: BreakerRef, V: Ending>(
    body: R,
    permit: Permit<B>,
    verdict: Verdict,
) -> WatchedBody<R, B, V> {
    WatchedBody::settled(body, permit, verdict)
}
