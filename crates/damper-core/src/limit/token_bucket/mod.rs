//! The token bucket: one compare-and-swap on one word.

// | file | idea |
// |---|---|
// | `mod` | `TokenBucket`: its word, and the operations on it |
// | `line` | `TokenLine`: the arithmetic of tokens and debt |
// | `reservation` | `Reservation`: tokens taken now, to be used when they become available |

mod line;
mod reservation;
#[cfg(test)]
mod tests;

pub(super) use line::TakeError;
pub(crate) use line::TokenLine;
pub use reservation::Reservation;

use super::algorithm::{Algorithm, JudgedTake, Look, PreparedQuota, TakePosition, Verdict, sealed};
use super::one_word::{Drip, Observed, OneWord, Step};
use super::{Allowed, Denied, Usage};
use crate::quota::{Line, Quota, SetQuotaError};
#[cfg(feature = "std")]
use crate::sync::Signal;
use crate::sync::const_unless_loom;
use crate::time::Clock;

/// The token bucket, the default algorithm of a [`RateLimiter`](super::RateLimiter).
///
/// Tokens drip in evenly, up to the burst. A request takes its cost or is refused. In any stretch of time the bucket
/// allows at most the burst and what drips in meanwhile.
///
/// Besides the quota, its state is one word of 8 bytes. The word stands for the moment at which the bucket is full
/// again: it counts the tokens that the quota will have brought by then. Its high bits are whole tokens, its low bits a
/// fraction of a token. (GCRA stores the same moment as a time, its theoretical arrival time.) A second word counts
/// refunded tokens.
#[derive(Debug)]
pub struct TokenBucket {
    word: OneWord<TokenLine, Drip>,
    /// Wakes waiting threads after a change of the quota or a refund.
    ///
    /// The tokens of these threads may then come earlier.
    #[cfg(feature = "std")]
    changes: Signal,
}

impl TokenBucket {
    const_unless_loom! {
        /// Creates a full bucket.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::starting(quota, 0)
        }

        /// Creates a bucket with this many tokens, at most the burst.
        ///
        /// It begins to fill at the first check, because construction reads no clock. To start it at once, check 0
        /// tokens with `limiter.check_n(0)`. Before the first check, [`peek`](crate::RateLimiter::peek) shows the
        /// initial level.
        ///
        /// # Examples
        ///
        /// ```
        /// # extern crate damper_core as damper;
        /// use core::time::Duration;
        /// use damper::{ManualClock, Quota, RateLimiter, TokenBucket};
        ///
        /// let clock = ManualClock::new();
        /// let empty = || RateLimiter::with_algorithm(TokenBucket::with_level(Quota::per_second(10), 0), &clock);
        /// let (idle, begun) = (empty(), empty());
        /// begun.check_n(0)?;
        /// clock.advance(Duration::from_secs(1));
        /// assert!(idle.check().is_err());
        /// assert!(begun.check().is_ok());
        /// # Ok::<(), damper::Denied>(())
        /// ```
        #[must_use]
        pub const fn with_level(quota: Quota, tokens: u32) -> Self {
            Self::starting(quota, quota.burst_size().saturating_sub(tokens))
        }

