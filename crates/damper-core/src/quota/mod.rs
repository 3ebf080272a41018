//! Quotas: a limit per window and a burst, and how they change while in use.

// `Quota` itself, the limit with its window and burst, is below.
//
// | file | idea |
// |---|---|
// | `text` | the text form of a quota |
// | `error` | `SetQuotaError`: why a quota was not put in force |
// | `alignment` | `Alignment`: the instants at which windows begin |
// | `timeline` | `Timeline`: converts ticks of a clock to tokens or windows; `Line`: a timeline and the quota's burst |
// | `beats` | `Beats`: the unit of time of buckets that are counted by a `Plan` |
// | `plan` | `Plan`: a quota that was prepared once and comes with each call; `PlanClock`: the clock of plans, in beats |
// | `share` | `LiveShare`: the share of a quota that a member of a fleet has |
// | `live` | `LiveQuota`: a quota that changes while threads decide by it |

mod alignment;
#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
mod beats;
mod error;
mod live;
#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
mod plan;
#[cfg(feature = "alloc")]
mod share;
mod text;
mod timeline;

pub use alignment::Alignment;
pub use error::SetQuotaError;
#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
pub use plan::Plan;
#[cfg(feature = "alloc")]
pub use share::{LiveShare, ShareTerms};
pub use text::ParseQuotaError;

#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
pub(crate) use beats::Beats;
#[cfg(target_has_atomic = "64")]
pub(crate) use beats::COARSE_TIME_BITS;
#[cfg(feature = "alloc")]
pub(crate) use beats::TIME_BITS;
pub(crate) use live::{LiveQuota, QuotaChange};
#[cfg(feature = "alloc")]
pub(crate) use plan::CLASSES;
#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
pub(crate) use plan::PlanClock;
pub(crate) use timeline::{Line, LineStart, Tempo, Timeline};

#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
use crate::digest::Digest;
use crate::out_of_range::{OutOfRange, check};
use core::ops::RangeInclusive;
use core::time::Duration;
use text::Rate;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The allowed windows of a quota. Their nanoseconds fit 64 bits.
const WINDOWS: RangeInclusive<Duration> = Duration::from_nanos(1)..=Duration::from_nanos(u64::MAX);

/// A limit per window and a burst: how many tokens a window brings, and how many can be taken at once.
///
/// Tokens arrive evenly: `per_minute(30)` is one every two seconds, not thirty at the full minute. The burst is the
/// number of tokens that can be saved up while nothing is taken. Its default is the limit, and [`burst`](Quota::burst)
/// sets another. In any stretch of time, at most `burst` tokens plus those that arrive meanwhile are allowed.
///
/// A quota has a text form, such as `"5000/h burst 100"`, which can be parsed. The feature `serde` serializes quotas in
/// that form.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::Quota;
///
/// const API: Quota = Quota::per_second(50).burst(100);
/// assert_eq!(API.to_string(), "50/s burst 100");
/// assert_eq!("50/s burst 100".parse(), Ok(API));
/// assert_eq!(Quota::per(10, Duration::from_millis(250))?.to_string(), "10/250ms burst 10");
/// assert_eq!(Quota::every(Duration::from_secs(2))?.to_string(), "1/2s burst 1");
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Quota {
    limit: u32,
    burst: u32,
    /// The window in nanoseconds, or 0 if there is no limit.
    window: u64,
    /// How many tokens below empty the bucket may go. `None` means ten bursts.
    max_debt: Option<u32>,
}

impl Quota {
    /// Creates a quota of `limit` tokens per second.
    ///
    /// With a limit of 0 nothing is refilled, and the burst is 0 too unless it is set.
    pub const fn per_second(limit: u32) -> Self {
        Self::new(limit, SECOND)
    }

    /// Creates a quota of `limit` tokens per minute. With a limit of 0 nothing is refilled.
    pub const fn per_minute(limit: u32) -> Self {
        Self::new(limit, MINUTE)
    }

    /// Creates a quota of `limit` tokens per hour. With a limit of 0 nothing is refilled.
    pub const fn per_hour(limit: u32) -> Self {
        Self::new(limit, HOUR)
    }

    /// Creates a quota of `limit` tokens per `window`. With a limit of 0 nothing is refilled.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the window is zero, or longer than 2^64 - 1 ns (584 years).
    pub const fn per(limit: u32, window: Duration) -> Result<Self, OutOfRange> {
        check!(check_duration("window", window, WINDOWS), "(584 years)");
        Ok(Self::new(limit, window.as_nanos() as u64))
    }

