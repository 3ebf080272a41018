//! A lease that ends at an instant.
//!
//! It holds the tokens that one process has taken from a limit that several processes share.
//!
//! One word stores the tokens and the end of the lease. A spend checks both and then swaps this word. So the swap
//! fails if the end has changed since the check.
//!
//! ```text
//!  63 24 23      0
//! | END | TOKENS |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | TOKENS | 24 | tokens | the tokens left, none of which counts after the end |
//! | END | 40 | `2^k` ticks, between half a millisecond and a millisecond | the first unit in which nothing may be spent; wraps after 17 years or more |
//!
//! An end more than 2^24 units ahead of the clock counts as passed, because no lease is longer than that. But END
//! wraps. So a lease that is never renewed becomes valid again after every wrap, for 2 hours or more. It then holds
//! the tokens that it held at its end.

#[cfg(test)]
mod tests;

use crate::sync::{AtomicU64, Field, Ordering, SpinWait, const_unless_loom};
use crate::time::Clock;

/// An expiring lease: the fields of its word, which the head of this file draws.
const TOKENS: Field = Field::lowest(24);
const END: Field = TOKENS.then(40);
const _: () = assert!(END.end() == u64::BITS, "fields must tile the word");

/// The longest lease, in units of the field `END`.
const LONGEST: u64 = 1 << 24;

/// The most tokens that a lease holds: 16,777,215.
const MOST: u32 = TOKENS.max() as u32;

/// A lease that ends at an instant of a clock, for many threads.
///
/// Its tokens were taken from a bucket that several processes share. After the end, the bucket may give these tokens
/// to other holders. So each spend reads the clock anew and succeeds only before the end. A lease whose end has
/// passed holds nothing. Its tokens count as spent and must not be given back.
///
/// [`renew`](Self::renew) and [`report`](Self::report) may run while other threads spend. The caller must keep them
/// from running at the same time as each other: each is atomic, but they could take effect in either order. All
/// methods must be given the same clock.
///
/// # Memory ordering
///
/// A spend of tokens that a renewal granted reads the clock after that renewal.
#[derive(Debug)]
pub struct ExpiringLease {
    word: AtomicU64,
    /// The end is stored in units of `2^shift` ticks.
    shift: u32,
}

/// The word of a lease at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Snapshot(u64);

impl Snapshot {
    /// Returns whether a reading of the clock, in units, is before the end.
    #[inline]
    const fn is_before_end(self, unit: u64) -> bool {
        // Before the end, `END - unit` is from 1 to `LONGEST`. The mask keeps only the bits of the field, so the
        // comparison is also right after END has wrapped.
        END.get(self.0).wrapping_sub(unit).wrapping_sub(1) & END.max() < LONGEST
    }

    const fn tokens(self) -> u32 {
        TOKENS.get(self.0) as u32
    }

    /// Returns this snapshot with its tokens replaced by `tokens`, or by [`MOST`] if that is less.
    const fn with_tokens(self, tokens: u32) -> Self {
        let tokens = if tokens > MOST { MOST } else { tokens };
        Self(self.0 - TOKENS.get(self.0) + TOKENS.put(tokens as u64))
    }

    const fn with_end(self, unit: u64) -> Self {
        Self(END.put(unit) | TOKENS.get(self.0))
    }
}

/// The result of [`ExpiringLease::report`].
///
/// Both numbers describe the same moment. No token is counted in both, and a spent token is counted in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "tokens that were taken out have to be given back"]
pub struct Report {
    /// The number of tokens that were taken out of the lease.
    ///
    /// The caller has to give them back to the shared limit.
    pub back: u32,
    /// The number of tokens that the lease still holds and may spend from now on.
    pub unspent: u32,
}

/// The result of [`ExpiringLease::spend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The number of tokens that the lease still has.
    pub left: u32,
    /// The clock's reading at which the tokens were spent, in ticks.
    pub at: u64,
}

impl ExpiringLease {
    /// The most tokens that a lease can hold: 16,777,215.
    pub const MOST: u32 = MOST;

    const_unless_loom! {
        /// Creates a lease that holds nothing, for a clock of `frequency` ticks per second.
        #[must_use]
        pub const fn new(frequency: u64) -> Self {
            // The end is stored in units of `2^shift` ticks. The unit is the largest one of at most a millisecond, or
            // one tick if a tick is longer.
            let millisecond = if frequency < 1_000 { 1 } else { frequency / 1_000 };
            Self { word: AtomicU64::new(0), shift: millisecond.ilog2() }
        }
    }

