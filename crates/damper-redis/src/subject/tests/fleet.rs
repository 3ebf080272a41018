//! A simulation of processes, the server and the network on one clock.

use super::server::Server;
use crate::script::{Reply, Terms};
use crate::subject::{Answer, Dispatch, NextStep, Outcome, Plan, Subject};
use damper_core::{Clock, ManualClock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) const MILLISECOND: u64 = 1_000;
pub(super) const SECOND: u64 = 1_000_000;

/// The delay of messages, and how long a check waits for a reply at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    pub(super) deadline: u64,
    /// The shortest delay of a message in one direction. The longest is twice as long.
    pub(super) one_way: u64,
}

/// The default deadline, and a server nearby: a message takes 100 to 200 µs.
pub(super) const NEAR: Network = Network { deadline: 5 * MILLISECOND, one_way: 100 };

/// The traffic of a process: returns the cost of a check, and the time in µs to the next check.
///
/// A cost of 0 means no check.
pub(super) type Traffic = Box<dyn FnMut(&mut Chance, u64) -> (u32, u64)>;

/// A generator of random numbers with a seed.
#[derive(Debug)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns the random time in µs, at least 1, between two events of a Poisson process with this rate.
    pub(super) fn pause(&mut self, per_second: f64) -> u64 {
        let unit = ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        ((-unit.ln() * 1e6 / per_second) as u64).max(1)
    }
}

/// The answers to the checks of a process, in tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// The tokens of checks that waited until their deadline.
    pub(super) overdue: u64,
    /// The tokens of checks that one exact bucket, asked without delay, would have denied.
    pub(super) denied_by_bucket: u64,
    pub(super) commands: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.overdue += other.overdue;
        self.denied_by_bucket += other.denied_by_bucket;
        self.commands += other.commands;
    }
}

/// A clock that each reading advances a little, so that no two readings are equal.
#[derive(Debug, Default)]
pub(super) struct MovingClock(ManualClock);

impl MovingClock {
    /// Sets the clock to a time in µs, unless its readings have moved it further.
    pub(super) fn catch_up(&self, micros: u64) {
        let nanos = micros * 1_000;
        if self.0.now() < nanos {
            self.0.set_ticks(nanos);
        }
    }
}

impl Clock for MovingClock {
    fn now(&self) -> u64 {
        let now = self.0.now();
        self.0.advance_ticks(50);
        now
    }

    fn frequency(&self) -> u64 {
        self.0.frequency()
    }
}

struct Process {
    clock: Arc<MovingClock>,
    subject: Subject<Arc<MovingClock>>,
    traffic: Traffic,
    tally: Tally,
    /// When to call `due` next.
    due: u64,
    /// The costs of checks that joined a command in flight, and their deadlines.
    joined: Vec<(u32, u64)>,
}

enum Event {
    Check(usize),
    Due(usize),
    Arrive(usize, Box<Dispatch>, Option<(u32, u64)>),
    Return(usize, Box<Dispatch>, Reply, Option<(u32, u64)>),
}

pub(super) struct Fleet {
    now: u64,
    pub(super) server: Server,
    processes: Vec<Process>,
    chance: Chance,
    /// The events by their time and their number, which is their order.
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    /// The debt, in parts of a token, and the time of one exact bucket that decides the same checks.
    bucket: (u128, u64),
    terms: Terms,
    /// The times at which leased tokens were spent, and how many were.
    spent: Vec<(u64, u32)>,
    logs: bool,
    network: Network,
}

impl Fleet {
    pub(super) fn new(terms: Terms, traffic: Vec<Traffic>) -> Self {
        Self::with_network(terms, traffic, NEAR)
    }

    pub(super) fn with_network(terms: Terms, traffic: Vec<Traffic>, network: Network) -> Self {
        let plan = Plan::new(vec![terms], Duration::from_secs(1));
        let plan = plan.with_deadline(Duration::from_micros(network.deadline));
        Self { network, ..Self::with_plan(plan, terms, traffic) }
    }

    pub(super) fn with_plan(plan: Plan, terms: Terms, traffic: Vec<Traffic>) -> Self {
        let plan = Arc::new(plan);
        let mut fleet = Self {
            now: 0,
            server: Server::new(terms, SECOND),
            processes: Vec::new(),
            chance: Chance(7),
            events: BTreeMap::new(),
            number: 0,
            bucket: (0, 0),
            terms,
            spent: Vec::new(),
            logs: true,
            network: NEAR,
        };
        for (index, traffic) in traffic.into_iter().enumerate() {
            let clock = Arc::new(MovingClock::default());
            let subject = Subject::new(Arc::clone(&plan), index as u64, Arc::clone(&clock));
            let (tally, due) = (Tally::default(), u64::MAX);
            fleet.processes.push(Process { clock, subject, traffic, tally, due, joined: Vec::new() });
            let first = fleet.chance.below(SECOND);
            fleet.schedule(first, Event::Check(index));
        }
        fleet
    }

    /// Keeps no log of admitted tokens, because the log of a long simulation would be too large.
    pub(super) fn without_log(mut self) -> Self {
        self.logs = false;
        self
    }

    fn schedule(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.insert((time, self.number), event);
    }

