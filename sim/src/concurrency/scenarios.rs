//! The scenarios for judging concurrency limits.

use super::scenario::{Demand, Load, Patience, Scenario, Side, Trouble};
use super::server::Discipline::{self, Knee, Sharing, Workers};
use super::service_time::{ServiceTime, Shape};

const CONSTANT: Shape = Shape::Constant;
const EXPONENTIAL: Shape = Shape::Exponential;
const NARROW: Shape = Shape::LogNormal(0.5);
const WIDE: Shape = Shape::LogNormal(1.0);
const BIMODAL: Shape = Shape::TwoModes { slow: 0.05, ratio: 20.0 };
/// Its p90 is at the edge of the two modes.
const EDGE: Shape = Shape::TwoModes { slow: 0.1, ratio: 10.0 };

const fn open(load: f64) -> Demand {
    Demand::Open(Load::Steady(load))
}

const fn workers(name: &'static str, size: f64, shape: Shape, mean: f64, demand: Demand) -> Scenario {
    Scenario::new(name, Workers, size, ServiceTime::new(shape, mean), demand)
}

/// 50 workers with a mean of 100 ms per call.
const fn fifty(name: &'static str, shape: Shape, demand: Demand) -> Scenario {
    workers(name, 50.0, shape, 0.1, demand)
}

/// 8 shared cores on which a single call takes 20 ms.
const fn cores(name: &'static str, shape: Shape, demand: Demand) -> Scenario {
    Scenario::new(name, Sharing, 8.0, ServiceTime::new(shape, 0.02), demand)
}

const fn knee(name: &'static str, size: f64, loss: f64, shape: Shape, mean: f64) -> Scenario {
    let discipline: Discipline = Knee { loss };
    Scenario::new(name, discipline, size, ServiceTime::new(shape, mean), open(10.0))
}

