//! The bars of admission.

use super::Bar;
use crate::concurrency::admission::gate::Policy;
use crate::concurrency::admission::run::run;
use crate::concurrency::admission::tally::Tally;
use crate::concurrency::admission::traffic::{self, Traffic};
use crate::concurrency::worst::highest;
use crate::parallel::by_two_threads;

/// The first group of every traffic.
const TOP: usize = 0;
/// The second group: equal tenants.
const MIDDLE: usize = 1;
/// The third group: one tenant with the load of ten others.
const GREEDY: usize = 2;

/// Measures the bars of admission on runs of this many seconds.
#[must_use]
pub fn admission(seeds: &[u64], seconds: f64) -> Vec<Bar> {
    let mut bars = Vec::new();
    for traffic in traffic::all().into_iter().filter(Traffic::is_feasible) {
        let tallies = tallies(&traffic, seconds, seeds);
        let figures = |of: &dyn Fn(&Tally) -> f64| tallies.iter().map(of).collect::<Vec<_>>();
        let name = format!("admission, 3x, {}", traffic.server.name);
        let top = figures(&|tally| tally.group(&traffic, TOP).0.goodput());
        let late = figures(&|tally| f64::from(tally.all().late));
        let equal = |group: usize| figures(&|tally: &Tally| tally.group(&traffic, group).1);
        let greed = figures(&|tally| greed(&traffic, tally));
        bars.extend([
            Bar::at_least(&name, "top class answered in time", 0.99, &top),
            Bar::at_least(&name, "answered in time, of the capacity", 0.95, &figures(&Tally::goodput)),
            Bar::at_most(&name, "calls answered late", 0.0, &late),
            Bar::any(&name, "share of the work that was ended", highest(&figures(&|tally| tally.all().ended()))),
            Bar::at_least(&name, "Jain's index, top class", 0.95, &equal(TOP)),
            Bar::at_least(&name, "Jain's index, middle class", 0.95, &equal(MIDDLE)),
            Bar::at_most(&name, "greedy tenant, of an equal one's", 1.8, &greed),
        ]);
    }
    for traffic in traffic::all().into_iter().filter(|traffic| !traffic.is_feasible()) {
        let tallies = tallies(&traffic, seconds / 4.0, seeds);
        let figures = |of: fn(&Tally) -> f64| tallies.iter().map(of).collect::<Vec<_>>();
        let name = format!("admission, 3x, {}", traffic.server.name);
        bars.push(Bar::at_most(&name, "calls answered late", 0.0, &figures(|tally| f64::from(tally.all().late))));
        bars.push(Bar::any(&name, "share of the work that was ended", highest(&figures(|tally| tally.all().ended()))));
    }
    let many = traffic::many_tenants();
    let jain: Vec<_> = tallies(&many, seconds / 4.0, seeds).iter().map(|tally| tally.group(&many, MIDDLE).1).collect();
    bars.push(Bar::at_least("admission, 200 tenants queued at once", "Jain's index, middle class", 0.95, &jain));
    let mild = traffic::mild_overload();
    let others: Vec<_> =
        tallies(&mild, seconds, seeds).iter().map(|tally| tally.group(&mild, MIDDLE).0.goodput()).collect();
    bars.push(Bar::at_least("admission, 1.1x by a greedy tenant", "others answered in time", 0.95, &others));
    bars
}

/// Runs the whole rule with each seed.
fn tallies(traffic: &Traffic, seconds: f64, seeds: &[u64]) -> Vec<Tally> {
    let mut traffic = traffic.clone();
    traffic.server.length = seconds;
    by_two_threads(seeds, |&seed| run(&traffic, Policy::Whole, seed))
}

/// Returns the greedy tenant's goodput as a multiple of an equal tenant's.
fn greed(traffic: &Traffic, tally: &Tally) -> f64 {
    let equal = f64::from(tally.group(traffic, MIDDLE).0.in_time) / f64::from(traffic.groups[MIDDLE].tenants);
    f64::from(tally.group(traffic, GREEDY).0.in_time) / equal
}
