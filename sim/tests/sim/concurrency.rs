//! Concurrency limits on a simulated server.
//!
//! The tests check that the simulation is right, and that damper's limit meets its bars.

#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52 here")]
#![allow(clippy::float_cmp, reason = "these are exact: computed by hand, or never touched")]

use damper_sim::concurrency::limit::{Finished, Limit};
use damper_sim::concurrency::record::Summary;
use damper_sim::concurrency::report::{SEEDS, record, worst};
use damper_sim::concurrency::rules::Contender;
use damper_sim::concurrency::run::run;
use damper_sim::concurrency::scenario::{Demand, Load, Patience, Scenario, Side};
use damper_sim::concurrency::scenarios;
use damper_sim::concurrency::server::{Discipline, Power, Server};
use damper_sim::concurrency::service_time::{QUANTILES, ServiceTime, Shape};
use damper_sim::random::Random;

/// Admits every call, and records when each ended and its latency.
#[derive(Default)]
struct Ends(Vec<(f64, f64)>);

impl Limit for Ends {
    fn try_acquire(&mut self, _now: f64, _call: usize) -> bool {
        true
    }

    fn finished(&mut self, now: f64, call: Finished) {
        self.0.push((now, call.latency));
    }

    fn limit(&self) -> f64 {
        f64::from(u32::MAX)
    }
}

/// Two clients that call again at once, and a service time of a second.
fn two_clients(discipline: Discipline) -> Vec<(f64, f64)> {
    let service = ServiceTime::new(Shape::Constant, 1.0);
    let demand = Demand::Closed { clients: 2, think: 0.0 };
    let mut ends = Ends::default();
    let _ = run(&Scenario::new("two clients", discipline, 1.0, service, demand).seconds(4.5), &mut ends, 1);
    ends.0.iter().map(|(now, latency)| ((now * 1e6).round() / 1e6, (latency * 1e6).round() / 1e6)).collect()
}

#[test]
fn two_clients_run_as_computed_by_hand() {
    // One worker: the second client waits for the first, and from then on each waits for the other.
    assert_eq!(two_clients(Discipline::Workers), [(1.0, 1.0), (2.0, 2.0), (3.0, 2.0), (4.0, 2.0)]);
    // One core: both run at half the speed.
    assert_eq!(two_clients(Discipline::Sharing), [(2.0, 2.0), (2.0, 2.0), (4.0, 2.0), (4.0, 2.0)]);
    // A knee at one call that loses a half: both run at a third of the speed.
    assert_eq!(two_clients(Discipline::Knee { loss: 0.5 }), [(3.0, 3.0), (3.0, 3.0)]);
}

#[test]
fn change_of_speed_stretches_the_rest_of_a_call() {
    let mut server = Server::new(Discipline::Workers, Power { size: 1.0, speed: 1.0 });
    server.start(0.0, 0, 2.0);
    assert_eq!(server.next_end(), 2.0);
    server.change(1.0, Power { size: 1.0, speed: 0.5 });
    assert_eq!(server.next_end(), 3.0);
    server.change(2.0, Power { size: 1.0, speed: 0.0 });
    assert_eq!(server.next_end(), f64::INFINITY);
    server.change(10.0, Power { size: 1.0, speed: 1.0 });
    assert_eq!((server.next_end(), server.end(10.5)), (10.5, Some(0)));
}

#[test]
fn service_times_have_the_quantiles_and_the_mean_that_are_stated() {
    let shapes = [
        Shape::Constant,
        Shape::Exponential,
        Shape::LogNormal(0.5),
        Shape::LogNormal(1.0),
        Shape::TwoModes { slow: 0.05, ratio: 20.0 },
    ];
    for shape in shapes {
        let (service, mut random) = (ServiceTime::new(shape, 0.1), Random::new(7));
        let mut drawn: Vec<f64> = (0..100_000).map(|_| service.draw(&mut random)).collect();
        drawn.sort_by(f64::total_cmp);
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean / service.mean - 1.0).abs() < 0.02, "{shape:?}: mean {mean}");
        for (share, stated) in QUANTILES.into_iter().zip(service.quantiles()) {
            let drawn = drawn[(share * drawn.len() as f64) as usize];
            assert!((drawn / stated - 1.0).abs() < 0.05, "{shape:?}: p{share} {drawn}, stated {stated}");
        }
    }
}

