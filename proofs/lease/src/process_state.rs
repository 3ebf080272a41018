//! The real state machine of a process, at the end of a history of events.
//!
//! A `Subject` has atomics and a lock, and cannot be copied. So a state keeps the events that led to it, and a machine is
//! rebuilt by repeating them. Two states are equal if the text of all fields of the machine is the same.

use crate::process::{Broken, Process};
use crate::world::{Delivery, Random};
use damper_redis::internal::{Command, Dispatch, Plan};
use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// An event of a process.
#[derive(Clone, Debug)]
pub enum Event {
    /// The time moves on, in µs since the start of the world.
    Tick(u64),
    Check(u32),
    Due,
    Refund(u32),
    Reply(Arc<Delivery>),
    /// The caller of a command gives it up: the one at this place of those that wait for a reply.
    GiveUp(usize),
}

/// The consequences of an event.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The tokens that a check took from the lease.
    pub spent: u32,
    /// The tokens that a check took of those of a joint take.
    pub taken: u32,
    /// The tokens of a joint take whose reply was applied.
    pub set_aside: u32,
    /// The tokens that the lease took back.
    pub refunded: u32,
    /// The command that is sent, and its number.
    pub command: Option<(u64, Command)>,
}

/// The state machine as others see it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The leased tokens that can be spent now.
    pub held: u32,
    /// Whether a check would wait for a command in flight.
    pub is_joinable: bool,
    /// The numbers of the commands that wait for a reply.
    pub waiting: Vec<u64>,
    /// Whether one of these is a command that checks wait for.
    pub waits_for_joint: bool,
    /// The tokens that may be refunded.
    pub used: u32,
}

/// How a process begins.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    pub holder: u64,
    pub began: u64,
    /// The choice of its clock's pace.
    pub pace: usize,
}

/// A process at the end of a history.
#[derive(Debug)]
pub struct ProcessState {
    pub birth: Birth,
    history: Option<Arc<Entry>>,
    pub digest: u64,
    pub seen: Seen,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    before: Option<Arc<Entry>>,
}

/// A process that runs.
#[derive(Debug)]
pub struct Machine {
    birth: Birth,
    pub process: Process,
    sent: u64,
    random: Random,
}

impl Hash for ProcessState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl PartialEq for ProcessState {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl ProcessState {
    pub fn begin(birth: Birth, plan: &Arc<Plan>, broken: Broken) -> Self {
        Self::of(birth, None, &Machine::new(birth, plan, broken))
    }

    /// Returns the state after `event`, and what it led to.
    pub fn after(&self, event: &Event, plan: &Arc<Plan>, broken: Broken) -> (Self, Output) {
        let mut machine = self.machine(plan, broken);
        let output = machine.apply(event);
        let entry = Entry { event: event.clone(), before: self.history.clone() };
        (Self::of(self.birth, Some(Arc::new(entry)), &machine), output)
    }

    /// Rebuilds the machine.
    pub fn machine(&self, plan: &Arc<Plan>, broken: Broken) -> Machine {
        let mut events = Vec::new();
        let mut next = &self.history;
        while let Some(entry) = next {
            events.push(&entry.event);
            next = &entry.before;
        }
        let mut machine = Machine::new(self.birth, plan, broken);
        for event in events.into_iter().rev() {
            machine.apply(event);
        }
        machine
    }

    /// `machine` is at the end of `history`. Looking at it moves its clock, so it is not used again.
    fn of(birth: Birth, history: Option<Arc<Entry>>, machine: &Machine) -> Self {
        let digest = digest(machine);
        let process = &machine.process;
        let seen = Seen {
            held: process.held(),
            is_joinable: process.join(0),
            waiting: process.waiting.iter().map(|waiting| waiting.id).collect(),
            waits_for_joint: process.waiting.iter().any(|waiting| waiting.dispatch.is_joint()),
            used: process.used,
        };
        Self { birth, history, digest, seen }
    }
}

impl Machine {
    fn new(birth: Birth, plan: &Arc<Plan>, broken: Broken) -> Self {
        let mut random = Random(birth.pace);
        let process = Process::new(plan, birth.holder, birth.began, &mut random, broken);
        Self { birth, process, sent: 0, random }
    }

    pub fn apply(&mut self, event: &Event) -> Output {
        let mut output = Output::default();
        let process = &mut self.process;
        match event {
            Event::Tick(now) => process.tick(*now),
            Event::Check(n) => {
                let (spent, dispatch) = process.check(*n);
                output.spent = spent;
                output.taken = std::mem::take(&mut process.taken);
                output.command = dispatch.map(|dispatch| self.send(*dispatch));
            }
            Event::Due => {
                let dispatch = process.due();
                output.command = dispatch.map(|dispatch| self.send(*dispatch));
            }
            Event::Refund(n) => output.refunded = process.refund(*n),
            Event::Reply(delivery) => {
                process.replied(Delivery::clone(delivery));
                output.set_aside = std::mem::take(&mut process.set_aside);
            }
            Event::GiveUp(index) => process.give_up(*index),
        }
        output
    }

    fn send(&mut self, dispatch: Dispatch) -> (u64, Command) {
        self.sent += 1;
        let id = self.process.number(self.birth.holder << 8 | self.sent);
        (id, self.process.send(id, dispatch, &mut self.random))
    }
}

/// Returns a number that identifies the text of a value.
pub fn digest(value: &impl Debug) -> u64 {
    struct Text(DefaultHasher);
    impl Write for Text {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    let mut text = Text(DefaultHasher::new());
    // Hashing never fails.
    let _ = write!(text, "{value:?}");
    text.0.finish()
}
