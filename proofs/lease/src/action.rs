//! The steps from one state to the next.

use crate::engine::{Engine, Message, START};
use crate::model::LeaseModel;
use crate::process::Broken;
use crate::process_state::{Event, Output};
use crate::property::{Fault, fault_of};
use crate::scenario::{Cost, LEASE, SLOT, Scenario, Span, terms};
use crate::witness::Witness;
use crate::world::{Answered, Saved, World};
use damper_redis::internal::{Command, Reply, Status};
use std::sync::Arc;

/// A step. Processes, messages and replies are named by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Wait(Span),
    /// A process checks so many tokens.
    Check(usize, u32),
    /// A process does what is due.
    Due(usize),
    /// A process refunds all that it has used.
    Refund(usize),
    /// A message arrives at the server.
    Arrive(usize),
    /// A message arrives at the server, and will arrive again.
    Repeat(usize),
    /// A reply arrives at its process.
    Return(usize),
    /// The caller of a command gives up: the one at this place of those that wait for a reply.
    GiveUp(usize, usize),
    /// A process ends, and another begins.
    Crash(usize),
    /// The server loses all that it has stored.
    Lose,
    /// The server's files or its replica have all that it has stored.
    Save,
    /// The server loses what it has stored since.
    RollBack,
    /// Processes that do not lease take all that the server has.
    Others,
}

/// The tokens of a check that few leases can serve.
const LARGE: u32 = 20;

/// Finds the steps that are possible.
pub fn actions(world: &World, scenario: &Scenario, found: &mut Vec<Action>) {
    let left = &world.left;
    for (who, process) in world.processes.iter().enumerate() {
        if left.checks > 0 {
            let cost = |cost: &Cost| match cost {
                Cost::One => 1,
                Cost::Held => process.seen.held.max(1),
                Cost::Large => LARGE,
            };
            let mut costs: Vec<u32> = scenario.costs.iter().map(cost).collect();
            costs.sort_unstable();
            costs.dedup();
            found.extend(costs.into_iter().map(|n| Action::Check(who, n)));
        }
        if left.dues > 0 {
            found.push(Action::Due(who));
        }
        if left.refunds > 0 && process.seen.used > 0 {
            found.push(Action::Refund(who));
        }
        if left.give_ups > 0 {
            found.extend((0..process.seen.waiting.len()).map(|index| Action::GiveUp(who, index)));
        }
        if left.crashes > 0 {
            found.push(Action::Crash(who));
        }
    }
    for (index, message) in world.wire.iter().enumerate() {
        found.push(Action::Arrive(index));
        // A request for a lease may be sent twice; a take never is.
        if left.repeats > 0 && message.is_lease() {
            found.push(Action::Repeat(index));
        }
    }
    found.extend((0..world.back.len()).map(Action::Return));
    if left.losses > 0 {
        found.push(Action::Lose);
    }
    if left.rollbacks > 0 {
        found.push(if world.saved.is_some() { Action::RollBack } else { Action::Save });
    }
    if left.others > 0 {
        found.push(Action::Others);
    }
    if left.waits > 0 {
        found.extend(scenario.spans.iter().map(|&span| Action::Wait(span)));
    }
}

impl World {
    /// Returns the state in which each process holds a lease.
    ///
    /// All have made checks that were served at once.
    pub fn begin_to_lease(mut self, model: &LeaseModel, engine: &mut Engine) -> Self {
        let left = self.left;
        for who in 0..self.processes.len() {
            while self.processes[who].seen.held == 0 {
                self.check(who, 1, model, engine);
                while !self.wire.is_empty() {
                    self.arrive(0, model, engine);
                }
                while !self.back.is_empty() {
                    self.give(0, engine);
                }
            }
        }
        self.left = left;
        self
    }

