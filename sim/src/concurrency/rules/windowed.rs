//! A rule of damper's core, told of exact windows.

use crate::concurrency::limit::{Finished, Limit, Outcome};
use damper::concurrency::{LimitRule, WindowPlan, WindowSummary};
use std::time::Duration;

/// Measures the windows that a rule asks for, and sets its limit.
#[derive(Clone, Debug)]
pub struct Windowed<R> {
    rule: R,
    plan: WindowPlan,
    planned: f64,
    /// Completions still to skip.
    skip: u32,
    began: f64,
    successes: u32,
    drops: u32,
    log2_sum: f64,
    peak: u32,
    in_flight: u32,
}

impl<R: LimitRule> Windowed<R> {
    /// Creates a limit by the rule.
    pub fn new(rule: R) -> Self {
        let plan = rule.first();
        let mut windowed = Self {
            rule,
            plan,
            planned: 0.0,
            skip: 0,
            began: 0.0,
            successes: 0,
            drops: 0,
            log2_sum: 0.0,
            peak: 0,
            in_flight: 0,
        };
        windowed.follow(0.0, plan);
        windowed
    }

    fn follow(&mut self, now: f64, plan: WindowPlan) {
        (self.plan, self.planned, self.skip) = (plan, now, plan.skip);
        self.begin(now);
    }

    fn begin(&mut self, now: f64) {
        (self.began, self.successes, self.drops, self.log2_sum, self.peak) = (now, 0, 0, 0.0, self.in_flight);
    }

    /// Ends the window if it is over.
    fn close(&mut self, now: f64) {
        let length = now - self.began;
        let enough = self.successes + self.drops >= self.plan.samples && length >= self.plan.length.as_secs_f64();
        let idle = self.peak < self.plan.limit
            && self.plan.unless_full.is_some_and(|longest| now - self.planned >= longest.as_secs_f64());
        if !(enough && self.skip == 0) && !idle {
            return;
        }
        let summary = WindowSummary {
            successes: self.successes,
            drops: self.drops,
            log2_latency: (self.successes > 0).then(|| self.log2_sum / f64::from(self.successes)),
            peak_in_flight: self.peak,
            in_flight: self.in_flight,
            length: Duration::from_secs_f64(length),
            since_plan: Duration::from_secs_f64(now - self.planned),
        };
        let plan = self.rule.next(&summary);
        self.follow(now, plan);
    }
}

impl<R: LimitRule> Limit for Windowed<R> {
    fn try_acquire(&mut self, now: f64, _call: usize) -> bool {
        if self.in_flight >= self.plan.limit {
            self.peak = self.peak.max(self.plan.limit);
            return false;
        }
        self.close(now);
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
        true
    }

    fn finished(&mut self, now: f64, call: Finished) {
        self.in_flight -= 1;
        if self.skip > 0 {
            self.skip -= 1;
            if self.skip == 0 {
                self.begin(now);
            }
            return;
        }
        match call.outcome {
            Outcome::Success => {
                self.successes += 1;
                self.log2_sum += (call.latency * 1e6).log2();
            }
            Outcome::Dropped => self.drops += 1,
        }
        self.close(now);
    }

    fn limit(&self) -> f64 {
        f64::from(self.plan.limit)
    }
}
