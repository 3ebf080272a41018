//! What the algorithms share that count by windows: the decision on a word, whether a limiter keeps it or the keyed
//! table.

use super::algorithm::Taken;
use super::one_word::{Moment, OneWord, Step};
use super::per_key::{Owed, PerKey};
use super::standing::Standing;
use super::{Allowed, Denied, Usage};
use crate::quota::{LiveQuota, Quota, Timeline};
use crate::sync::Field;
use crate::time::{Clock, Ticks};

/// Where an algorithm has its fields, in a word or in a level.
pub(super) trait Layout: Copy {
    type View: View;

    /// The number of the window.
    fn number(self) -> Field;

    /// What was taken in it: the lowest bits.
    fn current(self) -> Field;

    /// What a word says at a reading.
    fn view(self, line: &Timeline, word: u64, at: u64, clock: &impl Clock) -> Self::View;

    fn put(self, view: &Self::View) -> u64;
}

/// A word at a reading.
pub(super) trait View: Sized {
    fn standing(&self) -> Standing;

    /// With `n` more, which the limit allows.
    #[must_use]
    fn and(self, n: u32) -> Self;

    /// How many more the limit allows, of a quota that has one.
    fn left(&self, line: &Timeline) -> u32;

    /// The wait until nothing counts.
    fn resets_in(&self, line: &Timeline) -> Ticks;

    /// The wait until `n` are allowed, which they are not now but are no more than the limit.
    fn wait(&self, line: &Timeline, n: u32) -> Ticks;

    #[inline]
    fn remaining(&self, line: &Timeline) -> u32 {
        if line.is_unlimited() { u32::MAX } else { self.left(line) }
    }

    /// With `n` more, which are not 0, of a quota with a limit.
    #[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
    #[inline(always)]
    fn take(self, line: &Timeline, n: u32) -> Result<(Self, Allowed), Denied> {
        let remaining = self.left(line);
        if n <= remaining {
            let after = self.and(n);
            let allowed = Allowed::counted(line, remaining - n, after.resets_in(line));
            return Ok((after, allowed));
        }
        let wait = if n > line.limit() { Ticks::ZERO } else { self.wait(line, n) };
        Err(Denied::counted(line, remaining, self.resets_in(line), wait))
    }

    /// What nobody has to pay for.
    #[inline]
    fn allowed(&self, line: &Timeline) -> Allowed {
        Allowed::counted(line, self.remaining(line), self.resets_in(line))
    }

    fn usage(&self, line: &Timeline, quota: Quota) -> Usage {
        Usage::of_windows(quota, self.remaining(line), self.resets_in(line).duration(line.frequency()))
    }
}

/// Takes `n` tokens of a limiter's word.
#[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
#[inline(always)]
pub(super) fn check(
    word: &OneWord,
    layout: impl Layout,
    n: u32,
    clock: &impl Clock,
) -> Result<(Allowed, Taken), Denied> {
    // The straight path, once; whatever is in its way is the loop's business.
    if let Some(moment) = word.glance_at_all(clock) {
        let (after, answer) = decide(layout, &moment, n, clock);
        if after == moment.word || word.replace(moment.word, after) {
            return answer;
        }
    }
    check_slow(word, layout, n, clock)
}

#[cold]
fn check_slow(word: &OneWord, layout: impl Layout, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
    word.decide(clock, |moment| match decide(layout, moment, n, clock) {
        (after, answer) if after == moment.word => Step::Keep(answer),
        (after, answer) => Step::Put(after, answer),
    })
}

/// The word after the decision, and the answer.
#[expect(clippy::inline_always, reason = "as `OneWord::glance`")]
#[inline(always)]
fn decide(
    layout: impl Layout,
    &Moment { ref line, word, at, .. }: &Moment,
    n: u32,
    clock: &impl Clock,
) -> (u64, Result<(Allowed, Taken), Denied>) {
    let view = layout.view(line, word, at, clock);
    if n == 0 || line.is_unlimited() {
        return (word, Ok((view.allowed(line), Taken::NOWHERE)));
    }
    let Standing { number, passed, .. } = view.standing();
    // A refusal writes nothing, unless the clock stepped back: then the window has to stay the same one from here on.
    let is_moved = passed == 0 && number != layout.number().get(word);
    let unmoved = if is_moved { layout.put(&view) } else { word };
    match view.take(line, n) {
        Ok((view, allowed)) => (layout.put(&view), Ok((allowed, Taken { at: number }))),
        Err(denied) => (unmoved, Err(denied)),
    }
}

/// Gives back what was taken in a window, if that is still the one that counts.
pub(super) fn roll_back(word: &OneWord, layout: impl Layout, n: u32, taken: Taken, clock: &impl Clock) {
    word.decide(clock, |&Moment { word, .. }| {
        if n == 0 || layout.number().get(word) != taken.at {
            return Step::Keep(());
        }
        Step::Put(less(layout, word, n), ())
    });
}

/// The refusal that a check of `n` tokens would get now, if any.
pub(super) fn refusal(word: &OneWord, layout: impl Layout, n: u32, clock: &impl Clock) -> Option<Denied> {
    word.decide(clock, |moment| Step::Keep(decide(layout, moment, n, clock).1.err()))
}

pub(super) fn usage(word: &OneWord, layout: impl Layout, clock: &impl Clock) -> Usage {
    let quota = word.quota().quota();
    word.decide(clock, |&Moment { ref line, word, at, .. }| {
        Step::Keep(layout.view(line, word, at, clock).usage(line, quota))
    })
}

