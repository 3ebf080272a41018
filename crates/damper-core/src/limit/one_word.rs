//! The atomic word that stores an algorithm's state, and the loop that decides on it and swaps it.
//!
//! - The quota is *live*: it can change while it is used. Each change starts a new *epoch* (`quota::live`).
//! - The quota's *line* gives each tick of the clock a *position*: the number of tokens or windows that have come
//!   until then (`quota::timeline`).
//! - The *offset* ([`Drip`]) is how far refunds have moved the line forward.
//!
//! A decision reads the epoch, the line, the word, the clock and the offset, in this order. Between the clock and the
//! offset it checks that the epoch is still the same. At the end it swaps the word.

use super::algorithm::{JudgedTake, Look, PreparedQuota};
use crate::quota::{Alignment, Line, LineStart, LiveQuota, Quota, QuotaChange, SetQuotaError};
use crate::sync::{AtomicU64, Claim, Ordering, SpinWait, const_unless_loom};
use crate::time::Clock;
use core::marker::PhantomData;

/// How often a thread spins after it lost the swap to another thread.
///
/// In `benches/peers`, two threads on one limiter take 58 ns a check with 1 spin, 24 ns with 4 and 20 ns with 6. More
/// than 4 spins gain little and make a thread wait longer.
const SPINS: u32 = 4;

/// The atomic word of an algorithm, together with its quota, which can change while it is used.
///
/// For a bucket, the word is the position on the quota's line at which the bucket is full. For an algorithm with
/// windows, it counts the tokens in a window.
///
/// `D` is [`Drip`] if refunds move the line, else `()`.
#[derive(Debug)]
pub(super) struct OneWord<L, D = ()> {
    word: AtomicU64,
    /// The source of the offset. It lies beside the word, so that a check finds both in one cache line.
    drip: D,
    quota: LiveQuota,
    line: PhantomData<fn() -> L>,
}

/// The inputs of a decision, valid together at one instant and under one quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<L> {
    pub(super) line: L,
    pub(super) word: u64,
    /// The position on the line at the clock's reading, with `offset` added.
    pub(super) at: u64,
    /// How far refunds have moved the line forward, in units (fixed-point fractions of a token).
    pub(super) offset: u64,
}

/// The change that a decision makes to the word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<T> {
    /// Replaces the word by the given one and returns the answer.
    ///
    /// If another thread changed the word first, the decision is made again instead.
    Put(u64, T),
    /// Leaves the word as it is and returns the answer.
    Keep(T),
    /// Replaces a word that was written before the clock stepped back, and decides again.
    Heal(u64),
}

impl<L> OneWord<L> {
    const_unless_loom! {
        /// Creates a word of 0 under `quota`. The line of the quota begins as `start` says.
        pub(super) const fn new(quota: Quota, start: LineStart) -> Self {
            Self { word: AtomicU64::new(0), drip: (), quota: LiveQuota::new(quota, start), line: PhantomData }
        }
    }

    /// Sets when the line begins. Call it before the first use.
    pub(super) const fn align_to(&mut self, alignment: Alignment) {
        self.quota.align_to(alignment);
    }
}

impl<L> OneWord<L, Drip> {
    const_unless_loom! {
        /// Creates a word as [`new`](OneWord::new) does, but on a line that refunds can move.
        pub(super) const fn refundable(quota: Quota, start: LineStart) -> Self {
            Self { word: AtomicU64::new(0), drip: Drip::new(), quota: LiveQuota::new(quota, start), line: PhantomData }
        }
    }

    /// Prepares the line for a later change to the quota `largest`. Call it before the first use.
    pub(super) const fn make_room_for(&mut self, largest: Quota) {
        self.quota.make_room_for(largest);
    }
}

impl<L: Line> OneWord<L, Drip> {
    /// Moves the line forward by as many units as `missing` returns, and returns the line and that number.
    ///
    /// `missing` gets the line, the word and the present position.
    pub(super) fn refund(&self, clock: &impl Clock, missing: impl Fn(&L, u64, u64) -> u64) -> (L, u64) {
        let spin_wait = SpinWait::new();
        loop {
            let (epoch, line) = self.quota.read(clock);
            // The offset is loaded before the word. If the swap of the offset then succeeds, no other refund has given
            // back the same missing tokens in between.
            let offset = self.drip.before_refund();
            if let Some((line, word, at)) = self.read(epoch, line, clock) {
                let units = missing(&line, word, at.wrapping_add(offset));
                if units == 0 || self.drip.advance(offset, units) {
                    return (line, units);
                }
            }
            for _ in 0..SPINS {
                spin_wait.spin();
            }
        }
    }
}

impl<L: Line, D: Offset> OneWord<L, D> {
    /// Returns the quota in force.
    pub(super) fn quota(&self) -> Quota {
        self.quota.quota()
    }

