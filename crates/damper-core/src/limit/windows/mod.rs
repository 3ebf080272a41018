//! Decisions on words that count tokens in windows, for a limiter and for the keyed table.

// | file | idea |
// |---|---|
// | `mod` | a word that counts tokens in windows, and the decision on it |
// | `line` | `WindowLine`: the arithmetic of windows; `CountedWindow`: the window in which a decision counts |

mod line;
#[cfg(test)]
mod tests;

pub(super) use line::{CountedWindow, WindowLine};

use super::algorithm::{JudgedTake, Look, TakePosition, Verdict};
use super::one_word::{Observed, OneWord, Step};
use super::per_key::{Debt, PerKey, UnderQuota};
use super::{Allowed, Denied, Usage};
use crate::quota::{Alignment, Line, LineStart, Quota};
use crate::sync::Field;
use crate::time::{Clock, Ticks};

/// The layout of an algorithm's fields in a limiter's word or in a *level*.
///
/// A level is the form in which the keyed table stores the word of a key.
pub(super) trait WindowFields: Copy {
    type Counts: WindowCounts;

    /// Returns the field that stores the number of the counted window.
    fn number(self) -> Field;

    /// Returns the field that counts the tokens taken in the counted window. It has the lowest bits.
    fn current(self) -> Field;

    /// Returns the counts that `word` stands for when the clock's position is `at`.
    fn counts(self, line: &WindowLine, word: u64, at: u64, clock: &impl Clock) -> Self::Counts;

    /// Returns the word that stores `counts`.
    fn put(self, counts: &Self::Counts) -> u64;
}

/// The counts that a word stands for at a reading of the clock.
pub(super) trait WindowCounts: Sized {
    /// Returns the window in which a decision at this reading counts.
    fn window(&self) -> CountedWindow;

    /// Raises each count to that of `other` for the same window.
    ///
    /// The window of `other` must be no later than the one of `self`.
    #[must_use]
    fn and_of(self, other: Self) -> Self;

    /// Adds `n` tokens. The caller has checked that the limit allows them.
    #[must_use]
    fn and(self, n: u32) -> Self;

    /// Returns how many more tokens the limit allows. The quota has to have a limit.
    fn left(&self, line: &WindowLine) -> u32;

    /// Returns the wait until none of the taken tokens counts any more.
    fn resets_in(&self, line: &WindowLine) -> Ticks;

    /// Returns the wait until `n` tokens are allowed.
    ///
    /// The caller has checked that `n` is within the limit, but that the counts leave fewer than `n` now.
    fn wait(&self, line: &WindowLine, n: u32) -> Ticks;

    #[inline]
    fn remaining(&self, line: &WindowLine) -> u32 {
        if line.is_unlimited() { u32::MAX } else { self.left(line) }
    }

    /// Adds `n` tokens if the limit allows them, and returns the new counts.
    ///
    /// `n` must not be 0, and the quota has to have a limit.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take(self, line: &WindowLine, n: u32) -> Result<(Self, Allowed), Denied> {
        let remaining = self.left(line);
        if n <= remaining {
            let after = self.and(n);
            let allowed = Allowed::counted_by(line.frequency(), remaining - n, after.resets_in(line));
            return Ok((after, allowed));
        }
        let wait = if n > line.limit() { Ticks::ZERO } else { self.wait(line, n) };
        Err(Denied::counted_by(line.frequency(), remaining, self.resets_in(line), wait))
    }

    /// Returns the permission of a call that takes nothing.
    #[inline]
    fn allowed(&self, line: &WindowLine) -> Allowed {
        Allowed::counted_by(line.frequency(), self.remaining(line), self.resets_in(line))
    }

    fn usage(&self, line: &WindowLine, quota: Quota) -> Usage {
        Usage::of_windows(quota, self.remaining(line), self.resets_in(line).duration(line.frequency()))
    }
}

/// Takes `n` tokens in a limiter's word, or returns the refusal.
#[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
#[inline(always)]
pub(super) fn check(
    word: &OneWord<WindowLine>,
    fields: impl WindowFields,
    n: u32,
    clock: &impl Clock,
) -> Result<(Allowed, TakePosition), Denied> {
    // The fast path decides and swaps once. If that fails, the slow path decides.
    if let Some(seen) = word.glance(clock) {
        let (after, answer) = decide(fields, &seen, n, clock);
        if after == seen.word || word.replace(seen.word, after) {
            return answer;
        }
    }
    check_slow(word, fields, n, clock)
}

#[cold]
fn check_slow(
    word: &OneWord<WindowLine>,
    fields: impl WindowFields,
    n: u32,
    clock: &impl Clock,
) -> Result<(Allowed, TakePosition), Denied> {
    word.decide(clock, |seen| match decide(fields, seen, n, clock) {
        (after, answer) if after == seen.word => Step::Keep(answer),
        (after, answer) => Step::Put(after, answer),
    })
}

