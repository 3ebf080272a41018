//! The algorithms in the keyed table.
//!
//! The table stores the bucket of a key as a *level* of 56 bits. [`PerKey`] has the operations on a level that the
//! table needs. [`UnderQuota`] adds the decisions under one of the table's quotas. Each quota has a [`Line`], which
//! converts readings of the clock to positions.

use super::token_bucket::TokenLine;
use super::{Allowed, Denied, TokenBucket, Usage};
use crate::quota::{Alignment, Line, LineStart, Quota};
use crate::sync::signed;
use crate::time::{Clock, Ticks};

/// The number of bits of a level, the form in which the table stores a bucket.
pub(crate) const LEVEL_BITS: u32 = 56;

/// The most units that a bucket may owe. Levels wrap after four times as many.
///
/// A level that is more than half of that range ahead of the clock's position would seem to lie behind it. A quarter
/// keeps a safe distance.
const MOST_OWED: u64 = 1 << (LEVEL_BITS - 2);

/// An algorithm that a [`KeyedLimiter`](crate::KeyedLimiter) can apply to every key.
///
/// The keyed algorithms are [`TokenBucket`], [`FixedWindow`](crate::FixedWindow) and [`SlidingCounter`](crate::SlidingCounter).
pub trait KeyedAlgorithm: UnderQuota {}

impl<A: UnderQuota> KeyedAlgorithm for A {}

/// An algorithm of the buckets that the keyed table keeps.
///
/// A *level* is the form in which the table stores a bucket. A *word* is a level that was decoded at a reading of the
/// clock. The `line` of a quota converts that reading to a position, which every method gets as `at`.
pub trait PerKey {
    /// The type that converts readings of the clock to positions, for each of the table's quotas.
    type Line: Line;

    /// Whether the algorithm counts the tokens taken in each window.
    const BY_WINDOWS: bool;

    /// Whether each call brings its quota, as a `Plan`. Otherwise the table keeps the quotas.
    const BY_PLAN: bool = false;

    /// Returns the parameters with which the line of a quota starts.
    fn line_start(alignment: Alignment) -> LineStart;

    /// Decodes a level to a word.
    ///
    /// A level may be too far ahead of `at` to be a debt, because the clock stepped back or positions wrapped. A token
    /// bucket then counts as idle. Tokens counted in a window then count in the window after the present one.
    fn word(line: &Self::Line, level: u64, at: u64, clock: &impl Clock) -> u64;

    /// Returns whether a check of one token would be refused now, or `false` if each call brings its quota.
    fn is_exhausted(line: &Self::Line, word: u64, at: u64, clock: &impl Clock) -> bool;

    /// Returns the wait until the bucket owes nothing.
    fn resets_in(line: &Self::Line, word: u64, at: u64, clock: &impl Clock) -> Ticks;

    /// Returns how much the bucket owes, as a measure of the time until it is repaid; 0 if it owes nothing.
    ///
    /// Only weights under the same quota can be compared.
    fn weight(line: &Self::Line, word: u64, at: u64, clock: &impl Clock) -> u64;

    /// Returns whether a level owes anything: whether the [`weight`](Self::weight) of its word is above 0.
    fn owes(line: &Self::Line, level: u64, at: u64, clock: &impl Clock) -> bool {
        Self::weight(line, Self::word(line, level, at, clock), at, clock) > 0
    }

    /// Returns a word that owes at least as much as `one` and at least as much as `other`.
    fn greater(line: &Self::Line, one: u64, other: u64, at: u64, clock: &impl Clock) -> u64;

    /// Returns the word of a bucket that owes nothing.
    fn idle(line: &Self::Line, at: u64) -> u64;

    /// Returns the debt of a word, in a form that [`owing`](Self::owing) can convert under another quota.
    fn owed(line: &Self::Line, word: u64, at: u64, clock: &impl Clock) -> Debt;

    /// Returns a word that owes at least `owed`, or a quarter of the range of levels if that is less.
    fn owing(line: &Self::Line, at: u64, owed: Debt) -> u64;

    /// Returns the most that the word from [`owing`](Self::owing) may owe, rounded up.
    ///
    /// It is a number of tokens or windows, or of beats (the time unit of plans) if each call brings its quota.
    fn reach(line: &Self::Line, owed: Debt) -> u64;
}

