//! Whoever gives a permit back gives a probe's place back, whether it took one or not.

use crate::{COOLDOWN, Outcome, Probed};
use damper::State;
use std::cell::Cell;

pub(crate) struct GivenBackTwice {
    state: Cell<State>,
    open_until: Cell<u64>,
    probes_left: Cell<u32>,
    probes: u32,
}

impl Probed for GivenBackTwice {
    type Permit<'a> = ();

    fn new(probes: u32, _successes: u32) -> Self {
        Self { state: Cell::new(State::Closed), open_until: Cell::new(0), probes_left: Cell::new(0), probes }
    }

    fn ask(&self, now: u64) -> Option<()> {
        if self.state.get() == State::Open && now >= self.open_until.get() {
            self.state.set(State::HalfOpen);
            self.probes_left.set(self.probes);
        }
        match self.state.get() {
            State::Closed => Some(()),
            State::HalfOpen => {
                self.probes_left.set(self.probes_left.get().checked_sub(1)?);
                Some(())
            }
            _ => None,
        }
    }

    fn tell(&self, (): (), outcome: Outcome, now: u64) {
        match outcome {
            Outcome::Success => self.state.set(State::Closed),
            Outcome::Failure => {
                self.state.set(State::Open);
                self.open_until.set(now + COOLDOWN);
            }
            Outcome::Dropped => self.probes_left.update(|left| left + 1),
        }
    }

    fn state(&self, _now: u64) -> State {
        self.state.get()
    }
}
