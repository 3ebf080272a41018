//! A run without faults, in which every process has to be served.

use crate::engine::{Engine, Message, START};
use crate::process_state::{Event, Machine};
use crate::scenario::LEASE;
use crate::world::{Delivery, World};
use std::sync::Arc;

/// The time between two checks of a process, in µs.
const STEP: u64 = 5_000;

/// The time within which each process has to be served, in µs.
///
/// A process waits for 20 ms after a loss, and after a request that brought too little for a quarter of a lease and a
/// quarter more. After a whole lease it would give up a command that it waits for in vain, which must not be needed.
const SOON: u64 = LEASE / 2;

/// Returns whether each process gets a token soon after all that is on its way got lost.
pub fn serves(world: &World, engine: &mut Engine) -> bool {
    let mut machines: Vec<Machine> =
        world.processes.iter().map(|process| process.machine(&engine.plan, engine.rules.broken)).collect();
    engine.server.set_time(START + world.now);
    engine.server.restore(world.server.memory.clone());
    for (machine, process) in machines.iter_mut().zip(&world.processes) {
        for _ in 0..process.seen.waiting.len() {
            machine.apply(&Event::GiveUp(0));
        }
    }
    let mut unserved: Vec<usize> = (0..machines.len()).collect();
    let mut now = world.now;
    while !unserved.is_empty() && now < world.now + SOON {
        now += STEP;
        engine.server.set_time(START + now);
        for machine in &mut machines {
            machine.apply(&Event::Tick(now));
            run(machine, &Event::Due, now, engine);
        }
        unserved.retain(|&who| !is_served(&mut machines[who], now, engine));
    }
    unserved.is_empty()
}

/// Checks one token, and again when a command that the check waited for has an outcome.
fn is_served(machine: &mut Machine, now: u64, engine: &Engine) -> bool {
    (0..3).any(|_| run(machine, &Event::Check(1), now, engine))
}

/// Runs an event, and the command that it makes. Returns whether a token was allowed.
fn run(machine: &mut Machine, event: &Event, now: u64, engine: &Engine) -> bool {
    let used = machine.process.used;
    let output = machine.apply(event);
    if let Some((id, command)) = output.command {
        let holder = machine.process.holder;
        let Message { command, frame, .. } = Message::new(id, holder, command, now);
        let reply = engine.server.execute(&engine.keys, holder, &command, &frame).expect("a reply of the script");
        machine.apply(&Event::Reply(Arc::new(Delivery { id, holder, reply })));
    }
    machine.process.used > used
}
