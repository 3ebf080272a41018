//! The rule of admission: who runs next, who gives way, and what is refused because it comes too late.

use super::traffic::Class;
use crate::concurrency::limit::{Finished, Limit, Outcome};
use std::collections::VecDeque;

/// How far a tenant may be behind the one with the most starts of its class. Who was away is not owed more.
const CREDIT: u64 = 10;
/// Service times of which the median counts.
const RECENT: usize = 100;

/// A call that asks to be admitted.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its number; that of a call that is over is used again.
    pub call: usize,
    /// Its priority.
    pub class: Class,
    /// Whose it is, numbered from 0.
    pub tenant: usize,
    /// When it must be answered.
    pub deadline: f64,
}

/// What the rule does: the specification's, or without one of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The whole rule.
    Whole,
    /// A call that finds no slot free is refused.
    NoQueue,
    /// The server goes on with calls whose deadline has passed.
    NoEnding,
    /// A call needs time for the p90 of service times, in place of the median.
    SlowMedian,
    /// Only the limit: neither a queue, nor classes, nor deadlines.
    LimitOnly,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Whole, Self::NoQueue, Self::NoEnding, Self::SlowMedian, Self::LimitOnly];

    /// Its name in the tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::NoQueue => "no queue",
            Self::NoEnding => "work not ended",
            Self::SlowMedian => "p90 for the median",
            Self::LimitOnly => "limit only",
        }
    }

    /// Whether a call is ended at its deadline.
    #[must_use]
    pub const fn ends_work(self) -> bool {
        !matches!(self, Self::NoEnding | Self::LimitOnly)
    }

    const fn quantile(self) -> usize {
        if matches!(self, Self::SlowMedian) { 90 } else { 50 }
    }
}

/// What a decision led to.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// Calls that may start now.
    pub started: Vec<Request>,
    /// Calls that were refused.
    pub refused: Vec<Request>,
}

/// The gate.
pub struct Gate {
    policy: Policy,
    limit: Box<dyn Limit>,
    /// Oldest first.
    waiting: Vec<Request>,
    /// Of each class, each tenant's starts, and the highest of them.
    starts: Vec<Vec<u64>>,
    highest: Vec<u64>,
    /// Calls in flight and waiting, of each tenant.
    present: Vec<u32>,
    in_flight: u32,
    recent: VecDeque<f64>,
    /// A call with less time than this is refused.
    needed: f64,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("limit", &self.limit.limit()).finish_non_exhaustive()
    }
}

impl Gate {
    /// Creates a gate before so many tenants.
    #[must_use]
    pub fn new(policy: Policy, limit: Box<dyn Limit>, tenants: usize) -> Self {
        Self {
            policy,
            limit,
            waiting: Vec::new(),
            starts: vec![vec![0; tenants]; 4],
            highest: vec![0; 4],
            present: vec![0; tenants],
            in_flight: 0,
            recent: VecDeque::new(),
            needed: 0.0,
        }
    }

    /// Returns the limit in force.
    #[must_use]
    pub fn limit(&self) -> f64 {
        self.limit.limit()
    }

    /// Returns how many calls are in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// A call arrives.
    pub fn arrive(&mut self, now: f64, request: Request) -> Decided {
        let mut decided = Decided::default();
        if self.is_late(now, &request) {
            decided.refused.push(request);
            return decided;
        }
        self.present[request.tenant] += 1;
        self.waiting.push(request);
        self.admit(now, &mut decided);
        let places = match self.policy {
            Policy::NoQueue | Policy::LimitOnly => 0,
            _ => self.limit.limit() as usize,
        };
        while self.waiting.len() > places {
            let Some(victim) = self.victim() else { break };
            decided.refused.push(self.leave(victim));
        }
        decided
    }

    /// A call that started is over, `latency` seconds after its start.
    pub fn finished(&mut self, now: f64, request: Request, latency: f64, in_flight: u32, outcome: Outcome) -> Decided {
        self.present[request.tenant] -= 1;
        self.in_flight -= 1;
        self.limit.finished(now, Finished { call: request.call, latency, in_flight, outcome });
        if outcome == Outcome::Success {
            self.learn(latency);
        }
        let mut decided = Decided::default();
        self.admit(now, &mut decided);
        decided
    }

    fn learn(&mut self, latency: f64) {
        self.recent.push_back(latency);
        if self.recent.len() < RECENT {
            return;
        }
        let mut sorted: Vec<f64> = self.recent.drain(..).collect();
        let (_, quantile, _) = sorted.select_nth_unstable_by(RECENT * self.policy.quantile() / 100, f64::total_cmp);
        self.needed = *quantile;
    }

    fn is_late(&self, now: f64, request: &Request) -> bool {
        self.policy != Policy::LimitOnly && request.deadline - now < self.needed
    }

    /// Starts calls while the limit has slots.
    fn admit(&mut self, now: f64, decided: &mut Decided) {
        while !self.waiting.is_empty() {
            // The limit counts refusals, whoever asks: no need to look for the best when all slots are taken.
            let full = f64::from(self.in_flight) >= self.limit.limit().floor();
            let next = if full { 0 } else { self.next() };
            if self.is_late(now, &self.waiting[next]) {
                decided.refused.push(self.leave(next));
                continue;
            }
            if !self.limit.try_acquire(now, self.waiting[next].call) {
                return;
            }
            let request = self.waiting.remove(next);
            self.in_flight += 1;
            let (starts, highest) = (self.starts(&request), &mut self.highest[usize::from(request.class)]);
            self.starts[usize::from(request.class)][request.tenant] = starts + 1;
            *highest = (*highest).max(starts + 1);
            decided.started.push(request);
        }
    }

    /// A tenant's starts in the class, at most [`CREDIT`] behind the most of any.
    fn starts(&self, request: &Request) -> u64 {
        let class = usize::from(request.class);
        self.starts[class][request.tenant].max(self.highest[class].saturating_sub(CREDIT))
    }

    /// The highest class, in it the tenant with the fewest starts, of it the newest.
    fn next(&self) -> usize {
        let rank = |i: usize| (self.waiting[i].class, self.starts(&self.waiting[i]), std::cmp::Reverse(i));
        (0..self.waiting.len()).min_by_key(|&i| rank(i)).unwrap_or(0)
    }

    /// The lowest class, in it the tenant with most calls in flight and waiting, of it the oldest.
    fn victim(&self) -> Option<usize> {
        let rank = |i: usize| (self.waiting[i].class, self.present[self.waiting[i].tenant], std::cmp::Reverse(i));
        (0..self.waiting.len()).max_by_key(|&i| rank(i))
    }

    fn leave(&mut self, place: usize) -> Request {
        let request = self.waiting.remove(place);
        self.present[request.tenant] -= 1;
        request
    }
}
