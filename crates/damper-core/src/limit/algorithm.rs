//! The operations that a limiter requires of an algorithm.

use super::{Allowed, Denied, Usage};
use crate::quota::{Quota, QuotaChange, SetQuotaError};
use crate::time::Clock;
use core::fmt;

/// An algorithm with its state and its quota, from which a [`RateLimiter`](super::RateLimiter) is made.
///
/// Only damper implements this trait. Code that is generic over it accepts a limiter of any algorithm.
pub trait Algorithm: sealed::Sealed {
    /// Whether reservations of this algorithm give back the tokens that were not used.
    #[doc(hidden)]
    const GIVES_BACK: bool = false;

    /// Takes `n` tokens if all of them are available, else none.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, if ever.
    #[inline]
    fn take(&self, n: u32, clock: &impl Clock) -> Result<Allowed, Denied> {
        self.take_revocably(n, clock).map(|(allowed, _)| allowed)
    }

    /// Gives back the `n` tokens of an earlier take, except those that have been refilled since.
    ///
    /// [`take_revocably`](Algorithm::take_revocably) returned `position` for that take.
    #[doc(hidden)]
    fn roll_back(&self, n: u32, position: TakePosition, clock: &impl Clock);

    /// Takes tokens as [`take`](Algorithm::take) does, and also returns what [`roll_back`](Algorithm::roll_back)
    /// needs.
    #[doc(hidden)]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied>;

    /// Loads the state that [`judge`](Algorithm::judge) decides on.
    ///
    /// A set of limits looks at all its limits first, then reads the clock once, then judges each limit.
    ///
    /// It returns `None` in three cases: before the first use, if the quota has no limit, and if the algorithm keeps
    /// its state in more than one word. The caller then asks [`refusal`](Algorithm::refusal) instead.
    #[doc(hidden)]
    #[inline]
    fn look(&self) -> Option<Look> {
        None
    }

    /// Decides about `n` tokens from an earlier [`look`](Algorithm::look). Writes nothing.
    ///
    /// The caller must have read the clock, as `now`, after the look.
    #[doc(hidden)]
    #[inline]
    fn judge(&self, _look: Look, _n: u32, _now: u64, _clock: &impl Clock) -> Verdict {
        Verdict::Undecided
    }

    /// Takes the tokens that [`judge`](Algorithm::judge) allowed, and returns whether it took them.
    ///
    /// It takes none if the algorithm's word has changed since the look. It may also fail spuriously.
    #[doc(hidden)]
    #[inline]
    fn take_judged(&self, _take: &JudgedTake) -> bool {
        false
    }

    /// Returns the refusal that a check of `n` tokens would get now, if any. Takes nothing.
    ///
    /// Like a refused check, it may write two things. At the first use, it writes the tick at which the quota's
    /// timeline starts. If a clock that stepped back has left a word too far ahead, it repairs that word.
    #[doc(hidden)]
    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied>;

    /// Returns how much of the limit is used, and takes nothing.
    fn usage(&self, clock: &impl Clock) -> Usage;

    /// Forgets all tokens taken, so that all of the burst is available again.
    fn reset(&self, clock: &impl Clock);

    /// Takes all available tokens and returns how many it took.
    fn drain(&self, clock: &impl Clock) -> u32 {
        let mut left = self.usage(clock).remaining();
        // The loop ends, because a refusal reports fewer tokens than were requested.
        while left > 0
            && let Err(denied) = self.take(left, clock)
        {
            left = denied.remaining();
        }
        left
    }

    /// Returns the quota in force.
    fn quota(&self) -> Quota;

    /// Puts another quota in force.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`] if another thread is changing the quota, or if the limiter cannot take over the new quota.
    /// The old quota then stays.
    fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        self.put_in_force(self.prepare_quota(quota, clock)?, clock);
        Ok(())
    }

    /// Prepares to put another quota in force.
    ///
    /// Until the returned change is put in force or dropped, other changes fail with [`SetQuotaError::Busy`].
    #[doc(hidden)]
    fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError>;

    /// Puts a prepared quota in force.
    #[doc(hidden)]
    fn put_in_force(&self, prepared: PreparedQuota<'_>, clock: &impl Clock);
}

/// A quota that fits the limiter and waits to be put in force.
#[doc(hidden)]
#[must_use]
pub struct PreparedQuota<'a>(pub(super) QuotaChange<'a>);

impl fmt::Debug for PreparedQuota<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedQuota").finish_non_exhaustive()
    }
}

/// Says where tokens were taken, so that exactly these can be given back.
///
/// - In a token bucket, it is a position on the quota's timeline.
/// - In an algorithm that counts by windows, it is the number of the window that counted the tokens.
/// - In a sliding log, it is the head of the log after the take.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakePosition {
    pub(super) at: u64,
}

impl TakePosition {
    /// Marks tokens that were not counted, such as those of a quota without a limit.
    pub(super) const UNCOUNTED: Self = Self { at: u64::MAX };
}

/// The quota's epoch (its version number) and the algorithm's word, as [`Algorithm::look`] loaded them.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub(super) epoch: usize,
    pub(super) word: u64,
}

/// The decision of [`Algorithm::judge`] on a [`Look`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// The tokens are available. The answer counts only if [`Algorithm::take_judged`] then takes them.
    Allowed(JudgedTake, Allowed),
    Refused(Denied),
    /// The look does not suffice, so the caller has to start a new decision.
    ///
    /// For example, the quota has changed since the look, or a clock that stepped back may have left the word.
    Undecided,
}

/// The compare-and-swap that takes the tokens which [`Algorithm::judge`] allowed.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct JudgedTake {
    pub(super) word: u64,
    pub(super) after: u64,
    pub(super) position: TakePosition,
}

impl Verdict {
    /// Creates the verdict for a call whose tokens were taken without [`Algorithm::judge`].
    pub(super) const fn taken(allowed: Allowed, position: TakePosition) -> Self {
        Self::Allowed(JudgedTake { word: 0, after: 0, position }, allowed)
    }

    #[inline]
    pub(super) const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(..))
    }

    /// Returns the answer if the limit allowed the call.
    #[inline]
    pub(super) const fn allowed(&self) -> Option<&Allowed> {
        if let Self::Allowed(_, allowed) = self { Some(allowed) } else { None }
    }
}

pub(super) mod sealed {
    /// Keeps other crates from implementing [`Algorithm`](super::Algorithm) and the traits built on it.
    ///
    /// An algorithm's word is valid only under the quota that it was read with, and only this crate can check that.
    pub trait Sealed {}
}
