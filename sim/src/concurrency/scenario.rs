//! Scenarios: a server, its clients, and how its power changes.

use super::server::{Discipline, Power};
use super::service_time::ServiceTime;

/// A server and its clients, for a while.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in the tables.
    pub name: &'static str,
    /// How the server shares itself.
    pub discipline: Discipline,
    /// Its workers or cores, or the calls at its knee.
    pub size: f64,
    /// Its service times.
    pub service: ServiceTime,
    /// Its clients.
    pub demand: Demand,
    /// How the server's power changes.
    pub trouble: Trouble,
    /// How long it lasts, in seconds.
    pub length: f64,
}

/// The clients of a server.
#[derive(Clone, Copy, Debug)]
pub enum Demand {
    /// Independent calls, by chance, whatever became of the calls before.
    Open(Load),
    /// So many clients, each of which thinks after each answer or refusal, and calls again.
    Closed {
        /// The number of clients.
        clients: u32,
        /// The mean time of thought, in seconds; exponential.
        think: f64,
    },
    /// Independent calls whose clients stop waiting and try again.
    Impatient(Load, Patience),
}

/// How a client gives up.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long a client waits for an answer, in seconds. The server goes on all the same.
    pub timeout: f64,
    /// How often it tries again after a timeout or a refusal, 0.1 s later.
    pub retries: u8,
    /// Where the limit is.
    pub limit_at: Side,
}

/// The side of the network on which a limit is. It decides how a timeout ends a call for the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before the server, which does not know that a client went away: the call ends as any other.
    Server,
    /// At the clients: the call is over at its timeout, as overloaded, and the server goes on with it all the same.
    Client,
}

/// Calls a second as a multiple of the server's capacity at the start.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// The same multiple all the time.
    Steady(f64),
    /// From the one to the other in a straight line.
    Ramp(f64, f64),
    /// One after the other, each for as long.
    Steps([f64; 5]),
}

impl Load {
    /// Returns the multiple once `part` of the scenario has passed.
    #[must_use]
    pub fn at(self, part: f64) -> f64 {
        match self {
            Self::Steady(load) => load,
            Self::Ramp(from, to) => from + (to - from) * part,
            Self::Steps(steps) => steps[((part * 5.0) as usize).min(4)],
        }
    }
}

/// A change of the server's power, beginning at half of the scenario.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// Nothing.
    None,
    /// For a minute it has the power of `size` and `speed` times what it was.
    Minute(f64, f64),
    /// From then on it has so many times the speed: a release that is slower for good.
    Slower(f64),
    /// A pause of the first length every so many seconds, all the time.
    Pauses(f64, f64),
}

/// A change of the server's power.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// When, in seconds.
    pub at: f64,
    /// What it can do from then on.
    pub power: Power,
}

impl Scenario {
    /// Creates a scenario of 30 minutes without trouble.
    #[must_use]
    pub const fn new(
        name: &'static str,
        discipline: Discipline,
        size: f64,
        service: ServiceTime,
        demand: Demand,
    ) -> Self {
        Self { name, discipline, size, service, demand, trouble: Trouble::None, length: 1800.0 }
    }

    /// Sets what becomes of the server.
    #[must_use]
    pub const fn trouble(self, trouble: Trouble) -> Self {
        Self { trouble, ..self }
    }

    /// Sets how long the scenario lasts.
    #[must_use]
    pub const fn seconds(self, length: f64) -> Self {
        Self { length, ..self }
    }

    /// The seconds at the start that do not count.
    #[must_use]
    pub fn warm_up(&self) -> f64 {
        (self.length / 5.0).min(120.0)
    }

    /// Completions a second that the server can do, with the power of the start.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.size / self.service.mean
    }

    /// Calls a second that clients want to make.
    #[must_use]
    pub fn offered(&self, now: f64) -> f64 {
        match self.demand {
            Demand::Open(load) | Demand::Impatient(load, _) => load.at(now / self.length) * self.capacity(),
            Demand::Closed { clients, think } => f64::from(clients) / (think + self.service.mean),
        }
    }

    /// The changes of the server's power, the first at 0.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let change =
            |at, size: f64, speed| Change { at, power: Power { size: (self.size * size).round().max(1.0), speed } };
        let (normal, half) = (change(0.0, 1.0, 1.0), self.length / 2.0);
        match self.trouble {
            Trouble::None => vec![normal],
            Trouble::Minute(size, speed) => {
                vec![normal, change(half, size, speed), change(half + 60.0, 1.0, 1.0)]
            }
            Trouble::Slower(speed) => vec![normal, change(half, 1.0, speed)],
            Trouble::Pauses(length, every) => {
                let mut changes = vec![normal];
                for pause in 1..(self.length / every) as u32 {
                    let at = f64::from(pause) * every;
                    changes.extend([change(at, 1.0, 0.0), change(at + length, 1.0, 1.0)]);
                }
                changes
            }
        }
    }

    /// When the trouble begins, and when the server has the power that it keeps, if there is such a trouble.
    #[must_use]
    pub fn disturbance(&self) -> Option<(f64, f64)> {
        let half = self.length / 2.0;
        match self.trouble {
            Trouble::None | Trouble::Pauses(..) => None,
            Trouble::Minute(..) => Some((half, half + 60.0)),
            Trouble::Slower(_) => Some((half, half)),
        }
    }

    /// When the minute of trouble begins and ends, if there is one in which the server works on.
    #[must_use]
    pub fn minute(&self) -> Option<(f64, f64)> {
        match self.trouble {
            Trouble::Minute(_, speed) if speed > 0.0 => self.disturbance(),
            _ => None,
        }
    }

    /// The service time of a server without load beside that at the start.
    #[must_use]
    pub fn stretch(&self, now: f64) -> f64 {
        let half = self.length / 2.0;
        match self.trouble {
            Trouble::Slower(speed) if now >= half => 1.0 / speed,
            Trouble::Minute(_, speed) if speed > 0.0 && (half..half + 60.0).contains(&now) => 1.0 / speed,
            _ => 1.0,
        }
    }
}
