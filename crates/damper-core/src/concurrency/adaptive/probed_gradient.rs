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
const AFTER_OVERLOAD: f64 = 0.9;

/// The share of overloaded calls above the usual one that makes a window fail.
const TOLERATED: f64 = 0.1;

/// The factor below which a share of overloaded calls has fallen with the limit.
const FALLEN: f64 = 0.7;

/// The part of the background that is kept beside a higher share of overloaded calls.
///
/// The higher one is that of a window with few calls in flight.
const KEPT_BACKGROUND: f64 = 0.8;

/// The time constant with which the background falls towards a lower share of overloaded calls.
///
/// A window of this length or longer takes it all the way.
const BACKGROUND_FADES: Duration = Duration::from_secs(10);

/// The successes that make a reading even if more calls were overloaded.
const ENOUGH_SUCCESSES: u32 = 50;

/// The factor by which a queue may become faster when the limit is halved, as a logarithm: 4.
///
/// Half of the limit halves the latency at most. The rest is for chance. A greater fall is that of another mix of calls.
const MOST_FALL: f64 = 2.0;

/// The time for which a probe measures twice before it cuts the limit.
///
/// It begins with a sign of another mix of calls.
const UNSURE: Duration = Duration::from_secs(60);

/// The time after a baseline was learned in which calls that are much slower are those of another mix.
const FRESH: Duration = Duration::from_secs(2);

/// The pauses before a probe that a doubt begins, where probes find contradictory baselines.
const SHORTEST_DOUBT: Duration = Duration::from_secs(2);
const LONGEST_DOUBT: Duration = Duration::from_secs(8);

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
/// - A reading is the geometric mean of the latencies of at least 100 calls in at least half a second. At least half of them, or
///   fifty, must have succeeded.
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
/// - The share of calls that were overloaded or timed out has a baseline too, because some replies do not depend on the load: a
///   path that always answers 503, a tenant over its quota, deadlines that are too short. A window fails if its share is above
///   that baseline by more than a tenth. It takes a tenth off a full limit, and after 2 s it begins a probe.
/// - If a probe that began with a failing window fails too, with at least 0.7 times its share, the share does not follow the limit
///   and becomes the baseline. A lower share is that of an overload, so the limit is halved again. A higher share at half of the
///   limit raises the baseline by a fifth of the way; a lower one lowers it within 10 s.
///
/// A mix of calls that changes looks like a queue that comes and goes. Three rules tell them apart:
///
/// - Half of the limit halves the latency of a queue at most. A probe's reading below a quarter of the one before says nothing.
/// - For a minute after that, after a reading below the baseline by 1.4, or after one above 2.3 times a baseline that was learned in
///   the last 2 s, a probe that would cut the limit by more than 1.4 first measures at the old limit again. It cuts only if the calls
///   are slow there.
/// - After such contradictions a reading in doubt begins a probe 2 s after the last one at the earliest, then 4 s and 8 s.
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
/// In 92 more services a few callers share the limit with all others (`cargo run --release -p damper-sim -- minorities`): replies
/// that do not depend on the load, mixes that change, deadlines that clients choose, clocks of 1 to 16 ms. Polite callers get at least
/// 0.85 of what the best fixed limit gives them in 88 of these. The others:
///
/// - 503s in bursts of 1 s beside cheap calls in bursts of 1.7 s: 0.05. Count neither, or set a lowest limit.
/// - 500 calls of 0.1 ms a second in turns of 1 s beside 500 of 20 ms: 0.76 and 0.84 in two of twenty runs of 200 s, because the limit
///   takes 80 s to recover from an early cut.
/// - Calls of 1 and of 2 ms in turns of 2 and 1 s, where the others ask for 1.5 times the capacity: 0.68 and 0.12.
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
    /// The share of overloaded calls that does not follow the limit.
    background: f64,
    /// How long the mix of calls still counts as changing.
    unsure: Duration,
    /// The time after the last result before a doubt begins a probe.
    pause: Duration,
    /// Whether the last probe found a baseline far from the one before.
    has_jumped: bool,
    /// The length of the last probe.
    last_length: Duration,
    probe: Option<Probe>,
}

