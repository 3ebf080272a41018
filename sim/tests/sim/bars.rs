//! Bars can fail: limits worse than damper's miss them.

#![allow(clippy::float_cmp, reason = "these are exact: computed by hand, or never touched")]

use damper_sim::concurrency::bars::{Bar, beside_fixed, lasting_recovery, limit};
use damper_sim::concurrency::report::SEEDS;
use damper_sim::concurrency::rules::Contender;
use damper_sim::concurrency::scenario::Scenario;
use damper_sim::concurrency::scenarios;
use damper_sim::concurrency::silence::Silence;

const NAN: f64 = f64::NAN;

#[test]
fn bar_is_missed_by_a_figure_beyond_it_and_by_none() {
    let at_least = |figures: &[f64]| Bar::at_least("", "", 0.95, figures).is_met();
    let at_most = |figures: &[f64]| Bar::at_most("", "", 2.0, figures).is_met();
    assert!(at_least(&[0.95, 1.0]) && at_most(&[2.0, 1.0]));
    assert!(!at_least(&[1.0, 0.949, 1.0]) && !at_most(&[1.0, 2.001, 1.0]));
    for figures in [&[][..], &[NAN, NAN, NAN], &[1.0, NAN, 1.0], &[NAN, 1.0], &[1.0, NAN]] {
        assert!(!at_least(figures) && !at_most(figures), "{figures:?}");
    }
    assert!(Bar::any("", "", 5.0).is_met() && !Bar::any("", "", NAN).is_met());
}

#[test]
fn silence_lasts_from_a_call_to_an_answer_while_the_server_works() {
    let mut silence = Silence::default();
    silence.called(1.0);
    silence.called(2.0);
    silence.answered(3.0, 0);
    // Without a call there is no silence.
    silence.called(10.0);
    silence.answered(11.0, 1);
    assert_eq!(silence.longest(11.0), 2.0);
    // A stopped server has no silence either.
    silence.speed_changed(12.0, 0.0);
    silence.called(15.0);
    silence.speed_changed(20.0, 1.0);
    silence.called(21.0);
    silence.answered(22.0, 1);
    assert_eq!(silence.longest(22.0), 2.0);
    assert_eq!(silence.longest(30.0), 8.0, "a call is in flight");
}

#[test]
fn recovery_that_does_not_last_is_ignored() {
    let mut accepted = [100; 60];
    assert_eq!(lasting_recovery(&accepted, 95.0), 0.0);
    accepted[0] = 0;
    assert_eq!(lasting_recovery(&accepted, 95.0), 1.0);
    accepted[20..30].fill(90);
    assert_eq!(lasting_recovery(&accepted, 95.0), 25.0, "ten seconds with five of these are good enough");
    accepted[59] = 0;
    assert_eq!(lasting_recovery(&accepted, 95.0), f64::INFINITY);
}

fn named(name: &str, seconds: f64) -> Scenario {
    scenarios::named(name).expect("a scenario of this name").seconds(seconds)
}

/// The bars that a limit misses.
fn missed(contender: Contender, scenario: Scenario) -> Vec<&'static str> {
    let bars = limit(contender, &[scenario], &SEEDS[..1]);
    bars.iter().filter(|bar| !bar.is_met()).map(|bar| bar.what).collect()
}

/// Only the throughput bar is missed, because every admitted call is fast.
#[test]
fn limit_that_starves_misses_the_throughput_at_every_load() {
    let starved = |scenario: &Scenario| scenario.size >= 20.0 && scenario.offered(0.0) >= 0.1 * scenario.capacity();
    for scenario in scenarios::all().into_iter().filter(starved) {
        let (name, seconds) = (scenario.name, scenario.length.min(300.0));
        let missed = missed(Contender::Fixed(5), scenario.seconds(seconds));
        assert!(missed.contains(&"throughput"), "{name}: {missed:?}");
        assert!(!missed.contains(&"p90"), "{name}: {missed:?}");
    }
}

#[test]
fn limit_that_admits_no_call_misses_every_bar() {
    for name in ["50 workers, bimodal, 10x", "8 cores, a third of them for a minute, 10x", "a stall of a minute, 3x"] {
        for bar in limit(Contender::Fixed(0), &[named(name, 300.0)], &SEEDS) {
            assert!(!bar.is_met(), "{bar:?}");
        }
    }
}

#[test]
fn no_limit_misses_the_latencies_and_collapses_under_retries() {
    let trouble = missed(Contender::None, named("a third of the workers for a minute, 0.8x", 300.0));
    assert_eq!(trouble, ["p90", "drift of the p90", "latency back, s", "p90 in trouble"]);
    let modes = missed(Contender::None, named("50 workers, bimodal, 10x", 60.0));
    assert_eq!(modes, ["p50", "p99"]);
    let retries = missed(Contender::None, named("timeouts of 0.5 s, three retries, 3x", 120.0));
    assert_eq!(retries, ["throughput", "p90", "drift of the p90", "longest time without an answer, s"]);
}

#[test]
fn other_rules_miss_the_bars_of_their_known_defects() {
    let overload = missed(Contender::Gradient2, named("50 workers, exponential, 10x", 300.0));
    assert_eq!(overload, ["drift of the p90"]);
    let trouble = missed(Contender::Gradient2, named("a third of the speed for a minute, 10x", 300.0));
    assert_eq!(trouble, ["throughput", "throughput back, s", "throughput in trouble"]);
    for contender in [Contender::Envoy, Contender::Failsafe] {
        let few_calls = missed(contender, named("50 workers, exponential, 10 calls a second", 300.0));
        assert_eq!(few_calls, ["change of the limit from its start"], "{contender:?}");
    }
    let about_the_capacity = beside_fixed(Contender::Failsafe, &SEEDS[..1], 120.0);
    assert!(about_the_capacity.iter().any(|bar| !bar.is_met() && bar.figure.is_finite()), "{about_the_capacity:?}");
}
