//! The token bucket: one compare-and-swap on one word.

use super::{Allowed, Denied, Usage};
use crate::atomic::{AtomicU64, Backoff, Ordering, const_unless_loom};
use crate::clock::Clock;
use crate::quota::{Quota, Timeline};

/// The token bucket, the algorithm of a [`RateLimiter`](super::RateLimiter) that names none.
///
/// Its whole state is one word of 8 bytes: the position on the quota's line of tokens at which the bucket will be full
/// again, whole tokens in the high bits, the fraction of the next one in the low bits. (The same bookkeeping as GCRA's
/// theoretical arrival time, in tokens instead of time; see `Quota` for what it admits.)
#[derive(Debug)]
pub struct TokenBucket {
    word: AtomicU64,
}

impl TokenBucket {
    const_unless_loom! {
        /// A full bucket.
        pub(crate) const fn full() -> Self {
            Self { word: AtomicU64::new(0) }
        }
    }

    /// Takes `n` tokens or none.
    #[expect(
        clippy::inline_always,
        reason = "measured: out of line it costs half as much again, and what nobody asks an \
        answer for is computed all the same"
    )]
    #[inline(always)]
    pub(crate) fn take(&self, line: &Timeline, clock: &impl Clock, n: u32) -> Result<Allowed, Denied> {
        let backoff = Backoff::new();
        loop {
            // The word first, then the clock: only a clock that stepped back can then find the word beyond the
            // deepest debt, never a thread that was stopped between the two.
            // ORDERING: Relaxed throughout. The word is the whole state and nothing else is published through it, so
            // the modification order of this one location is all the exchange needs.
            // loom-tests: bucket::burst_is_never_exceeded, bucket::no_token_is_lost.
            let word = self.word.load(Ordering::Relaxed);
            let at = line.position(clock.now());
            match line.take(word, at, n) {
                Ok(taken) => {
                    if taken == word || self.replace(word, taken) {
                        return Ok(Allowed::new(line, taken, at));
                    }
                }
                Err(refusal) => match line.heal(word, at, clock) {
                    None => return Err(Denied::new(line, word, at, refusal)),
                    // Whether this exchange brings the word back or another thread changed it first: look again.
                    Some(healed) => _ = self.replace(word, healed),
                },
            }
            backoff.spin();
        }
    }

    #[inline]
    fn replace(&self, word: u64, with: u64) -> bool {
        // ORDERING: Relaxed, as in `take`; on failure the value read is dropped.
        self.word.compare_exchange_weak(word, with, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn usage(&self, quota: &Quota, line: &Timeline, clock: &impl Clock) -> Usage {
        // ORDERING: Relaxed, as in `take`.
        let word = self.word.load(Ordering::Relaxed);
        let at = line.position(clock.now());
        Usage {
            limit: quota.capacity(),
            remaining: line.remaining(word, at),
            window: quota.refill_window(),
            resets_in: line.resets_in(word, at).duration(line.frequency()),
        }
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<TokenBucket>() == 8, "a bucket is one word");
