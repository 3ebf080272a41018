//! One subject (a limit, or several that are decided together) as a process knows it.
//!
//! A subject is a state machine without I/O. It says which command to send to the server. The caller sends the command
//! and reports its outcome. Any number of threads may use one [`Subject`]. It knows:
//!
//! - the tokens that the server has leased to this process
//! - how fast this process uses tokens
//! - the last known state of the limits on the server
//!
//! A check that finds leased tokens takes them by one compare-and-swap, without a lock. If the server said for how long
//! the limit has too few tokens, checks are denied during this time, also without a lock. Everything else takes the
//! subject's lock for a short time. While the lock is held, nothing is allocated except commands.
//!
//! # The caller's part
//!
//! ```text
//! loop {
//!     match subject.check(n) {
//!         Answer::Allowed(allowed) => return Ok(allowed),
//!         Answer::Low(allowed)     => { if let Some(dispatch) = subject.ask_ahead() { send(dispatch) }; return Ok(allowed) }
//!         Answer::Taken(allowed)   => return Ok(allowed),
//!         Answer::Denied(denied)   => return Err(denied),
//!         Answer::Ask(dispatch)    => send(dispatch), and wait for the outcome: Allowed, Denied, or Again: check once more
//!         Answer::Join             => if subject.join(n), wait until the command in flight has an outcome; then check once more
//!         Answer::Down             => decide by the policy for a server that is gone
//!     }                            // a waiting check gives up at its deadline, and the policy decides it
//! }
//! ```
//!
//! - `send` passes `dispatch.command()` to the server in a task of its own, so that a cancelled caller does not cancel
//!   the command. The task reports the outcome to exactly one of [`Subject::replied`], [`Subject::lost`],
//!   [`Subject::undeliverable`], [`Subject::cancelled`] and [`Subject::unsent`]. Then it wakes the checks that wait by [`Subject::join`].
//! - Each subject with work to do has a second task. This one calls [`Subject::due`] after each outcome, and at each
//!   time that [`NextStep::At`] names. It ends when `due` returns [`NextStep::Nothing`]. The caller starts it again
//!   with the next command. It starts or wakes it when [`Subject::charge`] or [`Subject::refund`] returns another step
//!   than `Nothing`.
//!
//! # Leases
//!
//! A process may spend leased tokens until 7/8 of the lease have passed on its own clock. The time counts from when the
//! process sent its request. The server counts the lease from when the request arrived, so the process always stops
//! first. The tokens and the time at which they expire are in one word: `ExpiringLease` of damper-core
//! (`limit/expiring_lease.rs`). Requests and replies are numbered, and a late reply changes nothing.
//!
//! # Other callers of the same limit
//!
//! A process that floods a limit takes tokens away from the others, as in any shared bucket. A limit for each client
//! prevents that. With leases the others lose less, because such a process asks for tokens about 50 times a second
//! instead of once for each check.
//!
//! `tests/day.rs` simulates a day of a limit with 20 tokens a second and a burst of 200. The limit is used by four
//! ordinary processes, and by a batch job that at times asks for five times the limit. While the job runs, 40 % of the
//! ordinary checks are denied. Without leases, when the server decides each check, 86 % are denied. While the job does
//! not run, fewer than one check in a thousand is denied.
//!
//! Busy processes share the tokens that may be leased. Each holds at most nine tenths of those that the others do not
//! hold. While most of these tokens are leased, a process holds no more than it spends until its next request. If each
//! process took all it could get, the first ones would renew their leases for ever, and the others would get nothing.
//! (Without this bound, two of four processes with equal demand got everything.)
//!
//! `tests/promises.rs` simulates three processes that each ask for a tenth of the limit, beside one that asks for five
//! times the limit. The three get four fifths of their demand. They get all of it if the burst is what the rate brings
//! in a second.

