//! One process, and the rules that it can be made to break.
//!
//! The state machine is the library's, and has no switches. A rule is broken around it: by the clock that it reads, by the length
//! of lease that it is told, or by messages that are altered on their way.

use crate::world::{Delivery, Random};
use damper_core::{Clock, ManualClock};
use damper_redis::internal::{Answer, Command, Dispatch, NextStep, Outcome, Plan, Reply, Status, Subject};
use std::sync::Arc;

/// A rule of the holder that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// Leased tokens are good for the whole lease, not for 7/8 of it.
    SevenEighths,
    /// Their time is counted from the reply, not from the request.
    SinceTheRequest,
    /// A spend goes by the clock as of the last reply.
    ClockAtEachSpend,
    /// Late replies are applied as if they were those to the latest request.
    LateRepliesDiscarded,
    /// Requests do not say which responses were applied.
    Acknowledged,
    /// Refunds lift the lease beyond what a request reported.
    FencedUnspent,
    /// The holder keeps what the server does not recognise.
    Kept,
    /// A refund is sent again when the reply is lost.
    RefundOnce,
    /// Tokens that are given back stay in the lease.
    BackTakenOut,
}

/// A command on its way, and the process's part of it.
#[derive(Debug)]
pub struct Waiting {
    pub id: u64,
    pub dispatch: Dispatch,
    /// How many tokens the holder has beyond what it was made to report.
    hidden: u32,
}

#[derive(Debug)]
pub struct Process {
    pub holder: u64,
    subject: Subject<Arc<MovingClock>>,
    clock: Arc<MovingClock>,
    /// When it began, and its clock's ticks of a microsecond each for a million microseconds.
    began: u64,
    pace: u64,
    pub now: u64,
    /// How far the process's clock is made to lag, and at what time it last applied a reply.
    lag: u64,
    applied_at: u64,
    pub paused_until: u64,
    pub waiting: Vec<Waiting>,
    /// Tokens that may be refunded.
    pub used: u32,
    /// Tokens that the server took for checks that wait, and those that checks took of them.
    ///
    /// Since the world last looked.
    pub set_aside: u32,
    pub taken: u32,
    /// A refund that the next command carries in addition, because a rule is broken.
    resent_refund: u64,
    broken: Broken,
}

/// The ticks of a process's clock in a µs.
const TICKS: u64 = 10;

/// A clock that each reading moves by 0.3 µs, as a real one moves between two readings.
#[derive(Debug)]
struct MovingClock(ManualClock);

impl MovingClock {
    fn set(&self, micros: u64) {
        self.0.set_ticks(micros * TICKS);
    }

    /// Sets it, unless its readings have moved it further.
    fn catch_up(&self, micros: u64) {
        if self.0.now() < micros * TICKS {
            self.set(micros);
        }
    }
}

impl Clock for MovingClock {
    fn now(&self) -> u64 {
        let now = self.0.now();
        self.0.advance_ticks(3);
        now
    }

    fn frequency(&self) -> u64 {
        self.0.frequency()
    }
}

/// The tokens that a check took from the lease, and a command to be sent.
pub type Done = (u32, Option<Box<Dispatch>>);

impl Process {
    pub fn new(plan: &Arc<Plan>, holder: u64, began: u64, random: &mut Random, broken: Broken) -> Self {
        let clock = Arc::new(MovingClock(ManualClock::with_frequency(1_000_000 * TICKS)));
        // Five percent slower or faster than the server's, or anything between.
        let pace = random.one_of(&[950_000, 1_050_000, 1_000_000, 950_000 + random.clone().below(100_000)]);
        let subject = Subject::new(Arc::clone(plan), holder, Arc::clone(&clock));
        let mut process = Self {
            holder,
            subject,
            clock,
            began,
            pace,
            now: began,
            lag: 0,
            applied_at: 0,
            paused_until: 0,
            waiting: Vec::new(),
            used: 0,
            set_aside: 0,
            taken: 0,
            resent_refund: 0,
            broken,
        };
        process.tick(began);
        process
    }

    /// The reading of its clock, which begins at an hour.
    fn reading(&self) -> u64 {
        3_600_000_000 + (self.now - self.began) / 1_000 * self.pace / 1_000 + (self.now - self.began) % 1_000
    }

    pub fn tick(&mut self, now: u64) {
        self.now = now;
        self.clock.catch_up(self.reading() - self.lag);
    }

    pub fn is_running(&self) -> bool {
        self.now >= self.paused_until
    }

    pub fn held(&self) -> u32 {
        self.subject.holdings().tokens
    }

    pub fn check(&mut self, n: u32) -> Done {
        if self.broken == Broken::ClockAtEachSpend && self.applied_at > 0 {
            self.clock.set(self.applied_at);
        }
        let answer = self.subject.check(n);
        self.clock.catch_up(self.reading() - self.lag);
        match answer {
            Answer::Allowed(_) => self.spent(n, false),
            Answer::Low(_) => self.spent(n, true),
            Answer::Taken(_) => {
                self.used += n;
                self.taken += n;
                (0, None)
            }
            Answer::Ask(dispatch) => (0, Some(dispatch)),
            Answer::Join => {
                self.join(n);
                (0, None)
            }
            Answer::Denied(_) | Answer::Down => (0, None),
        }
    }

