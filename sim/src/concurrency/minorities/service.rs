//! A service with polite and other callers.

use crate::concurrency::service_time::ServiceTime;

/// The workers of most services, and the mean time of a call.
pub const WORKERS: u32 = 20;
/// The mean time of a call in seconds; 20 workers end 1,000 calls a second.
pub const MEAN: f64 = 0.02;

/// The kinds of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Overloaded replies that do not depend on the load.
    Refusals,
    /// Successes that cost nothing, or mixes that change.
    Mixes,
    /// Deadlines that a few callers choose.
    Deadlines,
    /// Clocks whose ticks are as long as calls.
    Clocks,
    /// Overload that does depend on the load.
    Overload,
    /// Services that the rule was not designed on.
    HeldOut,
}

/// The result of a call and its time.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// A worker is busy for a time that is drawn; then the call succeeds.
    Worker(ServiceTime),
    /// The call succeeds after so many seconds, beside the workers.
    Success(f64),
    /// The call ends as overloaded after so many seconds, beside the workers.
    Overloaded(f64),
}

/// When callers of a kind call.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// All the time.
    Always,
    /// In every other turn of so many seconds, from the first or the second one.
    Turns(f64, bool),
    /// In turns of so many seconds by chance.
    ///
    /// Callers with `true` call in those in which callers with `false` do not.
    Chance(f64, bool),
    /// In the first seconds of every so many.
    Part(f64, f64),
    /// From this second on.
    From(f64),
}

/// Calls of one kind, at random times.
#[derive(Clone, Copy, Debug)]
pub struct Callers {
    /// Whether what they get is what a limit is for.
    pub is_polite: bool,
    /// Calls a second while they call.
    pub rate: f64,
    /// The result of a call.
    pub work: Work,
    /// When they call.
    pub when: When,
}

/// A queue before the workers that refuses calls when it is full.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// The calls that wait.
    pub length: usize,
    /// Seconds until a call that finds it full ends as overloaded.
    pub refusal: f64,
}

/// A service and its callers.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name in the tables.
    pub name: String,
    /// Its group.
    pub group: Group,
    /// Calls that run at once; the others wait in FIFO order.
    pub workers: u32,
    /// The seconds from and until which only a third of the workers work.
    pub drop: Option<(f64, f64)>,
    /// The bound of the waiting calls, if there is one.
    pub queue: Option<Queue>,
    /// The clients that share the callers, each with a limit of its own.
    pub clients: u32,
    /// The seconds of a tick of the limit's clock.
    pub grain: f64,
    /// The callers.
    pub callers: Vec<Callers>,
    /// The least goodput of polite callers, as a share of that under the best fixed limit.
    pub least: f64,
    /// The highest p90 of polite calls, as a multiple of that under the best fixed limit.
    pub most_p90: f64,
}

impl Callers {
    /// Creates callers that are polite, and call all the time.
    #[must_use]
    pub const fn polite(rate: f64, work: Work) -> Self {
        Self { is_polite: true, rate, work, when: When::Always }
    }

    /// Creates callers that are not.
    #[must_use]
    pub const fn others(rate: f64, work: Work) -> Self {
        Self { is_polite: false, ..Self::polite(rate, work) }
    }

    /// Sets when they call.
    #[must_use]
    pub const fn when(self, when: When) -> Self {
        Self { when, ..self }
    }
}

impl Service {
    /// Creates a service of 20 workers, one client, and a clock of nanoseconds.
    #[must_use]
    pub fn new(group: Group, name: impl Into<String>, callers: Vec<Callers>) -> Self {
        Self {
            name: name.into(),
            group,
            workers: WORKERS,
            drop: None,
            queue: None,
            clients: 1,
            grain: 1e-9,
            callers,
            least: 0.85,
            most_p90: 2.4,
        }
    }

    /// Sets the number of workers.
    #[must_use]
    pub fn workers(self, workers: u32) -> Self {
        Self { workers, ..self }
    }

    /// Sets a bound of the waiting calls.
    #[must_use]
    pub fn queue(self, length: usize, refusal: f64) -> Self {
        Self { queue: Some(Queue { length, refusal }), ..self }
    }

    /// Takes two thirds of the workers for half a minute.
    #[must_use]
    pub fn drop(self) -> Self {
        Self { drop: Some((60.0, 90.0)), ..self }
    }

    /// Sets the number of clients.
    #[must_use]
    pub fn clients(self, clients: u32) -> Self {
        Self { clients, ..self }
    }

    /// Sets the seconds of a tick of the limit's clock.
    #[must_use]
    pub fn grain(self, grain: f64) -> Self {
        Self { grain, ..self }
    }

    /// Sets the figures to reach.
    #[must_use]
    pub fn bars(self, least: f64, most_p90: f64) -> Self {
        Self { least, most_p90, ..self }
    }

    /// Returns the workers at a time.
    #[must_use]
    pub fn workers_at(&self, now: f64) -> u32 {
        match self.drop {
            Some((from, until)) if (from..until).contains(&now) => (self.workers / 3).max(1),
            _ => self.workers,
        }
    }
}