    /// Runs until the time `end`, in µs.
    pub(super) fn run_until(&mut self, end: u64) {
        while let Some(next) = self.events.first_entry()
            && next.key().0 <= end
        {
            let ((time, _), event) = next.remove_entry();
            self.now = time;
            if let Event::Check(index) | Event::Due(index) | Event::Return(index, ..) = event {
                self.processes[index].clock.catch_up(time);
            }
            match event {
                Event::Check(index) => {
                    let (cost, pause) = (self.processes[index].traffic)(&mut self.chance, time);
                    if cost > 0 {
                        self.ask_bucket(index, cost);
                        self.check(index, cost, time + self.network.deadline);
                    }
                    self.schedule(time + pause, Event::Check(index));
                }
                Event::Due(index) if self.processes[index].due == time => self.due(index),
                Event::Due(_) => {}
                Event::Arrive(index, dispatch, check) => {
                    let reply = self.server.run(dispatch.command(), index, time);
                    let back = self.trip();
                    self.schedule(back, Event::Return(index, dispatch, reply, check));
                }
                Event::Return(index, dispatch, reply, check) => self.replied(index, *dispatch, &reply, check),
            }
            if !self.logs {
                self.server.taken.clear();
            }
        }
        self.now = end;
    }

    /// Asks the exact bucket with which the fleet is compared.
    fn ask_bucket(&mut self, index: usize, n: u32) {
        let (rate, (debt, at)) = (self.terms.rate, self.bucket);
        let part = u128::from(rate.micros());
        let debt = debt.saturating_sub(u128::from(self.now - at) * u128::from(rate.tokens()));
        let after = debt + u128::from(n) * part;
        let is_allowed = after <= u128::from(self.terms.burst) * part;
        self.bucket = (if is_allowed { after } else { debt }, self.now);
        self.processes[index].tally.denied_by_bucket += if is_allowed { 0 } else { u64::from(n) };
    }

    fn trip(&mut self) -> u64 {
        self.now + self.network.one_way + self.chance.below(self.network.one_way)
    }

    fn check(&mut self, index: usize, n: u32, deadline: u64) {
        if self.now > deadline {
            self.processes[index].tally.overdue += u64::from(n);
            return;
        }
        match self.processes[index].subject.check(n) {
            Answer::Allowed(_) => self.spend(index, n),
            Answer::Taken(_) => self.processes[index].tally.allowed += u64::from(n),
            Answer::Low(_) => {
                self.spend(index, n);
                if let Some(dispatch) = self.processes[index].subject.ask_ahead() {
                    self.send(index, dispatch, None);
                }
            }
            Answer::Denied(_) | Answer::Down => self.processes[index].tally.denied += u64::from(n),
            Answer::Ask(dispatch) => self.send(index, dispatch, Some((n, deadline))),
            Answer::Join => {
                assert!(self.processes[index].subject.join(n), "its request is in flight");
                self.processes[index].joined.push((n, deadline));
            }
        }
    }

    fn spend(&mut self, index: usize, n: u32) {
        self.processes[index].tally.allowed += u64::from(n);
        if self.logs {
            self.spent.push((self.now, n));
        }
    }

    fn send(&mut self, index: usize, dispatch: Box<Dispatch>, check: Option<(u32, u64)>) {
        self.processes[index].tally.commands += 1;
        let arrival = self.trip();
        self.schedule(arrival, Event::Arrive(index, dispatch, check));
        self.due(index);
    }

    fn due(&mut self, index: usize) {
        match self.processes[index].subject.due() {
            NextStep::Send(dispatch) => self.send(index, dispatch, None),
            NextStep::At(tick) => {
                let time = tick.div_ceil(1_000).max(self.now + 1);
                self.processes[index].due = time;
                self.schedule(time, Event::Due(index));
            }
            NextStep::Nothing => self.processes[index].due = u64::MAX,
        }
    }

    fn replied(&mut self, index: usize, dispatch: Dispatch, reply: &Reply, check: Option<(u32, u64)>) {
        match (self.processes[index].subject.replied(dispatch, reply), check) {
            (Outcome::Allowed(_), Some((n, _))) => self.processes[index].tally.allowed += u64::from(n),
            (Outcome::Denied(_) | Outcome::Late, Some((n, _))) => self.processes[index].tally.denied += u64::from(n),
            (Outcome::Again, Some((n, deadline))) => self.check(index, n, deadline),
            (_, None) => {}
        }
        for (n, deadline) in std::mem::take(&mut self.processes[index].joined) {
            self.check(index, n, deadline);
        }
        self.due(index);
    }

    /// Returns the tallies of all processes since the last call.
    pub(super) fn tallies(&mut self) -> Vec<Tally> {
        self.processes.iter_mut().map(|process| std::mem::take(&mut process.tally)).collect()
    }

    /// Asserts that no interval admitted more than the burst and the tokens refilled during it.
    ///
    /// Tokens that the server took count from the time of its decision, and leased tokens from when they were spent.
    pub(super) fn assert_envelope(&self, terms: &Terms) {
        let mut all: Vec<_> = self.spent.iter().chain(&self.server.taken).copied().collect();
        all.sort_unstable();
        let part = u128::from(terms.rate.micros());
        let (mut debt, mut at) = (0u128, 0);
        for (time, n) in all {
            debt = debt.saturating_sub(u128::from(time - at) * u128::from(terms.rate.tokens())) + u128::from(n) * part;
            at = time;
            assert!(debt <= u128::from(terms.burst) * part, "more than the burst at {time} µs");
        }
    }
}

/// Creates random traffic: checks of one token, `per_second` on average.
pub(super) fn random(per_second: f64) -> Traffic {
    Box::new(move |chance, _| (1, chance.pause(per_second)))
}

/// Returns the terms of `per_second` tokens a second, with the default share of the burst for leases.
pub(super) fn terms(per_second: u32, burst: u32) -> Terms {
    Terms::new(damper_core::Quota::per_second(per_second).burst(burst), burst / 4).expect("a rate that can be counted")
}
