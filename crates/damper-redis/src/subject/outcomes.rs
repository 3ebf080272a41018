//! The outcomes of commands: what a subject learns from replies and losses.

use super::Subject;
use super::dispatch::{CommandKind, Dispatch, Outcome, Ticket};
use super::gate::LONGEST_SILENCE;
use super::ledger::{Ledger, Mode};
use super::plan::validity;
use crate::micros::micros_of;
use crate::script::{Grant, Reply, Status};
use core::sync::atomic::Ordering;
use damper_core::Clock;
use damper_core::internal::allowed_on;

/// How long checks of a limit that never refills are denied without asking the server, in µs.
///
/// After that a check asks the server, because another process may have reset the limit.
const NEVER_FILLED: u64 = 1_000_000;

impl<C: Clock> Subject<C> {
    /// Applies the reply to a command, and returns the outcome for the check that waits for it.
    ///
    /// The reply to a request that the subject has given up is discarded, because the server may have taken its grant back.
    pub fn replied(&self, dispatch: Dispatch, reply: &Reply) -> Outcome {
        let Dispatch { command: _, ticket } = dispatch;
        let mut ledger = self.ledger();
        let now = self.now();
        // Each outcome wakes all joined checks. Those that join again are counted again.
        let joined = core::mem::take(&mut ledger.joined);
        if matches!(reply.status, Status::Late | Status::Stale) {
            self.lose(&mut ledger, &ticket, now);
            return Outcome::Late;
        }
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
            CommandKind::Lease { seq, unspent, wanted } => {
                let is_expected = ledger.in_flight.is_some_and(|in_flight| in_flight.seq == seq);
                match reply.grant {
                    Some(grant) if is_expected && grant.seq == seq => {
                        let (granted, kept) = (grant.granted.min(wanted), grant.kept.min(unspent));
                        let grant =
                            Grant { granted, kept, length: grant.length.min(self.plan.lease_micros()), ..grant };
                        // The sum of the tokens is at most the burst.
                        ledger.counted = kept.saturating_add(granted);
                        self.see(&mut ledger, reply, now);
                        // `see` counts tokens that processes may still hold from before the server lost the limit, and
                        // `grant.leased` does not. So such tokens do not reduce this process's share.
                        ledger.others = (grant.leased as u32).saturating_sub(ledger.counted);
                        self.granted(&mut ledger, &ticket, grant, reply, now);
                        ledger.unmet = joined.saturating_sub(self.lease().held(&self.clock).into());
                    }
                    _ => self.lose(&mut ledger, &ticket, now),
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
    /// Its refund is lost, and its charge goes with the next command. Tokens of a take count as taken.
    pub fn lost(&self, dispatch: Dispatch) {
        let Dispatch { command: _, ticket } = dispatch;
        let mut ledger = self.ledger();
        ledger.joined = 0;
        self.lose(&mut ledger, &ticket, self.now());
    }

    /// Notes that the caller of a check was cancelled before the reply came.
    ///
    /// The command counts as [`lost`](Self::lost). But if it is a take, the server does not count as failing.
    pub fn cancelled(&self, dispatch: Dispatch) {
        if let CommandKind::Take { .. } = dispatch.ticket.kind {
            let mut ledger = self.ledger();
            ledger.joined = 0;
            ledger.owe(dispatch.ticket.charge, self.now());
        } else {
            self.lost(dispatch);
        }
    }

    /// Notes that a command was never sent.
    ///
    /// Its charge and its refund go with the next command, and the server does not count as failing. Leased tokens that the command
    /// was to give back are lost.
    pub fn unsent(&self, dispatch: Dispatch) {
        let Dispatch { command: _, ticket } = dispatch;
        let mut ledger = self.ledger();
        let now = self.now();
        ledger.joined = 0;
        match ticket.kind {
            CommandKind::JointTake { is_extra: true, .. } => ledger.budget.uncount_extra(),
            // The budget counts takes only while leasing.
            CommandKind::Take { .. } if ledger.mode == Mode::PerCheck => {}
            _ => ledger.budget.uncount(),
        }
        ledger.owe(ticket.charge, now);
        ledger.give_back(ticket.refund, now);
        if let CommandKind::Lease { seq, .. } = ticket.kind
            && ledger.in_flight.is_some_and(|in_flight| in_flight.seq == seq)
        {
            ledger.in_flight = None;
        }
        end_joint_take(&mut ledger, &ticket);
    }

    /// Applies the reply to a joint take: keeps its tokens for the waiting checks.
    fn taken_jointly(&self, ledger: &mut Ledger, ticket: &Ticket, cost: u32, status: Status, now: u64) {
        ledger.is_failing = false;
        end_joint_take(ledger, ticket);
        if status == Status::Done {
            let until = self.scale.micros(ticket.sent).saturating_add(self.plan.joint_validity());
            ledger.joint_tokens.put(cost, until);
            ledger.give_back_ended(now);
            self.gate.reopen();
        } else {
            // ORDERING: Relaxed, as in `Subject::allowed`.
            let is_empty = self.elsewhere.load(Ordering::Relaxed) == 0;
            ledger.emptied_at = if is_empty { Some(now) } else { ledger.emptied_at };
        }
    }

    /// Books the charge of a lost command again, and notes the loss if the command was still in flight.
    fn lose(&self, ledger: &mut Ledger, ticket: &Ticket, now: u64) {
        ledger.owe(ticket.charge, now);
        let sent = self.scale.micros(ticket.sent);
        match ticket.kind {
            CommandKind::Lease { seq, .. } => {
                // The subject may have given this request up before, and another one may be in flight by now.
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
            CommandKind::Take { .. } if ledger.mode == Mode::Leasing => ledger.fail(sent, now),
            CommandKind::Take { .. } | CommandKind::Reset => {}
        }
    }

    /// Applies the grant of a request to the lease.
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
            // The limit has no tokens to grant until `empty` has passed.
            ledger.ask_from = ledger.ask_from.max(now.saturating_add(empty.min(LONGEST_SILENCE)));
        }
        ledger.low = ledger.low_of(&self.plan, held, now);
        if wanted > 0 && now >= ledger.end {
            ledger.give_up_leasing(now);
        }
        let low = if ledger.mode == Mode::Leasing { ledger.low } else { 0 };
        // ORDERING: Relaxed, as in `Subject::check`.
        self.low.store(low, Ordering::Relaxed);
        if self.gate.cost() <= self.plan.most_held() {
            self.gate.reopen();
        } else {
            self.reopen_earlier(reply, now);
        }
    }

    /// Opens the gate earlier if this reply shows that tokens were given back since the gate was closed.
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

    /// Returns the outcome of a take, and closes the gate if it was denied.
    fn taken(&self, cost: u32, reply: &Reply, now: u64) -> Outcome {
        if reply.status == Status::Done {
            // ORDERING: Relaxed, as in `Subject::allowed`.
            let remaining = self.elsewhere.load(Ordering::Relaxed);
            let resets_in = self.full_at.load(Ordering::Relaxed).saturating_sub(self.clock.now());
            return Outcome::Allowed(allowed_on(&self.clock, remaining, resets_in));
        }
        let wait = self.wait(cost, reply);
        // A gate that is closed for a smaller cost denies this cost too, so it stays as it is.
        if self.gate.closed_for(cost, now).is_none() {
            self.gate.close(cost, now, wait.unwrap_or(NEVER_FILLED));
        }
        Outcome::Denied(self.denied(cost, wait.map(|wait| wait.max(1))))
    }

    /// Returns how long after the reply all limits have `n` tokens, in µs; `None` if one of them never will.
    fn wait(&self, n: u32, reply: &Reply) -> Option<u64> {
        let limits = self.plan.terms().iter().zip(&reply.levels);
        limits
            .map(|(terms, level)| level.retry_after(terms, n, reply.now).map(micros_of))
            .try_fold(0, |longest, wait| wait.map(|wait| wait.max(longest)))
    }

    /// Remembers the levels of a reply, for the next command and for the numbers in answers.
    fn see(&self, ledger: &mut Ledger, reply: &Reply, now: u64) {
        ledger.see(&reply.levels, reply.now);
        let limits = || self.plan.terms().iter().zip(&reply.levels);
        let remaining = limits().map(|(terms, level)| level.remaining(terms)).min();
        let resets_in =
            limits().map(|(terms, level)| level.resets_in(terms, reply.now).map_or(u64::MAX, micros_of)).max();
        let full_at = now.saturating_add(resets_in.unwrap_or(0));
        // ORDERING: Relaxed, as in `Subject::allowed`.
        self.elsewhere.store(remaining.unwrap_or(0), Ordering::Relaxed);
        self.full_at.store(self.scale.ticks(full_at), Ordering::Relaxed);
    }
}

/// Ends a joint take. Returns false if the subject has given it up before.
fn end_joint_take(ledger: &mut Ledger, ticket: &Ticket) -> bool {
    let CommandKind::JointTake { seq, .. } = ticket.kind else { return false };
    ledger.joint.take_if(|joint| joint.seq == seq).is_some()
}
