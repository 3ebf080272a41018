//! The state of a subject under its lock.

use super::command_budget::CommandBudget;
use super::joint_tokens::JointTokens;
use super::own_rate::OwnRate;
use super::plan::{BUSY, PACE, Plan, QUIET};
use crate::script::{Level, Limit, Sighting};

/// How long a limit counts as used up after it was empty, in µs.
const USED_UP: u64 = 1_000_000;

/// The largest number of early requests in a second.
///
/// An early request goes out only if the bucket on the server has the tokens that this process spends in a 200th of a second.
const EARLY: u64 = 200;

/// How long the subject tries no lease after a reply that came too late to use its tokens, in µs.
const TOO_SLOW: u64 = 5_000_000;

/// Where checks are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The server decides each check.
    PerCheck,
    /// This process decides, by its lease.
    Leasing,
}

/// A request for leased tokens, or a joint take, that has no outcome yet.
///
/// The number identifies the command. Its time could not, because two readings of the clock for one command may differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCommand {
    pub(super) seq: u64,
    /// When the command was made, in µs of the subject's clock.
    pub(super) since: u64,
}

/// The state of a subject that its lock protects.
///
/// All times are in µs of the subject's clock. A *request* asks for leased tokens. A *joint take* takes tokens for all waiting
/// checks.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) mode: Mode,
    /// The number of the last request.
    pub(super) seq: u64,
    /// The number of the last request whose response was applied.
    pub(super) acked: u64,
    /// The request for leased tokens in flight.
    pub(super) in_flight: Option<OpenCommand>,
    /// The tokens that the server counts as held by this process.
    ///
    /// A refund never fills the lease beyond this number.
    pub(super) counted: u32,
    /// The tokens that other processes held as of the last reply.
    pub(super) others: u32,
    /// When the tokens of the lease expire.
    pub(super) end: u64,
    /// The length of the last lease. Leases are shorter for a while after the server has lost the limit.
    pub(super) length: u64,
    /// The earliest time of the next command while leasing.
    pub(super) ask_from: u64,
    /// The commands that may be sent while leasing.
    pub(super) budget: CommandBudget,
    /// The time until which the bucket on the server is empty, as of the last reply to a request.
    pub(super) empty_until: u64,
    /// The last time at which a reply showed that the bucket on the server had too few tokens.
    pub(super) emptied_at: Option<u64>,
    /// Whether the last request brought too few tokens although the bucket had more.
    ///
    /// Then other processes hold all the tokens that may be leased.
    pub(super) is_blocked: bool,
    /// The time until which the subject tries no lease.
    ///
    /// A reply that comes after its tokens have expired sets it.
    pub(super) slow_until: u64,
    /// The number of the last joint take.
    pub(super) joint_seq: u64,
    /// The joint take in flight.
    pub(super) joint: Option<OpenCommand>,
    /// The tokens of the last joint takes that no check has taken yet.
    pub(super) joint_tokens: JointTokens,
    /// The tokens needed by checks that wait for the request or joint take in flight.
    pub(super) joined: u64,
    /// The tokens that waiting checks needed, but that the last request or joint take did not bring.
    pub(super) unmet: u64,
    /// Whether the last command was lost.
    pub(super) is_failing: bool,
    /// Whether a check found too few tokens since the last request.
    pub(super) ran_dry: bool,
    /// The number of tokens up to which the last request was to fill the lease.
    pub(super) last_target: u32,
    /// The number of leased tokens left at which a request for more is sent.
    pub(super) low: u32,
    /// How long the last request took from sending to reply, in µs.
    pub(super) round_trip: u64,
    /// The tokens in the lease when it was last read, plus the refunds since then.
    pub(super) looked_at: u32,
    /// The last time at which a read of the lease found that tokens were spent or had run out.
    pub(super) idle_since: u64,
    pub(super) bookings: Bookings,
    /// When the first of the bookings was made.
    pub(super) booked_since: u64,
    /// The tokens per second that this process uses.
    tokens: OwnRate,
    /// The checks per second of this process.
    checks: OwnRate,
    /// The average cost of a check when the subject began to lease, at least 1.
    usual_cost: u64,
    /// The version of each limit, and when it is full, by the newest reply.
    ///
    /// Commands send both back, so that the script notices if the server has lost the limit.
    seen: Box<[Sighting]>,
}

