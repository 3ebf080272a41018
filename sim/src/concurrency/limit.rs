//! The interface of a concurrency limit in the simulation.

/// A concurrency limit, or none.
pub trait Limit {
    /// Admits `call`, or refuses it. Calls are numbered from 0, and numbers of finished calls are reused.
    fn try_acquire(&mut self, now: f64, call: usize) -> bool;

    /// Records that an admitted call has finished.
    fn finished(&mut self, now: f64, call: Finished);

    /// Returns the limit in force.
    fn limit(&self) -> f64;
}

/// A finished call.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Its number.
    pub call: usize,
    /// The time from its start to its end, in seconds.
    pub latency: f64,
    /// The calls in flight at its start, including itself.
    pub in_flight: u32,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call succeeded.
    Success,
    /// The call failed because of overload or a timeout.
    Overloaded,
}

/// A rule that computes a limit from samples, as the other projects' rules do.
pub trait Rule {
    /// Returns the limit in force.
    fn limit(&self) -> f64;

    /// Records a finished call. `in_flight` others are still in flight.
    fn sample(&mut self, now: f64, call: &Finished, in_flight: u32);
}

/// Counts the calls in flight and keeps them within a rule's limit.
#[derive(Clone, Debug)]
pub struct Gate<R> {
    rule: R,
    in_flight: u32,
}

impl<R: Rule> Gate<R> {
    /// Creates a gate without calls.
    pub const fn new(rule: R) -> Self {
        Self { rule, in_flight: 0 }
    }
}

impl<R: Rule> Limit for Gate<R> {
    fn try_acquire(&mut self, _now: f64, _call: usize) -> bool {
        let free = f64::from(self.in_flight) < self.rule.limit().floor();
        self.in_flight += u32::from(free);
        free
    }

    fn finished(&mut self, now: f64, call: Finished) {
        self.in_flight -= 1;
        self.rule.sample(now, &call, self.in_flight);
    }

    fn limit(&self) -> f64 {
        self.rule.limit()
    }
}
