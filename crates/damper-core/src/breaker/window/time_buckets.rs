//! The calls of the last seconds: a ring of counts, each for a part of the time.
//!
//! A bucket is one word, and a call is counted in the bucket of the time at which it began. The counts are read in two passes
//! over the buckets: the first yields the failures, the second the calls. So the rate is never higher than it was at the moment
//! between the passes, and it is exact if no other thread records meanwhile.
//!
//! ```text
//!                 63     45 44  30 29    15 14   0
//! with slow calls | EPOCH  | SLOW | FAILED | CALLS |
//!                 63     45 44 43          22 21   0
//! without         | EPOCH  | -- | FAILED     | CALLS |
//!                 63        51 50                 0
//! line            | GENERATION | SHIFT             |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | CALLS, FAILED, SLOW | 15 each, or 22 | when one of them is full, all are halved, so that the rates stay |
//! | EPOCH | 19 | the number of the bucket, counted on the clock and shifted; wraps |
//! | SHIFT | 51 | two windows' lengths more with every generation, so that the calls of another are never in the window |
//! | GENERATION | 13 | of the latest call |
//!
//! Where buckets of another length follow, or slow calls begin to count, the numbers go on after a gap of more than a window. So
//! older counts in the ring are never in the window, and EPOCH stays at the same place.
//!
//! A call whose bucket is already used for a later time is dropped. (A bucket that was not used for exactly as long as its epoch
//! takes to wrap is counted once more: 524,288 buckets, six days of seconds.)

use super::{CallTimes, Outcome, OutcomeCounts, WindowShape};
use crate::breaker::state_word::Generation;
use crate::sync::{AtomicU64, Field, LazyWords, Ordering, SpinWait, const_unless_loom, fence};
use core::ops::BitOr;

/// The most buckets of a window.
const MOST: u32 = TimeBuckets::MOST;

/// The line of a window of seconds.
const SHIFT: Field = Field::lowest(u64::BITS - Generation::BITS);
const GENERATION: Field = SHIFT.then(Generation::BITS);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

/// A bucket of a window of seconds. The bits of its counts depend on whether slow calls count.
const COUNTS: Field = Field::lowest(45);
const EPOCH: Field = COUNTS.then(19);
const _: () = assert!(EPOCH.end() == u64::BITS, "fields must tile the word");

/// The positions of the counts of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketLayout {
    /// The bits of the calls, and of the failed ones.
    bits: u32,
}

impl BucketLayout {
    #[inline]
    pub(super) const fn new(slow: bool) -> Self {
        Self { bits: if slow { 15 } else { 22 } }
    }

    const fn calls(self) -> Field {
        Field::lowest(self.bits)
    }

    const fn failed(self) -> Field {
        self.calls().then(self.bits)
    }

    /// The field of the slow calls: the bits that the others leave.
    ///
    /// Where slow calls do not count, that is the one spare bit.
    const fn slow(self) -> Field {
        self.failed().then(COUNTS.end() - self.failed().end())
    }

    #[inline]
    const fn unpack(self, word: u64) -> OutcomeCounts {
        // At most 22 bits each.
        OutcomeCounts {
            calls: self.calls().get(word) as u32,
            failed: self.failed().get(word) as u32,
            slow: self.slow().get(word) as u32,
        }
    }

    #[inline]
    const fn pack(self, epoch: u64, counts: OutcomeCounts) -> u64 {
        EPOCH.put(epoch)
            | self.calls().put(counts.calls as u64)
            | self.failed().put(counts.failed as u64)
            | self.slow().put(counts.slow as u64)
    }

    /// Returns whether a call failed or was slow in any bucket; `bits` is the OR of their words.
    const fn has_failed_or_slow(self, bits: u64) -> bool {
        COUNTS.get(bits) > self.calls().max()
    }
}

/// Returns how far `number` is ahead of the bucket in a word.
#[inline]
const fn ahead(number: u64, word: u64) -> i64 {
    EPOCH.ahead(number, EPOCH.get(word))
}

#[derive(Debug)]
pub(in crate::breaker) struct TimeBuckets {
    line: AtomicU64,
    ring: LazyWords,
}

/// The buckets of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketsShape {
    /// The length of a bucket, in microseconds.
    pub(super) length: u64,
    /// At most `MOST`.
    pub(super) buckets: u32,
    /// The offset that is added to the numbers of buckets.
    pub(super) base: u64,
    pub(super) layout: BucketLayout,
}

impl TimeBuckets {
    /// The most buckets of a window.
    pub(super) const MOST: u32 = WindowShape::MOST_BUCKETS as u32;

    const_unless_loom! {
        /// Creates empty buckets; model checkers create `buckets` of them here.
        pub(super) const fn new(buckets: u32) -> Self {
            Self { line: AtomicU64::new(0), ring: LazyWords::new(buckets, 0) }
        }
    }

    /// Returns the calls that a bucket has left at least when its full counts are halved.
    pub(super) const fn most_calls(slow: bool) -> u32 {
        // At most 22 bits.
        BucketLayout::new(slow).calls().max().div_ceil(2) as u32
    }

