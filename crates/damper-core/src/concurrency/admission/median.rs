//! The median of recent service times, in one word.
//!
//! ```text
//!  63            5 4         0
//! |     TICKS     |  SAMPLES  |
//! ```
//!
//! Each sample moves the median by a small part of itself, up if the sample is longer and down if it is shorter. Where as many
//! samples are longer as are shorter, it stays. The part is a half for the second sample and a 32nd from the 31st on, so that it
//! follows the last hundred or so: if a service becomes ten times slower, the median shows it after some 75 calls.

use crate::sync::{AtomicU64, Field, Ordering, const_unless_loom};

/// The median of an admission's calls.
const SAMPLES: Field = Field::lowest(5);
const TICKS: Field = SAMPLES.then(59);
const _: () = assert!(TICKS.end() == u64::BITS, "fields must tile the word");

/// The longest service time; a longer one counts as this.
///
/// So the sum of a median and a reading of the clock keeps its sign.
const LONGEST: u64 = 1 << 57;

/// The number of samples from which the step stays the same.
const STEADY: u64 = SAMPLES.max();

/// The median.
#[derive(Debug)]
pub(super) struct RecentMedian(AtomicU64);

impl RecentMedian {
    const_unless_loom! {
        /// Creates a median before the first sample.
        pub(super) const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Returns the median, in ticks; 0 before the first sample.
    #[inline]
    pub(super) fn ticks(&self) -> u64 {
        // ORDERING: Relaxed: the word is the whole value, and publishes nothing.
        TICKS.get(self.0.load(Ordering::Relaxed))
    }

    /// Adds a service time.
    #[inline]
    pub(super) fn learn(&self, ticks: u64) {
        // ORDERING: Relaxed, as in `ticks`. If another thread has updated the median meanwhile, this one sample of many is
        // dropped. A store would undo all updates since the load. loom-tests:
        // admission::slow_thread_does_not_undo_what_others_have_learnt.
        let word = self.0.load(Ordering::Relaxed);
        let next = following(word, ticks);
        if next != word {
            _ = self.0.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Adds a call that was ended after this time, before its work was done.
    ///
    /// It would have taken longer, so one that has reached the median is as good as a sample. A shorter one says nothing, and nor
    /// does any before the first whole call.
    pub(super) fn learn_at_least(&self, ticks: u64) {
        let median = self.ticks();
        if median > 0 && ticks > median {
            self.learn(ticks);
        }
    }
}

/// Returns the word after one more sample.
#[inline]
const fn following(word: u64, ticks: u64) -> u64 {
    let ticks = if ticks > LONGEST { LONGEST } else { ticks };
    let (samples, median) = (SAMPLES.get(word), TICKS.get(word));
    let step = match samples {
        0 => return SAMPLES.put(1) | TICKS.put(if ticks == 0 { 1 } else { ticks }),
        STEADY => median / (STEADY + 1),
        _ => median / (samples + 1),
    };
    let step = if step == 0 { 1 } else { step };
    let median = if ticks > median {
        let higher = median + step;
        if higher > ticks { ticks } else { higher }
    } else {
        let lower = median - step;
        if lower < ticks { ticks } else { lower }
    };
    SAMPLES.put(if samples == STEADY { STEADY } else { samples + 1 }) | TICKS.put(if median == 0 { 1 } else { median })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::random::SplitMix;

    fn after(samples: impl IntoIterator<Item = u64>) -> RecentMedian {
        let median = RecentMedian::new();
        samples.into_iter().for_each(|ticks| median.learn(ticks));
        median
    }

    #[test]
    fn first_sample_is_the_median() {
        assert_eq!((after([]).ticks(), after([700]).ticks(), after([0]).ticks()), (0, 700, 1));
        assert_eq!(after([u64::MAX; 100]).ticks(), LONGEST);
    }

    /// If one call in ten takes ten times as long, a mean would be at 1.9 times; the median is not.
    #[test]
    fn median_stays_with_the_many() {
        let mut random = SplitMix::new(1);
        let median = after((0..2_000).map(|_| if random.next().is_multiple_of(10) { 10_000_000 } else { 1_000_000 }));
        assert!((1_000_000..=1_100_000).contains(&median.ticks()), "{}", median.ticks());
    }

    #[test]
    fn median_of_even_times_is_in_their_middle() {
        let mut random = SplitMix::new(2);
        let median = after((0..500).map(|_| random.next() % 1_000_000));
        let mut sum = 0;
        for _ in 0..10_000 {
            median.learn(random.next() % 1_000_000);
            sum += median.ticks();
        }
        assert!((460_000..540_000).contains(&(sum / 10_000)), "{}", sum / 10_000);
    }

    #[test]
    fn median_follows_a_service_that_becomes_slower() {
        let median = after([1_000_000; 100]);
        let calls = (0..1_000).position(|_| {
            median.learn(10_000_000);
            median.ticks() == 10_000_000
        });
        assert!(calls.is_some_and(|calls| (60..90).contains(&calls)), "{calls:?}");
        let calls = (0..1_000).position(|_| {
            median.learn(1_000_000);
            median.ticks() == 1_000_000
        });
        assert!(calls.is_some_and(|calls| (60..90).contains(&calls)), "{calls:?}");
    }
}