/// Decides on `n` tokens by the word in `look` and the clock's reading `now`. Takes nothing.
#[inline]
pub(super) fn judge(
    word: &OneWord<WindowLine>,
    fields: impl WindowFields,
    look: Look,
    n: u32,
    now: u64,
    clock: &impl Clock,
) -> Verdict {
    let Some(seen) = word.observed_at(look, now) else { return Verdict::Undecided };
    match decide(fields, &seen, n, clock) {
        (after, Ok((allowed, position))) => Verdict::Allowed(JudgedTake { word: seen.word, after, position }, allowed),
        (after, Err(denied)) if after == seen.word => Verdict::Refused(denied),
        // A refusal changes the word only after the clock stepped back. `Undecided` makes the caller use the slow path,
        // which writes the changed word.
        _ => Verdict::Undecided,
    }
}

/// Returns the word after the decision, and the answer.
///
/// The word is unchanged if nothing is to be written.
#[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
#[inline(always)]
fn decide(
    fields: impl WindowFields,
    &Observed { ref line, word, at, .. }: &Observed<WindowLine>,
    n: u32,
    clock: &impl Clock,
) -> (u64, Result<(Allowed, TakePosition), Denied>) {
    let counts = fields.counts(line, word, at, clock);
    if n == 0 || line.is_unlimited() {
        return (word, Ok((counts.allowed(line), TakePosition::UNCOUNTED)));
    }
    let CountedWindow { number, passed, .. } = counts.window();
    // A refusal usually writes nothing. But if the clock stepped back, it writes the number of the window that counts,
    // so that later decisions count in the same window.
    let is_moved = passed == 0 && number != fields.number().get(word);
    let unmoved = if is_moved { fields.put(&counts) } else { word };
    match counts.take(line, n) {
        Ok((counts, allowed)) => (fields.put(&counts), Ok((allowed, TakePosition { at: number }))),
        Err(denied) => (unmoved, Err(denied)),
    }
}

/// Gives back `n` tokens, if the word still counts the window in which they were taken.
pub(super) fn roll_back(
    word: &OneWord<WindowLine>,
    fields: impl WindowFields,
    n: u32,
    taken: TakePosition,
    clock: &impl Clock,
) {
    word.decide(clock, |&Observed { word, .. }| {
        if n == 0 || fields.number().get(word) != taken.at {
            return Step::Keep(());
        }
        Step::Put(less(fields, word, n), ())
    });
}

/// Returns the refusal that a check of `n` tokens would get now, if any.
pub(super) fn refusal(
    word: &OneWord<WindowLine>,
    fields: impl WindowFields,
    n: u32,
    clock: &impl Clock,
) -> Option<Denied> {
    word.decide(clock, |seen| match decide(fields, seen, n, clock) {
        (_, Ok(_)) => Step::Keep(None),
        (after, Err(denied)) if after == seen.word => Step::Keep(Some(denied)),
        (after, Err(denied)) => Step::Put(after, Some(denied)),
    })
}

pub(super) fn usage(word: &OneWord<WindowLine>, fields: impl WindowFields, clock: &impl Clock) -> Usage {
    let quota = word.quota();
    word.observe(clock, |&Observed { ref line, word, at, .. }| fields.counts(line, word, at, clock).usage(line, quota))
}

/// Sets the counts to 0, as if no tokens were taken.
pub(super) fn reset(word: &OneWord<WindowLine>, fields: impl WindowFields, clock: &impl Clock) {
    word.decide(clock, |&Observed { ref line, word, at, .. }| {
        let idle = fields.number().put(fields.counts(line, word, at, clock).window().number);
        if idle == word { Step::Keep(()) } else { Step::Put(idle, ()) }
    });
}

/// Returns `word` with the count of its window lowered by `n`, to 0 at the least.
fn less(fields: impl WindowFields, word: u64, n: u32) -> u64 {
    word - fields.current().get(word).min(n.into())
}

/// A window algorithm, as the keyed table uses it.
pub(super) trait Windowed {
    type Fields: WindowFields;

    /// The layout of a level, the form in which the table stores the word of a key.
    const LEVEL: Self::Fields;

    /// The largest limit. It is below the maximum of the count's field, because no level may be all ones.
    const LARGEST_LIMIT: u32;

    /// The number of windows in which a taken token counts, including the window of the take.
    const COUNTS_FOR: u64;

    /// Returns the [weight](PerKey::weight) of the counts, in units of the line.
    ///
    /// It is the sum of `time * count / limit` over the counted windows, where `time` is how long the tokens still
    /// count.
    fn weight(counts: &<Self::Fields as WindowFields>::Counts, line: &WindowLine) -> u64;
}

impl<W: Windowed> PerKey for W {
    type Line = WindowLine;

    const BY_WINDOWS: bool = true;

    fn line_start(alignment: Alignment) -> LineStart {
        WindowLine::aligned_to(alignment)
    }

    #[inline]
    fn word(line: &WindowLine, level: u64, at: u64, clock: &impl Clock) -> u64 {
        W::LEVEL.put(&W::LEVEL.counts(line, level, at, clock))
    }

