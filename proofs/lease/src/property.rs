//! The properties that hold in every state.

use crate::engine::Engine;
use crate::model::LeaseModel;
use crate::recovery;
use crate::world::World;
use stateright::Property;

/// A property that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    Envelope,
    TwoHands,
    AfterItsEnd,
    UsedTwice,
    Orphan,
    NotServed,
    Unreadable,
}

/// All that must not happen, with the name of the property.
pub const PROPERTIES: [(Fault, &str); 7] = [
    (Fault::Envelope, "envelope"),
    (Fault::TwoHands, "one-hand"),
    (Fault::AfterItsEnd, "no-spend-after-end"),
    (Fault::UsedTwice, "joint-tokens-once"),
    (Fault::Orphan, "no-orphan-wait"),
    (Fault::NotServed, "served"),
    (Fault::Unreadable, "readable"),
];

/// Returns the properties as stateright checks them.
pub fn properties() -> Vec<Property<LeaseModel>> {
    vec![
        Property::always("envelope", |_, world: &World| world.fault != Some(Fault::Envelope)),
        Property::always("one-hand", |_, world: &World| world.fault != Some(Fault::TwoHands)),
        Property::always("no-spend-after-end", |_, world: &World| world.fault != Some(Fault::AfterItsEnd)),
        Property::always("joint-tokens-once", |_, world: &World| world.fault != Some(Fault::UsedTwice)),
        Property::always("no-orphan-wait", |_, world: &World| world.fault != Some(Fault::Orphan)),
        Property::always("served", |_, world: &World| world.fault != Some(Fault::NotServed)),
        Property::always("readable", |_, world: &World| world.fault != Some(Fault::Unreadable)),
    ]
}

/// Returns the property that a new state breaks.
pub fn fault_of(world: &World, recovers: bool, engine: &mut Engine) -> Option<Fault> {
    let mut held = 0;
    for (process, &end) in world.processes.iter().zip(&world.ends) {
        let seen = &process.seen;
        if seen.held > 0 && world.now >= end {
            return Some(Fault::AfterItsEnd);
        }
        if seen.is_joinable && !seen.waits_for_joint {
            return Some(Fault::Orphan);
        }
        held += seen.held;
    }
    // As if all tokens were used now, those in leases and those that the server has: no state is worse.
    let Some(spare) = engine.spare(&world.server, world.now) else { return Some(Fault::Unreadable) };
    let all = held + spare;
    if world.bucket.clone().admit(all, world.now).is_err() {
        return Some(Fault::TwoHands);
    }
    (recovers && !recovery::serves(world, engine)).then_some(Fault::NotServed)
}
