//! The default rule: the limit follows the latency, and what latency to expect is found out at half of the limit.

use super::log2::exp2;
use super::rule::latency_of;
use super::{LimitBounds, LimitRule, WindowPlan, WindowSummary};
use core::time::Duration;

/// By what factor calls may be slower than the baseline, as a logarithm: 1.4. A service that shares its processor among
/// the calls is then busy for all but a few percent of the time. With the cut to half in a probe it has to be below 2, for
/// otherwise a probe under a polluted baseline would confirm it: 0.5 · 1.4 < 1.
const TARGET: f64 = 0.485_426_827_170_242;

/// By what factor the first reading of a probe may be below the baseline and confirm it, as a logarithm: 1.2.
const CONFIRMED_BELOW: f64 = 0.263_034_405_833_794;

/// The least and the greatest factor of one window, as logarithms: 0.5 and 1.5. Less, because one reading is a guess.
const MOST_DOWN: f64 = -1.0;
const MOST_UP: f64 = 0.584_962_500_721_156;

/// The factor on the limit after a window in which more than a tenth of the calls were dropped or timed out.
const AFTER_DROPS: f64 = 0.9;

/// How much of a baseline is kept when a reading of few calls in flight is learnt.
const KEPT: f64 = 0.8;

/// How many calls a probe measures: twice as many as an ordinary window, because what follows holds for longer.
const PROBE_SAMPLES: u32 = 100;

/// How long nothing may be learnt under a full limit before a probe: at first, and the longest.
const FIRST_INTERVAL: Duration = Duration::from_secs(2);
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);

/// A probe may take this share of the time, where that makes the interval longer than the longest: one in so many.
const PROBE_SHARE: u32 = 30;

/// After this time without a refusal a probe says nothing, because the callers are the limit.
const PROBE_PATIENCE: Duration = Duration::from_secs(60);

/// Aims at a latency of 1.4 times that of the unloaded service, and measures the latter at half of the limit.
///
/// - Only a window that was full (a call was refused or had to wait, or as many were in flight as allowed) changes the
///   limit: by 1.4 times the baseline by the window's latency, at least 0.5 and at most 1.5. So a limit does not grow
///   while the callers are what limits the calls.
/// - The baseline is learnt where at most half of the limit was in flight. In other windows it never rises.
/// - Under a limit that stays full nothing is learnt, so now and then a probe halves the limit for some hundred calls. If the
///   latency falls as the limit does, there was a queue, and the limit is halved again. If it does not, the service has
///   become slower.
///
/// Latencies are geometric means, because a mean of slow and fast calls must not depend on the few slowest, and a quantile
/// of a mix of two kinds of calls says nothing about one of them. Rules by the lowest latency, by quantiles or by
/// correlation were simulated too: they starve the service, or drift up under a lasting overload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbedGradient {
    bounds: LimitBounds,
    limit: f64,
    /// The latency of the unloaded service; as all latencies here, the logarithm of microseconds.
    baseline: Option<f64>,
    /// Whether a full window was thrown away, before there was a baseline: the calls of a start are slow.
    has_started: bool,
    /// The highest limit since the baseline was learnt.
    highest: f64,
    /// The reading before, if it was below the range of the baseline.
    below: Option<f64>,
    since_learnt: Duration,
    interval: Duration,
    probe: Option<Probe>,
}

/// A probe that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Probe {
    limit_before: f64,
    reading_before: f64,
    /// The reading at the limit before this one; `None` while the first is measured.
    last: Option<f64>,
    limit: u32,
    length: Duration,
}

impl ProbedGradient {
    /// Creates the rule, with a limit in these bounds.
    #[must_use]
    pub const fn new(bounds: LimitBounds) -> Self {
        Self {
            bounds,
            limit: bounds.start() as f64,
            baseline: None,
            has_started: false,
            highest: bounds.start() as f64,
            below: None,
            since_learnt: Duration::ZERO,
            interval: FIRST_INTERVAL,
            probe: None,
        }
    }

    /// As [`first`](LimitRule::first), for constants.
    pub(in crate::concurrency) const fn first_plan(&self) -> WindowPlan {
        WindowPlan::new(self.limit as u32)
    }

    /// Takes `baseline` for the latency of the unloaded service.
    fn learn(&mut self, baseline: f64) {
        self.baseline = Some(baseline);
        self.since_learnt = Duration::ZERO;
        self.highest = self.limit;
        self.below = None;
    }

