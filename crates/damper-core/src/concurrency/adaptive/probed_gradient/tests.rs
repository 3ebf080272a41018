//! The rule against a slow, obvious model, and what it does beside minorities, window by window.
//!
//! The model computes with latencies in microseconds and times in milliseconds, as the rule is described.

#![expect(clippy::cast_precision_loss, reason = "milliseconds of a test are far below 2^52")]
#![expect(clippy::float_cmp, reason = "whole milliseconds and limits are exact")]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

/// The rule, written down as it is described.
#[derive(Debug)]
struct Model {
    bounds: LimitBounds,
    limit: f64,
    baseline: Option<f64>,
    has_started: bool,
    highest: f64,
    is_in_doubt: bool,
    since_learnt: f64,
    interval: f64,
    background: f64,
    unsure: f64,
    pause: f64,
    has_jumped: bool,
    last_length: f64,
    probe: Option<ModelProbe>,
    /// How often each decision was made.
    seen: BTreeMap<&'static str, u32>,
}

#[derive(Clone, Copy, Debug)]
struct ModelProbe {
    limit_before: f64,
    reading_before: f64,
    share_before: f64,
    last_reading: f64,
    last_share: f64,
    halvings: u32,
    limit: f64,
    length: f64,
    found: Option<f64>,
}

/// A window in plain numbers.
#[derive(Clone, Copy, Debug)]
struct Plain {
    successes: f64,
    overloaded: f64,
    micros: f64,
    peak: f64,
    millis: f64,
}

impl Plain {
    fn share(&self) -> f64 {
        let calls = self.overloaded + self.successes;
        if calls == 0.0 { 0.0 } else { self.overloaded / calls }
    }

    fn reading(&self) -> Option<f64> {
        let is_reading = self.successes >= 50.0 || self.successes >= self.overloaded;
        (self.successes > 0.0 && is_reading).then_some(self.micros)
    }
}

impl Model {
    fn new(bounds: LimitBounds) -> Self {
        Self {
            bounds,
            limit: f64::from(bounds.start()),
            baseline: None,
            has_started: false,
            highest: f64::from(bounds.start()),
            is_in_doubt: false,
            since_learnt: 0.0,
            interval: 2_000.0,
            background: 0.0,
            unsure: 0.0,
            pause: 0.0,
            has_jumped: false,
            last_length: 0.0,
            probe: None,
            seen: BTreeMap::new(),
        }
    }

    fn see(&mut self, decision: &'static str) {
        *self.seen.entry(decision).or_default() += 1;
    }

    fn hold(&self, limit: f64) -> f64 {
        limit.max(f64::from(self.bounds.min())).min(f64::from(self.bounds.max()))
    }

    fn fails(&self, share: f64) -> bool {
        share > self.background + 0.1
    }

    fn fade(&mut self, window: &Plain) {
        if window.share() < self.background {
            self.background -= (self.background - window.share()) * (window.millis / 10_000.0).min(1.0);
        }
    }

    fn learn(&mut self, baseline: f64) {
        self.baseline = Some(baseline);
        self.since_learnt = 0.0;
        self.highest = self.limit;
        self.is_in_doubt = false;
    }

    fn next(&mut self, window: &Plain) {
        match self.probe.take() {
            None => self.follow(window),
            Some(probe) => self.measure(probe, window),
        }
    }

