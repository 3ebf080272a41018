//! The algorithms in the keyed table.
//!
//! The table stores the bucket of a key as a *level* of 56 bits. [`PerKey`] has the operations that the table needs.
//! [`UnderQuota`] decides under the quota of a *tier*, which is one of the table's quotas with its [line](Line).

use super::token_bucket::TokenLine;
use super::{Allowed, Denied, TokenBucket, Usage};
use crate::quota::{Alignment, Line, LineStart, Quota};
use crate::sync::signed;
use crate::time::{Clock, Ticks};

/// The number of bits of a level, the form in which the table stores a bucket.
pub(crate) const LEVEL_BITS: u32 = 56;

/// The most units that a bucket may owe: a quarter of those after which levels wrap.
///
/// A level further ahead of the clock's position could be mistaken for one that lies behind it.
const MOST_OWED: u64 = 1 << (LEVEL_BITS - 2);

/// An algorithm that a [`KeyedLimiter`](crate::KeyedLimiter) can apply to every key.
///
/// The keyed algorithms are [`TokenBucket`], [`FixedWindow`](crate::FixedWindow) and [`SlidingCounter`](crate::SlidingCounter).
pub trait KeyedAlgorithm: UnderQuota {}

impl<A: UnderQuota> KeyedAlgorithm for A {}

/// An algorithm of the buckets that the keyed table keeps.
///
/// A *level* is the form in which the table stores a bucket. A *word* is a level, decoded at a reading of the clock.
/// `at` is always the position of that reading on the line.
pub trait PerKey {
    /// The type of the lines on which the table's quotas are counted.
    type Line: Line;

    /// Whether the algorithm counts by windows.
    const BY_WINDOWS: bool;

    /// Whether quotas come with the calls, as plans. By default the table has them.
    const BY_PLAN: bool = false;

    /// Returns the start of a tier's line.
    fn line_start(alignment: Alignment) -> LineStart;

    /// Returns the word of a level. A level too far ahead to be a debt counts as an idle bucket.
    fn word(line: &Self::Line, level: u64, at: u64, clock: &impl Clock) -> u64;

    /// Returns whether a check of one token would be refused now. It is `false` if only calls know the quota.
    fn is_exhausted(line: &Self::Line, word: u64, at: u64, clock: &impl Clock) -> bool;

    /// Returns the wait until the bucket owes nothing.
    fn resets_in(line: &Self::Line, word: u64, at: u64, clock: &impl Clock) -> Ticks;

    /// Returns how much the bucket owes, as a measure of the time until it is repaid; 0 if it owes nothing.
    ///
    /// Only weights of one tier can be compared.
    fn weight(line: &Self::Line, word: u64, at: u64, clock: &impl Clock) -> u64;

    /// Returns whether a level owes anything: whether the [`weight`](Self::weight) of its word is above 0.
    fn owes(line: &Self::Line, level: u64, at: u64, clock: &impl Clock) -> bool {
        Self::weight(line, Self::word(line, level, at, clock), at, clock) > 0
    }

    /// Returns the word of a bucket that owes no less than either of `one` and `other`.
    fn greater(line: &Self::Line, one: u64, other: u64, at: u64, clock: &impl Clock) -> u64;

    /// Returns the word of a bucket that owes nothing.
    fn idle(line: &Self::Line, at: u64) -> u64;

    /// Returns the debt of a word in a form that another quota can take over.
    fn owed(line: &Self::Line, word: u64, at: u64, clock: &impl Clock) -> Debt;

    /// Returns the word of a bucket that owes at least `owed`, up to a quarter of the range of levels.
    fn owing(line: &Self::Line, at: u64, owed: Debt) -> u64;

    /// Returns the most tokens (or windows) that the bucket which [`owing`](Self::owing) returns may owe.
    fn reach(line: &Self::Line, owed: Debt) -> u64;
}

/// An algorithm that decides about a key's bucket under the quota of its tier.
pub trait UnderQuota: PerKey {
    /// The largest limit that fits a level.
    const LARGEST_LIMIT: u32;

    /// Takes from a level on the fast path.
    ///
    /// Returns `None` if the decision needs parts of the line that the fast path lacks.
    fn take_straight(
        line: &Self::Line,
        level: u64,
        at: u64,
        n: u32,
        clock: &impl Clock,
    ) -> Option<Result<(u64, Allowed), Denied>>;

    /// Returns the word after taking `n` tokens, or `word` itself if nothing has to be written.
    fn take(line: &Self::Line, word: u64, at: u64, n: u32, clock: &impl Clock) -> Result<(u64, Allowed), Denied>;

    /// Returns the position of a take, which `roll_back` needs.
    fn receipt(after: u64, at: u64) -> u64;

    /// Returns the word after giving back tokens, except those that the line has refilled since the take.
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
            // A bucket below empty may be one whose clock stepped back, which the slow path heals.
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
        // Unlike `TokenLine::roll_back`, this also gives tokens back below empty. The waiters of a key tolerate a word
        // that moves back, see `keyed::table::waiting`.
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

/// The debt of a bucket, in a form that another quota can take over.
///
/// It is a time, or a number of tokens if one of the two quotas refills nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Debt {
    /// The time until the bucket is full.
    pub(crate) wait: Ticks,
    /// The tokens owed, in 2^-61 tokens, the finest unit of a line.
    tokens: u128,
}

impl Debt {
    pub(crate) const NOTHING: Self = Self { wait: Ticks::ZERO, tokens: 0 };

    /// A debt of more than any key can owe.
    pub(crate) const EVERYTHING: Self = Self { wait: Ticks::NEVER, tokens: u128::MAX };

    /// Returns the debt that the next owner of a slot inherits: the greatest, if this debt is never repaid.
    pub(crate) fn inherited(self) -> Self {
        if self.wait == Ticks::NEVER { Self::EVERYTHING } else { self }
    }

    /// Returns the sum of two debts, repaid one after the other.
    pub(crate) const fn plus(self, Self { wait, tokens }: Self) -> Self {
        let wait = Ticks::of_count(self.wait.count().saturating_add(wait.count()));
        Self { wait, tokens: self.tokens.saturating_add(tokens) }
    }

    /// Creates a debt that ends after a time, as debts in windows and under plans do.
    pub(crate) const fn of_time(wait: Ticks) -> Self {
        Self { wait, tokens: 0 }
    }
}

/// Converts a debt to units of a line.
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

/// Returns how many bits lie between a unit of the line and 2^-61 tokens.
fn bits_below_units(line: &TokenLine) -> u32 {
    61 - line.timeline().fraction_bits()
}

/// Returns how far a level is ahead of a position.
#[inline]
const fn ahead(level: u64, at: u64) -> i64 {
    signed(level.wrapping_sub(at), LEVEL_BITS)
}