    /// A quota that allows everything and counts nothing. It switches a limit off.
    ///
    /// A limiter that is built with this quota can later be set to at most about ten thousand tokens a second. For
    /// more, build the limiter [`up_to`](crate::RateLimiter::up_to) its fastest quota.
    pub const UNLIMITED: Self = Self::new(u32::MAX, 0);

    /// Returns whether this is [`UNLIMITED`](Quota::UNLIMITED), whatever its burst.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.window == 0
    }

    /// Creates a quota of one token every `interval`.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the interval is zero, or longer than 2^64 - 1 ns (584 years).
    pub const fn every(interval: Duration) -> Result<Self, OutOfRange> {
        check!(check_duration("interval", interval, WINDOWS), "(584 years)");
        Ok(Self::new(1, interval.as_nanos() as u64))
    }

    const fn new(limit: u32, window: u64) -> Self {
        Self { limit, burst: limit, window, max_debt: None }
    }

    /// Sets how many tokens can be saved up and taken at once. Default: the limit.
    ///
    /// With 0 every request exceeds the burst.
    pub const fn burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }

    /// Sets how many tokens below empty charges, reservations and waits may bring the bucket.
    ///
    /// Default: ten bursts.
    ///
    /// This debt also bounds the harm of a clock that steps back: calls are then refused for at most the time in which
    /// a burst and this debt are refilled.
    pub const fn max_debt(self, max_debt: u32) -> Self {
        Self { max_debt: Some(max_debt), ..self }
    }

    /// Returns the number of tokens that a window brings.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the window in which `limit` tokens arrive. It is zero if there is no limit.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// Returns the most tokens that can be saved up and taken at once.
    #[must_use]
    pub const fn burst_size(&self) -> u32 {
        self.burst
    }

    /// Returns the rate of `limit` tokens per window of this quota. It has a text form such as `100/s`.
    const fn rate(&self, limit: u32) -> Rate {
        Rate { limit, window: self.window() }
    }

    /// Creates a quota from the values that `limit`, `window_nanos`, `burst_size` and `own_max_debt` return.
    pub(crate) const fn from_parts(limit: u32, window: u64, burst: u32, max_debt: Option<u32>) -> Self {
        Self { limit, burst, window, max_debt }
    }

    /// Returns the `max_debt` that was set, or `None` for the default.
    pub(crate) const fn own_max_debt(&self) -> Option<u32> {
        self.max_debt
    }

    /// Returns the deepest legal debt in tokens, counted from a full bucket: the burst plus `max_debt`.
    pub(crate) const fn deepest_debt(&self) -> u64 {
        let below_zero = match self.max_debt {
            Some(tokens) => tokens as u64,
            None => 10 * self.burst as u64,
        };
        self.burst as u64 + below_zero
    }

    /// Returns the hash `digest` after adding the settings of this quota to it.
    #[cfg(any(feature = "alloc", target_has_atomic = "64"))]
    pub(crate) const fn digest(&self, digest: Digest) -> Digest {
        let max_debt = match self.max_debt {
            Some(tokens) => tokens as u64 + 1,
            None => 0,
        };
        digest.with(self.limit as u64).with(self.burst as u64).with(self.window).with(max_debt)
    }

    /// Returns the window in nanoseconds, or 0 if there is no limit.
    pub(crate) const fn window_nanos(&self) -> u64 {
        self.window
    }

    /// Returns the time in which a whole burst is refilled, rounded up to nanoseconds.
    ///
    /// This is the window itself if the burst equals the limit. Returns `None` if the bucket is never refilled, or if
    /// there is no limit.
    #[must_use]
    pub const fn refill_window(&self) -> Option<Duration> {
        if self.limit == 0 || self.window == 0 {
            return None;
        }
        if self.burst == self.limit {
            return Some(self.window());
        }
        // The product is below 2^96. A `Duration` holds up to 2^64 seconds, about 2^94 ns. If a refill takes longer,
        // the bucket counts as never refilled.
        let nanos = (self.window as u128 * self.burst as u128).div_ceil(self.limit as u128);
        let seconds = nanos / SECOND as u128;
        if seconds > u64::MAX as u128 {
            None
        } else {
            Some(Duration::new(seconds as u64, (nanos % SECOND as u128) as u32))
        }
    }
}
