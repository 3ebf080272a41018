//! How much of a limit is reserved and not settled yet, in one word.
//!
//! A reservation takes its cost at once. When it is *settled* later, it gives back what the call did not use. The limit
//! allows these tokens in addition to its own bound. Consider any stretch of time: the reservations made before it can
//! give back at most the sum that was unsettled at its start. So this module bounds that sum. A reservation beyond the
//! bound is allowed too, but gives nothing back.
//!
//! A reservation that is never settled must not take up the bound for ever. Time is divided into *generations*, each as
//! long as the time-to-live of a reservation. A reservation may give something back for one time-to-live, and is
//! counted in its own generation and the next.
//!
//! ```text
//!  63        44 43       22 21        0
//! | GENERATION | BEFORE    | CURRENT   |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | CURRENT | 22 | what was reserved in this generation and is unsettled, in parts of a burst |
//! | BEFORE | 22 | what was reserved in the previous generation and is unsettled, in parts of a burst |
//! | GENERATION | 20 | the number of the current generation; wraps, after 4 years at two minutes each |
//!
//! A thread that was stopped may find that the word has moved on to a later generation. It then counts its reservation
//! in that generation.
//!
//! Generation numbers wrap. For one number in sixteen, a word with old counts therefore seems to be of a later
//! generation. The limit then gives back less, never more. A reservation that is held for 2^20 times-to-live may free
//! the count of another reservation when it is released.

use crate::OutOfRange;
use crate::sync::{AtomicU64, Field, Ordering};
use crate::time::{Clock, Frequency, Ticks};
use core::ops::RangeInclusive;
use core::time::Duration;

/// A word of unsettled reservations.
const CURRENT: Field = Field::lowest(22);
const BEFORE: Field = CURRENT.then(22);
const GENERATION: Field = BEFORE.then(20);
const _: () = assert!(GENERATION.end() == u64::BITS, "fields must tile the word");

/// The most generations that a stopped thread may lag behind the word, as a negative number.
const LATEST: i64 = -(1 << 16);

/// The number of parts in a burst. Reservations are counted in these parts.
const PARTS_PER_BURST: u32 = 1 << 14;

/// The most bursts that may be unsettled.
const MOST_BURSTS: u8 = (CURRENT.max() / PARTS_PER_BURST as u64) as u8;

/// The allowed times-to-live.
const TIMES_TO_LIVE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(30 * 86_400);

/// The bounds on the unsettled reservations of a limit: how much they may hold, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnsettledBounds {
    /// The most that may be unsettled, in parts of a burst.
    most: u32,
    /// The time-to-live of a reservation in ticks of the clock, from 1 to 2^63 - 1.
    time_to_live: u64,
}

impl UnsettledBounds {
    /// How many bursts may be unsettled by default.
    pub(crate) const BURSTS: f64 = 2.0;

    /// The default time-to-live of a reservation.
    pub(crate) const TIME_TO_LIVE: Duration = Duration::from_secs(120);

    /// Returns the default bounds on this clock.
    pub(crate) fn on(clock: &impl Clock) -> Self {
        Self { most: parts_of(Self::BURSTS), time_to_live: ticks(Self::TIME_TO_LIVE, clock) }
    }

    pub(crate) fn with_bursts(self, bursts: f64) -> Result<Self, OutOfRange> {
        OutOfRange::check_ratio("unsettled", bursts, 0.0..=MOST_BURSTS.into())
            .map_err(|error| error.note("(bursts)"))?;
        Ok(Self { most: parts_of(bursts), ..self })
    }

    pub(crate) fn with_time_to_live(self, time: Duration, clock: &impl Clock) -> Result<Self, OutOfRange> {
        OutOfRange::check_duration("time_to_live", time, TIMES_TO_LIVE)?;
        Ok(Self { time_to_live: ticks(time, clock), ..self })
    }

    /// Counts the cost of a reservation made at the tick `since`, as far as the bound allows.
    pub(crate) fn count(&self, word: &Unsettled, cost: u32, burst: u32, since: u64) -> Counted {
        // A cost is at most the burst, so the parts fit a `u32`.
        let parts = (u64::from(cost) * u64::from(PARTS_PER_BURST)).div_ceil(burst.max(1).into());
        word.count(u32::try_from(parts).unwrap_or(u32::MAX), self.most, since / self.time_to_live)
    }

    /// Returns whether a reservation made at the tick `since` may still give something back.
    pub(crate) fn is_alive(&self, since: u64, now: u64) -> bool {
        // The difference is signed, because this thread's reading may be a little behind `since`.
        now.wrapping_sub(since) as i64 <= self.time_to_live as i64
    }
}

/// Converts a number of bursts to parts, rounded down.
fn parts_of(bursts: f64) -> u32 {
    // The product is at most 2^22.
    (bursts * f64::from(PARTS_PER_BURST)) as u32
}

