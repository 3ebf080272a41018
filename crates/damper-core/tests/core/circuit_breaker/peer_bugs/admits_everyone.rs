//! A half-open breaker that ignores how many probes are in flight.

use crate::circuit_breaker::peer_bugs::{COOLDOWN, Outcome, Probed};
use damper::breaker::State;
use std::cell::Cell;

pub(crate) struct AdmitsEveryone {
    open_until: Cell<Option<u64>>,
}

impl Probed for AdmitsEveryone {
    type Permit<'a> = ();

    fn new(_probes: u32, _successes: u32) -> Self {
        Self { open_until: Cell::new(None) }
    }

    fn acquire(&self, now: u64) -> Option<()> {
        self.open_until.get().is_none_or(|until| now >= until).then_some(())
    }

    fn record(&self, (): (), outcome: Outcome, now: u64) {
        match outcome {
            Outcome::Success => self.open_until.set(None),
            Outcome::Failure => self.open_until.set(Some(now + COOLDOWN)),
            Outcome::Dropped => {}
        }
    }

    fn state(&self, now: u64) -> State {
        match self.open_until.get() {
            None => State::Closed,
            Some(until) if now >= until => State::HalfOpen,
            Some(_) => State::Open,
        }
    }
}
