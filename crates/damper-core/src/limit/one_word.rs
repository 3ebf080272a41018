//! A word under a live quota: the loop around a decision on it, and the compare-and-swap.
//!
//! A decision reads the epoch, the line, the word, the clock and the offset in this order. It validates the epoch before it
//! reads the offset. Then it swaps the word. [`Drip`] explains the offset, by which refunds move the line.

use super::algorithm::{JudgedTake, Look, PreparedQuota};
use crate::quota::{Alignment, Line, LineStart, LiveQuota, Quota, QuotaChange, SetQuotaError};
use crate::sync::{AtomicU64, Claim, Ordering, SpinWait, const_unless_loom};
use crate::time::Clock;
use core::marker::PhantomData;

/// How often a thread backs off after it lost the swap to another one.
///
/// In `benches/peers`, two threads on one limiter take 58 ns a check with 1, 24 ns with 4 and 20 ns with 6. More than 4
/// gains little and makes a thread wait longer.
const SPINS: u32 = 4;

/// A word under a live quota. The word is a position on the quota's line, or counts its windows.
///
/// The type of `drip` says whether refunds move the line.
#[derive(Debug)]
pub(super) struct OneWord<L, D = ()> {
    word: AtomicU64,
    /// Beside the word, so that a check finds both in one cache line.
    drip: D,
    quota: LiveQuota,
    line: PhantomData<fn() -> L>,
}

/// The inputs of a decision, valid together at one instant and under one quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<L> {
    pub(super) line: L,
    pub(super) word: u64,
    /// The position of the clock's reading, offset included.
    pub(super) at: u64,
    /// How far refunds had moved the line ahead of its clock.
    pub(super) offset: u64,
}

/// The change that a decision makes to the word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<T> {
    /// Replaces the word by this one. The answer counts if no other thread changed the word first.
    Put(u64, T),
    /// Leaves the word alone.
    Keep(T),
    /// Replaces a word from before a clock stepped back by this one, and decides again.
    Heal(u64),
}

impl<L> OneWord<L> {
    const_unless_loom! {
        /// Creates a word of 0 under `quota`, on a line that begins as `start` says.
        pub(super) const fn new(quota: Quota, start: LineStart) -> Self {
            Self { word: AtomicU64::new(0), drip: (), quota: LiveQuota::new(quota, start), line: PhantomData }
        }
    }

    /// Sets where in time the line begins, before the first use.
    pub(super) const fn align_to(&mut self, alignment: Alignment) {
        self.quota.align_to(alignment);
    }
}

impl<L> OneWord<L, Drip> {
    const_unless_loom! {
        /// Creates a word like [`new`](OneWord::new), on a line that refunds move.
        pub(super) const fn refundable(quota: Quota, start: LineStart) -> Self {
            Self { word: AtomicU64::new(0), drip: Drip::new(), quota: LiveQuota::new(quota, start), line: PhantomData }
        }
    }

    /// Makes room for the quota `largest`, before the first use.
    pub(super) const fn make_room_for(&mut self, largest: Quota) {
        self.quota.make_room_for(largest);
    }
}