fn ticks(time: Duration, clock: &impl Clock) -> u64 {
    let frequency = Frequency::from_hertz(clock.frequency());
    Ticks::within(time, frequency).count().clamp(1, i64::MAX as u64)
}

/// The sum of what reservations may still give back, in parts of a burst.
#[derive(Debug)]
pub(crate) struct Unsettled {
    word: AtomicU64,
}

/// The part of a reservation that may be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    parts: u32,
    /// The generation in which the `parts` are counted, modulo 2^20.
    generation: u32,
}

impl Counted {
    /// Marks a reservation that gives nothing back.
    pub(crate) const NOTHING: Self = Self { parts: 0, generation: 0 };

    /// Returns how many tokens may be given back to a limit with this burst, rounded down.
    pub(crate) fn tokens(self, burst: u32) -> u32 {
        // `UnsettledBounds::count` rounds parts up, so a cost that was counted in full may be given back in full.
        (u64::from(self.parts) * u64::from(burst) / u64::from(PARTS_PER_BURST)) as u32
    }
}

impl Unsettled {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Returns `word` moved on to `generation`, or `word` itself if another thread has moved it further.
    fn in_generation(word: u64, generation: u64) -> u64 {
        let before = match GENERATION.ahead(generation, GENERATION.get(word)) {
            // A word without counts is always moved, even if its generation is years old.
            _ if CURRENT.get(word) == 0 && BEFORE.get(word) == 0 => 0,
            LATEST..=0 => return word,
            1 => CURRENT.get(word),
            _ => 0,
        };
        GENERATION.put(generation) | BEFORE.put(before)
    }

    /// Counts up to `parts` of a reservation, and returns how many it counted and in which generation.
    ///
    /// It counts no part that would bring the sum above `most`.
    fn count(&self, parts: u32, most: u32, generation: u64) -> Counted {
        // ORDERING: Acquire pairs with the Release in `release`: a thread that counts parts in the room that a release
        // freed also sees the refund made before that release. The swap below publishes nothing.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let now = Self::in_generation(word, generation);
            // The sum of two fields of 22 bits fits a `u32`.
            let unsettled = (CURRENT.get(now) + BEFORE.get(now)) as u32;
            let parts = parts.min(most.saturating_sub(unsettled));
            let counted = Counted { parts, generation: GENERATION.get(now) as u32 };
            if parts == 0 {
                return counted;
            }
            let new = now + CURRENT.put(parts.into());
            match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return counted,
                Err(newer) => word = newer,
            }
        }
    }

    /// Stops counting a reservation. Call it after the reservation has given back its unused tokens.
    pub(crate) fn release(&self, Counted { parts, generation }: Counted) {
        if parts == 0 {
            return;
        }
        let parts = u64::from(parts);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = match GENERATION.ahead(GENERATION.get(word), generation.into()) {
                0 => word - CURRENT.put(parts.min(CURRENT.get(word))),
                1 => word - BEFORE.put(parts.min(BEFORE.get(word))),
                // The reservation is not counted any more.
                _ => return,
            };
            // ORDERING: Release pairs with the Acquire in `count`. Relaxed on failure: the retry needs only the word.
            match self.word.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => word = newer,
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const MOST: u32 = 2 * PARTS_PER_BURST;

    #[test]
    fn counts_are_freed_in_whatever_generation_the_word_begins() {
        for generation in [0, 1, (1 << 19) - 1, 1 << 19, (1 << 20) - 1, 1 << 20, u64::MAX] {
            let unsettled = Unsettled::new();
            for _ in 0..10 {
                let counted = unsettled.count(MOST, MOST, generation);
                assert_eq!(counted.parts, MOST, "generation {generation}");
                assert_eq!(unsettled.count(1, MOST, generation).parts, 0);
                unsettled.release(counted);
            }
        }
    }

    #[test]
    fn forgotten_counts_end_after_the_next_generation() {
        for first in [5, (1 << 19) - 2, (1 << 20) - 2] {
            let unsettled = Unsettled::new();
            unsettled.count(MOST, MOST, first);
            assert_eq!(unsettled.count(1, MOST, first + 1).parts, 0);
            assert_eq!(unsettled.count(1, MOST, first + 2).parts, 1);
        }
    }

    #[test]
    fn a_late_thread_counts_in_the_generation_of_the_word() {
        let unsettled = Unsettled::new();
        let others = unsettled.count(MOST - 1, MOST, 9);
        let late = unsettled.count(2, MOST, 7);
        assert_eq!(late.parts, 1, "it forgets no count of another");
        unsettled.release(late);
        unsettled.release(others);
        assert_eq!(unsettled.count(MOST, MOST, 9).parts, MOST);
    }
}
