//! A fleet of clients with breakers comes back to a service after an outage: at once, or by a ramp?
//!
//! Each client has a breaker and calls at random times. The service has workers and a queue. In the outage every call fails at once.
//! Then the service is back with half of its workers, fewer than the calls need, and gets the other half within the warm-up. It does
//! not notice that a client has given up: it works for calls that have timed out. Hostile clients have no breaker, and repeat a failed
//! call up to ten times.

use crate::random::Random;
use damper::breaker::Permit;
use damper::{BreakerConfig, CircuitBreaker, ManualClock, Ramp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A fleet of clients and the service that they call.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// The number of clients.
    pub clients: usize,
    /// How many of them are hostile.
    pub hostile: usize,
    /// The calls of a client, per second.
    pub calls_per_second: f64,
    /// The workers on a good day. A call takes 50 ms on average.
    pub workers: usize,
    /// How long the service takes to get the other half of its workers back.
    pub warm_up: Duration,
    /// The ramp of the breakers; `None` if they close at once.
    pub ramp: Option<Ramp>,
    /// The seed of all that is drawn.
    pub seed: u64,
}

/// How a fleet came back, in the five minutes after the end of the outage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Return {
    /// The calls of clients with a breaker that were answered in time, of those that they had.
    pub goodput: f64,
    /// The seconds until 95 % of these calls are answered in time, in every second from then on.
    pub full_after: f64,
    /// How often a breaker opened.
    pub openings: f64,
    /// Of the calls that the service worked on, those whose client had given up.
    pub wasted: f64,
}

const OUTAGE_BEGINS: u64 = seconds(10);
const OUTAGE_ENDS: u64 = seconds(45);
const WATCHED_SECONDS: u64 = 300;
const TIMEOUT: u64 = seconds(1);
const SERVICE_MICROS: f64 = 50_000.0;
const LONGEST_QUEUE: usize = 10_000;
/// The time after which a hostile client repeats a failed call, and how often it does.
const REPEAT: u64 = 100_000;
const REPEATS: u32 = 10;

const fn seconds(seconds: u64) -> u64 {
    seconds * 1_000_000
}

/// An event at a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client has a call to make.
    Arrival { client: usize },
    /// A hostile client repeats a call.
    Repeat { client: usize, attempt: u32 },
    /// A worker has finished a call.
    Finished { call: usize },
    /// A client gives up on a call.
    TimedOut { call: usize },
    /// The service may have one more worker.
    Warmed,
}

/// A call in flight, until its end or its timeout.
#[derive(Debug)]
struct Call {
    client: usize,
    attempt: u32,
    began: u64,
    /// `None` if the client is hostile.
    permit: Option<Permit<Arc<CircuitBreaker<Arc<ManualClock>>>>>,
    is_waiting: bool,
}

struct Run {
    fleet: Fleet,
    clock: Arc<ManualClock>,
    now: u64,
    breakers: Vec<Arc<CircuitBreaker<Arc<ManualClock>>>>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    calls: Vec<Call>,
    queue: VecDeque<usize>,
    busy: usize,
    random: Random,
    /// The calls of clients with a breaker and those answered in time, by the second of the call.
    seconds: Vec<[u32; 2]>,
    worked: u64,
    wasted: u64,
}

impl Fleet {
    /// Returns two hundred clients that need 71 % of the workers, of whom so many are hostile.
    #[must_use]
    pub const fn two_hundred(hostile: usize, ramp: Option<Ramp>) -> Self {
        Self {
            clients: 200,
            hostile,
            calls_per_second: 10.0,
            workers: 140,
            warm_up: Duration::from_secs(60),
            ramp,
            seed: 1,
        }
    }

    /// Returns the means of the runs of these seeds.
    #[must_use]
    pub fn mean_of(self, seeds: &[u64]) -> Return {
        let runs: Vec<Return> = seeds.iter().map(|&seed| Self { seed, ..self }.returns()).collect();
        let mean = |of: fn(&Return) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        Return {
            goodput: mean(|run| run.goodput),
            full_after: mean(|run| run.full_after),
            openings: mean(|run| run.openings),
            wasted: mean(|run| run.wasted),
        }
    }

    /// Runs the outage and the five minutes after it.
    ///
    /// # Panics
    ///
    /// If the ramp is out of its range.
    #[must_use]
    pub fn returns(self) -> Return {
        let mut config = BreakerConfig::builder().cooldown(Duration::from_secs(10)).cooldown_jitter(20);
        if let Some(ramp) = self.ramp {
            config = config.ramp(ramp);
        }
        let config = config.build().expect("settings are in their ranges");
        let clock = Arc::new(ManualClock::new());
        let breaker = |_| Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
        let mut run = Run {
            fleet: self,
            now: 0,
            breakers: (0..self.clients).map(breaker).collect(),
            clock,
            events: BinaryHeap::new(),
            calls: Vec::new(),
            queue: VecDeque::new(),
            busy: 0,
            random: Random::new(self.seed),
            seconds: vec![[0; 2]; (OUTAGE_ENDS / seconds(1) + WATCHED_SECONDS) as usize],
            worked: 0,
            wasted: 0,
        };
        run.go()
    }
}

