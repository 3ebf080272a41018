//! The buckets that keys without a slot share.
//!
//! There are many of them, because a newcomer inherits the debt of its shared bucket. With a single bucket, one key in a
//! thousand that finds no slot was seen to refuse nine of ten innocent clients: each newcomer started with the bucket's
//! debt, so that its slot stayed busy longer, so that more keys found no slot. A key's hash chooses its bucket, so a key has
//! one only, and takes the debt that it left there along when it gets a slot.
//!
//! ```text
//! word  63 60 59                                       0
//!      | TAG |  LEVEL                                   |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | LEVEL | 60 | what the algorithm keeps, as in a slot |
//! | TAG | 4 | a part of the hash of the key that spent all that is owed; 0 if several keys did |
//!
//! A word of 0 is that of a bucket from which no key ever spent.
//!
//! **The level** of a token bucket circles after nine years of nanoseconds, not after 208 days as that of a slot: a slot is read by
//! its owner only, while a phantom debt here would refuse every newcomer of the bucket.
//!
//! **The tag** spares newcomers the debt of others: a key with another tag has spent nothing here, and inherits nothing. At 150 %
//! of the capacity that is the difference between 2.6 % and 0.5 % of whole bursts refused. Only a bucket that owes nothing gets
//! a new tag, so that the debt of a key is always under its own tag or under 0.
//!
//! **A bucket has a word for each tier**, side by side in memory. A call starts from the word that takes longest to be full, and
//! writes the word of its own tier only. (One word with the tier in it was seen to hand out fresh bursts across changes of the
//! quota.)
//!
//! **An added tier** brings its words along, one for each bucket, in memory of its own. So there are as many buckets as before, and
//! each key keeps its bucket and its lock. The new words owe nothing, which is right: no key of that tier has spent yet. A call
//! counts the tiers under the bucket's lock, so it sees the tier of every spend that went before.
//!
//! **A lock** of first sights guards each bucket: a spend, an inheritance, a charge, a roll-back and a clear of one bucket
//! exclude one another. `peek` reads without it.

use super::fingerprint::Fingerprint;
use super::locks::{Counts, Locks};
use super::tier_quotas::Tiers;
use crate::limit::{KeyedAlgorithm, Owed, SHARED_LEVEL_BITS, TokenBucket};
use crate::quota::Line;
#[cfg(feature = "std")]
use crate::sync::Signal;
use crate::sync::{AtomicU64, Field, Guarded, Ordering, SpinWait, const_unless_loom};
use crate::time::{Clock, Ticks};
#[cfg(feature = "alloc")]
use alloc::boxed::Box;

/// Shared buckets per key of capacity.
pub(in crate::keyed) const BUCKETS_PER_KEY: usize = 2;

/// The shared buckets and their locks.
pub(super) struct SharedBuckets {
    /// Those of a bucket stand side by side: one for each tier that the limiter was built with.
    words: Words,
    /// How many tiers that are.
    tiers: usize,
    locks: Locks,
}

enum Words {
    Lent(&'static [AtomicU64]),
    #[cfg(feature = "alloc")]
    Allocated(Box<[AtomicU64]>),
}

/// A key's part of a shared bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The number of the bucket.
    bucket: usize,
    /// Of the key; never `SEVERAL`.
    tag: u64,
}

/// A word, as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedWord(u64);

const LEVEL: Field = Field::lowest(SHARED_LEVEL_BITS);
const TAG: Field = LEVEL.then(4);
const _: () = assert!(TAG.end() == u64::BITS, "fields must tile the word");

/// The tag of a bucket from which several keys spent.
const SEVERAL: u64 = 0;

/// The debt in the words of all tiers but one.
#[derive(Clone, Copy)]
pub(super) struct OtherTiersDebt {
    /// The debt that takes longest to be repaid.
    longest: Owed,
    /// The same of those that the key may have spent of.
    of_key: Owed,
    /// Whether another key spent of what is owed.
    has_others: bool,
}

impl OtherTiersDebt {
    const NONE: Self = Self { longest: Owed::NOTHING, of_key: Owed::NOTHING, has_others: false };
}

