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
//! A word of 0 is that of a bucket of which nobody ever spent.
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
//! **A lock** of first sights guards each bucket: a spend, an inheritance, a charge, a roll-back and a clear of one bucket
//! exclude one another. `peek` reads without it.

use super::keyed_limiter::{KeyedLimiter, Place, Receipt};
use super::locks::Counts;
use super::table::Fingerprint;
use crate::limit::{KeyedAlgorithm, Owed, SHARED_LEVEL_BITS};
use crate::quota::Line;
use crate::sync::{AtomicU64, Backoff, Field, Guarded, Ordering};
use crate::time::Clock;
#[cfg(feature = "alloc")]
use alloc::boxed::Box;

/// Shared buckets per key of capacity.
pub(super) const BUCKETS_PER_KEY: usize = 2;

/// The words of all shared buckets.
#[derive(Debug)]
pub(super) enum Shared {
    Lent(&'static [AtomicU64]),
    #[cfg(feature = "alloc")]
    Allocated(Box<[AtomicU64]>),
}

/// The number of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket(usize);

/// A word, as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedWord(u64);

const LEVEL: Field = Field::lowest(SHARED_LEVEL_BITS);
const TAG: Field = LEVEL.then(4);
const _: () = assert!(TAG.end() == u64::BITS, "fields must tile the word");

/// Several keys spent of a bucket.
const SEVERAL: u64 = 0;

/// A key's part of a shared bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    bucket: Bucket,
    /// Of the key; never `SEVERAL`.
    tag: u64,
}

/// What the words of all tiers but one owe.
#[derive(Clone, Copy)]
pub(super) struct Elsewhere {
    /// The debt that takes longest to be repaid.
    longest: Owed,
    /// The same of those that the key may have spent of.
    of_key: Owed,
    /// Whether another key spent of what is owed.
    has_others: bool,
}

/// What a shared bucket owes at a reading of the clock, seen by a key of one tier.
#[derive(Clone, Copy)]
pub(super) struct SharedDebt {
    /// The word of the tier on its line, and its tag.
    own: u64,
    own_tag: u64,
    /// The word that takes as long to be full as the slowest of all tiers' words: where a call without a slot starts.
    pub(super) all: u64,
    /// The same of those words that the key may have spent of: where it starts with a slot of its own.
    pub(super) of_key: u64,
    /// The tag of the bucket after the key has spent of it.
    tag_after: u64,
}