// | file | idea |
// |---|---|
// | this one | `Subject`: the state machine, and its fast path |
// | `outcomes` | what a subject learns from a reply, and from the loss of a command |
// | `plan` | `Plan`: the settings that all subjects of a limiter share; when to lease, how much and how often |
// | `ledger` | `Ledger`: the state under the lock; `Bookings`: charges and refunds that the server does not know yet |
// | `dispatch` | `Dispatch`: a command to send, and its ticket; `Answer`, `Outcome`, `NextStep` |
// | `command_budget` | `CommandBudget`: how many commands a leasing process may send |
// | `joint_tokens` | `JointTokens`: tokens that the server took for waiting checks |
// | `gate` | `Gate`: until when this process denies checks without asking the server |
// | `own_rate` | `OwnRate`: how fast this process uses the limit |

mod command_budget;
mod dispatch;
mod gate;
mod joint_tokens;
mod ledger;
mod outcomes;
mod own_rate;
mod plan;
#[cfg(test)]
mod tests;

pub use dispatch::{Answer, Dispatch, NextStep, Outcome};
pub use plan::Plan;

use self::dispatch::{CommandKind, Ticket};
use self::gate::Gate;
use self::ledger::{Ledger, Mode, OpenCommand};
use self::plan::{IDLE, validity};
use crate::micros::TickScale;
use crate::script::{Command, LeaseRequest, Take};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use damper_core::internal::{AnswerTicks, ExpiringLease, Spent, denied_on};
use damper_core::{Allowed, Clock, Denied};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One limit, or several that are decided together, as one process knows them.
///
/// The docs of the module describe the caller's part.
///
/// # Memory ordering
///
/// The subject's lock synchronizes the threads that use it. A thread that spends leased tokens takes no lock. It reads
/// the clock only after these tokens were granted.
#[derive(Debug)]
pub struct Subject<C> {
    lease: ExpiringLease,
    /// The number of leased tokens left at which more are requested; 0 while no request can be sent.
    low: AtomicU32,
    /// The tokens left on the server, as of the last reply.
    ///
    /// A take that is sent while leasing is subtracted at once. If there are several limits, the one with the fewest
    /// tokens counts. Before the first reply all limits count as full.
    elsewhere: AtomicU32,
    /// The tick at which all buckets on the server are full, as of the last reply.
    full_at: AtomicU64,
    /// The debt of each bucket on the server, as of the last reply.
    ///
    /// It is the time at which the debt is repaid, in µs of the clock. Leased tokens count as used. The debt of a limit
    /// that never refills is in tokens.
    debts: Box<[AtomicU64]>,
    gate: Gate,
    clock: C,
    scale: TickScale,
    answer_ticks: AnswerTicks,
    plan: Arc<Plan>,
    /// The seed of the jitter between requests.
    seed: u64,
    ledger: Mutex<Ledger>,
}

/// Whether the lease needs more tokens after a spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// The lease needs no more tokens yet.
    Enough,
    /// So few tokens are left that [`Subject::ask_ahead`] may have a command to send.
    Low,
}

/// The tokens that a subject holds at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Whether this process decides by leased tokens.
    pub is_leasing: bool,
    /// The leased tokens that can be spent now.
    pub tokens: u32,
    /// The tokens per second that this process uses, roughly.
    pub own_rate: u64,
}

impl<C: Clock> Subject<C> {
    /// Creates a subject that knows nothing of the server yet.
    ///
    /// All subjects of a limiter share the plan. `seed` must differ between processes, so that they do not send their
    /// requests at the same times. `new` reads only the frequency of the clock, not the time.
    pub fn new(plan: Arc<Plan>, seed: u64, clock: C) -> Self {
        Self {
            lease: ExpiringLease::new(clock.frequency()),
            low: AtomicU32::new(0),
            elsewhere: AtomicU32::new(plan.largest_cost()),
            full_at: AtomicU64::new(0),
            debts: plan.terms().iter().map(|_| AtomicU64::new(0)).collect(),
            gate: Gate::open(),
            scale: TickScale::of(&clock),
            answer_ticks: AnswerTicks::of(&clock),
            seed,
            ledger: Mutex::new(Ledger::new(&plan)),
            plan,
            clock,
        }
    }

