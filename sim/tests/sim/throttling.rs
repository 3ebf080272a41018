//! Client-side throttling, simulated.

#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52 here")]
#![allow(clippy::float_cmp, reason = "these are exact: the same computation twice, or whole numbers")]

use damper::http::{HttpProtocol, ResponseHead};
use damper::throttle::{Hints, Moment, Strategy};
use damper::{Quota, Reads};
use damper_sim::concurrency::bars::Bar;
use damper_sim::random::Random;
use damper_sim::throttling::bars::{
    beside_4, clearing, default_setting, figures, mean, percentile, published, starting_at,
};
use damper_sim::throttling::contender::{Contender, Options};
use damper_sim::throttling::experiment::{End, Experiment};
use damper_sim::throttling::model::{Decrease, KeptSleep, Level};
use damper_sim::throttling::options::Arguments;
use damper_sim::throttling::report::{POINTS, chart, report};
use damper_sim::throttling::run::run;
use damper_sim::throttling::server::{self, Algorithm};
use damper_sim::throttling::settings;
use damper_sim::throttling::throttle::Throttle;
use std::time::Duration;

const SEEDS: [u64; 5] = [101, 102, 103, 104, 105];

/// Sleeps for a second before each call, and for two after a refusal.
struct OneAndTwo;

impl Throttle for OneAndTwo {
    fn before_call(&mut self, _: f64, _: f64) -> f64 {
        1.0
    }

    fn answered(&mut self, hints: &Hints, _: f64, _: f64) -> Option<f64> {
        hints.is_rejected().then_some(2.0)
    }
}

/// Two clients of a server that refills one token a second, and starts empty.
///
/// A call arrives half a second after it is sent, and its response takes another half. The first client begins at 0,
/// the second at 0.25 s.
///
/// | client | arrives at | |
/// |---|---|---|
/// | 1 | 1.5 | takes the token of second 1 |
/// | 2 | 1.75 | refused, sleeps for 2 s from 2.25 |
/// | 1 | 3.5 | takes the token of second 2; that of second 3 remains |
/// | 2 | 4.75 | takes one of seconds 3 and 4 |
/// | 1 | 5.5 | takes the other; that of second 5 remains |
/// | 2 | 6.75 | takes one; that of second 6 remains |
#[test]
fn run_of_two_clients_is_the_one_computed_by_hand() {
    let experiment = Experiment {
        clients: 2,
        processes: 2,
        quota: Quota::per_second(1).burst(4),
        latency: 1.0,
        latency_spread: 0.0,
        join_gap: 0.25,
        end: End::After(7.0),
        ..Experiment::default()
    };
    let record = run(&experiment, &Contender::with_throttles("", |_| Box::new(OneAndTwo)), 1);
    let answers: Vec<_> =
        record.answers.iter().map(|answer| (answer.at, answer.client, answer.rejected, answer.remaining)).collect();
    let by_hand = [
        (1.5, 0, false, 0),
        (1.75, 1, true, 0),
        (3.5, 0, false, 1),
        (4.75, 1, false, 1),
        (5.5, 0, false, 1),
        (6.75, 1, false, 1),
    ];
    assert_eq!(answers, by_hand);
    let sleeps: Vec<_> = record.sleeps.iter().map(|slept| (slept.at, slept.client, slept.seconds)).collect();
    let by_hand =
        [(0.0, 0, 1.0), (0.25, 1, 1.0), (2.0, 0, 1.0), (2.25, 1, 2.0), (4.0, 0, 1.0), (5.25, 1, 1.0), (6.0, 0, 1.0)];
    assert_eq!(sleeps, by_hand);
    let figures = record.figures();
    assert_eq!((figures.retries, figures.longest_sleep, figures.accepted), (1.0 / 6.0, 2.0, 5.0));
}

fn short() -> Experiment {
    Experiment { end: End::After(300.0), ..Experiment::default() }
}

#[test]
fn same_seed_gives_the_same_bytes() {
    let svgs = |first| -> (String, Vec<String>) {
        let report = report(&short(), &Options::default(), &[first, 2], |_, _, _| {}).expect("in range");
        (report.table.text(), report.charts.iter().map(|(_, chart)| chart.svg()).collect())
    };
    assert_eq!(svgs(1), svgs(1));
    assert_ne!(svgs(1), svgs(3));
}

