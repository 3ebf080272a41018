//! What a limiter asks of an algorithm.

use super::{Allowed, Denied, Usage};
use crate::quota::{Quota, SetQuotaError};
use crate::time::Clock;

/// An algorithm with its state and its quota, of which a [`RateLimiter`](super::RateLimiter) is made.
///
/// The algorithms are damper's own; this trait is for code that takes any of them.
pub trait Algorithm: sealed::Sealed {
    /// Takes `n` tokens if all of them are there, else none.
    ///
    /// # Errors
    ///
    /// [`Denied`], which tells when to come back, or that `n` is more than can ever be there.
    #[inline]
    fn take(&self, n: u32, clock: &impl Clock) -> Result<Allowed, Denied> {
        self.take_revocably(n, clock).map(|(allowed, _)| allowed)
    }

    /// Gives back the `n` tokens that were taken as `taken` says, as far as that mints nothing.
    #[doc(hidden)]
    fn roll_back(&self, n: u32, taken: Taken, clock: &impl Clock);

    /// As [`take`](Algorithm::take), with what [`roll_back`](Algorithm::roll_back) needs.
    #[doc(hidden)]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied>;

    /// Returns the refusal that a check of `n` tokens would get now, if any. Writes nothing.
    #[doc(hidden)]
    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied>;

    /// Tells how much is used, and takes nothing.
    fn usage(&self, clock: &impl Clock) -> Usage;

    /// The quota in force.
    fn quota(&self) -> Quota;

    /// Puts another quota in force.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], and the quota stays.
    fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError>;
}

/// Where tokens were taken: the position, or the number of the window.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub(super) at: u64,
}

impl Taken {
    /// Nothing was counted.
    pub(super) const NOWHERE: Self = Self { at: u64::MAX };
}

pub(super) mod sealed {
    /// Algorithms are damper's own, because their words and the live quota belong together.
    pub trait Sealed {}
}