    fn follow(&mut self, window: &Plain) {
        self.unsure = (self.unsure - window.millis).max(0.0);
        self.since_learnt += window.millis;
        let old = self.limit;
        if let Some(reading) = window.reading()
            && window.peak <= old / 2.0
        {
            self.learn(self.baseline.map_or(reading, |baseline| baseline.powf(0.8) * reading.powf(0.2)));
            if window.share() > self.background {
                self.see("a higher background at half of the limit");
                // Rounded as in the rule, because simple shares may be exactly a tenth apart.
                self.background = 0.8 * self.background + (1.0 - 0.8) * window.share();
            } else {
                self.fade(window);
            }
        }
        if window.peak < old.floor() {
            return;
        }
        self.fade(window);
        let fails = self.fails(window.share());
        if let Some(reading) = window.reading() {
            if self.baseline.is_none() && !self.has_started {
                self.has_started = true;
                return;
            }
            let was_in_doubt = self.is_in_doubt;
            if let Some(baseline) = self.baseline {
                let room = 1.4 * baseline / reading;
                self.is_in_doubt = !(1.4 / 2.3..=1.4 * 1.4).contains(&room);
                if room > 1.4 * 1.4 {
                    self.unsure = 60_000.0;
                }
                if room < 1.4 / 2.3 && self.since_learnt <= 2_000.0 {
                    self.see("slow calls soon after a baseline");
                    self.unsure = 60_000.0;
                }
                if !self.is_in_doubt {
                    self.limit = old * room.sqrt();
                }
            }
            let is_due = self.since_learnt >= self.interval;
            let is_doubted = was_in_doubt && self.is_in_doubt && self.since_learnt >= self.pause;
            let is_overload = fails && self.since_learnt >= (4.0 * self.last_length).max(2_000.0);
            if is_due || is_doubted || is_overload {
                self.see(if is_due {
                    "a probe in time"
                } else if is_doubted {
                    "a probe for a doubt"
                } else {
                    "a probe for overload"
                });
                return self.begin(old, reading, window);
            }
        }
        if fails {
            self.see("a failing window");
            self.limit = self.limit.min(0.9 * old);
        }
        self.limit = self.hold(self.limit);
        if self.limit < self.highest / 2.0
            && let Some(reading) = window.reading()
        {
            self.see("a probe for a fall");
            return self.begin(old, reading, window);
        }
        self.highest = self.highest.max(self.limit);
    }

    fn begin(&mut self, limit_before: f64, reading: f64, window: &Plain) {
        self.limit = limit_before;
        self.probe = Some(ModelProbe {
            limit_before,
            reading_before: reading,
            share_before: window.share(),
            last_reading: reading,
            last_share: window.share(),
            halvings: 1,
            limit: (limit_before / 2.0).floor().max(1.0),
            length: 0.0,
            found: None,
        });
    }

    fn measure(&mut self, mut probe: ModelProbe, window: &Plain) {
        probe.length += window.millis;
        self.last_length = probe.length;
        let (share, is_whole) = (window.share(), window.successes + window.overloaded >= 100.0);
        if let Some(found) = probe.found {
            let is_back = window.reading().is_some_and(|reading| reading >= probe.reading_before / 1.4);
            if is_back && is_whole {
                self.see("a cut that the old limit confirms");
                self.cut(&probe, found);
            } else {
                self.see("a cut that the old limit contradicts");
                self.mixed(&probe, share);
            }
            return;
        }
        let Some(reading) = window.reading().filter(|_| is_whole) else {
            self.see("a probe without a reading");
            return self.give_up(&probe, share);
        };
        if reading < probe.last_reading / 4.0 {
            self.see("a fall that is none of a queue");
            return self.mixed(&probe, share);
        }
        if self.fails(share) {
            if !self.fails(probe.share_before) {
                self.see("overload that began in a probe");
                return self.give_up(&probe, share);
            }
            if share < 0.7 * probe.last_share {
                if probe.limit > 1.0 {
                    self.see("overload that follows the limit");
                    return self.halve(probe, reading, share);
                }
                self.see("overload at a limit of 1");
                return self.give_up(&probe, share);
            }
            self.see("overload that does not follow the limit");
            self.background = share;
        } else if self.fails(probe.share_before) {
            self.see("overload that half of the limit ended");
            probe.limit_before = (0.9 * probe.limit_before).max(probe.limit);
        } else {
            self.fade(window);
        }
        let shortest = (4.0 * probe.length).max(2_000.0);
        if let Some(baseline) = self.baseline
            && probe.halvings == 1
            && (baseline / 1.4..=baseline * 1.4).contains(&reading)
        {
            let longest = (30.0 * probe.length).max(30_000.0);
            let interval = if reading >= baseline / 1.2 { 2.0 * self.interval } else { 2_000.0 };
            self.interval = interval.max(shortest).min(longest);
            self.pause = 0.0;
            self.has_jumped = false;
            return self.end(probe, (baseline * reading).sqrt());
        }
        if reading < probe.last_reading / 1.4 && probe.limit > 1.0 {
            self.see("a queue");
            return self.halve(probe, reading, share);
        }
        if let Some(baseline) = self.baseline
            && (baseline / reading).max(reading / baseline) > 2.3 / 1.4
        {
            if self.has_jumped {
                self.see("a second jump");
                self.lengthen_pause();
            }
            self.has_jumped = true;
        }
        self.interval = shortest;
        self.end(probe, reading);
    }

