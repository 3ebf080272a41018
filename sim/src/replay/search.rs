//! Replays under one quota, and the search for the smallest.

use super::decision_file::DecisionFile;
use damper::{ManualClock, Quota, RateLimiter};
use std::collections::HashMap;
use std::time::Duration;

/// The quotas among which to search: so many tokens in a window, for every number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The window of the quotas.
    pub window: Window,
    /// Their burst, or `None` for as many tokens as their limit.
    pub burst: Option<u32>,
}

/// A window of quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

impl Family {
    /// Returns the quota of this limit.
    pub fn quota(self, limit: u32) -> Quota {
        let quota = match self.window {
            Window::Second => Quota::per_second(limit),
            Window::Minute => Quota::per_minute(limit),
            Window::Hour => Quota::per_hour(limit),
        };
        match self.burst {
            Some(burst) => quota.burst(burst),
            None => quota,
        }
    }
}

/// The calls of a file, ready to be replayed many times.
#[derive(Debug)]
pub struct Replay {
    calls: Vec<Call>,
    keys: usize,
    costs_differ: bool,
}

/// A call, with the number of its key.
#[derive(Clone, Copy, Debug)]
struct Call {
    micros: u64,
    key: usize,
    cost: u32,
}

/// The smallest quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smallest {
    /// The quota.
    pub limit: u32,
    /// How many calls it would have refused.
    pub refused: usize,
}

impl Replay {
    /// Prepares the calls of a file.
    #[must_use]
    pub fn new(file: &DecisionFile) -> Self {
        let mut keys = HashMap::new();
        let calls: Vec<Call> = file
            .decisions
            .iter()
            .map(|decision| {
                let next = keys.len();
                let key = *keys.entry(decision.key).or_insert(next);
                let micros = u64::try_from(decision.at.as_micros()).unwrap_or(u64::MAX);
                Call { micros, key, cost: decision.cost }
            })
            .collect();
        let costs_differ = calls.windows(2).any(|pair| pair[0].cost != pair[1].cost);
        Self { calls, keys: keys.len(), costs_differ }
    }

    /// Returns how many calls there are.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns how many keys made them.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Returns how much time lies between the first call and the last.
    #[must_use]
    pub fn span(&self) -> Duration {
        match (self.calls.first(), self.calls.last()) {
            (Some(first), Some(last)) => Duration::from_micros(last.micros - first.micros),
            _ => Duration::ZERO,
        }
    }

    /// Returns whether some calls cost more than others.
    ///
    /// Then a larger quota may refuse more calls: it allows an expensive one, and lacks the tokens for several cheap ones.
    #[must_use]
    pub fn costs_differ(&self) -> bool {
        self.costs_differ
    }

    /// Returns how many calls a quota for each key would have refused.
    #[must_use]
    pub fn refused(&self, quota: Quota) -> usize {
        let mut refusals = 0;
        self.replay(quota, || {
            refusals += 1;
            Go::On
        });
        refusals
    }

    /// Returns whether a quota would have refused at most so many calls.
    fn is_enough(&self, quota: Quota, most: usize) -> bool {
        let mut refusals = 0;
        self.replay(quota, || {
            refusals += 1;
            if refusals > most { Go::Stop } else { Go::On }
        });
        refusals <= most
    }

    /// Asks for the tokens of all calls, in their order.
    ///
    /// Calls `refused` for each refusal, until that says to stop.
    fn replay(&self, quota: Quota, mut refused: impl FnMut() -> Go) {
        let clock = ManualClock::with_frequency(1_000_000);
        let start = self.calls.first().map_or(0, |call| call.micros);
        let limiters: Vec<_> = (0..self.keys).map(|_| RateLimiter::with_clock(quota, &clock)).collect();
        for Call { micros, key, cost } in &self.calls {
            clock.set_ticks(micros - start);
            if limiters[*key].check_n(*cost).is_err() && matches!(refused(), Go::Stop) {
                return;
            }
        }
    }

    /// Returns the smallest quota of a family that would have refused at most this share of the calls.
    ///
    /// `None` if there is none. Where all calls cost the same, no smaller quota would do. Where [costs differ](Self::costs_differ), the next smaller one would not.
    #[must_use]
    pub fn smallest(&self, family: Family, at_most: Share) -> Option<Smallest> {
        let most = at_most.of(self.calls());
        let is_enough = |limit| self.is_enough(family.quota(limit), most);
        let found = |limit| Smallest { limit, refused: self.refused(family.quota(limit)) };
        let mut too_small = 0;
        let mut enough = 1;
        while !is_enough(enough) {
            if enough == u32::MAX {
                return None;
            }
            (too_small, enough) = (enough, enough.saturating_mul(2));
        }
        while enough - too_small > 1 {
            let middle = too_small.midpoint(enough);
            if is_enough(middle) {
                enough = middle;
            } else {
                too_small = middle;
            }
        }
        Some(found(enough))
    }
}

/// Whether a replay goes on.
enum Go {
    On,
    Stop,
}

/// A share of all calls, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// Creates a share; `None` if it is not from 0 to 1.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// Returns how many calls of `calls` it is, rounded down.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the share is from 0 to 1")]
    pub fn of(self, calls: usize) -> usize {
        // A share such as 0.001 is no binary fraction: of 1,000 calls it is one.
        (self.0 * calls as f64 + 1e-9) as usize
    }
}
