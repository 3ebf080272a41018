//! Limiters without a key.

use crate::catalogue::{LIMIT_BURST, LIMIT_DEBT, LIMIT_PAUSE, LIMIT_RATE, LIMIT_REMAINING};
use crate::{Readings, Source};
use damper_core::limit::{Algorithm, InFlight, LimitSet, Limiter, Limits, Pausable, RateLimiter, Striped, Usage};
use damper_core::quota::Quota;
use damper_core::time::{Clock, FixedFrequency};
use damper_core::word32::RateLimiter32;

/// Records the rate of a quota, and the most tokens that can be there under it.
///
/// Without a limit both are infinite.
pub(super) fn record_quota(readings: &Readings<'_>, quota: Quota, most: u32) {
    let (rate, most) = if quota.is_unlimited() {
        (f64::INFINITY, f64::INFINITY)
    } else {
        (f64::from(quota.limit()) / quota.window().as_secs_f64(), f64::from(most))
    };
    readings.record(&LIMIT_RATE, rate);
    readings.record(&LIMIT_BURST, most);
}

fn record_usage(readings: &Readings<'_>, usage: Usage) {
    record_quota(readings, usage.quota(), usage.limit());
    readings.record(&LIMIT_REMAINING, f64::from(usage.remaining()));
    readings.record(&LIMIT_DEBT, f64::from(usage.debt()));
}

impl<A: Algorithm, C: Clock> Source for RateLimiter<A, C> {
    fn read(&self, readings: &Readings<'_>) {
        record_usage(readings, self.usage());
    }
}

impl<C: Clock> Source for Striped<C> {
    fn read(&self, readings: &Readings<'_>) {
        record_usage(readings, self.usage());
    }
}

impl<C: FixedFrequency> Source for RateLimiter32<C> {
    fn read(&self, readings: &Readings<'_>) {
        record_usage(readings, self.usage());
    }
}

/// A limiter that was chosen at run time.
impl Source for dyn Limiter + Send + Sync {
    fn read(&self, readings: &Readings<'_>) {
        record_usage(readings, self.usage());
    }
}

/// Each limit of the set, with its index in the label `part`.
impl<L: Limits<Usages: IntoIterator<Item = Usage>>, C: Clock, P: InFlight> Source for LimitSet<L, C, P> {
    fn read(&self, readings: &Readings<'_>) {
        for (index, usage) in self.peek().into_iter().enumerate() {
            record_usage(&readings.with("part", index.to_string()), usage);
        }
    }
}

/// As the limiter inside, and how long it is paused.
impl<L: Limiter, C: Clock> Source for Pausable<L, C> {
    fn read(&self, readings: &Readings<'_>) {
        record_usage(readings, self.usage());
        readings.record(&LIMIT_PAUSE, self.pause_left().as_secs_f64());
    }
}
