//! Retry budgets, hedges, and the latencies from which timeouts follow.

use crate::catalogue::{
    HEDGE_DELAY, HEDGE_MEDIAN_LATENCY, HEDGE_NOT_MADE, HEDGE_REQUESTS, LATENCY_P90, RETRY_BUDGET_LEFT,
};
use crate::{Readings, Source};
use damper_core::deadline::UsualLatency;
use damper_core::retry::{Budget, Hedge, RetryBucket, RetryBudget, RetryQuota, RetryThrottle, Unlimited};
use damper_core::time::Clock;

impl<C: Clock> Source for RetryBudget<C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record(&RETRY_BUDGET_LEFT, f64::from(self.retries_left()));
    }
}

impl<C: Clock> Source for RetryBucket<C> {
    fn read(&self, readings: &Readings<'_>) {
        readings.record(&RETRY_BUDGET_LEFT, f64::from(self.retries_left()));
    }
}

impl Source for RetryThrottle {
    fn read(&self, readings: &Readings<'_>) {
        readings.record(&RETRY_BUDGET_LEFT, f64::from(self.retries_left()));
    }
}

/// Retries after transient failures.
impl Source for RetryQuota {
    fn read(&self, readings: &Readings<'_>) {
        readings.record(&RETRY_BUDGET_LEFT, f64::from(self.retries_left()));
    }
}

/// Infinitely many retries are left.
impl Source for Unlimited {
    fn read(&self, readings: &Readings<'_>) {
        readings.record(&RETRY_BUDGET_LEFT, f64::INFINITY);
    }
}

/// The delay and the median are NaN while there are too few recent calls.
///
/// A gauge that is not set would keep its last value.
impl<C: Clock, B: Budget, V> Source for Hedge<C, B, V> {
    fn read(&self, readings: &Readings<'_>) {
        let status = self.status();
        readings.record_number(&HEDGE_REQUESTS, status.made());
        readings.with("reason", "allowance").record_number(&HEDGE_NOT_MADE, status.over_allowance());
        readings.with("reason", "budget").record_number(&HEDGE_NOT_MADE, status.over_budget());
        for (metric, time) in [(&HEDGE_DELAY, status.delay()), (&HEDGE_MEDIAN_LATENCY, status.median())] {
            readings.record(metric, time.map_or(f64::NAN, |time| time.as_secs_f64()));
        }
    }
}

/// Nothing until there are enough calls.
impl<C: Clock> Source for UsualLatency<C> {
    fn read(&self, readings: &Readings<'_>) {
        if let Some(p90) = self.p90() {
            readings.record(&LATENCY_P90, p90.as_secs_f64());
        }
    }
}