    /// Records a call and returns the counts of the window.
    ///
    /// The calls counted under the previous line began no later than this call ended, except for the clock's skew. The second
    /// window's length in SHIFT allows for that.
    pub(super) fn record(
        &self,
        shape: BucketsShape,
        generation: Generation,
        is_current: impl Fn() -> bool,
        call: impl Fn() -> (Outcome, CallTimes),
    ) -> Option<OutcomeCounts> {
        let line = self.line_of(shape, generation, is_current)?;
        let (outcome, span) = call();
        let number = shape.number(span.began, line);
        let now = shape.number(span.ended.max(span.began), line);
        let ring = shape.of(self.ring.get(shape.buckets, 0));
        // Both on the same line.
        if now.wrapping_sub(number) < shape.count_of_buckets() {
            self.count(shape, ring, line, outcome, number, || shape.number(call().1.ended, line))?;
        }
        let words = Self::words(ring);
        // Usually nothing has failed in any bucket, and nothing has to be summed.
        if !shape.layout.has_failed_or_slow(words.into_iter().fold(0, BitOr::bitor)) {
            return None;
        }
        match shape.sum(ring, &words, now) {
            (counts, true) => Some(counts),
            _ => None,
        }
    }

    pub(super) fn counts(&self, shape: BucketsShape, now: u64) -> (OutcomeCounts, Generation) {
        // ORDERING: Relaxed: no decision depends on it.
        let line = self.line.load(Ordering::Relaxed);
        let sum = |ring| shape.sum(shape.of(ring), &Self::words(shape.of(ring)), shape.number(now, line)).0;
        let counts = self.ring.used(shape.buckets).map_or_else(OutcomeCounts::default, sum);
        (counts, Generation::from_bits(GENERATION.get(line)))
    }

    /// Returns the line of a generation, unless there is a later one.
    fn line_of(&self, shape: BucketsShape, generation: Generation, is_current: impl Fn() -> bool) -> Option<u64> {
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
            let shift = SHIFT.get(line).wrapping_add(2 * shape.count_of_buckets());
            let new = GENERATION.put(generation.to_bits().into()) | SHIFT.put(shift);
            match self.line.compare_exchange_weak(line, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(new),
                Err(newer) => line = newer,
            }
        }
    }

    /// Counts a call, unless its generation is over.
    fn count(
        &self,
        shape: BucketsShape,
        ring: &[AtomicU64],
        line: u64,
        outcome: Outcome,
        number: u64,
        now: impl Fn() -> u64,
    ) -> Option<()> {
        let bucket = &ring[(number % shape.count_of_buckets()) as usize];
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
            let old = shape.layout.unpack(word);
            let mut counts = match ahead(number, word) {
                0 => old,
                // The bucket is used for a later time, unless that is ahead of the present time: then it is an old one.
                age if age < 0 && old.calls > 0 && -ahead(now(), word) <= i64::from(MOST) => return Some(()),
                _ => OutcomeCounts::default(),
            };
            if u64::from(counts.calls) == shape.layout.calls().max() {
                counts = OutcomeCounts { calls: counts.calls / 2, failed: counts.failed / 2, slow: counts.slow / 2 };
            }
            counts.calls += 1;
            counts.failed += u32::from(outcome.failed);
            counts.slow += u32::from(outcome.slow);
            let new = shape.layout.pack(number, counts);
            if bucket.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed).is_ok() {
                return Some(());
            }
            spin_wait.spin();
        }
    }

    /// Reads the buckets for the first pass.
    #[inline]
    fn words(ring: &[AtomicU64]) -> [u64; MOST as usize] {
        // ORDERING: Acquire pairs with the Release of the swap in `count`, so that the second pass sees every call counted
        // before a value that the first pass read.
        // loom-tests: breaker_windows::buckets_show_only_real_rates.
        let read = |bucket: &AtomicU64| bucket.load(Ordering::Acquire);
        match ring.first_chunk() {
            // As many as there can be, so the compiler unrolls it.
            Some(buckets) => buckets.each_ref().map(read),
            None => core::array::from_fn(|index| ring.get(index).map_or(0, read)),
        }
    }
}

impl BucketsShape {
    /// Returns the number of the bucket of a time.
    fn number(&self, micros: u64, line: u64) -> u64 {
        (micros / self.length).wrapping_add(SHIFT.get(line)).wrapping_add(self.base)
    }

    /// Returns its buckets of a ring that may have more.
    #[inline]
    fn of(self, ring: &[AtomicU64]) -> &[AtomicU64] {
        ring.get(..self.buckets as usize).unwrap_or(ring)
    }

    fn count_of_buckets(&self) -> u64 {
        self.buckets.into()
    }

    /// Sums the buckets up to the number `now` in the second pass.
    ///
    /// Also returns whether each of them still has the time of the first pass.
    fn sum(&self, ring: &[AtomicU64], words: &[u64; MOST as usize], now: u64) -> (OutcomeCounts, bool) {
        let mut counts = OutcomeCounts::default();
        let mut is_whole = true;
        for (&first, bucket) in words.iter().zip(ring) {
            // ORDERING: Relaxed: nothing is read afterwards.
            let second = bucket.load(Ordering::Relaxed);
            let is_in_window = |word| (0..i64::from(self.buckets)).contains(&ahead(now, word));
            let counted = |word| if is_in_window(word) { self.layout.unpack(word) } else { OutcomeCounts::default() };
            let (early, late) = (counted(first), counted(second));
            // A bucket that moved on may lack successes, so that the others' failures are too many.
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