impl Ledger {
    /// Creates the ledger of a subject that knows nothing of the server yet.
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
    /// A lease is worthwhile if checks are frequent and the server answers fast enough.
    pub(super) fn count_check(&mut self, n: u32, now: u64) -> bool {
        self.tokens.count(n.into(), now);
        self.checks.count(1, now);
        self.checks.at(now) >= BUSY && now >= self.slow_until
    }

    /// Starts to decide checks by a lease.
    pub(super) fn begin_to_lease(&mut self, now: u64) {
        self.mode = Mode::Leasing;
        self.usual_cost = (self.tokens.at(now) / self.checks.at(now).max(1)).max(1);
        (self.ran_dry, self.last_target, self.idle_since) = (false, 0, now);
    }

    /// Stops leasing: the server decides each check from now on.
    pub(super) fn stop_leasing(&mut self) {
        self.mode = Mode::PerCheck;
        self.checks = OwnRate::default();
    }

    /// Stops leasing for a while, because replies come too late for leases.
    pub(super) fn give_up_leasing(&mut self, now: u64) {
        self.stop_leasing();
        self.slow_until = now.saturating_add(TOO_SLOW);
    }

    /// Returns the earliest time of the next request.
    pub(super) fn request_from(&self) -> u64 {
        self.ask_from.max(self.budget.next_from())
    }

    /// Returns whether this process uses too few tokens for a lease.
    pub(super) fn is_quiet(&self, now: u64) -> bool {
        !self.ran_dry && self.tokens.at(now) < QUIET * self.usual_cost
    }

    /// Notes that the lease holds `held` tokens, and counts the tokens that were spent since the last look.
    pub(super) fn look(&mut self, held: u32, now: u64) {
        let spent = self.looked_at.saturating_sub(held);
        if spent > 0 || self.ran_dry {
            self.idle_since = now;
        }
        self.tokens.count(spent.into(), now);
        self.looked_at = held;
    }

    /// Returns how many tokens the lease should hold after the next request.
    ///
    /// The target covers the rate of this process and the waiting checks. If the lease ran out of tokens, the measured rate is too
    /// low, so the target is at least twice the last one. It is at most this process's share of what may be leased.
    pub(super) fn target(&self, plan: &Plan, n: u32, now: u64) -> u32 {
        let leased = self.others.saturating_add(self.counted);
        let target = plan.target(self.tokens.at(now).max(8 * self.usual_cost), leased, self.others, self.length);
        let doubled = if self.ran_dry { self.last_target.saturating_mul(2) } else { 0 };
        target.max(doubled).max(self.waiting(n)).min(plan.share(self.others)).max(n).min(plan.most_held())
    }

    /// Returns how many tokens the waiting checks need: at least the `n` of the current one.
    pub(super) fn waiting(&self, n: u32) -> u32 {
        u32::try_from(self.unmet).unwrap_or(u32::MAX).max(n)
    }

    /// Returns whether a command is in flight whose outcome a check can wait for.
    pub(super) fn is_joinable(&self) -> bool {
        self.in_flight.is_some() || self.joint.is_some()
    }

    /// Gives back the tokens of joint takes that no check took in time.
    pub(super) fn give_back_ended(&mut self, now: u64) {
        let tokens = self.joint_tokens.ended(now);
        if tokens > 0 {
            self.give_back(tokens.into(), now);
        }
    }

    /// Returns whether a check of `n` tokens may ask before the usual time, if the bucket has `left` tokens.
    ///
    /// The bucket must have the tokens that this process spends in 5 ms. The limit must also not be used up, because early requests
    /// to a limit that denies anyway only add commands. A limit is used up if it was empty within the last second and has less than
    /// `enough` now. (A limit can also be empty for a moment, when processes that the system had stopped run again together. Such a
    /// limit soon has `enough`, so it does not count as used up.)
    pub(super) fn may_ask_early(&self, n: u32, left: u32, enough: u32, now: u64) -> bool {
        let is_used_up = left < enough && self.emptied_at.is_some_and(|at| now.saturating_sub(at) < USED_UP);
        !is_used_up && u64::from(left) >= u64::from(n).max(self.tokens.at(now) / EARLY)
    }

