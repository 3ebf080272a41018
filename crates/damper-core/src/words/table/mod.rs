//! A limit for each key, on words that the program owns.
//!
//! The first word counts the processes for their nonces, and seven are spare, so that the slots start with a line of the cache. Each key has
//! eight candidate slots in two sets of four, chosen by its hash.

// | file | idea |
// |---|---|
// | `slot` | the word of a slot |
// | `newcomer` | `Newcomer`: how a key gets a slot, in steps of one access |
// | `nonces` | `Nonces`: what makes each provisional word unique |
// | `search` | the exhaustive search of the steps' interleavings (tests) |

mod newcomer;
mod nonces;
#[cfg(all(test, feature = "std"))]
mod search;
mod slot;

use super::{AtomicU64, WordLimiter};
use crate::keyed::Fingerprint;
use crate::limit::{Allowed, Denied, PlannedLevel, Usage};
use crate::out_of_range::OutOfRange;
use crate::quota::{Beats, Line, Plan, PlanClock};
use crate::sync::{IS_MODEL, Ordering, SpinWait, fence};
use crate::time::random::{below, scatter};
use crate::time::{Clock, Seed};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use newcomer::{Access, Arrival, Newcomer};
pub(crate) use nonces::Nonces;
use slot::{MOST_FINGERPRINT, Slot, SlotLevel};

/// The words before the slots.
const HEAD: usize = 8;

/// The slots of a set. Model checkers have one, so that a key has two candidates.
const SET: usize = if IS_MODEL { 1 } else { 4 };

/// A token bucket for each key, under one [`Plan`], on words that the program owns.
///
/// Words of 0 are an empty table. Each process makes a table of its own on the same words, with the same plan, clock and seed. No lock is taken
/// and no process waits for another. Keys are not stored: a slot has 22 bits of a key's hash, and the time at which its bucket is full.
///
/// - A **hit** is a few loads, one reading of the clock and one swap. It is lock-free. A refusal writes nothing.
/// - A **first sight** of a key takes a slot by three swaps. Two newcomers of one key may disturb one another, and try again.
/// - A process that is **killed** at any step leaves a valid table. No slot is lost, and no key gets a second burst.
///
/// # When it is full
///
/// A caller that makes new keys fast enough fills the table, and new keys of others are then refused. Where keys cost nothing to make, use
/// [`sharing`](Self::sharing).
///
/// A key whose eight candidate slots all belong to keys with less than a full bucket is refused until the first of them is full. With
/// [`sharing`](Self::sharing) such keys share buckets instead. A key whose bucket is full again owes nothing, and gives up its slot to a
/// newcomer.
///
/// # Accuracy
///
/// Time is counted in 256 ns. A token takes at least 512 ns (1,953,125 a second), and a refill, with
/// [`max_debt`](crate::Quota::max_debt), 39 hours at most. The debt of ten bursts that a quota has by default is cut to that.
///
/// Two keys share a bucket if their fingerprints and one of their sets are equal: a newcomer meets such a key with a probability of
/// 8 in 2^22. Instants circle after 6.5 days, so a key that was idle for exactly so long may be refused. That lasts at most as long
/// as a burst and the [`max_debt`](crate::Quota::max_debt) take to be refilled, rounded up to a power of two.
///
/// All processes have the same plan: a debt that is deeper than the plan allows counts as old. [`Header`](super::Header) makes sure of it.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::time::Seed;
/// use damper::words::{AtomicU64, WordTable};
/// use damper::{ManualClock, Plan, Quota};
///
/// let words = [const { AtomicU64::new(0) }; 8 + 4_096]; // in the mapping that the processes share
/// let (clock, seed) = (ManualClock::new(), Seed::new(1, 2)); // the header's seed
/// let plan = Plan::new(Quota::per_second(10))?;
///
/// let users = WordTable::<str, _>::new(&words, plan, &clock, seed)?;
/// assert_eq!(users.check_n("alice", 8)?.remaining(), 2);
///
/// let other_worker = WordTable::<str, _>::new(&words, plan, &clock, seed)?;
/// assert!(other_worker.check_n("alice", 3).is_err());
/// assert!(other_worker.check("bob").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WordTable<'a, K: ?Sized, C> {
    slots: &'a [AtomicU64],
    nonces: Nonces<'a>,
    /// The buckets that keys without a slot share.
    shared: &'a [AtomicU64],
    plan: Plan,
    /// The plan in the units of a shared bucket.
    shared_plan: Plan,
    line: PlanClock,
    clock: C,
    seed: Seed,
    keys: PhantomData<fn(&K)>,
}