/// Counts the points of each polyline.
fn polylines(svg: &str) -> Vec<usize> {
    let document = roxmltree::Document::parse(svg).expect("well-formed");
    let lines = document.descendants().filter(|node| node.has_tag_name("polyline"));
    lines.map(|line| line.attribute("points").expect("the line has points").split_whitespace().count()).collect()
}

#[test]
fn every_chart_has_the_curves_and_points_of_its_run() {
    let contenders = Contender::all(Quota::per_hour(4_500), &Options::default()).expect("in range");
    for contender in &contenders {
        let record = run(&short(), contender, 1);
        let chart = chart(contender.name(), &record);
        assert_eq!(chart.panels.iter().map(|panel| panel.lines.len()).collect::<Vec<_>>(), [10, 10, 1, 10]);
        let points: Vec<&Vec<f64>> =
            chart.panels.iter().flat_map(|panel| panel.lines.iter().map(|line| &line.points)).collect();
        assert!(points.iter().all(|points| points.len() == POINTS));
        // The scale is logarithmic, so it has no 0.
        let drawn: Vec<usize> =
            points.iter().map(|points| points.iter().filter(|value| **value > 0.0).count()).collect();
        assert_eq!(polylines(&chart.svg()), drawn, "{}", contender.name());
        // The last points are the totals of the run.
        let last = |panel: usize| -> Vec<f64> {
            chart.panels[panel].lines.iter().map(|line| line.points[POINTS - 1]).collect()
        };
        assert_eq!(last(1), record.requests.iter().copied().map(f64::from).collect::<Vec<_>>());
        assert_eq!(last(3), record.refused.iter().copied().map(f64::from).collect::<Vec<_>>());
        assert_eq!(last(2), [record.answers.last().expect("the record has responses").remaining as f64]);
    }
}

#[test]
fn comparison_has_a_curve_of_each_strategy_in_each_panel() {
    let report = report(&short(), &Options::default(), &[1], |_, _, _| {}).expect("in range");
    let names: Vec<&str> = report.charts.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "0-none.svg",
        "1-backoff-2-0.svg",
        "1-backoff-1-2.svg",
        "2-gradual.svg",
        "3-proportional.svg",
        "4-remaining.svg",
        "5-level.svg",
        "aws-cubic.svg",
        "strategies.svg",
    ];
    assert_eq!(names, expected);
    assert_eq!(polylines(&report.charts[8].1.svg()).len(), 4 * 8);
}

fn missed(bars: &[Bar]) -> Vec<String> {
    bars.iter()
        .filter(|bar| !bar.is_met())
        .map(|bar| format!("{}: {} is {:.3}", bar.scenario, bar.what, bar.figure))
        .collect()
}

#[test]
fn figures_have_the_published_order_and_size() {
    assert_eq!(missed(&published(&(1..=20).collect::<Vec<_>>())), Vec::<String>::new());
}

fn level(experiment: &Experiment, options: &Options) -> Contender {
    Contender::level(experiment.told(), options).expect("in range")
}

#[test]
fn level_reaches_its_bars_in_the_published_experiment() {
    assert_eq!(missed(&default_setting(level, &SEEDS)), Vec::<String>::new());
}

#[test]
fn strategy_4_misses_the_bars_of_level() {
    let four =
        |experiment: &Experiment, options: &Options| Contender::remaining(experiment.quota, options).expect("in range");
    let missed = missed(&default_setting(four, &SEEDS));
    assert!(missed.iter().any(|bar| bar.contains("retries")) && missed.iter().any(|bar| bar.contains("deviation")));
}

