//! Retry budgets, and the latencies from which timeouts follow.

use crate::catalogue::{LATENCY_P90, RETRY_BUDGET_LEFT};
use crate::{Readings, Source};
use damper_core::deadline::UsualLatency;
use damper_core::retry::{RetryBucket, RetryBudget, RetryThrottle};
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

/// Nothing until there are enough calls.
impl<C: Clock> Source for UsualLatency<C> {
    fn read(&self, readings: &Readings<'_>) {
        if let Some(p90) = self.p90() {
            readings.record(&LATENCY_P90, p90.as_secs_f64());
        }
    }
}