impl Shared {
    /// Memory for so many words, at least one for each tier.
    #[cfg(feature = "alloc")]
    pub(super) fn new(words: usize, tiers: usize) -> Self {
        Self::Allocated((0..words.max(tiers)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        match self {
            Self::Lent(words) => words,
            #[cfg(feature = "alloc")]
            Self::Allocated(words) => words,
        }
    }

    /// How many buckets there are.
    fn buckets(&self, tiers: usize) -> usize {
        self.words().len() / tiers
    }

    fn bucket_of(&self, key: Fingerprint, tiers: usize) -> Bucket {
        Bucket(key.scaled_to(self.buckets(tiers)))
    }

    fn word(&self, Bucket(bucket): Bucket, tiers: usize, tier: usize) -> &AtomicU64 {
        &self.words()[bucket * tiers + tier]
    }
}

impl Bucket {
    /// A number from which the lock of the bucket follows.
    #[cfg(feature = "alloc")]
    pub(super) fn number(self) -> usize {
        self.0
    }
}

impl Share {
    pub(super) fn bucket(self) -> Bucket {
        self.bucket
    }

    /// Whether the key may have spent of what is under this tag.
    fn has(self, tag: u64) -> bool {
        tag == self.tag || tag == SEVERAL
    }
}

impl SharedDebt {
    /// What to store after a call without a slot, which left this word.
    pub(super) fn spent(&self, after: u64) -> SharedWord {
        SharedWord::new(self.tag_after, after)
    }

    /// What to store where less is owed.
    fn less(&self, after: u64) -> SharedWord {
        SharedWord::new(self.own_tag, after)
    }
}

impl SharedWord {
    /// Of a bucket of which nobody ever spent.
    const UNUSED: Self = Self(0);

    /// A word with the lowest bits of a bucket's word; never `UNUSED`, but one unit more.
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

impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> KeyedLimiter<K, C, S, A> {
    /// The bucket that a key would share, and its part of it.
    pub(super) fn share_of(&self, key: Fingerprint) -> Share {
        Share { bucket: self.shared.bucket_of(key, self.tiers.len()), tag: key.tag(TAG.max()) }
    }

    /// The lock under which a key is seen for the first time, and its shared bucket changes.
    pub(super) fn lock_of(&self, key: Fingerprint) -> &Guarded<Counts> {
        self.locks.of(self.share_of(key).bucket)
    }

    /// The word of a bucket in a tier. The decision that follows has to be validated by `LiveQuota::is_current`.
    pub(super) fn shared_word(&self, bucket: Bucket, tier: usize) -> SharedWord {
        // ORDERING: Relaxed. Whoever decides holds the lock, which orders the words and their quotas. A `peek` has no lock: it
        // tells of one instant or the next. loom-tests: keyed::an_old_quota_forgets_no_overflow.
        SharedWord(self.shared.word(bucket, self.tiers.len(), tier).load(Ordering::Relaxed))
    }

    /// Called with the bucket's lock held.
    pub(super) fn store_shared_word(&self, bucket: Bucket, tier: usize, word: SharedWord) {
        // ORDERING: Relaxed, as in `shared_word`.
        self.shared.word(bucket, self.tiers.len(), tier).store(word.0, Ordering::Relaxed);
    }

    /// What all tiers' words but one owe. Read before the clock is read for that one's line.
    pub(super) fn owed_elsewhere(&self, share: Share, tier: usize) -> Elsewhere {
        let mut elsewhere = Elsewhere { longest: Owed::NOTHING, of_key: Owed::NOTHING, has_others: false };
        for other in (0..self.tiers.len()).filter(|&other| other != tier) {
            let (owed, tag) = self.owed_in_tier(share.bucket, other);
            elsewhere.longest = elsewhere.longest.max(owed);
            if share.has(tag) {
                elsewhere.of_key = elsewhere.of_key.max(owed);
            }
            elsewhere.has_others |= owed > Owed::NOTHING && tag != share.tag;
        }
        elsewhere
    }

    /// What one tier's word of a bucket owes, and its tag.
    fn owed_in_tier(&self, bucket: Bucket, tier: usize) -> (Owed, u64) {
        let backoff = Backoff::new();
        loop {
            let (quota, (epoch, mut line)) = self.read_tier(tier);
            let word = self.shared_word(bucket, tier);
            let at = line.reading(self.clock.now());
            if quota.is_current(epoch) {
                let full = word.full::<A>(&line, at, &self.clock);
                return (A::owed(&line, full, at, &self.clock), word.tag());
            }
            backoff.spin();
        }
    }

    /// What a bucket owes by the word of a tier and those of the others.
    pub(super) fn shared_debt(
        &self,
        share: Share,
        line: &A::Line,
        at: u64,
        word: SharedWord,
        elsewhere: Elsewhere,
    ) -> SharedDebt {
        let (own, own_tag) = (word.full::<A>(line, at, &self.clock), word.tag());
        let is_owed = A::weight(line, own, at, &self.clock) > 0;
        let longer = |here: u64, elsewhere: Owed| {
            let is_longer = elsewhere > Owed::NOTHING && elsewhere > A::owed(line, here, at, &self.clock);
            if is_longer { A::owing(line, at, elsewhere) } else { here }
        };
        let of_key = if share.has(own_tag) { own } else { A::idle(line, at) };
        let has_others = elsewhere.has_others || is_owed && own_tag != share.tag;
        SharedDebt {
            own,
            own_tag,
            all: longer(own, elsewhere.longest),
            of_key: longer(of_key, elsewhere.of_key),
            tag_after: if has_others { SEVERAL } else { share.tag },
        }
    }

    /// Decides about the shared bucket of a key in a tier: gets the tier's line, the position of now and what is owed, and
    /// returns the new word of the tier, if that is to change.
    ///
    /// The bucket's lock has to be held if anything changes.
    pub(super) fn visit_shared<T>(
        &self,
        share: Share,
        tier: usize,
        decide: impl Fn(&A::Line, u64, SharedDebt) -> (Option<SharedWord>, T),
    ) -> T {
        let backoff = Backoff::new();
        loop {
            let elsewhere = self.owed_elsewhere(share, tier);
            let (quota, (epoch, mut line)) = self.read_tier(tier);
            let word = self.shared_word(share.bucket, tier);
            // After the word, as in `OneWord::look`.
            let at = line.reading(self.clock.now());
            if quota.is_current(epoch) {
                let debt = self.shared_debt(share, &line, at, word, elsewhere);
                let (after, answer) = decide(&line, at, debt);
                if let Some(after) = after {
                    self.store_shared_word(share.bucket, tier, after);
                }
                return answer;
            }
            backoff.spin();
        }
    }

    /// Books `n` tokens in the shared bucket of a key, whose lock is held, and returns how many it booked.
    pub(super) fn charge_shared(&self, share: Share, tier: usize, n: u32) -> u32 {
        self.visit_shared(share, tier, |line, at, debt| {
            let (booked, after) = A::charge(line, debt.all, at, n);
            ((booked > 0).then(|| debt.spent(after)), booked)
        })
    }

    /// Gives back to its shared bucket what a key took there, less what has been refilled since.
    pub(super) fn roll_back_shared(&self, key: Fingerprint, n: u32, receipt: Receipt) {
        let share = self.share_of(key);
        self.locks.of(share.bucket).write(|counts| {
            // What was forgotten since is not there any more: what is may be another key's.
            if receipt.place == (Place::Shared { clears: counts.clears }) {
                self.visit_shared(share, receipt.tier.into(), |line, at, debt| {
                    (Some(debt.less(A::roll_back(line, debt.own, at, n, receipt.at))), ())
                });
            }
        });
    }

    /// Forgets what is owed in all shared buckets.
    pub(super) fn clear_shared(&self) {
        let tiers = self.tiers.len();
        for bucket in (0..self.shared.buckets(tiers)).map(Bucket) {
            self.locks.of(bucket).write(|counts| {
                counts.clears = counts.clears.wrapping_add(1);
                (0..tiers).for_each(|tier| self.store_shared_word(bucket, tier, SharedWord::UNUSED));
            });
        }
    }
}