impl<L: Line> OneWord<L, Drip> {
    /// Moves the line forward by the units that `missing` returns for the line, the word and the position.
    ///
    /// Returns the line and these units.
    pub(super) fn refund(&self, clock: &impl Clock, missing: impl Fn(&L, u64, u64) -> u64) -> (L, u64) {
        let spin_wait = SpinWait::new();
        loop {
            let (epoch, line) = self.quota.read(clock);
            // Before the word: if the swap succeeds the offset was the same throughout.
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

    /// Prepares to put a quota in force, as [`Algorithm::prepare_quota`] does.
    pub(super) fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError> {
        self.quota.prepare::<L>(quota, clock).map(PreparedQuota)
    }

    /// Keeps other changers of the quota out until the claim is dropped.
    pub(super) fn claim(&self) -> Result<Claim<'_>, SetQuotaError> {
        self.quota.claim()
    }

    /// Prepares to put a quota in force, for the changer that has the claim.
    pub(super) fn prepare_under<'a>(
        &'a self,
        claim: Claim<'a>,
        quota: Quota,
        clock: &impl Clock,
    ) -> Result<QuotaChange<'a>, SetQuotaError> {
        self.quota.prepare_under::<L>(claim, quota, clock)
    }

    /// Observes once, for the fast path. `None` without a line or a limit, or if the quota changed meanwhile.
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

    /// Loads the epoch and the word, for a decision whose clock is read later, once for several words.
    ///
    /// `None` without a line or a limit.
    #[inline]
    pub(super) fn load(&self) -> Option<Look> {
        let epoch = self.quota.limited_epoch()?;
        // ORDERING: Relaxed, as in `read`: the fence in `is_current` follows in `observed_at`. loom-tests:
        // limit_set::look_leaves_no_word_ahead_of_a_slower_line.
        Some(Look { epoch, word: self.word.load(Ordering::Relaxed) })
    }

    /// Completes a look by a reading of the clock after it. `None` if the quota changed meanwhile.
    ///
    /// The epoch, the word, the clock and the offset are read in the order of a single decision. The line may come after
    /// the clock, because it counts only if the epoch is still the same.
    #[inline]
    pub(super) fn observed_at(&self, look: Look, now: u64) -> Option<Observed<L>> {
        let mut line: L = self.quota.line_for_fast_path(look.epoch);
        let at = line.reading(now);
        if !self.quota.is_current(look.epoch) {
            return None;
        }
        // After the word and the clock, as `Drip` says.
        let offset = self.drip.offset();
        Some(Observed { line, word: look.word, at: at.wrapping_add(offset), offset })
    }

    /// Takes what was judged, and returns whether it did. May fail spuriously.
    #[inline]
    pub(super) fn take_judged(&self, &JudgedTake { word, after, .. }: &JudgedTake) -> bool {
        after == word || self.replace(word, after)
    }

    #[inline]
    fn look(&self, epoch: usize, line: L, clock: &impl Clock) -> Option<Observed<L>> {
        let (line, word, at) = self.read(epoch, line, clock)?;
        // After the word and the clock, as `Drip` says.
        let offset = self.drip.offset();
        Some(Observed { line, word, at: at.wrapping_add(offset), offset })
    }

    /// Reads the word and the clock, and returns the line, the word and the position without the offset.
    ///
    /// `None` if the quota changed meanwhile.
    #[inline]
    fn read(&self, epoch: usize, mut line: L, clock: &impl Clock) -> Option<(L, u64, u64)> {
        // The word first, then the clock: only a clock that stepped back can then find the word beyond the deepest
        // debt, never a thread that was stopped between the two. loom-tests: bucket::stale_reading_keeps_legal_debt.
        // ORDERING: Relaxed, because the Acquire fence in `is_current` follows it, and pairs with the Release of
        // `replace`: a thread that reads a word written in a later epoch sees that epoch there, and does not judge the
        // word by the older quota. loom-tests: live_quota::old_record_keeps_legal_debt.
        let word = self.word.load(Ordering::Relaxed);
        let at = line.reading(clock.now());
        self.quota.is_current(epoch).then_some((line, word, at))
    }

    /// Returns what `look` makes of the inputs. Changes nothing, and is not a first use of the limiter.
    #[inline]
    pub(super) fn observe<T>(&self, clock: &impl Clock, look: impl Fn(&Observed<L>) -> T) -> T {
        let spin_wait = SpinWait::new();
        // `look` is called in one place, so that unused parts of its answer are not computed.
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
            // Nothing was taken and nothing refunded.
            let at = line.reading(clock.now());
            return Some(Observed { line, word: 0, at, offset: 0 });
        }
        let (epoch, line) = self.quota.read(clock);
        self.look(epoch, line, clock)
    }

    /// Applies `decide` to the inputs, and retries if another thread changes the quota or the word.
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
                    // Look again, whether this swap healed the word or another thread changed it first.
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
        // ORDERING: Release pairs with the Acquire fence that follows the load in `read`. A swap upon another's continues
        // its release sequence, so a thread that reads this word sees the epochs of all before it. Relaxed on
        // failure: the value read is dropped. loom-tests: bucket::burst_is_never_exceeded,
        // live_quota::old_record_keeps_legal_debt.
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

/// No offset: the line of an algorithm without refunds.
impl Offset for () {
    #[inline]
    fn offset(&self) -> u64 {
        0
    }
}

/// The sum of all refunds to a line, in units. It wraps as positions do.
///
/// A refund moves the line of tokens forward instead of the word back. So waiters are served earlier, newcomers see the
/// refund too, and no caller overtakes another. If it moved the word back, it could repay nothing while a thread
/// waits, because the place of that thread is fixed. The position at a reading of the clock is `line(now) + offset`.
/// The offset only grows.
///
/// - A decision reads the word, then the clock, then the offset. An offset read before the word would make a legal debt
///   look like one left by a clock that stepped back, and heal it away. With an offset older than the reading of the
///   clock, refunds from before that reading would widen the envelope.
/// - A refund reads the offset, then the word, then the clock, and swaps the offset if it is still the same. It adds at
///   most the distance from the position to the word, so that it never fills a bucket beyond full.
/// - A roll-back lowers the word. It measures what was repaid since the take on the line without the offset, because a
///   refund in between repaid other tokens.
/// - When the quota changes, the line is bent without the offset.
///
/// In any interval the tokens taken are at most the sum of the burst, what the line brings, and the refunds between the
/// first call's reading of the clock and the last call's reading of the offset.
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
        // ORDERING: Acquire pairs with the Release in `advance`: a refund that sees the offset of another also sees the
        // word which that one saw. With an older word the bucket would look full, and the refund would be lost.
        // loom-tests: bucket::racing_refunds_all_arrive.
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
        // ORDERING: Relaxed, because the Acquire fence in `is_current` lies between the load of the word and this one. It
        // pairs with the Release of `OneWord::replace`: a thread that reads a word sees no older offset than its writer.
        // loom-tests: bucket::old_offset_keeps_legal_debt.
        self.offset.load(Ordering::Relaxed)
    }
}
