//! A greedy tenth before a limit that marks, one that refuses, and none.

use damper_sim::concurrency::admission::gate::Policy;
use damper_sim::concurrency::admission::run::run;
use damper_sim::concurrency::admission::traffic::{OverQuota, greedy_tenth};
use damper_sim::concurrency::report::SEEDS;

/// Returns the shares of the polite and the greedy tenants' calls that are in time, at the worst seed.
fn in_time(load: f64, over: OverQuota) -> [f64; 2] {
    let of_seed = |&seed: &u64| {
        let mut traffic = greedy_tenth(load, over);
        traffic.server.length = 60.0;
        let tally = run(&traffic, Policy::Whole, seed);
        [0, 1].map(|group| tally.group(&traffic, group).0.goodput())
    };
    let runs: Vec<_> = SEEDS.iter().map(of_seed).collect();
    let shares = [0, 1].map(|group| runs.iter().map(|run| run[group]).fold(f64::INFINITY, f64::min));
    println!("load {load}, {over:?}: polite {:.3}, greedy {:.3}", shares[0], shares[1]);
    shares
}

/// Under overload the polite tenants lose without a limit. A mark protects them as a refusal does.
#[test]
fn marks_protect_polite_tenants_under_overload() {
    let [served, marked, refused] =
        [OverQuota::Served, OverQuota::Marked, OverQuota::Refused].map(|over| in_time(2.4, over)[0]);
    assert!(served < 0.6 && marked > 0.95 && refused > 0.95, "{served} {marked} {refused}");
}

/// While the server has room, a mark costs no tenant anything.
///
/// A refusal takes from a greedy tenant what no other needs.
#[test]
fn marks_cost_nothing_while_there_is_room() {
    let [served, marked, refused] =
        [OverQuota::Served, OverQuota::Marked, OverQuota::Refused].map(|over| in_time(0.3, over));
    assert!(served[1] > 0.95 && marked[1] > 0.95 && refused[1] < 0.5, "{served:?} {marked:?} {refused:?}");
    assert!([served, marked, refused].iter().all(|shares| shares[0] > 0.95), "{served:?} {marked:?} {refused:?}");
}