    fn halve(&mut self, probe: ModelProbe, reading: f64, share: f64) {
        self.probe = Some(ModelProbe {
            last_reading: reading,
            last_share: share,
            halvings: probe.halvings + 1,
            limit: (probe.limit / 2.0).floor(),
            ..probe
        });
    }

    fn lengthen_pause(&mut self) {
        self.pause = (2.0 * self.pause).clamp(2_000.0, 8_000.0);
    }

    fn end(&mut self, probe: ModelProbe, baseline: f64) {
        if self.unsure > 0.0 && probe.reading_before > baseline * 1.4 * 1.4 && probe.limit < probe.limit_before {
            self.probe = Some(ModelProbe { found: Some(baseline), ..probe });
        } else {
            self.cut(&probe, baseline);
        }
    }

    fn cut(&mut self, probe: &ModelProbe, baseline: f64) {
        let share = (1.4 * baseline / probe.reading_before).min(1.0);
        self.limit = self.hold((probe.limit_before * share).max(probe.limit));
        self.learn(baseline);
    }

    fn give_up(&mut self, probe: &ModelProbe, share: f64) {
        self.limit = self.hold(probe.limit_before * if self.fails(share) { 0.9 } else { 1.0 });
        self.since_learnt = 0.0;
        self.highest = self.limit;
        self.is_in_doubt = false;
    }

    fn mixed(&mut self, probe: &ModelProbe, share: f64) {
        self.unsure = 60_000.0;
        self.lengthen_pause();
        self.interval = (4.0 * probe.length).max(2_000.0);
        self.give_up(probe, share);
    }

    /// Returns the limit in force.
    fn in_force(&self) -> f64 {
        match &self.probe {
            Some(ModelProbe { found: Some(_), limit_before, .. }) => limit_before.floor(),
            Some(probe) => probe.limit,
            None => self.limit.floor(),
        }
    }
}

/// Some consecutive windows of a kind.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The latency, in steps of 1.3.
    level: u8,
    /// How much of it is due to a limit above 8, in quarters.
    queued: u8,
    /// Which part of the limit was in flight.
    peak: u8,
    /// Tenths of the calls that were overloaded, and those of them that follow the limit.
    overloaded: u8,
    follows: bool,
    calls: u8,
    seconds: u8,
    windows: u8,
    jitter: u16,
}

/// Draws stretches that are long enough for probes, most of them full and with few failures.
fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    let one = (0..12_u8, 0..5_u8, 0..8_u8, 0..14_u8, any::<bool>(), 0..6_u8, 0..8_u8, 1..9_u8, any::<u16>());
    let one = one.prop_map(|(level, queued, peak, overloaded, follows, calls, seconds, windows, jitter)| Stretch {
        level,
        queued,
        peak,
        overloaded,
        follows,
        calls,
        seconds,
        windows,
        jitter,
    });
    prop::collection::vec(one, 1..60)
}