    /// Decides on `n` tokens now, or returns what has to be done first.
    ///
    /// It never waits for the server. It takes no lock in two cases: there are enough leased tokens, or the process
    /// knows that the limit has too few tokens.
    #[inline]
    pub fn check(&self, n: u32) -> Answer {
        match self.spend(n) {
            Some((allowed, Supply::Enough)) => Answer::Allowed(allowed),
            Some((allowed, Supply::Low)) => Answer::Low(allowed),
            None => self.check_without_lease(n),
        }
    }

    /// Takes `n` tokens from the lease if it holds them. This is the fast path of [`check`](Self::check).
    #[inline]
    pub fn spend(&self, n: u32) -> Option<(Allowed, Supply)> {
        let spent = self.lease.spend(n, &self.clock)?;
        // ORDERING: Relaxed. The value is a hint: a thread that reads an older one requests tokens earlier or later.
        let left = if spent.left > self.low.load(Ordering::Relaxed) { Supply::Enough } else { Supply::Low };
        Some((self.allowed(spent), left))
    }

    /// Decides on `n` tokens that the lease does not hold. This is the slow path of [`check`](Self::check).
    #[cold]
    pub fn check_without_lease(&self, n: u32) -> Answer {
        if n == 0 {
            return Answer::Allowed(self.allowed(Spent { left: 0, at: self.clock.now() }));
        }
        if n > self.plan.largest_cost() {
            return Answer::Denied(self.denied(n, Some(0)));
        }
        let now = self.now();
        if let Some(wait) = self.gate.wait(n, now) {
            // The gate's wait is that of the cost that closed it.
            return Answer::Denied(self.denied(n, self.refill_wait(n, now).map(|refill| refill.max(wait))));
        }
        let mut ledger = self.ledger();
        // A reply may have refilled the lease before this thread got the lock.
        if let Some(spent) = self.lease.spend(n, &self.clock) {
            return Answer::Allowed(self.allowed(spent));
        }
        ledger.give_back_ended(now);
        if ledger.joint_tokens.take(n, now) {
            ledger.count_take(n, now);
            return Answer::Taken(self.allowed(Spent { left: 0, at: self.clock.now() }));
        }
        self.give_up_overdue(&mut ledger, now);
        let fits = n <= self.plan.most_held();
        match ledger.mode {
            Mode::PerCheck => {
                let is_busy = ledger.count_check(n, now);
                if !is_busy || !self.plan.leases() || !fits {
                    return Answer::Ask(self.take(&mut ledger, n));
                }
                ledger.begin_to_lease(now);
            }
            Mode::Leasing => ledger.ran_dry |= fits,
        }
        if fits { self.ask_for_more(&mut ledger, n, now) } else { self.ask_for_one(&mut ledger, n, now) }
    }

    /// Asks the server for the tokens of a check that a lease can hold.
    ///
    /// A check should be denied only if the limit is empty, not because the lease is. So while the limit has tokens as
    /// of the last reply, the request for leased tokens goes out before its usual time.
    ///
    /// The lease may be unable to hold the tokens that all waiting checks need. With many processes and a small burst
    /// it brings only two or three. Then a *joint take* is sent instead: one command by which the server takes these
    /// tokens. For joint takes there is a budget of extra commands.
    fn ask_for_more(&self, ledger: &mut Ledger, n: u32, now: u64) -> Answer {
        // ORDERING: Relaxed, because this thread holds the lock, and all stores are made under it.
        let elsewhere = self.elsewhere.load(Ordering::Relaxed);
        let has_tokens = ledger.may_ask_early(n, elsewhere, self.plan.largest_cost() / 8, now);
        if ledger.is_joinable() {
            return Answer::Join;
        }
        let ask_from = ledger.request_from();
        let waiting = ledger.waiting(n);
        // If other processes hold too many of the leasable tokens, a request brings too few for the waiting checks.
        let is_enough = !ledger.is_blocked && waiting <= self.plan.share(ledger.others);
        let is_early = has_tokens && !ledger.is_failing && is_enough && now >= ledger.budget.next_from();
        if now >= ask_from || is_early {
            let target = ledger.target(&self.plan, n, now);
            return Answer::Ask(self.request(ledger, target));
        }
        if ledger.is_failing {
            return Answer::Down;
        }
        let is_extra = now < ledger.budget.next_beside_from();
        if has_tokens && (!is_extra || now >= ledger.budget.next_extra_from()) {
            return Answer::Ask(self.joint_take(ledger, waiting.min(elsewhere).max(n), is_extra, now));
        }
        let held = self.lease.held(&self.clock);
        // After `wait` the limit has tokens again, and the next request can bring them.
        let wait = ask_from.max(ledger.empty_until) - now;
        // `reachable` is the largest cost that may succeed before that. If the limit has tokens, only the budget
        // forbids a command, so a check can only spend leased tokens.
        let reachable = if has_tokens { held } else { held.max(elsewhere) };
        self.gate.close_until(reachable.saturating_add(1), now, wait, ask_from);
        Answer::Denied(self.denied(n, self.refill_wait(n, now).map(|refill| refill.max(wait))))
    }

