//! Tenants' limits before an overloaded server: should they give back what its refusals cost?
//!
//! The server has slots, and refuses a call at once if none is free. Polite tenants have jobs at random times, and retry a job that was
//! refused, by the limit or by the server, three times with backoff. Greedy ones call without a pause. For the middle third of the run the
//! server has only some of its slots.

use crate::random::Random;
use damper::time::Seed;
use damper::{KeyedLimiter, ManualClock, Quota};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

/// The part that a limit gives back for a call that the server refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refund {
    /// Nothing.
    Off,
    /// The token of every second such call, drawn by chance.
    Half,
    /// The token.
    Full,
}

/// Tenants before a server.
#[derive(Clone, Copy, Debug)]
pub struct Tenants {
    /// The number of polite tenants.
    pub polite: u64,
    /// The jobs of a polite tenant, per second.
    pub jobs_per_second: f64,
    /// The number of greedy tenants.
    pub greedy: u64,
    /// The calls of a greedy tenant, per second.
    pub calls_per_second: f64,
    /// The quota of each tenant.
    pub quota: Quota,
    /// The slots of the server on a good day. A call takes 50 ms on average.
    pub slots: u32,
    /// The slots in the overload.
    pub slots_in_overload: u32,
    /// The part that a limit gives back.
    pub refund: Refund,
    /// The seed of all that is drawn.
    pub seed: u64,
}

/// The shares that were served.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Jobs of polite tenants in the overload, of those that they had.
    pub polite: f64,
    /// Jobs of polite tenants after the overload.
    pub polite_after: f64,
    /// Calls of a greedy tenant that were served in the overload, for one of a polite tenant.
    pub greedy_to_polite: f64,
    /// Calls that reached the server in the overload, for each that it served.
    pub calls_per_served: f64,
}

const SECONDS_OF_A_THIRD: u64 = 120;
const SERVICE_MILLIS: f64 = 50.0;
const ATTEMPTS: u32 = 4;
const BACKOFF_MILLIS: f64 = 100.0;

/// An event at a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Finished,
    Job { tenant: u64 },
    Attempt { tenant: u64, attempt: u32, begun: u64 },
}

impl Tenants {
    /// Returns twenty tenants, of whom so many are greedy, with this quota for each.
    ///
    /// The overload leaves a sixth of the slots.
    #[must_use]
    pub const fn twenty(greedy: u64, per_second: u32) -> Self {
        Self {
            polite: 20 - greedy,
            jobs_per_second: 10.0,
            greedy,
            calls_per_second: 200.0,
            quota: Quota::per_second(per_second).burst(20),
            slots: 30,
            slots_in_overload: 5,
            refund: Refund::Off,
            seed: 1,
        }
    }

    /// Runs three thirds of two minutes each, of which the second is the overload.
    ///
    /// # Panics
    ///
    /// If the quota has no burst.
    #[must_use]
    pub fn served(self) -> Served {
        let clock = Arc::new(ManualClock::new());
        let limits = KeyedLimiter::<u64>::builder(self.quota)
            .capacity(1_024)
            .clock(Arc::clone(&clock))
            .hasher(Seed::new(self.seed, !self.seed))
            .build()
            .expect("sizes are in their ranges");
        let mut random = Random::new(self.seed);
        let third = SECONDS_OF_A_THIRD * 1_000;
        let (mut now, mut busy) = (0, 0);
        let mut events = BinaryHeap::new();
        for tenant in 0..self.polite + self.greedy {
            events.push(Reverse((self.next_job(tenant, &mut random), Event::Job { tenant })));
        }
        // Each third counts jobs and served jobs of polite tenants, served calls of greedy ones, and calls that reached the server.
        let mut counts = [[0_u64; 4]; 3];
        let [jobs, served, greedy, reached] = [0, 1, 2, 3];
        while let Some(Reverse((at, event))) = events.pop() {
            if at >= 3 * third {
                break;
            }
            clock.advance(Duration::from_millis(at - now));
            now = at;
            let (tenant, attempt, begun) = match event {
                Event::Finished => {
                    busy -= 1;
                    continue;
                }
                Event::Job { tenant } => {
                    events.push(Reverse((now + self.next_job(tenant, &mut random), event)));
                    if tenant < self.polite {
                        counts[(now / third) as usize][jobs] += 1;
                    }
                    (tenant, 1, now)
                }
                Event::Attempt { tenant, attempt, begun } => (tenant, attempt, begun),
            };
            let is_polite = tenant < self.polite;
            let slots = if now / third == 1 { self.slots_in_overload } else { self.slots };
            if limits.check(&tenant).is_ok() {
                counts[(now / third) as usize][reached] += 1;
                if busy < slots {
                    busy += 1;
                    let takes = random.exponential(SERVICE_MILLIS).ceil() as u64;
                    events.push(Reverse((now + takes, Event::Finished)));
                    counts[(begun / third) as usize][if is_polite { served } else { greedy }] += 1;
                    continue;
                }
                let is_refunded = match self.refund {
                    Refund::Off => false,
                    Refund::Half => random.uniform() < 0.5,
                    Refund::Full => true,
                };
                if is_refunded {
                    limits.refund(&tenant, 1);
                }
            }
            if is_polite && attempt < ATTEMPTS {
                let backoff = BACKOFF_MILLIS * f64::from(1 << (attempt - 1)) * (0.5 + random.uniform());
                let next = Event::Attempt { tenant, attempt: attempt + 1, begun };
                events.push(Reverse((now + backoff as u64, next)));
            }
        }
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let [_, overload, after] = counts;
        Served {
            polite: share(overload[served], overload[jobs]),
            polite_after: share(after[served], after[jobs]),
            greedy_to_polite: share(overload[greedy], self.greedy) / share(overload[served], self.polite),
            calls_per_served: share(overload[reached], overload[served] + overload[greedy]),
        }
    }

    fn next_job(&self, tenant: u64, random: &mut Random) -> u64 {
        let per_second = if tenant < self.polite { self.jobs_per_second } else { self.calls_per_second };
        // At least a millisecond, so that a run ends.
        random.exponential(1_000.0 / per_second).ceil() as u64
    }
}
