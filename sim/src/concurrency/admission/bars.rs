//! The bars of admission, and whether damper's gate holds them.

use super::gate::Policy;
use super::run::run;
use super::tally::Tally;
use super::traffic::{self, Traffic};
use crate::concurrency::report::SEEDS;

/// The first group of every traffic.
const TOP: usize = 0;
/// The second: equal tenants.
const MIDDLE: usize = 1;
/// The third: one tenant that sends as much as ten of the others.
const GREEDY: usize = 2;

/// A bar, and what the worst of three seeds came to.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What is demanded of which traffic.
    pub bar: String,
    /// What was measured.
    pub figure: f64,
    /// Whether it is enough.
    pub is_met: bool,
}

/// Measures all bars, on runs of so many seconds; ten minutes are meant.
#[must_use]
pub fn bars(seconds: f64) -> Vec<Bar> {
    let mut bars = Vec::new();
    for traffic in traffic::all().into_iter().filter(Traffic::is_feasible) {
        let tallies = tallies(&traffic, seconds);
        let mut add = |bar: &str, least: Option<f64>, most: Option<f64>, of: &dyn Fn(&Tally) -> f64| {
            bars.push(worst(&format!("{}: {bar}", traffic.server.name), &tallies, least, most, of));
        };
        add("goodput of the top class >= 0.99", Some(0.99), None, &|tally| tally.group(&traffic, TOP).0.goodput());
        add("all, of the capacity >= 0.95", Some(0.95), None, &Tally::goodput);
        add("finished late, calls = 0", None, Some(0.0), &|tally| f64::from(tally.all().late));
        add("Jain, top >= 0.95", Some(0.95), None, &|tally| tally.group(&traffic, TOP).1);
        add("Jain, middle >= 0.95", Some(0.95), None, &|tally| tally.group(&traffic, MIDDLE).1);
        add("greedy tenant, of an equal one's <= 1.8", None, Some(1.8), &|tally| greed(&traffic, tally));
    }
    let many = traffic::many_tenants();
    let of_many = tallies(&many, seconds / 4.0);
    let jain = |tally: &Tally| tally.group(&many, MIDDLE).1;
    bars.push(worst("200 tenants queued at once: Jain >= 0.95", &of_many, Some(0.95), None, &jain));
    let mild = traffic::mild_overload();
    let of_mild = tallies(&mild, seconds);
    let served = |tally: &Tally| tally.group(&mild, MIDDLE).0.goodput();
    bars.push(worst("1.1x by a greedy tenant: goodput of the others >= 0.95", &of_mild, Some(0.95), None, &served));
    bars
}

/// What the whole rule gives, at three seeds.
fn tallies(traffic: &Traffic, seconds: f64) -> Vec<Tally> {
    let mut traffic = traffic.clone();
    traffic.server.length = seconds;
    SEEDS.map(|seed| run(&traffic, Policy::Whole, seed)).into()
}

/// What the greedy tenant gets, as a multiple of what an equal tenant of its class does.
fn greed(traffic: &Traffic, tally: &Tally) -> f64 {
    let equal = f64::from(tally.group(traffic, MIDDLE).0.in_time) / f64::from(traffic.groups[MIDDLE].tenants);
    f64::from(tally.group(traffic, GREEDY).0.in_time) / equal
}

fn worst(bar: &str, tallies: &[Tally], least: Option<f64>, most: Option<f64>, of: &dyn Fn(&Tally) -> f64) -> Bar {
    let figures = tallies.iter().map(of);
    let figure = if most.is_some() { figures.fold(f64::MIN, f64::max) } else { figures.fold(f64::MAX, f64::min) };
    let is_met = least.is_none_or(|least| figure >= least) && most.is_none_or(|most| figure <= most);
    Bar { bar: bar.into(), figure, is_met }
}