/// The candidate slots of a key.
#[derive(Clone, Copy)]
struct Candidates {
    fingerprint: u64,
    /// The first slots of its sets; the second counts only if `count` says so.
    sets: [usize; 2],
    count: usize,
}

impl Candidates {
    /// Returns the slot of a candidate.
    #[inline]
    fn slot(&self, candidate: usize) -> usize {
        self.sets[candidate / SET] + candidate % SET
    }
}

impl<'a, K: Hash + ?Sized, C: Clock> WordTable<'a, K, C> {
    /// The words that a table needs beside its slots.
    pub const HEAD: usize = HEAD;

    /// Creates a table on `words`: 8 words, and one for each slot, rounded down to sets of four.
    ///
    /// Twice as many slots as there are keys with less than a full bucket at a time leave hardly any key without one. The seed is that of
    /// the [`Header`](super::Header): a client that knows it can choose keys that crowd one another out.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if there are fewer than 12 words or more than 2^32, or if the plan is too fast or its refill too long: see above.
    pub fn new(words: &'a [AtomicU64], plan: Plan, clock: C, seed: Seed) -> Result<Self, OutOfRange> {
        let least = HEAD + SET;
        OutOfRange::check_count("words", words.len() as u64, least as u64..=u64::from(u32::MAX))?;
        let (shared_plan, plan) = (plan, Plan::in_beats(plan.quota(), Beats::COARSE)?);
        let line = PlanClock::of(&clock, Beats::COARSE, plan.longest_debt());
        let (head, slots) = words.split_at(HEAD);
        let (nonces, keys) = (Nonces::new(&head[0]), PhantomData);
        Ok(Self { slots, nonces, shared: &[], plan, shared_plan, line, clock, seed, keys })
    }

    /// Lets keys without a slot share these words, which are 0 at first. Default: such keys are refused.
    ///
    /// Each word is the bucket of a [`WordLimiter`] under the plan of the table, for the keys whose hash leads to it. So a key without a slot
    /// may be refused for what others spent. It may get a burst more when it gets a slot. One word for each slot keeps nearly all clients served
    /// while half as many keys again are busy as there are slots. A flood of new keys can empty the shared buckets, but no slot of another key. All processes pass the same words.
    #[must_use]
    pub fn sharing(self, words: &'a [AtomicU64]) -> Self {
        Self { shared: words, ..self }
    }

    /// Takes one token of this key's bucket.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry.
    pub fn check(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens of this key's bucket if all of them are there, else none.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, or that `n` exceeds the burst. A key without a slot is refused until one is free, or until its
    /// [shared](Self::sharing) bucket has the tokens.
    pub fn check_n(&self, key: &K, n: u32) -> Result<Allowed, Denied> {
        let candidates = self.candidates(key);
        let take = |level, at| match SlotLevel::take(&self.plan, level, at, n, 0) {
            Ok((after, _)) => (after, Ok((after, at))),
            Err(denied) => (level, Err(denied)),
        };
        match self.decide(&candidates, take) {
            Some(taken) => taken.map(|(level, at)| SlotLevel::allowed(&self.plan, level, at)),
            None => match self.shared_bucket(key) {
                Some(bucket) => bucket.check_n(n),
                None => Err(self.no_slot(&candidates)),
            },
        }
    }

    /// Gives back up to `n` tokens that this key took and did not need, and returns how many.
    ///
    /// They go to the bucket that the key has now. Tokens of a shared bucket are lost if the key has got a slot since.
    pub fn refund(&self, key: &K, n: u32) -> u32 {
        let refund = |level, at| {
            let (given, after) = SlotLevel::refund(&self.plan, level, at, n);
            (after, given)
        };
        let candidates = self.candidates(key);
        self.decide_in_slot(&candidates, refund)
            .or_else(|| self.bucket_without_a_slot(key, &candidates).map(|bucket| bucket.refund(n)))
            .unwrap_or(0)
    }

    /// Books `n` tokens of this key after the fact, and returns how many it booked.
    ///
    /// It books none if the key has no slot, none is free, and keys do not [share](Self::sharing). Debt goes no deeper than [`Quota::max_debt`](crate::Quota::max_debt).
    pub fn charge(&self, key: &K, n: u32) -> u32 {
        let charge = |level, at| {
            let (booked, after) = SlotLevel::charge(&self.plan, level, at, n);
            (after, booked)
        };
        self.decide(&self.candidates(key), charge)
            .or_else(|| self.shared_bucket(key).map(|bucket| bucket.charge(n)))
            .unwrap_or(0)
    }

    /// Returns how much of this key's limit is used, and takes nothing.
    ///
    /// A key without a slot has used nothing, unless it would have to [share](Self::sharing) a bucket now.
    pub fn peek(&self, key: &K) -> Usage {
        let look = |level, at| (level, SlotLevel::usage(&self.plan, level, at));
        let candidates = self.candidates(key);
        self.decide_in_slot(&candidates, look).unwrap_or_else(|| {
            if let Some(bucket) = self.bucket_without_a_slot(key, &candidates) {
                return bucket.peek();
            }
            let at = self.now();
            SlotLevel::usage(&self.plan, SlotLevel::idle_at(at), at)
        })
    }

    /// Returns the number of keys with less than a full bucket, which is a look at every slot.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.slots.iter().filter(|slot| self.is_in_use(slot)).count()
    }

