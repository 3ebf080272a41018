//! Strategies 2 to 4.

use crate::throttling::throttle::Throttle;
use damper::throttle::Hints;

/// The decrease of the sleep by a success.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decrease {
    /// The shortest sleep.
    Gradual,
    /// The sleep divided by this.
    Proportional(f64),
    /// The sleep times what remains, divided by this.
    Remaining(f64),
}

/// A sleep that is kept between calls and slept before each. A refusal increases it exponentially.
#[derive(Clone, Copy, Debug)]
pub struct KeptSleep {
    /// The seconds that a refusal adds before the sleep.
    pub min_sleep: f64,
    /// The factor after it.
    pub multiplier: f64,
    /// The decrease by a success.
    pub decrease: Decrease,
    /// The longest sleep, in seconds, without jitter.
    pub cap: f64,
    sleep: f64,
}

impl KeptSleep {
    /// Creates it with the sleep that it starts from.
    #[must_use]
    pub fn new(min_sleep: f64, multiplier: f64, decrease: Decrease, cap: f64, start: f64) -> Self {
        Self { min_sleep, multiplier, decrease, cap, sleep: start }
    }

    /// Returns the sleep before the next call, without jitter.
    #[must_use]
    pub fn sleep(&self) -> f64 {
        self.sleep
    }
}

impl Throttle for KeptSleep {
    fn before_call(&mut self, _: f64, chance: f64) -> f64 {
        jittered(self.sleep, chance)
    }

    fn answered(&mut self, hints: &Hints, _: f64, chance: f64) -> Option<f64> {
        if hints.is_rejected() {
            let sleep = (self.sleep + self.min_sleep).min(self.cap);
            self.sleep = (sleep * self.multiplier).min(self.cap);
            return Some(jittered(sleep, chance));
        }
        let less = match self.decrease {
            Decrease::Gradual => self.min_sleep,
            Decrease::Proportional(divisor) => self.sleep / divisor,
            Decrease::Remaining(divisor) => self.sleep * hints.remaining.unwrap_or(0) as f64 / divisor,
        };
        self.sleep = (self.sleep - less).max(0.0);
        None
    }
}

/// Adds up to a tenth.
fn jittered(sleep: f64, chance: f64) -> f64 {
    sleep * (1.0 + 0.1 * chance)
}