        const fn starting(quota: Quota, missing: u32) -> Self {
            Self {
                word: OneWord::refundable(quota, TokenLine::missing(missing)),
                #[cfg(feature = "std")]
                changes: Signal::new(),
            }
        }
    }

    const_unless_loom! {
        /// Prepares for a later change to `largest`, as [`RateLimiter::up_to`](super::RateLimiter::up_to) does.
        #[must_use]
        pub const fn up_to(mut self, largest: Quota) -> Self {
            self.word.make_room_for(largest);
            self
        }
    }

    /// Takes `n` tokens, and returns the result of `answer` if they were available.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn check<T>(&self, n: u32, clock: &impl Clock, answer: impl Fn(Allowed, TakePosition) -> T) -> Result<T, Denied> {
        // The fast path tries once. The slow path handles all other cases, such as calls for 0 tokens.
        if n > 0
            && let Some(Observed { line, word, at, offset }) = self.word.glance(clock)
        {
            match line.take(word, at, n) {
                Ok(after) if self.word.replace(word, after) => {
                    return Ok(answer(Allowed::new(&line, after, at), TakePosition { at: at.wrapping_sub(offset) }));
                }
                // If the bucket is in debt, the slow path refuses. It may first have to replace a word that was written
                // before the clock stepped back.
                Err(_) if !line.is_below_zero(word, at) => {
                    return Err(Denied::of(&line, word, at, n));
                }
                _ => {}
            }
        }
        self.check_slow(n, clock, answer)
    }

    #[cold]
    fn check_slow<T>(
        &self,
        n: u32,
        clock: &impl Clock,
        answer: impl Fn(Allowed, TakePosition) -> T,
    ) -> Result<T, Denied> {
        self.word.decide(clock, |seen @ &Observed { ref line, word, at, offset }| match line.take(word, at, n) {
            Ok(after) if after == word => Step::Keep(Ok(answer(Allowed::new(line, word, at), TakePosition::UNCOUNTED))),
            Ok(after) => {
                let taken = TakePosition { at: at.wrapping_sub(offset) };
                Step::Put(after, Ok(answer(Allowed::new(line, after, at), taken)))
            }
            Err(_) => seen.deny(clock, n),
        })
    }

    /// Takes `n` tokens. A full bucket allows even more than its burst, and goes into debt for that.
    pub(super) fn take_oversized(&self, n: u32, clock: &impl Clock) -> Result<Allowed, Denied> {
        self.word.decide(clock, |seen @ &Observed { ref line, word, at, .. }| match line.take_oversized(word, at, n) {
            Ok(taken) => Step::Put(taken, Ok(Allowed::new(line, taken, at))),
            Err(error) => seen.deny_for(clock, error),
        })
    }

    pub(super) fn take_up_to(&self, n: u32, clock: &impl Clock) -> u32 {
        self.word.decide(clock, |seen @ &Observed { ref line, word, at, .. }| match line.take_up_to(word, at, n) {
            (0, _) => seen.refuse(clock, 0),
            (taken, after) => Step::Put(after, taken),
        })
    }

    /// Checks that `n` tokens are available, and takes none.
    pub(super) fn has(&self, n: u32, clock: &impl Clock) -> Result<(), Denied> {
        self.word.decide(clock, |seen @ &Observed { ref line, word, at, .. }| match line.take(word, at, n) {
            Ok(_) => Step::Keep(Ok(())),
            Err(_) => seen.deny(clock, n),
        })
    }

    /// Takes up to `most` tokens, but none if fewer than `least` are available.
    ///
    /// It also returns whether the bucket owes the tokens now. A quota without a limit gives tokens without taking any.
    pub(super) fn take_between(&self, least: u32, most: u32, clock: &impl Clock) -> Result<(u32, bool), Denied> {
        self.word.decide(clock, |seen @ &Observed { ref line, word, at, .. }| match line.take_up_to(word, at, most) {
            (taken, after) if taken >= least && after != word => Step::Put(after, Ok((taken, true))),
            (taken, _) => match line.take(word, at, least) {
                // The call asked for no tokens, or there is no limit.
                Ok(_) => Step::Keep(Ok((taken, false))),
                Err(_) => seen.deny(clock, least),
            },
        })
    }

    /// Gives back `n` tokens that were taken but not used, as far as there is room for them.
    pub(crate) fn give_back(&self, n: u32, clock: &impl Clock) {
        self.word.decide(clock, |&Observed { ref line, word, at, .. }| match line.give_back(word, at, n) {
            (_, same) if same == word => Step::Keep(()),
            (_, after) => Step::Put(after, ()),
        });
    }

    pub(super) fn charge(&self, n: u32, clock: &impl Clock) -> u32 {
        self.word.decide(clock, |seen @ &Observed { ref line, word, at, .. }| match line.charge(word, at, n) {
            (0, _) => seen.refuse(clock, 0),
            (booked, after) => Step::Put(after, booked),
        })
    }

    /// Gives back up to `n` tokens and returns how many, rounded up. Waiters get them first, then the bucket.
    pub(super) fn refund(&self, n: u32, clock: &impl Clock) -> u32 {
        let (line, units) = self.word.refund(clock, |line: &TokenLine, word, at| line.refundable(word, at, n));
        let given = line.tokens(units);
        #[cfg(feature = "std")]
        if given > 0 {
            self.changes.raise_for_waiters();
        }
        given
    }

    /// Puts a quota in force and keeps the bucket's tokens, up to the new burst.
    pub(super) fn set_quota_keeping_tokens(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        let claim = self.word.claim()?;
        let old = self.word.quota();
        if old.is_unlimited() || quota.is_unlimited() {
            drop(self.word.prepare_under(claim, quota, clock)?.publish::<TokenLine>(clock));
        } else if let grows_by @ 1.. = quota.burst_size().saturating_sub(old.burst_size()) {
            // A change of the quota keeps the number of missing tokens, so a larger burst alone would add tokens at
            // once. The added number of tokens is therefore charged beforehand, under a quota whose `max_debt` allows
            // that. A check in between may find too few tokens, but never too many.
            let claim = self.word.prepare_under(claim, quota, clock)?.withdraw();
            let most = old.deepest_debt() - u64::from(old.burst_size());
            let deepest = u64::from(self.debt(clock)).max(most) + u64::from(grows_by);
            let deeper = old.max_debt(u32::try_from(deepest).unwrap_or(u32::MAX));
            let claim = self.word.prepare_under(claim, deeper, clock)?.publish::<TokenLine>(clock);
            self.charge(grows_by, clock);
            // The first preparation above has shown that the quota fits.
            drop(self.word.prepare_under(claim, quota, clock)?.publish::<TokenLine>(clock));
        } else {
            let claim = self.word.prepare_under(claim, quota, clock)?.publish::<TokenLine>(clock);
            self.refund(old.burst_size() - quota.burst_size(), clock);
            drop(claim);
        }
        #[cfg(feature = "std")]
        self.changes.raise();
        Ok(())
    }

    /// Corrects the cost of a call that took `taken` tokens to the number that it `used`.
    pub(super) fn settle(&self, taken: u32, used: u32, clock: &impl Clock) {
        if used > taken {
            self.charge(used - taken, clock);
        } else if used < taken {
            self.refund(taken - used, clock);
        }
    }

    pub(super) fn debt(&self, clock: &impl Clock) -> u32 {
        self.word.observe(clock, |&Observed { ref line, word, at, .. }| line.debt_in_tokens(word, at))
    }
}

