//! A quota that can be changed while it is used.
//!
//! The *line* of a quota converts ticks of the clock to tokens; [`timeline`](super::timeline) explains it. The quota
//! and its line are a [`Published`] record. The *epoch* counts the publications. The limiter's state is an atomic
//! *word*. A decision loads the epoch, the record and the word, and then reads the clock. It checks that the epoch is
//! unchanged, and swaps the word.
//!
//! The clock must be read between the two loads of the epoch. Otherwise a decision could read the clock after a change
//! and convert that tick by the old line. If the new line is slower, the decision would write a word that lies far
//! ahead of the new line.
//!
//! **A change leaves every word as it is.** It only *bends* the line: the line continues from its present position at
//! the new rate. A slower line is published twice. It is first bent at the tick at which the change begins. Checks use
//! the old line until this publication is complete. Therefore the line is bent again afterwards.
//!
//! **Healing** replaces a word that lies further ahead of the clock than any debt explains. A clock that steps back
//! leaves such words. The comparison takes the deepest debt under any quota so far, because the word may have been
//! written under any of these quotas. When only the new quota's debt counted, a test saw 17,000 tokens minted. Between
//! the two publications of a slower line no word is healed.
//!
//! **First use.** A limiter can be a `static`, but the frequency of its clock may be known only at run time. So the
//! first caller fixes the tick at which the line starts, by one swap, in epoch 0. The rest of the line follows from
//! that tick, so threads that race to be first compute the same line. One of these threads publishes the line.
//!
//! **The limit and the burst** share a word of the record. Taking tokens does not load this word:
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
/// In this epoch the initial quota is in force, and its [`Line`] is not published yet.
const UNANCHORED: usize = 0;

/// Marks every epoch that was published, so that none is `UNANCHORED` again when the count wraps.
const ANCHORED: usize = 1;

/// Marks an epoch whose quota has no limit.
///
/// The fast path of a check leaves such an epoch to the slow path. The mark makes an epoch negative as a signed number,
/// and `UNANCHORED` is 0. So the fast path accepts exactly the epochs above 0.
const UNLIMITED: usize = HIGHEST_MARK;

/// A quota that can be changed while threads use it, with its [`Line`] on a clock.
///
/// All calls on one `LiveQuota` must use the same type of line and the same clock.
pub(crate) struct LiveQuota {
    start: LineStart,
    initial: Quota,
    /// The largest quota that a later change must be able to put in force.
    largest: Quota,
    /// One more than the tick at which the [`Line`] starts, or 0 before the first use.
    first: AtomicU64,
    published: Published<LineRecord, QuotaRecord>,
}

/// The part of a published [`Line`] that a check loads.
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

