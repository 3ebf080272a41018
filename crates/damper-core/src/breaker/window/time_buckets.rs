//! The calls of the last seconds: a ring of counts, each for a part of the time.
//!
//! A bucket is one word, and a call is counted in that of the time at which it began. What the window has is read
//! in two passes over the buckets, taking of the first how many failed and of the second how many there were: so it
//! is never a higher rate than there was at the moment between them, and the very rate if nobody else records.
//!
//! ```text
//!                 63     45 44  30 29    15 14   0
//! with slow calls | EPOCH  | SLOW | FAILED | CALLS |
//!                 63     44 43            22 21   0
//! without         | EPOCH  | FAILED         | CALLS |
//!                 63        51 50                 0
//! line            | GENERATION | SHIFT             |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | CALLS, FAILED, SLOW | 15 each, or 22 | when there are so many calls that they do not fit, all are halved, so that the rates stay |
//! | EPOCH | 19 or 20 | the number of the bucket, counted on the clock and shifted; wraps |
//! | SHIFT | 51 | two windows' lengths more with every generation, so that the calls of another are never in the window |
//! | GENERATION | 13 | of the latest call |
//!
//! A call whose bucket is already used for a later time is dropped. (A bucket that was not used for exactly as long
//! as its epoch takes to wrap is counted once more: 524,288 buckets, six days of seconds.)

use super::{CallTimes, Outcome, OutcomeCounts};
use crate::breaker::state_word::Generation;
use crate::sync::{AtomicU64, Field, LazyWords, Ordering, SpinWait, const_unless_loom, fence};
use core::ops::BitOr;
use core::time::Duration;

/// The most buckets of a window.
pub(super) const MOST: u32 = 10;

const SHIFT: Field = Field::lowest(u64::BITS - Generation::BITS);
const GENERATION: Field = SHIFT.then(Generation::BITS);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

/// Where the fields of a bucket are.
#[derive(Clone, Copy, Debug)]
struct BucketLayout {
    calls: Field,
    failed: Field,
    slow: Option<Field>,
    epoch: Field,
}

impl BucketLayout {
    const fn new(slow: bool) -> Self {
        let bits = if slow { 15 } else { 22 };
        let calls = Field::lowest(bits);
        let failed = calls.then(bits);
        let (slow, end) = if slow { (Some(failed.then(bits)), 3 * bits) } else { (None, 2 * bits) };
        let epoch = match slow {
            Some(slow) => slow.then(u64::BITS - end),
            None => failed.then(u64::BITS - end),
        };
        Self { calls, failed, slow, epoch }
    }

    fn unpack(&self, word: u64) -> OutcomeCounts {
        // At most 22 bits each.
        OutcomeCounts {
            calls: self.calls.get(word) as u32,
            failed: self.failed.get(word) as u32,
            slow: self.slow.map_or(0, |slow| slow.get(word) as u32),
        }
    }

    fn pack(&self, epoch: u64, counts: OutcomeCounts) -> u64 {
        self.epoch.put(epoch)
            | self.calls.put(counts.calls.into())
            | self.failed.put(counts.failed.into())
            | self.slow.map_or(0, |slow| slow.put(counts.slow.into()))
    }

    /// Whether a call failed, or was slow, in any of the buckets whose words these bits are of.
    fn has_failed_or_slow(&self, bits: u64) -> bool {
        self.failed.get(bits) != 0 || self.slow.is_some_and(|slow| slow.get(bits) != 0)
    }

    /// How far `number` is ahead of the bucket in a word.
    fn age(&self, number: u64, word: u64) -> i64 {
        self.epoch.ahead(number, self.epoch.get(word))
    }
}

#[derive(Debug)]
pub(in crate::breaker) struct TimeBuckets {
    line: AtomicU64,
    ring: LazyWords,
    buckets: u32,
    /// In microseconds.
    length: u64,
    layout: BucketLayout,
}

impl TimeBuckets {
    const_unless_loom! {
        /// At most `MOST`, which together last for `duration`.
        pub(super) const fn new(duration: Duration, buckets: u32, slow: bool) -> Self {
            Self {
                line: AtomicU64::new(0),
                ring: LazyWords::new(buckets, 0),
                buckets,
                // Below 2^43.
                length: (duration.as_micros() as u64).div_ceil(buckets as u64),
                layout: BucketLayout::new(slow),
            }
        }
    }

    #[inline]
    fn ring(&self) -> &[AtomicU64] {
        self.ring.get(self.buckets, 0)
    }

    /// How many a single bucket has at the least when there were so many: those that are left when its counts are
    /// halved.
    pub(super) const fn calls(&self) -> u32 {
        // At most 22 bits.
        self.layout.calls.max().div_ceil(2) as u32
    }

    /// What the line before has counted began no later than the call ended, but for the clock's skew: that is what
    /// the second window's length is for.
    pub(super) fn record(
        &self,
        generation: Generation,
        is_current: impl Fn() -> bool,
        call: impl Fn() -> (Outcome, CallTimes),
    ) -> Option<OutcomeCounts> {
        let line = self.line_of(generation, is_current)?;
        let (outcome, span) = call();
        let number = self.number(span.began, line);
        let now = self.number(span.ended.max(span.began), line);
        // Both on the same line.
        if now.wrapping_sub(number) < self.count_of_buckets() {
            self.count(line, outcome, number, || self.number(call().1.ended, line))?;
        }
        let ring = self.ring();
        let words = Self::words(ring);
        // Mostly nothing has failed, in whichever bucket, and then nothing has to be summed.
        if !self.layout.has_failed_or_slow(words.into_iter().fold(0, BitOr::bitor)) {
            return None;
        }
        match self.sum(ring, &words, now) {
            (counts, true) => Some(counts),
            _ => None,
        }
    }