    /// Takes all of `n` tokens, or returns `None` if the lease holds fewer or has ended.
    ///
    /// It is lock-free. A refusal writes nothing.
    #[inline]
    #[must_use]
    pub fn spend(&self, n: u32, clock: &impl Clock) -> Option<Spent> {
        let spin = SpinWait::new();
        loop {
            let held = self.load();
            // The clock is read after the word, and again after a failed swap. So at this reading the tokens were
            // there, and their end was still to come. loom-tests:
            // expiring_lease::spend_reads_the_clock_after_the_renewal.
            let at = clock.now();
            if !held.is_before_end(self.unit(at)) {
                return None;
            }
            let left = held.tokens().checked_sub(n)?;
            // The lease holds at least `n`, so the subtraction borrows no bit from the field above.
            if self.replace(held, Snapshot(held.0 - u64::from(n))) {
                return Some(Spent { left, at });
            }
            spin.spin();
        }
    }

    /// Drops up to `dropped` tokens, adds `granted`, and sets the end.
    ///
    /// Tokens beyond [`MOST`](Self::MOST) are lost. If the lease had ended, the tokens that are not dropped become
    /// valid again. So the caller must drop the tokens that other holders may have by now.
    ///
    /// No spend succeeds from the tick `end` on. The lease may end earlier than that, by up to a millisecond plus
    /// [`Clock::max_step_back`]. The end should be at most 2 hours ahead of the clock, because an end much further
    /// ahead counts as passed.
    pub fn renew(&self, dropped: u32, granted: u32, end: u64, clock: &impl Clock) {
        let end = self.unit(end.wrapping_sub(clock.max_step_back()));
        self.change(|held| {
            held.with_tokens(held.tokens().saturating_sub(dropped).saturating_add(granted)).with_end(end)
        });
    }

    /// Puts back up to `n` tokens, until the lease holds `most`, and returns how many it put back.
    ///
    /// After the end it puts back none.
    pub fn refund(&self, n: u32, most: u32, clock: &impl Clock) -> u32 {
        let refunded = |held: Snapshot, unit| {
            if held.is_before_end(unit) { most.min(MOST).saturating_sub(held.tokens()).min(n) } else { 0 }
        };
        let before = self.change_now(clock, |held, unit| held.with_tokens(held.tokens() + refunded(held, unit)));
        refunded(before.0, before.1)
    }

    /// Takes out the tokens beyond `keep`, and returns how many it took out and how many it left.
    ///
    /// After the end, both numbers are 0 and all tokens of the lease are dropped.
    pub fn report(&self, keep: u32, clock: &impl Clock) -> Report {
        let kept = |held: Snapshot, unit| if held.is_before_end(unit) { held.tokens().min(keep) } else { 0 };
        let (before, unit) = self.change_now(clock, |held, unit| held.with_tokens(kept(held, unit)));
        if !before.is_before_end(unit) {
            return Report::default();
        }
        let unspent = kept(before, unit);
        Report { back: before.tokens() - unspent, unspent }
    }

    /// Returns the tokens that can be spent now. After the end there are none.
    #[must_use]
    pub fn held(&self, clock: &impl Clock) -> u32 {
        let held = self.load();
        if held.is_before_end(self.unit(clock.now())) { held.tokens() } else { 0 }
    }

    #[inline]
    const fn unit(&self, tick: u64) -> u64 {
        // The shift is at most 54, even for the highest frequency. The mask shows the compiler that it is below 64.
        tick >> (self.shift & 63)
    }

    fn change(&self, next: impl Fn(Snapshot) -> Snapshot) {
        let spin = SpinWait::new();
        loop {
            let held = self.load();
            if self.replace(held, next(held)) {
                return;
            }
            spin.spin();
        }
    }

    /// Replaces the word by the result of `next`, and returns the old word and the clock's reading.
    ///
    /// `next` gets the old word and the reading. The reading is in units of the field `END`.
    fn change_now(&self, clock: &impl Clock, next: impl Fn(Snapshot, u64) -> Snapshot) -> (Snapshot, u64) {
        let spin = SpinWait::new();
        loop {
            let held = self.load();
            let unit = self.unit(clock.now());
            let changed = next(held, unit);
            // If `next` leaves the word as it is, there is nothing to write, and the loaded word is the result.
            if changed == held || self.replace(held, changed) {
                return (held, unit);
            }
            spin.spin();
        }
    }

    #[inline]
    fn load(&self) -> Snapshot {
        // ORDERING: Acquire pairs with the Release in `replace`: a thread that finds the tokens of a renewal reads the
        // clock after that renewal. loom-tests: expiring_lease::spend_reads_the_clock_after_the_renewal.
        Snapshot(self.word.load(Ordering::Acquire))
    }

    #[inline]
    fn replace(&self, old: Snapshot, new: Snapshot) -> bool {
        // ORDERING: Release pairs with the Acquire in `load`. Relaxed on failure: the value read is dropped. The word is
        // the whole state, so the swap needs no more.
        self.word.compare_exchange_weak(old.0, new.0, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}
