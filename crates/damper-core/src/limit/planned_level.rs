//! A token bucket whose calls bring their quota, as a [`Plan`]. The decisions are free of atomics.
//!
//! A table stores such a bucket as a *level* of two parts:
//!
//! - the instant at which the bucket is full
//! - the *tag*, a small number that identifies the plan under which the debt was taken
//!
//! An implementation of [`PlannedLevel`] sets the bits of each part. A call converts the instant to a position, which
//! counts the tokens that its plan has brought. It decides as every token bucket does, and converts the new position
//! back to an instant. [`quota::plan`](crate::quota) explains why these conversions are exact.
//!
//! **When the calls of one key bring different plans**, each plan alone still allows no more than its quota. Together
//! they may allow a little more. Let `B2` be the burst of plan 2. Let `W1` and `W2` be the times in which plans 1 and 2
//! refill their bursts. A key that changes from plan 1 to plan 2 gets at most `B2·(1 - W1/W2) + 1` tokens
//! more than the greater burst plus what the rates bring.
//!
//! A check does not cut a debt that is deeper than its own plan allows. An earlier version did. A client that changed
//! its plan with each request then made 1,895 calls an hour under a plan of one a day. Only `replanned` cuts a debt,
//! and it converts each debt only once.

use super::token_bucket::{TakeError, TokenLine};
use super::{Allowed, Denied, Usage};
use crate::quota::{Line, Plan, PlanClock};
use crate::sync::{Field, signed};
use crate::time::Clock;

/// The tag of a bucket whose debt was taken under several plans, or that owes nothing.
const SEVERAL: u64 = 0;

/// A bucket, decoded under a plan.
struct Bucket {
    line: TokenLine,
    /// The position at the clock's reading.
    here: u64,
    /// The position at which the bucket is full.
    word: u64,
}

impl Bucket {
    #[inline]
    fn read<L: PlannedLevel + ?Sized>(plan: &Plan, level: u64, at: u64) -> Self {
        let mut line: TokenLine = plan.line();
        let here = line.reading(at);
        let owed = L::owed_beats(level, at);
        let word = if owed > 0 { plan.position_from(at.wrapping_add(owed)) } else { here };
        Self { line, here, word }
    }

    /// Takes `n` tokens if at least `keep` are left after that. Returns the new word and the tokens left.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take(&self, n: u32, keep: u32) -> Option<(u64, u32)> {
        let after = self.line.take(self.word, self.here, n).ok()?;
        let left = self.line.remaining(after, self.here);
        // A call for 0 tokens is always allowed. `keep > 0` is tested first: if `keep` is 0, the compiler then computes
        // `left` only for callers that use it.
        if keep > 0 && left < keep && n > 0 { None } else { Some((after, left)) }
    }

    /// Returns the refusal of a call that takes `n` tokens and has to leave `keep`.
    #[cold]
    fn denied(&self, n: u32, keep: u32) -> Denied {
        match n.checked_add(keep) {
            Some(n) => Denied::of(&self.line, self.word, self.here, n),
            None => Denied::new(&self.line, self.word, self.here, TakeError::ExceedsBurst),
        }
    }

    /// Converts `word`, a new position of this bucket, to a level with `tag`.
    #[inline]
    fn level<L: PlannedLevel + ?Sized>(&self, tag: u64, word: u64, at: u64) -> u64 {
        let wait = self.line.wait(TokenLine::debt(word, self.here));
        L::full_in(tag, at, wait.count())
    }
}

/// The layout of a level, the stored form of a bucket under plans, and the decisions on it.
///
/// In every method, `at` is the present instant in beats, the unit of time of plans.
pub(crate) trait PlannedLevel {
    /// The field for the instant at which the bucket is full.
    ///
    /// It counts beats, the unit of time of plans, and wraps.
    const FULL_AT: Field;

    /// The field for the plan's tag, if all of the debt was taken under one plan.
    ///
    /// It is `None` in a layout for buckets whose calls all bring the same plan.
    const TAG: Option<Field>;

    /// Returns how many beats it takes until the bucket is full, or 0 if it is full.
    #[inline]
    fn owed_beats(level: u64, at: u64) -> u64 {
        let ahead = signed(Self::FULL_AT.get(level).wrapping_sub(at), Self::FULL_AT.bits());
        u64::try_from(ahead).unwrap_or(0)
    }