/// A probe in progress.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Probe {
    limit_before: f64,
    reading_before: f64,
    /// The reading at the limit before this one.
    last: f64,
    /// The share of overloaded calls before the probe, and at the limit before this one.
    share_before: f64,
    last_share: f64,
    is_first: bool,
    limit: u32,
    length: Duration,
    /// The baseline that was found, while the limit before the probe is measured once more.
    check: Option<f64>,
}

impl Probe {
    /// Returns the limit in force.
    fn limit_in_force(&self) -> u32 {
        if self.check.is_some() { self.limit_before as u32 } else { self.limit }
    }
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
            background: 0.0,
            unsure: Duration::ZERO,
            pause: Duration::ZERO,
            has_jumped: false,
            last_length: Duration::ZERO,
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

    /// Returns whether the share of overloaded calls is above the usual one by more than a tenth of all.
    fn is_failing(&self, share: f64) -> bool {
        share > self.background + TOLERATED
    }

    /// Moves the usual share of overloaded calls down towards a lower one that was seen for this time.
    fn fade_background(&mut self, share: f64, time: Duration) {
        if share < self.background {
            let part = (time.as_secs_f64() / BACKGROUND_FADES.as_secs_f64()).min(1.0);
            self.background -= (self.background - share) * part;
        }
    }

    /// Evaluates an ordinary window.
    fn follow(&mut self, window: &WindowSummary) -> WindowPlan {
        self.unsure = self.unsure.saturating_sub(window.since_plan);
        self.since_learnt = self.since_learnt.saturating_add(window.since_plan);
        let old = self.limit;
        let (reading, share) = (reading_of(window), share_of(window));
        if let Some(reading) = reading
            && f64::from(window.peak_in_flight) <= old / 2.0
        {
            self.learn(self.baseline.map_or(reading, |baseline| baseline * KEPT + reading * (1.0 - KEPT)));
            // So few calls overload nothing: the service, or a part of it, refuses for reasons of its own.
            if share > self.background {
                self.background = self.background * KEPT_BACKGROUND + share * (1.0 - KEPT_BACKGROUND);
            }
            self.fade_background(share, window.since_plan);
        }
        if !window.is_full(old as u32) {
            return WindowPlan::new(old as u32);
        }
        self.fade_background(share, window.since_plan);
        let is_failing = self.is_failing(share);
        if let Some(reading) = reading {
            if self.baseline.is_none() && !self.has_started {
                self.has_started = true;
                return WindowPlan::new(old as u32);
            }
            let was_in_doubt = self.is_in_doubt;
            self.approach_target(reading);
            let is_due = self.since_learnt >= self.interval;
            let contradicts = was_in_doubt && self.is_in_doubt && self.since_learnt >= self.pause;
            // Only a lower limit shows whether the overload follows it.
            let after_failure = FIRST_INTERVAL.max(self.last_length.saturating_mul(SHORTEST_PAUSE));
            if is_due || contradicts || is_failing && self.since_learnt >= after_failure {
                return self.begin_probe(old, reading, window);
            }
        }
        if is_failing {
            self.limit = self.limit.min(old * AFTER_OVERLOAD);
        }
        self.limit = self.bounds.hold(self.limit);
        if let Some(reading) = reading
            && self.limit < self.highest / 2.0
        {
            return self.begin_probe(old, reading, window);
        }
        self.highest = self.highest.max(self.limit);
        WindowPlan::new(self.limit as u32).after(old, self.limit, window.in_flight)
    }

