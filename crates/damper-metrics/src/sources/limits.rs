//! Limiters without a key.

use crate::catalogue::LIMIT_PAUSE;
use crate::{Readings, Source};
use damper_core::limit::{Algorithm, InFlight, LimitSet, Limiter, Limits, Pausable, RateLimiter, Striped, Usage};
use damper_core::time::{Clock, FixedFrequency};
use damper_core::word32::RateLimiter32;

impl<A: Algorithm, C: Clock> Source for RateLimiter<A, C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
    }
}

impl<C: Clock> Source for Striped<C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
    }
}

impl<C: FixedFrequency> Source for RateLimiter32<C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
    }
}

/// A limiter that was chosen at run time.
impl Source for dyn Limiter + Send + Sync {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
    }
}

/// Each limit of the set, with its index in the label `part`.
impl<L: Limits<Usages: IntoIterator<Item = Usage>>, C: Clock, P: InFlight> Source for LimitSet<L, C, P> {
    fn read(&self, readings: &Readings<'_>) {
        for (index, usage) in self.peek().into_iter().enumerate() {
            readings.with("part", index.to_string()).record_usage(usage);
        }
    }
}

/// As the limiter inside, and how long it is paused.
impl<L: Limiter, C: Clock> Source for Pausable<L, C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record_usage(self.usage());
        readings.record(&LIMIT_PAUSE, self.pause_left().as_secs_f64());
    }
}