    /// Asks the server to decide a check of more tokens than a lease can hold.
    fn ask_for_one(&self, ledger: &mut Ledger, n: u32, now: u64) -> Answer {
        if ledger.is_failing && now < ledger.ask_from {
            return Answer::Down;
        }
        let from = ledger.budget.next_beside_from();
        if now < from {
            self.gate.ask_by(from);
            return Answer::Denied(self.denied(n, self.refill_wait(n, now).map(|refill| refill.max(from - now))));
        }
        ledger.count_take(n, now);
        // ORDERING: Relaxed, because this thread holds the lock, and all stores are made under it. So no other store
        // comes between this load and the store.
        let elsewhere = self.elsewhere.load(Ordering::Relaxed);
        self.elsewhere.store(elsewhere.saturating_sub(n), Ordering::Relaxed);
        Answer::Ask(self.take(ledger, n))
    }

    /// Counts a check of `n` tokens that waits after [`Answer::Join`].
    ///
    /// The next command then asks for the tokens of this check too. The caller must already listen for the outcome of
    /// the command in flight. Returns false if none is in flight any more. Then the caller checks again at once.
    #[must_use]
    pub fn join(&self, n: u32) -> bool {
        let mut ledger = self.ledger();
        let is_in_flight = ledger.is_joinable();
        if is_in_flight {
            ledger.joined = ledger.joined.saturating_add(n.into());
        }
        is_in_flight
    }

    /// Returns the request for more leased tokens after [`Answer::Low`], if it is time for one.
    #[cold]
    pub fn ask_ahead(&self) -> Option<Box<Dispatch>> {
        let mut ledger = self.ledger();
        let now = self.now();
        self.give_up_overdue(&mut ledger, now);
        // ORDERING: Relaxed, because `low` is only a hint for `spend`.
        self.low.store(0, Ordering::Relaxed);
        if ledger.mode == Mode::PerCheck || ledger.is_joinable() || now < ledger.request_from() {
            return None;
        }
        let target = ledger.target(&self.plan, 1, now);
        Some(self.request(&mut ledger, target))
    }

    /// Returns the next step that the subject needs even if no check comes.
    ///
    /// The caller then sends a command, calls `due` again later, or does nothing.
    pub fn due(&self) -> NextStep {
        let mut ledger = self.ledger();
        let now = self.now();
        self.give_up_overdue(&mut ledger, now);
        ledger.give_back_ended(now);
        if let Some(OpenCommand { since, .. }) = ledger.in_flight.or(ledger.joint) {
            return self.at(since.saturating_add(self.plan.lease_micros()));
        }
        if let Some(until) = ledger.joint_tokens.until() {
            return self.at(until);
        }
        match ledger.mode {
            Mode::PerCheck if ledger.bookings.is_empty() => NextStep::Nothing,
            Mode::PerCheck => {
                let from = ledger.booked_since.saturating_add(IDLE);
                if now < from { self.at(from) } else { NextStep::Send(self.take(&mut ledger, 0)) }
            }
            Mode::Leasing => self.due_of_lease(&mut ledger, now),
        }
    }

    /// Returns whether [`due`](Self::due) has nothing to do until the next check, charge or refund.
    pub fn is_settled(&self) -> bool {
        let ledger = self.ledger();
        let has_none = ledger.bookings.is_empty() && ledger.joint_tokens.until().is_none();
        ledger.mode == Mode::PerCheck && has_none && !ledger.is_joinable()
    }