/// The parts of a quota and its [`Line`] that the fast path of a token bucket does not load.
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

    /// Loads the timeline, but leaves its deepest debts and `behind` at 0. The quota must have a limit.
    #[inline]
    fn timeline(&self) -> Timeline {
        // ORDERING: Relaxed, here and in the other loads and stores of this file's records. The loaded values are used
        // only if the epoch is still the same afterwards. The Acquire fence in `Published::is_current` pairs with the
        // Release fence in `Published::publish`: a thread that loaded a value of a later record sees a later epoch.
        let tempo = Tempo {
            mult: self.mult.load(Ordering::Relaxed),
            inverse: self.inverse.load(Ordering::Relaxed),
            brought: 0,
            shape: self.shape.load(Ordering::Relaxed),
        };
        let (origin, start) = (self.origin.load(Ordering::Relaxed), self.start.load(Ordering::Relaxed));
        Timeline { origin, start, tempo, deepest_debt: 0, deepest_ever: 0, unlimited: false, behind: 0 }
    }

    /// Loads the whole timeline except `behind`, which stays 0. The quota may be unlimited.
    #[inline]
    fn whole_timeline(&self, quota: &QuotaRecord) -> Timeline {
        let mut timeline = self.timeline();
        timeline.deepest_debt = quota.deepest_debt.load(Ordering::Relaxed);
        timeline.deepest_ever = self.deepest_ever.load(Ordering::Relaxed);
        timeline.unlimited = timeline.tempo.is_unlimited();
        timeline
    }

    /// Loads one of the line's [sizes](Line::sizes), such as the burst in units.
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

    // ORDERING: Relaxed: the caller uses the quota only if `Published::is_current` confirms the epoch afterwards. The
    // Acquire fence there pairs with the Release fence in `Published::publish`.
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
        /// Creates a quota whose [`Line`] will start at the first use, as `start` says.
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

    /// Sets the instant at which the [`Line`] starts. Call it before the first use.
    pub(crate) const fn align_to(&mut self, alignment: Alignment) {
        self.start.alignment = alignment;
    }

    /// Allows later changes of the quota, up to `largest`. Call it before the first use.
    pub(crate) const fn make_room_for(&mut self, largest: Quota) {
        self.largest = largest;
    }

    /// Returns the settings with which the [`Line`] starts at the first use.
    #[cfg(feature = "alloc")]
    pub(crate) const fn line_start(&self) -> LineStart {
        self.start
    }

    /// Loads the epoch and its [`Line`]. The first call starts the line.
    ///
    /// The line may be used only if [`is_current`](Self::is_current) confirms the epoch afterwards.
    pub(crate) fn read<L: Line>(&self, clock: &impl Clock) -> (usize, L) {
        let epoch = self.published.epoch();
        if epoch == UNANCHORED {
            return (epoch, self.anchor(clock));
        }
        let record = self.published.record(epoch);
        let timeline = record.whole_timeline(self.published.rest(epoch));
        (epoch, L::from_parts(timeline, |index| record.size(index)))
    }

    /// Returns the [`Line`] as it would start now, or `None` if a caller has used the quota already.
    ///
    /// This call does not start the line: reading a limiter is not its first use. An answer that is computed from this
    /// line describes the moment at which the call loaded `first`. At that moment nothing had been taken.
    #[inline]
    pub(crate) fn unsettled_line<L: Line>(&self, clock: &impl Clock) -> Option<L> {
        // ORDERING: Relaxed, also in `unordered_epoch`, because no record is read. A thread that has used the quota, or
        // has synchronized with one that has, sees the epoch or `first` changed by that use. Another thread may still
        // load both as 0. Its answer then describes the moment before that use. loom-tests:
        // bucket::look_of_a_first_user_finds_its_own_use.
        let is_unsettled = self.published.unordered_epoch() == UNANCHORED && self.first.load(Ordering::Relaxed) == 0;
        if is_unsettled { Some(self.line_to_be(clock)) } else { None }
    }

    #[cold]
    fn line_to_be<L: Line>(&self, clock: &impl Clock) -> L {
        self.line_from(self.first_tick(clock), clock)
    }

    /// Loads the epoch for the fast path. Returns `None` if only the slow path can decide.
    ///
    /// That is so if the quota has no limit, or if its line is not published yet. Otherwise the caller continues with
    /// [`line_for_fast_path`](Self::line_for_fast_path).
    #[inline]
    pub(crate) fn limited_epoch(&self) -> Option<usize> {
        let epoch = self.published.epoch();
        ((epoch as isize) > 0).then_some(epoch)
    }

    /// Loads the part of an epoch's [`Line`] that the fast path needs.
    ///
    /// The line may be used only if [`is_current`](Self::is_current) confirms the epoch afterwards.
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
    /// Until the change is published or dropped, other threads that change the quota get [`SetQuotaError::Busy`].
    pub(crate) fn prepare<L: Line>(&self, quota: Quota, clock: &impl Clock) -> Result<QuotaChange<'_>, SetQuotaError> {
        self.prepare_under::<L>(self.claim()?, quota, clock)
    }

    /// Claims the right to change the quota.
    ///
    /// Until the claim is dropped, other callers get [`SetQuotaError::Busy`].
    pub(crate) fn claim(&self) -> Result<Claim<'_>, SetQuotaError> {
        self.published.claim().ok_or(SetQuotaError::Busy)
    }

    /// Prepares to put `quota` in force. The caller has [claimed](Self::claim) the right to change the quota.
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
        // ORDERING: Relaxed: only a holder of the claim stores `behind`. Taking the claim is an Acquire that pairs with
        // the Release of the previous holder, so this thread sees that holder's store.
        let behind = rest.behind.load(Ordering::Relaxed);
        let old = Timeline { behind, ..self.published.record(epoch).whole_timeline(rest) };
        let changed = old.changed::<L>(&quota, clock.frequency(), self.start.debt_bits)?;
        Ok(QuotaChange { live: self, claim, quota, old, changed })
    }

    /// Publishes a quota and its timeline, and returns the new epoch.
    fn publish<L: Line>(&self, claim: &Claim<'_>, quota: &Quota, timeline: &Timeline) -> usize {
        let marks = ANCHORED | if timeline.is_unlimited() { UNLIMITED } else { 0 };
        self.published.publish(claim, marks, |line, rest| {
            line.store(timeline, L::sizes(timeline, quota));
            rest.store(quota, timeline);
        })
    }

    /// Starts the [`Line`] of the initial quota and returns it. Publishes the line unless another thread does.
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
        // ORDERING: Relaxed: all threads agree on the start by this one word, and no other memory is published with it.
        let first = match self.first.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => first,
            Err(settled) => settled,
        };
        self.line_from(first, clock)
    }

    /// Returns one more than the tick at which the [`Line`] starts if the first use is now.
    fn first_tick(&self, clock: &impl Clock) -> u64 {
        // A sum of 0 would mean that the line has not started. So a line that would start at tick `u64::MAX` starts a
        // tick earlier.
        self.start.alignment.boundary(&self.initial, clock, clock.now()).saturating_add(1)
    }

    /// Returns the [`Line`] of the initial quota that starts at the tick `first - 1`.
    fn line_from<L: Line>(&self, first: u64, clock: &impl Clock) -> L {
        let origin = first.wrapping_sub(1);
        let timeline = Timeline::new::<L>(&self.initial, &self.largest, clock.frequency(), origin, self.start);
        L::new(timeline, &self.initial)
    }
}