    pub(super) fn counts(&self, now: u64) -> (OutcomeCounts, Generation) {
        // ORDERING: Relaxed: no decision depends on it.
        let line = self.line.load(Ordering::Relaxed);
        let sum = |ring| self.sum(ring, &Self::words(ring), self.number(now, line)).0;
        let counts = self.ring.used().map_or_else(OutcomeCounts::default, sum);
        (counts, Generation::from_bits(GENERATION.get(line)))
    }

    /// The number of the bucket of a moment.
    fn number(&self, micros: u64, line: u64) -> u64 {
        (micros / self.length).wrapping_add(SHIFT.get(line))
    }

    fn count_of_buckets(&self) -> u64 {
        self.buckets.into()
    }

    /// The line of a generation, unless there is a later one.
    fn line_of(&self, generation: Generation, is_current: impl Fn() -> bool) -> Option<u64> {
        // ORDERING: Relaxed: the swap compares it again, and `count` reads it again.
        let mut line = self.line.load(Ordering::Relaxed);
        loop {
            if Generation::from_bits(GENERATION.get(line)) == generation {
                return Some(line);
            }
            // ORDERING: Acquire pairs with the Release of the swap below: a thread that sees the line of a later
            // generation sees that the breaker is in that generation.
            // loom-tests: breaker_windows::older_generation_never_clears_a_newer_window.
            fence(Ordering::Acquire);
            if !is_current() {
                return None;
            }
            let shift = SHIFT.get(line).wrapping_add(2 * self.count_of_buckets());
            let new = GENERATION.put(generation.to_bits().into()) | SHIFT.put(shift);
            match self.line.compare_exchange_weak(line, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(new),
                Err(newer) => line = newer,
            }
        }
    }

    /// Counts a call, unless its generation is over.
    fn count(&self, line: u64, outcome: Outcome, number: u64, now: impl Fn() -> u64) -> Option<()> {
        let bucket = &self.ring()[(number % self.count_of_buckets()) as usize];
        let spin_wait = SpinWait::new();
        loop {
            // ORDERING: Relaxed. The fence pairs with the Release of the swap below: a thread that has loaded a count
            // of a later line sees that line.
            // loom-tests: breaker_windows::buckets_of_an_older_generation_are_ignored.
            let word = bucket.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if self.line.load(Ordering::Relaxed) != line {
                return None;
            }
            let old = self.layout.unpack(word);
            let mut counts = match self.layout.age(number, word) {
                0 => old,
                // Used for a later time; unless that is ahead of a moment that is read now: then it is one of long ago.
                age if age < 0 && old.calls > 0 && -self.layout.age(now(), word) <= i64::from(MOST) => return Some(()),
                _ => OutcomeCounts::default(),
            };
            if u64::from(counts.calls) == self.layout.calls.max() {
                counts = OutcomeCounts { calls: counts.calls / 2, failed: counts.failed / 2, slow: counts.slow / 2 };
            }
            counts.calls += 1;
            counts.failed += u32::from(outcome.failed);
            counts.slow += u32::from(outcome.slow);
            let new = self.layout.pack(number, counts);
            if bucket.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed).is_ok() {
                return Some(());
            }
            spin_wait.spin();
        }
    }

    /// The first pass over the buckets.
    fn words(ring: &[AtomicU64]) -> [u64; MOST as usize] {
        let mut words = [0; MOST as usize];
        for (word, bucket) in words.iter_mut().zip(ring) {
            // ORDERING: Acquire pairs with the Release of the swap in `count`, so that the second pass sees
            // what was counted before what the first one saw.
            // loom-tests: breaker_windows::buckets_show_only_real_rates.
            *word = bucket.load(Ordering::Acquire);
        }
        words
    }

    /// The second pass: what the buckets have that end with the number `now`, and whether none of them went on to a
    /// later time since the first.
    fn sum(&self, ring: &[AtomicU64], words: &[u64; MOST as usize], now: u64) -> (OutcomeCounts, bool) {
        let mut counts = OutcomeCounts::default();
        let mut is_whole = true;
        for (&first, bucket) in words.iter().zip(ring) {
            // ORDERING: Relaxed: nothing is read afterwards.
            let second = bucket.load(Ordering::Relaxed);
            let is_in_window = |word| (0..i64::from(self.buckets)).contains(&self.layout.age(now, word));
            let counted = |word| if is_in_window(word) { self.layout.unpack(word) } else { OutcomeCounts::default() };
            let (early, late) = (counted(first), counted(second));
            // Then successes in it may be missing, and the others' failures be too many.
            // loom-tests: breaker_windows::overtaken_sum_is_not_judged.
            is_whole &= !is_in_window(first) || is_in_window(second);
            // At most ten buckets of 22 bits.
            counts.calls += early.calls.max(late.calls);
            counts.failed += early.failed;
            counts.slow += early.slow;
        }
        (counts, is_whole)
    }
}