/// Runs the rule and the model through the same windows, and compares them after each one.
fn compare(stretches: &[Stretch], bounds: LimitBounds) -> Model {
    let (mut rule, mut model) = (ProbedGradient::new(bounds), Model::new(bounds));
    let mut limit = rule.first().limit;
    let mut jitter = 1_u64;
    for stretch in stretches {
        for _ in 0..stretch.windows {
            // No ratio is exactly at a threshold, where the last digit of a logarithm would decide.
            jitter = jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(stretch.jitter) * 2 + 1);
            let noise = 1.0 + f64::from((jitter >> 40) as u32) / f64::from(1 << 24) / 5.0;
            let queue = (f64::from(limit) / 8.0).max(1.0).powf(f64::from(stretch.queued) / 4.0);
            let micros = 1_000.0 * 1.3_f64.powi(i32::from(stretch.level)) * queue * noise;
            let calls = [30.0, 99.0, 100.0, 137.0, 250.0, 1_000.0][usize::from(stretch.calls)] * noise;
            let follows = if stretch.follows { f64::from(limit) / 20.0 } else { 1.0 };
            let overloaded =
                (calls * f64::from(stretch.overloaded.saturating_sub(3)) / 10.0 * follows).floor().min(calls);
            let peak = if stretch.peak == 0 { limit / 3 } else { limit };
            let millis = [500, 500, 500, 700, 1_000, 2_500, 9_000, 40_000][usize::from(stretch.seconds)];
            let length = Duration::from_millis(millis);
            let successes = (calls - overloaded).floor();
            let window = WindowSummary {
                successes: successes as u32,
                overloaded: overloaded as u32,
                log2_latency: (successes > 0.0).then(|| micros.log2()),
                peak_in_flight: peak,
                in_flight: peak,
                length,
                since_plan: length,
            };
            let plan = rule.next(&window);
            model.next(&Plain { successes, overloaded, micros, peak: f64::from(peak), millis: millis as f64 });
            let baseline = rule.baseline.map(f64::exp2);
            let is_close = |one: f64, other: f64| (one - other).abs() <= 1e-6 * other.abs().max(1e-3);
            assert!(
                rule.probe.is_some() == model.probe.is_some()
                    && is_close(rule.limit, model.limit)
                    && is_close(rule.background, model.background)
                    && rule.unsure.as_millis() as f64 == model.unsure
                    && rule.interval.as_millis() as f64 == model.interval
                    && rule.pause.as_millis() as f64 == model.pause
                    && baseline.is_some() == model.baseline.is_some()
                    && baseline.zip(model.baseline).is_none_or(|(one, other)| is_close(one, other))
                    && f64::from(plan.limit) == model.in_force(),
                "after {window:?}: {plan:?} of {rule:#?}\nand not {model:#?}"
            );
            assert_eq!(plan.unless_full.is_some(), rule.probe.is_some(), "a probe is patient");
            limit = plan.limit;
        }
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 2_000 }))]

    #[test]
    fn rule_does_what_the_model_does(stretches in stretches(), is_narrow in any::<bool>()) {
        let bounds = if is_narrow { LimitBounds::new(4, 60).unwrap() } else { LimitBounds::DEFAULT };
        compare(&stretches, bounds);
    }
}

/// The windows of the property test lead to every decision.
#[test]
fn drawn_windows_lead_to_every_decision() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeMap::new();
    for _ in 0..1_000 {
        let drawn = stretches().new_tree(&mut runner).unwrap().current();
        for (decision, times) in compare(&drawn, LimitBounds::DEFAULT).seen {
            *seen.entry(decision).or_insert(0) += times;
        }
    }
    assert_eq!(seen.len(), 18, "{seen:#?}");
    assert!(seen.values().all(|&times| times >= 3), "{seen:#?}");
}

const MS: f64 = 1_000.0;

/// A full window of half a second and of so many calls.
fn window(limit: u32, micros: f64, successes: u32, overloaded: u32) -> WindowSummary {
    WindowSummary {
        successes,
        overloaded,
        log2_latency: Some(micros.log2()),
        peak_in_flight: limit,
        in_flight: limit,
        length: Duration::from_millis(500),
        since_plan: Duration::from_millis(500),
    }
}

/// A rule that has learned a latency of 10 ms at a few calls in flight.
fn taught() -> ProbedGradient {
    let mut rule = ProbedGradient::new(LimitBounds::DEFAULT);
    rule.next(&WindowSummary { peak_in_flight: 5, ..window(5, 10.0 * MS, 100, 0) });
    rule
}

/// Makes `count` windows by what `of` says of a limit, and returns the limits.
fn limits(rule: &mut ProbedGradient, count: usize, of: impl Fn(u32, usize) -> WindowSummary) -> Vec<u32> {
    let mut limit = rule.limit as u32;
    let one = |number| {
        limit = rule.next(&of(limit, number)).limit;
        limit
    };
    (0..count).map(one).collect()
}

/// A quarter of the replies is a 503, whatever the limit.
#[test]
fn overload_that_does_not_follow_the_limit_becomes_the_background() {
    let mut rule = taught();
    let limits = limits(&mut rule, 60, |limit, _| window(limit, 14.0 * MS, 300, 100));
    assert_eq!(limits[..5], [18, 16, 14, 7, 14], "three cuts, and a probe after 2 s: {limits:?}");
    assert!(limits[5..].iter().all(|&limit| limit > 12), "no cut after the probe: {limits:?}");
    assert!((rule.background - 0.25).abs() < 0.01, "{rule:?}");
}

