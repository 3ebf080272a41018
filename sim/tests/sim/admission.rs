//! Admission's effect on each class and tenant at three times the load.

use damper_sim::concurrency::admission::gate::Policy;
use damper_sim::concurrency::admission::run::run;
use damper_sim::concurrency::admission::tally::Tally;
use damper_sim::concurrency::admission::traffic::{self, Traffic};
use damper_sim::concurrency::bars;
use damper_sim::concurrency::report::SEEDS;

const TOP: usize = 0;
const MIDDLE: usize = 1;

/// Runs the rule without one of its parts, in traffic with feasible deadlines of the top class.
fn without(policy: Policy) -> impl Iterator<Item = (Traffic, Tally)> {
    traffic::all().into_iter().filter(Traffic::is_feasible).map(move |mut traffic| {
        traffic.server.length = 60.0;
        let tally = run(&traffic, policy, SEEDS[0]);
        (traffic, tally)
    })
}

/// The runs are shorter than those of `concurrency --bars`.
#[test]
fn gate_holds_its_bars() {
    for bar in bars::admission(&SEEDS, 60.0) {
        assert!(bar.is_met(), "{bar:?}");
    }
}

#[test]
fn top_class_has_no_preference_without_a_queue() {
    for (traffic, tally) in without(Policy::NoQueue) {
        let top = tally.group(&traffic, TOP).0.goodput();
        assert!(top < 0.5, "{}: {top}", traffic.server.name);
    }
}

#[test]
fn work_that_is_not_ended_is_late() {
    for (traffic, tally) in without(Policy::NoEnding) {
        assert!(tally.all().late() > 0.003, "{}: {:?}", traffic.server.name, tally.all());
    }
}

/// Two tenants whose counters collide share one tenant's portion.
#[test]
fn tenants_that_share_a_counter_share_one_portion() {
    let mut traffic = traffic::all().remove(0);
    traffic.server.length = 200.0;
    traffic.groups[MIDDLE].twins = true;
    // This makes a portion smaller than a tenant's demand.
    traffic.groups[MIDDLE].load *= 2.0;
    let tally = run(&traffic, Policy::Whole, SEEDS[0]);
    let of = |tenant| f64::from(tally.tenant(&traffic, MIDDLE, tenant).in_time);
    let other = (2..10).map(of).sum::<f64>() / 8.0;
    for twin in [0, 1] {
        let part = of(twin) / other;
        assert!((0.4..0.65).contains(&part), "{part} of another tenant's");
    }
}

#[test]
fn same_seed_gives_the_same_tally() {
    let mut traffic = traffic::all().remove(2);
    traffic.server.length = 30.0;
    let tally = |seed| format!("{:?}", run(&traffic, Policy::Whole, seed));
    assert_eq!(tally(7), tally(7));
    assert_ne!(tally(7), tally(8));
}
