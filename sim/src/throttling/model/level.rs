//! damper's own strategy.

use crate::throttling::throttle::Throttle;
use damper::Quota;
use damper::throttle::Hints;

/// The longest sleep after the first refusal, in tokens' times. It never falls below.
const FLOOR: f64 = 13.0;
/// The longest sleep is kept in these parts of a token's time.
const PARTS: f64 = 32.0;
/// The calls in which the sleep falls to 1/e while the longest sleep is at its floor.
const REACH: f64 = 20.0;
/// The part of a round in which answers belong to calls of the round before.
const GRACE: f64 = 0.05;
/// Growth in a round with refusals.
const PRIOR: f64 = 4.0;
const MOST_GROWTH: f64 = 3.0;
/// Calls that remain while the sleep is too long.
const PLENTY: f64 = 12.0;
/// The calls of a round in which nothing changes.
const FEWEST: f64 = 4.0;
/// The counts of a round are halved when so many calls are counted.
const MOST_CALLS: f64 = 63.0;
/// Services round times to seconds.
const ROUNDING: f64 = 2.0;

/// Every client sees the same remaining tokens, so all sleep alike: `longest · exp(−remaining / reach)`.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    token: f64,
    floor: f64,
    limit: f64,
    /// No longest sleep exceeds it: the quota's window.
    cap: f64,
    /// The sleep at an empty limit, in seconds. 0 before the first refusal.
    longest: f64,
    remaining: f64,
    /// Whether a refusal asked for a pause longer than the longest sleep, but shorter than the reset.
    bursts: bool,
    /// Whether a refusal allowed a call before the reset.
    sliding: bool,
    /// The longest stop for a fixed window that is used up. 0 where no refusal has shown one.
    stop: f64,
    stopped_until: f64,
    /// The round.
    began: f64,
    calls: f64,
    refused: f64,
}

impl Level {
    /// Creates it.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        let limit = f64::from(quota.limit());
        let token = quota.window().as_secs_f64() / limit;
        Self {
            token,
            floor: FLOOR * token,
            limit,
            cap: quota.window().as_secs_f64(),
            longest: 0.0,
            remaining: 0.0,
            bursts: false,
            sliding: false,
            stop: 0.0,
            stopped_until: 0.0,
            began: 0.0,
            calls: 0.0,
            refused: 0.0,
        }
    }

    /// Returns the sleep before the next call, without jitter.
    #[must_use]
    pub fn sleep(&self) -> f64 {
        let reach = (REACH * (self.longest / self.floor).max(1.0).sqrt()).min(self.limit / 8.0);
        self.longest * (-self.remaining / reach).exp()
    }

    /// Returns for how long an accepted answer stops all calls. To be asked before [`learn`](Self::learn).
    #[must_use]
    pub fn stop(&self, hints: &Hints) -> Option<f64> {
        let (remaining, reset) = (hints.remaining? as f64, hints.resets_in?.as_secs_f64());
        let used_since = self.remaining - remaining;
        let is_used_up = remaining == 0.0 || remaining < used_since.min(PLENTY);
        (hints.is_accepted() && !self.sliding && is_used_up && reset <= self.stop).then_some(reset)
    }

    /// Learns from an answer. Returns the sleep before a retry, without what the server asks for.
    pub fn learn(&mut self, hints: &Hints, now: f64, chance: f64) -> f64 {
        let rejected = hints.is_rejected();
        if let (true, Some(wait), Some(reset)) = (rejected, hints.retry_after, hints.resets_in) {
            let (wait, reset) = (wait.as_secs_f64(), reset.as_secs_f64());
            self.bursts |= wait + ROUNDING < reset && wait > self.longest.max(self.floor);
            self.sliding |= wait + ROUNDING < reset;
            if wait >= reset && wait > 2.0 * ROUNDING {
                let stops = [16.0, 64.0, 256.0, 1_024.0];
                self.stop = stops.into_iter().find(|stop| wait <= *stop).unwrap_or(4_096.0).max(self.stop);
            }
        }
        self.remaining = match hints.remaining {
            _ if rejected => 0.0,
            Some(remaining) if self.bursts => (remaining as f64).min(self.remaining + 1.0),
            Some(remaining) => remaining as f64,
            None => self.remaining,
        };
        if self.longest > 0.0 {
            self.count(rejected, now);
            return self.longest * (0.6 + 0.4 * chance);
        }
        if rejected {
            self.begin_round(now, self.floor);
        }
        self.longest * (0.65 + 0.12 * chance)
    }

    fn begin_round(&mut self, now: f64, longest: f64) {
        let part = self.token / PARTS;
        // A whole number of parts is not to be rounded down by another one.
        let longest = (longest.min(self.cap) / part + 1e-6).floor() * part;
        (self.longest, self.began, self.calls, self.refused) = (longest, now, 0.0, 0.0);
    }

    fn count(&mut self, rejected: bool, now: f64) {
        let age = now - self.began;
        if age < GRACE * self.longest {
            return;
        }
        if self.calls == MOST_CALLS {
            (self.calls, self.refused) = ((self.calls / 2.0).floor(), (self.refused / 2.0).floor());
        }
        self.calls += 1.0;
        self.refused += f64::from(u32::from(rejected));
        if self.refused == 0.0 && self.remaining >= PLENTY && self.longest > self.floor {
            if age >= self.sleep().max(4.0 * self.floor) {
                self.begin_round(now, (0.9 * self.longest).max(self.floor));
            }
        } else if age >= self.longest && self.refused > 0.0 {
            let growth = (self.calls + PRIOR) / (self.calls - self.refused + PRIOR);
            self.begin_round(now, self.longest * growth.min(MOST_GROWTH));
        } else if age >= self.longest && self.calls >= FEWEST {
            self.begin_round(now, self.longest);
        }
    }
}

impl Throttle for Level {
    fn before_call(&mut self, now: f64, chance: f64) -> f64 {
        (self.sleep() * (0.95 + 0.1 * chance)).max(self.stopped_until - now)
    }

    fn answered(&mut self, hints: &Hints, now: f64, chance: f64) -> Option<f64> {
        if let Some(stop) = self.stop(hints) {
            self.stopped_until = now + stop + chance * self.longest;
        }
        let sleep = self.learn(hints, now, chance);
        let asked = hints.retry_after.map_or(0.0, |time| time.as_secs_f64());
        hints.is_rejected().then_some(asked + sleep)
    }
}
