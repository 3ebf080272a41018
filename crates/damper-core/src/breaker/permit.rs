//! The permission to make one call.

use super::admission::Admitted;
use super::{CircuitBreaker, OnStateChange, Verdict};
use crate::time::Clock;
use core::fmt;
use core::time::Duration;

/// A reference to a breaker that a [`Permit`] can hold: `&CircuitBreaker`, or `Arc<CircuitBreaker>` where the
/// permit has to outlive the borrow.
pub trait BreakerRef: sealed::Sealed {
    /// The breaker's clock.
    type Clock: Clock;

    /// Who is told of its changes.
    type Listener: OnStateChange;

    /// The breaker.
    fn breaker(&self) -> &CircuitBreaker<Self::Clock, Self::Listener>;
}

mod sealed {
    /// Permits are given by breakers only.
    pub trait Sealed {}
}

impl<C: Clock, L: OnStateChange> sealed::Sealed for &CircuitBreaker<C, L> {}

impl<C: Clock, L: OnStateChange> BreakerRef for &CircuitBreaker<C, L> {
    type Clock = C;
    type Listener = L;

    #[inline]
    fn breaker(&self) -> &CircuitBreaker<C, L> {
        self
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<C: Clock, L: OnStateChange> sealed::Sealed for alloc::sync::Arc<CircuitBreaker<C, L>> {}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<C: Clock, L: OnStateChange> BreakerRef for alloc::sync::Arc<CircuitBreaker<C, L>> {
    type Clock = C;
    type Listener = L;

    #[inline]
    fn breaker(&self) -> &CircuitBreaker<C, L> {
        self
    }
}

/// The permission to make one call, and the way to tell its outcome.
///
/// One outcome is told; a permit that is dropped tells none: a probe then gives its place back, and nothing is
/// decided (unless the breaker is [told otherwise](super::BreakerConfigBuilder::abandoned_probes_fail)). The
/// outcome of a call that was permitted before the breaker's last change of state changes nothing. It may outlive
/// the call, for a body that is still to come.
///
/// Where [slow calls](super::BreakerConfigBuilder::slow_rate) count, the call is timed from its permit to its verdict,
/// and a probe that succeeds slowly has failed.
#[must_use = "a permit that is dropped at once tells no outcome"]
pub struct Permit<B: BreakerRef> {
    breaker: B,
    admitted: Admitted,
    settled: bool,
}

impl<B: BreakerRef> Permit<B> {
    #[inline]
    pub(super) fn new(breaker: B, admitted: Admitted) -> Self {
        Self { breaker, admitted, settled: false }
    }

    /// The call succeeded. A slow probe counts as failed where [slow calls](super::BreakerConfigBuilder::slow_rate) do.
    #[inline]
    pub fn success(self) {
        self.record(Verdict::Success);
    }

    /// The call failed.
    #[inline]
    pub fn failure(self) {
        self.record(Verdict::Failure);
    }

    /// The call failed, and the callee asked to be left alone for so long: if this opens the breaker, it stays open
    /// for no less, up to [`max_retry_after`](super::BreakerConfigBuilder::max_retry_after).
    #[inline]
    pub fn failure_with_retry_after(self, retry_after: Duration) {
        self.record(Verdict::RetryAfter(retry_after));
    }

    /// The call says nothing about what was called: as if it had not been made. A probe gives its place back.
    #[inline]
    pub fn ignore(self) {
        self.record(Verdict::Ignored);
    }

    /// Records a success for `Ok` and a failure for `Err`.
    #[inline]
    pub fn record_result<T, E>(self, result: &Result<T, E>) {
        self.record(Verdict::of(result));
    }

    /// Counts a probe as a success though its call goes on, because what was called has answered.
    ///
    /// If that closes the breaker, the verdict that is told later is one on a call of the closed state; otherwise it
    /// changes nothing. A call that is no probe goes on as it is.
    #[inline]
    pub fn probe_answered(&mut self) {
        self.admitted = self.breaker.breaker().probe_answered(self.admitted);
    }

    /// Records `verdict` as the call's outcome.
    #[inline]
    pub fn record(mut self, verdict: Verdict) {
        self.settled = true;
        self.breaker.breaker().record_verdict(self.admitted, verdict);
    }
}

impl<B: BreakerRef> fmt::Debug for Permit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("breaker", self.breaker.breaker()).finish_non_exhaustive()
    }
}

impl<B: BreakerRef> Drop for Permit<B> {
    #[inline]
    fn drop(&mut self) {
        if !self.settled {
            self.breaker.breaker().abandoned(self.admitted);
        }
    }
}