    /// Returns the tag in a level.
    #[inline]
    fn tag(level: u64) -> u64 {
        Self::TAG.map_or(SEVERAL, |tag| tag.get(level))
    }

    /// Returns the level of a bucket that is full `beats` after the instant `at`.
    #[inline]
    fn full_in(tag: u64, at: u64, beats: u64) -> u64 {
        Self::TAG.map_or(0, |field| field.put(tag)) | Self::FULL_AT.put(at.wrapping_add(beats))
    }

    /// Returns `level`, or the level of an idle bucket if `level` owes more than a bucket can owe.
    ///
    /// A bucket can owe the deepest debt that `line` expects, plus the longest step back that the clock may take. A
    /// larger debt has one of two causes: the clock stepped back further, or instants have wrapped since the write.
    #[inline]
    fn healed(line: &PlanClock, level: u64, at: u64, clock: &impl Clock) -> u64 {
        let owed = Self::owed_beats(level, at);
        let timeline = line.timeline();
        let is_stale = owed > timeline.deepest_ever() && timeline.is_from_before_a_step_back(owed, clock);
        if is_stale { Self::idle_at(at) } else { level }
    }

    /// Returns the tag of a bucket after a take under `plan`.
    #[inline]
    fn tag_after(level: u64, at: u64, plan: &Plan) -> u64 {
        let own = u64::from(plan.tag().get());
        if Self::owed_beats(level, at) == 0 || Self::tag(level) == own { own } else { SEVERAL }
    }

    /// Returns whether the debt may contain tokens that were taken under `plan`.
    ///
    /// If all of the debt was taken under another plan, `replanned` may have converted it to that plan. Its tokens are
    /// then refilled at another rate than under `plan`, so none can be given back.
    fn may_owe_to(plan: &Plan, level: u64) -> bool {
        matches!(Self::tag(level), SEVERAL) || Self::tag(level) == u64::from(plan.tag().get())
    }

    /// Returns how many of `n` tokens are available, and the level after taking them.
    #[cfg(target_has_atomic = "64")]
    fn take_up_to(plan: &Plan, level: u64, at: u64, n: u32) -> (u32, u64) {
        let bucket = Bucket::read::<Self>(plan, level, at);
        let (taken, word) = bucket.line.take_up_to(bucket.word, bucket.here, n);
        let same = taken == 0 || plan.is_unlimited();
        (taken, if same { level } else { bucket.level::<Self>(Self::tag_after(level, at, plan), word, at) })
    }