/// The model is slow and simple, while damper's strategy computes in whole numbers.
#[test]
fn strategies_of_damper_behave_like_their_models() {
    let experiment = Experiment::default();
    let (quota, min_sleep) = (experiment.quota, 0.8);
    let kept = |decrease: Decrease, start: f64| {
        Contender::with_throttles("", move |_| Box::new(KeptSleep::new(min_sleep, 1.2, decrease, 3_600.0, start)))
    };
    let clear = |contender: &Contender| mean(&clearing(&experiment, contender, &SEEDS));
    let from_1 = starting_at(1);
    let three = Contender::proportional(quota, &from_1).expect("in range");
    let four = Contender::remaining(quota, &from_1).expect("in range");
    for (own, model) in [(three, Decrease::Proportional(4_500.0)), (four, Decrease::Remaining(4_500.0))] {
        let ratio = clear(&own) / clear(&kept(model, 1.0));
        assert!((0.99..1.01).contains(&ratio), "{}: {ratio}", own.name());
        let retries = |contender: &Contender| {
            mean(&figures(&experiment, contender, &SEEDS).iter().map(|f| f.retries).collect::<Vec<_>>())
        };
        let started = match model {
            Decrease::Remaining(_) => Contender::remaining(quota, &Options::default()),
            _ => Contender::proportional(quota, &Options::default()),
        };
        let ratio = retries(&started.expect("in range")) / retries(&kept(model, 0.0));
        assert!((0.75..1.33).contains(&ratio), "{}: {ratio}", own.name());
    }
}

#[test]
fn model_of_level_reaches_its_bars_too() {
    let model = |experiment: &Experiment, _: &Options| {
        let quota = experiment.quota;
        Contender::with_throttles("model", move |_| Box::new(Level::new(quota)))
    };
    assert_eq!(missed(&default_setting(model, &SEEDS)), Vec::<String>::new());
    let settings: Vec<_> = settings::all().into_iter().filter(|setting| setting.name.starts_with("100/min")).collect();
    assert_eq!(missed(&beside_4(model, &settings, &SEEDS)), Vec::<String>::new());
}

/// 300 random sequences of 300 responses.
///
/// Times are whole units of the clock in damper's word, so that both see the same ages.
#[test]
fn level_of_damper_sleeps_like_its_model_after_any_answers() {
    let per_day = Quota::per(1_000_000, Duration::from_secs(24 * 3600)).expect("a valid quota");
    let (mut grown, mut stopped) = (0, 0);
    for seed in 0..300 {
        let quota = [Quota::per_hour(4_500), Quota::per_minute(100), per_day][seed as usize % 3];
        let (level, mut word, mut model) = (damper::throttle::Level::new(quota), 0, Level::new(quota));
        let token = quota.window().as_micros() as u64 / u64::from(quota.limit());
        let unit = 1 << token.ilog2();
        let mut random = Random::new(seed);
        let rejected = 0.5 * random.uniform() * random.uniform();
        let mut micros = 0;
        for step in 0..300 {
            micros += unit * (random.uniform() * 16.0) as u64;
            let (now, chance) = (micros as f64 / 1e6, random.uniform());
            let moment = Moment::new(micros, (chance * 2.0_f64.powi(64)) as u64);
            let seconds = |most: f64| Some(Duration::from_secs_f64(most * token as f64 / 1e6));
            let hints = if random.uniform() < rejected {
                let hints = Hints::REJECTED.remaining(Some((3.0 * random.uniform()) as u64));
                match random.uniform() {
                    part if part < 0.1 && seed < 200 => hints.retry_after(seconds(40.0)).resets_in(seconds(100.0)),
                    part if part < 0.3 => hints.retry_after(seconds(200.0)).resets_in(seconds(200.0 * part / 0.2)),
                    _ => hints,
                }
            } else {
                let hints = Hints::ACCEPTED.remaining(Some((60.0 * random.uniform().powi(2)) as u64));
                hints.resets_in(seconds(1_000.0 * random.uniform().powi(2)))
            };
            let (own, expected) = (level.pause(word, &hints), model.stop(&hints));
            if hints.is_accepted() {
                assert_eq!(own.map(|stop| stop.as_secs_f64()), expected, "seed {seed}, step {step}");
                stopped += u32::from(own.is_some());
            }
            let close = |own: Duration, model: f64| {
                (own.as_secs_f64() - model).abs() < 0.004 * model + 0.001 * token as f64 / 1e6
            };
            let (own, expected) = (level.answered(&mut word, &hints, moment), model.learn(&hints, now, chance));
            if expected > 0.0 {
                assert!(close(own, expected), "seed {seed}, step {step}: retries after {own:?}, not {expected} s");
            }
            let (own, expected) = (level.before_call(word, moment), model.before_call(now, chance));
            assert!(close(own, expected), "seed {seed}, step {step}: sleeps {own:?}, not {expected} s");
            grown += u32::from(model.sleep() > 15.0 * token as f64 / 1e6);
        }
    }
    assert!(grown > 1_000, "the longest sleep was learned: {grown}");
    assert!(stopped > 1_000, "fixed windows were learned: {stopped}");
}

