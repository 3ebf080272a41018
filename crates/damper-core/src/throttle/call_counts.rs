//! The calls of the last 30 s: a ring of counts, each for a part of the time.
//!
//! A call is counted when it is refused or has ended, in the bucket of the time at which it began. Calls in flight are not
//! counted: if they were, a client that starts at 500 calls a second would at first refuse nine of ten, because no call has
//! ended.
//!
//! ```text
//!  63 51 50     34 33      17 16       0
//! | LAP | REFUSED | REJECTED | ACCEPTED |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | ACCEPTED | 17 | the calls that the service accepted |
//! | REJECTED | 17 | the calls that the service rejected |
//! | REFUSED | 17 | the calls that were not sent. When a field is full, all three are halved, so that the ratios stay |
//! | LAP | 13 | how often the ring went round before this bucket's time; wraps after 68 h |
//!
//! A bucket that was not used for exactly as long as LAP takes to wrap is counted once more.

use crate::sync::{AtomicU64, Field, Ordering, SpinWait, array_of, const_unless_loom};

/// The buckets of the window, and how long one is, in microseconds: 30 s together.
const BUCKETS: usize = 24;
const LENGTH: u64 = 1_250_000;

/// The age, in buckets, of the newest bucket that is no longer in the window.
const BUCKETS_AS_AGE: i64 = BUCKETS as i64;

/// The buckets of the last 5 s: the present one is not over, so 3.75 to 5 s.
const RECENT: u64 = 4;

/// The counts of a throttle's bucket.
const ACCEPTED: Field = Field::lowest(17);
const REJECTED: Field = ACCEPTED.then(17);
const REFUSED: Field = REJECTED.then(17);
const LAP: Field = REFUSED.then(13);
const _: () = assert!(LAP.end() == u64::BITS, "fields must tile the word");

/// The calls of a window.
#[derive(Debug)]
pub(super) struct CallCounts {
    buckets: [AtomicU64; BUCKETS],
}

/// The bucket in which a call is counted, by its number since the clock's zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketNumber(u64);

impl BucketNumber {
    /// No bucket of any time: the call has been counted.
    pub(super) const NONE: Self = Self(u64::MAX);

    /// Returns the bucket of a time in microseconds.
    pub(super) const fn at(micros: u64) -> Self {
        Self(micros / LENGTH)
    }

    const fn place(self) -> usize {
        (self.0 % BUCKETS as u64) as usize
    }

    const fn lap(self) -> u64 {
        (self.0 / BUCKETS as u64) & LAP.max()
    }
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallOutcome {
    /// The throttle did not send it.
    Refused,
    /// The service accepted it.
    Accepted,
    /// The service rejected it.
    Rejected,
}

/// The sums of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallSums {
    pub(super) requests: u64,
    /// The accepted and rejected ones.
    pub(super) verdicts: u64,
    pub(super) accepted: u64,
    /// The accepted and rejected calls of the last 5 s.
    pub(super) recent_verdicts: u64,
    pub(super) recent_accepted: u64,
}

impl CallCounts {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self { buckets: array_of!(BUCKETS, AtomicU64::new(0)) }
        }
    }

    /// Counts a call that began in the bucket `number`, at the time of the bucket `now`.
    ///
    /// If it began before the window, it is dropped, unless it is a rejection. A rejection then counts in the oldest bucket,
    /// because the long timeouts may be the only sign of a service that never responds.
    pub(super) fn count(&self, number: BucketNumber, now: BucketNumber, outcome: CallOutcome) {
        let number = match now.0.wrapping_sub(number.0) as i64 {
            // The clock of another thread may be a little ahead.
            -1..BUCKETS_AS_AGE => number,
            BUCKETS_AS_AGE.. if outcome == CallOutcome::Rejected => BucketNumber(now.0 - (BUCKETS as u64 - 1)),
            _ => return,
        };
        let bucket = &self.buckets[number.place()];
        let spin_wait = SpinWait::new();
        // ORDERING: Relaxed, here and below: the word is the whole bucket, and nothing is published through it. loom-tests:
        // adaptive_throttle::no_call_is_lost.
        let mut word = bucket.load(Ordering::Relaxed);
        while let Some(counted) = counted(word, number, now, outcome) {
            match bucket.compare_exchange_weak(word, counted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(present) => word = present,
            }
            spin_wait.spin();
        }
    }

    /// Sums the buckets of the window that ends with the bucket `now`.
    pub(super) fn sums(&self, now: BucketNumber) -> CallSums {
        let (place, lap) = (now.place(), now.lap());
        let mut sums = CallSums::default();
        let mut add = |bucket: &AtomicU64, lap_of_place: u64, age: usize| {
            let word = bucket.load(Ordering::Relaxed);
            if LAP.get(word) != lap_of_place {
                return;
            }
            let (accepted, ended) = (ACCEPTED.get(word), ACCEPTED.get(word) + REJECTED.get(word));
            sums.requests += ended + REFUSED.get(word);
            sums.verdicts += ended;
            sums.accepted += accepted;
            if (age as u64) < RECENT {
                sums.recent_verdicts += ended;
                sums.recent_accepted += accepted;
            }
        };
        // The places behind the present one belong to the lap before.
        let (of_this_lap, of_lap_before) = self.buckets.split_at(place + 1);
        let lap_before = lap.wrapping_sub(1) & LAP.max();
        of_this_lap.iter().rev().enumerate().for_each(|(age, bucket)| add(bucket, lap, age));
        of_lap_before.iter().rev().enumerate().for_each(|(at, bucket)| add(bucket, lap_before, place + 1 + at));
        sums
    }
}

