//! Limits on several levels and in several dimensions, in one decision.
//!
//! For example, the levels are user, team and organisation, and the dimensions are requests and tokens.

// | file | idea |
// |---|---|
// | `mod` | `QuotaTree`: its tables, the buckets of a path, and the checks |
// | `builder` | `QuotaTreeBuilder`: the levels, their capacities, guarantees, and the bound on unsettled costs |
// | `decision` | takes the costs of a call from all buckets of its path, or from none |
// | `answer` | `TreeAllowed`, `TreeDenied`: which level and dimension is the tightest, or refused |
// | `reservation` | `TreeReservation`: costs that were taken, to be settled |
// | `acquire` | the methods by which a call waits |
// | `waiting` | `Waitable`: which calls hold a call up, and when it asks again |
// | `counts` | how full the tables are, with one count for each level |
// | `lines` | `Lines`: the calls that wait, in a line for each bucket that has refused them |
// | `refusal` | `TreeRefusal`: why a call that waited was refused |

mod acquire;
mod answer;
mod builder;
mod counts;
mod decision;
mod lines;
mod refusal;
mod reservation;
mod waiting;

pub use answer::{TreeAllowed, TreeDenied};
pub use builder::QuotaTreeBuilder;
pub use refusal::TreeRefusal;
pub use reservation::TreeReservation;

use super::table::{Fingerprint, Table};
use crate::gate::Forecast;
use crate::limit::{ByPlan, PlannedLevel, Unsettled, UnsettledBounds, Usage};
use crate::quota::Plan;
use crate::time::{Clock, DefaultClock, Seed};
use alloc::boxed::Box;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use decision::Call;
use lines::Lines;

/// An odd factor, whose multiples give a key a different bucket in each dimension.
///
/// Any odd number of 64 random bits would do, except the one by which [`Fingerprint`] replaces a hash of 0. With that
/// one, a key with this hash would have one bucket for the first two dimensions.
const MIXER: u64 = 0xD1B5_4A32_D192_ED03;

/// The [`Level::kept`] that keeps a whole burst for guaranteed calls. Its unit is 2^-31 bursts.
const KEPT_IN_FULL: u32 = 1 << 31;

