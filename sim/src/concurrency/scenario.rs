//! Scenarios: a server, its clients, and how its power changes.

use super::server::{Discipline, Power};
use super::service_time::ServiceTime;

/// A server and its clients, for a while.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in the tables.
    pub name: &'static str,
    /// How the server shares its capacity among calls.
    pub discipline: Discipline,
    /// The number of workers or cores, or of calls at the knee.
    pub size: f64,
    /// Its service times.
    pub service: ServiceTime,
    /// Its clients.
    pub demand: Demand,
    /// How the server's power changes.
    pub trouble: Trouble,
    /// The length in seconds.
    pub length: f64,
}

/// The clients of a server.
#[derive(Clone, Copy, Debug)]
pub enum Demand {
    /// Independent random calls, whatever happened to earlier calls.
    Open(Load),
    /// This many clients, each of which pauses after each response or refusal, and calls again.
    Closed {
        /// The number of clients.
        clients: u32,
        /// The mean of the exponential pause, in seconds.
        think: f64,
    },
    /// Independent calls whose clients stop waiting and retry.
    Impatient(Load, Patience),
}

/// How a client gives up.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long a client waits for a response, in seconds. The server continues regardless.
    pub timeout: f64,
    /// How often it retries after a timeout or a refusal, 0.1 s later.
    pub retries: u8,
    /// The position of the limit.
    pub limit_at: Side,
}

/// The side of the network that has the limit. It decides how a timeout ends a call for the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before the server, which cannot see that a client disconnected, so the call ends normally.
    Server,
    /// At the clients: the call ends as overloaded at its timeout, and the server continues it regardless.
    Client,
}

/// Calls a second as a multiple of the server's capacity at the start.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// A constant multiple.
    Steady(f64),
    /// From the first to the second, linearly.
    Ramp(f64, f64),
    /// Each multiple in turn, for equal times.
    Steps([f64; 5]),
}

impl Load {
    /// Returns the multiple after `part` of the scenario.
    #[must_use]
    pub fn at(self, part: f64) -> f64 {
        match self {
            Self::Steady(load) => load,
            Self::Ramp(from, to) => from + (to - from) * part,
            Self::Steps(steps) => steps[((part * 5.0) as usize).min(4)],
        }
    }
}

/// A change of the server's power, starting at half of the scenario.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// No change.
    None,
    /// For a minute the power has `size` and `speed` times its initial values.
    Minute(f64, f64),
    /// From then on the speed is multiplied by this: a release that is slower for good.
    Slower(f64),
    /// A pause of the first length at every interval of the second, throughout.
    Pauses(f64, f64),
}

/// A change of the server's power.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The time in seconds.
    pub at: f64,
    /// The power from then on.
    pub power: Power,
}

impl Scenario {
    /// Creates a scenario of 30 minutes without a disturbance.
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

    /// Sets the disturbance of the server.
    #[must_use]
    pub const fn trouble(self, trouble: Trouble) -> Self {
        Self { trouble, ..self }
    }

    /// Sets the length of the scenario.
    #[must_use]
    pub const fn seconds(self, length: f64) -> Self {
        Self { length, ..self }
    }

    /// Returns the seconds at the start that do not count.
    #[must_use]
    pub fn warm_up(&self) -> f64 {
        (self.length / 5.0).min(120.0)
    }

    /// Returns the completions per second at the initial power.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.size / self.service.mean
    }

    /// Returns the calls per second that clients want to make.
    #[must_use]
    pub fn offered(&self, now: f64) -> f64 {
        match self.demand {
            Demand::Open(load) | Demand::Impatient(load, _) => load.at(now / self.length) * self.capacity(),
            Demand::Closed { clients, think } => f64::from(clients) / (think + self.service.mean),
        }
    }

    /// Returns the changes of the server's power, the first at 0.
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

    /// Returns when the disturbance starts and when the server has its final power, if there is one.
    #[must_use]
    pub fn disturbance(&self) -> Option<(f64, f64)> {
        let half = self.length / 2.0;
        match self.trouble {
            Trouble::None | Trouble::Pauses(..) => None,
            Trouble::Minute(..) => Some((half, half + 60.0)),
            Trouble::Slower(_) => Some((half, half)),
        }
    }

    /// Returns when the minute of disturbance starts and ends, if the server works during it.
    #[must_use]
    pub fn minute(&self) -> Option<(f64, f64)> {
        match self.trouble {
            Trouble::Minute(_, speed) if speed > 0.0 => self.disturbance(),
            _ => None,
        }
    }

    /// Returns an unloaded server's service time relative to the initial one.
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
