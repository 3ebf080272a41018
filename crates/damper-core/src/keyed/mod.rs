//! One limit per key, in a fixed amount of memory: [`KeyedLimiter`].

// | file | idea |
// |---|---|
// | `keyed_limiter`, `builder` | `KeyedLimiter`: one quota, a bucket for every key |
// | `by_plan` | limiters by plan, on which each call brings the quota of its key |
// | `key_look` | a decision about a key in three steps, for calls that ask several limits |
// | `check_many` | checks of many keys, whose slots are fetched together |
// | `tiers` | the tier of each key, which decides its quota, and moves between tiers |
// | `quotas` | the quotas of the limiter and of its tiers, which can change |
// | `census` | how many keys each tier has, and how many of them owe tokens or have none left |
// | `crowding` | `Crowding`: counts that show whether the table is too small for its keys |
// | `queue` | waiting for a key's tokens |
// | `table` | the buckets of all keys, under the quotas of the tiers |
// | `tree` | `QuotaTree`: limits of several levels, such as user and team, in one decision |
// | `client_address` | `ClientAddress`: an address as a key |

#[cfg(feature = "alloc")]
mod builder;
#[cfg(feature = "alloc")]
mod by_plan;
mod census;
mod check_many;
mod client_address;
mod crowding;
pub(crate) mod key_look;
mod keyed_limiter;
mod queue;
mod quotas;
pub(crate) mod table;
mod tiers;
#[cfg(feature = "alloc")]
mod tree;

#[cfg(feature = "alloc")]
pub use builder::KeyedLimiterBuilder;
pub use census::TierCensus;
pub use client_address::ClientAddress;
pub use crowding::Crowding;
pub use keyed_limiter::KeyedLimiter;
pub use queue::{KeyQueue, KeyedReservation};
#[cfg(target_has_atomic = "64")]
pub(crate) use table::Fingerprint;
pub use table::{KeyedSlots, WhenFull};
pub use tiers::TierError;
#[cfg(feature = "alloc")]
pub use tree::{QuotaTree, QuotaTreeBuilder, TreeAllowed, TreeDenied, TreeRefusal, TreeReservation};
