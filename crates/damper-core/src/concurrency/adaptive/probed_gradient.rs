//! The default rule: the limit follows the latency, and probes at half of the limit find the baseline.

use super::log2::exp2;
use super::rule::latency_of;
use super::{BoundedRule, LimitBounds, LimitRule, WindowPlan, WindowSummary};
use core::time::Duration;

/// The factor by which calls may be slower than the baseline, as a logarithm: 1.4.
///
/// A service that shares its processor among the calls is then busy for all but a few percent of the time. With the cut to half
/// in a probe it has to be below 2, because otherwise a probe under a polluted baseline would confirm it: 0.5 · 1.4 < 1.
const TARGET: f64 = 0.485_426_827_170_242;

/// The factor below the baseline within which a probe's reading confirms it, as a logarithm: 1.2.
///
/// If the first reading of a probe is no lower, the next probe comes later. A lower one may be chance, or the baseline may still
/// hold a part of a queue.
const CONFIRMED_BELOW: f64 = 0.263_034_405_833_794;

/// The factors from a reading to the target that leave the baseline without doubt, as logarithms.
///
/// 1.4 / 2.3, for calls of 2.3 times the baseline, and 1.96, for calls of the baseline by 1.4.
const MOST_DOWN: f64 = -0.716_207_033_999_408;
const MOST_UP: f64 = 2.0 * TARGET;

/// The factor on the limit after a failing window.
///
/// More than a tenth of its calls were overloaded or timed out.
const AFTER_OVERLOAD: f64 = 0.9;

/// The share of the old baseline that is kept when a reading of few calls in flight is learned.
const KEPT: f64 = 0.8;

/// The time without learning under a full limit before a probe: at first, and the longest.
const FIRST_INTERVAL: Duration = Duration::from_secs(2);
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);

/// The factors on the length of the last probe that give the least and the greatest interval.
///
/// Where few calls end in a second a probe is long, and would take too large a share of the time.
const SHORTEST_PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 30;

/// The time without a refusal after which a probe says nothing, because the callers are the limit.
const PROBE_PATIENCE: Duration = Duration::from_secs(60);

/// Aims at 1.4 times the latency of the unloaded service, which it measures at half of the limit.
///
/// - A reading is the geometric mean of the latencies of at least 100 calls in at least half a second. At least half of them must
///   have succeeded.
/// - Only a full window changes the limit: a call was refused or had to wait, or as many were in flight as allowed. It changes
///   the limit by the square root of 1.4 times the baseline by the reading. So a limit does not grow while the callers limit the
///   calls.
/// - A reading below the baseline by 1.4, or above 2.3 times the baseline, changes nothing. A second consecutive one begins a
///   probe.
/// - The baseline is learned where at most half of the limit was in flight, and in probes.
/// - Under a limit that stays full no window teaches the baseline, so a probe begins after 2 s. A probe also begins when the
///   limit would fall below half of its highest value since the baseline was learned.
/// - A probe halves the limit for 100 calls. A reading within 1.4 times the baseline, up or down, moves the baseline by half of
///   the way. The time to the next probe doubles then, up to 30 s, or to 30 times the length of the probe if that is longer.
///   After a reading below the baseline by more than 1.2 it is 2 s again, because the baseline may have been that of a queue. It
///   is always at least four times the length of the probe.
/// - Otherwise the reading is compared with the one before the cut. If the latency fell by more than 1.4 as the limit did, there
///   was a queue, and the limit is halved again. If it did not, or the limit is 1 already, the service itself has another latency
///   than before, and the reading is the baseline. The next probe comes 2 s later.
/// - After a probe the limit is the previous one, or lower in proportion as the calls were too slow then, but not below that of
///   the probe.
/// - A window in which more than a tenth of the calls were overloaded or timed out takes a tenth off a full limit. In a probe it
///   also ends the probe without a result. Only a window that begins a probe takes nothing off.
///
/// A probe may take the limit below the lowest [bound](LimitBounds), because a baseline measured at that bound would be that of a
/// queue.
///
/// # Simulated results
///
/// In simulations of 46 services at three seeds (`cargo run --release -p damper-sim -- concurrency --bars`) the service reaches
/// at least 0.95 of its capacity at three times its load and more, with a p90 of at most twice the unloaded one, and recovers
/// within 10 s of trouble. Three kinds of services do less:
///
/// - Where fewer than 50 calls end in a second, 0.92: a reading takes seconds, its chance error of some 13 % moves the limit, and
///   probes take up to a thirtieth of the time at half of the throughput.
/// - A service of one worker does 0.92 at a limit of 1, because it waits for each next call.
/// - A service whose throughput falls beyond a knee does 0.83 of its peak.
///
/// At twelve other seeds (16 to 27) it missed one of these bars: a service that became three times slower for good, at a third of
/// its load, recovered after 14 s.
///
/// Latencies are geometric means, because a mean of slow and fast calls must not depend on the few slowest, and a quantile of a
/// mix of two kinds of calls says nothing about one of them. Rules by the lowest latency, by quantiles or by correlation were
/// simulated too: they starve the service, or drift up under a lasting overload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbedGradient {
    bounds: LimitBounds,
    limit: f64,
    /// The latency of the unloaded service; as all latencies here, the logarithm of microseconds.
    baseline: Option<f64>,
    /// Whether a full window was discarded before there was a baseline: the first calls are slow.
    has_started: bool,
    /// The highest limit since the baseline was learned.
    highest: f64,
    /// Whether the last full window's reading was too far from the baseline to be trusted at once.
    is_in_doubt: bool,
    since_learnt: Duration,
    interval: Duration,
    probe: Option<Probe>,
}

