//! What admission gives each class and tenant at three times the load.

use damper_sim::concurrency::admission::gate::{Decided, Gate, Policy, Request};
use damper_sim::concurrency::admission::tally::Tally;
use damper_sim::concurrency::admission::traffic::{self, Traffic};
use damper_sim::concurrency::limit::Outcome;
use damper_sim::concurrency::report::{SEEDS, admit};
use damper_sim::concurrency::rules::Contender;
use std::sync::LazyLock;

const TOP: usize = 0;
const MIDDLE: usize = 1;
const GREEDY: usize = 2;

/// Traffic whose top class has the time to be served, shorter than in the tables.
fn feasible() -> Vec<Traffic> {
    let mut all = traffic::all();
    all.retain(|traffic| !traffic.server.name.contains("tight"));
    for traffic in &mut all {
        traffic.server.length = 300.0;
    }
    all
}

/// What the whole rule gives, at three seeds.
static WHOLE: LazyLock<Vec<(Traffic, Tally)>> = LazyLock::new(|| {
    let runs = feasible().into_iter().flat_map(|traffic| SEEDS.map(|seed| (traffic.clone(), seed)));
    runs.map(|(traffic, seed)| (traffic.clone(), admit(&traffic, Policy::Whole, seed))).collect()
});

/// What is left of it without one of its parts.
fn without(policy: Policy) -> impl Iterator<Item = (Traffic, Tally)> {
    feasible().into_iter().map(move |mut traffic| {
        traffic.server.length = 100.0;
        let tally = admit(&traffic, policy, SEEDS[0]);
        (traffic, tally)
    })
}

#[test]
fn top_class_is_served_and_nothing_ends_late() {
    for (traffic, tally) in WHOLE.iter() {
        let (top, name) = (tally.group(traffic, TOP).0.goodput(), traffic.server.name);
        println!("{name}: top {top}, {:?}", tally.all());
        assert!(top >= 0.99, "{name}: {top}");
        assert_eq!(tally.all().late, 0, "{name}");
        assert!(tally.goodput() >= 0.95, "{name}: {} of the capacity", tally.goodput());
    }
}

#[test]
fn equal_tenants_get_the_same_and_a_greedy_one_hardly_more() {
    for (traffic, tally) in WHOLE.iter() {
        let ((middle, jain), name) = (tally.group(traffic, MIDDLE), traffic.server.name);
        assert!(jain >= 0.95 && tally.group(traffic, TOP).1 >= 0.95, "{name}: {jain}");
        let equal = f64::from(middle.in_time) / f64::from(traffic.groups[MIDDLE].tenants);
        let ratio = f64::from(tally.group(traffic, GREEDY).0.in_time) / equal;
        // It sends ten times as much. Behind eight cores the queue is short: often no other tenant has a call in it.
        assert!(ratio <= 1.7, "{name}: {ratio} times as much as an equal tenant");
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

/// A gate with two slots, and so two places in the queue, before three tenants.
fn gate() -> Gate {
    Gate::new(Policy::Whole, Contender::Fixed(2).limit(1), 3)
}

fn request(call: usize, class: u8, tenant: usize) -> Request {
    Request { call, class, tenant, deadline: 10.0 }
}

fn started(decided: &Decided) -> Vec<usize> {
    decided.started.iter().map(|request| request.call).collect()
}

fn refused(decided: &Decided) -> Vec<usize> {
    decided.refused.iter().map(|request| request.call).collect()
}

#[test]
fn highest_class_then_fewest_starts_then_newest_runs_next() {
    let mut gate = gate();
    assert_eq!(started(&gate.arrive(0.0, request(0, 1, 0))), [0]);
    assert_eq!(started(&gate.arrive(0.0, request(1, 1, 1))), [1]);
    assert_eq!(started(&gate.arrive(0.1, request(2, 1, 1))), []);
    assert_eq!(started(&gate.arrive(0.2, request(3, 1, 2))), []);
    // Tenant 2 has no starts yet.
    let decided = gate.finished(1.0, request(0, 1, 0), 1.0, 1, Outcome::Success);
    assert_eq!(started(&decided), [3]);
    assert_eq!(started(&gate.arrive(1.0, request(0, 1, 1))), []);
    // Of one tenant the newest.
    let decided = gate.finished(1.1, request(1, 1, 1), 1.1, 2, Outcome::Success);
    assert_eq!(started(&decided), [0]);
    // A higher class comes first.
    assert_eq!(started(&gate.arrive(1.2, request(1, 0, 1))), []);
    let decided = gate.finished(1.3, request(3, 1, 2), 0.3, 2, Outcome::Success);
    assert_eq!(started(&decided), [1]);
}

#[test]
fn lowest_class_then_most_present_then_oldest_gives_way() {
    let mut gate = gate();
    for (call, tenant) in [(0, 0), (1, 0)] {
        assert_eq!(started(&gate.arrive(0.0, request(call, 2, tenant))), [call]);
    }
    assert_eq!(refused(&gate.arrive(0.1, request(2, 2, 0))), []);
    assert_eq!(refused(&gate.arrive(0.2, request(3, 2, 1))), []);
    // Tenant 0 has three calls present, tenant 1 has two.
    assert_eq!(refused(&gate.arrive(0.3, request(4, 2, 1))), [2]);
    // Of one tenant the oldest.
    assert_eq!(refused(&gate.arrive(0.4, request(5, 2, 1))), [3]);
    // A lower class before all others.
    assert_eq!(refused(&gate.arrive(0.5, request(6, 3, 2))), [6]);
}