#[test]
fn level_uses_a_sliding_counter_that_states_its_reset() {
    let experiment = Experiment { algorithm: Algorithm::SlidingCounter, hints: true, ..Experiment::default() };
    for seed in SEEDS {
        let accepted = run(&experiment, &level(&experiment, &Options::default()), seed).figures().accepted;
        assert!(accepted > 0.99 * 2_250.0, "seed {seed}: {accepted}");
    }
}

/// Clients that are configured with another quota, with hints and many calls in flight.
#[test]
fn no_client_sleeps_before_the_first_rejection_whatever_quota_it_is_told() {
    for (algorithm, processes, told) in [
        (Algorithm::TokenBucket, 1, 4_000),
        (Algorithm::TokenBucket, 1, 5_000),
        (Algorithm::SlidingLog, 1, 4_500),
        (Algorithm::SlidingLog, 50, 60),
        (Algorithm::SlidingCounter, 10, 4_000),
        (Algorithm::FixedWindow, 1, 5_000),
        (Algorithm::FixedWindow, 50, 60),
    ] {
        let experiment = Experiment {
            clients: 50,
            processes,
            told: Some(Quota::per_hour(told)),
            algorithm,
            level: server::Level::Full,
            hints: true,
            bare: 0.1,
            end: End::After(60.0),
            ..Experiment::default()
        };
        let record = run(&experiment, &level(&experiment, &Options::default()), 1);
        let rejected = record.answers.iter().find(|answer| answer.rejected).expect("4,500 calls take 15 s").at;
        let slept = record.sleeps.iter().find(|slept| slept.at < rejected);
        assert_eq!(slept, None, "{algorithm:?} of {processes} processes that are told {told}, before {rejected} s");
    }
}

/// A window of 60 calls an hour, as of an API without a token, and a client configured with 5,000.
#[test]
fn fixed_window_that_is_smaller_than_told_is_used_up_in_each_hour() {
    let experiment = Experiment {
        clients: 1,
        processes: 1,
        quota: Quota::per_hour(60),
        told: Some(Quota::per_hour(5_000)),
        algorithm: Algorithm::FixedWindow,
        level: server::Level::Full,
        hints: true,
        end: End::After(4.0 * 3_600.0),
        ..Experiment::default()
    };
    for seed in SEEDS {
        let record = run(&experiment, &level(&experiment, &Options::default()), seed);
        assert_eq!((record.figures().accepted, record.refused[0]), (240.0, 1), "seed {seed}");
        assert!(record.figures().longest_sleep < 3_620.0, "seed {seed}: {}", record.figures().longest_sleep);
    }
}

/// Demands answers without hints, and calls each second.
struct Bare;

impl Throttle for Bare {
    fn before_call(&mut self, _: f64, _: f64) -> f64 {
        1.0
    }

    fn answered(&mut self, hints: &Hints, _: f64, _: f64) -> Option<f64> {
        assert!([Hints::ACCEPTED, Hints::REJECTED].contains(hints), "{hints:?}");
        None
    }
}

#[test]
fn bare_answers_reach_clients_without_hints() {
    let experiment = Experiment { bare: 1.0, hints: true, end: End::After(60.0), ..Experiment::default() };
    let record = run(&experiment, &Contender::with_throttles("", |_| Box::new(Bare)), 1);
    assert!(record.refused.iter().all(|refused| *refused > 0), "the record is the server's");
}

/// A client that reads what remains from one header of a response, as HTTP clients do.
struct ReadingHeader {
    throttle: Box<dyn Throttle>,
    name: &'static str,
}