    /// Changes the limit by the reading of a full window, unless that puts the baseline in doubt.
    fn approach_target(&mut self, reading: f64) {
        let Some(baseline) = self.baseline else { return };
        let change = TARGET + baseline - reading;
        self.is_in_doubt = !(MOST_DOWN..=MOST_UP).contains(&change);
        // A full limit cannot make calls faster than the unloaded service, and no queue grows so much so soon.
        if change > MOST_UP || change < MOST_DOWN && self.since_learnt <= FRESH {
            self.unsure = UNSURE;
        }
        if !self.is_in_doubt {
            // The root, because a reading is a guess, and latency rises faster than the limit where there is a queue.
            self.limit *= exp2(change / 2.0);
        }
    }

    /// Begins a probe at half of the limit that `reading` was measured under.
    fn begin_probe(&mut self, limit_before: f64, reading: f64, window: &WindowSummary) -> WindowPlan {
        self.limit = limit_before;
        let (limit, share) = (half_of(limit_before as u32), share_of(window));
        self.probe = Some(Probe {
            limit_before,
            reading_before: reading,
            last: reading,
            share_before: share,
            last_share: share,
            is_first: true,
            limit,
            length: Duration::ZERO,
            check: None,
        });
        probe_plan(limit, window.in_flight)
    }

    /// Evaluates a window of a probe: ends the probe, or halves the limit again.
    fn probe(&mut self, mut probe: Probe, window: &WindowSummary) -> WindowPlan {
        probe.length = probe.length.saturating_add(window.since_plan);
        self.last_length = probe.length;
        let share = share_of(window);
        let reading = reading_of(window).filter(|_| is_whole(window));
        if let Some(baseline) = probe.check {
            return match reading {
                Some(reading) if reading >= probe.reading_before - TARGET => self.finish_probe(probe, baseline, window),
                _ => self.reject_probe(probe, window),
            };
        }
        let Some(reading) = reading else {
            return self.drop_probe(probe, window);
        };
        let fall = probe.last - reading;
        if fall > MOST_FALL {
            return self.reject_probe(probe, window);
        }
        // A lower limit shortens a queue, but does not speed up a slower release of the service.
        let lower = Some(half_of(probe.limit)).filter(|&lower| lower < probe.limit);
        let halved = move |limit| Probe { last: reading, last_share: share, is_first: false, limit, ..probe };
        if self.is_failing(share) {
            if !self.is_failing(probe.share_before) {
                return self.drop_probe(probe, window);
            }
            if share < probe.last_share * FALLEN {
                // It follows the limit, as an overload does.
                return match lower {
                    Some(lower) => self.go_on(halved(lower), window),
                    None => self.drop_probe(probe, window),
                };
            }
            // Half of the limit and the same share: the service has other reasons.
            self.background = share;
        } else if self.is_failing(probe.share_before) {
            // It was overload. The window that began the probe took nothing off.
            probe.limit_before = (probe.limit_before * AFTER_OVERLOAD).max(f64::from(probe.limit));
        } else {
            self.fade_background(share, window.since_plan);
        }
        let shortest = FIRST_INTERVAL.max(probe.length.saturating_mul(SHORTEST_PAUSE));
        if let Some(baseline) = self.baseline
            && probe.is_first
            && (baseline - TARGET..=baseline + TARGET).contains(&reading)
        {
            let longest = LONGEST_INTERVAL.max(probe.length.saturating_mul(LONGEST_PAUSE));
            let is_confirmed = reading >= baseline - CONFIRMED_BELOW;
            let interval = if is_confirmed { self.interval.saturating_mul(2) } else { FIRST_INTERVAL };
            self.interval = interval.clamp(shortest, longest);
            self.pause = Duration::ZERO;
            self.has_jumped = false;
            return self.end_probe(probe, f64::midpoint(baseline, reading), window);
        }
        if fall > TARGET
            && let Some(lower) = lower
        {
            return self.go_on(Probe { limit_before: probe.limit_before, ..halved(lower) }, window);
        }
        if let Some(baseline) = self.baseline
            && !(baseline + MOST_DOWN..=baseline - MOST_DOWN).contains(&reading)
        {
            if self.has_jumped {
                self.double_pause();
            }
            self.has_jumped = true;
        }
        self.interval = shortest;
        self.end_probe(probe, reading, window)
    }