/// An algorithm that decides about a key's bucket under one of the table's quotas.
pub trait UnderQuota: PerKey {
    /// The largest limit that fits a level.
    const LARGEST_LIMIT: u32;

    /// Takes `n` tokens from a level on the fast path, and returns the word after that.
    ///
    /// Returns `None` if the decision needs parts of the line that the fast path does not load.
    fn take_straight(
        line: &Self::Line,
        level: u64,
        at: u64,
        n: u32,
        clock: &impl Clock,
    ) -> Option<Result<(u64, Allowed), Denied>>;

    /// Returns the word after taking `n` tokens, or `word` itself if nothing has to be written.
    fn take(line: &Self::Line, word: u64, at: u64, n: u32, clock: &impl Clock) -> Result<(u64, Allowed), Denied>;

    /// Returns what [`roll_back`](Self::roll_back) has to know about a take: its position, or the number of its window.
    fn receipt(after: u64, at: u64) -> u64;

    /// Returns the word after giving back the `n` tokens of the take that `receipt` describes.
    ///
    /// A token bucket leaves out the tokens that were refilled since the take. Tokens counted in a window are given
    /// back only while the word still counts in that window.
    fn roll_back(line: &Self::Line, word: u64, at: u64, n: u32, receipt: u64) -> u64;

    /// Returns how many of `n` tokens can be booked after the fact, and the word after booking them.
    fn charge(line: &Self::Line, word: u64, at: u64, n: u32) -> (u32, u64);

    /// Returns how many of `n` tokens a refund gives back, rounded up, and the word after it.
    fn refund(line: &Self::Line, word: u64, at: u64, n: u32) -> (u32, u64);

    /// Returns how much of the limit is used.
    fn usage(line: &Self::Line, quota: Quota, word: u64, at: u64, clock: &impl Clock) -> Usage;
}

impl PerKey for TokenBucket {
    type Line = TokenLine;

    const BY_WINDOWS: bool = false;

    /// Returns the same start for every alignment, because tokens arrive from the first use on.
    fn line_start(_: Alignment) -> LineStart {
        TokenLine::IN_LEVELS
    }

    #[inline]
    fn word(line: &TokenLine, level: u64, at: u64, clock: &impl Clock) -> u64 {
        line.word_ahead(ahead(level, at), at, clock)
    }

    fn is_exhausted(line: &TokenLine, word: u64, at: u64, _: &impl Clock) -> bool {
        line.take(word, at, 1).is_err()
    }

    fn resets_in(line: &TokenLine, word: u64, at: u64, _: &impl Clock) -> Ticks {
        line.resets_in(word, at)
    }

    #[inline]
    fn weight(_: &TokenLine, word: u64, at: u64, _: &impl Clock) -> u64 {
        TokenLine::debt(word, at)
    }

    #[inline]
    fn owes(line: &TokenLine, level: u64, at: u64, clock: &impl Clock) -> bool {
        let ahead = ahead(level, at);
        // A level behind the position, or too far ahead to be a debt, owes nothing.
        ahead > 0 && TokenLine::debt(line.word_ahead(ahead, at, clock), at) > 0
    }

    #[inline]
    fn greater(_: &TokenLine, one: u64, other: u64, at: u64, _: &impl Clock) -> u64 {
        if TokenLine::debt(one, at) >= TokenLine::debt(other, at) { one } else { other }
    }

    #[inline]
    fn idle(_: &TokenLine, at: u64) -> u64 {
        at
    }

    fn owed(line: &TokenLine, word: u64, at: u64, _: &impl Clock) -> Debt {
        Debt { wait: line.resets_in(word, at), tokens: u128::from(TokenLine::debt(word, at)) << bits_below_units(line) }
    }

    fn owing(line: &TokenLine, at: u64, owed: Debt) -> u64 {
        at.wrapping_add(debt(line, owed))
    }

    fn reach(line: &TokenLine, owed: Debt) -> u64 {
        debt(line, owed).div_ceil(1 << line.timeline().fraction_bits())
    }
}