impl Throttle for ReadingHeader {
    fn before_call(&mut self, now: f64, chance: f64) -> f64 {
        self.throttle.before_call(now, chance)
    }

    fn answered(&mut self, hints: &Hints, now: f64, chance: f64) -> Option<f64> {
        let mut response = http::Response::new(());
        *response.status_mut() =
            if hints.is_rejected() { http::StatusCode::TOO_MANY_REQUESTS } else { http::StatusCode::OK };
        let remaining = hints.remaining.expect("each response says what remains");
        response.headers_mut().insert(self.name, remaining.into());
        self.throttle.answered(&HttpProtocol.read_from(&ResponseHead::of(&response)), now, chance)
    }
}

fn reading(name: &'static str, contender: Contender) -> Contender {
    Contender::with_throttles("reading headers", move |seed| {
        Box::new(ReadingHeader { throttle: contender.throttle(seed), name })
    })
}

/// The server of the published experiment says in a header of the older drafts what remains.
///
/// If clients do not read it, strategy 4 is strategy 3: it clears in 523 s, and `Level` has 1.3 % retries.
#[test]
fn headers_of_the_published_experiment_are_read() {
    let experiment = Experiment::default();
    let four = || Contender::remaining(experiment.quota, &starting_at(1)).expect("in range");
    let retries = |contender: &Contender| {
        100.0 * mean(&figures(&experiment, contender, &SEEDS).iter().map(|f| f.retries).collect::<Vec<_>>())
    };
    for name in ["ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining"] {
        let clear = mean(&clearing(&experiment, &reading(name, four()), &SEEDS));
        assert!((70.0..80.0).contains(&clear), "{name}: strategy 4 clears in {clear} s");
        let retries = retries(&reading(name, level(&experiment, &Options::default())));
        assert!((0.3..0.6).contains(&retries), "{name}: {retries} % of the calls of `Level` are retries");
    }
    let unread = "x-remaining";
    let clear = mean(&clearing(&experiment, &reading(unread, four()), &SEEDS));
    assert!(clear > 400.0, "without a header that is read, strategy 4 clears in {clear} s");
    let retries = retries(&reading(unread, level(&experiment, &Options::default())));
    assert!(retries > 1.0, "without a header that is read, {retries} % of the calls of `Level` are retries");
}

#[test]
fn percentile_is_the_figure_that_the_part_does_not_exceed() {
    let figures = [5.0, 1.0, 4.0, 2.0, 3.0];
    assert_eq!([0.2, 0.5, 0.95, 1.0].map(|part| percentile(&figures, part)), [1.0, 3.0, 5.0, 5.0]);
    assert!(percentile(&[], 0.5).is_nan());
}

#[test]
fn arguments_change_the_experiment_and_a_wrong_one_is_named() {
    let parsed =
        Arguments::parse(&["--clients", "4", "--server", "fixed-window", "--level", "full", "--outage", "10-15"]);
    let experiment = parsed.expect("valid").experiment;
    assert_eq!(experiment.told(), experiment.quota);
    let told = Arguments::parse(&["--told", "60/1h", "--bare", "0.1"]).expect("valid").experiment;
    assert_eq!((told.told(), told.bare), (Quota::per_hour(60), 0.1));
    assert_eq!((experiment.clients, experiment.processes), (4, 4));
    assert_eq!((experiment.algorithm, experiment.level), (Algorithm::FixedWindow, server::Level::Full));
    assert_eq!(experiment.outage, Some((600.0, 900.0)));
    for (arguments, why) in [
        (&["--clients", "0"][..], "--clients 0: must be from 1 to 10000"),
        (&["--processes", "11"], "--processes 11: must be from 1 to 10, the clients"),
        (&["--server", "x"], "--server x: must be one of token-bucket, sliding-log, sliding-counter, fixed-window"),
        (&["--seeds", "many"], "--seeds many: must be a number"),
        (&["--bare", "2"], "--bare 2: must be from 0 to 1"),
    ] {
        assert_eq!(Arguments::parse(arguments).expect_err("invalid"), why);
    }
    assert!(Arguments::parse(&["--clients"]).expect_err("invalid").starts_with("--clients has no value"));
}