/// The debt of a shared bucket at a reading of the clock, seen by a key of one tier.
#[derive(Clone, Copy)]
pub(super) struct SharedDebt {
    /// The word of the tier on its line, and its tag.
    own: u64,
    own_tag: u64,
    /// The word where a call without a slot starts.
    ///
    /// It takes as long to be full as the slowest of all tiers' words.
    pub(super) all: u64,
    /// The same of those words that the key may have spent of: where it starts with a slot of its own.
    pub(super) of_key: u64,
    /// The tag of the bucket after the key has spent of it.
    tag_after: u64,
}

impl SharedWord {
    /// The word of a bucket from which no key ever spent.
    pub(super) const UNUSED: Self = Self(0);

    /// A word with the lowest bits of a bucket's word. Where that would be `UNUSED`, one unit more.
    fn new(tag: u64, word: u64) -> Self {
        match TAG.put(tag) | LEVEL.get(word) {
            0 => Self(1),
            word => Self(word),
        }
    }

    fn tag(self) -> u64 {
        TAG.get(self.0)
    }

    /// The bucket's word at a reading of the clock.
    fn full<A: KeyedAlgorithm>(self, line: &A::Line, at: u64, clock: &impl Clock) -> u64 {
        if self.0 == Self::UNUSED.0 { A::idle(line, at) } else { A::shared(line, LEVEL.get(self.0), at, clock) }
    }
}

impl SharedDebt {
    /// The word to store after a call without a slot, which left this word.
    pub(super) fn spent(&self, after: u64) -> SharedWord {
        SharedWord::new(self.tag_after, after)
    }

    /// The word to store where less is owed.
    fn less(&self, after: u64) -> SharedWord {
        SharedWord::new(self.own_tag, after)
    }
}

impl Share {
    /// Whether the key may have spent of what is under this tag.
    fn has(self, tag: u64) -> bool {
        tag == self.tag || tag == SEVERAL
    }

    /// The word where the key starts with a slot of its own: [`SharedDebt::of_key`].
    #[inline]
    pub(super) fn debt_of_key<A: KeyedAlgorithm>(
        self,
        line: &A::Line,
        at: u64,
        word: SharedWord,
        others: OtherTiersDebt,
        clock: &impl Clock,
    ) -> u64 {
        // Mostly no key ever spent of it.
        if word.0 == SharedWord::UNUSED.0 && others.of_key == Owed::NOTHING {
            return A::idle(line, at);
        }
        self.debt::<A>(line, at, word, others, clock).of_key
    }

    /// The debt of the bucket by the word of a tier and those of the others.
    pub(super) fn debt<A: KeyedAlgorithm>(
        self,
        line: &A::Line,
        at: u64,
        word: SharedWord,
        others: OtherTiersDebt,
        clock: &impl Clock,
    ) -> SharedDebt {
        let (own, own_tag) = (word.full::<A>(line, at, clock), word.tag());
        let is_owed = A::weight(line, own, at, clock) > 0;
        let longer = |here: u64, other: Owed| {
            let is_longer = other > Owed::NOTHING && other > A::owed(line, here, at, clock);
            if is_longer { A::owing(line, at, other) } else { here }
        };
        let of_key = if self.has(own_tag) { own } else { A::idle(line, at) };
        let has_others = others.has_others || is_owed && own_tag != self.tag;
        SharedDebt {
            own,
            own_tag,
            all: longer(own, others.longest),
            of_key: longer(of_key, others.of_key),
            tag_after: if has_others { SEVERAL } else { self.tag },
        }
    }
}

impl SharedBuckets {
    const_unless_loom! {
        /// Buckets of one tier, in memory that the caller lends.
        pub(super) const fn lent(words: &'static [AtomicU64]) -> Self {
            Self { words: Words::Lent(words), tiers: 1, locks: Locks::one() }
        }
    }

    /// Buckets of so many words, at least one for each tier.
    #[cfg(feature = "alloc")]
    pub(super) fn new(words: usize, tiers: usize) -> Self {
        let words = Words::Allocated((0..words.max(tiers)).map(|_| AtomicU64::new(0)).collect());
        Self { words, tiers, locks: Locks::many() }
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        match &self.words {
            Words::Lent(words) => words,
            #[cfg(feature = "alloc")]
            Words::Allocated(words) => words,
        }
    }

