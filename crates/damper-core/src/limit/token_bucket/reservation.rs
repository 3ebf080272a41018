//! Tokens that were taken now, to be used when they are there.

use super::TokenBucket;
use crate::limit::Denied;
use crate::limit::one_word::{Observed, Step};
use crate::quota::Line;
use crate::time::{Clock, Ticks};
use core::time::Duration;

/// Tokens that were taken in advance: they may be used when [`ready_in`](Reservation::ready_in) says.
///
/// Dropping it keeps them taken; [`cancel`](Reservation::cancel) gives them back as far as that is possible.
#[derive(Debug)]
#[must_use = "the tokens are taken, and are not there before `ready_in` says"]
pub struct Reservation<'a, C: Clock> {
    bucket: &'a TokenBucket,
    clock: &'a C,
    /// The word after the reservation, if it took anything.
    word: u64,
    n: u32,
}

impl<'a, C: Clock> Reservation<'a, C> {
    /// Takes `n` tokens of the bucket, if they are there within `longest`.
    pub(in crate::limit) fn new(
        bucket: &'a TokenBucket,
        n: u32,
        longest: Option<Duration>,
        clock: &'a C,
    ) -> Result<Self, Denied> {
        let word = bucket.word.decide(clock, |seen @ &Observed { ref line, word, at, .. }| {
            let longest = longest.map_or(Ticks::NEVER, |longest| Ticks::within(longest, line.frequency()));
            match line.reserve(word, at, n, longest) {
                Ok(after) if after == word => Step::Keep(Ok(at)),
                Ok(after) => Step::Put(after, Ok(after)),
                Err(error) => seen.deny_for(clock, error),
            }
        })?;
        Ok(Self { bucket, clock, word, n })
    }

    /// The time from now until the tokens may be used, rounded up to the clock's tick; zero if they may be.
    ///
    /// `None` if they never will be, because the quota was changed to one that refills nothing.
    #[must_use]
    pub fn ready_in(&self) -> Option<Duration> {
        self.bucket.word.decide(self.clock, |&Observed { ref line, at, .. }| {
            Step::Keep(line.ready_in(self.word, at).duration(line.frequency()))
        })
    }

    /// Blocks the thread until the tokens are there.
    ///
    /// A refund or a change of the quota wakes it, and it then waits as long as the new state requires.
    #[cfg(feature = "std")]
    pub fn wait(self) {
        self.bucket.changes.wait_out(|| self.ready_in());
    }

    /// Gives the tokens back if nothing was taken since and their time has not come; whether it did.
    ///
    /// All or nothing: a partial return would allow too much when two reservations are cancelled out of order. Tokens
    /// that are not given back count as used.
    #[expect(clippy::must_use_candidate, reason = "the caller may not care")]
    pub fn cancel(self) -> bool {
        self.bucket.word.decide(self.clock, |&Observed { ref line, word, at, .. }| {
            if word == self.word && self.n > 0 && line.ready_in(word, at) > Ticks::ZERO {
                Step::Put(line.without(word, self.n), true)
            } else {
                Step::Keep(false)
            }
        })
    }
}