impl Run {
    fn go(&mut self) -> Return {
        for client in 0..self.fleet.clients {
            self.next_arrival(client);
        }
        for worker in 0..self.fleet.workers as u64 {
            let warm_up = self.fleet.warm_up.as_micros() as u64;
            self.at(OUTAGE_ENDS + warm_up * worker / self.fleet.workers as u64, Event::Warmed);
        }
        let mut openings_before = 0;
        while let Some(Reverse((at, event))) = self.events.pop() {
            if at >= OUTAGE_ENDS + seconds(WATCHED_SECONDS) {
                break;
            }
            if self.now < OUTAGE_ENDS && at >= OUTAGE_ENDS {
                openings_before = self.openings();
            }
            self.clock.advance(Duration::from_micros(at - self.now));
            self.now = at;
            match event {
                Event::Arrival { client } => {
                    self.next_arrival(client);
                    if !self.is_hostile(client) {
                        self.seconds[(at / seconds(1)) as usize][0] += 1;
                    }
                    self.call(client, 0);
                }
                Event::Repeat { client, attempt } => self.call(client, attempt),
                Event::Finished { call } => {
                    self.busy -= 1;
                    self.ended(call, true);
                }
                Event::TimedOut { call } => self.ended(call, false),
                Event::Warmed => {}
            }
            self.work();
        }
        let watched = &self.seconds[(OUTAGE_ENDS / seconds(1)) as usize..];
        let total = |which: usize| watched.iter().map(|second| f64::from(second[which])).sum::<f64>();
        // The calls of the last seconds are still in flight.
        let full =
            watched[..watched.len() - 3].iter().rposition(|[made, good]| f64::from(*good) < 0.95 * f64::from(*made));
        let breakers = (self.fleet.clients - self.fleet.hostile) as f64;
        Return {
            goodput: total(1) / total(0),
            full_after: full.map_or(0.0, |second| second as f64 + 1.0),
            openings: f64::from(self.openings() - openings_before) / breakers,
            wasted: self.wasted as f64 / self.worked as f64,
        }
    }

    /// The first clients are the hostile ones.
    fn is_hostile(&self, client: usize) -> bool {
        client < self.fleet.hostile
    }

    fn openings(&self) -> u32 {
        self.breakers.iter().map(|breaker| breaker.recent_changes().openings()).sum()
    }

    fn at(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, event)));
    }

    fn next_arrival(&mut self, client: usize) {
        let pause = self.random.exponential(1_000_000.0 / self.fleet.calls_per_second).ceil() as u64;
        self.at(self.now + pause, Event::Arrival { client });
    }

    /// Makes a call, unless the client's breaker refuses it.
    fn call(&mut self, client: usize, attempt: u32) {
        let permit = if self.is_hostile(client) {
            None
        } else {
            match self.breakers[client].try_acquire_owned() {
                Ok(permit) => Some(permit),
                Err(_) => return,
            }
        };
        let call = self.calls.len();
        self.calls.push(Call { client, attempt, began: self.now, permit, is_waiting: true });
        let is_down = (OUTAGE_BEGINS..OUTAGE_ENDS).contains(&self.now);
        if is_down || self.queue.len() >= LONGEST_QUEUE {
            self.ended(call, false);
        } else {
            self.queue.push_back(call);
            self.at(self.now + TIMEOUT, Event::TimedOut { call });
        }
    }

    /// Ends a call for its client, unless that has given up.
    fn ended(&mut self, call: usize, is_good: bool) {
        let Call { client, attempt, began, permit, is_waiting } = &mut self.calls[call];
        if !std::mem::replace(is_waiting, false) {
            return;
        }
        let (client, attempt, began) = (*client, *attempt + 1, *began);
        match permit.take() {
            Some(permit) if is_good => {
                permit.success();
                self.seconds[(began / seconds(1)) as usize][1] += 1;
            }
            Some(permit) => permit.failure(),
            None if is_good || attempt > REPEATS => {}
            None => self.at(self.now + REPEAT, Event::Repeat { client, attempt }),
        }
    }

    /// Gives calls of the queue to free workers.
    fn work(&mut self) {
        while self.busy < self.workers() {
            let Some(call) = self.queue.pop_front() else { return };
            self.busy += 1;
            self.worked += 1;
            self.wasted += u64::from(!self.calls[call].is_waiting);
            let takes = self.random.exponential(SERVICE_MICROS).ceil() as u64;
            self.at(self.now + takes, Event::Finished { call });
        }
    }

    fn workers(&self) -> usize {
        let all = self.fleet.workers;
        if self.now < OUTAGE_BEGINS {
            return all;
        }
        let since = Duration::from_micros(self.now.saturating_sub(OUTAGE_ENDS)).as_secs_f64();
        let warm = (since / self.fleet.warm_up.as_secs_f64()).min(1.0);
        ((0.5 + 0.5 * warm) * all as f64) as usize
    }
}
