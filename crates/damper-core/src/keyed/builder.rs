//! The builder of a keyed limiter.

use super::KeyedLimiter;
use super::table::{BUCKETS_PER_KEY, MOST_TIERS, Table, WhenFull, with_headers};
use super::tiers::{TierChoice, TierOf};
use crate::OutOfRange;
use crate::capacity::{MAX_CAPACITY, capacity_within};
use crate::limit::{ByPlan, KeyedAlgorithm, TokenBucket};
use crate::quota::{Alignment, PlanClock, Quota};
use crate::time::{Clock, DefaultClock, Seed};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
use core::marker::PhantomData;

/// The default capacity in keys.
const DEFAULT_CAPACITY: usize = 8_192;

/// The largest number of words for shared buckets, from which keys without a slot spend.
///
/// There are two words for each key of the largest capacity. On 64-bit targets they take 4 GiB.
const MAX_SHARED_BUCKETS: usize = 2 * MAX_CAPACITY;

/// The sizes of a limiter's table: its capacity in keys, and its words for shared buckets.
#[derive(Clone, Copy)]
struct Sizes {
    capacity: usize,
    /// The number of words that the caller set; `None` derives it from the capacity.
    shared_buckets: Option<usize>,
}

impl Sizes {
    /// Checks the sizes, and returns the capacity and the number of words for shared buckets.
    fn checked(self) -> Result<(usize, usize), OutOfRange> {
        let capacity = capacity_within(MAX_CAPACITY, self.capacity)?;
        let words = self.shared_buckets.unwrap_or_else(|| with_headers(capacity * BUCKETS_PER_KEY));
        if self.shared_buckets.is_some() {
            OutOfRange::check_count("shared_buckets", words as u64, 1..=MAX_SHARED_BUCKETS as u64)?;
        }
        Ok((capacity, words))
    }
}

/// Builds a [`KeyedLimiter`].
#[must_use]
#[cfg(feature = "alloc")]
pub struct KeyedLimiterBuilder<K: ?Sized, C = DefaultClock, S = Seed, A = TokenBucket> {
    quota: Quota,
    /// The quotas of the tiers after tier 0, and the function that returns the tier of a key.
    ///
    /// `None` if the builder's `tiers` was not called.
    tiers: Option<(Vec<Quota>, TierOf<K>)>,
    /// The largest quota that a tier can be changed to, if `up_to` set it.
    largest: Option<Quota>,
    sizes: Sizes,
    when_full: WhenFull,
    alignment: Alignment,
    clock: C,
    hasher: S,
    algorithm: PhantomData<fn() -> A>,
}

impl<K: ?Sized, C, S> KeyedLimiterBuilder<K, C, S> {
    /// Creates a builder with this quota for each key, a clock and a hasher.
    ///
    /// Without the feature `std`, use it in place of `KeyedLimiter::builder`.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::ManualClock;
    /// use damper::Quota;
    /// use damper::keyed::KeyedLimiterBuilder;
    /// use damper::time::Seed;
    ///
    /// let (quota, seed) = (Quota::per_second(5), Seed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210));
    /// let limits = KeyedLimiterBuilder::<str, _, _>::new(quota, ManualClock::new(), seed).build()?;
    /// assert!(limits.check("node 7").is_ok());
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn new(quota: Quota, clock: C, hasher: S) -> Self {
        Self {
            quota,
            tiers: None,
            largest: None,
            sizes: Sizes { capacity: DEFAULT_CAPACITY, shared_buckets: None },
            when_full: WhenFull::default(),
            alignment: Alignment::default(),
            clock,
            hasher,
            algorithm: PhantomData,
        }
    }
}

impl<K: ?Sized, C, S> KeyedLimiterBuilder<K, C, S, ByPlan> {
    /// Creates the builder of a limiter [by plan](KeyedLimiter::by_plan), with a clock and a hasher.
    ///
    /// Each call on such a limiter brings the quota of its key. Without the feature `std`, use this method in place of
    /// `KeyedLimiter::by_plan`.
    pub fn by_plan(clock: C, hasher: S) -> Self {
        KeyedLimiterBuilder::new(PlanClock::QUOTA, clock, hasher).with_algorithm()
    }

