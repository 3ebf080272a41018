//! Traffic at a gate before a server, event by event.

use super::gate::{Decision, Gate, Policy, Request};
use super::tally::{Counts, Tally};
use super::traffic::{Class, OverQuota, TenantQuota, Traffic};
use crate::concurrency::server::{Power, Server};
use crate::random::Random;
use damper::concurrency::ProbedGradient;
use damper::{ManualClock, RateLimiter, TokenBucket};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Runs traffic at damper's gate, with this policy and an adaptive limit.
///
/// The same seed gives the same tally.
#[must_use]
pub fn run(traffic: &Traffic, policy: Policy, seed: u64) -> Tally {
    let tenants: u32 = traffic.groups.iter().map(|group| group.tenants).sum();
    let warm_up = traffic.server.warm_up();
    let possible = (traffic.server.length - warm_up) * traffic.server.capacity();
    let mut run = Run {
        traffic,
        gate: Gate::adaptive(policy, seed),
        random: Random::new(seed),
        server: Server::new(traffic.server.discipline, Power { size: traffic.server.size, speed: 1.0 }),
        arrivals: BinaryHeap::new(),
        calls: Vec::new(),
        free: Vec::new(),
        tally: Tally::new(tenants as usize, possible),
        warm_up,
        limits: traffic.quota.map(|quota| Limits::new(quota, tenants)),
    };
    run.until_the_end();
    run.tally
}

/// A call that waits, runs or has ended.
#[derive(Clone, Copy, Debug)]
struct Call {
    request: Request,
    /// Its tenant, numbered from 0.
    tenant: usize,
    started: Option<f64>,
}

struct Run<'a> {
    traffic: &'a Traffic,
    gate: Gate<ProbedGradient>,
    random: Random,
    server: Server,
    /// The next arrival of each group.
    arrivals: BinaryHeap<Reverse<(u64, usize)>>,
    calls: Vec<Call>,
    free: Vec<usize>,
    tally: Tally,
    warm_up: f64,
    /// The tenants' limits before the gate.
    limits: Option<Limits>,
}

/// The class of marked calls.
const LOWEST: Class = 3;

/// A limit for each tenant, on the clock of the simulation.
struct Limits {
    tenants: Vec<RateLimiter<TokenBucket, Arc<ManualClock>>>,
    clock: Arc<ManualClock>,
    over: OverQuota,
}

impl Limits {
    fn new(TenantQuota { quota, over }: TenantQuota, tenants: u32) -> Self {
        let clock = Arc::new(ManualClock::new());
        let tenants = (0..tenants).map(|_| RateLimiter::with_clock(quota, Arc::clone(&clock))).collect();
        Self { tenants, clock, over }
    }

    /// Returns what happens to a call of a tenant; `None` if it is within the quota.
    fn over(&self, now: f64, tenant: usize) -> Option<OverQuota> {
        self.clock.set_ticks((now * 1e9) as u64);
        self.tenants[tenant].check().is_err().then_some(self.over)
    }
}

fn first(heap: &BinaryHeap<Reverse<(u64, usize)>>) -> f64 {
    heap.peek().map_or(f64::INFINITY, |Reverse((bits, _))| f64::from_bits(*bits))
}

impl Run<'_> {
    fn until_the_end(&mut self) {
        for group in 0..self.traffic.groups.len() {
            self.draw_arrival(0.0, group);
        }
        loop {
            let (end, arrival, timer) = (self.server.next_end(), first(&self.arrivals), self.gate.next_timer());
            let now = end.min(arrival).min(timer);
            if now >= self.traffic.server.length {
                return;
            }
            if now >= end {
                let Some(call) = self.server.end(now) else { continue };
                let Some(started) = self.calls[call].started else { continue };
                let decided = self.gate.done(now, call, now - started);
                self.follow(now, decided);
            } else if now >= arrival {
                self.arrive(now);
            } else {
                let decided = self.gate.timer(now);
                self.follow(now, decided);
            }
        }
    }

    fn draw_arrival(&mut self, now: f64, group: usize) {
        let rate = self.traffic.groups[group].load * self.traffic.server.capacity();
        let at = now + self.random.exponential(1.0 / rate);
        self.arrivals.push(Reverse((at.to_bits(), group)));
    }

    fn arrive(&mut self, now: f64) {
        let Some(Reverse((_, group))) = self.arrivals.pop() else { return };
        self.draw_arrival(now, group);
        let before: u32 = self.traffic.groups[..group].iter().map(|group| group.tenants).sum();
        let group = self.traffic.groups[group];
        let of_group = (self.random.uniform() * f64::from(group.tenants)) as usize;
        let tenant = before as usize + of_group;
        if now >= self.warm_up {
            self.tally.of(tenant).offered += 1;
        }
        let over = self.limits.as_ref().and_then(|limits| limits.over(now, tenant));
        if over == Some(OverQuota::Refused) {
            return;
        }
        let class = if over == Some(OverQuota::Marked) { LOWEST } else { group.class };
        let known = if self.limits.is_some() {
            0
        } else if group.twins && of_group == 1 {
            tenant - 1
        } else {
            tenant
        };
        let call = self.free.pop().unwrap_or(self.calls.len());
        let request = Request { call, class, tenant: known, deadline: now + group.deadline };
        let waiting = Call { request, tenant, started: None };
        if call == self.calls.len() {
            self.calls.push(waiting);
        } else {
            self.calls[call] = waiting;
        }
        let decided = self.gate.arrive(now, request);
        self.follow(now, decided);
    }

    /// Executes the gate's decisions in order. One event may both start and end a call.
    fn follow(&mut self, now: f64, decided: Vec<Decision>) {
        for decision in decided {
            match decision {
                Decision::Started(request) => {
                    self.calls[request.call].started = Some(now);
                    let work = self.traffic.server.service.draw(&mut self.random);
                    self.server.start(now, request.call, work);
                }
                Decision::Refused(request) => self.free.push(request.call),
                Decision::Ended(call) => {
                    self.server.remove(now, call);
                    self.over(now, call, |counts| &mut counts.ended);
                }
                Decision::Answered(call) if now > self.calls[call].request.deadline => {
                    self.over(now, call, |counts| &mut counts.late);
                }
                Decision::Answered(call) => self.over(now, call, |counts| &mut counts.in_time),
            }
        }
    }

    /// Ends the call, and increments `count`.
    fn over(&mut self, now: f64, call: usize, count: fn(&mut Counts) -> &mut u32) {
        self.calls[call].started = None;
        self.free.push(call);
        if now >= self.warm_up {
            *count(self.tally.of(self.calls[call].tenant)) += 1;
        }
    }
}