    #[inline]
    pub(super) fn buckets(&self) -> usize {
        self.words().len() / self.tiers
    }

    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    #[inline]
    fn word_of<'a>(&'a self, bucket: usize, tier: usize, tiers: &'a Tiers) -> &'a AtomicU64 {
        #[cfg(feature = "alloc")]
        if tier >= self.tiers {
            return &tiers.added_words(tier)[bucket];
        }
        &self.words()[bucket * self.tiers + tier]
    }

    /// The bucket that a key would share, and its part of it.
    #[inline]
    pub(super) fn share_of(&self, key: Fingerprint) -> Share {
        Share { bucket: key.shared_bucket(self.buckets()), tag: key.tag(TAG.max()) }
    }

    /// The lock of a bucket, and of the first sights of the keys that would share it.
    #[inline]
    pub(super) fn lock(&self, share: Share) -> &Guarded<Counts> {
        self.locks.of(share.bucket)
    }

    /// The signal to raise when tokens of a key that shares this bucket may come earlier.
    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn changes(&self, share: Share) -> &Signal {
        self.locks.changes(share.bucket)
    }

    /// Raises what [`changes`](Self::changes) returns for all buckets.
    #[cfg(feature = "std")]
    pub(super) fn raise_all(&self) {
        self.locks.raise_all();
    }

    /// How often the tiers of the keys under this bucket's lock were asked for again.
    #[cfg(feature = "alloc")]
    pub(super) fn retiers(&self, share: Share) -> u32 {
        self.locks.retiers(share.bucket)
    }

    /// Adds one to [`retiers`](Self::retiers).
    #[cfg(feature = "alloc")]
    pub(super) fn count_retier(&self, share: Share) {
        self.locks.count_retier(share.bucket);
    }

