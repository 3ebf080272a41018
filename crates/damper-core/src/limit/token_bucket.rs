//! The token bucket: one compare-and-swap on one word.

use super::algorithm::{Algorithm, Taken, sealed};
use super::drip::Drip;
use super::one_word::{Moment, OneWord, Step};
use super::{Allowed, Denied, Usage};
use crate::quota::{Quota, SetQuotaError};
#[cfg(feature = "std")]
use crate::sync::Signal;
use crate::sync::const_unless_loom;
use crate::time::{Clock, Ticks};
use core::time::Duration;

/// The token bucket, the algorithm of a [`RateLimiter`](super::RateLimiter) that names none.
///
/// Tokens drip in evenly, up to the burst; a request takes its cost or is refused. In any stretch of time at most the
/// burst plus what drips in meanwhile is allowed.
///
/// Beside the quota its state is one word of 8 bytes: the position on the quota's line of tokens at which the
/// bucket will be full again, whole tokens in the high bits, the fraction of the next one in the low bits. (The same
/// bookkeeping as GCRA's theoretical arrival time, in tokens instead of time.) A second word counts what was refunded.
#[derive(Debug)]
pub struct TokenBucket {
    word: OneWord<Drip>,
    /// Raised by a change of the quota or a refund, for threads whose tokens may come earlier then.
    #[cfg(feature = "std")]
    changes: Signal,
}

/// A reservation as its bucket knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved {
    /// What the word was after reserving, if anything was.
    word: u64,
    n: u32,
}

impl TokenBucket {
    const_unless_loom! {
        /// A full bucket.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::starting(quota, 0)
        }

        /// A bucket with this many tokens; more than the burst are the burst.
        #[must_use]
        pub const fn with_level(quota: Quota, tokens: u32) -> Self {
            Self::starting(quota, quota.burst_size().saturating_sub(tokens))
        }