/// The textbook queue with one worker, whose results are known.
fn one_worker(load: f64, contender: Contender) -> Summary {
    let service = ServiceTime::new(Shape::Exponential, 0.01);
    let demand = Demand::Open(Load::Steady(load));
    let scenario = Scenario::new("one worker", Discipline::Workers, 1.0, service, demand).seconds(3_000.0);
    record(contender, &scenario, 1).summary()
}

#[test]
fn one_worker_queues_as_theory_has_it() {
    // At half load an M/M/1 queue doubles every quantile.
    let latency = one_worker(0.5, Contender::None).latency;
    assert!(latency.iter().all(|latency| (latency / 2.0 - 1.0).abs() < 0.03), "{latency:?}");
    // With room for four, M/M/1/4 at full load refuses a fifth.
    let throughput = one_worker(1.0, Contender::Fixed(4)).throughput;
    assert!((throughput - 0.8).abs() < 0.01, "{throughput}");
}

#[test]
fn same_seed_gives_the_same_run() {
    let scenario = named("timeouts of 0.5 s, three retries, 3x").seconds(60.0);
    let figures = |seed| format!("{:?}", record(Contender::Damper, &scenario, seed).summary());
    assert_eq!(figures(1), figures(1));
    assert_ne!(figures(1), figures(2));
}

fn named(name: &str) -> Scenario {
    scenarios::all().into_iter().find(|scenario| scenario.name == name).expect("a scenario of this name")
}

/// The worst of damper's limit with three seeds, after this many seconds.
fn damper(name: &str, seconds: f64) -> Summary {
    let scenario = named(name).seconds(seconds);
    let worst = worst(&SEEDS.map(|seed| record(Contender::Damper, &scenario, seed).summary()));
    println!("{name}: {worst:?}");
    worst
}

#[test]
fn overloaded_servers_stay_busy_and_fast() {
    // Long enough to contain some probes.
    let scenarios = [
        ("50 workers, constant, 10x", 480.0, 0.95),
        ("50 workers, exponential, 10x", 480.0, 0.95),
        ("50 workers, log-normal 0.5, 10x", 480.0, 0.95),
        ("50 workers, log-normal 1, 10x", 480.0, 0.95),
        ("50 workers, exponential, 3x", 480.0, 0.95),
        ("4 workers, log-normal 1, 20 ms, 10x", 1800.0, 0.95),
        ("8 cores, exponential, 10x", 480.0, 0.95),
        ("8 cores, log-normal 1, 10x", 480.0, 0.95),
        ("8 cores, bimodal, 10x", 480.0, 0.95),
        ("timeouts of 0.5 s, three retries, 3x", 120.0, 0.95),
        ("limit at the client, timeouts of 0.5 s, three retries, 3x", 120.0, 0.95),
        // Beyond a knee, as a share of the peak.
        ("knee at 20, 5 % a call, 10x", 480.0, 0.8),
        ("knee at 50, 1 % a call, log-normal 0.5, 10x", 480.0, 0.8),
        // With few completions a second, a probe takes long.
        ("1 worker, constant 100 ms, 10x", 1800.0, 0.92),
        ("20 workers, exponential 2 s, 10x", 1800.0, 0.92),
    ];
    for (name, seconds, least) in scenarios {
        let Summary { throughput, latency, drift, silence, .. } = damper(name, seconds);
        assert!(throughput >= least, "{name}: {throughput} of what is possible, at least {least}");
        assert!(latency[1] <= 2.0, "{name}: p90 {}", latency[1]);
        // Over a minute's calls, which vary at random.
        assert!(drift <= 1.2, "{name}: drift {drift}");
        assert!(silence <= 3.0, "{name}: {silence} s without an answer");
    }
}

