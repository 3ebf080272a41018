//! How much of a limit is used.

use crate::quota::Quota;
use core::time::Duration;

/// How much of a limit is used at one moment; `used + remaining = limit` at all times.
///
/// For a token bucket the limit is the burst, and the window the time in which all of it is refilled: the quota's own
/// window where no burst is set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Usage {
    quota: Quota,
    counted: Counted,
    remaining: u32,
    debt: u32,
    resets_in: Option<Duration>,
}

/// How the remaining tokens are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Counted {
    /// Against the burst.
    Burst,
    /// Against the limit of a window.
    Window,
}

impl Usage {
    /// Of no limit.
    pub(super) const UNLIMITED: Self = Self {
        quota: Quota::UNLIMITED,
        counted: Counted::Burst,
        remaining: u32::MAX,
        debt: 0,
        resets_in: Some(Duration::ZERO),
    };

    /// Of a bucket.
    #[inline]
    pub(crate) fn of(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        // Of a burst that has just been lowered.
        let remaining = remaining.min(quota.burst_size());
        Self { quota, counted: Counted::Burst, remaining, debt: 0, resets_in }
    }

    /// Of windows.
    pub(super) fn of_windows(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        // Of a limit that has just been lowered.
        let remaining = remaining.min(quota.limit());
        Self { quota, counted: Counted::Window, remaining, debt: 0, resets_in }
    }

    /// Of a bucket that is so many tokens below empty.
    #[inline]
    pub(crate) fn with_debt(self, debt: u32) -> Self {
        Self { debt, ..self }
    }

    /// Counts tokens that are kept elsewhere as there.
    #[cfg(feature = "std")]
    pub(super) fn with_more(self, tokens: u32) -> Self {
        Self { remaining: self.remaining.saturating_add(tokens).min(self.limit()), ..self }
    }

    /// Counts everything as used for at least `rest`; `None` is for ever.
    pub(super) fn paused_for(self, rest: Option<Duration>) -> Self {
        let resets_in = self.resets_in.zip(rest).map(|(reset, rest)| reset.max(rest));
        Self { remaining: 0, resets_in, ..self }
    }

    /// Returns the quota that this is the usage of.
    ///
    /// Its burst is without what is set aside for leases or stripes.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The most tokens that can be there, in tokens.
    #[must_use]
    pub fn limit(&self) -> u32 {
        match self.counted {
            Counted::Burst => self.quota.burst_size(),
            Counted::Window => self.quota.limit(),
        }
    }

    /// The tokens that are taken and not yet refilled, rounded up; the limit while in debt.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.limit() - self.remaining
    }

    /// The tokens that can be taken now, rounded down; 0 while in debt.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The tokens that are taken in advance, rounded up; 0 while any are left.
    ///
    /// Waiters and reservations take theirs before they are there, and [`charge`](crate::RateLimiter::charge) books costs
    /// afterwards. Only token buckets go below empty.
    #[must_use]
    pub fn debt(&self) -> u32 {
        self.debt
    }

    /// The time in which `limit` tokens are refilled, rounded up to nanoseconds; `None` if they never are.
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        match self.counted {
            Counted::Burst => self.quota.refill_window(),
            Counted::Window if self.quota.is_unlimited() => None,
            Counted::Window => Some(self.quota.window()),
        }
    }

    /// The time until nothing is used any more, rounded up to the clock's tick; `None` if that never comes.
    #[must_use]
    pub fn resets_in(&self) -> Option<Duration> {
        self.resets_in
    }
}