/// A word in which less was taken by `n`, or by all that was.
fn less(layout: impl Layout, word: u64, n: u32) -> u64 {
    word - layout.current().get(word).min(n.into())
}

/// An algorithm by windows as the keyed table has it.
pub(super) trait Windowed {
    type Layout: Layout;

    /// Where a level has its fields.
    const LEVEL: Self::Layout;

    /// The count never fills its field, for a level is never all ones.
    const LARGEST_LIMIT: u32;

    /// For how many windows a count counts, that of its own included.
    const COUNTS_FOR: u64;

    /// How much counts, as parts of the time that it does.
    fn weight(view: &<Self::Layout as Layout>::View, line: &Timeline) -> u64;
}

impl<W: Windowed> PerKey for W {
    const LARGEST_LIMIT: u32 = W::LARGEST_LIMIT;

    const BY_WINDOWS: bool = true;

    #[inline]
    fn read_straight(quota: &LiveQuota) -> Option<(usize, Timeline)> {
        quota.read_published()
    }

    #[inline]
    fn word_straight(line: &Timeline, level: u64, at: u64, clock: &impl Clock) -> Option<u64> {
        Some(Self::word(line, level, at, clock))
    }

    #[inline]
    fn word(line: &Timeline, level: u64, at: u64, clock: &impl Clock) -> u64 {
        W::LEVEL.put(&W::LEVEL.view(line, level, at, clock))
    }

    fn shared(line: &Timeline, level: u64, at: u64, clock: &impl Clock) -> u64 {
        Self::word(line, level, at, clock)
    }

    #[inline]
    fn take(line: &Timeline, word: u64, at: u64, n: u32, clock: &impl Clock) -> Result<(u64, Allowed), Denied> {
        let view = W::LEVEL.view(line, word, at, clock);
        if n == 0 || line.is_unlimited() {
            return Ok((word, view.allowed(line)));
        }
        view.take(line, n).map(|(view, allowed)| (W::LEVEL.put(&view), allowed))
    }

    #[inline]
    fn receipt(after: u64, _: u64) -> u64 {
        W::LEVEL.number().get(after)
    }

    fn roll_back(_: &Timeline, word: u64, _: u64, n: u32, receipt: u64) -> u64 {
        if W::LEVEL.number().get(word) == receipt { less(W::LEVEL, word, n) } else { word }
    }

    fn charge(line: &Timeline, word: u64, _: u64, n: u32) -> (u32, u64) {
        if line.is_unlimited() {
            return (n, word);
        }
        // No more than a window may have: there is no debt.
        let booked = n.min(line.limit().saturating_sub(W::LEVEL.current().get(word) as u32));
        (booked, word + u64::from(booked))
    }

    fn refund(_: &Timeline, word: u64, _: u64, n: u32) -> (u32, u64) {
        let after = less(W::LEVEL, word, n);
        // At most `n`.
        ((word - after) as u32, after)
    }

    fn usage(line: &Timeline, quota: Quota, word: u64, at: u64, clock: &impl Clock) -> Usage {
        W::LEVEL.view(line, word, at, clock).usage(line, quota)
    }

    fn resets_in(line: &Timeline, word: u64, at: u64, clock: &impl Clock) -> Ticks {
        W::LEVEL.view(line, word, at, clock).resets_in(line)
    }

    fn weight(line: &Timeline, word: u64, at: u64, clock: &impl Clock) -> u64 {
        W::weight(&W::LEVEL.view(line, word, at, clock), line)
    }

    fn idle(line: &Timeline, at: u64) -> u64 {
        W::LEVEL.number().put(at >> line.fraction_bits())
    }

    fn owed(line: &Timeline, word: u64, at: u64, clock: &impl Clock) -> Owed {
        Owed::for_windows(Self::resets_in(line, word, at, clock))
    }

    fn owing(line: &Timeline, at: u64, Owed { wait, .. }: Owed) -> u64 {
        if wait == Ticks::ZERO {
            return Self::idle(line, at);
        }
        let (here, number) = (at >> line.fraction_bits(), W::LEVEL.number());
        // A full count in this window, or in the one to come that counts for so long.
        let until = u128::from(at & (line.window() - 1)) + u128::from(line.units_in(wait)) - 1;
        let last = (until >> line.fraction_bits()) as u64;
        let ahead = last.saturating_sub(W::COUNTS_FOR - 1).min(most_ahead(line, number));
        number.put(here.wrapping_add(ahead)) | W::LEVEL.current().put(line.limit().into())
    }

    fn reach(line: &Timeline, Owed { wait, .. }: Owed) -> u64 {
        // The window that is ahead, and the one it lies in.
        (line.units_in(wait) >> line.fraction_bits()).saturating_add(1).min(most_ahead(line, W::LEVEL.number()))
    }
}

/// How many windows a number may be ahead: a quarter of the circle of numbers, and of positions.
fn most_ahead(line: &Timeline, number: Field) -> u64 {
    1 << (number.bits().min(u64::BITS - line.fraction_bits()) - 2)
}

/// That part of a time which a count is of the limit, but not nothing of something.
pub(super) fn part_of(time: u64, count: u64, limit: u32) -> u64 {
    // At most the time, for a count is at most the limit, or was under another quota.
    let part = u128::from(time) * u128::from(count) / u128::from(limit.max(1));
    u64::try_from(part).unwrap_or(u64::MAX).max(count.min(1))
}
