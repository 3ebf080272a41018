//! The state that a subject's lock protects.

use super::command_budget::CommandBudget;
use super::joint_tokens::JointTokens;
use super::own_rate::OwnRate;
use super::plan::{BUSY, PACE, Plan, QUIET};
use crate::script::{Level, Limit, Sighting};

/// How long a limit can still count as used up after it was empty, in µs.
const USED_UP: u64 = 1_000_000;

/// A second divided by the time for which the tokens of an early command should last: 5 ms.
///
/// A command is early if it asks the server for tokens before [`Ledger::request_from`], the usual time. It is sent only
/// if the server had enough tokens, as of the last reply: at least those that this process spends in `1 / EARLY`
/// seconds. With fewer tokens, the next command would follow too soon.
const EARLY: u64 = 200;

/// How long the subject does not lease after a reply came too late to use its tokens, in µs.
const TOO_SLOW: u64 = 5_000_000;

/// How checks are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The server decides each check.
    PerCheck,
    /// This process decides checks while it has leased tokens.
    Leasing,
}

/// A request for leased tokens, or a joint take, that has no outcome yet.
///
/// `seq` identifies the command. `since` does not: it may differ from the time in the command's ticket, because that is
/// another reading of the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCommand {
    pub(super) seq: u64,
    /// When the command was made, in µs of the subject's clock.
    pub(super) since: u64,
}

