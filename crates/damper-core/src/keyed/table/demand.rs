//! The demand of a call on a bucket, and what the call gets.
//!
//! [`table`](super#terms) defines the terms.

use super::Receipt;
use super::shared::SharedOrigin;
use super::slots::{Slot, SlotWord};
use crate::limit::{Allowed, Denied, PerKey, TokenBucket, TokenLine, UnderQuota};
#[cfg(feature = "alloc")]
use crate::limit::{ByPlan, PlannedLevel};
use crate::quota::Line;
#[cfg(feature = "alloc")]
use crate::quota::{Plan, PlanClock};
use crate::time::{Clock, Ticks};
use core::time::Duration;

/// A call's request to a bucket: to take available tokens, or to take tokens in advance.
pub(in crate::keyed) trait Demand<A: PerKey>: Copy {
    /// The bucket's answer when it allows the demand.
    type Allowed;

    type Answer<'a>;

    /// Whether the demand itself limits the debt that it may leave. Otherwise the tier's quota limits it.
    const BRINGS_ITS_DEPTH: bool = false;

    fn tokens(self) -> u32;

    /// Returns the deepest debt that the demand may leave, in units of `A::Line`.
    ///
    /// It is called only if `BRINGS_ITS_DEPTH` is true.
    fn deepest_debt(self) -> u64 {
        0
    }

    /// Decides on the fast path, from the *level*, the form in which a slot stores the bucket.
    ///
    /// It returns the bucket's new state, or the refusal. `None` leaves the decision to the slow path.
    #[inline]
    fn decide_straight(
        self,
        _line: &A::Line,
        _level: u64,
        _at: u64,
        _clock: &impl Clock,
    ) -> Option<Result<(u64, Self::Allowed), Denied>> {
        None
    }

    /// Returns the bucket's word after the demand, or the refusal.
    ///
    /// `debtor` says which keys took the tokens that the bucket owes already.
    fn decide(
        self,
        line: &A::Line,
        word: u64,
        at: u64,
        debtor: Debtor,
        clock: &impl Clock,
    ) -> Result<(u64, Self::Allowed), Denied>;

    fn answer(allowed: Self::Allowed, taken: Grant<'_>) -> Self::Answer<'_>;

    /// Returns whether the demand would take tokens from a bucket that owes nothing.
    ///
    /// It returns `false` if that bucket would refuse the demand, or would not change.
    fn takes_tokens(self, line: &A::Line, at: u64, clock: &impl Clock) -> bool {
        let idle = A::idle(line, at);
        self.decide(line, idle, at, Debtor::Itself, clock).is_ok_and(|(after, _)| after != idle)
    }
}

/// The keys that took the tokens that a bucket owes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::keyed) enum Debtor {
    /// The key of the call, or keys that share its bucket.
    Itself,
    /// Another key. The key of the call takes over that key's slot together with the debt.
    Another,
}

/// The demand to take `n` available tokens under the quota of the key's tier.
#[derive(Clone, Copy)]
pub(in crate::keyed) struct Check {
    pub(in crate::keyed) n: u32,
}

impl<A: UnderQuota> Demand<A> for Check {
    type Allowed = Allowed;
    type Answer<'a> = (Allowed, Receipt);

    #[inline]
    fn tokens(self) -> u32 {
        self.n
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn decide_straight(
        self,
        line: &A::Line,
        level: u64,
        at: u64,
        clock: &impl Clock,
    ) -> Option<Result<(u64, Allowed), Denied>> {
        A::take_straight(line, level, at, self.n, clock)
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

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn answer(allowed: Allowed, Grant { after, at, tier, origin }: Grant<'_>) -> (Allowed, Receipt) {
        (allowed, Receipt::new(A::receipt(after, at), tier, origin))
    }
}

/// The demand to take `n` available tokens under the plan that the call passes.
#[cfg(feature = "alloc")]
#[derive(Clone, Copy)]
pub(in crate::keyed) struct PlannedCheck<'p> {
    pub(in crate::keyed) plan: &'p Plan,
    pub(in crate::keyed) n: u32,
    /// How many tokens the take has to leave in the bucket.
    pub(in crate::keyed) keep: u32,
}

/// The state of a bucket after it allowed a [`PlannedCheck`].
#[cfg(feature = "alloc")]
#[derive(Clone, Copy)]
pub(in crate::keyed) struct Fit {
    /// The tokens left.
    pub(in crate::keyed) left: u32,
    after: u64,
    at: u64,
}

#[cfg(feature = "alloc")]
impl Fit {
    /// Returns the permission of the call.
    ///
    /// The take itself does not compute the permission, because a call on a tree of limits needs only one of them:
    /// that of the tightest limit.
    #[inline]
    pub(in crate::keyed) fn allowed(self, plan: &Plan) -> Allowed {
        ByPlan::allowed(plan, self.after, self.at)
    }
}

#[cfg(feature = "alloc")]
impl Demand<ByPlan> for PlannedCheck<'_> {
    /// The tokens left.
    type Allowed = u32;
    type Answer<'a> = (Fit, Receipt);

    const BRINGS_ITS_DEPTH: bool = true;

    #[inline]
    fn deepest_debt(self) -> u64 {
        self.plan.longest_debt()
    }

    #[inline]
    fn tokens(self) -> u32 {
        self.n
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn decide_straight(self, _: &PlanClock, level: u64, at: u64, _: &impl Clock) -> Option<Result<(u64, u32), Denied>> {
        ByPlan::take_straight(self.plan, level, at, self.n, self.keep)
    }

    #[inline]
    fn decide(self, _: &PlanClock, word: u64, at: u64, _: Debtor, _: &impl Clock) -> Result<(u64, u32), Denied> {
        ByPlan::take(self.plan, word, at, self.n, self.keep)
    }

    #[inline]
    fn answer(left: u32, Grant { after, at, tier, origin }: Grant<'_>) -> (Fit, Receipt) {
        (Fit { left, after, at }, Receipt::new(at, tier, origin))
    }
}

/// The demand to take `n` tokens in advance, if they arrive within `longest`; `None` accepts any wait.
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
            // A key never waits until another key's debt is repaid. So the demand is refused unless its tokens are
            // available at once.
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

/// A take of tokens: its bucket, its position on the tier's line, and the bucket's word afterwards.
pub(in crate::keyed) struct Grant<'a> {
    pub(super) after: u64,
    pub(super) at: u64,
    pub(super) tier: usize,
    pub(super) origin: Origin<'a>,
}

/// The bucket that the tokens came from.
#[derive(Clone, Copy, Debug)]
pub(in crate::keyed) enum Origin<'a> {
    /// The call took no tokens: the quota has no limit, or the call asked for none.
    Nothing,
    /// The tokens came from the key's slot, which had this word afterwards.
    Slot(&'a Slot, SlotWord),
    /// The tokens came from a word that keys without a slot share.
    Shared(SharedOrigin),
}
