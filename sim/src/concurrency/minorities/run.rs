//! A service under limits, event by event.

use super::service::{Service, When, Work};
use crate::concurrency::histogram::Histogram;
use crate::concurrency::limit::{Finished, Limit, Outcome};
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The seconds of a run.
pub const LENGTH: f64 = 200.0;
/// The seconds at the start that do not count.
pub const WARM_UP: f64 = 20.0;

/// The figures of polite callers.
#[derive(Clone, Debug)]
pub struct Served {
    /// Their calls that succeeded in a second.
    pub goodput: f64,
    /// The p90 of their latency in means of their service times.
    pub p90: f64,
    /// The median of the limit, seen once a second.
    pub limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker is free again.
    Worked { call: usize },
    /// A call beside the workers ends.
    Ended { call: usize, is_overloaded: bool },
    /// Callers of this number call, if it is their turn.
    Call { callers: usize },
    /// The workers' number changes.
    Change,
    /// The limits are looked at.
    Look,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    began: f64,
    callers: usize,
    client: usize,
    in_flight: u32,
    /// The time that a worker needs.
    work: f64,
}

struct Run<'a> {
    service: &'a Service,
    limits: &'a mut [Box<dyn Limit>],
    random: Random,
    seed: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    set: u64,
    calls: Vec<Call>,
    free: Vec<usize>,
    in_flight: Vec<u32>,
    running: u32,
    waiting: VecDeque<usize>,
    good: f64,
    latencies: Histogram,
    seen: Vec<f64>,
}

/// Runs a service under limits, one for each of its clients. The same seed gives the same figures.
#[must_use]
pub fn run(service: &Service, limits: &mut [Box<dyn Limit>], seed: u64) -> Served {
    let mut run = Run {
        service,
        in_flight: vec![0; limits.len()],
        limits,
        random: Random::new(seed),
        seed,
        events: BinaryHeap::new(),
        set: 0,
        calls: Vec::new(),
        free: Vec::new(),
        running: 0,
        waiting: VecDeque::new(),
        good: 0.0,
        latencies: Histogram::new(),
        seen: Vec::new(),
    };
    run.until_the_end();
    run.seen.sort_by(f64::total_cmp);
    Served {
        goodput: run.good / (LENGTH - WARM_UP),
        p90: run.latencies.quantile(0.9),
        limit: run.seen[run.seen.len() / 2],
    }
}

impl Run<'_> {
    fn until_the_end(&mut self) {
        for callers in 0..self.service.callers.len() {
            self.draw(0.0, callers);
        }
        if let Some((from, until)) = self.service.drop {
            self.at(from, Event::Change);
            self.at(until, Event::Change);
        }
        self.at(WARM_UP, Event::Look);
        while let Some(Reverse((bits, _, event))) = self.events.pop() {
            let now = f64::from_bits(bits);
            if now >= LENGTH {
                return;
            }
            match event {
                Event::Worked { call } => {
                    self.running -= 1;
                    self.run_waiting(now);
                    self.end(now, call, Outcome::Success);
                }
                Event::Ended { call, is_overloaded } => {
                    self.end(now, call, if is_overloaded { Outcome::Overloaded } else { Outcome::Success });
                }
                Event::Call { callers } => {
                    if self.is_turn(now, self.service.callers[callers].when) {
                        self.call(now, callers);
                    }
                    self.draw(now, callers);
                }
                Event::Change => self.run_waiting(now),
                Event::Look => {
                    self.seen.push(self.limits[0].limit());
                    self.at(now + 1.0, Event::Look);
                }
            }
        }
    }

    fn at(&mut self, time: f64, event: Event) {
        self.set += 1;
        self.events.push(Reverse((time.to_bits(), self.set, event)));
    }

    fn draw(&mut self, now: f64, callers: usize) {
        let pause = self.random.exponential(1.0 / self.service.callers[callers].rate);
        self.at(now + pause, Event::Call { callers });
    }

    fn is_turn(&self, now: f64, when: When) -> bool {
        match when {
            When::Always => true,
            When::Turns(turn, is_first) => ((now / turn) as u64).is_multiple_of(2) == is_first,
            When::Chance(turn, is_first) => {
                // A generator of its own, so that callers that take turns agree on whose it is.
                let number = (now / turn) as u64;
                (Random::new(self.seed.wrapping_add(number << 32)).uniform() < 0.5) == is_first
            }
            When::Part(seconds, every) => now % every < seconds,
            When::From(second) => now >= second,
        }
    }

    fn call(&mut self, now: f64, callers: usize) {
        let client = (self.random.uniform() * self.limits.len() as f64) as usize;
        let number = self.free.last().copied().unwrap_or(self.calls.len());
        if !self.limits[client].try_acquire(now, number) {
            return;
        }
        self.free.pop();
        self.in_flight[client] += 1;
        let mut call = Call { began: now, callers, client, in_flight: self.in_flight[client], work: 0.0 };
        match self.service.callers[callers].work {
            Work::Worker(time) => {
                call.work = time.draw(&mut self.random);
                if self.running < self.service.workers_at(now) {
                    self.running += 1;
                    self.at(now + call.work, Event::Worked { call: number });
                } else {
                    match self.service.queue {
                        Some(queue) if self.waiting.len() >= queue.length => {
                            self.at(now + queue.refusal, Event::Ended { call: number, is_overloaded: true });
                        }
                        _ => self.waiting.push_back(number),
                    }
                }
            }
            Work::Success(after) => self.at(now + after, Event::Ended { call: number, is_overloaded: false }),
            Work::Overloaded(after) => self.at(now + after, Event::Ended { call: number, is_overloaded: true }),
        }
        match self.calls.get_mut(number) {
            Some(old) => *old = call,
            None => self.calls.push(call),
        }
    }

    fn run_waiting(&mut self, now: f64) {
        while self.running < self.service.workers_at(now) {
            let Some(call) = self.waiting.pop_front() else { return };
            self.running += 1;
            self.at(now + self.calls[call].work, Event::Worked { call });
        }
    }

    fn end(&mut self, now: f64, number: usize, outcome: Outcome) {
        let Call { began, callers, client, in_flight, .. } = self.calls[number];
        self.in_flight[client] -= 1;
        self.limits[client].finished(now, Finished { call: number, latency: now - began, in_flight, outcome });
        self.free.push(number);
        let callers = self.service.callers[callers];
        if let Work::Worker(time) = callers.work
            && callers.is_polite
            && outcome == Outcome::Success
            && now >= WARM_UP
        {
            self.good += 1.0;
            self.latencies.add((now - began) / time.mean);
        }
    }
}
