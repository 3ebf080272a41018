//! A word of the keyed table under a plan that comes with each call.
//!
//! The level of a bucket is the instant at which it is full, and the tag of the plan by which it owes:
//!
//! ```text
//!  55  48 47     0
//! | TAG  | FULL AT |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | FULL AT | 48 | the beat at which the bucket is full, modulo 2^48 |
//! | TAG | 8 | the tag of the plan under which all of the debt was taken; 0 if there were several |
//!
//! A call decodes the instant to a position on the line of its plan, decides as every token bucket does, and encodes
//! the position that results. [`quota::plan`](crate::quota) explains why that is exact.
//!
//! **When plans mix on one key**, each plan stays in its own envelope. For a change from one plan to another, a key
//! gets at most `B2·(1 - W1/W2) + 1` tokens more than the greater of the two bursts and what the rates bring, with
//! `W` the time of a refill, and none more if both have the same. A debt is not cut to the depth of a plan that is
//! less deep: with a plan for each request, 1,895 calls of a plan of one a day passed in an hour.

#[cfg(test)]
mod tests;

use super::per_key::{Debt, PerKey};
use super::token_bucket::{TakeError, TokenLine};
use super::{Allowed, Denied, Usage};
use crate::quota::{Alignment, LONGEST_DEBT, Line, LineStart, Plan, PlanClock, TIME_BITS};
use crate::sync::{Field, signed};
use crate::time::{Clock, Ticks};

/// A level of a bucket by plan.
const FULL_AT: Field = Field::lowest(TIME_BITS);
const TAG: Field = FULL_AT.then(8);
const _: () = assert!(TAG.end() == super::LEVEL_BITS, "fields must tile the level");

/// The tag of a bucket whose debt was taken under several plans, or that owes nothing.
const SEVERAL: u64 = 0;

/// The token bucket of a key whose quota comes with each call, as a [`Plan`].
///
/// It is the algorithm of a [`KeyedLimiter` by plan](crate::KeyedLimiter::by_plan).
#[derive(Clone, Copy, Debug)]
pub enum ByPlan {}

/// A bucket as a plan reads it.
struct Bucket {
    line: TokenLine,
    /// The position of the reading.
    here: u64,
    /// The position at which the bucket is full.
    word: u64,
}

impl Bucket {
    #[inline]
    fn read(plan: &Plan, level: u64, at: u64) -> Self {
        let mut line: TokenLine = plan.line();
        let here = line.reading(at);
        let owed = owed_beats(level, at);
        let word = if owed > 0 { plan.position_from(at.wrapping_add(owed)) } else { here };
        Self { line, here, word }
    }

    /// Returns the word after taking `n` tokens and how many are left, if these are `keep` or more.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take(&self, n: u32, keep: u32) -> Option<(u64, u32)> {
        let after = self.line.take(self.word, self.here, n).ok()?;
        let left = self.line.remaining(after, self.here);
        // A call that takes nothing leaves everything. Where `keep` is 0, what is left is computed only if it is used.
        if keep > 0 && left < keep && n > 0 { None } else { Some((after, left)) }
    }

    /// Returns the refusal of `n` tokens of which `keep` have to be left.
    #[cold]
    fn denied(&self, n: u32, keep: u32) -> Denied {
        match n.checked_add(keep) {
            Some(n) => Denied::of(&self.line, self.word, self.here, n),
            None => Denied::new(&self.line, self.word, self.here, TakeError::ExceedsBurst),
        }
    }

    /// Returns the level of this bucket with another word.
    #[inline]
    fn level(&self, tag: u64, word: u64, at: u64) -> u64 {
        let wait = self.line.wait(TokenLine::debt(word, self.here));
        TAG.put(tag) | FULL_AT.put(at.wrapping_add(wait.count()))
    }
}

/// Returns how many beats it takes until the bucket is full.
#[inline]
const fn owed_beats(level: u64, at: u64) -> u64 {
    let ahead = signed(level.wrapping_sub(at), TIME_BITS);
    if ahead > 0 { ahead as u64 } else { 0 }
}

