//! How much of a limit is used.

use crate::quota::Quota;
use core::time::Duration;

/// How much of a limit is used at one moment; `used + remaining = limit` at all times.
///
/// For a token bucket the limit is the burst, and the window the time in which all of it is refilled: the quota's own
/// window where no burst is set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Usage {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    pub(crate) window: Option<Duration>,
    pub(crate) resets_in: Option<Duration>,
}

impl Usage {
    /// Of a bucket.
    pub(crate) fn of(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        Self {
            limit: quota.burst_size(),
            // Of a burst that has just been lowered.
            remaining: remaining.min(quota.burst_size()),
            window: quota.refill_window(),
            resets_in,
        }
    }

    /// Of windows.
    pub(super) fn of_windows(quota: Quota, remaining: u32, resets_in: Option<Duration>) -> Self {
        Self {
            limit: quota.limit(),
            // Of a limit that has just been lowered.
            remaining: remaining.min(quota.limit()),
            window: if quota.is_unlimited() { None } else { Some(quota.window()) },
            resets_in,
        }
    }

    /// The most tokens that can be there, in tokens.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// The tokens that are taken and not yet refilled, rounded up; the limit while in debt.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.limit - self.remaining
    }

    /// The tokens that can be taken now, rounded down; 0 while in debt.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The time in which `limit` tokens are refilled, rounded up to nanoseconds; `None` if they never are.
    #[must_use]
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// The time until nothing is used any more, rounded up to the clock's tick; `None` if that never comes.
    #[must_use]
    pub fn resets_in(&self) -> Option<Duration> {
        self.resets_in
    }
}