    /// Returns the state after a step; `None` if it does nothing.
    pub fn after(&self, action: Action, model: &LeaseModel, engine: &mut Engine) -> Option<Self> {
        let mut next = self.clone();
        match action {
            Action::Wait(span) => {
                next.left.waits -= 1;
                next.wait(span, model, engine);
            }
            Action::Check(who, n) => {
                next.left.checks -= 1;
                next.check(who, n, model, engine);
            }
            Action::Due(who) => {
                next.left.dues -= 1;
                next.react(who, &Event::Due, engine).command.as_ref()?;
            }
            Action::Refund(who) => {
                next.left.refunds -= 1;
                let used = next.processes[who].seen.used;
                let refunded = next.react(who, &Event::Refund(used), engine).refunded;
                next.bucket.refund(refunded, next.now);
                // The rest goes with a command, and is refunded when the server has it.
                *next.pending_of(who) += u64::from(used - refunded);
            }
            Action::Arrive(index) => next.arrive(index, model, engine),
            Action::Repeat(index) => {
                next.left.repeats -= 1;
                let message = Arc::clone(&next.wire[index]);
                next.arrive(index, model, engine);
                next.wire.push(message);
            }
            Action::Return(index) => next.give(index, engine),
            Action::GiveUp(who, index) => {
                next.left.give_ups -= 1;
                next.react(who, &Event::GiveUp(index), engine);
            }
            Action::Crash(who) => {
                next.left.crashes -= 1;
                let birth = next.next_birth(self.processes[who].birth.pace);
                next.processes[who] = engine.begin(birth);
                next.ends[who] = 0;
            }
            Action::Lose => {
                next.left.losses -= 1;
                next.server = Arc::default();
            }
            Action::Save => next.saved = Some(Saved { server: Arc::clone(&next.server), taken: 0 }),
            Action::RollBack => {
                next.left.rollbacks -= 1;
                let Saved { server, taken } = next.saved.take()?;
                next.server = server;
                // The promise: what the lost writes had taken, and for the rest of a lease what was leased.
                next.bucket.refund(taken, next.now);
                next.bucket.allow_step(0, terms().hold, LEASE + SLOT, next.now);
            }
            Action::Others => {
                next.left.others -= 1;
                let spare = engine.spare(&next.server, next.now)?;
                next.execute(&Arc::new(Message::take_of_others(spare, next.now)), model, engine);
            }
        }
        next.tidy(model);
        next.fault = next.fault.or_else(|| fault_of(&next, model.scenario.recovers, engine));
        Some(next)
    }

    fn wait(&mut self, span: Span, model: &LeaseModel, engine: &mut Engine) {
        self.now = match span {
            Span::Pace => self.now + 25_000,
            Span::Slot => (self.now / SLOT + 1) * SLOT,
            Span::SevenSlots => (self.now / SLOT + 7) * SLOT,
        };
        for who in 0..self.processes.len() {
            let held = self.processes[who].seen.held;
            self.react(who, &Event::Tick(self.now), engine);
            if self.processes[who].seen.held < held {
                model.witnesses.note(Witness::Ended);
            }
        }
    }

    /// Lets a process react, and sends the command that it makes.
    fn react(&mut self, who: usize, event: &Event, engine: &mut Engine) -> Arc<Output> {
        let (state, output) = engine.react(&self.processes[who], event);
        self.processes[who] = state;
        if let Some((id, command)) = &output.command {
            let holder = self.processes[who].birth.holder;
            self.wire.push(Arc::new(Message::new(*id, holder, command.clone(), self.now)));
        }
        output
    }

    fn pending_of(&mut self, who: usize) -> &mut u64 {
        self.pending.entry(self.processes[who].birth.holder).or_default()
    }

    fn admit(&mut self, n: u32) {
        if self.bucket.admit(n, self.now).is_err() {
            self.fault = Some(Fault::Envelope);
        }
    }

    fn check(&mut self, who: usize, n: u32, model: &LeaseModel, engine: &mut Engine) {
        let output = self.react(who, &Event::Check(n), engine);
        if output.spent > 0 {
            self.admit(output.spent);
            if self.now >= self.ends[who] {
                self.fault = Some(Fault::AfterItsEnd);
            }
        }
        if output.taken > 0 {
            model.witnesses.note(Witness::JointTaken);
            // The server's decision has admitted them.
            match self.pending_of(who).checked_sub(output.taken.into()) {
                Some(rest) => *self.pending_of(who) = rest,
                None => self.fault = Some(Fault::UsedTwice),
            }
        }
    }

