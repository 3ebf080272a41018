//! The permit to make one call, and the verdict on how it went.

use super::{CallError, CircuitOpen};
use crate::gate::{self, Ending};
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

/// A pointer to a breaker that a [`Permit`] can hold.
///
/// One of `&CircuitBreaker`, `Arc<CircuitBreaker>` where the permit has to outlive the borrow, or the same of a
/// [`CircuitBreaker32`](crate::CircuitBreaker32) or of breakers in [shadow mode](crate::shadow::Shadowed).
pub trait BreakerRef: Deref<Target: sealed::Recorder> {}

impl<B: Deref<Target: sealed::Recorder>> BreakerRef for B {}

pub(crate) mod sealed {
    use super::{CallError, CircuitOpen, FailOnUnwind, Verdict, fmt};

    /// The methods of a breaker that its permits call.
    pub trait Recorder: fmt::Debug {
        /// Identifies an admitted call.
        type Ticket: Copy + Send + Sync + Unpin + 'static;

        fn record(&self, ticket: Self::Ticket, verdict: Verdict);
        /// Records that the permit was dropped without a verdict.
        fn abandoned(&self, ticket: Self::Ticket);
        /// Records the success of a probe whose call goes on, and returns the ticket for the rest of the call.
        fn probe_answered(&self, ticket: Self::Ticket) -> Self::Ticket;
    }

    /// A breaker, which admits calls.
    pub trait Breaker: Recorder {
        fn admit(&self) -> Result<Self::Ticket, CircuitOpen>;

        /// Makes one call if the breaker lets it pass.
        #[inline]
        fn guarded<T, E>(
            &self,
            call: impl FnOnce() -> Result<T, E>,
            classify: impl FnOnce(&Result<T, E>) -> Verdict,
        ) -> Result<T, CallError<E>> {
            let ticket = self.admit()?;
            let guard = FailOnUnwind::recorded_by(|| self.record(ticket, Verdict::Failure));
            let result = call();
            let verdict = classify(&result);
            guard.over();
            // In each arm, so that the variant of the result is not checked twice.
            match result {
                Ok(value) => {
                    self.record(ticket, verdict);
                    Ok(value)
                }
                Err(error) => {
                    self.record(ticket, verdict);
                    Err(CallError::Failed(error))
                }
            }
        }
    }
}

use sealed::{Breaker, Recorder};

/// The verdict on a call: whether its outcome speaks for or against the server.
///
/// A failure is a condition that waiting may cure: no connection, a timeout, a 5xx response. A mistake of the caller (a 404
/// response, a value that does not parse) is none. Nor is 429: that server is alive, and its response says how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Verdict {
    /// The server works. A probe that took as long as a [slow call](super::BreakerConfigBuilder::slow_rate) still counts as
    /// failed.
    Success,
    /// The server failed.
    Failure,
    /// The server failed, and asked for a pause of this duration (`Retry-After`).
    RetryAfter(Duration),
    /// The deadline passed: a failure, unless the caller gave less time than the layer's `min_budget`.
    DeadlineExceeded,
    /// No verdict, as if the call had not been made.
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

/// How a breaker reads what is known of a call.
///
/// A failure with a [`retry_after`](gate::Verdict::retry_after) is [`RetryAfter`](Verdict::RetryAfter).
impl From<&gate::Verdict> for Verdict {
    #[inline]
    fn from(verdict: &gate::Verdict) -> Self {
        match (verdict.ending, verdict.retry_after) {
            (Ending::Success | Ending::Declined | Ending::Limited, _) => Self::Success,
            (Ending::NotSent, _) => Self::Ignored,
            (_, Some(wait)) => Self::RetryAfter(wait),
            (Ending::TimedOut, None) => Self::DeadlineExceeded,
            (Ending::Unavailable | Ending::BadGateway | Ending::Failed | Ending::Broken, None) => Self::Failure,
        }
    }
}

/// The permit to make one call, which records its outcome.
///
/// A permit records one outcome. A dropped permit records none: a probe's place becomes free, and nothing is decided (unless the
/// breaker is [configured otherwise](super::BreakerConfigBuilder::abandoned_probes_fail)). If the breaker's state changed after
/// the call was permitted, its outcome is discarded. A permit may outlive the call, for a response body that is still to come.
///
/// Where [slow calls](super::BreakerConfigBuilder::slow_rate) count, the call is timed from its permit to its verdict,
/// and a probe that succeeds slowly has failed.
#[must_use = "a permit that is dropped at once records no outcome"]
pub struct Permit<B: BreakerRef> {
    /// There until the outcome is recorded.
    call: Option<AdmittedCall<B, <B::Target as Recorder>::Ticket>>,
}

/// A call that a breaker admitted.
#[derive(Clone, Copy)]
pub(crate) struct AdmittedCall<B, T> {
    pub(crate) breaker: B,
    pub(crate) ticket: T,
}

impl<B: BreakerRef> Permit<B> {
    #[inline]
    pub(crate) fn admitted_by(breaker: B) -> Result<Self, CircuitOpen>
    where
        B::Target: Breaker,
    {
        let ticket = breaker.admit()?;
        Ok(Self::of(AdmittedCall { breaker, ticket }))
    }

    #[inline]
    pub(crate) fn of(call: AdmittedCall<B, <B::Target as Recorder>::Ticket>) -> Self {
        Self { call: Some(call) }
    }

    /// Takes the call out of the permit, which then records nothing.
    #[inline]
    pub(crate) fn into_call(mut self) -> Option<AdmittedCall<B, <B::Target as Recorder>::Ticket>> {
        self.call.take()
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

    /// Records a failure with the server's `Retry-After`.
    ///
    /// If the failure opens the breaker, it stays open for at least that long, up to
    /// [`max_retry_after`](super::BreakerConfigBuilder::max_retry_after). A breaker of 32 bits records a plain failure.
    #[inline]
    pub fn failure_with_retry_after(self, retry_after: Duration) {
        self.record(Verdict::RetryAfter(retry_after));
    }

    /// Records no verdict, as if the call had not been made. A probe's place becomes free.
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
    /// If that closes the breaker, the later verdict counts for the closed state; otherwise it is discarded. A call that is no
    /// probe goes on as before.
    #[inline]
    pub fn probe_answered(&mut self) {
        if let Some(AdmittedCall { breaker, ticket }) = &mut self.call {
            *ticket = breaker.probe_answered(*ticket);
        }
    }

    /// Records `verdict` as the call's outcome.
    #[inline]
    pub fn record(self, verdict: Verdict) {
        if let Some(AdmittedCall { breaker, ticket }) = self.into_call() {
            breaker.record(ticket, verdict);
        }
    }
}

impl<B: BreakerRef> fmt::Debug for Permit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("breaker", &self.call.as_ref().map(|call| &*call.breaker))
            .finish_non_exhaustive()
    }
}

impl<B: BreakerRef> Drop for Permit<B> {
    #[inline]
    fn drop(&mut self) {
        if let Some(AdmittedCall { breaker, ticket }) = &self.call {
            breaker.abandoned(*ticket);
        }
    }
}

/// Records a failure if the code in its scope panics; the panic goes on.
///
/// It lives on the stack while that code runs, and is [over](Self::over) after it. A call that is dropped while its caller
/// unwinds has no such guard: it counts as cancelled.
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