    /// Builds the limiter, and allocates its table.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], which names the setting that is out of its range.
    pub fn build(self) -> Result<KeyedLimiter<K, C, S, ByPlan>, OutOfRange>
    where
        C: Clock,
    {
        let (capacity, words) = self.sizes.checked()?;
        let table = Table::by_plan(capacity, words, self.when_full, &self.clock);
        Ok(KeyedLimiter {
            table,
            tiers: TierChoice::One(PhantomData),
            capacity,
            clock: self.clock,
            hasher: self.hasher,
        })
    }
}

impl<K: ?Sized, C, S, A: KeyedAlgorithm> KeyedLimiterBuilder<K, C, S, A> {
    /// Sets the algorithm of each key's bucket. The default is [`TokenBucket`].
    ///
    /// The others are [`FixedWindow`](crate::FixedWindow), and [`SlidingCounter`](crate::SlidingCounter) for a limit of
    /// up to 2^20 - 2. (A leaky bucket as a meter is not among them, because it makes the same decisions as the token
    /// bucket. Its level is what `peek` reports as used.)
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota, SlidingCounter};
    ///
    /// let clock = ManualClock::new();
    /// let builder = KeyedLimiter::<str>::builder(Quota::per_hour(100)).clock(&clock).algorithm::<SlidingCounter>();
    /// let limits = builder.build()?;
    /// assert_eq!(limits.check_n("alice", 60)?.remaining(), 40);
    /// assert!(limits.check_n("alice", 60).is_err());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn algorithm<B: KeyedAlgorithm>(self) -> KeyedLimiterBuilder<K, C, S, B> {
        self.with_algorithm()
    }

    /// Sets where the windows of all keys begin, if the algorithm has windows.
    ///
    /// By default they begin with the first use of the limiter.
    pub fn aligned_to(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// Adds tiers with their quotas, and sets the function that returns the tier of a key.
    ///
    /// The builder's own quota is that of tier 0. There are at most 15 tiers in all. If the function returns a number
    /// beyond the last tier, the key is in the last tier.
    ///
    /// A call for a key that has no slot in the table calls the function: for example, the first check of the key.
    /// Later checks do not, as long as the key keeps its slot. The function may use the limiter. But it must not call
    /// [`retier`](KeyedLimiter::retier) or [`clear_tier`](KeyedLimiter::clear_tier), which call the function
    /// themselves.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    ///
    /// let paying = |user: &str| usize::from(user.starts_with("paying:"));
    /// let limits = KeyedLimiter::<str>::builder(Quota::per_second(1))
    ///     .tiers([Quota::per_second(10)], paying)
    ///     .clock(ManualClock::new())
    ///     .build()?;
    /// assert!(limits.check_n("paying:alice", 10).is_ok());
    /// assert!(limits.check_n("bob", 2).is_err());
    /// limits.set_tier("bob", 1)?;
    /// assert!(limits.check_n("bob", 2).is_ok());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tiers(
        self,
        quotas: impl IntoIterator<Item = Quota>,
        tier_of: impl Fn(&K) -> usize + Send + Sync + 'static,
    ) -> Self {
        Self { tiers: Some((quotas.into_iter().collect(), Box::new(tier_of))), ..self }
    }

    /// Prepares every tier, also one added later, for a change to the quota `largest`.
    ///
    /// Without this call, the quota that a tier is built with counts as its largest. A word has fewer bits for tokens
    /// the longer a token takes: on a clock of nanoseconds a bucket built for 1/day can be changed to a burst of 5, and
    /// one built for 1/s to a burst of some 700,000.
    ///
    /// [`set_quota`](KeyedLimiter::set_quota) then accepts `largest`, and every quota that is no faster and whose burst
    /// and [`max_debt`](Quota::max_debt) are no larger. In return, tokens are counted in larger steps: a call may be
    /// allowed while a part of its last token is still missing. For a slow `largest` with a burst of 100,000 it is
    /// less than a token divided by 2^33. A sliding window loses as small a part of its limit at the end of a window.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, Quota};
    ///
    /// let (trial, paid) = (Quota::per_hour(1), Quota::per_hour(1_000));
    /// let limits = KeyedLimiter::<str>::builder(trial).up_to(paid).build()?;
    /// limits.set_quota(paid)?;
    /// assert!(limits.check_n("alice", 1_000).is_ok());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn up_to(self, largest: Quota) -> Self {
        Self { largest: Some(largest), ..self }
    }

    /// Builds the limiter, and allocates its table.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], which names the setting that is out of its range.
    pub fn build(self) -> Result<KeyedLimiter<K, C, S, A>, OutOfRange> {
        let Self { quota, tiers, largest, sizes, when_full, alignment, clock, hasher, algorithm: _ } = self;
        let (capacity, words) = sizes.checked()?;
        let (others, tier_of) = tiers.unzip();
        let count = 1 + others.as_ref().map_or(0, Vec::len);
        OutOfRange::check_count("tiers", count as u64, 1..=MOST_TIERS as u64)
            .map_err(|error| error.note("(with the builder's own quota)"))?;
        let quotas = core::iter::once(&quota).chain(others.iter().flatten()).chain(&largest);
        for quota in quotas.filter(|quota| !quota.is_unlimited()) {
            OutOfRange::check_count("limit", quota.limit().into(), 0..=A::LARGEST_LIMIT.into())
                .map_err(|error| error.note("(for a key, with this algorithm)"))?;
        }
        let start = A::line_start(alignment);
        let mut table = Table::new(quota, others.as_deref(), start, capacity, words, when_full);
        if let Some(largest) = largest {
            table.make_room_for(largest);
        }
        let tiers = match tier_of {
            None => TierChoice::One(PhantomData),
            Some(tier_of) => TierChoice::new(tier_of),
        };
        Ok(KeyedLimiter { table, tiers, capacity, clock, hasher })
    }
}