    /// Counts tokens that the server takes for a check while this process leases.
    pub(super) fn count_take(&mut self, n: u32, now: u64) {
        self.tokens.count(n.into(), now);
    }

    /// Counts the tokens that were spent while a request was in flight.
    ///
    /// Without them the lease would hold `had` tokens, and it holds `held`.
    pub(super) fn count_spent(&mut self, had: u32, held: u32, now: u64) {
        self.looked_at = had;
        self.look(held, now);
    }

    /// Returns the number of tokens left at which the subject asks again, if the lease holds `held` now.
    pub(super) fn low_of(&self, plan: &Plan, held: u32, now: u64) -> u32 {
        plan.low(self.tokens.at(now), self.round_trip, held)
    }

    /// Adds a charge to the bookings.
    pub(super) fn owe(&mut self, tokens: u64, now: u64) {
        self.note_booking(now);
        self.bookings.add_charge(tokens);
    }

    /// Adds a refund to the bookings.
    pub(super) fn give_back(&mut self, tokens: u64, now: u64) {
        self.note_booking(now);
        self.bookings.add_refund(tokens);
    }

    /// Notes the time of the first booking. Later ones do not postpone the command that carries it.
    fn note_booking(&mut self, now: u64) {
        if self.bookings.is_empty() {
            self.booked_since = now;
        }
    }

    /// Returns the tokens per second that this process uses.
    pub(super) fn own_rate(&self, now: u64) -> u64 {
        self.tokens.at(now)
    }

    /// Returns the limits, as commands carry them.
    pub(super) fn limits<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = Limit> + 'a {
        plan.terms().iter().zip(&self.seen).map(|(&terms, &seen)| Limit { terms, seen })
    }

    /// Remembers what a reply says about each limit. `now` is the server's time of the reply.
    ///
    /// A level with a lower version comes from an older reply and is ignored, unless the limit was full in between. Then the server
    /// may have forgotten the limit, and its versions start anew.
    pub(super) fn see(&mut self, levels: &[Level], now: u64) {
        if let [level] = levels {
            // `held` is at most the burst.
            self.others = (level.held as u32).saturating_sub(self.counted);
        }
        for (seen, level) in self.seen.iter_mut().zip(levels) {
            if level.version > seen.version || seen.full_at <= now {
                *seen = level.seen();
            }
        }
    }

    /// Notes that a command was lost, and schedules the next one after the usual time.
    ///
    /// The next request asks for no more than the process uses. A lease that ran dry doubles the next target, and it runs dry while
    /// requests are lost. If each loss doubled the target, the first process to reach a recovered server would lease everything.
    pub(super) fn fail(&mut self, sent: u64, now: u64) {
        self.is_failing = true;
        self.last_target = 0;
        // Until the next command the policy for a server that is gone decides. So the command goes out after the usual time, even
        // if the limit was empty.
        let [least, most] = [sent, now].map(|time| time.saturating_add(PACE));
        self.ask_from = self.ask_from.clamp(least.min(most), most);
    }
}

/// Charges and refunds that no command has carried to the server yet.
///
/// The charge of a lost command is booked again, so it may count twice. A refund is sent once, so it may be lost. Neither admits a
/// call beyond the limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bookings {
    charge: u64,
    refund: u64,
}

impl Bookings {
    /// Returns whether there is neither a charge nor a refund.
    pub(super) fn is_empty(self) -> bool {
        self.charge == 0 && self.refund == 0
    }

    /// Adds a charge.
    pub(super) fn add_charge(&mut self, tokens: u64) {
        self.charge = self.charge.saturating_add(tokens);
    }

    /// Adds a refund.
    pub(super) fn add_refund(&mut self, tokens: u64) {
        self.refund = self.refund.saturating_add(tokens);
    }

    /// Takes out the bookings and returns the charge and the refund for the next command.
    ///
    /// They offset each other, so at least one of them is 0.
    pub(super) fn send(&mut self) -> (u64, u64) {
        let both = self.charge.min(self.refund);
        let sent = (self.charge - both, self.refund - both);
        *self = Self::default();
        sent
    }
}