/// The state of a subject that its lock protects.
///
/// All times are in µs of the subject's clock. Three words have a fixed meaning here:
///
/// - A *request* is a command that asks for leased tokens.
/// - A *joint take* is a command by which the server takes tokens for all waiting checks.
/// - A *booking* is a charge or a refund that no command has carried to the server yet.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) mode: Mode,
    /// The number of the last request for leased tokens.
    pub(super) seq: u64,
    /// The number of the last request for leased tokens whose response was applied.
    pub(super) acked: u64,
    /// The request for leased tokens that is in flight.
    pub(super) in_flight: Option<OpenCommand>,
    /// The tokens that the server counts as leased to this process.
    ///
    /// A refund never fills the lease beyond this number.
    pub(super) counted: u32,
    /// The tokens that were leased to other processes as of the last reply.
    pub(super) others: u32,
    /// The time at which the leased tokens expire.
    pub(super) end: u64,
    /// The length of the last lease in µs.
    ///
    /// The server shortens leases for a while after it has lost its memory of the limit.
    pub(super) length: u64,
    /// The earliest time of the next request for leased tokens, unless that is sent early.
    pub(super) ask_from: u64,
    /// The budget for commands while leasing.
    pub(super) budget: CommandBudget,
    /// The time until which the limit's bucket on the server is empty, as of the last reply to a request.
    pub(super) empty_until: u64,
    /// The last time at which a reply showed that the limit's bucket on the server had too few tokens.
    pub(super) emptied_at: Option<u64>,
    /// Whether the last request brought too few tokens although the bucket on the server had more.
    ///
    /// Then other processes hold all the tokens that may be leased.
    pub(super) is_blocked: bool,
    /// The time until which the subject does not lease.
    ///
    /// It is set when the reply to a request comes after its tokens have expired, and when a request has no outcome for
    /// the length of a lease.
    pub(super) slow_until: u64,
    /// The number of the last joint take (a take for all waiting checks).
    pub(super) joint_seq: u64,
    /// The joint take (a take for all waiting checks) that is in flight.
    pub(super) joint: Option<OpenCommand>,
    /// The tokens of joint takes (takes for all waiting checks) that no check has taken yet.
    pub(super) joint_tokens: JointTokens,
    /// The tokens needed by the checks that wait for the command in flight.
    pub(super) joined: u64,
    /// The tokens that waiting checks needed, but that the reply to their command did not bring.
    pub(super) unmet: u64,
    /// Whether the server counts as failing, because a command was lost and no later one has got a reply.
    pub(super) is_failing: bool,
    /// Whether a check found too few tokens in the lease since the last request for more.
    pub(super) ran_dry: bool,
    /// The number of tokens that the lease should have held after the last request.
    ///
    /// It is 0 if no request was made since the subject began to lease, or since a command was lost.
    pub(super) last_target: u32,
    /// The number of tokens left in the lease at which a request for more is sent.
    pub(super) low: u32,
    /// The time from the last request for leased tokens to its reply, in µs.
    pub(super) round_trip: u64,
    /// The tokens that the lease held when it was last read, plus the refunds since then.
    pub(super) looked_at: u32,
    /// The last time at which a read of the lease showed that tokens were spent or ran out.
    pub(super) idle_since: u64,
    pub(super) bookings: Bookings,
    /// The time of the first booking (a charge or refund) that is not sent yet.
    pub(super) booked_since: u64,
    /// The tokens per second that this process uses.
    tokens: OwnRate,
    /// The checks per second of this process.
    checks: OwnRate,
    /// The average cost of a check when the subject began to lease, in tokens; at least 1.
    usual_cost: u64,
    /// The version of each limit and the time at which it is full, from the newest reply.
    ///
    /// Commands send both to the server. So the script notices whether the server has lost its memory of the limit.
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

    /// Counts a check that the server decides, and returns whether the subject should lease.
    ///
    /// It should if checks are frequent and the server answered fast enough lately.
    pub(super) fn count_check(&mut self, n: u32, now: u64) -> bool {
        self.tokens.count(n.into(), now);
        self.checks.count(1, now);
        self.checks.at(now) >= BUSY && now >= self.slow_until
    }

    /// Starts to decide checks by leased tokens.
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

    /// Stops leasing for a while, because replies come too late to use their tokens.
    pub(super) fn give_up_leasing(&mut self, now: u64) {
        self.stop_leasing();
        self.bookings.doubt_repeated();
        self.slow_until = now.saturating_add(TOO_SLOW);
    }

    /// Returns the earliest time of the next usual request for leased tokens.
    pub(super) fn request_from(&self) -> u64 {
        self.ask_from.max(self.budget.next_from())
    }

    /// Returns whether this process uses too few tokens for a lease.
    pub(super) fn is_quiet(&self, now: u64) -> bool {
        !self.ran_dry && self.tokens.at(now) < QUIET * self.usual_cost
    }

    /// Notes that the lease holds `held` tokens, and counts the tokens spent since the last look as used.
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
    /// The number covers the rate of this process and the waiting checks. If the lease ran dry, the measured rate was
    /// too low, so the number is at least twice the last one. It is at most this process's share of the tokens that may
    /// be leased, unless the check of `n` tokens needs more.
    pub(super) fn target(&self, plan: &Plan, n: u32, now: u64) -> u32 {
        let leased = self.others.saturating_add(self.counted);
        let target = plan.target(self.tokens.at(now).max(8 * self.usual_cost), leased, self.others, self.length);
        let doubled = if self.ran_dry { self.last_target.saturating_mul(2) } else { 0 };
        target.max(doubled).max(self.waiting(n)).min(plan.share(self.others)).max(n).min(plan.most_held())
    }

    /// Returns how many tokens the waiting checks need, and at least the `n` of the current check.
    pub(super) fn waiting(&self, n: u32) -> u32 {
        u32::try_from(self.unmet).unwrap_or(u32::MAX).max(n)
    }

    /// Returns whether a command is in flight that a check can wait for.
    pub(super) fn is_joinable(&self) -> bool {
        self.in_flight.is_some() || self.joint.is_some()
    }

    /// Books a refund of expired tokens, which joint takes brought and no check took in time.
    pub(super) fn give_back_ended(&mut self, now: u64) {
        let tokens = self.joint_tokens.ended(now);
        if tokens > 0 {
            self.give_back(tokens.into(), now);
        }
    }

    /// Returns whether a check of `n` tokens may ask the server before the usual time.
    ///
    /// `left` is how many tokens the limit's bucket on the server has. There are two conditions:
    ///
    /// - The bucket has at least `n` tokens, and at least those that this process spends in 5 ms.
    /// - The limit is not used up, because early requests to a limit that denies anyway only add commands. A limit is
    ///   used up if it was empty within the last second and has less than `enough` now.
    ///
    /// (A limit can be empty for a moment when processes that the system had stopped run again together. Such a limit
    /// soon has `enough` again, so it does not count as used up.)
    pub(super) fn may_ask_early(&self, n: u32, left: u32, enough: u32, now: u64) -> bool {
        let is_used_up = left < enough && self.emptied_at.is_some_and(|at| now.saturating_sub(at) < USED_UP);
        !is_used_up && u64::from(left) >= u64::from(n).max(self.tokens.at(now) / EARLY)
    }

    /// Counts the tokens that a check takes on the server while this process leases.
    pub(super) fn count_take(&mut self, n: u32, now: u64) {
        self.tokens.count(n.into(), now);
    }

    /// Counts the tokens that were spent while a request was in flight.
    ///
    /// The lease holds `held` tokens. It would hold `had` if none had been spent.
    pub(super) fn count_spent(&mut self, had: u32, held: u32, now: u64) {
        self.looked_at = had;
        self.look(held, now);
    }

    /// Returns the number of tokens left at which the next request is sent, if the lease holds `held` now.
    pub(super) fn low_of(&self, plan: &Plan, held: u32, now: u64) -> u32 {
        plan.low(self.tokens.at(now), self.round_trip, held)
    }

    /// Adds a charge to the bookings.
    pub(super) fn owe(&mut self, tokens: u64, now: u64) {
        self.note_booking(now);
        self.bookings.add_charge(tokens);
    }

    /// Adds the charge of a command that the server may have executed.
    pub(super) fn doubt(&mut self, tokens: u64, now: u64) {
        self.note_booking(now);
        self.bookings.add_doubtful(tokens);
    }

    /// Adds the charge of a request that the server may have executed.
    ///
    /// The next request repeats it, but no take, because the server subtracts what it has booked only from the charge of a
    /// request. While the subject does not lease, no request follows, so the charge is doubtful.
    ///
    /// `sent` is the time at which the first request with it was sent.
    pub(super) fn repeat(&mut self, tokens: u64, sent: u64, now: u64) {
        if self.mode == Mode::PerCheck {
            return self.doubt(tokens, now);
        }
        self.note_booking(now);
        self.bookings.add_repeated(tokens, sent);
    }

    /// Removes the charges of lost requests for the next request.
    ///
    /// Returns them with the time at which the first of the lost requests was sent, or with `now`.
    ///
    /// The server remembers what it has booked for a request for as long as the lease lasts. After that time the charges are
    /// doubtful.
    pub(super) fn send_repeated(&mut self, lease: u64, now: u64) -> (u64, u64) {
        if now.saturating_sub(self.bookings.repeated_since) >= lease {
            self.bookings.doubt_repeated();
        }
        match core::mem::take(&mut self.bookings.repeated) {
            0 => (0, now),
            repeated => (repeated, self.bookings.repeated_since),
        }
    }

    /// Adds a refund to the bookings.
    pub(super) fn give_back(&mut self, tokens: u64, now: u64) {
        self.note_booking(now);
        self.bookings.add_refund(tokens);
    }

    /// Notes the time of the first booking. It decides when all bookings are sent.
    ///
    /// If there are only doubtful charges, it decides when a command is sent to which the server may reply.
    fn note_booking(&mut self, now: u64) {
        if self.bookings.next_is_empty() {
            self.booked_since = now;
        }
    }

    /// Returns the tokens per second that this process uses.
    pub(super) fn own_rate(&self, now: u64) -> u64 {
        self.tokens.at(now)
    }

    /// Returns the limits in the form in which commands carry them.
    pub(super) fn limits<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = Limit> + 'a {
        plan.terms().iter().zip(&self.seen).map(|(&terms, &seen)| Limit { terms, seen })
    }

    /// Remembers what a reply says about each limit. `now` is the server's time of the reply.
    ///
    /// A level is ignored if its version is not greater than the remembered one, because then it shows nothing newer.
    /// But if the limit was full in between, the server may have forgotten it and started its versions anew. Then the
    /// level counts.
    pub(super) fn see(&mut self, levels: &[Level], now: u64) {
        if let [level] = levels {
            // `held` is at most the burst, so it fits.
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
    /// It also forgets the last target. A lease that ran dry doubles the next target, and leases run dry while requests
    /// are lost. If each loss doubled the target, the first process to reach a recovered server would lease everything.
    pub(super) fn fail(&mut self, sent: u64, now: u64) {
        self.is_failing = true;
        self.last_target = 0;
        // Until the next command, the policy for a server that is gone decides checks. So the command goes out after
        // the usual time, even if it was to wait longer because the limit was empty.
        let [least, most] = [sent, now].map(|time| time.saturating_add(PACE));
        self.ask_from = self.ask_from.clamp(least.min(most), most);
    }
}

/// The charges and refunds that no command has carried to the server yet, and the doubtful charges.
///
/// A charge is *doubtful* if its command is lost, because the server may have booked it. It is booked again after the
/// server has replied to another command, so it may count twice. It waits for the reply because otherwise each command
/// would book it once more while the server gets the commands and the replies are lost. A charge is *repeated* if its
/// command is a lost request for leased tokens. The next request carries it at once, because the server remembers what it
/// has booked for a request that is not acknowledged. The refund of a lost command is not booked again, so it may be lost.
/// Neither admits a call beyond the limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bookings {
    charge: u64,
    refund: u64,
    doubtful: u64,
    repeated: u64,
    /// When the first of the requests was sent whose charges are `repeated`.
    repeated_since: u64,
}