impl Observed<TokenLine> {
    /// Returns the step that refuses with `answer`, or the one that heals the word.
    ///
    /// The word is *healed*, that is replaced, if it was written before a large step back of the clock.
    pub(super) fn refuse<T>(&self, clock: &impl Clock, answer: T) -> Step<T> {
        match self.line.heal(self.word, self.at, clock) {
            None => Step::Keep(answer),
            Some(healed) => Step::Heal(healed),
        }
    }

    /// Refuses as [`refuse`](Self::refuse) does, with the refusal of `n` tokens as the answer.
    pub(super) fn deny<T>(&self, clock: &impl Clock, n: u32) -> Step<Result<T, Denied>> {
        self.refuse(clock, Err(Denied::of(&self.line, self.word, self.at, n)))
    }

    /// Refuses as [`refuse`](Self::refuse) does, with a refusal for `error` as the answer.
    pub(super) fn deny_for<T>(&self, clock: &impl Clock, error: TakeError) -> Step<Result<T, Denied>> {
        self.refuse(clock, Err(Denied::new(&self.line, self.word, self.at, error)))
    }
}

impl sealed::Sealed for TokenBucket {}

impl Algorithm for TokenBucket {
    const GIVES_BACK: bool = true;

    // This does not call `take_revocably`, because its answer would be copied.
    #[inline]
    fn take(&self, n: u32, clock: &impl Clock) -> Result<Allowed, Denied> {
        self.check(n, clock, |allowed, _| allowed)
    }

    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied> {
        self.check(n, clock, |allowed, taken| (allowed, taken))
    }

    fn roll_back(&self, n: u32, taken: TakePosition, clock: &impl Clock) {
        if taken == TakePosition::UNCOUNTED {
            return;
        }
        self.word.decide(clock, |&Observed { ref line, word, at, offset }| {
            // `at` contains the present offset, the sum of all refunds. The position of the take gets the same offset.
            // So the distance between the two is what the quota has brought since, without refunds.
            match line.roll_back(word, at, n, taken.at.wrapping_add(offset)) {
                same if same == word => Step::Keep(()),
                after => Step::Put(after, ()),
            }
        });
    }

    #[inline]
    fn look(&self) -> Option<Look> {
        self.word.load()
    }

    #[inline]
    fn judge(&self, look: Look, n: u32, now: u64, _: &impl Clock) -> Verdict {
        // This is the fast path of `check`.
        if n > 0
            && let Some(Observed { line, word, at, offset }) = self.word.observed_at(look, now)
        {
            match line.take(word, at, n) {
                Ok(after) => {
                    let position = TakePosition { at: at.wrapping_sub(offset) };
                    return Verdict::Allowed(JudgedTake { word, after, position }, Allowed::new(&line, after, at));
                }
                // If the bucket is in debt, the slow path refuses. It may first have to replace a word that was written
                // before the clock stepped back.
                Err(_) if !line.is_below_zero(word, at) => return Verdict::Refused(Denied::of(&line, word, at, n)),
                Err(_) => {}
            }
        }
        Verdict::Undecided
    }

    #[inline]
    fn take_judged(&self, take: &JudgedTake) -> bool {
        self.word.take_judged(take)
    }

    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied> {
        self.has(n, clock).err()
    }

    #[inline]
    fn usage(&self, clock: &impl Clock) -> Usage {
        let (remaining, debt, resets_in) = self.word.observe(clock, |&Observed { ref line, word, at, .. }| {
            let resets_in = line.resets_in(word, at).duration(line.frequency());
            (line.remaining(word, at), line.debt_in_tokens(word, at), resets_in)
        });
        Usage::of(self.quota(), remaining, resets_in).with_debt(debt)
    }

    /// Refunds all missing tokens.
    ///
    /// A refund moves all positions forward and leaves the word as it is, so waiters keep their places.
    fn reset(&self, clock: &impl Clock) {
        self.word.refund(clock, |_: &TokenLine, word, at| TokenLine::debt(word, at));
        #[cfg(feature = "std")]
        self.changes.raise_for_waiters();
    }

    fn drain(&self, clock: &impl Clock) -> u32 {
        self.take_up_to(u32::MAX, clock)
    }

    fn quota(&self) -> Quota {
        self.word.quota()
    }

    fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError> {
        self.word.prepare_quota(quota, clock)
    }

    fn put_in_force(&self, prepared: PreparedQuota<'_>, clock: &impl Clock) {
        drop(prepared.0.publish::<TokenLine>(clock));
        #[cfg(feature = "std")]
        self.changes.raise();
    }
}
