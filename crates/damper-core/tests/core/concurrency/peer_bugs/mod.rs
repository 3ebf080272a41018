//! Bugs seen in other adaptive limits, each reproduced by a small copy that must fail its test.
//!
//! | bug | where it was seen | test | copy |
//! |---|---|---|---|
//! | the limit grows for as long as an overload lasts | Netflix concurrency-limits 134 | `lasting_overload` | `drifting_gradient` |
//! | the lowest latency drifts up | Netflix concurrency-limits 165 | `lasting_overload_of_one_worker` | `drifting_vegas` |
//! | a large service reaches its capacity late or never | Netflix concurrency-limits 35 | `large_service` | `drifting_vegas` |
//! | a long incident becomes the baseline | failsafe-go 127 | `long_incident` | `drifting_baseline` |
//! | probes stop nearly all calls | Envoy 46532 | `steady_load` | `pinned_probe` |
//! | the limit falls to 0 and stays there | Vector, pull request 21344 | `outage` | `no_floor` |
//! | services share one measured latency | Vector, pull request 21725 | `a_fast_service_beside_a_slow_one` | `mixed_keys` |
//!
//! `sim/` has more scenarios, and whole copies of the rules.

#![expect(clippy::cast_precision_loss, reason = "counts and times are far below 2^53")]

mod drifting_baseline;
mod drifting_gradient;
mod drifting_vegas;
mod mixed_keys;
mod no_floor;
mod peer;
mod pinned_probe;
mod service;

use damper::concurrency::{BulkheadPermit, LimitBounds, ProbedGradient};
use damper::{AdaptiveLimit, ManualClock};
use drifting_baseline::DriftingBaseline;
use drifting_gradient::DriftingGradient;
use drifting_vegas::DriftingVegas;
use mixed_keys::MixedKeys;
use no_floor::NoFloor;
use peer::Peer;
use pinned_probe::PinnedProbe;
use service::{End, Limit, Service, Work};
use std::cell::Cell;
use std::rc::Rc;

type Damper<'a> = AdaptiveLimit<ProbedGradient, &'a ManualClock>;

fn damper(clock: &ManualClock) -> Damper<'_> {
    AdaptiveLimit::with_clock(LimitBounds::DEFAULT, clock)
}

impl<'a> Limit for &'a Damper<'_> {
    type Permit = BulkheadPermit<&'a Damper<'a>>;

    fn try_acquire(&self) -> Option<Self::Permit> {
        AdaptiveLimit::try_acquire(self).ok()
    }

    fn ended(&self, permit: Self::Permit, _: f64, end: End) {
        match end {
            End::Success => permit.success(),
            End::Overloaded => permit.overloaded(),
        }
    }

    fn limit(&self) -> f64 {
        AdaptiveLimit::limit(self).into()
    }
}

/// Returns the slowdown after ten minutes at 110 % of the capacity of 20 workers.
fn lasting_overload(clock: &ManualClock, limit: &impl Limit) -> f64 {
    let mut service = Service::new(clock, limit, 20, Work::Exponential(0.1), 220.0);
    service.run(600);
    service.run(100).mean_latency() / 0.1
}

#[test]
fn limit_does_not_grow_with_an_overload() {
    let clock = ManualClock::new();
    let slower = lasting_overload(&clock, &&damper(&clock));
    assert!(slower < 2.0, "{slower} times");
}

#[test]
fn drifting_gradient_grows() {
    let clock = ManualClock::new();
    let slower = lasting_overload(&clock, &Peer::new(&clock, DriftingGradient::new()));
    assert!(slower > 3.0, "{slower} times");
}

/// Returns the slowdown after ten minutes at ten times the capacity of one worker.
fn lasting_overload_of_one_worker(clock: &ManualClock, limit: &impl Limit) -> f64 {
    let mut service = Service::new(clock, limit, 1, Work::Constant(0.1), 100.0);
    service.run(600);
    service.run(200).mean_latency() / 0.1
}

#[test]
fn baseline_does_not_become_the_queue() {
    let clock = ManualClock::new();
    let slower = lasting_overload_of_one_worker(&clock, &&damper(&clock));
    assert!(slower < 3.0, "{slower} times");
}

#[test]
fn baseline_of_drifting_vegas_becomes_the_queue() {
    let clock = ManualClock::new();
    let slower = lasting_overload_of_one_worker(&clock, &Peer::new(&clock, DriftingVegas::new()));
    assert!(slower > 6.0, "{slower} times");
}

/// Returns the share of 200 workers that is in use between 10 s and 40 s after the start.
fn large_service(clock: &ManualClock, limit: &impl Limit) -> f64 {
    let mut service = Service::new(clock, limit, 200, Work::Exponential(0.2), 3_000.0);
    service.run(10);
    service.run(30).throughput() / 1_000.0
}

