//! The builder of a quota tree.

use super::lines::Lines;
use super::{KEPT_IN_FULL, Level, QuotaTree};
use crate::OutOfRange;
use crate::capacity::{MAX_CAPACITY, capacity_within};
use crate::keyed::table::{BUCKETS_PER_KEY, Table, WhenFull, with_headers};
use crate::limit::{Unsettled, UnsettledBounds};
use crate::time::{Clock, DefaultClock, Seed};
use core::fmt;
use core::hash::BuildHasher;
use core::marker::PhantomData;
use core::time::Duration;

/// The default capacity of a level in keys.
const DEFAULT_CAPACITY: usize = 8_192;

/// The default number of calls that may wait.
const DEFAULT_PLACES: u16 = 1_024;

/// Builds a [`QuotaTree`].
#[must_use]
pub struct QuotaTreeBuilder<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C = DefaultClock, S = Seed> {
    levels: [&'static str; LEVELS],
    dimensions: [&'static str; DIMENSIONS],
    capacities: [usize; LEVELS],
    when_full: WhenFull,
    /// For each level, `None` if its plans are limits, or the `kept` of [`guarantees`](Self::guarantees).
    guarantees: [Option<f64>; LEVELS],
    /// The smallest number of levels that the tree may have. A level of guarantees needs a level after it.
    fewest_levels: usize,
    unsettled: f64,
    time_to_live: Duration,
    places: u16,
    clock: C,
    hasher: S,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C, S> QuotaTreeBuilder<K, LEVELS, DIMENSIONS, C, S> {
    /// Creates a builder with these levels and dimensions, with your own clock and hasher.
    ///
    /// Use it without `std`. [`QuotaTree::builder`] says how to order the levels.
    pub fn new(levels: [&'static str; LEVELS], dimensions: [&'static str; DIMENSIONS], clock: C, hasher: S) -> Self {
        // A refusal has 16 bits for the number of its level, and for that of its dimension.
        const { assert!(LEVELS <= 1 << 16 && DIMENSIONS <= 1 << 16, "there are at most 2^16 levels and dimensions") };
        Self {
            levels,
            dimensions,
            capacities: [DEFAULT_CAPACITY; LEVELS],
            when_full: WhenFull::default(),
            guarantees: [None; LEVELS],
            fewest_levels: 1,
            unsettled: UnsettledBounds::BURSTS,
            time_to_live: UnsettledBounds::TIME_TO_LIVE,
            places: DEFAULT_PLACES,
            clock,
            hasher,
            key: PhantomData,
        }
    }

    /// Sets for how many busy keys each level is sized, 8192 unless set.
    ///
    /// A key is busy until its buckets are full again. For each key and dimension, a level takes about 51 bytes for the
    /// bucket, and 16 to 32 bytes to count [unsettled](Self::unsettled) costs.
    pub fn capacities(self, keys: [usize; LEVELS]) -> Self {
        Self { capacities: keys, ..self }
    }

    /// Sets what happens to a new key if its level has no slot for it.
    ///
    /// The default is [`WhenFull::SharedOverflow`].
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// Makes the plans of a level guarantee a share of the next level's tokens, instead of limiting calls.
    ///
    /// There are two kinds of calls on such a level:
    ///
    /// - A call *within its guarantee* takes from the guarantee and from the next level. It may take the last token of
    ///   the next level.
    /// - A call beyond its guarantee *borrows*: it takes from the next level alone. It must leave the part `kept` of
    ///   that level's burst (from 0 to 1, rounded to a token).
    ///   [`TreeAllowed::is_borrowed`](super::TreeAllowed::is_borrowed) returns whether a call borrowed.
    ///
    /// So a key that stays within its guarantee is served, however much other keys ask for. Other keys can use what
    /// this key leaves. All calls together never exceed the plans of the next level.
    ///
    /// A key without a guarantee has the plan [`Plan::NOTHING`](crate::Plan::NOTHING). All its calls borrow. A call
    /// that borrows and [waits](QuotaTree::acquire) may wait for as long as the guaranteed calls take all of the rate.
    ///
    /// # Conditions
    ///
    /// A guarantee holds if all of these are true for the bucket of the next level:
    ///
    /// - The guarantees of all keys that share the bucket together refill no faster than the bucket's plan.
    /// - The part `kept` of the bucket's burst has room for the sum of the bursts of these guarantees, plus the cost of
    ///   one call for each thread.
    /// - Every key finds a slot in its table, so [`capacities`](Self::capacities) must have room for all keys. A key
    ///   without a slot spends from buckets that it shares with other keys.
    /// - Costs are estimated high enough. If a call has used more than its costs, the excess is booked even from the
    ///   part `kept`.
    ///
    /// If the guarantees exceed the first two conditions, they are served first come, first served.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{ManualClock, Plan, Quota, QuotaTree};
    ///
    /// let tree = QuotaTree::<str, 2, 1>::builder(["team", "organisation"], ["requests"])
    ///     .guarantees(0, 0.1)
    ///     .clock(ManualClock::new())
    ///     .build()?;
    /// let (own, all) = (Plan::new(Quota::per_second(10).burst(2))?, Plan::new(Quota::per_second(100))?);
    /// let greedy = [("greedy", [&Plan::NOTHING]), ("acme", [&all])];
    /// let modest = [("modest", [&own]), ("acme", [&all])];
    ///
    /// let served = (0..1_000).filter(|_| tree.check(&greedy, [1]).is_ok()).count();
    /// assert_eq!(served, 90);
    /// assert!(!tree.check(&modest, [1])?.is_borrowed());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn guarantees(mut self, level: usize, kept: f64) -> Self {
        if let Some(guarantee) = self.guarantees.get_mut(level) {
            *guarantee = Some(kept);
        }
        self.fewest_levels = self.fewest_levels.max(level.saturating_add(2));
        self
    }

    /// Sets how many bursts of a bucket may be reserved and unsettled, 2 unless set.
    ///
    /// A reservation is unsettled until it is [settled](super::TreeReservation::settle) or dropped. In any stretch of
    /// time a bucket admits what its plan says, plus what older reservations give back. These can give back at most
    /// what was unsettled when that time began, so this setting bounds the excess. A reservation beyond the bound is
    /// allowed, but gives nothing back. The guide's page on trees compares the choices.
    pub fn unsettled(self, bursts: f64) -> Self {
        Self { unsettled: bursts, ..self }
    }

    /// Sets the time after which a reservation counts as used in full, two minutes unless set.
    ///
    /// Set it to the longest time that a call may take. A reservation that is settled later gives nothing back.
    pub fn time_to_live(self, time: Duration) -> Self {
        Self { time_to_live: time, ..self }
    }

    /// Sets how many calls may wait in [`acquire`](QuotaTree::acquire), 1024 unless set.
    ///
    /// A call gets a place only if more than `4 * n` places are free, where `n` calls wait at its bucket already. So
    /// the calls at one bucket take at most a fifth of the places, and the first call at a bucket gets a place while
    /// one is free. Without this rule, a user who starts many calls could take all places.
    ///
    /// [`build`](Self::build) allocates the places. On 64-bit targets each place takes 64 bytes, plus 32 bytes for each
    /// combination of a level and a dimension.
    pub fn queue(self, places: u16) -> Self {
        Self { places, ..self }
    }

    /// Sets the clock. The default is [`Monotonic`](crate::time::Monotonic).
    pub fn clock<D: Clock>(self, clock: D) -> QuotaTreeBuilder<K, LEVELS, DIMENSIONS, D, S> {
        self.with(|_, hasher| (clock, hasher))
    }

    /// Sets the hasher of keys, as [`KeyedLimiterBuilder::hasher`](crate::keyed::KeyedLimiterBuilder::hasher) does.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> QuotaTreeBuilder<K, LEVELS, DIMENSIONS, C, T> {
        self.with(|clock, _| (clock, hasher))
    }

    fn with<D, T>(self, change: impl FnOnce(C, S) -> (D, T)) -> QuotaTreeBuilder<K, LEVELS, DIMENSIONS, D, T> {
        let (clock, hasher) = change(self.clock, self.hasher);
        QuotaTreeBuilder {
            levels: self.levels,
            dimensions: self.dimensions,
            capacities: self.capacities,
            when_full: self.when_full,
            guarantees: self.guarantees,
            fewest_levels: self.fewest_levels,
            unsettled: self.unsettled,
            time_to_live: self.time_to_live,
            places: self.places,
            clock,
            hasher,
            key: self.key,
        }
    }

    /// Builds the tree, and allocates its tables.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], which names the setting that is out of its range.
    pub fn build(self) -> Result<QuotaTree<K, LEVELS, DIMENSIONS, C, S>, OutOfRange>
    where
        C: Clock,
    {
        OutOfRange::check_count("levels", LEVELS as u64, self.fewest_levels as u64..=u64::MAX).map_err(|error| {
            if self.fewest_levels > 1 { error.note("(guarantees are of a next level)") } else { error }
        })?;
        for kept in self.guarantees.into_iter().flatten() {
            OutOfRange::check_ratio("kept", kept, 0.0..=1.0)?;
        }
        OutOfRange::check_count("dimensions", DIMENSIONS as u64, 1..=u64::MAX)?;
        let bounds = UnsettledBounds::on(&self.clock).with_bursts(self.unsettled)?;
        let bounds = bounds.with_time_to_live(self.time_to_live, &self.clock)?;
        let mut words = [0; LEVELS];
        for (words, keys) in words.iter_mut().zip(self.capacities) {
            capacity_within(MAX_CAPACITY / DIMENSIONS, keys)?;
            *words = keys * DIMENSIONS;
        }
        let levels = core::array::from_fn(|level| {
            let table =
                Table::by_plan(words[level], with_headers(words[level] * BUCKETS_PER_KEY), self.when_full, &self.clock);
            let unsettled = (0..(2 * words[level]).next_power_of_two()).map(|_| Unsettled::new()).collect();
            let kept = level.checked_sub(1).and_then(|before| self.guarantees[before]).unwrap_or(0.0);
            // The product is at most 2^31, so it fits a `u32`.
            let kept = (kept * f64::from(KEPT_IN_FULL)) as u32;
            let is_guarantee = self.guarantees[level].is_some();
            Level { name: self.levels[level], table, capacity: words[level], is_guarantee, kept, unsettled }
        });
        Ok(QuotaTree {
            levels,
            dimensions: self.dimensions,
            bounds,
            lines: Lines::new(self.places, LEVELS * DIMENSIONS),
            clock: self.clock,
            hasher: self.hasher,
            key: PhantomData,
        })
    }
}

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: fmt::Debug, S> fmt::Debug
    for QuotaTreeBuilder<K, LEVELS, DIMENSIONS, C, S>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaTreeBuilder")
            .field("levels", &self.levels)
            .field("dimensions", &self.dimensions)
            .field("capacities", &self.capacities)
            .field("guarantees", &self.guarantees)
            .field("unsettled", &self.unsettled)
            .field("time_to_live", &self.time_to_live)
            .field("places", &self.places)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
