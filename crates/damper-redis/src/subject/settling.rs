//! Replies, and commands that were lost: what a subject learns from them.

use super::ledger::{Ledger, Mode};
use super::outgoing::{Kind, Outcome, Outgoing, Ticket};
use super::plan::validity;
use super::subject::Subject;
use crate::script::{Grant, Reply, Status};
use core::sync::atomic::Ordering;
use core::time::Duration;
use damper_core::Clock;
use damper_core::internal::allowed_on;

/// How long a limit that nothing refills denies without asking, in µs: it may be reset elsewhere.
const NEVER_FILLED: u64 = 1_000_000;

impl<C: Clock> Subject<C> {
    /// Learns from the reply to a command, and returns what it says to the check that waits for it.
    ///
    /// The reply to a request that was lost, or overtaken, is discarded: its grant may have gone back to the limit.
    pub fn replied(&self, outgoing: Outgoing, reply: &Reply) -> Outcome {
        let Outgoing { command: _, ticket } = outgoing;
        let mut ledger = self.ledger();
        let now = self.now();
        if matches!(reply.status, Status::Late | Status::Stale) {
            self.lose(&mut ledger, &ticket);
            return Outcome::Late;
        }
        match ticket.kind {
            Kind::Take { cost } => {
                self.see(&mut ledger, reply, now);
                ledger.is_failing = false;
                self.taken(cost, reply, now)
            }
            Kind::Lease { seq, unspent, wanted } => {
                let is_expected = ledger.in_flight.is_some_and(|in_flight| in_flight.seq == seq);
                match reply.grant {
                    Some(grant) if is_expected && grant.seq == seq => {
                        let (granted, kept) = (grant.granted.min(wanted), grant.kept.min(unspent));
                        let grant =
                            Grant { granted, kept, length: grant.length.min(self.plan.lease_micros()), ..grant };
                        // At most the burst.
                        ledger.counted = kept.saturating_add(granted);
                        self.see(&mut ledger, reply, now);
                        // Without the tokens that may be out since a loss: they leave room for as many.
                        ledger.others = (grant.leased as u32).saturating_sub(ledger.counted);
                        self.granted(&mut ledger, &ticket, grant, reply, now);
                    }
                    _ => self.lose(&mut ledger, &ticket),
                }
                Outcome::Again
            }
            Kind::Reset => {
                self.see(&mut ledger, reply, now);
                self.gate.reopen();
                Outcome::Again
            }
        }
    }

    /// Learns that a command has no reply, or that it was not sent.
    ///
    /// Tokens that it was to give back are lost with it, and a charge goes with the next command. A take counts as taken.
    pub fn lost(&self, outgoing: Outgoing) {
        let Outgoing { command: _, ticket } = outgoing;
        self.lose(&mut self.ledger(), &ticket);
    }

    fn lose(&self, ledger: &mut Ledger, ticket: &Ticket) {
        ledger.pending.add_charge(ticket.charge);
        let sent = self.instants.micros(ticket.sent);
        match ticket.kind {
            Kind::Lease { seq, .. } => {
                // Otherwise it was given up before, and another one may be in flight.
                if ledger.in_flight.is_some_and(|in_flight| in_flight.seq == seq) {
                    ledger.in_flight = None;
                    ledger.fail(sent);
                }
            }
            Kind::Take { .. } if ledger.mode == Mode::Leasing => ledger.fail(sent),
            Kind::Take { .. } | Kind::Reset => {}
        }
    }

    fn granted(&self, ledger: &mut Ledger, ticket: &Ticket, grant: Grant, reply: &Reply, now: u64) {
        let Kind::Lease { unspent, wanted, .. } = ticket.kind else { return };
        let validity = validity(grant.length);
        let end = ticket.sent.wrapping_add(self.instants.ticks(validity));
        self.lease().renew(unspent - grant.kept, grant.granted, end, &self.clock);
        let held = self.lease().held(&self.clock);
        let sent = self.instants.micros(ticket.sent);
        (ledger.in_flight, ledger.acked, ledger.is_failing) = (None, grant.seq, false);
        ledger.count_spent(unspent.saturating_add(grant.granted), held, now);
        (ledger.end, ledger.length) = (sent.saturating_add(validity), grant.length);
        ledger.round_trip = now.saturating_sub(sent);
        let missing = wanted - grant.granted;
        ledger.ask_from = sent.saturating_add(self.plan.pace(missing, grant.length, self.jitter(grant.seq)));
        if held == 0 && wanted > 0 {
            // In debt there is nothing to grant before this.
            ledger.ask_from = ledger.ask_from.max(now.saturating_add(self.wait(1, reply).unwrap_or(NEVER_FILLED)));
        }
        ledger.low = ledger.low_of(&self.plan, held, now);
        let low = if ledger.mode == Mode::Leasing { ledger.low } else { 0 };
        // ORDERING: Relaxed, as in `Subject::check`.
        self.low.store(low, Ordering::Relaxed);
        self.gate.reopen();
    }

    fn taken(&self, cost: u32, reply: &Reply, now: u64) -> Outcome {
        if reply.status == Status::Done {
            // ORDERING: Relaxed, as in `Subject::allowed`.
            let remaining = self.elsewhere.load(Ordering::Relaxed);
            let resets_in = self.full_at.load(Ordering::Relaxed).saturating_sub(self.clock.now());
            return Outcome::Allowed(allowed_on(&self.clock, remaining, resets_in));
        }
        let wait = self.wait(cost, reply);
        // A gate for smaller costs denies this one too.
        if self.gate.wait(cost, now).is_none() {
            self.gate.close(cost, now, wait.unwrap_or(NEVER_FILLED));
        }
        Outcome::Denied(self.denied(cost, wait.map(|wait| wait.max(1))))
    }

    /// How long after the reply each limit has `n` tokens, in µs; `None` if one of them never has.
    fn wait(&self, n: u32, reply: &Reply) -> Option<u64> {
        let limits = self.plan.terms().iter().zip(&reply.levels);
        limits
            .map(|(terms, level)| level.retry_after(terms, n, reply.now).map(micros))
            .try_fold(0, |longest, wait| wait.map(|wait| wait.max(longest)))
    }

    /// Remembers the levels of a reply, for the next command and for what answers say.
    fn see(&self, ledger: &mut Ledger, reply: &Reply, now: u64) {
        ledger.see(&reply.levels, reply.now);
        let limits = || self.plan.terms().iter().zip(&reply.levels);
        let remaining = limits().map(|(terms, level)| level.remaining(terms)).min();
        let resets_in = limits().map(|(terms, level)| level.resets_in(terms, reply.now).map_or(u64::MAX, micros)).max();
        let full_at = now.saturating_add(resets_in.unwrap_or(0));
        // ORDERING: Relaxed, as in `Subject::allowed`.
        self.elsewhere.store(remaining.unwrap_or(0), Ordering::Relaxed);
        self.full_at.store(self.instants.ticks(full_at), Ordering::Relaxed);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