#[test]
fn large_services_reach_their_capacity_soon() {
    let clock = ManualClock::new();
    let share = large_service(&clock, &&damper(&clock));
    assert!(share > 0.9, "{share}");
}

#[test]
fn large_services_starve_behind_drifting_vegas() {
    let clock = ManualClock::new();
    let share = large_service(&clock, &Peer::new(&clock, DriftingVegas::new()));
    assert!(share < 0.5, "{share}");
}

/// Returns the slowdown at the end of an hour in which 3 of 10 workers are left.
fn long_incident(clock: &ManualClock, limit: &impl Limit) -> f64 {
    let mut service = Service::new(clock, limit, 10, Work::Exponential(0.1), 80.0);
    service.run(300);
    service.workers = 3;
    service.run(3_500);
    service.run(100).mean_latency() / 0.1
}

#[test]
fn incidents_do_not_become_the_baseline() {
    let clock = ManualClock::new();
    let slower = long_incident(&clock, &&damper(&clock));
    assert!(slower < 2.0, "{slower} times");
}

#[test]
fn incidents_become_the_drifting_baseline() {
    let clock = ManualClock::new();
    let slower = long_incident(&clock, &Peer::new(&clock, DriftingBaseline::new()));
    assert!(slower > 4.0, "{slower} times");
}

/// Returns the lowest throughput in any second of ten minutes, as a share of 50 workers.
///
/// The load is three times their capacity.
fn steady_load(clock: &ManualClock, limit: &impl Limit) -> f64 {
    let mut service = Service::new(clock, limit, 50, Work::Exponential(0.1), 1_500.0);
    service.run(60);
    f64::from(service.run(600).per_second.into_iter().min().unwrap()) / 500.0
}

#[test]
fn probes_leave_a_third_of_the_calls() {
    let clock = ManualClock::new();
    let share = steady_load(&clock, &&damper(&clock));
    assert!(share > 0.33, "{share}");
}

#[test]
fn pinned_probes_stop_nearly_all_calls() {
    let clock = ManualClock::new();
    let share = steady_load(&clock, &Peer::new(&clock, PinnedProbe::new()));
    assert!(share < 0.15, "{share}");
}

/// Returns the share of 50 workers in use a minute and a half after an outage of ten minutes.
///
/// In the outage all calls time out. At a limit of 1 a window takes ten seconds, and it depends on chance how many of them it takes to
/// reach 2: of 24 outages the service was in full use after 52 to 86 s.
fn outage(clock: &ManualClock, limit: &impl Limit, begins: u32) -> f64 {
    let mut service = Service::new(clock, limit, 50, Work::Exponential(0.1), 1_500.0);
    service.run(begins);
    service.is_down = true;
    service.run(600);
    assert!(limit.limit() < 10.0, "overloaded calls lower the limit");
    service.is_down = false;
    service.run(90);
    service.run(30).throughput() / 500.0
}

#[test]
fn outages_end() {
    for begins in 60..70 {
        let clock = ManualClock::new();
        let share = outage(&clock, &&damper(&clock), begins);
        assert!(share > 0.9, "{share} after {begins} s");
    }
}

#[test]
fn outages_without_a_floor_do_not_end() {
    let clock = ManualClock::new();
    let share = outage(&clock, &Peer::new(&clock, NoFloor::new()), 60);
    assert!(share < 0.001, "{share}");
}

/// Returns the share of 20 slow workers in use beside a service of 20 fast ones.
///
/// The two services run in turns of a second.
fn a_fast_service_beside_a_slow_one<L: Limit>(clock: [&ManualClock; 2], [fast, slow]: [&L; 2]) -> f64 {
    let mut fast = Service::new(clock[0], fast, 20, Work::Constant(0.01), 6_000.0);
    let mut slow = Service::new(clock[1], slow, 20, Work::Constant(0.1), 600.0);
    for _ in 0..60 {
        fast.run(1);
        slow.run(1);
    }
    let turns = (0..30).map(|_| {
        fast.run(1);
        slow.run(1).throughput()
    });
    turns.sum::<f64>() / 30.0 / 200.0
}

#[test]
fn services_with_limits_of_their_own_are_independent() {
    let clocks = [&ManualClock::new(), &ManualClock::new()];
    let limits = clocks.map(damper);
    let share = a_fast_service_beside_a_slow_one(clocks, [&&limits[0], &&limits[1]]);
    assert!(share > 0.9, "{share}");
}

#[test]
fn a_slow_service_starves_where_keys_are_mixed() {
    let clocks = [&ManualClock::new(), &ManualClock::new()];
    let unloaded = Rc::new(Cell::new(f64::INFINITY));
    let limits = clocks.map(|clock| Peer::new(clock, MixedKeys::new(&unloaded)));
    let share = a_fast_service_beside_a_slow_one(clocks, [&limits[0], &limits[1]]);
    assert!(share < 0.5, "{share}");
}
