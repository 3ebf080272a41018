//! The callers: classes, tenants and deadlines.

use crate::concurrency::scenario::Scenario;
use crate::concurrency::server::Discipline::{Sharing, Workers};
use crate::concurrency::service_time::{ServiceTime, Shape};
use crate::concurrency::{scenario, server};
use damper::Quota;

/// The priority of a call, from 0, the highest, to 3.
pub type Class = u8;

/// Tenants of one class with the same call pattern.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its name in the tables.
    pub name: &'static str,
    /// The class of its calls.
    pub class: Class,
    /// The number of tenants, which belong to no other group.
    pub tenants: u32,
    /// The calls of all tenants, as a multiple of the server's capacity.
    pub load: f64,
    /// The time from a call to its deadline, in seconds.
    pub deadline: f64,
    /// Whether the gate confuses the first two tenants, as it does if their counters collide.
    pub twins: bool,
}

/// A server and the groups that call it.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The server, without clients.
    pub server: Scenario,
    /// The groups of callers.
    pub groups: Vec<Group>,
    /// The quota of each tenant before the gate, if there is one.
    pub quota: Option<TenantQuota>,
}

/// A quota of each tenant before the gate, which then knows no tenants.
#[derive(Clone, Copy, Debug)]
pub struct TenantQuota {
    /// The quota.
    pub quota: Quota,
    /// The fate of a call over it.
    pub over: OverQuota,
}

/// The fate of a call over its tenant's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverQuota {
    /// It is served like any other call.
    Served,
    /// It is marked, and served in the lowest class.
    Marked,
    /// It is refused.
    Refused,
}

impl Traffic {
    /// Whether the top class can be served in time.
    #[must_use]
    pub fn is_feasible(&self) -> bool {
        !self.server.name.contains("tight")
    }
}

const fn group(name: &'static str, class: Class, tenants: u32, load: f64, deadline: f64) -> Group {
    Group { name, class, tenants, load, deadline, twins: false }
}

fn traffic(
    name: &'static str,
    discipline: server::Discipline,
    size: f64,
    service: ServiceTime,
    groups: Vec<Group>,
) -> Traffic {
    let no_clients = scenario::Demand::Closed { clients: 0, think: 0.0 };
    let server = Scenario::new(name, discipline, size, service, no_clients).seconds(600.0);
    Traffic { server, groups, quota: None }
}

/// A tenth of 100 tenants is greedy, far over a quota that the others keep.
///
/// The polite ones have a load of 0.6, and the greedy ones this load.
#[must_use]
pub fn greedy_tenth(load: f64, over: OverQuota) -> Traffic {
    let groups = vec![group("polite", 1, 90, 0.6, 0.5), group("greedy", 1, 10, load, 0.5)];
    let service = ServiceTime::new(Shape::Exponential, 0.1);
    // A polite tenant makes 3.3 calls a second.
    let quota = Some(TenantQuota { quota: Quota::per_second(5).burst(20), over });
    Traffic { quota, ..traffic("50 workers, a greedy tenth", Workers, 50.0, service, groups) }
}

/// Three times the capacity: half from the top class, and a greedy tenant with the load of ten others.
///
/// An unloaded server meets the deadlines of `top` in 99.9 % of the calls, with time for one queue.
fn overload(top: f64, rest: f64) -> Vec<Group> {
    vec![
        group("top", 0, 10, 0.5, top),
        group("middle", 1, 10, 0.625, rest),
        group("greedy", 1, 1, 0.625, rest),
        group("low", 2, 10, 1.25, rest),
    ]
}

/// As many tenants as workers, so most tenants have calls queued at once.
#[must_use]
pub fn many_tenants() -> Traffic {
    let groups =
        vec![group("top", 0, 10, 0.5, 1.0), group("middle", 1, 200, 2.0, 0.5), group("greedy", 1, 1, 0.5, 0.5)];
    traffic("200 workers, 200 tenants", Workers, 200.0, ServiceTime::new(Shape::Exponential, 0.1), groups)
}

/// A tenth above the capacity because of one greedy tenant, so calls often find a free slot.
#[must_use]
pub fn mild_overload() -> Traffic {
    let groups = vec![group("top", 0, 10, 0.2, 1.0), group("middle", 1, 10, 0.5, 0.5), group("greedy", 1, 1, 0.4, 0.5)];
    traffic("50 workers, 1.1x", Workers, 50.0, ServiceTime::new(Shape::Exponential, 0.1), groups)
}

/// The traffic for the bars of admission, ten minutes each.
#[must_use]
pub fn all() -> Vec<Traffic> {
    let exponential = |mean| ServiceTime::new(Shape::Exponential, mean);
    vec![
        traffic("50 workers, exponential", Workers, 50.0, exponential(0.1), overload(1.0, 0.5)),
        traffic(
            "50 workers, log-normal 1",
            Workers,
            50.0,
            ServiceTime::new(Shape::LogNormal(1.0), 0.1),
            overload(1.8, 0.6),
        ),
        traffic("8 cores, exponential", Sharing, 8.0, exponential(0.02), overload(0.4, 0.1)),
        // An unloaded server misses 5 % of these deadlines, because that many service times exceed three times the
        // mean.
        traffic("50 workers, exponential, tight deadlines", Workers, 50.0, exponential(0.1), overload(0.3, 0.3)),
    ]
}
