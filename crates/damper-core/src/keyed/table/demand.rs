//! The demand of a call on a bucket, and its result.

use super::shared::SharedOrigin;
use super::slots::{Slot, SlotWord};
use super::{Receipt, Source};
use crate::limit::{Allowed, Denied, KeyedAlgorithm, TokenBucket, TokenLine};
use crate::quota::Line;
use crate::time::{Clock, Ticks};
use core::time::Duration;

/// A demand to take tokens that are there, or to take them in advance.
pub(super) trait Demand<A: KeyedAlgorithm>: Copy {
    /// The bucket's answer when it allows the demand.
    type Allowed;

    type Answer<'a>;

    fn tokens(self) -> u32;

    /// Returns the word after the demand, or the refusal. `debtor` took what the bucket owes already.
    fn decide(
        self,
        line: &A::Line,
        word: u64,
        at: u64,
        debtor: Debtor,
        clock: &impl Clock,
    ) -> Result<(u64, Self::Allowed), Denied>;

    fn answer(allowed: Self::Allowed, taken: Grant<'_>) -> Self::Answer<'_>;
}

/// The keys that took what a bucket owes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Debtor {
    /// The key of the call, or keys that share its bucket.
    Itself,
    /// The key that caused the bucket's debt.
    Another,
}

/// The demand to take `n` tokens that are there.
#[derive(Clone, Copy)]
pub(super) struct Check {
    pub(super) n: u32,
}

impl<A: KeyedAlgorithm> Demand<A> for Check {
    type Allowed = Allowed;
    type Answer<'a> = (Allowed, Receipt);

    fn tokens(self) -> u32 {
        self.n
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn decide(
        self,
        line: &A::Line,
        word: u64,
        at: u64,
        _: Debtor,
        clock: &impl Clock,
    ) -> Result<(u64, Allowed), Denied> {
        A::take(line, word, at, self.n, clock)
    }

    #[inline]
    fn answer(allowed: Allowed, Grant { after, at, tier, origin }: Grant<'_>) -> (Allowed, Receipt) {
        let source = match origin {
            Origin::Nothing => Source::Nothing,
            Origin::Slot(slot, word) => Source::Slot(slot.ownership(word)),
            Origin::Shared(origin) => Source::Shared(origin),
        };
        // The number fits, because there are at most 15 tiers.
        (allowed, Receipt { at: A::receipt(after, at), tier: tier as u8, source })
    }
}

/// The demand to take `n` tokens in advance, if they are there within `longest`.
#[derive(Clone, Copy)]
pub(super) struct Reserve {
    pub(super) n: u32,
    pub(super) longest: Option<Duration>,
}

impl Demand<TokenBucket> for Reserve {
    type Allowed = ();
    type Answer<'a> = Grant<'a>;

    fn tokens(self) -> u32 {
        self.n
    }

    fn decide(self, line: &TokenLine, word: u64, at: u64, debtor: Debtor, _: &impl Clock) -> Result<(u64, ()), Denied> {
        let longest = match debtor {
            Debtor::Itself => self.longest.map_or(Ticks::NEVER, |longest| Ticks::within(longest, line.frequency())),
            // No key waits behind another: tokens that are not there at once are refused.
            Debtor::Another => Ticks::ZERO,
        };
        match line.reserve(word, at, self.n, longest) {
            Ok(after) => Ok((after, ())),
            Err(error) => Err(Denied::new(line, word, at, error)),
        }
    }

    fn answer((): (), taken: Grant<'_>) -> Grant<'_> {
        taken
    }
}

/// The tokens that a call was granted, and the bucket's word after that.
pub(super) struct Grant<'a> {
    pub(super) after: u64,
    pub(super) at: u64,
    pub(super) tier: usize,
    pub(super) origin: Origin<'a>,
}

/// The bucket that the tokens came from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'a> {
    /// The call took no tokens: the quota has no limit, or it asked for none.
    Nothing,
    /// The tokens came from the key's slot, which had this word afterwards.
    Slot(&'a Slot, SlotWord),
    /// The tokens came from one of the key's shared words.
    Shared(SharedOrigin),
}
