//! What was refused of a keyed limiter's settings.

use super::slot::MOST_TIERS;
use core::fmt;

/// The most keys that a limiter can be built for: 8 GiB of slots.
pub(super) const MAX_CAPACITY: usize = 1 << 28;

/// The most shared buckets: two for each of the most keys, 4 GiB.
pub(super) const MAX_SHARED_BUCKETS: usize = 2 * MAX_CAPACITY;

/// Which setting of a [`KeyedLimiter`](super::KeyedLimiter) was refused, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum KeyedLimiterError {
    /// `capacity` is not in 1..=2^28.
    Capacity(usize),
    /// `shared_buckets` is not in 1..=2^29.
    SharedBuckets(usize),
    /// There are more than 16 tiers.
    Tiers(usize),
    /// There is no such tier.
    Tier(usize),
    /// The limit of a quota is more than the algorithm can count for a key: 2^20 - 2 of a sliding counter, 2^32 - 2 of
    /// a fixed window.
    Limit(u32),
}

impl fmt::Display for KeyedLimiterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(keys) => write!(f, "capacity is {keys}, it must be 1 to {MAX_CAPACITY}"),
            Self::SharedBuckets(buckets) => {
                write!(f, "shared_buckets is {buckets}, it must be 1 to {MAX_SHARED_BUCKETS}")
            }
            Self::Tiers(tiers) => write!(f, "there are {tiers} tiers, there must be 1 to {MOST_TIERS}"),
            Self::Limit(limit) => {
                write!(f, "the limit is {limit}, which is more than the algorithm can count for a key")
            }
            Self::Tier(tier) => write!(f, "there is no tier {tier}, they are counted from 0"),
        }
    }
}

impl core::error::Error for KeyedLimiterError {}
