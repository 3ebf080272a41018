//! The permit of a call that may pass.

use super::{Ending, Verdict};
use crate::quota::Quota;
use core::time::Duration;

/// The permit of a call that may pass: it learns how the call went.
///
/// If the call is not made after all, it ends as [`NotSent`](Ending::NotSent). A permit is dropped without a word only if its caller went away.
///
/// Every method has a default, so the permit of a gate that only counts is an empty type: `()` is a permit.
///
/// # Examples
///
/// A gate that counts the calls that timed out:
///
/// ```
/// # extern crate damper_core as damper;
/// use core::sync::atomic::{AtomicU32, Ordering};
/// use damper::gate::{Ending, Permit, Verdict};
///
/// static TIMEOUTS: AtomicU32 = AtomicU32::new(0);
///
/// struct Counted;
///
/// impl Permit for Counted {
///     const HOLDS: bool = false;
///
///     fn end(self, verdict: &Verdict) {
///         if verdict.ending == Ending::TimedOut {
///             TIMEOUTS.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// Counted.end(&Verdict::of(Ending::of_status(504)));
/// Counted.panicked();
/// assert_eq!(TIMEOUTS.load(Ordering::Relaxed), 1);
/// ```
pub trait Permit: Sized {
    /// Whether the permit learns from responses. Default: `true`.
    ///
    /// If not, no deadline is read and no response is judged for it, which saves the time.
    const LEARNS: bool = true;

    /// Whether the permit holds something while the response's body streams. Default: `true`.
    ///
    /// If not, it ends with the response's head.
    const HOLDS: bool = true;

    /// Records what the head of the response says. Default: does nothing.
    ///
    /// The call goes on, and keeps what it holds.
    ///
    /// A latency from the permit to now is that of the server, without the time in which the caller reads the body.
    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        _ = verdict;
    }

    /// Records that the body has begun. Default: does nothing.
    #[inline]
    fn first_data(&mut self) {}

    /// Records how the call ended. Default: drops the permit.
    #[inline]
    fn end(self, verdict: &Verdict) {
        _ = verdict;
    }

    /// Records that the service panicked. Default: the call has [failed](Ending::Failed).
    #[inline]
    fn panicked(self) {
        self.end(&Verdict::of(Ending::Failed));
    }

    /// Returns how long a call takes while the service is not overloaded. Default: `None`, which is unknown.
    ///
    /// A call that was given less time and timed out says nothing about the service.
    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        None
    }

    /// Returns whether a gate was asked about the call. Default: `true`.
    ///
    /// A call that is exempt, or whose gate is absent, passes unasked. No metric counts it as allowed.
    #[inline]
    fn was_asked(&self) -> bool {
        true
    }
}

/// The permit of a gate that learns nothing and holds nothing.
impl Permit for () {
    const LEARNS: bool = false;
    const HOLDS: bool = false;
}

/// The permit of a gate that some calls do not pass through.
impl<P: Permit> Permit for Option<P> {
    const LEARNS: bool = P::LEARNS;
    const HOLDS: bool = P::HOLDS;

    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        if let Some(permit) = self {
            permit.answered(verdict);
        }
    }

    #[inline]
    fn first_data(&mut self) {
        if let Some(permit) = self {
            permit.first_data();
        }
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        if let Some(permit) = self {
            permit.end(verdict);
        }
    }

    #[inline]
    fn panicked(self) {
        if let Some(permit) = self {
            permit.panicked();
        }
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        self.as_ref()?.usual_latency()
    }

    #[inline]
    fn was_asked(&self) -> bool {
        self.as_ref().is_some_and(P::was_asked)
    }
}

/// The permit of two gates, of which the first is the outer one.
///
/// Both learn everything. The inner one ends first.
impl<A: Permit, B: Permit> Permit for (A, B) {
    const LEARNS: bool = A::LEARNS || B::LEARNS;
    const HOLDS: bool = A::HOLDS || B::HOLDS;

    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        self.1.answered(verdict);
        self.0.answered(verdict);
    }

    #[inline]
    fn first_data(&mut self) {
        self.1.first_data();
        self.0.first_data();
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        self.1.end(verdict);
        self.0.end(verdict);
    }

    #[inline]
    fn panicked(self) {
        self.1.panicked();
        self.0.panicked();
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        self.0.usual_latency().or_else(|| self.1.usual_latency())
    }

    #[inline]
    fn was_asked(&self) -> bool {
        self.0.was_asked() || self.1.was_asked()
    }
}

/// The standing of a limit after a decision, which response headers report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Standing {
    /// The quota that decided.
    pub quota: Quota,
    /// The tokens that are left, rounded down.
    pub remaining: u32,
    /// The time until all tokens are there; `None` if they never will be.
    pub resets_in: Option<Duration>,
}

impl Standing {
    /// Creates the standing of a limit of this quota.
    #[must_use]
    pub const fn new(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        Self { quota, remaining, resets_in }
    }
}
