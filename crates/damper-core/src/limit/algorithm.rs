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

    /// Gives back the `n` tokens that were taken at `position`, except those that were refilled since.
    #[doc(hidden)]
    fn roll_back(&self, n: u32, position: TakePosition, clock: &impl Clock);

    /// Takes tokens like [`take`](Algorithm::take), and returns the position that [`roll_back`](Algorithm::roll_back) needs.
    #[doc(hidden)]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied>;

    /// Loads the inputs that a decision needs before it reads the clock, for a decision on several limits.
    ///
    /// It returns `None` before the first use, if the quota has no limit, or if the algorithm has more than one word.
    /// Then [`refusal`](Algorithm::refusal) must be asked instead.
    #[doc(hidden)]
    #[inline]
    fn look(&self) -> Option<Look> {
        None
    }

    /// Decides about `n` tokens by a [`look`](Algorithm::look) and the clock's reading `now`, made after it.
    ///
    /// It writes nothing.
    #[doc(hidden)]
    #[inline]
    fn judge(&self, _look: Look, _n: u32, _now: u64, _clock: &impl Clock) -> Verdict {
        Verdict::Undecided
    }

    /// Takes what [`judge`](Algorithm::judge) allowed, unless the word has changed since the look.
    ///
    /// It may fail spuriously.
    #[doc(hidden)]
    #[inline]
    fn take_judged(&self, _take: &JudgedTake) -> bool {
        false
    }

    /// Returns the refusal that a check of `n` tokens would get now, if any. Takes nothing.
    ///
    /// It writes only what a refused check writes: the start of the line at the first use, and the repair of a word
    /// that was written before the clock stepped back.
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
    /// [`SetQuotaError`] if another thread is changing the quota or the new one does not fit. The old quota then stays.
    fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        self.put_in_force(self.prepare_quota(quota, clock)?, clock);
        Ok(())
    }

    /// Prepares to put another quota in force.
    ///
    /// Until the returned change is put in force or dropped, other changers get [`SetQuotaError::Busy`].
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

/// The position at which tokens were taken, or the number of the window that counted them.
///
/// Positions are those of the quota's timeline.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakePosition {
    pub(super) at: u64,
}

impl TakePosition {
    /// Marks tokens that were not counted, such as those of a quota without a limit.
    pub(super) const UNCOUNTED: Self = Self { at: u64::MAX };
}

/// The epoch and the word that [`Algorithm::look`] loaded.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub(super) epoch: usize,
    pub(super) word: u64,
}

/// The decision about a [`Look`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// The tokens are available, and the answer holds if the swap succeeds.
    Allowed(JudgedTake, Allowed),
    Refused(Denied),
    /// The quota changed meanwhile, or the word may have been written before the clock stepped back.
    Undecided,
}

/// The swap that takes the tokens of an allowed call.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct JudgedTake {
    pub(super) word: u64,
    pub(super) after: u64,
    pub(super) position: TakePosition,
}

impl Verdict {
    /// Creates the verdict on tokens that were taken already.
    pub(super) const fn taken(allowed: Allowed, position: TakePosition) -> Self {
        Self::Allowed(JudgedTake { word: 0, after: 0, position }, allowed)
    }

    #[inline]
    pub(super) const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(..))
    }

    /// Returns the answer of a limit that allowed the call.
    #[inline]
    pub(super) const fn allowed(&self) -> Option<&Allowed> {
        if let Self::Allowed(_, allowed) = self { Some(allowed) } else { None }
    }
}

pub(super) mod sealed {
    /// Seals algorithms and queues of waiters.
    ///
    /// Their words are only valid together with their live quota, so other crates cannot implement them.
    pub trait Sealed {}
}
