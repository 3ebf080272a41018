//! The effects on a subject of replies to its commands, and of lost commands.

use super::Subject;
use super::dispatch::{CommandKind, Dispatch, Outcome, Ticket};
use super::gate::LONGEST_SILENCE;
use super::ledger::{Ledger, Mode};
use super::plan::{PACE, validity};
use crate::micros::micros_of;
use crate::script::{Grant, Reply, Status};
use core::sync::atomic::Ordering;
use damper_core::Clock;
use damper_core::internal::allowed_on;

/// How long checks of a limit that never refills are denied without asking the server, in µs.
///
/// Their refusal says that the tokens never come.
///
/// After that a check asks the server, because another process may have reset the limit.
const NEVER_FILLED: u64 = 1_000_000;

impl<C: Clock> Subject<C> {
    /// Applies the reply to a command, and returns the outcome for the check that waits for it.
    ///
    /// The subject may have given up a request before its reply comes. Such a reply is discarded, because the server
    /// may have taken its grant back.
    pub fn replied(&self, dispatch: Dispatch, reply: &Reply) -> Outcome {
        let Dispatch { command: _, ticket } = dispatch;
        let mut ledger = self.ledger();
        let now = self.now();
        // Each outcome wakes all checks that wait by `join`. Those that wait again call `join` again.
        let joined = core::mem::take(&mut ledger.joined);
        if matches!(reply.status, Status::Late | Status::Stale) {
            // The command had no effect, so its charge is not booked. An earlier copy of the command may have had one, so its
            // refund is lost.
            book_unexecuted(&mut ledger, &ticket, now);
            self.lose(&mut ledger, &ticket, now);
            return Outcome::Late;
        }
        ledger.bookings.repeat_doubtful();
        match ticket.kind {
            CommandKind::Take { cost } => {
                self.see(&mut ledger, reply, now);
                ledger.is_failing = false;
                self.reopen_earlier(reply, now);
                if reply.status == Status::Denied && self.elsewhere.load(Ordering::Relaxed) == 0 {
                    ledger.emptied_at = Some(now);
                }
                self.taken(cost, reply, now)
            }
            CommandKind::JointTake { cost, .. } => {
                self.see(&mut ledger, reply, now);
                self.taken_jointly(&mut ledger, &ticket, cost, reply.status, now);
                ledger.unmet = joined.saturating_sub(if reply.status == Status::Done { cost.into() } else { 0 });
                Outcome::Again
            }
            CommandKind::Lease { seq, unspent, wanted, .. } => {
                let is_expected = ledger.in_flight.is_some_and(|in_flight| in_flight.seq == seq);
                match reply.grant {
                    Some(grant) if is_expected && grant.seq == seq => {
                        let (granted, kept) = (grant.granted.min(wanted), grant.kept.min(unspent));
                        let grant =
                            Grant { granted, kept, length: grant.length.min(self.plan.lease_micros()), ..grant };
                        // The server leases at most the burst, so the sum does not saturate.
                        ledger.counted = kept.saturating_add(granted);
                        self.see(&mut ledger, reply, now);
                        // `see` also counts tokens that processes may hold from before the server lost the limit. They
                        // must not reduce this process's share. So `others` is set again from `grant.leased`, which
                        // leaves them out.
                        ledger.others = (grant.leased as u32).saturating_sub(ledger.counted);
                        self.granted(&mut ledger, &ticket, grant, reply, now);
                        ledger.unmet = joined.saturating_sub(self.lease().held(&self.clock).into());
                    }
                    _ => {
                        book_again(&mut ledger, &ticket, now);
                        self.lose(&mut ledger, &ticket, now);
                    }
                }
                Outcome::Again
            }
            CommandKind::Reset => {
                self.see(&mut ledger, reply, now);
                self.gate.reopen();
                (ledger.ask_from, ledger.empty_until, ledger.emptied_at) = (ledger.ask_from.min(now), 0, None);
                Outcome::Again
            }
        }
    }

    /// Notes that a command got no reply.
    ///
    /// Its refund is lost. The server may have booked its charge, so that is booked again only after another command has
    /// got a reply. Tokens that it was to take count as taken.
    pub fn lost(&self, dispatch: Dispatch) {
        let Dispatch { command: _, ticket } = dispatch;
        let mut ledger = self.ledger();
        let now = self.now();
        ledger.joined = 0;
        book_again(&mut ledger, &ticket, now);
        self.lose(&mut ledger, &ticket, now);
    }

    /// Notes that a command could not be sent because the server cannot be reached.
    ///
    /// It counts as [`lost`](Self::lost). But the server cannot have booked its charge or its refund, so the next command
    /// carries them.
    pub fn undeliverable(&self, dispatch: Dispatch) {
        let Dispatch { command: _, ticket } = dispatch;
        let mut ledger = self.ledger();
        let now = self.now();
        ledger.joined = 0;
        book_unexecuted(&mut ledger, &ticket, now);
        ledger.give_back(ticket.refund, now);
        self.lose(&mut ledger, &ticket, now);
    }