        const fn starting(quota: Quota, missing: u32) -> Self {
            Self {
                word: OneWord::refundable(quota, missing),
                #[cfg(feature = "std")]
                changes: Signal::new(),
            }
        }
    }

    const_unless_loom! {
        /// Makes room for the quota `largest`, as [`RateLimiter::up_to`](super::RateLimiter::up_to) does.
        #[must_use]
        pub const fn up_to(mut self, largest: Quota) -> Self {
            self.word.make_room_for(largest);
            self
        }
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn check(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        // The straight path, once; whatever is in its way, and taking nothing, is the loop's business.
        if n > 0
            && let Some(Moment { line, word, at, offset }) = self.word.glance(clock)
        {
            match line.take(word, at, n) {
                Ok(after) if self.word.replace(word, after) => {
                    return Ok((Allowed::new(&line, after, at), Taken { at: at.wrapping_sub(offset) }));
                }
                // A bucket in debt may have to be healed.
                Err(refusal) if !line.is_below_zero(word, at) => {
                    return Err(Denied::new(&line, word, at, refusal));
                }
                _ => {}
            }
        }
        self.check_slow(n, clock)
    }

    #[cold]
    fn check_slow(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        self.word.decide(clock, |&Moment { ref line, word, at, offset }| match line.take(word, at, n) {
            Ok(after) if after == word => Step::Keep(Ok((Allowed::new(line, word, at), Taken::NOWHERE))),
            Ok(after) => Step::Put(after, Ok((Allowed::new(line, after, at), Taken { at: at.wrapping_sub(offset) }))),
            Err(refusal) => Step::Refuse(Err(Denied::new(line, word, at, refusal))),
        })
    }

    /// As `take`, but a full bucket allows more than its burst, into debt.
    pub(super) fn take_oversized(&self, n: u32, clock: &impl Clock) -> Result<Allowed, Denied> {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| match line.take_oversized(word, at, n) {
            Ok(taken) => Step::Put(taken, Ok(Allowed::new(line, taken, at))),
            Err(refusal) => Step::Refuse(Err(Denied::new(line, word, at, refusal))),
        })
    }

    pub(super) fn take_up_to(&self, n: u32, clock: &impl Clock) -> u32 {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| match line.take_up_to(word, at, n) {
            (0, _) => Step::Refuse(0),
            (taken, after) => Step::Put(after, taken),
        })
    }

    /// Whether `n` tokens are there; takes none.
    #[cfg(feature = "std")]
    pub(super) fn has(&self, n: u32, clock: &impl Clock) -> Result<(), Denied> {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| match line.take(word, at, n) {
            Ok(_) => Step::Keep(Ok(())),
            Err(refusal) => Step::Refuse(Err(Denied::new(line, word, at, refusal))),
        })
    }

    /// Takes what there is of `most` tokens, if that is no less than `least`, else none.
    pub(super) fn take_between(&self, least: u32, most: u32, clock: &impl Clock) -> Result<u32, Denied> {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| match line.take_up_to(word, at, most) {
            (taken, after) if taken >= least && after != word => Step::Put(after, Ok(taken)),
            (taken, _) => match line.take(word, at, least) {
                // No tokens, or no limit.
                Ok(_) => Step::Keep(Ok(taken)),
                Err(refusal) => Step::Refuse(Err(Denied::new(line, word, at, refusal))),
            },
        })
    }

    /// Gives back `n` tokens that were taken and held, and that nobody used.
    pub(super) fn give_back(&self, n: u32, clock: &impl Clock) {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| match line.give_back(word, at, n) {
            (_, same) if same == word => Step::Keep(()),
            (_, after) => Step::Put(after, ()),
        });
    }

    pub(super) fn charge(&self, n: u32, clock: &impl Clock) -> u32 {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| match line.charge(word, at, n) {
            (0, _) => Step::Refuse(0),
            (booked, after) => Step::Put(after, booked),
        })
    }

    /// Gives back up to `n` tokens to those who wait, or else to the bucket; returns how many, rounded up.
    pub(super) fn refund(&self, n: u32, clock: &impl Clock) -> u32 {
        let given = self.word.refund(n, clock);
        #[cfg(feature = "std")]
        if given > 0 {
            self.changes.raise_for_waiters();
        }
        given
    }

    pub(super) fn debt(&self, clock: &impl Clock) -> u32 {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| {
            if line.is_unlimited() {
                return Step::Keep(0);
            }
            // At most `max_debt`, but for a clock that steps back.
            Step::Keep(u32::try_from(line.below_zero(word, at)).unwrap_or(u32::MAX))
        })
    }

    pub(super) fn reserve(&self, n: u32, longest: Option<Duration>, clock: &impl Clock) -> Result<Reserved, Denied> {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| {
            let longest = longest.map_or(Ticks::NEVER, |longest| Ticks::within(longest, line.frequency()));
            match line.reserve(word, at, n, longest) {
                Ok(after) if after == word => Step::Keep(Ok(Reserved { word: at, n })),
                Ok(after) => Step::Put(after, Ok(Reserved { word: after, n })),
                Err(refusal) => Step::Refuse(Err(Denied::new(line, word, at, refusal))),
            }
        })
    }

    /// The time until what was reserved is there, by the quota in force.
    pub(super) fn ready_in(&self, reserved: Reserved, clock: &impl Clock) -> Option<Duration> {
        self.word.decide(clock, |&Moment { ref line, at, .. }| {
            Step::Keep(line.ready_in(reserved.word, at).duration(line.frequency()))
        })
    }

    /// Blocks until what was reserved is there, by the quota in force.
    #[cfg(feature = "std")]
    pub(super) fn wait(&self, reserved: Reserved, clock: &impl Clock) {
        if self.ready_in(reserved, clock) == Some(Duration::ZERO) {
            return;
        }
        // Before the look at the offset: a refund after it sees that this thread waits. loom-tests:
        // waiting::a_refund_wakes_who_waits.
        let _waiter = self.changes.waiter();
        loop {
            // The changes first: one after the look at the quota ends the wait. loom-tests:
            // waiting::a_change_wakes_who_waits.
            let seen = self.changes.changes();
            match self.ready_in(reserved, clock) {
                Some(Duration::ZERO) => return,
                wait => self.changes.wait(seen, wait),
            }
        }
    }

    /// Gives back what was reserved if nothing was taken since and it is not there yet; whether it was.
    pub(super) fn cancel(&self, reserved: Reserved, clock: &impl Clock) -> bool {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| {
            if word == reserved.word && reserved.n > 0 && line.ready_in(word, at) > Ticks::ZERO {
                Step::Put(line.without(word, reserved.n), true)
            } else {
                Step::Keep(false)
            }
        })
    }
}

impl sealed::Sealed for TokenBucket {}

impl Algorithm for TokenBucket {
    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        self.check(n, clock)
    }

    fn roll_back(&self, n: u32, taken: Taken, clock: &impl Clock) {
        if taken == Taken::NOWHERE {
            return;
        }
        self.word.decide(clock, |&Moment { ref line, word, at, offset }| {
            // As if the offset had been the same when they were taken: only the line has repaid them since.
            match line.roll_back(word, at, n, taken.at.wrapping_add(offset)) {
                same if same == word => Step::Keep(()),
                after => Step::Put(after, ()),
            }
        });
    }

    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied> {
        self.word.decide(clock, |&Moment { ref line, word, at, .. }| {
            // A check would heal the word first.
            let word = line.heal(word, at, clock).unwrap_or(word);
            Step::Keep(line.take(word, at, n).err().map(|refusal| Denied::new(line, word, at, refusal)))
        })
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        let (remaining, resets_in) = self.word.decide(clock, |&Moment { ref line, word, at, .. }| {
            Step::Keep((line.remaining(word, at), line.resets_in(word, at).duration(line.frequency())))
        });
        Usage::of(self.quota(), remaining, resets_in)
    }

    fn quota(&self) -> Quota {
        self.word.quota().quota()
    }

    fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        self.word.quota().set(quota, clock)?;
        #[cfg(feature = "std")]
        self.changes.raise();
        Ok(())
    }
}