impl Bookings {
    /// Returns whether there is neither a charge nor a refund.
    pub(super) fn is_empty(self) -> bool {
        self.next_is_empty() && self.doubtful == 0
    }

    /// Returns whether the next request carries neither a charge nor a refund.
    fn next_is_empty(self) -> bool {
        self.charge == 0 && self.refund == 0 && self.repeated == 0
    }

    /// Adds a charge.
    pub(super) fn add_charge(&mut self, tokens: u64) {
        self.charge = self.charge.saturating_add(tokens);
    }

    /// Adds a charge that the server may have booked.
    fn add_doubtful(&mut self, tokens: u64) {
        self.doubtful = self.doubtful.saturating_add(tokens);
    }

    /// Adds the charge of a request that the server may have executed.
    fn add_repeated(&mut self, tokens: u64, sent: u64) {
        self.repeated_since = if self.repeated == 0 { sent } else { self.repeated_since.min(sent) };
        self.repeated = self.repeated.saturating_add(tokens);
    }

    /// Makes the charges of lost requests doubtful.
    ///
    /// No request follows that the server would compare with those.
    fn doubt_repeated(&mut self) {
        let repeated = core::mem::take(&mut self.repeated);
        self.add_doubtful(repeated);
    }

    /// Lets the next command carry the doubtful charges.
    pub(super) fn repeat_doubtful(&mut self) {
        let doubtful = core::mem::take(&mut self.doubtful);
        self.add_charge(doubtful);
    }

    /// Adds a refund.
    pub(super) fn add_refund(&mut self, tokens: u64) {
        self.refund = self.refund.saturating_add(tokens);
    }

    /// Removes the bookings, and returns the charge and the refund for the next command.
    ///
    /// The doubtful charges and those of lost requests stay. The smaller of the two is subtracted from both, so at least
    /// one is 0.
    pub(super) fn send(&mut self) -> (u64, u64) {
        let both = self.charge.min(self.refund);
        let sent = (self.charge - both, self.refund - both);
        (self.charge, self.refund) = (0, 0);
        sent
    }
}
