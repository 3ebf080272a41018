//! Traffic at a gate before a server, event by event.

use super::gate::{Decided, Gate, Policy, Request};
use super::tally::Tally;
use super::traffic::Traffic;
use crate::concurrency::limit::Outcome;
use crate::concurrency::random::Random;
use crate::concurrency::server::{Power, Server};
use damper::concurrency::ProbedGradient;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Runs traffic at damper's gate, with this policy and an adaptive limit. The same seed gives the same tally.
#[must_use]
pub fn run(traffic: &Traffic, policy: Policy, seed: u64) -> Tally {
    let tenants: u32 = traffic.groups.iter().map(|group| group.tenants).sum();
    let warm_up = traffic.server.warm_up();
    let possible = (traffic.server.length - warm_up) * traffic.server.capacity();
    let mut run = Run {
        traffic,
        policy,
        gate: Gate::adaptive(policy, seed),
        random: Random::new(seed),
        server: Server::new(traffic.server.discipline, Power { size: traffic.server.size, speed: 1.0 }),
        arrivals: BinaryHeap::new(),
        deadlines: BinaryHeap::new(),
        calls: Vec::new(),
        free: Vec::new(),
        tally: Tally::new(tenants as usize, possible),
        warm_up,
    };
    run.until_the_end();
    run.tally
}

/// A call that waits, runs, or is over.
#[derive(Clone, Copy, Debug)]
struct Call {
    request: Request,
    /// Whose it is, numbered from 0.
    tenant: usize,
    started: Option<f64>,
}

struct Run<'a> {
    traffic: &'a Traffic,
    policy: Policy,
    gate: Gate<ProbedGradient>,
    random: Random,
    server: Server,
    /// The next call of each group.
    arrivals: BinaryHeap<Reverse<(u64, usize)>>,
    /// The deadlines of calls that started, those that are over by then included.
    deadlines: BinaryHeap<Reverse<(u64, usize)>>,
    calls: Vec<Call>,
    free: Vec<usize>,
    tally: Tally,
    warm_up: f64,
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
            let (end, deadline, arrival) = (self.server.next_end(), first(&self.deadlines), first(&self.arrivals));
            let timer = self.gate.next_timer();
            let now = end.min(deadline).min(arrival).min(timer);
            if now >= self.traffic.server.length {
                return;
            }
            if now >= end {
                let Some(call) = self.server.end(now) else { continue };
                self.over(now, call, Outcome::Success);
            } else if now >= deadline {
                self.deadline(now);
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
        let known = if group.twins && of_group == 1 { tenant - 1 } else { tenant };
        let call = self.free.pop().unwrap_or(self.calls.len());
        let request = Request { call, class: group.class, tenant: known, deadline: now + group.deadline };
        let waiting = Call { request, tenant, started: None };
        if call == self.calls.len() {
            self.calls.push(waiting);
        } else {
            self.calls[call] = waiting;
        }
        if now >= self.warm_up {
            self.tally.of(tenant).offered += 1;
        }
        let decided = self.gate.arrive(now, request);
        self.follow(now, decided);
    }

    fn follow(&mut self, now: f64, decided: Decided) {
        self.free.extend(decided.refused.iter().map(|request| request.call));
        for request in decided.started {
            self.calls[request.call].started = Some(now);
            let work = self.traffic.server.service.draw(&mut self.random);
            self.server.start(now, request.call, work);
            if self.policy.ends_work() {
                self.deadlines.push(Reverse((request.deadline.to_bits(), request.call)));
            }
        }
    }

    /// Ends the call whose deadline this is, if it still runs.
    fn deadline(&mut self, now: f64) {
        let Some(Reverse((deadline, call))) = self.deadlines.pop() else { return };
        let Call { request, started, .. } = self.calls[call];
        // The number may be another call's by now.
        if started.is_some() && request.deadline.to_bits() == deadline {
            self.server.remove(now, call);
            self.over(now, call, Outcome::Dropped);
        }
    }

    fn over(&mut self, now: f64, call: usize, outcome: Outcome) {
        let Call { request, tenant, started } = self.calls[call];
        let Some(started) = started else { return };
        self.calls[call].started = None;
        self.free.push(call);
        if now >= self.warm_up {
            let counts = self.tally.of(tenant);
            match outcome {
                Outcome::Dropped => counts.ended += 1,
                Outcome::Success if now <= request.deadline => counts.in_time += 1,
                Outcome::Success => counts.late += 1,
            }
        }
        let decided = self.gate.finished(now, call, now - started, outcome);
        self.follow(now, decided);
    }
}
