//! A keyed limiter whose table is full: which share of the clients' calls is refused.
//!
//! Every client comes once, makes its calls at one instant, and never returns, so that each is entitled to all of them. A
//! client keeps its slot *busy* until its bucket is full again. The load of a table is the number of busy clients beside
//! the capacity that the table was built for.

use damper::time::Seed;
use damper::{KeyedLimiter, ManualClock, Quota, WhenFull};
use std::sync::Arc;
use std::time::Duration;

/// A keyed limiter and the calls that each client makes.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// The quota of each client.
    pub quota: Quota,
    /// How many calls a client makes; at most the burst, so that none of them exceeds the quota.
    pub calls: u32,
    /// The capacity of the limiter.
    pub capacity: usize,
    /// The rule for newcomers that find no slot.
    pub when_full: WhenFull,
    /// How many shared buckets the limiter has, if not as many as it has by default.
    pub shared_buckets: Option<usize>,
    /// How many tiers the limiter has. All clients are in the first.
    pub tiers: usize,
    /// Which keys the clients have: another seed, other clients.
    pub seed: u64,
}

/// A share of calls, in percent.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

/// Counts calls, and those of them that were refused.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u32,
    refused: u32,
}

impl Tally {
    fn percent(self) -> Percent {
        Percent(100.0 * f64::from(self.refused) / f64::from(self.calls.max(1)))
    }
}

/// A limiter on a clock of its own, and the clients that came so far.
struct Run {
    crowd: Crowd,
    clock: Arc<ManualClock>,
    limits: KeyedLimiter<u64, Arc<ManualClock>, Seed>,
    clients: u64,
}

impl Run {
    fn new(crowd: Crowd) -> Self {
        let clock = Arc::new(ManualClock::new());
        let builder = KeyedLimiter::<u64>::builder(crowd.quota)
            .capacity(crowd.capacity)
            .when_full(crowd.when_full)
            .clock(Arc::clone(&clock))
            .hasher(Seed::new(crowd.seed, !crowd.seed));
        let builder = match crowd.shared_buckets {
            Some(buckets) => builder.shared_buckets(buckets),
            None => builder,
        };
        let builder = match crowd.tiers {
            0 | 1 => builder,
            tiers => builder.tiers(vec![crowd.quota; tiers - 1], |_| 0),
        };
        Self { crowd, clock, limits: builder.build().expect("sizes are in their ranges"), clients: 0 }
    }

    /// The next client makes so many calls.
    fn client(&mut self, calls: u32, tally: &mut Tally) {
        self.clients += 1;
        for _ in 0..calls {
            tally.calls += 1;
            tally.refused += u32::from(self.limits.check(&self.clients).is_err());
        }
    }

    /// Clients come evenly, so many a second, for so long.
    fn stream(&mut self, clients_per_second: f64, length: Duration, tally: &mut Tally) {
        let gap = Duration::from_secs_f64(1.0 / clients_per_second);
        for _ in 0..(length.as_secs_f64() * clients_per_second) as u64 {
            self.clock.advance(gap);
            self.client(self.crowd.calls, tally);
        }
    }
}

impl Crowd {
    fn token(&self) -> Duration {
        self.quota.window() / self.quota.limit()
    }

    /// How long a bucket of so many missing tokens is busy.
    fn refill(&self, tokens: u32) -> Duration {
        self.token() * tokens
    }

    fn clients_per_second(&self, load: f64) -> f64 {
        load * self.capacity as f64 / self.refill(self.calls).as_secs_f64()
    }

    /// Returns the share of calls that are refused while clients fill this part of the capacity.
    ///
    /// A load of 1.0 is as many busy clients as the capacity. The table is filled first. Then the calls are counted for as many refills of
    /// a whole burst as `refills`.
    #[must_use]
    pub fn refused_at_load(self, load: f64, refills: u32) -> Percent {
        let mut run = Run::new(self);
        let rate = self.clients_per_second(load);
        run.stream(rate, self.refill(self.calls), &mut Tally::default());
        let mut counted = Tally::default();
        run.stream(rate, self.refill(self.quota.burst_size()) * refills, &mut counted);
        counted.percent()
    }

    /// Returns the share of clients that find no slot while clients fill this part of the capacity.
    #[must_use]
    pub fn without_a_slot_at_load(self, load: f64) -> Percent {
        let mut run = Run::new(self);
        let (rate, busy) = (self.clients_per_second(load), self.refill(self.calls));
        run.stream(rate, busy, &mut Tally::default());
        let (clients, overflows) = (run.clients, run.limits.overflows());
        run.stream(rate, busy * 4, &mut Tally::default());
        Percent(100.0 * (run.limits.overflows() - overflows) as f64 / (run.clients - clients) as f64)
    }

    /// Returns the busy share of the shared words that newcomers see at this part of the capacity.
    #[must_use]
    pub fn crowding_at_load(self, load: f64) -> f64 {
        let mut run = Run::new(self);
        let (rate, busy) = (self.clients_per_second(load), self.refill(self.calls));
        run.stream(rate, busy, &mut Tally::default());
        let before = run.limits.crowding();
        run.stream(rate, busy, &mut Tally::default());
        run.limits.crowding().since(before).share()
    }

    /// Returns the share of innocent first calls that are refused during a flood of new keys.
    ///
    /// The attacker sends calls with this many new keys a second. Innocent clients come at a hundredth of that rate. The flood lasts for
    /// two refills of a burst, and the second is counted: by then no bucket has tokens left from before.
    #[must_use]
    pub fn refused_in_flood(self, keys_per_second: u32) -> Percent {
        let mut run = Run::new(self);
        run.flood(keys_per_second, self.refill(self.quota.burst_size()));
        run.flood(keys_per_second, self.refill(self.quota.burst_size())).percent()
    }

    /// Returns the number of first calls that are refused after a flood.
    ///
    /// Once a burst's refill time has passed, clients that fill this part of the capacity come again.
    #[must_use]
    pub fn refused_after_flood(self, keys_per_second: u32, load: f64) -> u32 {
        let (mut run, refill) = (Run::new(self), self.refill(self.quota.burst_size()));
        run.flood(keys_per_second, refill);
        // Ordinary traffic goes on meanwhile.
        run.stream(self.clients_per_second(load), refill, &mut Tally::default());
        let mut counted = Tally::default();
        run.stream(self.clients_per_second(load), refill * 2, &mut counted);
        counted.refused
    }
}

impl Run {
    fn flood(&mut self, keys_per_second: u32, length: Duration) -> Tally {
        let (mut innocent, mut flood) = (Tally::default(), Tally::default());
        let gap = Duration::from_secs(1) / keys_per_second;
        for key in 0..(length.as_secs_f64() * f64::from(keys_per_second)) as u64 {
            self.clock.advance(gap);
            self.client(1, &mut flood);
            if key % 100 == 0 {
                self.client(1, &mut innocent);
            }
        }
        innocent
    }
}
