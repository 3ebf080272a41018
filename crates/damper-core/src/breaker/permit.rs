//! The permit to make one call, and the verdict on how it went.

use super::circuit::Ticket;
use super::{CircuitBreaker, OnStateChange};
use crate::time::Clock;
use core::fmt;
use core::time::Duration;

/// A reference to a breaker that a [`Permit`] can hold: `&CircuitBreaker`, or `Arc<CircuitBreaker>` where the
/// permit has to outlive the borrow.
pub trait BreakerRef: sealed::Sealed {
    /// The breaker's clock.
    type Clock: Clock;

    /// The listener for its state changes.
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

/// The verdict on a call: whether its outcome speaks for or against the server.
///
/// A failure is what waiting may cure: no connection, a timeout, a 5xx response. A mistake of the caller's (a 404
/// response, a value that does not parse) is none, and neither is 429: that server is alive, and says itself how long to
/// wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Verdict {
    /// It works. A probe that took as long as a [slow call](super::BreakerConfigBuilder::slow_rate) counts as failed
    /// nevertheless.
    Success,
    /// It failed.
    Failure,
    /// It failed, and asked for a pause of this duration (`Retry-After`).
    RetryAfter(Duration),
    /// Nothing, as if the call had not been made.
    Ignored,
}

impl Verdict {
    /// Returns a success for `Ok` and a failure for `Err`.
    #[must_use]
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        Self::failure_if(result.is_err())
    }

    /// Returns a failure if `failed`, otherwise a success.
    #[must_use]
    pub fn failure_if(failed: bool) -> Self {
        if failed { Self::Failure } else { Self::Success }
    }
}

/// The permit to make one call, which records its outcome.
///
/// A permit records one outcome. A permit that is dropped records none: a probe's place becomes free, and nothing is
/// decided (unless the breaker is [configured otherwise](super::BreakerConfigBuilder::abandoned_probes_fail)). The
/// outcome of a call that was permitted before the breaker's last state change is discarded. A permit may outlive the
/// call, for a body that is still to come.
///
/// Where [slow calls](super::BreakerConfigBuilder::slow_rate) count, the call is timed from its permit to its verdict,
/// and a probe that succeeds slowly has failed.
#[must_use = "a permit that is dropped at once records no outcome"]
pub struct Permit<B: BreakerRef> {
    breaker: B,
    ticket: Ticket,
    settled: bool,
}

impl<B: BreakerRef> Permit<B> {
    #[inline]
    pub(super) fn new(breaker: B, ticket: Ticket) -> Self {
        Self { breaker, ticket, settled: false }
    }

    /// Records a success. A slow probe counts as failed where [slow calls](super::BreakerConfigBuilder::slow_rate) do.
    #[inline]
    pub fn success(self) {
        self.record(Verdict::Success);
    }

    /// Records a failure.
    #[inline]
    pub fn failure(self) {
        self.record(Verdict::Failure);
    }

    /// Records a failure, with the server's `Retry-After`: if this opens the breaker, it stays open for no less, up to
    /// [`max_retry_after`](super::BreakerConfigBuilder::max_retry_after).
    #[inline]
    pub fn failure_with_retry_after(self, retry_after: Duration) {
        self.record(Verdict::RetryAfter(retry_after));
    }

    /// Records that the call says nothing about the server, as if it had not been made. A probe's place becomes free.
    #[inline]
    pub fn ignore(self) {
        self.record(Verdict::Ignored);
    }

    /// Records a success for `Ok` and a failure for `Err`.
    #[inline]
    pub fn record_result<T, E>(self, result: &Result<T, E>) {
        self.record(Verdict::of(result));
    }

    /// Records the success of a probe whose call goes on, because the server has responded.
    ///
    /// If that closes the breaker, the verdict that is recorded later is one on a call of the closed state; otherwise it
    /// is discarded. A call that is no probe goes on as it is.
    #[inline]
    pub fn probe_answered(&mut self) {
        self.ticket = self.breaker.breaker().circuit.probe_answered(self.ticket);
    }

    /// Records `verdict` as the call's outcome.
    #[inline]
    pub fn record(mut self, verdict: Verdict) {
        self.settled = true;
        self.breaker.breaker().circuit.record(self.ticket, verdict);
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
            self.breaker.breaker().circuit.abandoned(self.ticket);
        }
    }
}

/// Records a failure if the code in its scope panics; the panic goes on.
///
/// It stands on the stack while that code runs, and is [over](Self::over) after it. A call that is dropped while its
/// caller unwinds has no such guard: it counts as cancelled.
#[must_use = "it guards while it is in scope"]
pub(crate) struct FailOnUnwind<F: FnMut()>(F);

impl<F: FnMut()> FailOnUnwind<F> {
    /// Guards a call whose failure `record` records.
    #[inline]
    pub(crate) fn recorded_by(record: F) -> Self {
        Self(record)
    }

    /// Ends the guard: the code has returned.
    #[inline]
    pub(crate) fn over(self) {
        core::mem::forget(self);
    }
}

impl<F: FnMut()> Drop for FailOnUnwind<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}