    /// Lets a message arrive at the server.
    fn arrive(&mut self, index: usize, model: &LeaseModel, engine: &mut Engine) {
        let message = self.wire.remove(index);
        if let Some(reply) = self.execute(&message, model, engine) {
            self.back.push(Arc::new(Answered::new(&message, &reply)));
        }
    }

    /// Executes a command, and counts what the server decides.
    fn execute(&mut self, message: &Arc<Message>, model: &LeaseModel, engine: &mut Engine) -> Option<Arc<Reply>> {
        let (server, reply) = engine.execute(&self.server, self.now, message);
        self.server = server;
        let Some(reply) = reply else {
            self.fault = Some(Fault::Unreadable);
            return None;
        };
        let holder = message.holder;
        let (mut taken, mut decided, mut refund) = (0, 0, 0);
        match &message.command {
            Command::Take(limits) if reply.status == Status::Done => {
                (taken, refund) = (limits[0].1.cost, limits[0].1.refund);
                decided = taken;
            }
            Command::Take(limits) if reply.status == Status::Denied => refund = limits[0].1.refund,
            Command::Lease(_, ask) => {
                if let Some(grant) = reply.grant {
                    let is_new = self.executed.insert((holder, ask.seq));
                    refund = if is_new { ask.refund } else { 0 };
                    taken = if is_new { grant.granted } else { 0 };
                    let is_taken_back = self.executed.contains(&(holder, ask.ack + 1)) && ask.ack + 1 < ask.seq;
                    model.witnesses.note_if(!is_new, Witness::Repeated);
                    model.witnesses.note_if(is_taken_back, Witness::TakenBack);
                    model.witnesses.note_if(grant.kept < ask.unspent, Witness::Unknown);
                }
            }
            Command::Take(_) | Command::Reset(_) | Command::ByPlan(_) => {}
        }
        model.witnesses.note_if(reply.status == Status::Stale, Witness::Stale);
        model.witnesses.note_if(reply.status == Status::Late, Witness::Late);
        if let Some(saved) = &mut self.saved {
            saved.taken += taken;
        }
        // Each refund once, and no more than was there to refund.
        let pending = self.pending.entry(holder).or_default();
        let refund = refund.min(*pending);
        *pending -= refund;
        self.bucket.refund(refund as u32, self.now);
        // A decision counts when it is made, also one whose reply is lost. The script books the refund before it.
        self.admit(decided);
        Some(reply)
    }

    /// Gives a reply to its process.
    fn give(&mut self, index: usize, engine: &mut Engine) {
        let answered = self.back.remove(index);
        let delivery = &answered.delivery;
        let Some(who) = self.processes.iter().position(|process| process.birth.holder == delivery.holder) else {
            return;
        };
        let waits = self.processes[who].seen.waiting.contains(&delivery.id);
        let output = self.react(who, &Event::Reply(Arc::clone(delivery)), engine);
        *self.pending_of(who) += u64::from(output.set_aside);
        if let Some(grant) = delivery.reply.grant
            && waits
        {
            self.ends[who] = answered.request.sent + grant.length;
        }
    }

    /// Forgets what can have no effect any more, and puts messages in order, so that equal states are one.
    fn tidy(&mut self, model: &LeaseModel) {
        let waits = |holder: u64, id: u64| {
            let mut processes = self.processes.iter();
            processes.any(|process| process.birth.holder == holder && process.seen.waiting.contains(&id))
        };
        let server_now = START + self.now;
        let is_live = |message: &Message| server_now <= message.frame.not_after || waits(message.holder, message.id);
        self.wire.retain(|message| is_live(message));
        // Of a broken rule late replies matter.
        if model.rules.broken != Broken::LateRepliesDiscarded {
            self.back.retain(|answered| waits(answered.delivery.holder, answered.delivery.id));
        }
        self.wire.sort_by_key(|message| (message.holder, message.id));
        self.wire.dedup();
        self.back.sort_by_key(|answered| (answered.delivery.holder, answered.delivery.id));
    }
}
