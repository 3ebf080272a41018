//! One probe at a time, and its success closes the breaker, whatever number is configured.

use crate::circuit_breaker::peer_bugs::{COOLDOWN, Outcome, Probed};
use damper::breaker::State;
use std::cell::Cell;

pub(crate) struct FirstSuccessCloses {
    state: Cell<State>,
    open_until: Cell<u64>,
}

impl Probed for FirstSuccessCloses {
    type Permit<'a> = ();

    fn new(_probes: u32, _successes: u32) -> Self {
        Self { state: Cell::new(State::Closed), open_until: Cell::new(0) }
    }

    fn acquire(&self, now: u64) -> Option<()> {
        if self.state.get() == State::Open && now >= self.open_until.get() {
            self.state.set(State::HalfOpen);
        }
        (self.state.get() != State::Open).then_some(())
    }

    fn record(&self, (): (), outcome: Outcome, now: u64) {
        match outcome {
            Outcome::Success => self.state.set(State::Closed),
            Outcome::Failure => {
                self.state.set(State::Open);
                self.open_until.set(now + COOLDOWN);
            }
            Outcome::Dropped => {}
        }
    }

    fn state(&self, _now: u64) -> State {
        self.state.get()
    }
}