/// The service refuses the part of the calls that is above a limit of 6.
#[test]
fn overload_that_follows_the_limit_cuts_it() {
    let mut rule = taught();
    let refusing = |limit: u32, _| {
        let refused = 400 * limit.saturating_sub(6) / limit;
        window(limit, 13.9 * MS, 400 - refused, refused)
    };
    let limits = limits(&mut rule, 40, refusing);
    assert_eq!(limits[..5], [18, 16, 14, 7, 3], "half of the limit ends most of it, so a quarter is tried: {limits:?}");
    assert!(limits[30..].iter().all(|&limit| (3..=9).contains(&limit)), "{limits:?}");
    assert!(rule.background < 0.1, "{rule:?}");
}

/// Half of the limit halves the latency at most.
#[test]
fn fall_to_less_than_a_quarter_is_no_queue() {
    for (fast, is_queue) in [(6.2, true), (5.8, false)] {
        let mut rule = taught();
        // The limit stays, and the second window in doubt begins a probe.
        limits(&mut rule, 2, |limit, _| window(limit, 24.0 * MS, 100, 0));
        assert!(rule.probe.is_some());
        let plan = rule.next(&window(10, fast * MS, 100, 0));
        assert_eq!(plan.unless_full.is_some(), is_queue, "{fast} ms after 24 ms: {rule:?}");
        if !is_queue {
            assert_eq!((plan.limit, rule.baseline), (20, taught().baseline), "nothing is learned");
            assert_eq!((rule.unsure, rule.pause), (UNSURE, SHORTEST_DOUBT));
        }
    }
}

/// A probe that begins among slow calls may measure fast ones.
#[test]
fn cut_while_the_mix_changes_is_measured_at_the_old_limit_first() {
    for (again, limit) in [(30.0, 10), (10.0, 20)] {
        let mut rule = taught();
        // Faster than the unloaded service, so the mix changes.
        rule.next(&window(20, 7.0 * MS, 100, 0));
        rule.next(&window(20, 30.0 * MS, 100, 0));
        assert!(rule.probe.is_some());
        let plan = rule.next(&window(10, 11.0 * MS, 100, 0));
        assert_eq!((plan.limit, plan.skip, plan.unless_full), (20, 10, Some(PROBE_PATIENCE)), "once more at 20");
        let plan = rule.next(&window(20, again * MS, 100, 0));
        assert_eq!((plan.limit, plan.unless_full), (limit, None), "{again} ms at the old limit");
    }
}

/// A probe that measured fast calls has cut the limit. No queue is back at once.
#[test]
fn slow_calls_soon_after_a_cut_are_another_mix() {
    for (seconds_later, limit) in [(2, 11), (3, 6)] {
        let mut rule = taught();
        let slow_after = |limit, seconds| WindowSummary {
            since_plan: Duration::from_secs(seconds),
            ..window(limit, 24.0 * MS, 100, 0)
        };
        rule.next(&slow_after(20, 3));
        assert!(rule.probe.is_some(), "it is time for one: {rule:?}");
        assert_eq!(rule.next(&window(10, 10.0 * MS, 100, 0)).limit, 11, "{rule:?}");
        rule.next(&slow_after(11, seconds_later));
        rule.next(&slow_after(11, 1));
        assert!(rule.probe.is_some(), "the second window in doubt begins one: {rule:?}");
        // The second one is measured at the old limit if the rule checks the cut.
        for _ in 0..2 {
            rule.next(&window(5, 10.0 * MS, 100, 0));
        }
        assert_eq!(rule.limit as u32, limit, "{rule:?}");
    }
}

/// New bounds while the old limit is measured once more leave that measurement at the old limit.
#[test]
fn bounds_set_while_the_old_limit_is_measured_hold_it() {
    let mut rule = taught();
    rule.next(&window(20, 7.0 * MS, 100, 0));
    rule.next(&window(20, 30.0 * MS, 100, 0));
    rule.next(&window(10, 11.0 * MS, 100, 0));
    assert_eq!(rule.set_bounds(LimitBounds::new(1, 15).unwrap(), 20), 15);
}