    /// Takes in an ordinary window.
    fn follow(&mut self, window: &WindowSummary) -> WindowPlan {
        self.since_learnt = self.since_learnt.saturating_add(window.since_plan);
        let old = self.limit;
        if let Some(reading) = window.log2_latency {
            if f64::from(window.peak_in_flight) <= old / 2.0 {
                self.learn(self.baseline.map_or(reading, |baseline| baseline * KEPT + reading * (1.0 - KEPT)));
            } else {
                self.lower(reading);
            }
        }
        if !window.is_full(old as u32) {
            return WindowPlan::new(old as u32);
        }
        if let Some(reading) = window.log2_latency {
            if self.baseline.is_none() && !self.has_started {
                self.has_started = true;
                return WindowPlan::new(old as u32);
            }
            if self.since_learnt >= self.interval {
                return self.begin_probe(old, reading, window.in_flight);
            }
            if let Some(baseline) = self.baseline {
                self.limit *= exp2(change(baseline, reading));
            }
        }
        if window.is_failing() {
            self.limit = self.limit.min(old * AFTER_DROPS);
        }
        self.limit = self.bounds.hold(self.limit);
        if let Some(reading) = window.log2_latency
            && self.limit < self.highest / 2.0
        {
            self.limit = self.bounds.hold(self.highest / 2.0);
            return self.begin_probe(old, reading, window.in_flight);
        }
        self.highest = self.highest.max(self.limit);
        WindowPlan::new(self.limit as u32).after(old, self.limit, window.in_flight)
    }

    /// Two successive readings below its range lower the baseline to the higher of them: one may be chance.
    fn lower(&mut self, reading: f64) {
        let Some(baseline) = self.baseline else { return };
        if reading >= baseline - TARGET {
            self.below = None;
            return;
        }
        match self.below {
            Some(before) => self.learn(before.max(reading)),
            None => self.below = Some(reading),
        }
    }
    /// Begins a probe, below the present limit. `reading` was measured under `limit_before`.
    fn begin_probe(&mut self, limit_before: f64, reading: f64, in_flight: u32) -> WindowPlan {
        let limit = self.half_of(self.limit as u32);
        self.probe = Some(Probe { limit_before, reading_before: reading, last: None, limit, length: Duration::ZERO });
        probe_plan(limit, in_flight)
    }

    fn half_of(&self, limit: u32) -> u32 {
        (limit / 2).max(self.bounds.min())
    }

    /// Takes in a window of a probe: ends the probe, or halves the limit again.
    fn probe(&mut self, mut probe: Probe, window: &WindowSummary) -> WindowPlan {
        probe.length = probe.length.saturating_add(window.since_plan);
        let Some(reading) = window.log2_latency.filter(|_| window.successes + window.drops >= PROBE_SAMPLES) else {
            return self.drop_probe(probe, window);
        };
        let fell = match (probe.last, self.baseline) {
            (None, Some(baseline)) => {
                if (baseline - CONFIRMED_BELOW..=baseline + TARGET).contains(&reading) {
                    let longest = LONGEST_INTERVAL.max(probe.length.saturating_mul(PROBE_SHARE));
                    self.interval = self.interval.saturating_mul(2).min(longest);
                    return self.end_probe(probe, f64::midpoint(baseline, reading), window);
                }
                // A queue falls with the limit, a slower release does not: one more halving tells.
                true
            }
            (None, None) => probe.reading_before - reading > TARGET,
            (Some(last), _) => last - reading > TARGET,
        };
        let lower = self.half_of(probe.limit);
        if fell && lower < probe.limit {
            self.probe = Some(Probe { last: Some(reading), limit: lower, ..probe });
            return probe_plan(lower, window.in_flight);
        }
        self.interval = FIRST_INTERVAL;
        self.end_probe(probe, reading, window)
    }

    /// Ends a probe with the baseline that it found.
    fn end_probe(&mut self, probe: Probe, baseline: f64, window: &WindowSummary) -> WindowPlan {
        // By Little's law so many calls are in flight at the target latency, at the throughput before the probe.
        let share = exp2((TARGET + baseline - probe.reading_before).min(0.0));
        self.limit = self.bounds.hold((probe.limit_before * share).max(f64::from(probe.limit)));
        self.learn(baseline);
        self.probe = None;
        WindowPlan::new(self.limit as u32).after(f64::from(probe.limit), self.limit, window.in_flight)
    }

    /// Ends a probe without a result: no call was refused, or none succeeded.
    fn drop_probe(&mut self, probe: Probe, window: &WindowSummary) -> WindowPlan {
        let share = if window.is_failing() { AFTER_DROPS } else { 1.0 };
        self.limit = self.bounds.hold(probe.limit_before * share);
        // The next one comes after another interval.
        self.since_learnt = Duration::ZERO;
        self.highest = self.limit;
        self.probe = None;
        WindowPlan::new(self.limit as u32).after(f64::from(probe.limit), self.limit, window.in_flight)
    }
}

/// By what factor a full window changes the limit, as a logarithm.
fn change(baseline: f64, reading: f64) -> f64 {
    let change = (TARGET + baseline - reading).clamp(MOST_DOWN, MOST_UP);
    // A little above the target: the root, so that a limit near its place is steady.
    if -TARGET < change && change < 0.0 { change / 2.0 } else { change }
}

fn probe_plan(limit: u32, in_flight: u32) -> WindowPlan {
    WindowPlan { skip: in_flight, samples: PROBE_SAMPLES, unless_full: Some(PROBE_PATIENCE), ..WindowPlan::new(limit) }
}

impl LimitRule for ProbedGradient {
    fn first(&self) -> WindowPlan {
        self.first_plan()
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        match self.probe {
            Some(probe) => self.probe(probe, window),
            None => self.follow(window),
        }
    }

    fn baseline(&self) -> Option<Duration> {
        self.baseline.map(latency_of)
    }
}
