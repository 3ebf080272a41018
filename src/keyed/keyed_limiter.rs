//! One quota, a bucket for every key.

use super::table::{Outcome, Table};
use crate::clock::{Clock, DefaultClock, Monotonic};
use crate::limit::{Allowed, Denied};
use crate::quota::{LiveQuota, Measure, Quota};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use std::hash::RandomState;

/// The keys that a limiter is built for unless told otherwise.
const DEFAULT_CAPACITY: usize = 8_192;

/// The most keys that a limiter can be built for: 8 GiB of slots.
const MAX_CAPACITY: usize = 1 << 28;

/// One limit per key, in memory that is fixed at construction.
///
/// Keys are hashed with a random seed and not kept. A key can be in one set of eight slots. Where those are taken, a newcomer takes
/// over the slot of the key that owes least, with what it owes: a key that is idle loses nothing by it, and nobody gets a
/// fresh burst by flooding the table with keys, but a newcomer may start with another's debt, and be refused for it. With as many
/// busy keys as the capacity, up to about 1 in 100 meets that; it grows with more. Two keys whose 64-bit hashes are equal share a
/// bucket.
///
/// A check takes the lock of one set of eight slots for some nanoseconds; nothing is allocated after construction.
///
/// # Examples
///
/// ```
/// use damper::{KeyedLimiter, Quota};
/// use std::net::IpAddr;
///
/// let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_second(50).burst(2)).capacity(100_000).build()?;
/// let (alice, bob) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
/// limits.check(&alice)?;
/// limits.check(&alice)?;
/// assert!(limits.check(&alice).is_err());
/// assert!(limits.check(&bob).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedLimiter<K: ?Sized, C = DefaultClock, S = RandomState> {
    quota: LiveQuota,
    table: Table,
    clock: C,
    hasher: S,
    keys: PhantomData<fn(&K)>,
}

impl<K: ?Sized> KeyedLimiter<K> {
    /// Starts a limiter of this quota for each key, on the default clock.
    pub fn builder(quota: Quota) -> KeyedLimiterBuilder<K> {
        KeyedLimiterBuilder {
            quota,
            capacity: DEFAULT_CAPACITY,
            clock: Monotonic,
            hasher: RandomState::new(),
            keys: PhantomData,
        }
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher> KeyedLimiter<K, C, S> {
    /// Takes one token of this key's bucket if there is one.
    ///
    /// # Errors
    ///
    /// [`Denied`], which tells when to come back.
    pub fn check(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens of this key's bucket if all of them are there, else none.
    ///
    /// # Errors
    ///
    /// [`Denied`], which tells when to come back, or that `n` exceeds the burst.
    pub fn check_n(&self, key: &K, n: u32) -> Result<Allowed, Denied> {
        // The quota of a table is not changed yet, so a line that was read once stays.
        let (_, line) = self.quota.read(&self.clock);
        let hash = self.hasher.hash_one(key);
        let Outcome { at, word, result } = self.table.take(hash, n, &line, &self.clock);
        match result {
            Ok(()) => Ok(Allowed::new(&line, word, at)),
            Err(refusal) => Err(Denied::new(&line, word, at, refusal)),
        }
    }

    /// The slots that there are: at least twice the capacity that was asked for.
    pub fn capacity(&self) -> usize {
        self.table.slots()
    }

    /// The quota of each key.
    pub fn quota(&self) -> Quota {
        self.quota.quota()
    }
}

impl<K: ?Sized, C: fmt::Debug, S> fmt::Debug for KeyedLimiter<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("quota", &self.quota.quota())
            .field("capacity", &self.table.slots())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Builds a [`KeyedLimiter`].
#[must_use]
pub struct KeyedLimiterBuilder<K: ?Sized, C = DefaultClock, S = RandomState> {
    quota: Quota,
    capacity: usize,
    clock: C,
    hasher: S,
    keys: PhantomData<fn(&K)>,
}

impl<K: ?Sized, C, S> KeyedLimiterBuilder<K, C, S> {
    /// Sets for about how many busy keys the table is sized; 1 to 2^28. Default: 8192.
    ///
    /// Takes 32 to 80 bytes a key: two slots of 16 bytes and their locks, rounded up to a power of two.
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys, ..self }
    }

    /// Sets the clock. Default: [`Monotonic`].
    pub fn clock<D: Clock>(self, clock: D) -> KeyedLimiterBuilder<K, D, S> {
        let Self { quota, capacity, hasher, keys, .. } = self;
        KeyedLimiterBuilder { quota, capacity, clock, hasher, keys }
    }

    /// Sets the hasher, which decides who can choose keys that collide. Default: std's, seeded at random.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> KeyedLimiterBuilder<K, C, T> {
        let Self { quota, capacity, clock, keys, .. } = self;
        KeyedLimiterBuilder { quota, capacity, clock, hasher, keys }
    }

    /// Allocates the table.
    ///
    /// # Errors
    ///
    /// [`KeyedLimiterError::Capacity`] if the capacity is out of its range.
    pub fn build(self) -> Result<KeyedLimiter<K, C, S>, KeyedLimiterError> {
        let Self { quota, capacity, clock, hasher, keys } = self;
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(KeyedLimiterError::Capacity(capacity));
        }
        Ok(KeyedLimiter {
            quota: LiveQuota::new(quota, Measure::Tokens, 0),
            table: Table::new(capacity),
            clock,
            hasher,
            keys,
        })
    }
}

impl<K: ?Sized, C: fmt::Debug, S> fmt::Debug for KeyedLimiterBuilder<K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiterBuilder")
            .field("quota", &self.quota)
            .field("capacity", &self.capacity)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Which setting of a [`KeyedLimiterBuilder`] was refused, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyedLimiterError {
    /// `capacity` is not in 1..=2^28.
    Capacity(usize),
}

impl fmt::Display for KeyedLimiterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(keys) => write!(f, "capacity is {keys}, it must be 1 to {MAX_CAPACITY}"),
        }
    }
}

impl core::error::Error for KeyedLimiterError {}
