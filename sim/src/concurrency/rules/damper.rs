//! damper's own limits on a simulated clock: the word, its permits, and the sampling.

use crate::concurrency::limit::{Finished, Limit, Outcome};
use damper::concurrency::{self, BulkheadPermit, LimitRule};
use damper::{AdaptiveLimit, ManualClock};
use std::sync::Arc;

type OnManualClock<R> = AdaptiveLimit<R, Arc<ManualClock>>;

/// An [`AdaptiveLimit`], and the permits of the calls in flight.
#[derive(Debug)]
pub struct Damper<R: LimitRule> {
    /// The seconds of a tick.
    grain: f64,
    clock: Arc<ManualClock>,
    limit: Arc<OnManualClock<R>>,
    permits: Vec<Option<BulkheadPermit<Arc<OnManualClock<R>>>>>,
}

impl<R: LimitRule> Damper<R> {
    /// Creates a limit with a rule, on a clock whose ticks last `grain` seconds.
    pub fn new(rule: R, grain: f64) -> Self {
        let clock = Arc::new(ManualClock::new());
        let limit = Arc::new(AdaptiveLimit::with_rule(rule, Arc::clone(&clock)));
        Self { grain, clock, limit, permits: Vec::new() }
    }

    fn set_clock(&self, now: f64) {
        // To whole nanoseconds, of which four hours are far below 2^53.
        let nanos = (now * 1e9) as u64;
        let grain = (self.grain * 1e9).round() as u64;
        self.clock.set_ticks(nanos - nanos % grain);
    }
}

impl<R: LimitRule> Limit for Damper<R> {
    fn try_acquire(&mut self, now: f64, call: usize) -> bool {
        self.set_clock(now);
        let Ok(permit) = self.limit.try_acquire_owned() else { return false };
        if call >= self.permits.len() {
            self.permits.resize_with(call + 1, || None);
        }
        self.permits[call] = Some(permit);
        true
    }

    fn finished(&mut self, now: f64, call: Finished) {
        self.set_clock(now);
        let Some(permit) = self.permits[call.call].take() else { return };
        permit.record(match call.outcome {
            Outcome::Success => concurrency::Outcome::Success,
            Outcome::Overloaded => concurrency::Outcome::Overloaded,
        });
    }

    fn limit(&self) -> f64 {
        f64::from(self.limit.limit())
    }
}
