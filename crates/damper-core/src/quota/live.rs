//! A quota that can be changed while it is used.
//!
//! The quota and its *line*, which converts ticks of the clock to tokens ([`timeline`](super::timeline)), are a
//! [`Published`] record. The *epoch* counts the publications. A decision loads the epoch, the record, the limiter's
//! word and the clock, in this order. Then it checks that the epoch is still the same, and swaps the word.
//!
//! The clock must be read between the two loads of the epoch. Otherwise a decision could convert a tick from after a
//! change by the old line. If the new line is slower, the word written by that decision would lie far ahead of it.
//!
//! **A change leaves every word as it is.** It only *bends* the line, which continues from its present position at the
//! new rate. A slower line is published twice: bent at the tick at which the change begins, and bent again after that
//! publication, because checks use the old line until then. Between the two publications no word is healed.
//!
//! **Healing** replaces a word that lies further ahead of the clock than any debt explains: a clock that steps back
//! leaves such words. It compares with the deepest debt under any quota so far, because the word may have been written
//! under any of them. When it compared with the new quota alone, 17,000 tokens were minted in a test.
//!
//! **First use.** The frequency of a clock may be known only at run time, but a limiter can be a `static`. So the first
//! caller, in epoch 0, fixes the tick at which the line starts. It does so by one swap, and the rest of the line
//! follows from that tick. Threads that race to be first compute the same line, and the first to claim the right to
//! publish publishes it.
//!
//! **The limit and the burst** share a word, which a take does not load:
//!
//! ```text
//!  63   32 31   0
//! | LIMIT | BURST |
//! ```

use super::timeline::{Line, LineStart, Tempo, Timeline};
use super::{Alignment, Quota, SetQuotaError};
use crate::sync::published::HIGHEST_MARK;
use crate::sync::{AtomicU64, Claim, Field, Ordering, Published, Versioned64, const_unless_loom};
use crate::time::Clock;
use core::fmt;

/// The sizes of a quota.
const BURST: Field = Field::lowest(32);
const LIMIT: Field = BURST.then(32);
const _: () = assert!(LIMIT.end() == u64::BITS, "fields must tile the word");

/// The epoch before the first publication.
///
/// The initial quota is in force, and its line has no start yet.
const UNANCHORED: usize = 0;

/// Marks every epoch that was published, so that none is `UNANCHORED` again when the count wraps.
const ANCHORED: usize = 1;

/// Marks an epoch whose quota has no limit, which the fast path of a check leaves to the slow path.
///
/// Such an epoch is negative as a signed number, and `UNANCHORED` is 0. So one comparison with 0 separates both from
/// all other epochs.
const UNLIMITED: usize = HIGHEST_MARK;

/// A quota that can be changed, with its line on a clock.
///
/// All calls must use the same type of line and the same clock.
pub(crate) struct LiveQuota {
    start: LineStart,
    initial: Quota,
    /// The largest quota that the line must be able to change to.
    largest: Quota,
    /// One more than the tick at which the line starts, or 0 before the first use.
    first: AtomicU64,
    published: Published<LineRecord, QuotaRecord>,
}

/// The part of a published line that a check loads.
#[derive(Debug)]
struct LineRecord {
    origin: Versioned64,
    start: Versioned64,
    mult: Versioned64,
    inverse: Versioned64,
    shape: Versioned64,
    sizes: [Versioned64; 2],
    deepest_ever: Versioned64,
}

/// The parts of a quota and its line that taking tokens does not need.
#[derive(Debug)]
struct QuotaRecord {
    sizes: Versioned64,
    window: Versioned64,
    max_debt: Versioned64,
    deepest_debt: Versioned64,
    behind: Versioned64,
}

impl LineRecord {
    const_unless_loom! {
        const fn empty() -> Self {
            Self {
                origin: Versioned64::new(0),
                start: Versioned64::new(0),
                mult: Versioned64::new(0),
                inverse: Versioned64::new(0),
                shape: Versioned64::new(0),
                sizes: [Versioned64::new(0), Versioned64::new(0)],
                deepest_ever: Versioned64::new(0),
            }
        }
    }