impl<K: ?Sized, C, S, A> KeyedLimiterBuilder<K, C, S, A> {
    fn with_algorithm<B>(self) -> KeyedLimiterBuilder<K, C, S, B> {
        let Self { quota, tiers, largest, sizes, when_full, alignment, clock, hasher, .. } = self;
        KeyedLimiterBuilder {
            quota,
            tiers,
            largest,
            sizes,
            when_full,
            alignment,
            clock,
            hasher,
            algorithm: PhantomData,
        }
    }

    /// Sets how many keys the table is sized for.
    ///
    /// Only keys whose bucket is not full count. The number is 1 to 2^28 (2^24 on targets of 32 bits). The default is
    /// 8192.
    ///
    /// The table takes 51 bytes a key, which include the [shared buckets](Self::shared_buckets). Its locks take another
    /// 8 KiB.
    pub fn capacity(self, keys: usize) -> Self {
        Self { sizes: Sizes { capacity: keys, ..self.sizes }, ..self }
    }

    /// Sets how many words of memory there are for shared buckets, from which keys without a slot spend.
    ///
    /// A word has 8 bytes. The number is 1 to 2^29 (2^25 on targets of 32 bits). By default there are two buckets for
    /// each key of the capacity, and words for their headers. With more words, fewer clients share a bucket when the
    /// table is full.
    ///
    /// Seven of every eight words are buckets, which keys of all [tiers](Self::tiers) use. The eighth is their header.
    /// If there are tiers, every 32 of these words need one more word for each tier. These words count in the number
    /// too.
    pub fn shared_buckets(self, buckets: usize) -> Self {
        Self { sizes: Sizes { shared_buckets: Some(buckets), ..self.sizes }, ..self }
    }

    /// Sets what happens to a new key that finds no free slot in the table.
    ///
    /// The default is [`WhenFull::SharedOverflow`].
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// Sets the clock. The default is [`Monotonic`](crate::time::Monotonic).
    pub fn clock<D: Clock>(self, clock: D) -> KeyedLimiterBuilder<K, D, S, A> {
        let Self { quota, tiers, largest, sizes, when_full, alignment, hasher, algorithm, .. } = self;
        KeyedLimiterBuilder { quota, tiers, largest, sizes, when_full, alignment, clock, hasher, algorithm }
    }

    /// Sets the hasher of keys.
    ///
    /// The default is SipHash-1-3 with a random [`Seed`](crate::time::Seed). A client that can predict the hasher can
    /// choose keys that collide. For keys that clients cannot choose, [`FastSeed`](crate::time::FastSeed) is cheaper.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> KeyedLimiterBuilder<K, C, T, A> {
        let Self { quota, tiers, largest, sizes, when_full, alignment, clock, algorithm, .. } = self;
        KeyedLimiterBuilder { quota, tiers, largest, sizes, when_full, alignment, clock, hasher, algorithm }
    }
}

impl<K: ?Sized, C: fmt::Debug, S, A> fmt::Debug for KeyedLimiterBuilder<K, C, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiterBuilder")
            .field("quota", &self.quota)
            .field("tiers", &self.tiers.as_ref().map(|(quotas, _)| quotas))
            .field("capacity", &self.sizes.capacity)
            .field("when_full", &self.when_full)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
