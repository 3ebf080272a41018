//! A limit per window, plus a burst.

use super::text::Rate;
use crate::out_of_range::{OutOfRange, check};
use core::ops::RangeInclusive;
use core::time::Duration;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The windows whose nanoseconds fit 64 bits.
const WINDOWS: RangeInclusive<Duration> = Duration::from_nanos(1)..=Duration::from_nanos(u64::MAX);

/// How many tokens a window brings, and how many may be taken at once.
///
/// Tokens drip in evenly: `per_minute(30)` is one every two seconds, not thirty at the full minute. The burst is how
/// many can be saved up while nothing is taken; it is the limit unless [`burst`](Quota::burst) says otherwise. In any
/// stretch of time at most `burst` tokens plus what drips in meanwhile are allowed.
///
/// Its text form, as in `"5000/h burst 100"`, can be parsed, and with the feature `serde` it is what is serialized.
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
    /// In nanoseconds; 0 where nothing is limited.
    window: u64,
    /// `None`: ten bursts.
    max_debt: Option<u32>,
}

impl Quota {
    /// `limit` tokens per second; 0 refills nothing, and the burst is 0 too unless it is set.
    pub const fn per_second(limit: u32) -> Self {
        Self::new(limit, SECOND)
    }

    /// `limit` tokens per minute; 0 refills nothing.
    pub const fn per_minute(limit: u32) -> Self {
        Self::new(limit, MINUTE)
    }

    /// `limit` tokens per hour; 0 refills nothing.
    pub const fn per_hour(limit: u32) -> Self {
        Self::new(limit, HOUR)
    }

    /// `limit` tokens per `window`; a limit of 0 refills nothing.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the window is zero, or longer than 2^64 - 1 ns (584 years).
    pub const fn per(limit: u32, window: Duration) -> Result<Self, OutOfRange> {
        check!(check_duration("window", window, WINDOWS), "(584 years)");
        Ok(Self::new(limit, window.as_nanos() as u64))
    }

    /// Allows everything, and counts nothing: for a limit that is switched off.
    ///
    /// A limiter that is built with it can later be set to some ten thousand tokens a second at most. For more, build it
    /// [`up_to`](crate::RateLimiter::up_to) its fastest quota.
    pub const UNLIMITED: Self = Self::new(u32::MAX, 0);

    /// Whether this is [`UNLIMITED`](Quota::UNLIMITED), whatever its burst.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.window == 0
    }

    /// One token every `interval`.
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

    /// Sets how far below zero a level may go where debt is asked for by name, in tokens.
    ///
    /// Default: ten bursts.
    ///
    /// Also the most that a clock which steps back can cost: the time in which so much and a burst are refilled.
    pub const fn max_debt(self, max_debt: u32) -> Self {
        Self { max_debt: Some(max_debt), ..self }
    }

    /// The tokens that a window brings.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// The window in which `limit` tokens drip in; zero where nothing is limited.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// The most tokens that can be saved up and taken at once.
    #[must_use]
    pub const fn burst_size(&self) -> u32 {
        self.burst
    }

    /// `limit` tokens in the window of this quota.
    pub(super) const fn rate(&self, limit: u32) -> Rate {
        Rate { limit, window: self.window() }
    }

    /// A quota again from what `limit`, `window_nanos`, `capacity` and `own_max_debt` said.
    pub(crate) const fn from_parts(limit: u32, window: u64, burst: u32, max_debt: Option<u32>) -> Self {
        Self { limit, burst, window, max_debt }
    }

    /// The `max_debt` that was set, if it was.
    pub(crate) const fn own_max_debt(&self) -> Option<u32> {
        self.max_debt
    }

    /// Tokens of the deepest legal debt, counted from a full bucket: the burst and `max_debt`.
    pub(crate) const fn deepest_debt(&self) -> u64 {
        let below_zero = match self.max_debt {
            Some(tokens) => tokens as u64,
            None => 10 * self.burst as u64,
        };
        self.burst as u64 + below_zero
    }

    pub(crate) const fn window_nanos(&self) -> u64 {
        self.window
    }

    /// Returns the time in which a whole burst is refilled, rounded up to nanoseconds.
    ///
    /// The window where no burst is set apart. `None` if it is never refilled, or at once.
    #[must_use]
    pub const fn refill_window(&self) -> Option<Duration> {
        if self.limit == 0 || self.window == 0 {
            return None;
        }
        if self.burst == self.limit {
            return Some(self.window());
        }
        // Below 2^96; `Duration` holds 2^94 ns in its seconds and more: a longer refill is as good as never.
        let nanos = (self.window as u128 * self.burst as u128).div_ceil(self.limit as u128);
        let seconds = nanos / SECOND as u128;
        if seconds > u64::MAX as u128 {
            None
        } else {
            Some(Duration::new(seconds as u64, (nanos % SECOND as u128) as u32))
        }
    }
}