    fn spent(&mut self, n: u32, is_low: bool) -> Done {
        self.used += n;
        (n, if is_low { self.subject.ask_ahead() } else { None })
    }

    /// Lets a check of `n` tokens wait for the command in flight. Returns false if none is.
    pub fn join(&self, n: u32) -> bool {
        self.subject.join(n)
    }

    pub fn due(&mut self) -> Option<Box<Dispatch>> {
        match self.subject.due() {
            NextStep::Send(dispatch) => Some(dispatch),
            NextStep::At(_) | NextStep::Nothing => None,
        }
    }

    /// Returns how much of it the lease took.
    pub fn refund(&mut self, n: u32) -> u32 {
        self.used -= n;
        let before = self.held();
        let _ = self.subject.refund(n);
        self.held() - before
    }

    /// Returns the command as it is sent.
    pub fn send(&mut self, id: u64, dispatch: Dispatch, random: &mut Random) -> Command {
        let mut command = dispatch.command().clone();
        let mut hidden = 0;
        match &mut command {
            Command::Lease(_, ask) => {
                ask.refund += std::mem::take(&mut self.resent_refund);
                match self.broken {
                    // As if these were refunded after the request had counted the lease.
                    Broken::FencedUnspent => {
                        hidden = ask.unspent.min(random.below(9) as u32);
                        ask.unspent -= hidden;
                    }
                    Broken::BackTakenOut => {
                        hidden = ask.unspent.min(random.below(9) as u32);
                        ask.unspent -= hidden;
                        ask.back += hidden;
                    }
                    Broken::Acknowledged => ask.ack = 0,
                    _ => {}
                }
            }
            Command::Take(limits) => limits[0].1.refund += std::mem::take(&mut self.resent_refund),
            Command::Reset(_) => {}
            Command::ByPlan(_) => unreachable!("no limit of a subject is by plan"),
        }
        self.waiting.push(Waiting { id, dispatch, hidden });
        command
    }

    fn take_waiting(&mut self, id: u64) -> Option<Waiting> {
        let index = self.waiting.iter().position(|waiting| waiting.id == id)?;
        Some(self.waiting.swap_remove(index))
    }

    /// Learns the reply to a command. Returns the tokens that it allowed by the server's decision.
    pub fn replied(&mut self, delivery: Delivery) {
        let Delivery { id, mut reply, .. } = delivery;
        let waiting = self.take_waiting(id).or_else(|| self.overtaken(&mut reply));
        let Some(Waiting { dispatch, hidden, .. }) = waiting else { return };
        let is_lease = dispatch.is_lease();
        if let Some(grant) = &mut reply.grant {
            grant.kept += hidden;
            if self.broken == Broken::SevenEighths {
                grant.length = grant.length * 8 / 7;
            }
            if self.broken == Broken::Kept
                && let Command::Lease(_, ask) = dispatch.command()
            {
                grant.kept = ask.unspent;
            }
        }
        let sent = dispatch.command().clone();
        let cost = if let Command::Take(limits) = &sent { limits[0].1.cost } else { 0 };
        let made_at = self.made_at(id);
        if dispatch.is_joint() && !is_lease && reply.status == Status::Done {
            self.set_aside += cost;
        }
        match self.subject.replied(dispatch, &reply) {
            Outcome::Allowed(_) => self.used += cost,
            Outcome::Denied(_) | Outcome::Again | Outcome::Late => {}
        }
        if is_lease {
            self.applied_at = self.clock_reading();
            if self.broken == Broken::SinceTheRequest {
                self.lag += self.reading() - self.lag - made_at.min(self.reading() - self.lag);
                self.clock.set(self.reading() - self.lag);
            }
        }
    }

    fn clock_reading(&self) -> u64 {
        self.reading() - self.lag
    }

    /// The reading at which a command was made, which is the upper part of its number.
    fn made_at(&self, id: u64) -> u64 {
        id >> 20
    }

    /// The number of the next command: its reading, and a number of the caller's.
    pub fn number(&self, serial: u64) -> u64 {
        self.clock_reading() << 20 | (serial & 0xF_FFFF)
    }

    /// The command to which a late reply is applied, where that rule is broken: the latest request.
    fn overtaken(&mut self, reply: &mut Reply) -> Option<Waiting> {
        if self.broken != Broken::LateRepliesDiscarded {
            return None;
        }
        let grant = reply.grant.as_mut()?;
        let index = self.waiting.iter().position(|waiting| waiting.dispatch.is_lease())?;
        if let Command::Lease(_, ask) = self.waiting[index].dispatch.command() {
            grant.seq = ask.seq;
        }
        Some(self.waiting.swap_remove(index))
    }

    /// Gives up one of the commands that wait for a reply.
    pub fn give_up(&mut self, index: usize) {
        let Waiting { dispatch, .. } = self.waiting.swap_remove(index);
        let refund = match dispatch.command() {
            Command::Take(limits) => limits[0].1.refund,
            Command::Lease(_, ask) => ask.refund,
            Command::Reset(_) => 0,
            Command::ByPlan(_) => unreachable!("no limit of a subject is by plan"),
        };
        if self.broken == Broken::RefundOnce {
            self.resent_refund += refund;
        }
        self.subject.lost(dispatch);
    }
}
