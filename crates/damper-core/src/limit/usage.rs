//! How much of a limit is used.

use crate::quota::Quota;
use core::time::Duration;

/// How much of a limit is used at one moment. `used + remaining = limit` always holds.
///
/// For a token bucket, the limit is the burst, and the window is the time in which a whole burst is refilled. That time
/// equals the quota's window if the quota sets no burst of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Usage {
    quota: Quota,
    basis: Basis,
    remaining: u32,
    debt: u32,
    resets_in: Option<Duration>,
}

/// The number that [`Usage::limit`] returns: the quota's burst, or its limit for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Basis {
    /// The burst.
    Burst,
    /// The limit of a window.
    Window,
}

impl Usage {
    /// The usage of a limiter that allows everything.
    pub(super) const UNLIMITED: Self = Self {
        quota: Quota::UNLIMITED,
        basis: Basis::Burst,
        remaining: u32::MAX,
        debt: 0,
        resets_in: Some(Duration::ZERO),
    };

    /// Creates the usage of a token bucket.
    #[inline]
    pub(crate) fn of(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        // If the burst was lowered after `remaining` was computed, `remaining` may exceed the burst.
        let remaining = remaining.min(quota.burst_size());
        Self { quota, basis: Basis::Burst, remaining, debt: 0, resets_in }
    }

    /// Creates the usage of an algorithm that counts by windows.
    pub(super) fn of_windows(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        // If the limit was lowered after `remaining` was computed, `remaining` may exceed the limit.
        let remaining = remaining.min(quota.limit());
        Self { quota, basis: Basis::Window, remaining, debt: 0, resets_in }
    }

    /// Returns this usage for a bucket that is `debt` tokens below empty.
    #[inline]
    pub(crate) fn with_debt(self, debt: u32) -> Self {
        Self { debt, ..self }
    }

    /// Adds `tokens` that are kept outside of the bucket to the remaining tokens, up to the limit.
    #[cfg(feature = "std")]
    pub(super) fn with_more(self, tokens: u32) -> Self {
        Self { remaining: self.remaining.saturating_add(tokens).min(self.limit()), ..self }
    }

    /// Returns the usage of a paused limiter: no tokens remain for at least `rest`. `None` means for ever.
    pub(super) fn paused_for(self, rest: Option<Duration>) -> Self {
        let resets_in = self.resets_in.zip(rest).map(|(reset, rest)| reset.max(rest));
        Self { remaining: 0, resets_in, ..self }
    }

    /// Returns the quota that this usage refers to.
    ///
    /// Its burst does not include the tokens that a limiter sets aside for leases or stripes.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Returns the most tokens that can be available at once.
    #[must_use]
    pub fn limit(&self) -> u32 {
        match self.basis {
            Basis::Burst => self.quota.burst_size(),
            Basis::Window => self.quota.limit(),
        }
    }

    /// Returns the tokens that are taken and not yet refilled, rounded up.
    ///
    /// It is the limit if the bucket is in debt.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.limit() - self.remaining
    }

    /// Returns the tokens that can be taken now, rounded down. It is 0 if the bucket is in debt.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Returns how many tokens the bucket is below empty, rounded up. It is 0 while tokens are left.
    ///
    /// Only token buckets go below empty. They do so when a waiter or a reservation takes tokens in advance, and when
    /// [`charge`](crate::RateLimiter::charge) books a cost after the fact.
    #[must_use]
    pub fn debt(&self) -> u32 {
        self.debt
    }

    /// Returns the time in which `limit` tokens are refilled.
    ///
    /// The time is rounded up to nanoseconds. It is `None` if the tokens are never refilled.
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        match self.basis {
            Basis::Burst => self.quota.refill_window(),
            Basis::Window if self.quota.is_unlimited() => None,
            Basis::Window => Some(self.quota.window()),
        }
    }

    /// Returns the time until all of the limit is available again.
    ///
    /// The time is rounded up to the clock's tick. It is `None` if that never happens.
    #[must_use]
    pub fn resets_in(&self) -> Option<Duration> {
        self.resets_in
    }
}
