//! A bulkhead on a word that the program owns.
//!
//! ```text
//!  63    56 55    48     15     8 7      0
//! | SEAT 7 | SEAT 6 | … | SEAT 1 | SEAT 0 |
//! ```
//!
//! Each byte is the number of calls in flight of the process in that seat. The limit is on their sum, which the swap of the whole word
//! tests. With a sum beside the bytes, in a second word, a process that is killed between the two swaps makes them differ for good.

use super::{AtomicU64, Seat};
use crate::concurrency::{BulkheadFull, RefusalCause};
use crate::sync::{Ordering, SpinWait};

/// A limit on the calls in flight of up to eight processes, on a word that the program owns.
///
/// A word of 0 has no calls in flight. Each process has a [`Seat`], and its own byte of the word. When a process has died, the supervisor
/// [reclaims](Self::reclaim) the slots of its seat before it starts the next process there. A process that is stopped keeps its slots
/// until it continues or is killed.
///
/// The limit belongs to this value, so processes with different limits each keep to their own.
///
/// # Memory ordering
///
/// Everything done before a permit is dropped happens before everything done under the permit that takes its slot. For the slots of a dead
/// process that is what was done before the call of [`reclaim`](Self::reclaim).
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::words::{AtomicU64, Seat, WordBulkhead};
///
/// let word = AtomicU64::new(0); // in the mapping that the processes share
/// let worker = WordBulkhead::new(&word, 2, Seat::new(0)?);
/// let other_worker = WordBulkhead::new(&word, 2, Seat::new(1)?);
///
/// let permit = worker.enter()?;
/// core::mem::forget(other_worker.enter()?); // killed in the middle of a call
/// assert_eq!(worker.enter().unwrap_err().to_string(), "too many calls in flight, limit 2");
///
/// // The supervisor, after `waitpid`:
/// assert_eq!(WordBulkhead::reclaim(&word, Seat::new(1)?), 1);
/// assert!(worker.enter().is_ok());
/// # drop(permit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WordBulkhead<'a> {
    word: &'a AtomicU64,
    limit: u8,
    seat: Seat,
}

/// The permit of a call in flight, which frees its slot when it is dropped.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct WordPermit<'a> {
    word: &'a AtomicU64,
    seat: Seat,
}

impl<'a> WordBulkhead<'a> {
    /// Creates a bulkhead for `limit` calls in flight of all processes, on `word`, which is left as it is.
    ///
    /// A limit of 0 refuses all calls.
    #[must_use]
    pub const fn new(word: &'a AtomicU64, limit: u8, seat: Seat) -> Self {
        Self { word, limit, seat }
    }

    /// Takes a slot if fewer calls than the limit are in flight.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`], with the limit.
    #[inline]
    pub fn enter(&self) -> Result<WordPermit<'a>, BulkheadFull> {
        let spin_wait = SpinWait::new();
        let byte = self.seat.byte();
        // ORDERING: Relaxed: the swap below has the ordering.
        let mut word = self.word.load(Ordering::Relaxed);
        while sum(word) < u32::from(self.limit) {
            // The byte is at most the sum, which is below 255.
            let next = word + byte.put(1);
            // ORDERING: Acquire pairs with the Release of the swap that freed a slot, in `WordPermit::drop` or `reclaim`. All swaps of the
            // word continue those release sequences. loom-tests: words::bulkhead_permit_sees_what_was_done_under_the_one_before,
            // words::bulkhead_never_exceeds_its_limit.
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(WordPermit { word: self.word, seat: self.seat }),
                Err(newer) => word = newer,
            }
            spin_wait.spin();
        }
        Err(BulkheadFull::new(self.limit.into(), RefusalCause::NoSlot))
    }

    /// Returns the number of calls in flight, of all processes.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        // ORDERING: Relaxed: the value is only shown.
        sum(self.word.load(Ordering::Relaxed))
    }

    /// Returns the number of calls in flight of the process in `seat`.
    #[must_use]
    pub fn in_flight_of(&self, seat: Seat) -> u32 {
        // ORDERING: Relaxed: the value is only shown.
        seat.byte().get(self.word.load(Ordering::Relaxed)) as u32
    }

    /// Returns the limit.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// Returns the seat of this process.
    #[must_use]
    pub const fn seat(&self) -> Seat {
        self.seat
    }

    /// Frees the slots of the process in `seat`, and returns how many there were.
    ///
    /// Call it when the process has ended, after `waitpid`, and before the next one takes the seat. While the process in the seat
    /// still runs, more calls than the limit could be in flight.
    pub fn reclaim(word: &AtomicU64, seat: Seat) -> u32 {
        let spin_wait = SpinWait::new();
        let byte = seat.byte();
        // ORDERING: Relaxed: the swap below has the ordering.
        let mut current = word.load(Ordering::Relaxed);
        while byte.get(current) > 0 {
            // ORDERING: Release pairs with the Acquire in `enter`. loom-tests: words::bulkhead_reclaims_the_slots_of_the_dead.
            match word.compare_exchange_weak(current, current & !byte.mask(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(newer) => current = newer,
            }
            spin_wait.spin();
        }
        byte.get(current) as u32
    }
}

impl Drop for WordPermit<'_> {
    #[inline]
    fn drop(&mut self) {
        let spin_wait = SpinWait::new();
        let byte = self.seat.byte();
        // ORDERING: Relaxed: the swap below has the ordering.
        let mut word = self.word.load(Ordering::Relaxed);
        // A byte of 0 was reclaimed while the process was alive. Subtracting from it would borrow from another seat.
        while byte.get(word) > 0 {
            // ORDERING: Release pairs with the Acquire in `enter`. loom-tests:
            // words::bulkhead_permit_sees_what_was_done_under_the_one_before.
            match self.word.compare_exchange_weak(word, word - byte.put(1), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => word = newer,
            }
            spin_wait.spin();
        }
    }
}

/// Returns the sum of the bytes.
#[inline]
const fn sum(word: u64) -> u32 {
    let pairs = (word & 0x00FF_00FF_00FF_00FF) + (word >> 8 & 0x00FF_00FF_00FF_00FF);
    // The upper 16 bits of the product are the sum of all four pairs, at most 2,040.
    (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32
}