    /// Measures at the probe's next limit.
    fn go_on(&mut self, probe: Probe, window: &WindowSummary) -> WindowPlan {
        self.probe = Some(probe);
        probe_plan(probe.limit_in_force(), window.in_flight)
    }

    fn double_pause(&mut self) {
        self.pause = self.pause.saturating_mul(2).clamp(SHORTEST_DOUBT, LONGEST_DOUBT);
    }

    /// Ends a probe with the baseline that it found, or measures the limit before the probe once more.
    ///
    /// It does if the limit would fall by more than 1.4 and the mix of calls seems to change. Then calls may have become faster
    /// for another reason than the lower limit.
    fn end_probe(&mut self, probe: Probe, baseline: f64, window: &WindowSummary) -> WindowPlan {
        if self.unsure > Duration::ZERO
            && probe.reading_before > baseline + 2.0 * TARGET
            && f64::from(probe.limit) < probe.limit_before
        {
            return self.go_on(Probe { check: Some(baseline), ..probe }, window);
        }
        self.finish_probe(probe, baseline, window)
    }

    /// Takes the baseline that a probe found, and cuts the limit in proportion.
    fn finish_probe(&mut self, probe: Probe, baseline: f64, window: &WindowSummary) -> WindowPlan {
        // By Little's law, the share of calls in flight at the target latency, at the throughput before the probe.
        let share = exp2((TARGET + baseline - probe.reading_before).min(0.0));
        self.limit = self.bounds.hold((probe.limit_before * share).max(f64::from(probe.limit)));
        self.learn(baseline);
        self.leave_probe(probe, window)
    }

    /// Ends a probe without a result: no call was refused, or too many were overloaded.
    fn drop_probe(&mut self, probe: Probe, window: &WindowSummary) -> WindowPlan {
        let factor = if self.is_failing(share_of(window)) { AFTER_OVERLOAD } else { 1.0 };
        self.limit = self.bounds.hold(probe.limit_before * factor);
        // The next one comes after another interval.
        self.since_learnt = Duration::ZERO;
        self.highest = self.limit;
        self.is_in_doubt = false;
        self.leave_probe(probe, window)
    }

    /// Ends a probe whose readings are those of another mix of calls, which says nothing about the limit.
    fn reject_probe(&mut self, probe: Probe, window: &WindowSummary) -> WindowPlan {
        self.unsure = UNSURE;
        self.double_pause();
        self.interval = FIRST_INTERVAL.max(probe.length.saturating_mul(SHORTEST_PAUSE));
        self.drop_probe(probe, window)
    }

    fn leave_probe(&mut self, probe: Probe, window: &WindowSummary) -> WindowPlan {
        self.probe = None;
        let old = f64::from(probe.limit_in_force());
        WindowPlan::new(self.limit as u32).after(old, self.limit, window.in_flight)
    }
}

/// Returns the latency of a window in which at least half of the calls succeeded, or at least fifty.
///
/// The few that succeed in an outage may be another kind of calls, such as those served from a cache.
fn reading_of(window: &WindowSummary) -> Option<f64> {
    window.log2_latency.filter(|_| window.successes >= window.overloaded.min(ENOUGH_SUCCESSES))
}

/// Returns the share of a window's calls that were overloaded or timed out.
fn share_of(window: &WindowSummary) -> f64 {
    let overloaded = f64::from(window.overloaded);
    // Without a call there is nothing to divide by.
    overloaded / (overloaded + f64::from(window.successes)).max(1.0)
}

/// Returns whether a window of a probe did not end early for want of calls.
fn is_whole(window: &WindowSummary) -> bool {
    window.successes.saturating_add(window.overloaded) >= WindowPlan::new(1).samples
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
                probe.limit_in_force()
            }
            None => self.limit as u32,
        }
    }
}

#[cfg(test)]
mod tests;