    /// Returns the next step while leasing: give the lease back, renew it or wait.
    fn due_of_lease(&self, ledger: &mut Ledger, now: u64) -> NextStep {
        let held = self.lease.held(&self.clock);
        ledger.look(held, now);
        let idle_from = ledger.idle_since.saturating_add(IDLE);
        let is_time = now >= ledger.request_from();
        if is_time && (now >= idle_from || ledger.is_quiet(now)) {
            ledger.stop_leasing();
            return NextStep::Send(self.request(ledger, 0));
        }
        // The lease is renewed before its tokens expire.
        let renew_from = ledger.end.saturating_sub(validity(ledger.length) / 4);
        // The request also carries the charges and refunds not sent yet. They wait for the budget, but not until the
        // limit may have refilled tokens.
        let book_from = if ledger.bookings.is_empty() {
            u64::MAX
        } else {
            ledger.booked_since.saturating_add(IDLE).max(ledger.budget.next_from())
        };
        if now >= book_from || is_time && (held <= ledger.low || now >= renew_from) {
            let target = ledger.target(&self.plan, 1, now);
            return NextStep::Send(self.request(ledger, target));
        }
        // ORDERING: Relaxed, because `low` is only a hint for `spend`.
        self.low.store(if is_time { ledger.low } else { 0 }, Ordering::Relaxed);
        self.at(book_from.min(if is_time { idle_from.min(renew_from) } else { ledger.request_from() }))
    }

    /// Charges tokens that were used without being taken.
    ///
    /// They are taken from the lease if it holds as many. Otherwise the next command carries the charge to the server.
    /// Returns the step that says when to call [`due`](Self::due).
    pub fn charge(&self, tokens: u32) -> NextStep {
        if self.lease.spend(tokens, &self.clock).is_some() {
            return NextStep::Nothing;
        }
        let mut ledger = self.ledger();
        ledger.owe(tokens.into(), self.now());
        self.due_of_bookings(&ledger)
    }

    /// Gives back tokens that were taken and not used.
    ///
    /// They go to the lease, up to the number of tokens that the server counts as leased. The next command carries the
    /// rest to the server. Returns the step that says when to call [`due`](Self::due).
    pub fn refund(&self, tokens: u32) -> NextStep {
        let mut ledger = self.ledger();
        // Without the lock, a request could report the lease's tokens to the server just before this refund. The server
        // would then count fewer tokens as leased than the lease holds.
        let refunded = self.lease.refund(tokens, ledger.counted, &self.clock);
        ledger.looked_at = ledger.looked_at.saturating_add(refunded);
        if refunded == tokens {
            return NextStep::Nothing;
        }
        ledger.give_back((tokens - refunded).into(), self.now());
        self.due_of_bookings(&ledger)
    }

    /// Returns the step to call [`due`](Self::due) when the charges and refunds have to go to the server.
    fn due_of_bookings(&self, ledger: &Ledger) -> NextStep {
        // If the lease needs a step before that, `due` says so.
        self.at(ledger.booked_since.saturating_add(IDLE))
    }

    /// Returns a command that takes nothing and reads the level of each limit.
    pub fn look(&self) -> Box<Dispatch> {
        self.take(&mut self.ledger(), 0)
    }

    /// Returns a command that fills all limits, except for the leased tokens.
    pub fn reset(&self) -> Box<Dispatch> {
        let limits = self.ledger().limits(&self.plan).collect();
        Box::new(Dispatch {
            command: Command::Reset(limits),
            ticket: Ticket { kind: CommandKind::Reset, sent: self.clock.now(), charge: 0, refund: 0 },
        })
    }

    /// Returns the last command of a process, or `None` if there is nothing to tell the server.
    ///
    /// It gives back the lease, and carries the charges and refunds that were not sent yet.
    pub fn retire(&self) -> Option<Box<Dispatch>> {
        let mut ledger = self.ledger();
        ledger.give_back_ended(u64::MAX);
        // No later command can carry them.
        ledger.bookings.repeat_doubtful();
        if ledger.mode == Mode::Leasing {
            ledger.stop_leasing();
            return Some(self.request(&mut ledger, 0));
        }
        if ledger.bookings.is_empty() { None } else { Some(self.take(&mut ledger, 0)) }
    }

