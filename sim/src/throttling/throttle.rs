//! The trait of throttles in the simulation.

use damper::ManualClock;
use damper::throttle::{Hints, PacedAttempts, PacedRetry, Pacer, Strategy};
use std::sync::Arc;
use std::time::Duration;

/// Says how long a client sleeps: answer in, sleep out.
///
/// Times are in seconds; `chance` is a random number between 0 and 1. A strategy of your own implements damper's
/// [`Strategy`] instead, and is run by [`Paced`].
pub trait Throttle {
    /// Returns how long to sleep before a call.
    fn before_call(&mut self, now: f64, chance: f64) -> f64;

    /// Takes note of an answer.
    ///
    /// Returns how long to sleep before the call is made again, or `None` if the caller gets the answer.
    fn answered(&mut self, hints: &Hints, now: f64, chance: f64) -> Option<f64>;

    /// Begins a sleep, which knows of the present pause. Default: `None`, because nothing lengthens a sleep.
    fn sleeper(&self) -> Option<PacedAttempts> {
        None
    }

    /// Returns how much longer a client sleeps that has slept, because another pause has begun meanwhile.
    fn extension(&mut self, _: &mut PacedAttempts, _now: f64) -> Option<f64> {
        None
    }
}

/// damper's pacer with any strategy, on a manual clock.
#[derive(Debug)]
pub struct Paced<S> {
    pacer: Pacer<S, Arc<ManualClock>>,
    clock: Arc<ManualClock>,
}

impl<S: Strategy> Paced<S> {
    /// Creates a pacer with a seed of its own.
    #[must_use]
    pub fn new(strategy: S, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        Self { pacer: Pacer::with_clock(strategy, Arc::clone(&clock), seed), clock }
    }

    fn at(&self, now: f64) {
        self.clock.set_ticks((now * 1e9) as u64);
    }
}

impl<S: Strategy> Throttle for Paced<S> {
    fn before_call(&mut self, now: f64, _: f64) -> f64 {
        self.at(now);
        self.pacer.before_call().as_secs_f64()
    }

    fn answered(&mut self, hints: &Hints, now: f64, _: f64) -> Option<f64> {
        self.at(now);
        self.pacer.answered(hints).as_ref().map(Duration::as_secs_f64)
    }

    fn sleeper(&self) -> Option<PacedAttempts> {
        Some(self.pacer.begin())
    }

    fn extension(&mut self, sleeper: &mut PacedAttempts, now: f64) -> Option<f64> {
        self.at(now);
        let patient = PacedRetry::new(u32::MAX).max_time(Duration::MAX);
        sleeper.after_sleep(&self.pacer, &patient).ok().flatten().as_ref().map(Duration::as_secs_f64)
    }
}

/// Passes refusals on: the client never sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Unthrottled;

impl Throttle for Unthrottled {
    fn before_call(&mut self, _: f64, _: f64) -> f64 {
        0.0
    }

    fn answered(&mut self, _: &Hints, _: f64, _: f64) -> Option<f64> {
        None
    }
}