    fn is_exhausted(line: &WindowLine, word: u64, at: u64, clock: &impl Clock) -> bool {
        Self::take(line, word, at, 1, clock).is_err()
    }

    fn resets_in(line: &WindowLine, word: u64, at: u64, clock: &impl Clock) -> Ticks {
        W::LEVEL.counts(line, word, at, clock).resets_in(line)
    }

    fn weight(line: &WindowLine, word: u64, at: u64, clock: &impl Clock) -> u64 {
        W::weight(&W::LEVEL.counts(line, word, at, clock), line)
    }

    fn greater(line: &WindowLine, one: u64, other: u64, at: u64, clock: &impl Clock) -> u64 {
        let [one, other] = [one, other].map(|word| W::LEVEL.counts(line, word, at, clock));
        let is_later = one.window().ends_in >= other.window().ends_in;
        W::LEVEL.put(&if is_later { one.and_of(other) } else { other.and_of(one) })
    }

    fn idle(line: &WindowLine, at: u64) -> u64 {
        W::LEVEL.number().put(line.number(at))
    }

    fn owed(line: &WindowLine, word: u64, at: u64, clock: &impl Clock) -> Debt {
        Debt::of_time(Self::resets_in(line, word, at, clock))
    }

    fn owing(line: &WindowLine, at: u64, Debt { wait, .. }: Debt) -> u64 {
        if wait == Ticks::ZERO {
            return Self::idle(line, at);
        }
        let (here, number) = (line.number(at), W::LEVEL.number());
        // The debt becomes a full count in this window or a later one, so that the count lasts until the debt ends.
        let until = u128::from(at & (line.window() - 1)) + u128::from(line.timeline().units_in(wait)) - 1;
        let last = (until >> line.fraction_bits()) as u64;
        let ahead = last.saturating_sub(W::COUNTS_FOR - 1).min(most_ahead(line, number));
        number.put(here.wrapping_add(ahead)) | W::LEVEL.current().put(line.limit().into())
    }

    fn reach(line: &WindowLine, Debt { wait, .. }: Debt) -> u64 {
        // The division rounds down. The 1 adds the window that the reading lies in.
        (line.timeline().units_in(wait) >> line.fraction_bits())
            .saturating_add(1)
            .min(most_ahead(line, W::LEVEL.number()))
    }
}

impl<W: Windowed> UnderQuota for W {
    const LARGEST_LIMIT: u32 = W::LARGEST_LIMIT;

    #[inline]
    fn take_straight(
        line: &WindowLine,
        level: u64,
        at: u64,
        n: u32,
        clock: &impl Clock,
    ) -> Option<Result<(u64, Allowed), Denied>> {
        Some(Self::take(line, Self::word(line, level, at, clock), at, n, clock))
    }

    #[inline]
    fn take(line: &WindowLine, word: u64, at: u64, n: u32, clock: &impl Clock) -> Result<(u64, Allowed), Denied> {
        let counts = W::LEVEL.counts(line, word, at, clock);
        if n == 0 || line.is_unlimited() {
            return Ok((word, counts.allowed(line)));
        }
        counts.take(line, n).map(|(counts, allowed)| (W::LEVEL.put(&counts), allowed))
    }

    #[inline]
    fn receipt(after: u64, _: u64) -> u64 {
        W::LEVEL.number().get(after)
    }

    fn roll_back(_: &WindowLine, word: u64, _: u64, n: u32, receipt: u64) -> u64 {
        if W::LEVEL.number().get(word) == receipt { less(W::LEVEL, word, n) } else { word }
    }

    fn charge(line: &WindowLine, word: u64, _: u64, n: u32) -> (u32, u64) {
        if line.is_unlimited() {
            return (n, word);
        }
        // A window cannot go into debt, so the count rises to the limit at most.
        let booked = n.min(line.limit().saturating_sub(W::LEVEL.current().get(word) as u32));
        (booked, word + u64::from(booked))
    }

    fn refund(_: &WindowLine, word: u64, _: u64, n: u32) -> (u32, u64) {
        let after = less(W::LEVEL, word, n);
        // `less` subtracts at most `n`, so the difference fits.
        ((word - after) as u32, after)
    }

    fn usage(line: &WindowLine, quota: Quota, word: u64, at: u64, clock: &impl Clock) -> Usage {
        W::LEVEL.counts(line, word, at, clock).usage(line, quota)
    }
}

/// Returns how many windows a word's number may be ahead of the clock's.
///
/// It is a quarter of the range of numbers, whose bits `number_bits` returns.
fn most_ahead(line: &WindowLine, number: Field) -> u64 {
    1 << (line.number_bits(number) - 2)
}

/// Returns the fraction `count / limit` of `time`, but at least 1 if `count` is not 0.
pub(super) fn part_of(time: u64, count: u64, limit: u32) -> u64 {
    // The result exceeds `time` only if `count` exceeds `limit`. Such a count was made under an earlier quota.
    let part = u128::from(time) * u128::from(count) / u128::from(limit.max(1));
    u64::try_from(part).unwrap_or(u64::MAX).max(count.min(1))
}