    /// Returns the tokens that the process holds now.
    pub fn holdings(&self) -> Holdings {
        let ledger = self.ledger();
        Holdings {
            is_leasing: ledger.mode == Mode::Leasing,
            tokens: self.lease.held(&self.clock),
            own_rate: ledger.own_rate(self.now()),
        }
    }

    /// Makes a command that takes `n` tokens from each limit.
    ///
    /// The command carries the charges and refunds not sent yet.
    fn take(&self, ledger: &mut Ledger, n: u32) -> Box<Dispatch> {
        if ledger.mode == Mode::Leasing {
            ledger.budget.count(self.now());
        }
        self.uncounted_take(ledger, n)
    }

    /// Makes the command of [`take`](Self::take), but does not count it in the budget of commands.
    fn uncounted_take(&self, ledger: &mut Ledger, n: u32) -> Box<Dispatch> {
        let sent = self.clock.now();
        let (charge, refund) = ledger.bookings.send();
        let take = Take { cost: n, charge, refund };
        Box::new(Dispatch {
            command: Command::Take(ledger.limits(&self.plan).map(|limit| (limit, take)).collect()),
            ticket: Ticket { kind: CommandKind::Take { cost: n }, sent, charge, refund },
        })
    }

    /// Makes a joint take: a command that takes `cost` tokens for all waiting checks.
    fn joint_take(&self, ledger: &mut Ledger, cost: u32, is_extra: bool, now: u64) -> Box<Dispatch> {
        // ORDERING: Relaxed, because this thread holds the lock, and all stores are made under it.
        let elsewhere = self.elsewhere.load(Ordering::Relaxed);
        self.elsewhere.store(elsewhere.saturating_sub(cost), Ordering::Relaxed);
        if is_extra {
            ledger.budget.count_extra(now);
        } else {
            ledger.budget.count(now);
        }
        let mut dispatch = self.uncounted_take(ledger, cost);
        ledger.joint_seq += 1;
        dispatch.ticket.kind = CommandKind::JointTake { seq: ledger.joint_seq, cost, is_extra };
        ledger.joint = Some(OpenCommand { seq: ledger.joint_seq, since: now });
        (ledger.joined, ledger.unmet) = (0, 0);
        dispatch
    }

    /// Makes a request that fills the lease up to `target` tokens, or gives back the tokens beyond them.
    fn request(&self, ledger: &mut Ledger, target: u32) -> Box<Dispatch> {
        // The clock is read before the request is sent, because the validity of the granted tokens begins at `sent`.
        let sent = self.clock.now();
        let now = self.scale.micros(sent);
        ledger.budget.count(now);
        ledger.look(self.lease.held(&self.clock), now);
        let report = self.lease.report(target, &self.clock);
        // Once the server has the request, it counts no more than `unspent` tokens as leased. So a refund must not
        // raise the lease above this number.
        (ledger.counted, ledger.looked_at) = (report.unspent, report.unspent);
        ledger.seq += 1;
        let wanted = target.saturating_sub(report.unspent);
        ledger.in_flight = Some(OpenCommand { seq: ledger.seq, since: now });
        (ledger.joined, ledger.unmet) = (0, 0);
        ledger.last_target = target;
        ledger.ran_dry = false;
        // ORDERING: Relaxed, because `low` is only a hint for `spend`.
        self.low.store(0, Ordering::Relaxed);
        let (repeated, charged_since) = ledger.send_repeated(self.plan.lease_micros(), now);
        let (charge, refund) = ledger.bookings.send();
        let ask = LeaseRequest {
            seq: ledger.seq,
            ack: ledger.acked,
            unspent: report.unspent,
            back: report.back,
            want: wanted,
            charge: charge.saturating_add(repeated),
            refund,
        };
        // A subject that leases has exactly one limit.
        let command = ledger.limits(&self.plan).next().map(|limit| Command::Lease(limit, ask));
        Box::new(Dispatch {
            command: command.unwrap_or(Command::Take(Vec::new())),
            ticket: Ticket {
                kind: CommandKind::Lease { seq: ledger.seq, unspent: report.unspent, wanted, repeated, charged_since },
                sent,
                charge,
                refund,
            },
        })
    }