    /// Puts another quota in force.
    pub(super) fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        self.quota.set::<L>(quota, clock)
    }

    /// Prepares to put a quota in force, as [`Algorithm::prepare_quota`](super::Algorithm::prepare_quota) does.
    pub(super) fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError> {
        self.quota.prepare::<L>(quota, clock).map(PreparedQuota)
    }

    /// Claims the right to change the quota. Other callers get an error until the claim is dropped.
    pub(super) fn claim(&self) -> Result<Claim<'_>, SetQuotaError> {
        self.quota.claim()
    }

    /// Prepares to put a quota in force, under a claim that the caller holds.
    pub(super) fn prepare_under<'a>(
        &'a self,
        claim: Claim<'a>,
        quota: Quota,
        clock: &impl Clock,
    ) -> Result<QuotaChange<'a>, SetQuotaError> {
        self.quota.prepare_under::<L>(claim, quota, clock)
    }

    /// Reads the inputs of a decision once, for the fast path.
    ///
    /// Returns `None` if the line has not started, if the quota has no limit, or if the quota changed during the read.
    #[expect(
        clippy::inline_always,
        reason = "measured: out of line a check costs twice as much, because it computes the \
        unused part of the answer too"
    )]
    #[inline(always)]
    pub(super) fn glance(&self, clock: &impl Clock) -> Option<Observed<L>> {
        let epoch = self.quota.limited_epoch()?;
        self.look(epoch, self.quota.line_for_fast_path(epoch), clock)
    }

    /// Loads the epoch and the word. The caller then reads the clock, once for several words.
    ///
    /// Returns `None` if the line has not started or the quota has no limit.
    #[inline]
    pub(super) fn load(&self) -> Option<Look> {
        let epoch = self.quota.limited_epoch()?;
        // ORDERING: Relaxed, as in `read`, because `observed_at` calls `is_current` later. Its Acquire fence pairs
        // with the Release of `replace`, so a word of a later epoch is not judged by this one. loom-tests:
        // limit_set::look_leaves_no_word_ahead_of_a_slower_line.
        Some(Look { epoch, word: self.word.load(Ordering::Relaxed) })
    }

    /// Returns the inputs of a decision: those in `look`, and the rest at the clock's reading `now`.
    ///
    /// The caller must have read the clock after the look. Returns `None` if the quota has changed since the look.
    ///
    /// Unlike in a decision on a single limit, the line is read after the clock. That is right, because the line is
    /// used only if the epoch is still the same.
    #[inline]
    pub(super) fn observed_at(&self, look: Look, now: u64) -> Option<Observed<L>> {
        let mut line: L = self.quota.line_for_fast_path(look.epoch);
        let at = line.reading(now);
        if !self.quota.is_current(look.epoch) {
            return None;
        }
        // The offset is read after the word and the clock. `Drip` says why.
        let offset = self.drip.offset();
        Some(Observed { line, word: look.word, at: at.wrapping_add(offset), offset })
    }

    /// Takes the judged tokens unless the word has changed, and returns whether it took them.
    ///
    /// It may also fail spuriously.
    #[inline]
    pub(super) fn take_judged(&self, &JudgedTake { word, after, .. }: &JudgedTake) -> bool {
        after == word || self.replace(word, after)
    }

    #[inline]
    fn look(&self, epoch: usize, line: L, clock: &impl Clock) -> Option<Observed<L>> {
        let (line, word, at) = self.read(epoch, line, clock)?;
        // The offset is read after the word and the clock. `Drip` says why.
        let offset = self.drip.offset();
        Some(Observed { line, word, at: at.wrapping_add(offset), offset })
    }

    /// Reads the word and the clock. Returns the line, the word, and the position without the offset.
    ///
    /// Returns `None` if the epoch is no longer `epoch`, because the quota has changed.
    #[inline]
    fn read(&self, epoch: usize, mut line: L, clock: &impl Clock) -> Option<(L, u64, u64)> {
        // The word is loaded before the clock is read. In the other order, other threads could take tokens between
        // the two reads, and their legal debt would look like one that only a step back of the clock explains.
        // loom-tests: bucket::stale_reading_keeps_legal_debt.
        // ORDERING: Relaxed, because the Acquire fence in `is_current` follows this load. The fence pairs with the
        // Release of `replace`: if the word was written in a later epoch, `is_current` sees that epoch, and the word is
        // not judged by the older quota. loom-tests: live_quota::old_record_keeps_legal_debt.
        let word = self.word.load(Ordering::Relaxed);
        let at = line.reading(clock.now());
        self.quota.is_current(epoch).then_some((line, word, at))
    }

    /// Returns what `look` computes from the inputs of a decision. Changes nothing.
    ///
    /// This call does not count as a use of the limiter. So if the limiter is unused, the line of its quota does not
    /// start now, but at the first real use.
    #[inline]
    pub(super) fn observe<T>(&self, clock: &impl Clock, look: impl Fn(&Observed<L>) -> T) -> T {
        let spin_wait = SpinWait::new();
        // `look` is called in only one place, so that the compiler can inline it and drop the parts of the answer
        // that the caller does not use.
        loop {
            if let Some(observed) = self.observed(clock) {
                return look(&observed);
            }
            spin_wait.spin();
        }
    }

    #[inline]
    fn observed(&self, clock: &impl Clock) -> Option<Observed<L>> {
        if let Some(mut line) = self.quota.unsettled_line::<L>(clock) {
            // The limiter was not used yet, so nothing was taken and nothing refunded.
            let at = line.reading(clock.now());
            return Some(Observed { line, word: 0, at, offset: 0 });
        }
        let (epoch, line) = self.quota.read(clock);
        self.look(epoch, line, clock)
    }

    /// Applies `decide` to the inputs until its step succeeds, and returns the answer.
    ///
    /// It retries if another thread changes the quota or the word, and after a [`Step::Heal`].
    pub(super) fn decide<T>(&self, clock: &impl Clock, decide: impl Fn(&Observed<L>) -> Step<T>) -> T {
        let spin_wait = SpinWait::new();
        loop {
            let (epoch, line) = self.quota.read(clock);
            if let Some(observed) = self.look(epoch, line, clock) {
                match decide(&observed) {
                    Step::Put(new, answer) => {
                        if self.replace(observed.word, new) {
                            return answer;
                        }
                    }
                    Step::Keep(answer) => return answer,
                    // The loop decides again, even if this swap fails because another thread changed the word first.
                    Step::Heal(healed) => _ = self.replace(observed.word, healed),
                }
            }
            for _ in 0..SPINS {
                spin_wait.spin();
            }
        }
    }

    /// Swaps the word from `old` to `new`, and returns whether it succeeded. May fail spuriously.
    #[inline]
    pub(super) fn replace(&self, old: u64, new: u64) -> bool {
        // ORDERING: Release pairs with the Acquire fence that follows the load in `read`. A swap of a word that another
        // thread wrote continues that thread's release sequence, so a thread that reads this word sees the epochs of
        // all earlier swaps. Relaxed on failure: the value read is dropped. loom-tests:
        // bucket::burst_is_never_exceeded, live_quota::old_record_keeps_legal_debt.
        self.word.compare_exchange_weak(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// The source of the offset by which refunds have moved a line.
pub(super) trait Offset {
    /// Returns how far refunds have moved the line ahead of its clock, in units.
    ///
    /// Call it after the Acquire fence of `LiveQuota::is_current`.
    fn offset(&self) -> u64;
}

/// Adds no offset: the algorithm has no refunds that move its line.
impl Offset for () {
    #[inline]
    fn offset(&self) -> u64 {
        0
    }
}

/// The offset of a line of tokens: the sum of all refunds, in units. It wraps as positions do.
///
/// The position at a reading of the clock is `line(now) + offset`, and the offset only grows. So a refund moves the
/// line forward, and leaves the word as it is. (The word is the position at which the bucket is full.) Waiters are then
/// served earlier, new callers see the refund too, and no caller overtakes another. If refunds moved the word back
/// instead, none could be given while a thread waits, because a waiting thread relies on a fixed position.
///
/// - A decision reads the word, then the clock, then the offset. If it read the offset before the word, a legal debt
///   could look like one left by a clock that stepped back. That debt would then be cut. If it read the offset before
///   the clock, the bound below could be exceeded by the refunds between these two reads.
/// - A refund reads the offset, then the word, then the clock. It then swaps the offset if that is still the same. It
///   adds at most the distance from the position to the word, so it never fills a bucket beyond full.
/// - A roll-back, which undoes a take, lowers the word. It ignores the offset when it computes how many tokens the
///   line has brought since the take, because a refund since then gave back other tokens.
/// - A change of the quota computes the new line without the offset.
///
/// The tokens that calls take in an interval are at most the sum of three numbers:
///
/// - the burst
/// - the tokens that the line brings in the interval
/// - the refunds between the first call's reading of the clock and the last call's reading of the offset
#[derive(Debug)]
pub(super) struct Drip {
    offset: AtomicU64,
}

impl Drip {
    const_unless_loom! {
        const fn new() -> Self {
            Self { offset: AtomicU64::new(0) }
        }
    }

    /// Returns the offset that a refund starts from. Call it before reading the word.
    fn before_refund(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `advance`: a refund that sees the offset of an earlier refund
        // also sees the word that the earlier refund read. With an older word, the bucket could seem full at the new
        // offset. It would then have no room for the tokens of this refund, so they would be
        // lost. loom-tests: bucket::racing_refunds_all_arrive.
        self.offset.load(Ordering::Acquire)
    }

    /// Adds `units` to the offset if it is still `old`, and returns whether it did. May fail spuriously.
    fn advance(&self, old: u64, units: u64) -> bool {
        // ORDERING: Release pairs with the Acquire in `before_refund`. Relaxed on failure: the value is dropped.
        // loom-tests: bucket::refunds_fill_a_bucket_once, bucket::racing_refunds_all_arrive.
        self.offset.compare_exchange_weak(old, old.wrapping_add(units), Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

impl Offset for Drip {
    #[inline]
    fn offset(&self) -> u64 {
        // ORDERING: Relaxed, because the Acquire fence in `is_current` lies between the load of the word and this one.
        // That fence pairs with the Release of `OneWord::replace`: a thread that reads a word sees no older offset than
        // the thread that wrote the word. loom-tests: bucket::old_offset_keeps_legal_debt.
        self.offset.load(Ordering::Relaxed)
    }
}