    /// Notes that the caller of a check was cancelled before the reply came.
    ///
    /// If the command is a take for one check, its charge and its refund are treated as those of a
    /// [`lost`](Self::lost) command, but the server does not count as failing. Any other command counts as lost.
    pub fn cancelled(&self, dispatch: Dispatch) {
        if let CommandKind::Take { .. } = dispatch.ticket.kind {
            let mut ledger = self.ledger();
            let now = self.now();
            ledger.joined = 0;
            book_again(&mut ledger, &dispatch.ticket, now);
            self.ask_again(now);
        } else {
            self.lost(dispatch);
        }
    }

    /// Notes that a command was never sent.
    ///
    /// Its charge and its refund go with the next command. The server does not count as failing. If the command was to
    /// give back leased tokens, they are lost.
    pub fn unsent(&self, dispatch: Dispatch) {
        let Dispatch { command: _, ticket } = dispatch;
        let mut ledger = self.ledger();
        let now = self.now();
        ledger.joined = 0;
        if let CommandKind::Take { .. } = ticket.kind {
            self.ask_again(now);
        }
        match ticket.kind {
            CommandKind::JointTake { is_extra: true, .. } => ledger.budget.uncount_extra(),
            // Only takes that are made while leasing are counted in the budget.
            CommandKind::Take { .. } if ledger.mode == Mode::PerCheck => {}
            _ => ledger.budget.uncount(),
        }
        book_unexecuted(&mut ledger, &ticket, now);
        ledger.give_back(ticket.refund, now);
        if let CommandKind::Lease { seq, .. } = ticket.kind
            && ledger.in_flight.is_some_and(|in_flight| in_flight.seq == seq)
        {
            ledger.in_flight = None;
        }
        end_joint_take(&mut ledger, &ticket);
    }

    /// Applies the reply to a joint take: keeps its tokens for the waiting checks if the server took any.
    fn taken_jointly(&self, ledger: &mut Ledger, ticket: &Ticket, cost: u32, status: Status, now: u64) {
        ledger.is_failing = false;
        end_joint_take(ledger, ticket);
        if status == Status::Done {
            let until = self.scale.micros(ticket.sent).saturating_add(self.plan.joint_validity());
            ledger.joint_tokens.put(cost, until);
            ledger.give_back_ended(now);
            self.gate.reopen();
        } else {
            // ORDERING: Relaxed, because this thread holds the lock, and all stores are made under it.
            let is_empty = self.elsewhere.load(Ordering::Relaxed) == 0;
            ledger.emptied_at = if is_empty { Some(now) } else { ledger.emptied_at };
        }
    }

    /// Lets another check ask the server soon, because a take for one check has no reply.
    ///
    /// That check may be the one that passed the closed gate.
    fn ask_again(&self, now: u64) {
        self.gate.ask_by(now.saturating_add(PACE));
    }

    /// Ends a command without a reply that applies.
    ///
    /// The server then counts as failing if the command is one of these:
    ///
    /// - a request for leased tokens or a joint take that was still in flight
    /// - a take for one check, while leasing
    fn lose(&self, ledger: &mut Ledger, ticket: &Ticket, now: u64) {
        let sent = self.scale.micros(ticket.sent);
        match ticket.kind {
            CommandKind::Lease { seq, .. } => {
                // The subject may have given this request up, and another one may be in flight by now.
                if ledger.in_flight.is_some_and(|in_flight| in_flight.seq == seq) {
                    ledger.in_flight = None;
                    ledger.fail(sent, now);
                }
            }
            CommandKind::JointTake { .. } => {
                if end_joint_take(ledger, ticket) {
                    ledger.fail(sent, now);
                }
            }
            CommandKind::Take { .. } => {
                self.ask_again(now);
                if ledger.mode == Mode::Leasing {
                    ledger.fail(sent, now);
                }
            }
            CommandKind::Reset => {}
        }
    }

    /// Applies the reply to a request for leased tokens: renews the lease.
    fn granted(&self, ledger: &mut Ledger, ticket: &Ticket, grant: Grant, reply: &Reply, now: u64) {
        let CommandKind::Lease { unspent, wanted, .. } = ticket.kind else { return };
        let validity = validity(grant.length);
        let end = ticket.sent.wrapping_add(self.scale.ticks(validity));
        self.lease().renew(unspent - grant.kept, grant.granted, end, &self.clock);
        let held = self.lease().held(&self.clock);
        let sent = self.scale.micros(ticket.sent);
        (ledger.in_flight, ledger.acked, ledger.is_failing) = (None, grant.seq, false);
        ledger.count_spent(unspent.saturating_add(grant.granted), held, now);
        (ledger.end, ledger.length) = (sent.saturating_add(validity), grant.length);
        ledger.round_trip = now.saturating_sub(sent);
        let missing = wanted - grant.granted;
        ledger.ask_from = sent.saturating_add(self.plan.pace(missing, grant.length, self.jitter(grant.seq)));
        let empty = self.wait(1, reply).unwrap_or(u64::MAX);
        (ledger.empty_until, ledger.is_blocked) = (now.saturating_add(empty), missing > 0 && empty == 0);
        if missing > 0 && empty > 0 {
            ledger.emptied_at = Some(now);
        }
        if held == 0 && wanted > 0 {
            // The limit has no tokens to grant until `empty` has passed, so an earlier request would bring none.
            ledger.ask_from = ledger.ask_from.max(now.saturating_add(empty.min(LONGEST_SILENCE)));
        }
        ledger.low = ledger.low_of(&self.plan, held, now);
        if wanted > 0 && now >= ledger.end {
            ledger.give_up_leasing(now);
        }
        let low = if ledger.mode == Mode::Leasing { ledger.low } else { 0 };
        // ORDERING: Relaxed, because `low` is only a hint for `Subject::spend`.
        self.low.store(low, Ordering::Relaxed);
        if self.gate.cost() <= self.plan.most_held() {
            self.gate.reopen();
        } else {
            self.reopen_earlier(reply, now);
        }
    }