    /// Counts a request or a joint take as lost if it has no outcome within the length of a lease.
    fn give_up_overdue(&self, ledger: &mut Ledger, now: u64) {
        if let Some(in_flight) = ledger.in_flight
            && now.saturating_sub(in_flight.since) >= self.plan.lease_micros()
        {
            ledger.in_flight = None;
            ledger.fail(in_flight.since, now);
            ledger.give_up_leasing(now);
        }
        if let Some(OpenCommand { since, .. }) = ledger.joint
            && now.saturating_sub(since) >= self.plan.lease_micros()
        {
            ledger.joint = None;
            ledger.fail(since, now);
        }
    }

    /// Returns the permission of a check that took the tokens `spent`.
    #[inline]
    fn allowed(&self, spent: Spent) -> Allowed {
        // ORDERING: Relaxed for both loads, because the values publish no other data. A value of an earlier reply only
        // makes the answer less recent.
        let elsewhere = self.elsewhere.load(Ordering::Relaxed);
        let resets_in = self.full_at.load(Ordering::Relaxed).saturating_sub(spent.at);
        self.answer_ticks.allowed(spent.left.saturating_add(elsewhere), resets_in)
    }

    /// Returns how many µs after `now` the limits have refilled the tokens of a check of `n`.
    ///
    /// It is computed from the last reply. It is `None` if one of them never refills them. A check that a lease can hold
    /// needs only the tokens that the lease lacks.
    fn refill_wait(&self, n: u32, now: u64) -> Option<u64> {
        let held = if n <= self.plan.most_held() { self.lease.held(&self.clock) } else { 0 };
        // ORDERING: Relaxed, as in `allowed`: the values publish no other data.
        let mut limits =
            self.plan.terms().iter().zip(&self.debts).map(|(terms, debt)| (terms, debt.load(Ordering::Relaxed)));
        limits.try_fold(0, |longest: u64, (terms, debt)| {
            let spare = terms.burst.saturating_sub(n.saturating_sub(held));
            terms.wait_with_debt(debt, spare, now).map(|wait| wait.max(longest))
        })
    }

    /// Returns the refusal of a check of `n` tokens that the limit will have after `wait` µs.
    ///
    /// A wait of 0 means that `n` exceeds the burst. `None` means that the tokens never come.
    fn denied(&self, n: u32, wait: Option<u64>) -> Denied {
        // ORDERING: Relaxed, as in `allowed`: the values publish no other data.
        let remaining = self.elsewhere.load(Ordering::Relaxed).min(n.saturating_sub(1));
        let resets_in = self.full_at.load(Ordering::Relaxed).saturating_sub(self.clock.now());
        let wait = wait.map(|wait| if wait == 0 { 0 } else { self.scale.ticks(wait).max(1) });
        denied_on(&self.clock, remaining, Some(resets_in.max(wait.unwrap_or(0))), wait)
    }

    /// Returns the lease.
    fn lease(&self) -> &ExpiringLease {
        &self.lease
    }

    /// Locks the ledger.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A poisoned lock is used anyway. No code under the lock panics, and even then the lease would hold no more
        // tokens than were granted.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time in µs of the subject's clock.
    fn now(&self) -> u64 {
        self.scale.micros(self.clock.now())
    }

    /// Returns the step to call [`due`](Self::due) again at the time `micros`.
    fn at(&self, micros: u64) -> NextStep {
        // Both conversions (to µs and back to ticks) round down, so a tick is added. Otherwise `due` would come early.
        NextStep::At(self.scale.ticks(micros).saturating_add(1))
    }

    /// Returns a random number for the request with the number `seq`.
    fn jitter(&self, seq: u64) -> u64 {
        // These are the last steps of SplitMix64.
        let mut bits = self.seed.wrapping_add(seq.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
}
