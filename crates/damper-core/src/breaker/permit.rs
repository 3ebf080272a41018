//! The permit to make one call, and the verdict on how it went.

use super::CircuitOpen;
use crate::gate::{self, Ending};
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

/// A pointer to a breaker that a [`Permit`] can hold.
///
/// One of `&CircuitBreaker`, `Arc<CircuitBreaker>` where the permit has to outlive the borrow, or the same of a
/// [`CircuitBreaker32`](crate::CircuitBreaker32) or of breakers in [shadow mode](crate::shadow::Shadowed).
pub trait BreakerRef: Deref<Target: Breaker> {}

impl<B: Deref<Target: Breaker>> BreakerRef for B {}

/// Admits calls and records their outcomes.
///
/// No other crate can name this trait, so all breakers are damper's own.
pub trait Breaker: fmt::Debug {
    /// Identifies an admitted call.
    type Ticket: Copy + Send + Sync + Unpin + 'static;

    /// Lets a call pass, or refuses it.
    fn admit(&self) -> Result<Self::Ticket, CircuitOpen>;

    /// Records the outcome of an admitted call.
    fn record(&self, ticket: Self::Ticket, verdict: Verdict);

    /// Records that the permit was dropped without a verdict.
    fn abandoned(&self, ticket: Self::Ticket);

    /// Records a probe's success while its call goes on. The ticket becomes that of the rest of the call.
    ///
    /// If the success closes the breaker, the rest counts as a call of the closed state; otherwise its outcome is discarded.
    /// A call that is no probe keeps its ticket.
    fn probe_answered(&self, ticket: &mut Self::Ticket);
}

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
    /// The breaker and the ticket of the call; `None` once the outcome is recorded.
    call: Option<(B, <B::Target as Breaker>::Ticket)>,
}

impl<B: BreakerRef> Permit<B> {
    #[inline]
    pub(crate) fn admitted_by(breaker: B) -> Result<Self, CircuitOpen> {
        let ticket = breaker.admit()?;
        Ok(Self { call: Some((breaker, ticket)) })
    }

    /// Takes the call out of the permit, which then records nothing.
    ///
    /// It is a function of its own, so that `record` does not contain the drop of a permit. That saves ten instructions.
    #[inline]
    fn into_call(mut self) -> Option<(B, <B::Target as Breaker>::Ticket)> {
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
        if let Some((breaker, ticket)) = &mut self.call {
            breaker.probe_answered(ticket);
        }
    }

    /// Records `verdict` as the call's outcome.
    #[inline]
    pub fn record(self, verdict: Verdict) {
        if let Some((breaker, ticket)) = self.into_call() {
            breaker.record(ticket, verdict);
        }
    }
}

impl<B: BreakerRef> fmt::Debug for Permit<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("breaker", &self.call.as_ref().map(|(breaker, _)| &**breaker))
            .finish_non_exhaustive()
    }
}

impl<B: BreakerRef> Drop for Permit<B> {
    #[inline]
    fn drop(&mut self) {
        if let Some((breaker, ticket)) = &self.call {
            breaker.abandoned(*ticket);
        }
    }
}
