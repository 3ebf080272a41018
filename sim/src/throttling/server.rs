//! The server: damper's limiters on a manual clock.

use super::experiment::{End, Experiment};
use damper::throttle::Hints;
use damper::{FixedWindow, ManualClock, Quota, RateLimiter, SlidingCounter, SlidingLog, TokenBucket};
use std::sync::Arc;
use std::time::Duration;

/// How a server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// damper's token bucket.
    TokenBucket,
    /// damper's sliding log: exact.
    SlidingLog,
    /// damper's sliding window counter.
    SlidingCounter,
    /// damper's fixed window.
    FixedWindow,
}

/// The tokens of a server when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing: its quota was taken evenly in the window before.
    ///
    /// A fixed window begins with the run instead, for the one before says nothing about it.
    Empty,
    /// The whole quota.
    Full,
}

type Clock = Arc<ManualClock>;

#[derive(Debug)]
enum Limit {
    TokenBucket(RateLimiter<TokenBucket, Clock>),
    SlidingLog(RateLimiter<SlidingLog, Clock>),
    SlidingCounter(RateLimiter<SlidingCounter, Clock>),
    FixedWindow(RateLimiter<FixedWindow, Clock>),
}

/// One server.
#[derive(Debug)]
pub struct Server {
    limit: Limit,
    clock: Clock,
    /// Ticks of the clock at second 0 of the run, or `None` if time stands still at the server.
    origin: Option<u64>,
    hints: bool,
    outage: Option<(f64, f64)>,
}

const NANOS: f64 = 1e9;

impl Server {
    /// Creates the server of an experiment.
    ///
    /// # Panics
    ///
    /// If the quota's limit is too large for the sliding algorithms.
    #[must_use]
    pub fn new(experiment: &Experiment) -> Self {
        let clock = Clock::default();
        let quota: Quota = experiment.quota;
        let limit = match experiment.algorithm {
            Algorithm::TokenBucket => Limit::TokenBucket(RateLimiter::with_clock(quota, Arc::clone(&clock))),
            Algorithm::SlidingLog => Limit::SlidingLog(RateLimiter::with_algorithm(
                SlidingLog::new(quota).expect("the limit is small enough for a log"),
                Arc::clone(&clock),
            )),
            Algorithm::SlidingCounter => Limit::SlidingCounter(RateLimiter::with_algorithm(
                SlidingCounter::new(quota).expect("the limit is small enough for a counter"),
                Arc::clone(&clock),
            )),
            Algorithm::FixedWindow => {
                Limit::FixedWindow(RateLimiter::with_algorithm(FixedWindow::new(quota), Arc::clone(&clock)))
            }
        };
        let frozen = matches!(experiment.end, End::Cleared { refill: false, .. });
        let mut server = Self { limit, clock, origin: Some(0), hints: experiment.hints, outage: experiment.outage };
        if experiment.level == Level::Empty {
            server.empty(quota);
        }
        if frozen {
            server.origin = None;
        }
        server
    }

    fn empty(&mut self, quota: Quota) {
        match &self.limit {
            Limit::TokenBucket(limit) => while limit.check().is_ok() {},
            Limit::SlidingLog(_) | Limit::SlidingCounter(_) => {
                let gap = quota.window() / quota.limit();
                for _ in 0..quota.limit() {
                    self.clock.advance(gap);
                    let _ = self.take();
                }
                self.origin = Some(damper::Clock::now(&*self.clock));
            }
            Limit::FixedWindow(_) => {}
        }
    }

    fn take(&self) -> Hints {
        let answer = match &self.limit {
            Limit::TokenBucket(limit) => limit.check(),
            Limit::SlidingLog(limit) => limit.check(),
            Limit::SlidingCounter(limit) => limit.check(),
            Limit::FixedWindow(limit) => limit.check(),
        };
        match answer {
            Ok(allowed) => Hints::ACCEPTED
                .remaining(Some(allowed.remaining().into()))
                .resets_in(allowed.resets_in().map(whole_seconds)),
            Err(denied) => Hints::REJECTED
                .remaining(Some(denied.remaining().into()))
                .resets_in(denied.resets_in().map(whole_seconds))
                .retry_after(denied.retry_after().map(whole_seconds)),
        }
    }

    /// Takes a token for a call that arrives at `now`.
    pub fn call(&self, now: f64) -> Hints {
        if let Some(origin) = self.origin {
            self.clock.set_ticks(origin + (now * NANOS) as u64);
        }
        if self.outage.is_some_and(|(from, until)| (from..until).contains(&now)) {
            return Hints::REJECTED.remaining(Some(0));
        }
        let hints = self.take();
        if self.hints { hints } else { hints.resets_in(None).retry_after(None) }
    }
}

/// The headers have whole seconds, and damper rounds them up.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs_f64(time.as_secs_f64().ceil())
}
