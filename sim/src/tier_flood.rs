//! A keyed limiter with several tiers, whose table is full of keys of one of them.
//!
//! The free tier is flooded with new keys. Paying clients are few, and entitled to all of their calls: fifty *regulars* call once
//! a second, and each second a new one makes its *first* call.

use crate::crowd::{Crowd, Percent};
use damper::time::Seed;
use damper::{KeyedLimiter, ManualClock, Quota};
use std::sync::Arc;
use std::time::Duration;

/// Paying clients that call once a second.
const REGULARS: u64 = 50;

/// The keys of paying clients are this and above.
const PAYING: u64 = 1 << 48;

/// A flood of the free tier beside paying clients.
#[derive(Clone, Copy, Debug)]
pub struct TierFlood {
    /// The free tier: its quota, the calls of each of its clients, the capacity, the policy and the seed.
    pub free: Crowd,
    /// The quota of a paying client.
    pub paid: Quota,
    /// New keys of the free tier per second, each of which makes its calls at once.
    pub keys_per_second: f64,
}

/// The shares of calls that were refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefusedInTiers {
    /// The calls of the flood.
    pub flood: Percent,
    /// The first calls of new paying clients.
    pub first: Percent,
    /// The calls of the paying clients that came before the flood.
    pub regulars: Percent,
    /// The calls of the regular that was refused most often.
    pub worst_regular: Percent,
}

/// Calls, and those of them that were refused.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u32,
    refused: u32,
}

impl Tally {
    fn count(&mut self, is_refused: bool) {
        self.calls += 1;
        self.refused += u32::from(is_refused);
    }

    fn percent(self) -> Percent {
        Percent(100.0 * f64::from(self.refused) / f64::from(self.calls.max(1)))
    }
}

impl TierFlood {
    /// Returns the refused shares once the flood has lasted for two refills of its clients' calls.
    ///
    /// The calls of as many seconds are counted, and at least of 300.
    ///
    /// # Panics
    ///
    /// If the capacity is out of its range.
    #[must_use]
    pub fn refused(self) -> RefusedInTiers {
        let clock = Arc::new(ManualClock::new());
        let limits = KeyedLimiter::<u64>::builder(self.free.quota)
            .tiers([self.paid], |key| usize::from(*key >= PAYING))
            .capacity(self.free.capacity)
            .when_full(self.free.when_full)
            .clock(Arc::clone(&clock))
            .hasher(Seed::new(self.free.seed, !self.free.seed))
            .build()
            .expect("sizes are in their ranges");
        let token = self.free.quota.window() / self.free.quota.limit();
        let filled = (token * self.free.calls * 2).as_secs();
        let end = filled + filled.max(300);
        let (mut flood, mut first, mut regulars) =
            (Tally::default(), Tally::default(), [Tally::default(); REGULARS as usize]);
        let (mut due, mut next) = (0.0, 0);
        for second in 0..end {
            let is_counted = second >= filled;
            let refuses = |key: u64, tally: &mut Tally| {
                let is_refused = limits.check(&key).is_err();
                if is_counted {
                    tally.count(is_refused);
                }
            };
            for (regular, tally) in (0..REGULARS).zip(&mut regulars) {
                refuses(PAYING + regular, tally);
            }
            due += self.keys_per_second;
            let keys = due as u64;
            due -= keys as f64;
            for _ in 0..keys {
                next += 1;
                for _ in 0..self.free.calls {
                    refuses(next, &mut flood);
                }
                clock.advance(Duration::from_secs(1) / (keys as u32 + 1));
            }
            refuses(PAYING + REGULARS + second, &mut first);
            clock.advance(Duration::from_secs(1) / (keys as u32 + 1));
        }
        let mut sum = Tally::default();
        let mut worst = Percent(0.0);
        for tally in regulars {
            sum.calls += tally.calls;
            sum.refused += tally.refused;
            worst.0 = worst.0.max(tally.percent().0);
        }
        RefusedInTiers { flood: flood.percent(), first: first.percent(), regulars: sum.percent(), worst_regular: worst }
    }
}