/// Returns the tag of a bucket after a take under `plan`.
#[inline]
const fn tag_after(level: u64, at: u64, plan: &Plan) -> u64 {
    let own = plan.tag().get() as u64;
    if owed_beats(level, at) == 0 || TAG.get(level) == own { own } else { SEVERAL }
}

impl ByPlan {
    /// Takes as [`take`](Self::take) does, on the fast path.
    ///
    /// `None` if the bucket is below empty, if the plan has no limit, or if `n` and `keep` are more than any burst.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    pub(crate) fn take_straight(
        plan: &Plan,
        level: u64,
        at: u64,
        n: u32,
        keep: u32,
    ) -> Option<Result<(u64, u32), Denied>> {
        let bucket = Bucket::read(plan, level, at);
        match bucket.take(n, keep) {
            Some(_) if plan.is_unlimited() => None,
            Some((after, left)) => Some(Ok((bucket.level(tag_after(level, at, plan), after, at), left))),
            // It may be a bucket whose clock stepped back, which the slow path heals.
            None if bucket.line.is_below_zero(bucket.word, bucket.here) => None,
            // A sum that overflows is for the slow path. No function here is given the bucket, which would have to be in memory.
            None => Some(Err(Denied::of(&bucket.line, bucket.word, bucket.here, n.checked_add(keep)?))),
        }
    }

    /// Returns the level after taking `n` tokens and how many are left, if these are `keep` or more.
    ///
    /// It is the same level if nothing has to be written.
    pub(crate) fn take(plan: &Plan, level: u64, at: u64, n: u32, keep: u32) -> Result<(u64, u32), Denied> {
        let bucket = Bucket::read(plan, level, at);
        let (after, left) = bucket.take(n, keep).ok_or_else(|| bucket.denied(n, keep))?;
        let same = n == 0 || plan.is_unlimited();
        Ok((if same { level } else { bucket.level(tag_after(level, at, plan), after, at) }, left))
    }

    /// Returns the permission of a call that left the bucket at this level.
    #[inline]
    pub(crate) fn allowed(plan: &Plan, level: u64, at: u64) -> Allowed {
        let bucket = Bucket::read(plan, level, at);
        Allowed::new(&bucket.line, bucket.word, bucket.here)
    }

    /// Returns the level after giving back `n` tokens, except those that were refilled since the take.
    pub(crate) fn roll_back(plan: &Plan, level: u64, at: u64, n: u32, taken_at: u64) -> u64 {
        let bucket = Bucket::read(plan, level, at);
        let since = bucket.line.position_at(taken_at);
        let word = bucket.line.take_back(bucket.word, bucket.here, n, since);
        bucket.level(TAG.get(level), word, at)
    }

    /// Returns how many of `n` tokens a refund gives back, rounded up, and the level after it.
    pub(crate) fn refund(plan: &Plan, level: u64, at: u64, n: u32) -> (u32, u64) {
        // A debt under another plan alone was converted to it, and the tokens last another time now.
        if plan.is_unlimited() || !matches!(TAG.get(level), SEVERAL) && TAG.get(level) != u64::from(plan.tag().get()) {
            return (0, level);
        }
        let bucket = Bucket::read(plan, level, at);
        let (given, word) = bucket.line.give_back(bucket.word, bucket.here, n);
        (given, if given == 0 { level } else { bucket.level(TAG.get(level), word, at) })
    }

    /// Returns how much of `n` can be booked after the fact, and the level after booking it.
    pub(crate) fn charge(plan: &Plan, level: u64, at: u64, n: u32) -> (u32, u64) {
        let bucket = Bucket::read(plan, level, at);
        let (booked, word) = bucket.line.charge(bucket.word, bucket.here, n);
        (booked, if booked == 0 { level } else { bucket.level(tag_after(level, at, plan), word, at) })
    }

    /// Returns how much of the plan is used.
    pub(crate) fn usage(plan: &Plan, level: u64, at: u64) -> Usage {
        let Bucket { line, here, word } = Bucket::read(plan, level, at);
        Usage::of(plan.quota(), line.remaining(word, here), line.resets_in(word, here).duration(line.frequency()))
            .with_debt(line.debt_in_tokens(word, here))
    }

    /// Returns the level that owes as many tokens under `new` as this one does under `old`.
    ///
    /// It is the same level if the debt was not taken under `old` alone. A debt that is deeper than `new` allows is cut
    /// to that.
    pub(crate) fn replanned(old: &Plan, new: &Plan, level: u64, at: u64) -> u64 {
        let (from, to) = (u64::from(old.tag().get()), u64::from(new.tag().get()));
        if owed_beats(level, at) == 0 || TAG.get(level) != from || from == to {
            return level;
        }
        if new.is_unlimited() {
            return Self::idle_at(at);
        }
        let bucket = Bucket::read(old, level, at);
        let owed = TokenLine::debt(bucket.word, bucket.here);
        let (bits, mut line) = (bucket.line.timeline().fraction_bits(), new.line::<TokenLine>());
        let here = line.reading(at);
        let deepest = u128::from(line.timeline().units(line.timeline().deepest_debt()));
        // Fraction bits are below 64 - 18, and a debt is below 2^46 positions.
        let owed = (u128::from(owed) << line.timeline().fraction_bits()).div_ceil(1 << bits).min(deepest);
        Bucket { line, here, word: here }.level(to, here.wrapping_add(owed as u64), at)
    }

    /// Returns the level of a bucket that owes nothing.
    pub(crate) const fn idle_at(at: u64) -> u64 {
        TAG.put(SEVERAL) | FULL_AT.put(at)
    }
}