/// A change of quota that was accepted but is not published yet.
///
/// If it is dropped, the old quota stays in force.
#[must_use]
pub(crate) struct QuotaChange<'a> {
    live: &'a LiveQuota,
    claim: Claim<'a>,
    quota: Quota,
    old: Timeline,
    changed: Timeline,
}

impl<'a> QuotaChange<'a> {
    /// Puts the quota in force, and returns the claim.
    ///
    /// Until the claim is dropped, no other thread can change the quota.
    pub(crate) fn publish<L: Line>(self, clock: &impl Clock) -> Claim<'a> {
        let Self { live, claim, quota, old, changed } = self;
        let new = changed.starting(clock.now(), &old);
        if !new.is_slower_than(&old) {
            live.publish::<L>(&claim, &quota, &new);
            return claim;
        }
        // Until `new` is published, other threads still decide by the old, faster line. The words that they write may
        // lie further ahead of `new` than any debt may. Therefore the line is published a second time. It then
        // continues from the position that the old line has reached after the first publication.
        //
        // Healing replaces a word that lies too far ahead. It is off between the two publications, because such a word
        // may be a correct one that was written by the old line.
        live.publish::<L>(&claim, &quota, &new.without_healing());
        live.publish::<L>(&claim, &quota, &changed.starting(clock.now(), &old));
        claim
    }

    /// Drops the change, and returns the claim. The old quota stays in force.
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