    /// Loads the timeline without its deepest debts and without `behind`. The quota must have a limit.
    #[inline]
    fn timeline(&self) -> Timeline {
        // ORDERING: Relaxed, here and below. The loaded values are used only if the epoch is still the same afterwards:
        // `Published::is_current` has the fence that pairs with the one in `Published::publish`.
        let tempo = Tempo {
            mult: self.mult.load(Ordering::Relaxed),
            inverse: self.inverse.load(Ordering::Relaxed),
            brought: 0,
            shape: self.shape.load(Ordering::Relaxed),
        };
        let (origin, start) = (self.origin.load(Ordering::Relaxed), self.start.load(Ordering::Relaxed));
        Timeline { origin, start, tempo, deepest_debt: 0, deepest_ever: 0, unlimited: false, behind: 0 }
    }

    /// Loads the whole timeline except `behind`, also if the quota has no limit.
    #[inline]
    fn whole_timeline(&self, quota: &QuotaRecord) -> Timeline {
        let mut timeline = self.timeline();
        timeline.deepest_debt = quota.deepest_debt.load(Ordering::Relaxed);
        timeline.deepest_ever = self.deepest_ever.load(Ordering::Relaxed);
        timeline.unlimited = timeline.tempo.is_unlimited();
        timeline
    }

    /// Loads one of the line's [sizes](Line::sizes).
    #[inline]
    fn size(&self, index: usize) -> u64 {
        self.sizes[index].load(Ordering::Relaxed)
    }

    fn store(&self, line: &Timeline, sizes: [u64; 2]) {
        for (word, value) in [
            (&self.origin, line.origin),
            (&self.start, line.start),
            (&self.mult, line.tempo.mult),
            (&self.inverse, line.tempo.inverse),
            (&self.shape, line.tempo.shape),
            (&self.sizes[0], sizes[0]),
            (&self.sizes[1], sizes[1]),
            (&self.deepest_ever, line.deepest_ever),
        ] {
            word.store(value, Ordering::Relaxed);
        }
    }
}

impl QuotaRecord {
    const_unless_loom! {
        const fn empty() -> Self {
            Self {
                sizes: Versioned64::new(0),
                window: Versioned64::new(0),
                max_debt: Versioned64::new(0),
                deepest_debt: Versioned64::new(0),
                behind: Versioned64::new(0),
            }
        }
    }

    // ORDERING: Relaxed, as in `LineRecord`.
    fn load(&self) -> Quota {
        let sizes = self.sizes.load(Ordering::Relaxed);
        let (window, max_debt) = (self.window.load(Ordering::Relaxed), self.max_debt.load(Ordering::Relaxed));
        // A value above `u32::MAX` stands for `None`.
        let max_debt = u32::try_from(max_debt).ok();
        Quota::from_parts(LIMIT.get(sizes) as u32, window, BURST.get(sizes) as u32, max_debt)
    }

    fn store(&self, quota: &Quota, line: &Timeline) {
        let sizes = LIMIT.put(quota.limit().into()) | BURST.put(quota.burst_size().into());
        self.sizes.store(sizes, Ordering::Relaxed);
        self.window.store(quota.window_nanos(), Ordering::Relaxed);
        self.max_debt.store(quota.own_max_debt().map_or(u64::MAX, u64::from), Ordering::Relaxed);
        self.deepest_debt.store(line.deepest_debt, Ordering::Relaxed);
        self.behind.store(line.behind, Ordering::Relaxed);
    }
}

impl LiveQuota {
    const_unless_loom! {
        /// Creates a quota on a line that begins as `start` says.
        pub(crate) const fn new(quota: Quota, start: LineStart) -> Self {
            Self {
                start,
                initial: quota,
                largest: quota,
                first: AtomicU64::new(0),
                published: Published::new(
                    UNANCHORED,
                    [LineRecord::empty(), LineRecord::empty()],
                    [QuotaRecord::empty(), QuotaRecord::empty()],
                ),
            }
        }
    }

    /// Sets where in time the line begins, before the first use.
    pub(crate) const fn align_to(&mut self, alignment: Alignment) {
        self.start.alignment = alignment;
    }

    /// Makes the line able to change to `largest` later. Call it before the first use.
    pub(crate) const fn make_room_for(&mut self, largest: Quota) {
        self.largest = largest;
    }