impl UnderQuota for TokenBucket {
    const LARGEST_LIMIT: u32 = u32::MAX;

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take_straight(
        line: &TokenLine,
        level: u64,
        at: u64,
        n: u32,
        clock: &impl Clock,
    ) -> Option<Result<(u64, Allowed), Denied>> {
        let word = at.wrapping_add_signed(ahead(level, at).max(0));
        match Self::take(line, word, at, n, clock) {
            // The level of a bucket in debt may have been written before the clock stepped back. The slow path
            // recognizes such a level and treats the bucket as idle.
            Err(_) if line.is_below_zero(word, at) => None,
            taken => Some(taken),
        }
    }

    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take(line: &TokenLine, word: u64, at: u64, n: u32, _: &impl Clock) -> Result<(u64, Allowed), Denied> {
        match line.take(word, at, n) {
            Ok(after) => Ok((after, Allowed::new(line, after, at))),
            Err(_) => Err(Denied::of(line, word, at, n)),
        }
    }

    #[inline]
    fn receipt(_: u64, at: u64) -> u64 {
        at
    }

    fn roll_back(line: &TokenLine, word: u64, at: u64, n: u32, receipt: u64) -> u64 {
        // Unlike `TokenLine::roll_back`, this gives tokens back even while the bucket is in debt. The waiters of a key
        // tolerate a word that moves back, see `keyed::table::waiting`.
        line.take_back(word, at, n, receipt)
    }

    fn charge(line: &TokenLine, word: u64, at: u64, n: u32) -> (u32, u64) {
        line.charge(word, at, n)
    }

    fn refund(line: &TokenLine, word: u64, at: u64, n: u32) -> (u32, u64) {
        line.give_back(word, at, n)
    }

    fn usage(line: &TokenLine, quota: Quota, word: u64, at: u64, _: &impl Clock) -> Usage {
        Usage::of(quota, line.remaining(word, at), line.resets_in(word, at).duration(line.frequency()))
            .with_debt(line.debt_in_tokens(word, at))
    }
}

/// The debt of a bucket, in a form that can be converted to another quota.
///
/// The conversion uses the time. It uses the tokens only if the old or the new quota refills nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Debt {
    /// The time until the bucket is full.
    pub(crate) wait: Ticks,
    /// The tokens owed, in units of 2^-61 tokens. No line counts in finer units.
    tokens: u128,
}

impl Debt {
    pub(crate) const NOTHING: Self = Self { wait: Ticks::ZERO, tokens: 0 };

    /// A debt that is larger than any key can owe.
    pub(crate) const EVERYTHING: Self = Self { wait: Ticks::NEVER, tokens: u128::MAX };

    /// Returns the debt that the next owner of a slot inherits.
    ///
    /// It is this debt, or [`EVERYTHING`](Self::EVERYTHING) if this debt is never repaid.
    pub(crate) fn inherited(self) -> Self {
        if self.wait == Ticks::NEVER { Self::EVERYTHING } else { self }
    }

    /// Returns the sum of two debts, as if they were repaid one after the other.
    pub(crate) const fn plus(self, Self { wait, tokens }: Self) -> Self {
        let wait = Ticks::of_count(self.wait.count().saturating_add(wait.count()));
        Self { wait, tokens: self.tokens.saturating_add(tokens) }
    }

    /// Creates a debt from a time alone, which is all that is known of a debt in windows or under plans.
    pub(crate) const fn of_time(wait: Ticks) -> Self {
        Self { wait, tokens: 0 }
    }
}

/// Converts a debt to units of a line, at most `MOST_OWED`.
fn debt(line: &TokenLine, Debt { wait, tokens }: Debt) -> u64 {
    let units = if wait == Ticks::ZERO {
        0
    } else if wait == Ticks::NEVER || line.timeline().refills_nothing() {
        u64::try_from(tokens.div_ceil(1 << bits_below_units(line))).unwrap_or(u64::MAX)
    } else {
        line.timeline().units_for(wait)
    };
    units.min(MOST_OWED)
}

/// Returns the number of bits `b` for which a unit of the line is `2^b` times 2^-61 tokens.
fn bits_below_units(line: &TokenLine) -> u32 {
    61 - line.timeline().fraction_bits()
}

/// Returns how many units a level is ahead of a position. It is negative if the level lies behind.
#[inline]
const fn ahead(level: u64, at: u64) -> i64 {
    signed(level.wrapping_sub(at), LEVEL_BITS)
}