    /// Returns the number of slots.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.len() / SET * SET
    }

    fn candidates(&self, key: &K) -> Candidates {
        let hash = Fingerprint::of(self.seed.hash_one(key));
        let sets = self.slots.len() / SET;
        let (first, second) = (hash.first_set(sets), hash.second_set(sets));
        // The sets of a key are different ones, so that its candidates are.
        let second = if second == first { (second + 1) % sets } else { second };
        let count = if sets == 1 { SET } else { 2 * SET };
        Candidates { fingerprint: hash.short(MOST_FINGERPRINT), sets: [first * SET, second * SET], count }
    }

    /// Returns the bucket that the key shares while it has no slot, if keys share.
    fn shared_bucket(&self, key: &K) -> Option<WordLimiter<'a, &C>> {
        let most = self.shared.len() as u64;
        // Another number than that of the slots, so that keys of one set do not meet again.
        let place = below(most, scatter(self.seed.hash_one(key), most));
        let word = self.shared.get(place as usize)?;
        Some(WordLimiter::new(word, self.shared_plan, &self.clock))
    }

    /// Returns that bucket if none of the key's candidates has room for it.
    fn bucket_without_a_slot(&self, key: &K, candidates: &Candidates) -> Option<WordLimiter<'a, &C>> {
        let bucket = self.shared_bucket(key)?;
        let is_in_use = |candidate| self.is_in_use(&self.slots[candidates.slot(candidate)]);
        (0..candidates.count).all(is_in_use).then_some(bucket)
    }

    /// Returns whether a slot belongs to a key with less than a full bucket.
    fn is_in_use(&self, slot: &AtomicU64) -> bool {
        // ORDERING: Relaxed: no decision about a slot depends on it.
        let word = Slot(slot.load(Ordering::Relaxed));
        !word.is_vacant() && !word.is_provisional() && !self.is_full(word.level())
    }

    fn now(&self) -> u64 {
        self.line.timeline().position(self.clock.now())
    }

    /// Returns whether the bucket of a level that was loaded before is full.
    fn is_full(&self, level: u64) -> bool {
        self.owed_beats(level) == 0
    }

    /// Returns what the bucket of a level that was loaded before owes.
    ///
    /// The clock is read here, after the level was loaded. By an earlier reading, a level that another process wrote
    /// since could seem too far ahead to be a debt.
    fn owed_beats(&self, level: u64) -> u64 {
        let at = self.now();
        SlotLevel::owed_beats(SlotLevel::healed(&self.line, level, at, &self.clock), at)
    }

    /// Applies `decide` to the key's level, and gives the key a slot if it has none and a level to keep.
    ///
    /// `None` if there is no slot for it.
    fn decide<T>(&self, candidates: &Candidates, decide: impl Fn(u64, u64) -> (u64, T)) -> Option<T> {
        if let Some(answer) = self.decide_in_slot(candidates, &decide) {
            return Some(answer);
        }
        self.decide_as_newcomer(candidates, decide)
    }

    /// Applies `decide` to the level of the key's slot; `None` if it has none.
    #[inline]
    fn decide_in_slot<T>(&self, candidates: &Candidates, decide: impl Fn(u64, u64) -> (u64, T)) -> Option<T> {
        let spin_wait = SpinWait::new();
        loop {
            let mut words = (0..candidates.count).map(|candidate| {
                let slot = &self.slots[candidates.slot(candidate)];
                // ORDERING: Relaxed: a swap of this very word follows, which is the whole bucket. loom-tests:
                // words::table_never_exceeds_a_burst.
                (slot, Slot(slot.load(Ordering::Relaxed)))
            });
            let (slot, word) = words.find(|(_, word)| word.is_of(candidates.fingerprint))?;
            if let Some(answer) = self.decide_on(slot, word, &decide) {
                return Some(answer);
            }
            spin_wait.spin();
        }
    }

    /// Applies `decide` to a word of the key; `None` if another process changed it meanwhile.
    #[inline]
    fn decide_on<T>(&self, slot: &AtomicU64, word: Slot, decide: impl Fn(u64, u64) -> (u64, T)) -> Option<T> {
        // After the word was loaded: only a clock that stepped back can find it too far ahead.
        let at = self.now();
        let level = SlotLevel::healed(&self.line, word.level(), at, &self.clock);
        let (after, answer) = decide(level, at);
        (after == level || swap(slot, word, word.with_level(after)) == word).then_some(answer)
    }

    /// Applies `decide` for a key that was not found.
    #[cold]
    fn decide_as_newcomer<T>(&self, candidates: &Candidates, decide: impl Fn(u64, u64) -> (u64, T)) -> Option<T> {
        let spin_wait = SpinWait::new();
        loop {
            let at = self.now();
            let full = SlotLevel::idle_at(at);
            // A call that a full bucket refuses, or allows without a change, needs no slot.
            let (after, answer) = decide(full, at);
            if after == full {
                return Some(answer);
            }
            match self.arrive(candidates, at) {
                Arrival::InSlot(candidate, word) => {
                    let slot = &self.slots[candidates.slot(candidate)];
                    if let Some(answer) = self.decide_on(slot, word, &decide) {
                        return Some(answer);
                    }
                }
                Arrival::NoSlot => return None,
                Arrival::Disturbed => {}
            }
            spin_wait.spin();
        }
    }

    /// Goes the way of a newcomer once.
    fn arrive(&self, candidates: &Candidates, at: u64) -> Arrival {
        let full = SlotLevel::idle_at(at);
        let mut newcomer = Newcomer::new(candidates.fingerprint, full, candidates.count, self.nonces.draw());
        loop {
            let access = newcomer.access();
            let slot = &self.slots[candidates.slot(access.candidate())];
            let found = match access {
                // ORDERING: Acquire pairs with the Release of `swap`: a process that finds that a full bucket lost its slot reads
                // a clock that is no earlier than that by which it was full. loom-tests: words::table_never_exceeds_a_burst.
                Access::Load(_) => Slot(slot.load(Ordering::Acquire)),
                Access::Swap(_, old, new) => swap(slot, old, new),
            };
            if matches!(access, Access::Swap(_, _, new) if new.is_provisional()) {
                // ORDERING: SeqCst pairs with itself in another newcomer: each inserted its word before this fence and looks at the
                // other's candidates after it, so at least one of them finds the other. loom-tests: words::newcomers_get_one_slot.
                fence(Ordering::SeqCst);
            }
            if let Some(arrival) = newcomer.found(found, |level| self.is_full(level)) {
                return arrival;
            }
        }
    }

    /// Returns the refusal of a key without a slot: until the first of its candidates is full.
    #[cold]
    fn no_slot(&self, candidates: &Candidates) -> Denied {
        let owed = (0..candidates.count).map(|candidate| {
            // ORDERING: Relaxed: the value is only shown.
            self.owed_beats(Slot(self.slots[candidates.slot(candidate)].load(Ordering::Relaxed)).level())
        });
        let wait = self.line.wait(owed.min().unwrap_or(0).max(1));
        Denied::counted_by(self.line.frequency(), 0, wait, wait)
    }
}

/// Swaps a word if it is `old`, and returns what it was.
#[inline]
fn swap(slot: &AtomicU64, old: Slot, new: Slot) -> Slot {
    // ORDERING: Release pairs with the Acquire of a newcomer's loads, and Acquire on failure is such a load. loom-tests:
    // words::table_never_exceeds_a_burst, words::newcomers_get_one_slot.
    match slot.compare_exchange(old.0, new.0, Ordering::Release, Ordering::Acquire) {
        Ok(word) | Err(word) => Slot(word),
    }
}

impl<K: ?Sized, C> fmt::Debug for WordTable<'_, K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordTable").field("plan", &self.plan).field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}