    /// Returns how the line begins.
    #[cfg(feature = "alloc")]
    pub(crate) const fn line_start(&self) -> LineStart {
        self.start
    }

    /// Loads the epoch and its line.
    ///
    /// They are valid if [`is_current`](Self::is_current) confirms the epoch afterwards.
    pub(crate) fn read<L: Line>(&self, clock: &impl Clock) -> (usize, L) {
        let epoch = self.published.epoch();
        if epoch == UNANCHORED {
            return (epoch, self.anchor(clock));
        }
        let record = self.published.record(epoch);
        let timeline = record.whole_timeline(self.published.rest(epoch));
        (epoch, L::from_parts(timeline, |index| record.size(index)))
    }

    /// Returns the line as it would start now, if no caller has used the quota yet.
    ///
    /// It does not start the line: reading a limiter is not its first use. An answer from this line describes the moment
    /// at which `first` was loaded, before anything was taken.
    #[inline]
    pub(crate) fn unsettled_line<L: Line>(&self, clock: &impl Clock) -> Option<L> {
        // ORDERING: Relaxed, also in `unordered_epoch`. A thread that has used the quota, or has synchronized with one
        // that has, sees the swap of `first` in that use. For other threads the load may find `first` as it was before
        // that use. loom-tests: bucket::look_of_a_first_user_finds_its_own_use.
        let is_unsettled = self.published.unordered_epoch() == UNANCHORED && self.first.load(Ordering::Relaxed) == 0;
        if is_unsettled { Some(self.line_to_be(clock)) } else { None }
    }

    #[cold]
    fn line_to_be<L: Line>(&self, clock: &impl Clock) -> L {
        self.line_from(self.first_tick(clock), clock)
    }

    /// Loads the epoch. Returns `None` if its quota has no limit or its line has not started.
    ///
    /// The fast path then reads the [line](Self::line_for_fast_path) and the clock.
    #[inline]
    pub(crate) fn limited_epoch(&self) -> Option<usize> {
        let epoch = self.published.epoch();
        ((epoch as isize) > 0).then_some(epoch)
    }

    /// Loads the part of an epoch's line that the fast path needs.
    ///
    /// It is valid if [`is_current`](Self::is_current) confirms the epoch afterwards.
    #[inline]
    pub(crate) fn line_for_fast_path<L: Line>(&self, epoch: usize) -> L {
        let record = self.published.record(epoch);
        let timeline =
            if L::HEALS_ON_FAST_PATH { record.whole_timeline(self.published.rest(epoch)) } else { record.timeline() };
        L::from_parts(timeline, |index| record.size(index))
    }

    /// Returns whether `epoch` is still the current one. Call it after reading all inputs of a decision.
    #[inline]
    pub(crate) fn is_current(&self, epoch: usize) -> bool {
        self.published.is_current(epoch)
    }

    /// Returns the quota in force.
    pub(crate) fn quota(&self) -> Quota {
        loop {
            let epoch = self.published.epoch();
            let quota = if epoch == UNANCHORED { self.initial } else { self.published.rest(epoch).load() };
            if self.is_current(epoch) {
                return quota;
            }
        }
    }

    /// Puts `quota` in force.
    pub(crate) fn set<L: Line>(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        drop(self.prepare::<L>(quota, clock)?.publish::<L>(clock));
        Ok(())
    }