impl PerKey for ByPlan {
    type Line = PlanClock;

    const BY_WINDOWS: bool = false;

    const BY_PLAN: bool = true;

    fn line_start(_: Alignment) -> LineStart {
        PlanClock::START
    }

    #[inline]
    fn word(line: &PlanClock, level: u64, at: u64, clock: &impl Clock) -> u64 {
        let owed = owed_beats(level, at);
        let timeline = line.timeline();
        let is_stale = owed > timeline.deepest_ever() && timeline.is_from_before_a_step_back(owed, clock);
        if is_stale { Self::idle_at(at) } else { level }
    }

    /// Returns `false`: only a call knows the plan.
    fn is_exhausted(_: &PlanClock, _: u64, _: u64, _: &impl Clock) -> bool {
        false
    }

    fn resets_in(line: &PlanClock, level: u64, at: u64, _: &impl Clock) -> Ticks {
        line.wait(owed_beats(level, at))
    }

    #[inline]
    fn weight(_: &PlanClock, level: u64, at: u64, _: &impl Clock) -> u64 {
        owed_beats(level, at)
    }

    #[inline]
    fn greater(_: &PlanClock, one: u64, other: u64, at: u64, _: &impl Clock) -> u64 {
        let (one_owes, other_owes) = (owed_beats(one, at), owed_beats(other, at));
        let (more, less) = if one_owes >= other_owes { (one, other) } else { (other, one) };
        // The debt may be that of both.
        let is_one = TAG.get(more) == TAG.get(less) || one_owes == 0 || other_owes == 0;
        if is_one { more } else { TAG.put(SEVERAL) | FULL_AT.put(FULL_AT.get(more)) }
    }

    #[inline]
    fn idle(_: &PlanClock, at: u64) -> u64 {
        Self::idle_at(at)
    }

    fn owed(line: &PlanClock, level: u64, at: u64, _: &impl Clock) -> Debt {
        Debt::of_time(line.wait(owed_beats(level, at)))
    }

    fn owing(line: &PlanClock, at: u64, owed: Debt) -> u64 {
        FULL_AT.put(at.wrapping_add(Self::reach(line, owed)))
    }

    fn reach(line: &PlanClock, Debt { wait, .. }: Debt) -> u64 {
        let beats = if wait == Ticks::ZERO { 0 } else { line.timeline().units_for(wait) };
        beats.min(LONGEST_DEBT)
    }
}
