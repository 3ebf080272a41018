//! A slow, obvious model of the server's script, for one limit and one subject.

use crate::script::{Command, Grant, LeaseRequest, Level, Reply, Status, Take, Terms};
use std::collections::HashMap;

/// A process that holds a lease, as the server stores it.
#[derive(Clone, Copy, Debug)]
struct Holder {
    seq: u64,
    ack: u64,
    granted: u32,
    kept: u32,
    end: u64,
    charge: u64,
}

/// The state of one limit. Its debt is counted in parts of a token.
///
/// A token has as many parts as the period has microseconds.
#[derive(Debug)]
pub(super) struct Server {
    terms: Terms,
    /// The length of leases in µs.
    pub(super) lease: u64,
    /// The tokens that processes may still hold from before the server lost the limit.
    ///
    /// The model only adds them to the `held` of its replies.
    pub(super) lost: u32,
    version: u64,
    at: u64,
    debt: u128,
    holders: HashMap<usize, Holder>,
    /// The times at which the server decided takes, and their tokens.
    pub(super) taken: Vec<(u64, u32)>,
}

impl Server {
    pub(super) fn new(terms: Terms, lease: u64) -> Self {
        Self { terms, lease, lost: 0, version: 0, at: 0, debt: 0, holders: HashMap::new(), taken: Vec::new() }
    }

    fn part(&self) -> u128 {
        self.terms.rate.micros().into()
    }

    pub(super) fn held(&self) -> u32 {
        self.holders.values().map(|holder| holder.granted + holder.kept).sum()
    }

    fn refill(&mut self, to: u64) {
        let floor = u128::from(self.held()) * self.part();
        let refilled = u128::from(to - self.at) * u128::from(self.terms.rate.tokens());
        self.debt = self.debt.saturating_sub(refilled).max(floor);
        self.at = to;
    }

    /// Ends the leases that have expired, in the order of their ends.
    ///
    /// The bucket refills up to the end of each lease before that lease ends, because tokens that are still leased cannot be
    /// refilled.
    fn catch_up(&mut self, now: u64) {
        while let Some((&number, holder)) = self.holders.iter().min_by_key(|(_, holder)| holder.end)
            && holder.end <= now
        {
            let end = holder.end;
            self.refill(end);
            self.holders.remove(&number);
        }
        self.refill(now);
    }

    fn owed(&self) -> u64 {
        // In the tests the result is at most the deepest debt, so the cast keeps it.
        self.debt.div_ceil(self.part()) as u64
    }

    fn settle(&mut self, charge: u64, refund: u64) {
        self.debt = self.debt.saturating_sub(u128::from(refund) * self.part());
        self.debt = self.debt.max(u128::from(self.held()) * self.part());
        self.debt += u128::from(charge) * self.part();
    }

    /// Runs a command of a process.
    pub(super) fn run(&mut self, command: &Command, process: usize, now: u64) -> Reply {
        self.catch_up(now);
        self.version += 1;
        let (mut status, mut grant) = (Status::Done, None);
        match command {
            Command::Take(limits) => {
                let Take { cost, charge, refund } = limits[0].1;
                self.settle(charge, refund);
                if self.owed() + u64::from(cost) > self.terms.burst.into() {
                    status = Status::Denied;
                } else {
                    self.debt += u128::from(cost) * self.part();
                    if cost > 0 {
                        self.taken.push((now, cost));
                    }
                }
            }
            Command::Lease(_, ask) => grant = Some(self.lease(ask, process, now)),
            Command::Reset(_) => self.debt = u128::from(self.held()) * self.part(),
            Command::ByPlan(_) => unreachable!("no limit of a subject is by plan"),
        }
        let owed = self.owed();
        // `frac` is the part of the next token that has been refilled.
        let frac = (u128::from(owed) * self.part() - self.debt) as u64;
        let full_at = now + (self.debt / u128::from(self.terms.rate.tokens().max(1))) as u64 + 1;
        let level =
            Level { version: self.version, at: now, owed, frac, held: (self.held() + self.lost).into(), full_at };
        Reply { status, now, levels: vec![level], grant, counted: vec![] }
    }

    fn lease(&mut self, ask: &LeaseRequest, process: usize, now: u64) -> Grant {
        let (mut count, mut charged) = (0, 0);
        if let Some(holder) = self.holders.remove(&process) {
            assert!(ask.seq > holder.seq, "requests of the simulation arrive in order");
            count = holder.kept + holder.granted;
            if ask.ack == holder.ack {
                self.debt -= u128::from(holder.granted) * self.part();
                (count, charged) = (holder.kept, holder.charge);
            }
        }
        let (unspent, back) = if ask.unspent + ask.back > count { (0, 0) } else { (ask.unspent, ask.back) };
        self.debt -= u128::from(back) * self.part();
        let step = (self.lease / 8).max(1);
        let end = (now + self.lease).div_ceil(step) * step;
        let mut holder = Holder { seq: ask.seq, ack: ask.ack, granted: 0, kept: unspent, end, charge: ask.charge };
        self.holders.insert(process, holder);
        self.settle(ask.charge.saturating_sub(charged), ask.refund);
        let left = u64::from(self.terms.burst).saturating_sub(self.owed());
        let granted = u64::from(ask.want).min(left).min(self.terms.hold.saturating_sub(self.held()).into()) as u32;
        self.debt += u128::from(granted) * self.part();
        holder.granted = granted;
        self.holders.insert(process, holder);
        Grant { seq: ask.seq, granted, kept: unspent, length: self.lease, leased: self.held().into() }
    }
}