    /// Takes as [`take`](Self::take) does, on the fast path.
    ///
    /// Returns `None` if the slow path has to decide:
    ///
    /// - The plan has no limit.
    /// - The bucket is in debt and refuses the call.
    /// - The bucket refuses the call, and the sum of `n` and `keep` overflows.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take_straight(plan: &Plan, level: u64, at: u64, n: u32, keep: u32) -> Option<Result<(u64, u32), Denied>> {
        let bucket = Bucket::read::<Self>(plan, level, at);
        match bucket.take(n, keep) {
            Some(_) if plan.is_unlimited() => None,
            Some((after, left)) => Some(Ok((bucket.level::<Self>(Self::tag_after(level, at, plan), after, at), left))),
            // The level of a bucket in debt may have been written before the clock stepped back. The slow path replaces
            // such a level.
            None if bucket.line.is_below_zero(bucket.word, bucket.here) => None,
            // If the sum overflows, the slow path refuses the call. `Bucket::denied` is not used here, because passing
            // `bucket` to it would force the bucket out of registers into memory.
            None => Some(Err(Denied::of(&bucket.line, bucket.word, bucket.here, n.checked_add(keep)?))),
        }
    }

    /// Takes `n` tokens if at least `keep` are left after that. Returns the new level and the tokens left.
    ///
    /// The new level is `level` itself if nothing has to be written.
    fn take(plan: &Plan, level: u64, at: u64, n: u32, keep: u32) -> Result<(u64, u32), Denied> {
        let bucket = Bucket::read::<Self>(plan, level, at);
        let (after, left) = bucket.take(n, keep).ok_or_else(|| bucket.denied(n, keep))?;
        let same = n == 0 || plan.is_unlimited();
        Ok((if same { level } else { bucket.level::<Self>(Self::tag_after(level, at, plan), after, at) }, left))
    }

    /// Returns the answer of an allowed call that left the bucket at `level`.
    #[inline]
    fn allowed(plan: &Plan, level: u64, at: u64) -> Allowed {
        let bucket = Bucket::read::<Self>(plan, level, at);
        Allowed::new(&bucket.line, bucket.word, bucket.here)
    }

    /// Returns the level after giving back the `n` tokens that were taken at `taken_at`.
    ///
    /// It leaves out the tokens that were refilled since then.
    #[cfg(feature = "alloc")]
    fn roll_back(plan: &Plan, level: u64, at: u64, n: u32, taken_at: u64) -> u64 {
        if !Self::may_owe_to(plan, level) {
            return level;
        }
        let bucket = Bucket::read::<Self>(plan, level, at);
        let since = bucket.line.position_at(taken_at);
        let word = bucket.line.take_back(bucket.word, bucket.here, n, since);
        bucket.level::<Self>(Self::tag(level), word, at)
    }

    /// Returns how many of `n` tokens a refund gives back, rounded up, and the level after it.
    fn refund(plan: &Plan, level: u64, at: u64, n: u32) -> (u32, u64) {
        if plan.is_unlimited() || !Self::may_owe_to(plan, level) {
            return (0, level);
        }
        let bucket = Bucket::read::<Self>(plan, level, at);
        let (given, word) = bucket.line.give_back(bucket.word, bucket.here, n);
        (given, if given == 0 { level } else { bucket.level::<Self>(Self::tag(level), word, at) })
    }

    /// Returns how many of `n` tokens can be booked after the fact, and the level after booking them.
    fn charge(plan: &Plan, level: u64, at: u64, n: u32) -> (u32, u64) {
        let bucket = Bucket::read::<Self>(plan, level, at);
        let (booked, word) = bucket.line.charge(bucket.word, bucket.here, n);
        (booked, if booked == 0 { level } else { bucket.level::<Self>(Self::tag_after(level, at, plan), word, at) })
    }

    /// Returns how much of the plan is used.
    fn usage(plan: &Plan, level: u64, at: u64) -> Usage {
        let Bucket { line, here, word } = Bucket::read::<Self>(plan, level, at);
        Usage::of(plan.quota(), line.remaining(word, here), line.resets_in(word, here).duration(line.frequency()))
            .with_debt(line.debt_in_tokens(word, here))
    }

    /// Returns the level that owes as many tokens under `new` as `level` does under `old`.
    ///
    /// It returns `level` itself if the debt was not taken under `old` alone. A debt that is deeper than `new` allows
    /// is cut to the deepest debt of `new`.
    #[cfg(feature = "alloc")]
    fn replanned(old: &Plan, new: &Plan, level: u64, at: u64) -> u64 {
        let (from, to) = (u64::from(old.tag().get()), u64::from(new.tag().get()));
        if Self::owed_beats(level, at) == 0 || Self::tag(level) != from || from == to {
            return level;
        }
        if new.is_unlimited() {
            return Self::idle_at(at);
        }
        let bucket = Bucket::read::<Self>(old, level, at);
        let owed = TokenLine::debt(bucket.word, bucket.here);
        let (bits, mut line) = (bucket.line.timeline().fraction_bits(), new.line::<TokenLine>());
        let here = line.reading(at);
        let deepest = u128::from(line.timeline().units(line.timeline().deepest_debt()));
        // There are at most 63 fraction bits, and a debt is below 2^47 positions. So the shifted debt fits a `u128`.
        let owed = (u128::from(owed) << line.timeline().fraction_bits()).div_ceil(1 << bits).min(deepest);
        Bucket { line, here, word: here }.level::<Self>(to, here.wrapping_add(owed as u64), at)
    }

    /// Returns the level of a bucket that owes nothing.
    fn idle_at(at: u64) -> u64 {
        Self::full_in(SEVERAL, at, 0)
    }
}
