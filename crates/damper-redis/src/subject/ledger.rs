//! The part of a subject that is under its lock.

use super::command_budget::CommandBudget;
use super::joint_tokens::JointTokens;
use super::own_rate::OwnRate;
use super::plan::{BUSY, PACE, Plan, QUIET};
use crate::script::{Level, Limit, Sighting};

/// A limit that was empty counts as used up for so many µs.
const USED_UP: u64 = 1_000_000;

/// Early requests go out at most so many times a second.
///
/// Each is for no less than this process spends in that time.
const EARLY: u64 = 200;

/// For so many µs no lease is tried after a reply that came too late for one.
const TOO_SLOW: u64 = 5_000_000;

/// The side that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The server, every check.
    PerCheck,
    /// This process, from its lease.
    Leasing,
}

/// A request or a joint take that has no outcome yet. Times are in µs of the subject's clock.
///
/// It is known by its number, because two readings of a clock for one event may differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCommand {
    pub(super) seq: u64,
    pub(super) since: u64,
}

/// All but the lease's word, the gate and what the fast path reads.
///
/// Times are in µs of the subject's clock.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) mode: Mode,
    /// The number of the last request, and of the last one whose response was applied.
    pub(super) seq: u64,
    pub(super) acked: u64,
    pub(super) in_flight: Option<OpenCommand>,
    /// The most tokens that a refund may fill the lease up to: no more than the server counts as held.
    pub(super) counted: u32,
    /// The tokens that other processes held as of the last reply.
    pub(super) others: u32,
    /// The end of the lease.
    pub(super) end: u64,
    /// The length that the last lease had: shorter after the server lost the limit.
    pub(super) length: u64,
    /// The earliest time of the next command while leasing.
    pub(super) ask_from: u64,
    /// The commands that may be sent while leasing.
    pub(super) budget: CommandBudget,
    /// Before this time the bucket is empty, as of the last reply to a request.
    pub(super) empty_until: u64,
    /// The last time at which a reply showed that the bucket had too few tokens.
    pub(super) emptied_at: Option<u64>,
    /// Whether the last request brought too few tokens although the bucket had more.
    ///
    /// Then others have leased what may be leased.
    pub(super) is_blocked: bool,
    /// Before this time no lease is tried.
    ///
    /// A reply came so late that the tokens which it brought had ended.
    pub(super) slow_until: u64,
    /// The number of the last joint take.
    pub(super) joint_seq: u64,
    pub(super) joint: Option<OpenCommand>,
    pub(super) joint_tokens: JointTokens,
    /// The tokens of the checks that wait for the request or the joint take in flight.
    pub(super) joined: u64,
    /// The tokens of the checks that waited for the last of these, beyond those that it brought.
    pub(super) unmet: u64,
    /// Whether the last command was lost.
    pub(super) is_failing: bool,
    /// Whether a check found too few tokens since the last request.
    pub(super) ran_dry: bool,
    /// The tokens that the last request was to fill the lease up to.
    pub(super) last_target: u32,
    /// With so many tokens left it is time for a request.
    pub(super) low: u32,
    /// How long the last request took, in µs.
    pub(super) round_trip: u64,
    /// The tokens in the lease when it was last looked at, with refunds since.
    pub(super) looked_at: u32,
    /// Since when, as far as was looked, nothing was spent.
    pub(super) idle_since: u64,
    pub(super) bookings: Bookings,
    /// Since when something is pending.
    pub(super) booked_since: u64,
    /// Tokens a second, and checks a second.
    tokens: OwnRate,
    checks: OwnRate,
    /// The tokens of an average check when the subject began to lease, at least 1.
    usual_cost: u64,
    seen: Box<[Sighting]>,
}