/// The p90 is at the edge of the fast calls, so the p50 and the p99 are checked.
#[test]
fn mixed_calls_stay_fast() {
    for name in ["50 workers, bimodal, 10x", "50 workers, a tenth takes 10 times as long, 10x"] {
        let Summary { throughput, latency: [p50, _, p99], .. } = damper(name, 240.0);
        assert!(throughput >= 0.95 && p50 <= 2.0 && p99 <= 2.0, "{name}: {throughput}, p50 {p50}, p99 {p99}");
    }
}

#[test]
fn light_load_is_admitted_and_leaves_the_limit_unchanged() {
    for name in ["50 workers, exponential, 0.8x", "50 workers, exponential, 0.3x", "60 clients that think 0.05 s"] {
        let Summary { throughput, latency, .. } = damper(name, 240.0);
        assert!(throughput >= 0.98 && latency[1] <= 1.1, "{name}: {throughput}, p90 {}", latency[1]);
    }
    let Summary { limit, .. } = damper("50 workers, exponential, 10 calls a second", 1800.0);
    assert_eq!(limit, [20.0; 3]);
}

#[test]
fn throughput_is_back_within_ten_seconds_of_trouble() {
    let scenarios = [
        "a third of the workers for a minute, 10x",
        "a third of the workers for a minute, 1.5x",
        "a third of the workers for a minute, 0.8x",
        "a third of the speed for a minute, 10x",
        "a third of the speed for a minute, 0.8x",
        "8 cores, a third of them for a minute, 10x",
        "a stall of a minute, 3x",
        "three times slower for good, 10x",
    ];
    for name in scenarios {
        let back = damper(name, 300.0).recovered.expect("there was trouble");
        assert!(back.throughput <= 10.0 && back.latency <= 10.0, "{name}: {back:?}");
    }
}

/// The best fixed limits are those of the tables, with at most damper's p90.
#[test]
fn limit_near_the_capacity_is_nearly_as_good_as_the_best_fixed_limit() {
    for (name, best) in [("50 workers, exponential, 1x", 65), ("8 cores, exponential, 1.05x", 16)] {
        for load in [0.95, 1.0, 1.05, 1.1] {
            let scenario = Scenario { demand: Demand::Open(Load::Steady(load)), ..named(name).seconds(600.0) };
            let [damper, fixed] = [Contender::Damper, Contender::Fixed(best)]
                .map(|contender| record(contender, &scenario, SEEDS[0]).summary().throughput);
            assert!(damper >= fixed - 0.03, "{name}, at {load}: {damper}, {fixed} with a fixed limit");
        }
    }
}

/// Calls that time out at the client count as overloaded for its limit, which falls.
#[test]
fn timeouts_at_the_client_lower_its_limit() {
    let service = ServiceTime::new(Shape::Constant, 0.1);
    let limits = [Side::Server, Side::Client].map(|limit_at| {
        let patience = Patience { timeout: 0.05, retries: 0, limit_at };
        let demand = Demand::Impatient(Load::Steady(3.0), patience);
        let scenario = Scenario::new("too slow", Discipline::Workers, 50.0, service, demand).seconds(120.0);
        record(Contender::Damper, &scenario, 1).summary().limit[1]
    });
    assert!(limits[0] > 40.0 && limits[1] < 5.0, "{limits:?}");
}

/// Known defects of other rules, reproduced in the same simulation.
#[test]
fn other_rules_show_their_known_defects() {
    let overload = named("50 workers, exponential, 10x").seconds(900.0);
    let of = |contender| record(contender, &overload, 1).summary();
    let gradient2 = of(Contender::Gradient2);
    assert!(gradient2.drift > 2.0, "Gradient2 grows for ever (#134): {gradient2:?}");
    let vegas = of(Contender::Vegas);
    assert!(vegas.throughput < 0.3, "Vegas starves: {vegas:?}");
    let envoy = of(Contender::Envoy);
    assert!(envoy.limit[0] <= 3.0, "Envoy's probes pin the limit to 3 (#46532): {envoy:?}");
    let mild = record(Contender::Failsafe, &named("50 workers, exponential, 1.05x").seconds(900.0), 1).summary();
    assert!(mild.drift > 1.5, "failsafe-go's baseline learns the queue (#127): {mild:?}");
    let none = of(Contender::None);
    assert!(none.latency[1] > 100.0, "no limit: {none:?}");
}
