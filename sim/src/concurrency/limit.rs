//! What a concurrency limit is to the simulation.

/// A concurrency limit, or none.
pub trait Limit {
    /// Lets `call` start, or refuses it. Calls are numbered from 0; the number of a finished call is used again.
    fn try_acquire(&mut self, now: f64, call: usize) -> bool;

    /// A call that started has finished.
    fn finished(&mut self, now: f64, call: Finished);

    /// The limit in force.
    fn limit(&self) -> f64;
}

/// A finished call.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Its number.
    pub call: usize,
    /// From its start to its end, in seconds.
    pub latency: f64,
    /// The calls in flight when it started, itself included.
    pub in_flight: u32,
    /// How it went.
    pub outcome: Outcome,
}

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Success,
    /// It failed for overload, or by a timeout.
    Overloaded,
}

/// A rule that makes a limit of samples: all that the peers' rules know.
pub trait Rule {
    /// The limit in force.
    fn limit(&self) -> f64;

    /// A call that started has finished, and `in_flight` others have not.
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