    /// Adds up what each lock counted.
    pub(super) fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.locks.sum(of)
    }

    /// The word of a bucket in a tier.
    ///
    /// The decision that follows has to be validated by `LiveQuota::is_current`.
    #[inline]
    pub(super) fn word(&self, share: Share, tier: usize, tiers: &Tiers) -> SharedWord {
        // ORDERING: Relaxed. A thread that decides holds the lock, which orders the words and their quotas. A `peek` has no
        // lock: it reports one instant or the next. loom-tests: keyed::shared_debt_survives_a_stale_quota.
        SharedWord(self.word_of(share.bucket, tier, tiers).load(Ordering::Relaxed))
    }

    /// Called with the bucket's lock held.
    #[inline]
    pub(super) fn store(&self, share: Share, tier: usize, tiers: &Tiers, word: SharedWord) {
        // ORDERING: Relaxed, as in `word`.
        self.word_of(share.bucket, tier, tiers).store(word.0, Ordering::Relaxed);
    }

    /// The debt in all tiers' words but one. Read before the clock is read for that one's line.
    ///
    /// A thread that decides holds the lock, so it counts every tier in which tokens of the bucket were taken.
    #[inline]
    pub(super) fn debt_in_other_tiers<A: KeyedAlgorithm>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        clock: &impl Clock,
    ) -> OtherTiersDebt {
        if tiers.is_one() { OtherTiersDebt::NONE } else { self.debt_of_others::<A>(share, tier, tiers, clock) }
    }

    #[inline(never)]
    fn debt_of_others<A: KeyedAlgorithm>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        clock: &impl Clock,
    ) -> OtherTiersDebt {
        let mut debt = OtherTiersDebt::NONE;
        // loom-tests: keyed::spend_in_an_added_tier_counts_in_the_others.
        for other in (0..tiers.len()).filter(|&other| other != tier) {
            let (owed, tag) = self.owed_in_tier::<A>(share, other, tiers, clock);
            debt.longest = debt.longest.max(owed);
            if share.has(tag) {
                debt.of_key = debt.of_key.max(owed);
            }
            debt.has_others |= owed > Owed::NOTHING && tag != share.tag;
        }
        debt
    }

    /// The debt in one tier's word of a bucket, and its tag.
    fn owed_in_tier<A: KeyedAlgorithm>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        clock: &impl Clock,
    ) -> (Owed, u64) {
        // Nothing was taken in a tier that was not used yet, and this is no use of it.
        if tiers.at(tier).1.quota.unsettled_line::<A::Line>(clock).is_some() {
            return (Owed::NOTHING, SEVERAL);
        }
        let spin_wait = SpinWait::new();
        loop {
            let (quota, (epoch, mut line)) = tiers.read::<A::Line>(tier, clock);
            let word = self.word(share, tier, tiers);
            let at = line.reading(clock.now());
            if quota.is_current(epoch) {
                let full = word.full::<A>(&line, at, clock);
                return (A::owed(&line, full, at, clock), word.tag());
            }
            spin_wait.spin();
        }
    }

    /// Decides about a key's shared bucket in a tier.
    ///
    /// `decide` gets the tier's line, the position of now and the debt, and returns the new word of the tier, if that
    /// is to change.
    ///
    /// The bucket's lock has to be held if anything changes.
    pub(super) fn visit<A: KeyedAlgorithm, T>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        clock: &impl Clock,
        decide: impl Fn(&A::Line, u64, SharedDebt) -> (Option<SharedWord>, T),
    ) -> T {
        let spin_wait = SpinWait::new();
        loop {
            let others = self.debt_in_other_tiers::<A>(share, tier, tiers, clock);
            let (quota, (epoch, mut line)) = tiers.read::<A::Line>(tier, clock);
            let word = self.word(share, tier, tiers);
            // After the word, as in `OneWord::read`.
            let at = line.reading(clock.now());
            if quota.is_current(epoch) {
                let debt = share.debt::<A>(&line, at, word, others, clock);
                let (after, answer) = decide(&line, at, debt);
                if let Some(after) = after {
                    self.store(share, tier, tiers, after);
                }
                return answer;
            }
            spin_wait.spin();
        }
    }

    /// Books `n` tokens in the shared bucket of a key, whose lock is held, and returns how many it booked.
    pub(super) fn charge<A: KeyedAlgorithm>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        n: u32,
        clock: &impl Clock,
    ) -> u32 {
        self.visit::<A, _>(share, tier, tiers, clock, |line, at, debt| {
            let (booked, after) = A::charge(line, debt.all, at, n);
            ((booked > 0).then(|| debt.spent(after)), booked)
        })
    }

    /// Gives back to its shared bucket what a key took there, less what has been refilled since.
    ///
    /// Called with the bucket's lock held.
    pub(super) fn roll_back<A: KeyedAlgorithm>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        n: u32,
        taken_at: u64,
        clock: &impl Clock,
    ) {
        self.visit::<A, _>(share, tier, tiers, clock, |line, at, debt| {
            (Some(debt.less(A::roll_back(line, debt.own, at, n, taken_at))), ())
        });
    }

    /// Gives back `n` tokens of a reservation, and returns whether it did.
    ///
    /// It does so if the tier's word is still the one of that reservation, its time has not come, and no other tier
    /// owes for longer. Called with the bucket's lock held.
    pub(super) fn cancel(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        n: u32,
        reserved: u64,
        clock: &impl Clock,
    ) -> bool {
        self.visit::<TokenBucket, _>(share, tier, tiers, clock, |line, at, debt| {
            // A key of another tier that came later started from a debt that takes longer.
            let is_last = debt.own == reserved && debt.all == reserved;
            if is_last && line.ready_in(reserved, at) > Ticks::ZERO {
                (Some(debt.less(line.without(reserved, n))), true)
            } else {
                (None, false)
            }
        })
    }

    /// Forgets what is owed in all buckets.
    pub(super) fn clear(&self, tiers: &Tiers) {
        for bucket in 0..self.buckets() {
            self.locks.of(bucket).write(|counts| {
                counts.clears = counts.clears.wrapping_add(1);
                for tier in 0..tiers.len() {
                    // ORDERING: Relaxed, as in `word`.
                    self.word_of(bucket, tier, tiers).store(SharedWord::UNUSED.0, Ordering::Relaxed);
                }
            });
        }
    }
}