/// A probe in progress.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Probe {
    limit_before: f64,
    reading_before: f64,
    /// The reading at the limit before this one.
    last: f64,
    is_first: bool,
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
            is_in_doubt: false,
            since_learnt: Duration::ZERO,
            interval: FIRST_INTERVAL,
            probe: None,
        }
    }

    /// Returns the plan as [`first`](LimitRule::first) does, for constants.
    pub(in crate::concurrency) const fn first_plan(&self) -> WindowPlan {
        WindowPlan::new(self.limit as u32)
    }

    /// Sets the latency of the unloaded service to `baseline`.
    fn learn(&mut self, baseline: f64) {
        self.baseline = Some(baseline);
        self.since_learnt = Duration::ZERO;
        self.highest = self.limit;
        self.is_in_doubt = false;
    }

    /// Evaluates an ordinary window.
    fn follow(&mut self, window: &WindowSummary) -> WindowPlan {
        self.since_learnt = self.since_learnt.saturating_add(window.since_plan);
        let old = self.limit;
        let reading = reading_of(window);
        if let Some(reading) = reading
            && f64::from(window.peak_in_flight) <= old / 2.0
        {
            self.learn(self.baseline.map_or(reading, |baseline| baseline * KEPT + reading * (1.0 - KEPT)));
        }
        if !window.is_full(old as u32) {
            return WindowPlan::new(old as u32);
        }
        if let Some(reading) = reading {
            if self.baseline.is_none() && !self.has_started {
                self.has_started = true;
                return WindowPlan::new(old as u32);
            }
            let was_in_doubt = self.is_in_doubt;
            self.approach_target(reading);
            if self.since_learnt >= self.interval || was_in_doubt && self.is_in_doubt {
                return self.begin_probe(old, reading, window.in_flight);
            }
        }
        if window.is_failing() {
            self.limit = self.limit.min(old * AFTER_OVERLOAD);
        }
        self.limit = self.bounds.hold(self.limit);
        if let Some(reading) = reading
            && self.limit < self.highest / 2.0
        {
            return self.begin_probe(old, reading, window.in_flight);
        }
        self.highest = self.highest.max(self.limit);
        WindowPlan::new(self.limit as u32).after(old, self.limit, window.in_flight)
    }

    /// Changes the limit by the reading of a full window, unless that puts the baseline in doubt.
    fn approach_target(&mut self, reading: f64) {
        let Some(baseline) = self.baseline else { return };
        let change = TARGET + baseline - reading;
        self.is_in_doubt = !(MOST_DOWN..=MOST_UP).contains(&change);
        if !self.is_in_doubt {
            // The root, because a reading is a guess, and latency rises faster than the limit where there is a queue.
            self.limit *= exp2(change / 2.0);
        }
    }

    /// Begins a probe at half of the limit that `reading` was measured under.
    fn begin_probe(&mut self, limit_before: f64, reading: f64, in_flight: u32) -> WindowPlan {
        self.limit = limit_before;
        let limit = half_of(limit_before as u32);
        self.probe = Some(Probe {
            limit_before,
            reading_before: reading,
            last: reading,
            is_first: true,
            limit,
            length: Duration::ZERO,
        });
        probe_plan(limit, in_flight)
    }

    /// Evaluates a window of a probe: ends the probe, or halves the limit again.
    fn probe(&mut self, mut probe: Probe, window: &WindowSummary) -> WindowPlan {
        probe.length = probe.length.saturating_add(window.since_plan);
        let samples = WindowPlan::new(probe.limit).samples;
        let is_whole = window.successes.saturating_add(window.overloaded) >= samples;
        let Some(reading) = window.log2_latency.filter(|_| is_whole && !window.is_failing()) else {
            return self.drop_probe(probe, window);
        };
        let shortest = FIRST_INTERVAL.max(probe.length.saturating_mul(SHORTEST_PAUSE));
        if let Some(baseline) = self.baseline
            && probe.is_first
            && (baseline - TARGET..=baseline + TARGET).contains(&reading)
        {
            let longest = LONGEST_INTERVAL.max(probe.length.saturating_mul(LONGEST_PAUSE));
            let is_confirmed = reading >= baseline - CONFIRMED_BELOW;
            let interval = if is_confirmed { self.interval.saturating_mul(2) } else { FIRST_INTERVAL };
            self.interval = interval.clamp(shortest, longest);
            return self.end_probe(probe, f64::midpoint(baseline, reading), window);
        }
        // A lower limit shortens a queue, but does not speed up a slower release of the service.
        let lower = half_of(probe.limit);
        if probe.last - reading > TARGET && lower < probe.limit {
            self.probe = Some(Probe { last: reading, is_first: false, limit: lower, ..probe });
            return probe_plan(lower, window.in_flight);
        }
        self.interval = shortest;
        self.end_probe(probe, reading, window)
    }

    /// Ends a probe with the baseline that it found.
    fn end_probe(&mut self, probe: Probe, baseline: f64, window: &WindowSummary) -> WindowPlan {
        // By Little's law, the share of calls in flight at the target latency, at the throughput before the probe.
        let share = exp2((TARGET + baseline - probe.reading_before).min(0.0));
        self.limit = self.bounds.hold((probe.limit_before * share).max(f64::from(probe.limit)));
        self.learn(baseline);
        self.probe = None;
        WindowPlan::new(self.limit as u32).after(f64::from(probe.limit), self.limit, window.in_flight)
    }

    /// Ends a probe without a result: no call was refused, or too many were overloaded.
    fn drop_probe(&mut self, probe: Probe, window: &WindowSummary) -> WindowPlan {
        let share = if window.is_failing() { AFTER_OVERLOAD } else { 1.0 };
        self.limit = self.bounds.hold(probe.limit_before * share);
        // The next one comes after another interval.
        self.since_learnt = Duration::ZERO;
        self.highest = self.limit;
        self.is_in_doubt = false;
        self.probe = None;
        WindowPlan::new(self.limit as u32).after(f64::from(probe.limit), self.limit, window.in_flight)
    }
}

/// Returns the latency of a window in which at least half of the calls succeeded.
///
/// The few that succeed in an outage may be another kind of calls, such as those served from a cache.
fn reading_of(window: &WindowSummary) -> Option<f64> {
    window.log2_latency.filter(|_| window.successes >= window.overloaded)
}

/// Returns half of a limit, even below the lowest bound.
///
/// A probe with a smaller cut would measure a queue.
fn half_of(limit: u32) -> u32 {
    (limit / 2).max(1)
}

fn probe_plan(limit: u32, in_flight: u32) -> WindowPlan {
    WindowPlan { skip: in_flight, unless_full: Some(PROBE_PATIENCE), ..WindowPlan::new(limit) }
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

impl BoundedRule for ProbedGradient {
    fn set_bounds(&mut self, bounds: LimitBounds, _: u32) -> u32 {
        self.bounds = bounds;
        self.limit = bounds.hold(self.limit);
        self.highest = bounds.hold(self.highest);
        match &mut self.probe {
            Some(probe) => {
                probe.limit_before = bounds.hold(probe.limit_before);
                probe.limit = probe.limit.min(bounds.max());
                probe.limit
            }
            None => self.limit as u32,
        }
    }
}
