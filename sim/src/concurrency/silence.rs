//! How long a service went without a response while calls arrived.

/// The time since the last response, and the longest such time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    /// The last response, or the first call after it. `None` if no call was made since.
    since: Option<f64>,
    /// Whether the server stands still, so that no limit could help.
    is_halted: bool,
    longest: f64,
}

impl Silence {
    /// Records a call, admitted or refused.
    pub fn called(&mut self, now: f64) {
        if !self.is_halted {
            self.since.get_or_insert(now);
        }
    }

    /// Records a response, with the number of calls still in flight.
    pub fn answered(&mut self, now: f64, in_flight: u32) {
        self.note(now);
        self.since = (in_flight > 0).then_some(now);
    }

    /// Records the server's speed from now on. Time at a speed of 0 does not count.
    pub fn speed_changed(&mut self, now: f64, speed: f64) {
        self.note(now);
        self.is_halted = speed <= 0.0;
        if self.is_halted {
            self.since = None;
        }
    }

    /// Returns the longest time without a response until now, in seconds.
    #[must_use]
    pub fn longest(mut self, now: f64) -> f64 {
        self.note(now);
        self.longest
    }

    fn note(&mut self, now: f64) {
        if let Some(since) = self.since {
            self.longest = self.longest.max(now - since);
        }
    }
}
