//! One scenario under one limit, event by event.

use super::limit::{Finished, Limit, Outcome};
use super::record::Record;
use super::scenario::{Change, Demand, Patience, Scenario, Side};
use super::server::Server;
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How long a client waits before it retries, in seconds.
const PAUSE: f64 = 0.1;

/// Runs a scenario under a limit. The same seed gives the same record.
#[must_use]
pub fn run(scenario: &Scenario, limit: &mut dyn Limit, seed: u64) -> Record {
    let mut run = Run::new(scenario, limit, seed);
    run.until_the_end();
    run.record
}

/// An event at a time known in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A client calls, after this many earlier attempts.
    Call { attempts: u8 },
    /// The client of the call that started then stops waiting.
    GiveUp { call: usize, started: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Call {
    started: f64,
    in_flight: u32,
    attempts: u8,
    /// Whether its client is still waiting.
    awaited: bool,
    running: bool,
    holds_permit: bool,
}

struct Run<'a> {
    scenario: &'a Scenario,
    limit: &'a mut dyn Limit,
    random: Random,
    server: Server,
    changes: std::vec::IntoIter<Change>,
    next_change: Option<Change>,
    next_arrival: f64,
    timers: BinaryHeap<Reverse<(u64, u64, Timer)>>,
    timers_set: u64,
    calls: Vec<Call>,
    free: Vec<usize>,
    in_flight: u32,
    record: Record,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, limit: &'a mut dyn Limit, seed: u64) -> Self {
        let mut changes = scenario.changes().into_iter();
        let first = changes.next().expect("a scenario has its power at the start");
        let next_change = changes.next();
        let mut run = Self {
            scenario,
            limit,
            random: Random::new(seed),
            server: Server::new(scenario.discipline, first.power),
            changes,
            next_change,
            next_arrival: f64::INFINITY,
            timers: BinaryHeap::new(),
            timers_set: 0,
            calls: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            record: Record::new(scenario),
        };
        if let Demand::Closed { clients, think } = scenario.demand {
            for _ in 0..clients {
                run.think(0.0, think);
            }
        } else {
            run.draw_arrival(0.0);
        }
        run
    }

    fn until_the_end(&mut self) {
        loop {
            let change = self.next_change.map_or(f64::INFINITY, |change| change.at);
            let end = self.server.next_end();
            let timer = self.timers.peek().map_or(f64::INFINITY, |Reverse((bits, ..))| f64::from_bits(*bits));
            let now = change.min(end).min(timer).min(self.next_arrival);
            let now = now.min(self.scenario.length);
            self.record.time_passes(now, self.limit.limit());
            if now >= self.scenario.length {
                return;
            }
            if now >= change {
                self.change(now);
            } else if now >= end {
                self.end(now);
            } else if now >= timer {
                self.timer(now);
            } else {
                let admitted = self.call(now, 0);
                let patient = matches!(self.scenario.demand, Demand::Open(_));
                // A refused call of patient clients has no effect before another call ends. Arrivals are memoryless, so
                // the next one may be drawn from then on.
                let from = if admitted || !patient { now } else { change.min(end).min(self.scenario.length) };
                self.draw_arrival(from);
            }
        }
    }

    fn draw_arrival(&mut self, now: f64) {
        self.next_arrival = now + self.random.exponential(1.0 / self.scenario.offered(now));
    }

    fn think(&mut self, now: f64, think: f64) {
        let thought = self.random.exponential(think);
        self.set(now + thought, Timer::Call { attempts: 0 });
    }

    fn set(&mut self, at: f64, timer: Timer) {
        self.timers_set += 1;
        self.timers.push(Reverse((at.to_bits(), self.timers_set, timer)));
    }

    fn change(&mut self, now: f64) {
        if let Some(Change { power, .. }) = self.next_change {
            self.server.change(now, power);
            self.record.silence().speed_changed(now, power.speed);
        }
        self.next_change = self.changes.next();
    }

    fn call(&mut self, now: f64, attempts: u8) -> bool {
        self.record.silence().called(now);
        let call = self.free.last().copied().unwrap_or(self.calls.len());
        // The service time is drawn only for an admitted call, as the times are independent.
        if !self.limit.try_acquire(now, call) {
            self.refused(now, attempts);
            return false;
        }
        self.in_flight += 1;
        let started = Call {
            started: now,
            in_flight: self.in_flight,
            attempts,
            awaited: true,
            running: true,
            holds_permit: true,
        };
        if self.free.pop().is_some() {
            self.calls[call] = started;
        } else {
            self.calls.push(started);
        }
        let work = self.scenario.service.draw(&mut self.random);
        self.server.start(now, call, work);
        if let Demand::Impatient(_, Patience { timeout, .. }) = self.scenario.demand {
            self.set(now + timeout, Timer::GiveUp { call, started: now.to_bits() });
        }
        true
    }

    fn refused(&mut self, now: f64, attempts: u8) {
        match self.scenario.demand {
            Demand::Open(_) => {}
            Demand::Closed { think, .. } => self.think(now, think),
            Demand::Impatient(_, patience) => self.try_again(now, attempts, patience),
        }
    }

    fn try_again(&mut self, now: f64, attempts: u8, patience: Patience) {
        if attempts < patience.retries {
            self.set(now + PAUSE, Timer::Call { attempts: attempts + 1 });
        }
    }

    fn timer(&mut self, now: f64) {
        let Some(Reverse((_, _, timer))) = self.timers.pop() else { return };
        match timer {
            Timer::Call { attempts } => {
                self.call(now, attempts);
            }
            Timer::GiveUp { call, started } => {
                let Call { attempts, running, started: last, .. } = self.calls[call];
                // Another call may have reused its number.
                if running && last.to_bits() == started {
                    self.calls[call].awaited = false;
                    if let Demand::Impatient(_, patience) = self.scenario.demand {
                        if patience.limit_at == Side::Client {
                            self.over(now, call, Outcome::Overloaded);
                        }
                        self.try_again(now, attempts, patience);
                    }
                }
            }
        }
    }

    /// Returns the call's permit.
    fn over(&mut self, now: f64, call: usize, outcome: Outcome) {
        let Call { started, in_flight, .. } = self.calls[call];
        self.calls[call].holds_permit = false;
        self.in_flight -= 1;
        self.limit.finished(now, Finished { call, latency: now - started, in_flight, outcome });
    }

    fn end(&mut self, now: f64) {
        let Some(call) = self.server.end(now) else { return };
        let Call { started, awaited, holds_permit, .. } = self.calls[call];
        self.calls[call].running = false;
        self.free.push(call);
        if holds_permit {
            // A server responds even if the client has disconnected, which it cannot know.
            self.over(now, call, Outcome::Success);
        }
        self.record.finished(now, now - started, awaited);
        if awaited {
            self.record.silence().answered(now, self.in_flight);
        }
        if let Demand::Closed { think, .. } = self.scenario.demand {
            self.think(now, think);
        }
    }
}