    /// Opens the gate earlier if the reply shows that tokens were given back since the gate was closed.
    ///
    /// The gate denies checks without asking the server.
    fn reopen_earlier(&self, reply: &Reply, now: u64) {
        let cost = self.gate.cost();
        if let Some(wait) = self.gate.closed_for(cost, now) {
            match self.wait(cost, reply) {
                Some(0) => self.gate.reopen(),
                Some(earlier) if earlier < wait => self.gate.close(cost, now, earlier),
                _ => {}
            }
        }
    }

    /// Returns the outcome of a take for one check.
    ///
    /// If the take was denied, the gate denies later checks of this cost without asking the server.
    fn taken(&self, cost: u32, reply: &Reply, now: u64) -> Outcome {
        if reply.status == Status::Done {
            // ORDERING: Relaxed, because this thread holds the lock, and all stores are made under it.
            let remaining = self.elsewhere.load(Ordering::Relaxed);
            let resets_in = self.full_at.load(Ordering::Relaxed).saturating_sub(self.clock.now());
            return Outcome::Allowed(allowed_on(&self.clock, remaining, resets_in));
        }
        let wait = self.wait(cost, reply);
        // If the gate is closed already for this cost or a smaller one, it stays as it is.
        if self.gate.closed_for(cost, now).is_none() {
            self.gate.close(cost, now, wait.unwrap_or(NEVER_FILLED));
        }
        Outcome::Denied(self.denied(cost, wait.map(|wait| wait.max(1))))
    }

    /// Returns how long after the reply all limits have `n` tokens, in µs.
    ///
    /// It is `None` if one of the limits never has them.
    fn wait(&self, n: u32, reply: &Reply) -> Option<u64> {
        let limits = self.plan.terms().iter().zip(&reply.levels);
        limits
            .map(|(terms, level)| level.retry_after(terms, n, reply.now).map(micros_of))
            .try_fold(0, |longest, wait| wait.map(|wait| wait.max(longest)))
    }

    /// Remembers the levels in a reply. Later commands and answers use them.
    fn see(&self, ledger: &mut Ledger, reply: &Reply, now: u64) {
        ledger.see(&reply.levels, reply.now);
        let limits = || self.plan.terms().iter().zip(&reply.levels);
        let remaining = limits().map(|(terms, level)| level.remaining(terms)).min();
        let resets_in =
            limits().map(|(terms, level)| level.resets_in(terms, reply.now).map_or(u64::MAX, micros_of)).max();
        let full_at = now.saturating_add(resets_in.unwrap_or(0));
        // ORDERING: Relaxed, because the values publish no other data. Loads without the lock may see older values.
        self.elsewhere.store(remaining.unwrap_or(0), Ordering::Relaxed);
        self.full_at.store(self.scale.ticks(full_at), Ordering::Relaxed);
        for (debt, (terms, level)) in self.debts.iter().zip(limits()) {
            let repaid_in = || level.retry_after(terms, terms.burst, reply.now).map_or(u64::MAX, micros_of);
            let value = if terms.rate.tokens() == 0 { level.owed } else { now.saturating_add(repaid_in()) };
            debt.store(value, Ordering::Relaxed);
        }
    }
}

/// Books the charge of a command again that the server may have executed.
fn book_again(ledger: &mut Ledger, ticket: &Ticket, now: u64) {
    match ticket.kind {
        CommandKind::Lease { repeated, charged_since, .. } => {
            ledger.repeat(ticket.charge.saturating_add(repeated), charged_since, now);
        }
        _ => ledger.doubt(ticket.charge, now),
    }
}

/// Books the charge of a command again that the server has not executed.
///
/// It may have executed the lost requests whose charges a request repeats.
fn book_unexecuted(ledger: &mut Ledger, ticket: &Ticket, now: u64) {
    ledger.owe(ticket.charge, now);
    if let CommandKind::Lease { repeated, charged_since, .. } = ticket.kind {
        ledger.repeat(repeated, charged_since, now);
    }
}

/// Ends the joint take in flight if `ticket` belongs to it, and returns whether it does.
fn end_joint_take(ledger: &mut Ledger, ticket: &Ticket) -> bool {
    let CommandKind::JointTake { seq, .. } = ticket.kind else { return false };
    ledger.joint.take_if(|joint| joint.seq == seq).is_some()
}
