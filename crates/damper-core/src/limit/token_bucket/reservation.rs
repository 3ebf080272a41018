//! Reservations: tokens that are taken now and used when they become available.

use super::TokenBucket;
use crate::limit::one_word::{Observed, Step};
use crate::limit::{Denied, LimiterRef};
use crate::quota::Line;
use crate::time::Ticks;
use core::time::Duration;

/// Tokens taken in advance, which may be used after [`ready_in`](Reservation::ready_in).
///
/// [`settle`](Reservation::settle) corrects their number to what the call used. [`cancel`](Reservation::cancel) gives
/// them back if that is possible. A reservation that is dropped gives nothing back: all of its tokens count as used,
/// because a call that panicked or was cancelled may have used them.
#[derive(Debug)]
#[must_use = "the tokens are taken, and are not there before `ready_in` says"]
pub struct Reservation<L: LimiterRef<Algorithm = TokenBucket>> {
    limiter: L,
    /// The bucket's word after the reservation, or the position at the clock's reading if it took nothing.
    word: u64,
    n: u32,
    /// Whether the reservation took its tokens from the bucket. A quota without a limit takes none.
    has_taken: bool,
}

/// The result of an attempt to give back a reservation's unused tokens.
///
/// The attempt moves the bucket's word back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Withdrawal {
    /// The tokens were given back.
    Withdrawn,
    /// The tokens had become available already, so the word was left alone.
    Ready,
    /// Other calls have changed the word since. Their waits may depend on the word, so it was left alone.
    Followed,
}

impl<L: LimiterRef<Algorithm = TokenBucket>> Reservation<L> {
    /// Takes `n` tokens from the bucket if they become available within `longest`. `None` sets no bound.
    pub(crate) fn new(limiter: L, n: u32, longest: Option<Duration>) -> Result<Self, Denied> {
        let (bucket, clock) = limiter.limiter().parts();
        let (word, has_taken) = bucket.word.decide(clock, |seen @ &Observed { ref line, word, at, .. }| {
            let longest = longest.map_or(Ticks::NEVER, |longest| Ticks::within(longest, line.frequency()));
            match line.reserve(word, at, n, longest) {
                Ok(after) if after == word => Step::Keep(Ok((at, false))),
                Ok(after) => Step::Put(after, Ok((after, true))),
                Err(error) => seen.deny_for(clock, error),
            }
        })?;
        Ok(Self { limiter, word, n, has_taken })
    }

    /// Returns the time from now until the tokens may be used.
    ///
    /// The time is rounded up to the clock's tick, and is zero if the tokens may be used now. It is `None` if they
    /// never become available, because the quota was changed to one that refills nothing.
    #[must_use]
    pub fn ready_in(&self) -> Option<Duration> {
        let (bucket, clock) = self.limiter.limiter().parts();
        bucket.word.decide(clock, |&Observed { ref line, at, .. }| {
            Step::Keep(line.ready_in(self.word, at).duration(line.frequency()))
        })
    }

    /// Blocks the thread until the tokens are available.
    ///
    /// A refund or a change of the quota wakes the thread, which then waits as long as the new state requires.
    #[cfg(feature = "std")]
    pub fn wait(&self) {
        self.limiter.limiter().parts().0.changes.wait_out(|| self.ready_in());
    }

    /// Corrects the number of tokens taken to the number that the call `used`.
    ///
    /// It is for costs that are known only afterwards: reserve an estimate, and settle when the true cost is known.
    ///
    /// - If the call used fewer tokens, the rest is given back, as [`refund`](crate::RateLimiter::refund) does: to the
    ///   waiters in their order, or to the next call. Tokens that a full bucket has no room for are lost.
    /// - If the call used more tokens, the excess is charged, as [`charge`](crate::RateLimiter::charge) does: into debt
    ///   if necessary, but not beyond [`Quota::max_debt`](crate::Quota::max_debt). Checks are refused until the debt is
    ///   repaid.
    /// - Before the tokens are [ready](Self::ready_in), unused tokens do not exist yet and cannot go to others. They
    ///   are given back only if nothing was taken since the reservation, as [`cancel`](Self::cancel) does. Otherwise
    ///   they count as used.
    /// - A reservation under a quota without a limit took nothing. It gives nothing back, also after the quota changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let tokens = RateLimiter::with_clock(Quota::per_minute(60_000).burst(10_000), ManualClock::new());
    /// let call = tokens.reserve(8_000)?; // an estimate
    /// call.settle(3_000); // the bill
    /// assert_eq!(tokens.peek().remaining(), 7_000);
    ///
    /// tokens.reserve(6_000)?.settle(9_000);
    /// assert_eq!(tokens.debt(), 2_000);
    /// # Ok::<(), damper::Denied>(())
    /// ```
    pub fn settle(self, used: u32) {
        let (bucket, clock) = self.limiter.limiter().parts();
        // Tokens that were not taken count as used, so that none of them is given back.
        let used = if self.has_taken { used } else { used.max(self.n) };
        let unused = self.n.saturating_sub(used);
        if unused == 0 || self.withdraw(unused) == Withdrawal::Ready {
            bucket.settle(self.n, used, clock);
        }
    }

    /// Gives the tokens back, and returns whether it did.
    ///
    /// It does so if nothing was taken since the reservation and the tokens are not available yet. It gives back all or
    /// nothing: a partial return would allow too much when two reservations are cancelled out of order. Tokens that are
    /// not given back count as used.
    ///
    /// The limiter keeps its bound even if the caller has used the tokens that it cancels. To give back tokens that
    /// have become available and were not used, call [`settle(0)`](Self::settle).
    pub fn cancel(self) -> bool {
        self.has_taken && self.withdraw(self.n) == Withdrawal::Withdrawn
    }

    /// Gives back `unused` tokens, if they are not available yet and no others were taken since.
    fn withdraw(&self, unused: u32) -> Withdrawal {
        let (bucket, clock) = self.limiter.limiter().parts();
        bucket.word.decide(clock, |&Observed { ref line, word, at, .. }| {
            if line.ready_in(self.word, at) == Ticks::ZERO {
                Step::Keep(Withdrawal::Ready)
            } else if word == self.word {
                Step::Put(line.without(word, unused), Withdrawal::Withdrawn)
            } else {
                Step::Keep(Withdrawal::Followed)
            }
        })
    }
}