/// Returns every scenario, 30 minutes each except for one.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let third = 1.0 / 3.0;
    vec![
        fifty("50 workers, constant, 10x", CONSTANT, open(10.0)),
        fifty("50 workers, exponential, 10x", EXPONENTIAL, open(10.0)),
        fifty("50 workers, log-normal 0.5, 10x", NARROW, open(10.0)),
        fifty("50 workers, log-normal 1, 10x", WIDE, open(10.0)),
        fifty("50 workers, bimodal, 10x", BIMODAL, open(10.0)),
        workers("1 worker, exponential 100 ms, 10x", 1.0, EXPONENTIAL, 0.1, open(10.0)),
        workers("1 worker, constant 100 ms, 10x", 1.0, CONSTANT, 0.1, open(10.0)),
        workers("4 workers, log-normal 1, 20 ms, 10x", 4.0, WIDE, 0.02, open(10.0)),
        workers("200 workers, log-normal 0.5, 200 ms, 10x", 200.0, NARROW, 0.2, open(10.0)),
        workers("20 workers, exponential 2 s, 10x", 20.0, EXPONENTIAL, 2.0, open(10.0)),
        cores("8 cores, exponential, 10x", EXPONENTIAL, open(10.0)),
        cores("8 cores, log-normal 1, 10x", WIDE, open(10.0)),
        cores("8 cores, bimodal, 10x", BIMODAL, open(10.0)),
        knee("knee at 20, 5 % a call, 10x", 20.0, 0.05, EXPONENTIAL, 0.02),
        knee("knee at 50, 1 % a call, log-normal 0.5, 10x", 50.0, 0.01, NARROW, 0.1),
        fifty("50 workers, exponential, 3x", EXPONENTIAL, open(3.0)),
        fifty("50 workers, exponential, 1x", EXPONENTIAL, open(1.0)),
        fifty("50 workers, exponential, 1.05x", EXPONENTIAL, open(1.05)),
        fifty("50 workers, exponential, 0.8x", EXPONENTIAL, open(0.8)),
        fifty("50 workers, exponential, 0.3x", EXPONENTIAL, open(0.3)),
        cores("8 cores, exponential, 0.8x", EXPONENTIAL, open(0.8)),
        cores("8 cores, exponential, 1.05x", EXPONENTIAL, open(1.05)),
        fifty("50 workers, exponential, 10 calls a second", EXPONENTIAL, open(0.02)),
        fifty("ramp from 0.2x to 1.5x", EXPONENTIAL, Demand::Open(Load::Ramp(0.2, 1.5))),
        fifty("steps of 0.3x, 3x, 0.8x, 10x, 1x", EXPONENTIAL, Demand::Open(Load::Steps([0.3, 3.0, 0.8, 10.0, 1.0]))),
        fifty("500 clients that think 0.1 s", EXPONENTIAL, Demand::Closed { clients: 500, think: 0.1 }),
        fifty("60 clients that think 0.05 s", EXPONENTIAL, Demand::Closed { clients: 60, think: 0.05 }),
        fifty("a third of the workers for a minute, 10x", EXPONENTIAL, open(10.0)).trouble(Trouble::Minute(third, 1.0)),
        fifty("a third of the workers for a minute, 1.5x", EXPONENTIAL, open(1.5)).trouble(Trouble::Minute(third, 1.0)),
        fifty("a third of the workers for a minute, 0.8x", EXPONENTIAL, open(0.8)).trouble(Trouble::Minute(third, 1.0)),
        fifty("a third of the speed for a minute, 10x", EXPONENTIAL, open(10.0)).trouble(Trouble::Minute(1.0, third)),
        fifty("a third of the speed for a minute, 0.8x", EXPONENTIAL, open(0.8)).trouble(Trouble::Minute(1.0, third)),
        cores("8 cores, a third of them for a minute, 10x", EXPONENTIAL, open(10.0))
            .trouble(Trouble::Minute(third, 1.0)),
        cores("8 cores, a third of the speed for a minute, log-normal 1, 3x", WIDE, open(3.0))
            .trouble(Trouble::Minute(1.0, third)),
        fifty("a stall of a minute, 3x", EXPONENTIAL, open(3.0)).trouble(Trouble::Minute(1.0, 0.0)),
        fifty("three times slower for good, 10x", EXPONENTIAL, open(10.0)).trouble(Trouble::Slower(third)),
        fifty("three times slower for good, 0.3x", EXPONENTIAL, open(0.3)).trouble(Trouble::Slower(third)),
        fifty(
            "timeouts of 0.5 s, three retries, 3x",
            EXPONENTIAL,
            Demand::Impatient(Load::Steady(3.0), Patience { timeout: 0.5, retries: 3, limit_at: Side::Server }),
        ),
        cores(
            "8 cores, timeouts of 0.1 s, three retries, 1.2x",
            EXPONENTIAL,
            Demand::Impatient(Load::Steady(1.2), Patience { timeout: 0.1, retries: 3, limit_at: Side::Server }),
        ),
        fifty(
            "limit at the client, timeouts of 0.5 s, three retries, 3x",
            EXPONENTIAL,
            Demand::Impatient(Load::Steady(3.0), Patience { timeout: 0.5, retries: 3, limit_at: Side::Client }),
        ),
        cores(
            "limit at the client, 8 cores, timeouts of 0.1 s, three retries, 3x",
            EXPONENTIAL,
            Demand::Impatient(Load::Steady(3.0), Patience { timeout: 0.1, retries: 3, limit_at: Side::Client }),
        ),
        fifty("50 workers, a tenth takes 10 times as long, 10x", EDGE, open(10.0)),
        // Five minutes have 600 windows of 5,000 calls.
        workers("10 workers, exponential 1 ms, 10x", 10.0, EXPONENTIAL, 0.001, open(10.0)).seconds(300.0),
        fifty("pauses of 0.2 s every 5 s, 10x", EXPONENTIAL, open(10.0)).trouble(Trouble::Pauses(0.2, 5.0)),
        fifty("pauses of 0.2 s every 5 s, 0.8x", EXPONENTIAL, open(0.8)).trouble(Trouble::Pauses(0.2, 5.0)),
        workers("50 workers, log-normal 0.5, 500 ms, 10x", 50.0, NARROW, 0.5, open(10.0)),
    ]
}

/// Returns the scenario with this name.
#[must_use]
pub fn named(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}

/// Returns four hours of ten times the load, which would show a drift.
///
/// One server completes few calls a second.
#[must_use]
pub const fn four_hours() -> [Scenario; 2] {
    [
        fifty("50 workers, exponential, 10x, four hours", EXPONENTIAL, open(10.0)).seconds(14_400.0),
        workers("20 workers, exponential 2 s, 10x, four hours", 20.0, EXPONENTIAL, 2.0, open(10.0)).seconds(14_400.0),
    ]
}