/// Returns the word with one more call; `None` if the word does not change.
fn counted(word: u64, number: BucketNumber, now: BucketNumber, outcome: CallOutcome) -> Option<u64> {
    let lap = number.lap();
    let field = match outcome {
        CallOutcome::Refused => REFUSED,
        CallOutcome::Accepted => ACCEPTED,
        CallOutcome::Rejected => REJECTED,
    };
    let word = match LAP.get(word).wrapping_sub(lap) & LAP.max() {
        0 if field.get(word) == field.max() => {
            let half = |field: Field| field.put(field.get(word) / 2);
            LAP.put(lap) | half(REFUSED) | half(REJECTED) | half(ACCEPTED)
        }
        0 => word,
        // The clock of another thread is a little ahead, and the bucket is already used for the next time.
        1 if number.0 + BUCKETS as u64 <= now.0 + 1 => return None,
        // The bucket's time is over. Or it is ahead, because the clock has stepped back.
        _ => LAP.put(lap),
    };
    Some(word + field.put(1))
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, BucketNumber, CallCounts, CallOutcome, CallSums, LENGTH};

    #[test]
    fn calls_are_gone_after_30_seconds() {
        let counts = CallCounts::new();
        let at = |bucket: u64| BucketNumber::at(bucket * LENGTH);
        counts.count(at(100), at(100), CallOutcome::Accepted);
        let whole = CallSums { requests: 1, verdicts: 1, accepted: 1, recent_verdicts: 1, recent_accepted: 1 };
        assert_eq!(counts.sums(at(103)), whole);
        assert_eq!(counts.sums(at(104)), CallSums { recent_verdicts: 0, recent_accepted: 0, ..whole });
        assert_eq!(counts.sums(at(123)).requests, 1);
        assert_eq!(counts.sums(at(124)), CallSums::default());
        assert_eq!(counts.sums(at(100 + BUCKETS as u64 * 8_191)), CallSums::default());
    }

    #[test]
    fn verdict_on_a_call_from_before_the_window_is_dropped() {
        let counts = CallCounts::new();
        let at = |bucket: u64| BucketNumber::at(bucket * LENGTH);
        for hours in [0, 1, 30] {
            let now = at(24 + hours * 2_880);
            counts.count(now, now, CallOutcome::Refused);
            counts.count(at(0), now, CallOutcome::Accepted);
            assert_eq!(counts.sums(now), CallSums { requests: 1, ..CallSums::default() }, "after {hours} hours");
        }
    }

    #[test]
    fn rejection_of_a_call_from_before_the_window_is_in_the_oldest_bucket() {
        let counts = CallCounts::new();
        let at = |bucket: u64| BucketNumber::at(bucket * LENGTH);
        for age in [23, 24, 25, 1_000] {
            counts.count(at(2_000 - age), at(2_000), CallOutcome::Rejected);
        }
        assert_eq!(counts.sums(at(2_000)), CallSums { requests: 4, verdicts: 4, ..CallSums::default() });
        assert_eq!(counts.sums(at(2_001)), CallSums::default());
        counts.count(at(2_002), at(2_000), CallOutcome::Rejected);
        assert_eq!(counts.sums(at(2_000)).requests, 4, "one of the future is none of the past");
    }

    #[test]
    fn bucket_that_another_thread_has_begun_early_stays() {
        let counts = CallCounts::new();
        let at = |bucket: u64| BucketNumber::at(bucket * LENGTH);
        counts.count(at(24), at(24), CallOutcome::Rejected);
        counts.count(at(0), at(23), CallOutcome::Accepted);
        assert_eq!(
            counts.sums(at(24)),
            CallSums { requests: 1, verdicts: 1, recent_verdicts: 1, ..CallSums::default() }
        );
    }

    #[test]
    fn buckets_ahead_give_way_to_a_clock_that_stepped_back() {
        for step in [2, 24, 30, 2_880, 12_000] {
            let counts = CallCounts::new();
            let at = |bucket: u64| BucketNumber::at(bucket * LENGTH);
            for bucket in 0..24 {
                counts.count(at(50_000 + bucket), at(50_000 + bucket), CallOutcome::Rejected);
            }
            let now = at(50_023 - step);
            counts.count(now, now, CallOutcome::Accepted);
            assert_eq!(counts.sums(now).accepted, 1, "{step} buckets back");
        }
    }

    #[test]
    fn ratio_outlives_a_full_bucket() {
        let counts = CallCounts::new();
        let now = BucketNumber::at(0);
        for call in 0..400_000 {
            counts.count(now, now, if call % 4 == 0 { CallOutcome::Rejected } else { CallOutcome::Accepted });
        }
        let sums = counts.sums(now);
        let percentage = sums.accepted * 100 / sums.requests;
        assert!((74..=75).contains(&percentage), "{sums:?}");
    }
}
