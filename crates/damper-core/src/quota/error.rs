//! The error that a refused change of quota returns.

use super::Quota;
use core::fmt;
use core::time::Duration;

/// The reason why a quota was not put in force. The previous quota stays in force.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SetQuotaError {
    /// Another thread is changing the quota right now.
    Busy,
    /// The quota is too fast for the steps in which the limiter counts tokens.
    ///
    /// The steps suit the quota that the limiter was built with. A quota up to a thousand times faster is never too
    /// fast. If you need a faster one, build the limiter [`up_to`](crate::RateLimiter::up_to) its fastest quota.
    TooFast {
        /// The requested quota.
        quota: Quota,
        /// The largest limit that the limiter accepts for the window of that quota.
        most: u32,
    },
    /// The window is too short for the steps in which a window limiter counts time.
    ///
    /// The steps suit the window that the limiter was built with. So build it with the shortest window that you need.
    WindowTooShort {
        /// The requested window.
        window: Duration,
        /// The shortest window that the limiter accepts.
        least: Duration,
    },
    /// The sum of burst and [`max_debt`](crate::Quota::max_debt) is more than the limiter can count.
    ///
    /// Build the limiter [`up_to`](crate::RateLimiter::up_to) its largest quota, or set a smaller `max_debt`.
    TooLarge {
        /// The sum of the requested burst and `max_debt`, in tokens.
        tokens: u64,
        /// The largest sum that the limiter accepts.
        most: u64,
    },
    /// The limit exceeds the number of tokens that the limiter can count in a window.
    LimitTooLarge {
        /// The requested limit.
        limit: u32,
        /// The largest limit that the limiter accepts.
        most: u32,
    },
    /// The limiter has a slot for each token, and the quota's limit differs from the number of slots.
    ///
    /// Only the window of such a limiter can be changed.
    FixedLimit,
    /// The burst does not exceed the number of tokens that the limiter sets aside for leases or stripes.
    ///
    /// Such a burst would leave no tokens for the bucket.
    BurstWithinBudget,
}

impl fmt::Display for SetQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another thread is changing the quota"),
            Self::TooFast { quota, most } => {
                let (asked, most) = (quota.rate(quota.limit()), quota.rate(*most));
                write!(f, "{asked} exceeds the maximum {most} that the limiter was built for")
            }
            Self::WindowTooShort { window, least } => {
                write!(f, "a window of {window:?} is below the minimum {least:?} that the limiter was built for")
            }
            Self::TooLarge { tokens, most } => write!(
                f,
                "burst and max_debt are {tokens} tokens, which exceeds the maximum {most} that the limiter was built for"
            ),
            Self::LimitTooLarge { limit, most } => {
                write!(f, "limit {limit} exceeds the maximum {most} that the limiter can count")
            }
            Self::FixedLimit => f.write_str(
                "the limit of this limiter is fixed by what it was built with, only its window can be changed",
            ),
            Self::BurstWithinBudget => f.write_str(
                "the burst must be more than the budget of leases or stripes that the limiter was built with",
            ),
        }
    }
}

crate::internal::debug_by_display!(SetQuotaError);

impl core::error::Error for SetQuotaError {}