    /// Prepares to put `quota` in force.
    ///
    /// Until the change is published or dropped, other changers get [`SetQuotaError::Busy`].
    pub(crate) fn prepare<L: Line>(&self, quota: Quota, clock: &impl Clock) -> Result<QuotaChange<'_>, SetQuotaError> {
        self.prepare_under::<L>(self.claim()?, quota, clock)
    }

    /// Claims the right to change the quota. Other callers get an error until the claim is dropped.
    pub(crate) fn claim(&self) -> Result<Claim<'_>, SetQuotaError> {
        self.published.claim().ok_or(SetQuotaError::Busy)
    }

    /// Prepares to put `quota` in force, under a claim that the caller holds.
    pub(crate) fn prepare_under<'a, L: Line>(
        &'a self,
        claim: Claim<'a>,
        quota: Quota,
        clock: &impl Clock,
    ) -> Result<QuotaChange<'a>, SetQuotaError> {
        let mut epoch = self.published.unordered_epoch();
        if epoch == UNANCHORED {
            let line = self.initial_line::<L>(clock);
            epoch = self.publish::<L>(&claim, &self.initial, line.timeline());
        }
        let rest = self.published.rest(epoch);
        // ORDERING: Relaxed: only a thread that holds the claim stores `behind`.
        let behind = rest.behind.load(Ordering::Relaxed);
        let old = Timeline { behind, ..self.published.record(epoch).whole_timeline(rest) };
        let changed = old.changed::<L>(&quota, clock.frequency(), self.start.debt_bits)?;
        Ok(QuotaChange { live: self, claim, quota, old, changed })
    }

    /// Publishes a quota and its timeline, and returns their epoch.
    fn publish<L: Line>(&self, claim: &Claim<'_>, quota: &Quota, timeline: &Timeline) -> usize {
        let marks = ANCHORED | if timeline.is_unlimited() { UNLIMITED } else { 0 };
        self.published.publish(claim, marks, |line, rest| {
            line.store(timeline, L::sizes(timeline, quota));
            rest.store(quota, timeline);
        })
    }

    /// Returns the line of the initial quota. Publishes it unless another thread is about to.
    #[cold]
    fn anchor<L: Line>(&self, clock: &impl Clock) -> L {
        let line: L = self.initial_line(clock);
        if let Some(claim) = self.published.claim()
            && self.published.unordered_epoch() == UNANCHORED
        {
            self.publish::<L>(&claim, &self.initial, line.timeline());
        }
        line
    }

    fn initial_line<L: Line>(&self, clock: &impl Clock) -> L {
        let first = self.first_tick(clock);
        // ORDERING: Relaxed: this swap alone decides where the line starts, and publishes nothing else.
        let first = match self.first.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => first,
            Err(settled) => settled,
        };
        self.line_from(first, clock)
    }

    /// Returns one more than the tick at which the line starts if it is first used now.
    fn first_tick(&self, clock: &impl Clock) -> u64 {
        // If the clock is just about to wrap, the line starts a tick earlier.
        self.start.alignment.boundary(&self.initial, clock, clock.now()).saturating_add(1)
    }

    /// Returns the line of the initial quota that starts at the tick before `first`.
    fn line_from<L: Line>(&self, first: u64, clock: &impl Clock) -> L {
        let origin = first.wrapping_sub(1);
        let timeline = Timeline::new::<L>(&self.initial, &self.largest, clock.frequency(), origin, self.start);
        L::new(timeline, &self.initial)
    }
}

/// A change to a quota that fits the line and is not published yet. Dropping it changes nothing.
#[must_use]
pub(crate) struct QuotaChange<'a> {
    live: &'a LiveQuota,
    claim: Claim<'a>,
    quota: Quota,
    old: Timeline,
    changed: Timeline,
}

impl<'a> QuotaChange<'a> {
    /// Puts the quota in force, and returns the claim, which still keeps others from changing it.
    pub(crate) fn publish<L: Line>(self, clock: &impl Clock) -> Claim<'a> {
        let Self { live, claim, quota, old, changed } = self;
        let new = changed.starting(clock.now(), &old);
        if !new.is_slower_than(&old) {
            live.publish::<L>(&claim, &quota, &new);
            return claim;
        }
        // Until `new` is published, checks still use the positions of the old, faster line. So their words may lie
        // further ahead of `new` than a debt may. Therefore the line is bent again after the publication, from the
        // position that the old line has reached by then. Between the two publications no word is healed, because a
        // word ahead of `new` may have been written on the old line.
        live.publish::<L>(&claim, &quota, &new.without_healing());
        live.publish::<L>(&claim, &quota, &changed.starting(clock.now(), &old));
        claim
    }

    /// Puts nothing in force, and returns the claim.
    pub(crate) fn withdraw(self) -> Claim<'a> {
        self.claim
    }
}

/// Shows the quota in force, not its line.
impl fmt::Debug for LiveQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.quota(), f)
    }
}
