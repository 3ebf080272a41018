//! A permit does not record the state that admitted it, so its result counts in the current one.

use crate::circuit_breaker::peer_bugs::{COOLDOWN, Outcome, Probed};
use damper::breaker::State;
use std::cell::Cell;

pub(crate) struct NoGeneration {
    state: Cell<State>,
    open_until: Cell<u64>,
    probes_in_flight: Cell<u32>,
}

impl Probed for NoGeneration {
    type Permit<'a> = ();

    fn new(_probes: u32, _successes: u32) -> Self {
        Self { state: Cell::new(State::Closed), open_until: Cell::new(0), probes_in_flight: Cell::new(0) }
    }

    fn acquire(&self, now: u64) -> Option<()> {
        if self.state.get() == State::Open && now >= self.open_until.get() {
            self.state.set(State::HalfOpen);
            self.probes_in_flight.set(0);
        }
        match self.state.get() {
            State::Closed => Some(()),
            State::HalfOpen if self.probes_in_flight.get() == 0 => {
                self.probes_in_flight.set(1);
                Some(())
            }
            _ => None,
        }
    }

    fn record(&self, (): (), outcome: Outcome, now: u64) {
        match (self.state.get(), outcome) {
            (State::HalfOpen, Outcome::Success) => self.state.set(State::Closed),
            (State::HalfOpen | State::Closed, Outcome::Failure) => {
                self.state.set(State::Open);
                self.open_until.set(now + COOLDOWN);
            }
            _ => {}
        }
    }

    fn state(&self, _now: u64) -> State {
        self.state.get()
    }
}
