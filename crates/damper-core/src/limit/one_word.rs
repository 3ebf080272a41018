//! What the algorithms share whose whole state is one word: the live quota, the word, and the loop around a decision.

use super::drip::{Drip, Lead};
use crate::quota::{LiveQuota, Measure, Quota, Timeline};
use crate::sync::{AtomicU64, Backoff, Ordering, const_unless_loom};
use crate::time::Clock;

/// How often to back off after an exchange that another thread was first with: `benches/peers` has two threads on one
/// limiter at 58 ns a check with 1, at 24 with 4 and at 20 with 6, which makes a thread wait longer for little.
const SPINS: u32 = 4;

/// A word and the quota that says what it means.
#[derive(Debug)]
pub(super) struct OneWord<L = ()> {
    word: AtomicU64,
    /// Beside the word, so that a check finds both in one cache line.
    lead: L,
    quota: LiveQuota,
}

/// What everything of a decision was read as, at one moment, under one quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) line: Timeline,
    pub(super) word: u64,
    /// The position of the clock's reading, offset included.
    pub(super) at: u64,
    /// How far the line was ahead of its clock.
    pub(super) offset: u64,
}

/// What a decision does to the word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<T> {
    /// Puts this in the word's place; the answer counts if nobody else was first.
    Put(u64, T),
    /// Leaves the word alone.
    Keep(T),
    /// Leaves the word alone, unless it can only come from before a clock stepped back.
    Refuse(T),
}

impl OneWord {
    const_unless_loom! {
        /// A word of 0 under `quota`, on a line that `measure` says, with `missing` tokens missing at the start.
        pub(super) const fn new(quota: Quota, measure: Measure, missing: u32) -> Self {
            Self { word: AtomicU64::new(0), lead: (), quota: LiveQuota::new(quota, measure, missing) }
        }
    }

    const_unless_loom! {
        /// The same, before its first use, on a line that `measure` says.
        pub(super) const fn measured_in(self, measure: Measure) -> Self {
            Self { word: self.word, lead: (), quota: self.quota.measured_in(measure) }
        }
    }
}

impl OneWord<Drip> {
    const_unless_loom! {
        /// As [`new`](OneWord::new), in tokens, on a line that refunds move.
        pub(super) const fn refundable(quota: Quota, missing: u32) -> Self {
            Self {
                word: AtomicU64::new(0),
                lead: Drip::new(),
                quota: LiveQuota::new(quota, Measure::Tokens, missing),
            }
        }
    }

    /// Moves the line forward by up to `n` tokens, no further than to the word; returns how many, rounded up.
    pub(super) fn refund(&self, n: u32, clock: &impl Clock) -> u32 {
        let backoff = Backoff::new();
        loop {
            let (epoch, line) = self.quota.read(clock);
            // Before the word: if the swap succeeds the offset was the same throughout.
            let offset = self.lead.before_refund();
            if let Some((line, word, at)) = self.read(epoch, line, clock) {
                let units = line.refundable(word, at.wrapping_add(offset), n);
                if units == 0 || self.lead.advance(offset, units) {
                    return line.tokens(units);
                }
            }
            for _ in 0..SPINS {
                backoff.spin();
            }
        }
    }
}

impl<L: Lead> OneWord<L> {
    /// Makes room for the quota `largest`, before the first use.
    pub(super) const fn make_room_for(&mut self, largest: Quota) {
        self.quota.make_room_for(largest);
    }

    pub(super) const fn quota(&self) -> &LiveQuota {
        &self.quota
    }

    /// One look, if the quota has a line and did not change meanwhile: for the straight path of a check, which does not
    /// know the depths of debt.
    #[expect(
        clippy::inline_always,
        reason = "measured: out of line a check costs twice as much, and what nobody asks an \
        answer for is computed all the same"
    )]
    #[inline(always)]
    pub(super) fn glance(&self, clock: &impl Clock) -> Option<Moment> {
        let (epoch, line) = self.quota.read_straight()?;
        self.look(epoch, line, clock)
    }

    /// As [`glance`](Self::glance), knowing the depths of debt.
    #[expect(clippy::inline_always, reason = "as `glance`")]
    #[inline(always)]
    pub(super) fn glance_at_all(&self, clock: &impl Clock) -> Option<Moment> {
        let (epoch, line) = self.quota.read_published()?;
        self.look(epoch, line, clock)
    }

    #[inline]
    fn look(&self, epoch: usize, line: Timeline, clock: &impl Clock) -> Option<Moment> {
        let (line, word, at) = self.read(epoch, line, clock)?;
        // After the word and the clock, as `drip` says.
        let offset = self.lead.offset();
        Some(Moment { line, word, at: at.wrapping_add(offset), offset })
    }

    /// The line, the word and the position of the clock's reading, without the offset.
    #[inline]
    fn read(&self, epoch: usize, mut line: Timeline, clock: &impl Clock) -> Option<(Timeline, u64, u64)> {
        // The word first, then the clock: only a clock that stepped back can then find the word beyond the deepest
        // debt, never a thread that was stopped between the two. loom-tests: bucket::a_stale_reading_heals_nothing.
        // ORDERING: Relaxed, because the Acquire fence in `is_current` follows it, and pairs with the Release of
        // `replace`: who reads a word that was written in a later epoch sees that epoch there, and does not judge the
        // word by the older quota. loom-tests: live_quota::an_old_record_heals_nothing.
        let word = self.word.load(Ordering::Relaxed);
        let at = line.reading(clock.now());
        self.quota.is_current(epoch).then_some((line, word, at))
    }

    /// Decides by what is read at one moment, until a decision stands: nobody changed the quota or the word meanwhile.
    pub(super) fn decide<T>(&self, clock: &impl Clock, decide: impl Fn(&Moment) -> Step<T>) -> T {
        let backoff = Backoff::new();
        loop {
            let (epoch, line) = self.quota.read(clock);
            if let Some(moment) = self.look(epoch, line, clock) {
                match decide(&moment) {
                    Step::Put(new, answer) => {
                        if self.replace(moment.word, new) {
                            return answer;
                        }
                    }
                    Step::Keep(answer) => return answer,
                    Step::Refuse(answer) => match moment.line.heal(moment.word, moment.at, clock) {
                        None => return answer,
                        // Whether this exchange brings the word back or another thread changed it first: look again.
                        Some(healed) => _ = self.replace(moment.word, healed),
                    },
                }
            }
            for _ in 0..SPINS {
                backoff.spin();
            }
        }
    }

    /// Puts `new` in the place of `old`, if that is still there.
    #[inline]
    pub(super) fn replace(&self, old: u64, new: u64) -> bool {
        // ORDERING: Release pairs with the Acquire fence that follows the load in `look`. An exchange upon another's
        // continues its release sequence, so whoever reads this word sees the epochs of all before it. Relaxed on
        // failure: the value read is dropped. loom-tests: bucket::burst_is_never_exceeded,
        // live_quota::an_old_record_heals_nothing.
        self.word.compare_exchange_weak(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}