/// The key and the plans of one level: a plan for each dimension.
type Step<'a, K, const DIMENSIONS: usize> = (&'a K, [&'a Plan; DIMENSIONS]);

/// Limits on several levels and in several dimensions, from which a call takes all its costs or none.
///
/// A level is a kind of key: the user, the team, the organisation. A dimension is what is counted: requests, tokens,
/// bytes. A call passes a *path*: for each level a key, and for each dimension the [`Plan`] that this key has. Every
/// key has a bucket for each dimension in a table of its level, as in a [`KeyedLimiter` by
/// plan](crate::KeyedLimiter::by_plan). For a level or a dimension that does not apply to a call, pass
/// [`Plan::UNLIMITED`].
///
/// # One decision
///
/// A call looks at all buckets of its path, reads the clock once, and decides about all of them. If a bucket refuses,
/// the call writes nothing. Otherwise it takes its costs, level by level in the order of the tree. Meanwhile another
/// call may have taken the tokens of a bucket. This call then gives back what it has taken so far, less what has been
/// refilled since. Such a refusal is [contended](TreeDenied::is_contended).
///
/// No bucket ever allows more than its plan says, whatever the interleaving. All calls take in the same order of
/// levels. So concurrent calls cannot refuse one another without a cause: at least one of them is allowed, or is
/// refused by a limit that really lacks the tokens.
///
/// # Guarantees
///
/// The plans of a level can [guarantee](QuotaTreeBuilder::guarantees) a share of the next level's tokens, instead of
/// limiting calls. A call beyond its guarantee borrows what the other keys do not need.
///
/// # Estimates
///
/// [`reserve`](Self::reserve) takes an estimate, and [`settle`](TreeReservation::settle) corrects it. Until then the
/// reservation is *unsettled*. Tokens that reservations give back come on top of what a plan allows, so their number is
/// bounded: at any moment, the unsettled reservations of a bucket can give back at most
/// [`unsettled`](QuotaTreeBuilder::unsettled) bursts, two unless set. A reservation beyond this bound is allowed, but
/// gives nothing back.
///
/// A reservation counts as used in full after its [time-to-live](QuotaTreeBuilder::time_to_live). A leaked reservation
/// takes up a part of the bound for at most two times-to-live.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{ManualClock, Plan, Quota, QuotaTree};
///
/// let tree = QuotaTree::<str, 3, 2>::builder(["user", "team", "organisation"], ["requests", "tokens"])
///     .capacities([100_000, 10_000, 1_000])
///     .clock(ManualClock::new())
///     .build()?;
///
/// let (requests, tokens) = (Plan::new(Quota::per_minute(60))?, Plan::new(Quota::per_minute(90_000))?);
/// let shared = Plan::new(Quota::per_minute(100_000))?;
/// let none = Plan::UNLIMITED;
/// let path = [("alice", [&requests, &tokens]), ("core", [&none, &none]), ("acme", [&none, &shared])];
///
/// let call = tree.reserve(&path, [1, 60_000])?;
/// call.settle([1, 2_500]); // what the answer's usage says
/// assert_eq!(tree.peek(&path)[2][1].used(), 2_500);
///
/// let denied = tree.check(&path, [1, 90_000]).unwrap_err();
/// assert_eq!((denied.level(), denied.dimension()), (0, 1));
/// assert_eq!(denied.to_string(), "tokens of this user (90000/min burst 90000): rate limit exceeded, retry in 1.7 s");
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct QuotaTree<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C = DefaultClock, S = Seed> {
    levels: [Level; LEVELS],
    dimensions: [&'static str; DIMENSIONS],
    /// How much of each bucket may be unsettled, and for how long.
    bounds: UnsettledBounds,
    lines: Lines,
    clock: C,
    hasher: S,
    key: PhantomData<fn(&K)>,
}

/// A level of a tree: the buckets of its keys.
struct Level {
    name: &'static str,
    table: Table<ByPlan>,
    /// The number of buckets that the table was built for: one for each key and dimension.
    capacity: usize,
    /// Whether the plans of this level guarantee a share of the next level's tokens.
    ///
    /// Otherwise the plans limit calls.
    is_guarantee: bool,
    /// The part of a burst that is kept for calls within their guarantee at the level before.
    ///
    /// The unit is 2^-31 bursts: [`KEPT_IN_FULL`] is a whole burst.
    kept: u32,
    /// The counters of unsettled costs. A bucket's hash selects its counter, which other buckets may share.
    ///
    /// The number of counters is a power of two.
    unsettled: Box<[Unsettled]>,
}

impl Level {
    /// Returns how many tokens a call must leave in a bucket of this plan.
    ///
    /// It is 0 if the call is within its guarantee at the level before.
    #[inline]
    fn keep(&self, plan: &Plan, is_guaranteed: bool) -> u32 {
        if is_guaranteed {
            return 0;
        }
        // The quotient is rounded to the nearest token. It is at most the burst, so it fits a `u32`.
        ((u64::from(plan.burst()) * u64::from(self.kept) + u64::from(KEPT_IN_FULL) / 2) / u64::from(KEPT_IN_FULL))
            as u32
    }

    /// Returns the word that counts the unsettled costs of a bucket.
    ///
    /// Buckets that share a word may give back less than buckets with a word each, but never more.
    fn unsettled(&self, bucket: Fingerprint) -> &Unsettled {
        let mixed = bucket.get().wrapping_mul(MIXER);
        &self.unsettled[(mixed >> 32) as usize & (self.unsettled.len() - 1)]
    }
}

/// A value for each word of a path. A word is the bucket of one level and one dimension.
type PerWord<T, const LEVELS: usize, const DIMENSIONS: usize> = [[T; DIMENSIONS]; LEVELS];

/// Makes a value for each word of a path, in the order in which calls take from the words.
#[inline]
fn per_word<T, const LEVELS: usize, const DIMENSIONS: usize>(
    mut value: impl FnMut(usize, usize) -> T,
) -> PerWord<T, LEVELS, DIMENSIONS> {
    core::array::from_fn(|level| core::array::from_fn(|dimension| value(level, dimension)))
}

#[cfg(feature = "std")]
impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> QuotaTree<K, LEVELS, DIMENSIONS> {
    /// Creates the builder of a tree with these levels and dimensions, on the default clock.
    ///
    /// A call takes from the first level first. Name the most specific level first: it refuses most often, and a
    /// refusal by the first level leaves nothing to give back.
    pub fn builder(
        levels: [&'static str; LEVELS],
        dimensions: [&'static str; DIMENSIONS],
    ) -> QuotaTreeBuilder<K, LEVELS, DIMENSIONS> {
        QuotaTreeBuilder::new(levels, dimensions, crate::time::Monotonic, Seed::random())
    }
}

impl<K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher>
    QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    /// Takes the costs, one for each dimension, from every level of the path, or takes nothing.
    ///
    /// # Errors
    ///
    /// [`TreeDenied`], which names the level and the dimension with the longest wait.
    pub fn check(
        &self,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> Result<TreeAllowed, TreeDenied> {
        let call = Call { buckets: &self.buckets(path), plans: path, costs };
        if let Some(denied) = self.held_up(&call) {
            return Err(denied);
        }
        self.take(&call).map(|(allowed, _)| allowed)
    }

    /// Returns the answer that [`check`](Self::check) would give now, and takes nothing.
    pub fn forecast(&self, path: &[Step<'_, K, DIMENSIONS>; LEVELS], costs: [u32; DIMENSIONS]) -> Forecast<TreeDenied> {
        let call = Call { buckets: &self.buckets(path), plans: path, costs };
        let refused = || Some(self.denied(self.refusal(&call)?, &call, false));
        self.held_up(&call).or_else(refused).into()
    }

    /// Returns how much of each limit on the path is used, by level and dimension. Takes nothing.
    pub fn peek(&self, path: &[Step<'_, K, DIMENSIONS>; LEVELS]) -> [[Usage; DIMENSIONS]; LEVELS] {
        let buckets = self.buckets(path);
        per_word(|level, dimension| {
            let plan = path[level].1[dimension];
            let look = |bucket, at| ByPlan::usage(plan, bucket, at);
            let table = &self.levels[level].table;
            table.peek(buckets[level][dimension], &self.clock, || plan.class(), |_, bucket, at| look(bucket, at))
        })
    }

    /// Converts what a key of this level owes from its old plans to its new ones.
    ///
    /// It returns whether it converted the debt, for each dimension.
    /// [`KeyedLimiter::replan`](crate::KeyedLimiter::replan) says when a debt is converted. If there is no such level,
    /// no debt is converted.
    pub fn replan(
        &self,
        level: usize,
        key: &K,
        old: [&Plan; DIMENSIONS],
        new: [&Plan; DIMENSIONS],
    ) -> [bool; DIMENSIONS] {
        let hash = self.hasher.hash_one(key);
        core::array::from_fn(|dimension| {
            self.levels.get(level).is_some_and(|level| {
                let (old, new) = (old[dimension], new[dimension]);
                level.table.replan(Self::bucket(hash, dimension), old, new, &self.clock)
            })
        })
    }

    /// Returns the buckets of a path.
    fn buckets(&self, path: &[Step<'_, K, DIMENSIONS>; LEVELS]) -> PerWord<Fingerprint, LEVELS, DIMENSIONS> {
        core::array::from_fn(|level| {
            let hash = self.hasher.hash_one(path[level].0);
            core::array::from_fn(|dimension| Self::bucket(hash, dimension))
        })
    }

    /// Returns the bucket of a key in one dimension.
    fn bucket(hash: u64, dimension: usize) -> Fingerprint {
        // Within a dimension, all hashes are shifted by the same offset. So keys with different hashes have different
        // buckets.
        Fingerprint::of(hash.wrapping_add(MIXER.wrapping_mul(dimension as u64)))
    }
}

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C, S> QuotaTree<K, LEVELS, DIMENSIONS, C, S> {
    /// Returns the names of the levels, in the order in which calls take from them.
    pub fn levels(&self) -> [&'static str; LEVELS] {
        self.levels.each_ref().map(|level| level.name)
    }

    /// Returns the names of the dimensions.
    pub fn dimensions(&self) -> [&'static str; DIMENSIONS] {
        self.dimensions
    }
}

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: fmt::Debug, S> fmt::Debug
    for QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaTree")
            .field("levels", &self.levels())
            .field("dimensions", &self.dimensions)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
