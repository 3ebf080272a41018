//! A breaker that counts the places left for probes, with two ways to get a dropped permit wrong.
//!
//! A permit does not record whether it took a place, so a drop cannot know whether to return one.

use crate::circuit_breaker::peer_bugs::{COOLDOWN, Outcome, Probed};
use damper::breaker::State;
use std::cell::Cell;
use std::marker::PhantomData;

/// Returns how many places are left after a permit was dropped.
pub(crate) trait OnDrop {
    fn places_left(before: u32) -> u32;
}

pub(crate) struct CountedPlaces<D> {
    state: Cell<State>,
    open_until: Cell<u64>,
    places_left: Cell<u32>,
    places: u32,
    on_drop: PhantomData<D>,
}

impl<D: OnDrop + 'static> Probed for CountedPlaces<D> {
    type Permit<'a> = ();

    fn new(probes: u32, _successes: u32) -> Self {
        Self {
            state: Cell::new(State::Closed),
            open_until: Cell::new(0),
            places_left: Cell::new(0),
            places: probes,
            on_drop: PhantomData,
        }
    }

    fn acquire(&self, now: u64) -> Option<()> {
        if self.state.get() == State::Open && now >= self.open_until.get() {
            self.state.set(State::HalfOpen);
            self.places_left.set(self.places);
        }
        match self.state.get() {
            State::Closed => Some(()),
            State::HalfOpen => {
                self.places_left.set(self.places_left.get().checked_sub(1)?);
                Some(())
            }
            _ => None,
        }
    }

    fn record(&self, (): (), outcome: Outcome, now: u64) {
        match outcome {
            Outcome::Success => self.state.set(State::Closed),
            Outcome::Failure => {
                self.state.set(State::Open);
                self.open_until.set(now + COOLDOWN);
            }
            Outcome::Dropped => self.places_left.update(D::places_left),
        }
    }

    fn state(&self, _now: u64) -> State {
        self.state.get()
    }
}
