//! The model that stateright explores.

use crate::action::{Action, actions};
use crate::engine::{Engine, Rules};
use crate::property::properties;
use crate::scenario::Scenario;
use crate::witness::Witnesses;
use crate::world::World;
use stateright::{Model, Property};

/// The lease protocol in one scenario, under these rules.
#[derive(Debug)]
pub struct LeaseModel {
    pub scenario: Scenario,
    pub rules: Rules,
    pub witnesses: Witnesses,
}

impl Model for LeaseModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        Engine::with(&self.rules, |engine| {
            let begun = |paces: &&[usize]| {
                let world = World::new(&self.scenario, paces, engine);
                if self.scenario.leases { world.begin_to_lease(self, engine) } else { world }
            };
            self.scenario.paces.iter().map(begun).collect()
        })
    }

    fn actions(&self, world: &World, found: &mut Vec<Action>) {
        if world.fault.is_none() {
            actions(world, &self.scenario, found);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        Engine::with(&self.rules, |engine| world.after(action, self, engine))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties()
    }
}