impl Ledger {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            mode: Mode::PerCheck,
            seq: 0,
            acked: 0,
            in_flight: None,
            counted: 0,
            others: 0,
            end: 0,
            length: plan.lease_micros(),
            ask_from: 0,
            budget: CommandBudget::default(),
            empty_until: 0,
            emptied_at: None,
            is_blocked: false,
            slow_until: 0,
            joint_seq: 0,
            joint: None,
            joint_tokens: JointTokens::default(),
            joined: 0,
            unmet: 0,
            is_failing: false,
            ran_dry: false,
            last_target: 0,
            low: 0,
            round_trip: 0,
            looked_at: 0,
            idle_since: 0,
            bookings: Bookings::default(),
            booked_since: 0,
            tokens: OwnRate::default(),
            checks: OwnRate::default(),
            usual_cost: 1,
            seen: plan.terms().iter().map(|_| Sighting::default()).collect(),
        }
    }

    /// Counts a check that the server decides, and returns whether to lease.
    ///
    /// There are enough checks, and the server is fast enough.
    pub(super) fn count_check(&mut self, n: u32, now: u64) -> bool {
        self.tokens.count(n.into(), now);
        self.checks.count(1, now);
        self.checks.at(now) >= BUSY && now >= self.slow_until
    }

    pub(super) fn begin_to_lease(&mut self, now: u64) {
        self.mode = Mode::Leasing;
        self.usual_cost = (self.tokens.at(now) / self.checks.at(now).max(1)).max(1);
        (self.ran_dry, self.last_target, self.idle_since) = (false, 0, now);
    }

    pub(super) fn stop_leasing(&mut self) {
        self.mode = Mode::PerCheck;
        self.checks = OwnRate::default();
    }

    /// Lets the server decide each check for a while, because its replies come too late for leases.
    pub(super) fn give_up_leasing(&mut self, now: u64) {
        self.stop_leasing();
        self.slow_until = now.saturating_add(TOO_SLOW);
    }

    /// The earliest time of the next request.
    pub(super) fn request_from(&self) -> u64 {
        self.ask_from.max(self.budget.next_from())
    }

    /// Whether so few tokens are used that they are not worth a lease.
    pub(super) fn is_quiet(&self, now: u64) -> bool {
        !self.ran_dry && self.tokens.at(now) < QUIET * self.usual_cost
    }

    /// Notes what the lease holds, and counts what was spent since the last look.
    pub(super) fn look(&mut self, held: u32, now: u64) {
        let spent = self.looked_at.saturating_sub(held);
        if spent > 0 || self.ran_dry {
            self.idle_since = now;
        }
        self.tokens.count(spent.into(), now);
        self.looked_at = held;
    }

    /// How many tokens the lease is to hold after the next request.
    ///
    /// As many as the own rate needs, and for the checks that wait. A lease that ran dry says little of that rate, so then twice as
    /// many as the last time. At most this process's share of what may be leased.
    pub(super) fn target(&self, plan: &Plan, n: u32, now: u64) -> u32 {
        let leased = self.others.saturating_add(self.counted);
        let target = plan.target(self.tokens.at(now).max(8 * self.usual_cost), leased, self.others, self.length);
        let doubled = if self.ran_dry { self.last_target.saturating_mul(2) } else { 0 };
        target.max(doubled).max(self.waiting(n)).min(plan.share(self.others)).max(n).min(plan.most_held())
    }

    /// The tokens of the checks that wait, of which one may ask for `n`.
    pub(super) fn waiting(&self, n: u32) -> u32 {
        u32::try_from(self.unmet).unwrap_or(u32::MAX).max(n)
    }

    /// Whether checks wait for an outcome.
    pub(super) fn is_joinable(&self) -> bool {
        self.in_flight.is_some() || self.joint.is_some()
    }

    /// Gives back what the checks that waited did not take in time.
    pub(super) fn give_back_ended(&mut self, now: u64) {
        let tokens = self.joint_tokens.ended(now);
        if tokens > 0 {
            self.give_back(tokens.into(), now);
        }
    }

    /// Whether a check of `n` tokens asks before the usual time, if the bucket has `left`.
    ///
    /// It must have what this process spends in 5 ms. And it must not have been empty within a second, unless it has `enough` now: a
    /// limit that is used up denies the checks anyway, and would only be asked more often. One that was empty for a moment, because
    /// processes that the system had stopped came back together, is not used up.
    pub(super) fn may_ask_early(&self, n: u32, left: u32, enough: u32, now: u64) -> bool {
        let is_used_up = left < enough && self.emptied_at.is_some_and(|at| now.saturating_sub(at) < USED_UP);
        !is_used_up && u64::from(left) >= u64::from(n).max(self.tokens.at(now) / EARLY)
    }

    /// Counts tokens that the server takes for a check while this process leases.
    pub(super) fn count_take(&mut self, n: u32, now: u64) {
        self.tokens.count(n.into(), now);
    }

    /// Counts what was spent of `had` tokens while a request was in flight.
    pub(super) fn count_spent(&mut self, had: u32, held: u32, now: u64) {
        self.looked_at = had;
        self.look(held, now);
    }

    /// With how many tokens left to ask again, of `held`.
    pub(super) fn low_of(&self, plan: &Plan, held: u32, now: u64) -> u32 {
        plan.low(self.tokens.at(now), self.round_trip, held)
    }

    /// Adds a charge to what is pending.
    pub(super) fn owe(&mut self, tokens: u64, now: u64) {
        self.note_booking(now);
        self.bookings.add_charge(tokens);
    }

    /// Adds a refund to what is pending.
    pub(super) fn give_back(&mut self, tokens: u64, now: u64) {
        self.note_booking(now);
        self.bookings.add_refund(tokens);
    }

    /// Notes the time before something is pending. Later charges and refunds do not put it off.
    fn note_booking(&mut self, now: u64) {
        if self.bookings.is_empty() {
            self.booked_since = now;
        }
    }

    /// The tokens per second that this process uses.
    pub(super) fn own_rate(&self, now: u64) -> u64 {
        self.tokens.at(now)
    }

    /// The limits, as commands carry them.
    pub(super) fn limits<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = Limit> + 'a {
        plan.terms().iter().zip(&self.seen).map(|(&terms, &seen)| Limit { terms, seen })
    }

    /// Remembers the latest of what was seen. `now` is the reply's.
    ///
    /// A state of a lower version is older, or one that began anew after that of the higher version was full.
    pub(super) fn see(&mut self, levels: &[Level], now: u64) {
        if let [level] = levels {
            // At most the burst.
            self.others = (level.held as u32).saturating_sub(self.counted);
        }
        for (seen, level) in self.seen.iter_mut().zip(levels) {
            if level.version > seen.version || seen.full_at <= now {
                *seen = level.seen();
            }
        }
    }

    /// A command was lost: the next one goes out after the usual time.
    ///
    /// It asks for no more than the process uses. Requests that are lost leave the lease dry, and if each of them doubled the next, the
    /// first process that reaches a server which is back would take all that may be leased.
    pub(super) fn fail(&mut self, sent: u64, now: u64) {
        self.is_failing = true;
        self.last_target = 0;
        // No later, even if the limit was empty: until then the policy decides.
        let [least, most] = [sent, now].map(|time| time.saturating_add(PACE));
        self.ask_from = self.ask_from.clamp(least.min(most), most);
    }
}

/// Tokens used without being taken, and taken without being used, until a command carries them.
///
/// A charge is pending until a reply acknowledges it, so it may be counted twice. A refund is sent once, so it may be lost.
/// Either way the limit is exceeded by nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bookings {
    charge: u64,
    refund: u64,
}

impl Bookings {
    pub(super) fn is_empty(self) -> bool {
        self.charge == 0 && self.refund == 0
    }

    pub(super) fn add_charge(&mut self, tokens: u64) {
        self.charge = self.charge.saturating_add(tokens);
    }

    pub(super) fn add_refund(&mut self, tokens: u64) {
        self.refund = self.refund.saturating_add(tokens);
    }

    /// Takes out what the next command carries: the charge and the refund, each less the other.
    pub(super) fn send(&mut self) -> (u64, u64) {
        let both = self.charge.min(self.refund);
        let sent = (self.charge - both, self.refund - both);
        *self = Self::default();
        sent
    }
}
