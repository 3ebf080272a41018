//! What a call asks of a bucket, and what it took.

use super::slots::{Slot, SlotWord};
use super::{Receipt, Source};
use crate::limit::{Allowed, Denied, KeyedAlgorithm, TokenBucket, TokenLine};
use crate::quota::Line;
use crate::time::{Clock, Ticks};
use core::time::Duration;

/// What a call asks of a bucket: to take tokens that are there, or to take them in advance.
pub(super) trait Demand<A: KeyedAlgorithm>: Copy {
    type Answer;

    fn tokens(self) -> u32;

    /// The word after it, and the answer; or the refusal.
    fn decide(self, line: &A::Line, word: u64, at: u64, clock: &impl Clock) -> Result<(u64, Self::Answer), Denied>;

    /// The same of a bucket whose debt another key left.
    fn decide_on_inherited(
        self,
        line: &A::Line,
        word: u64,
        at: u64,
        clock: &impl Clock,
    ) -> Result<(u64, Self::Answer), Denied>;
}

/// Takes `n` tokens that are there.
#[derive(Clone, Copy)]
pub(super) struct Check {
    pub(super) n: u32,
}

impl<A: KeyedAlgorithm> Demand<A> for Check {
    type Answer = Allowed;

    fn tokens(self) -> u32 {
        self.n
    }

    #[inline]
    fn decide(self, line: &A::Line, word: u64, at: u64, clock: &impl Clock) -> Result<(u64, Allowed), Denied> {
        A::take(line, word, at, self.n, clock)
    }

    #[inline]
    fn decide_on_inherited(
        self,
        line: &A::Line,
        word: u64,
        at: u64,
        clock: &impl Clock,
    ) -> Result<(u64, Allowed), Denied> {
        A::take(line, word, at, self.n, clock)
    }
}

/// Takes `n` tokens in advance, if they are there within `longest`.
#[derive(Clone, Copy)]
pub(super) struct Reserve {
    pub(super) n: u32,
    pub(super) longest: Option<Duration>,
}

impl Demand<TokenBucket> for Reserve {
    type Answer = ();

    fn tokens(self) -> u32 {
        self.n
    }

    fn decide(self, line: &TokenLine, word: u64, at: u64, _: &impl Clock) -> Result<(u64, ()), Denied> {
        let longest = self.longest.map_or(Ticks::NEVER, |longest| Ticks::within(longest, line.frequency()));
        match line.reserve(word, at, self.n, longest) {
            Ok(after) => Ok((after, ())),
            Err(error) => Err(Denied::new(line, word, at, error)),
        }
    }

    /// No key waits in the place of another: tokens that are not there at once are refused.
    fn decide_on_inherited(self, line: &TokenLine, word: u64, at: u64, _: &impl Clock) -> Result<(u64, ()), Denied> {
        match line.take(word, at, self.n) {
            Ok(after) => Ok((after, ())),
            Err(error) => Err(Denied::new(line, word, at, error)),
        }
    }
}

/// Tokens that were taken of a bucket, and the bucket's word after that.
pub(super) struct Taken<'a> {
    pub(super) after: u64,
    pub(super) at: u64,
    pub(super) tier: usize,
    pub(super) origin: Origin<'a>,
}

/// Whose tokens they are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'a> {
    /// No bucket's: the call cost nothing, under a quota without a limit or for no tokens.
    Nothing,
    /// Those of the key's slot, which had this word afterwards.
    Slot(&'a Slot, SlotWord),
    /// Those of the key's shared bucket, which had been cleared so many times.
    Shared { clears: u32 },
}

impl Taken<'_> {
    /// What `roll_back` needs.
    #[inline]
    pub(super) fn receipt<A: KeyedAlgorithm>(&self) -> Receipt {
        let source = match self.origin {
            Origin::Nothing => Source::Nothing,
            Origin::Slot(..) => Source::Slot,
            Origin::Shared { clears } => Source::Shared { clears },
        };
        // There are at most 16 tiers.
        Receipt { at: A::receipt(self.after, self.at), tier: self.tier as u8, source }
    }
}
