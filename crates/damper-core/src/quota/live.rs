//! A quota that can be changed while it is used: two records and an epoch.
//!
//! It is like a seqlock whose readers also swap a word of their own. A reader loads the epoch, the record that the epoch
//! points at, its own word and the clock. Then it loads the epoch again, and starts over if that has changed. A changer writes the idle record and moves the epoch, so no reader ever
//! waits, and each validated read is of one whole record. A second changer is refused as busy. A changer that stops
//! anywhere blocks only later changers.
//!
//! The clock has to be read between the two loads of the epoch. Otherwise a reading made after a change could be put on
//! the old line, and the resulting word would lie far ahead on a line that has become slower.
//!
//! **A change touches no word.** It only replaces the line, which goes on from its present position at the new rate. A
//! slower line is bent twice: when the change begins, and again once it is published, because checks read the clock on
//! the old line until then. Between the two publications no word is healed.
//!
//! **Healing** goes by the deepest debt of all quotas there were, because a word may have been written under any of them.
//! Healing by the new quota was seen to mint 17,000 tokens.
//!
//! **First use.** The frequency of a clock may be known only at run time, and a limiter has to be a `static`; so the
//! line is pinned to the clock by the first user, in epoch 0. One swap settles where the line starts, and the rest
//! follows from that: threads that race to be first compute the same line, and the first to claim the change publishes
//! it.
//!
//! **The sizes of a quota** are one of the words that are not needed to take tokens:
//!
//! ```text
//!  63   32 31   0
//! | LIMIT | BURST |
//! ```

use super::shape::Shape;
use super::timeline::{Line, LineStart, Pace, Timeline};
use super::{Alignment, Quota, SetQuotaError};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Field, Ordering, Versioned64, const_unless_loom, fence};
use crate::time::{Clock, Scale};
use core::fmt;

/// The sizes of a quota.
const BURST: Field = Field::lowest(32);
const LIMIT: Field = BURST.then(32);
const _: () = assert!(LIMIT.end() == u64::BITS, "fields must tile the word");

/// No line has been published: the quota is the initial one.
///
/// Its line starts where the first user says.
const UNANCHORED: usize = 0;

/// The step of epochs: the size of a record, so that its place is found without a multiplication.
const PUBLICATION: usize = 64;

/// Marks an epoch whose quota has no limit, which the fast path of a check leaves to the slow path.
///
/// As a signed number such an epoch is negative, so one comparison separates it from the epochs that have a line and a
/// limit.
const UNLIMITED_EPOCH: usize = 1 << (usize::BITS - 1);

/// A quota and its line on a clock, which can be changed.
///
/// All calls must name the same line and pass the same clock.
pub(crate) struct LiveQuota {
    start: LineStart,
    initial: Quota,
    /// A quota that fits beside any initial one.
    largest: Quota,
    /// One more than the tick at which the line starts; 0 while that is not settled.
    first: AtomicU64,
    /// Counts publications, in steps of `PUBLICATION`, and so selects the record in force.
    ///
    /// Wraps, on 32 bits after 2^25 of them: a thread that is stopped in the middle of a decision for exactly that many
    /// changes of the quota takes the record for the same.
    epoch: AtomicUsize,
    /// Whether a thread is publishing.
    claimed: AtomicBool,
    records: [Record; 2],
    rests: [Rest; 2],
}

/// A line as it is published.
#[derive(Debug)]
pub struct Record {
    origin: Versioned64,
    start: Versioned64,
    mult: Versioned64,
    pace: Versioned64,
    shape: Versioned64,
    sizes: [Versioned64; 3],
}

/// The parts of a quota and its line that are not needed to take tokens.
#[derive(Debug)]
pub struct Rest {
    deepest_ever: Versioned64,
    sizes: Versioned64,
    window: Versioned64,
    max_debt: Versioned64,
    behind: Versioned64,
}

impl Record {
    const_unless_loom! {
        const fn empty() -> Self {
            Self {
                origin: Versioned64::new(0),
                start: Versioned64::new(0),
                mult: Versioned64::new(0),
                pace: Versioned64::new(0),
                shape: Versioned64::new(0),
                sizes: [Versioned64::new(0), Versioned64::new(0), Versioned64::new(0)],
            }
        }
    }

    // ORDERING: Relaxed, here and below. The loaded values count only if the epoch is then still the same:
    // `LiveQuota::is_current` has the fence that pairs with the one in `LiveQuota::publish`.
    #[inline]
    pub(crate) fn timeline(&self, rest: &Rest) -> Timeline {
        let mut timeline = self.timeline_for_fast_path();
        timeline.deepest_ever = rest.deepest_ever.load(Ordering::Relaxed);
        timeline.unlimited = timeline.shape.is_unlimited();
        timeline
    }

    /// As [`timeline`](Self::timeline), of a quota with a limit, without its deepest debt.
    #[inline]
    pub(crate) fn timeline_for_fast_path(&self) -> Timeline {
        let shape = Shape::of_bits(self.shape.load(Ordering::Relaxed));
        Timeline {
            origin: self.origin.load(Ordering::Relaxed),
            start: self.start.load(Ordering::Relaxed),
            scale: Scale { mult: self.mult.load(Ordering::Relaxed), shift: shape.shift() },
            pace: Pace { mult: self.pace.load(Ordering::Relaxed), shift: shape.pace_shift() },
            fraction_bits: shape.fraction_bits(),
            frequency: shape.frequency(),
            deepest_ever: 0,
            unlimited: false,
            shape,
            brought: 0,
            behind: 0,
        }
    }

    /// One of the line's sizes.
    #[inline]
    pub(crate) fn size(&self, index: usize) -> u64 {
        self.sizes[index].load(Ordering::Relaxed)
    }

    fn store(&self, line: &Timeline, sizes: [u64; 3]) {
        for (word, value) in [
            (&self.origin, line.origin),
            (&self.start, line.start),
            (&self.mult, line.scale.mult),
            (&self.pace, line.pace.mult),
            (&self.shape, line.shape.bits()),
            (&self.sizes[0], sizes[0]),
            (&self.sizes[1], sizes[1]),
            (&self.sizes[2], sizes[2]),
        ] {
            word.store(value, Ordering::Relaxed);
        }
    }
}

impl Rest {
    const_unless_loom! {
        const fn empty() -> Self {
            Self {
                deepest_ever: Versioned64::new(0),
                sizes: Versioned64::new(0),
                window: Versioned64::new(0),
                max_debt: Versioned64::new(0),
                behind: Versioned64::new(0),
            }
        }
    }

    // ORDERING: Relaxed, as in `Record`.
    fn load(&self) -> Quota {
        let sizes = self.sizes.load(Ordering::Relaxed);
        let (window, max_debt) = (self.window.load(Ordering::Relaxed), self.max_debt.load(Ordering::Relaxed));
        // A number that is no `u32` is `None`.
        let max_debt = u32::try_from(max_debt).ok();
        Quota::from_parts(LIMIT.get(sizes) as u32, window, BURST.get(sizes) as u32, max_debt)
    }

    fn store(&self, quota: &Quota, line: &Timeline) {
        let sizes = LIMIT.put(quota.limit().into()) | BURST.put(quota.burst_size().into());
        self.sizes.store(sizes, Ordering::Relaxed);
        self.window.store(quota.window_nanos(), Ordering::Relaxed);
        self.max_debt.store(quota.own_max_debt().map_or(u64::MAX, u64::from), Ordering::Relaxed);
        self.behind.store(line.behind, Ordering::Relaxed);
        self.deepest_ever.store(line.deepest_ever, Ordering::Relaxed);
    }
}

impl LiveQuota {
    const_unless_loom! {
        /// A quota on a line that begins as `start` says.
        pub(crate) const fn new(quota: Quota, start: LineStart) -> Self {
            Self {
                start,
                initial: quota,
                largest: quota,
                first: AtomicU64::new(0),
                epoch: AtomicUsize::new(UNANCHORED),
                claimed: AtomicBool::new(false),
                records: [Record::empty(), Record::empty()],
                rests: [Rest::empty(), Rest::empty()],
            }
        }
    }

    /// Sets where in time the line begins, before the first use.
    pub(crate) const fn align_to(&mut self, alignment: Alignment) {
        self.start.alignment = alignment;
    }

    /// Makes room for `largest`, before the first use.
    pub(crate) const fn make_room_for(&mut self, largest: Quota) {
        self.largest = largest;
    }

    /// How the line begins.
    #[cfg(feature = "alloc")]
    pub(crate) const fn line_start(&self) -> LineStart {
        self.start
    }

    /// The epoch and its line, which counts if [`is_current`](Self::is_current) says so afterwards.
    pub(crate) fn read<L: Line>(&self, clock: &impl Clock) -> (usize, L) {
        // ORDERING: Acquire pairs with the Release in `publish`: a thread that sees the epoch sees its record.
        // loom-tests: bucket::first_users_agree_on_the_line, live_quota::record_is_read_whole.
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == UNANCHORED {
            return (epoch, self.anchor(clock));
        }
        (epoch, L::load(self.record(epoch), self.rest(epoch)))
    }

    /// The line as it would start now, if no caller has used the quota yet.
    ///
    /// It settles nothing: looking at a limiter is no use of it. An answer from this line is of the moment at which `first` was loaded.
    /// Nothing was taken then.
    #[inline]
    pub(crate) fn unsettled_line<L: Line>(&self, clock: &impl Clock) -> Option<L> {
        // ORDERING: Relaxed, here and in the next load. A thread that has used the quota, or has synchronized with one that has, sees its
        // swap of `first`, which comes before its swap of the word. For other threads the use may come later.
        // loom-tests: bucket::look_of_a_first_user_finds_its_own_use.
        let is_unsettled = self.epoch.load(Ordering::Relaxed) == UNANCHORED && self.first.load(Ordering::Relaxed) == 0;
        if is_unsettled { Some(self.line_to_be(clock)) } else { None }
    }

    #[cold]
    fn line_to_be<L: Line>(&self, clock: &impl Clock) -> L {
        self.line_from(self.first_tick(clock), clock)
    }

    /// The epoch, if its line has a limit. The fast path then reads the clock and the [line](Self::line_for_fast_path).
    #[inline]
    pub(crate) fn limited_epoch(&self) -> Option<usize> {
        // ORDERING: Acquire, as in `read`.
        let epoch = self.epoch.load(Ordering::Acquire);
        ((epoch as isize) > 0).then_some(epoch)
    }

    /// The part of an epoch's line that the fast path needs.
    ///
    /// It counts if [`is_current`](Self::is_current) says so afterwards.
    #[inline]
    pub(crate) fn line_for_fast_path<L: Line>(&self, epoch: usize) -> L {
        L::load_for_fast_path(self.record(epoch), self.rest(epoch))
    }

    /// Whether this is still the epoch. Asked after everything that the decision depends on was read.
    #[inline]
    pub(crate) fn is_current(&self, epoch: usize) -> bool {
        // ORDERING: the Acquire fence pairs with the Release fence in `publish`: a thread that read anything
        // that a changer wrote into this epoch's record sees the later epoch here. It also pairs with the Release that
        // the word of a limiter is swapped with, so that a thread that read a word of a later epoch sees that epoch.
        // loom-tests: live_quota::record_is_read_whole, live_quota::old_record_keeps_legal_debt.
        fence(Ordering::Acquire);
        self.epoch.load(Ordering::Relaxed) == epoch
    }

    /// The quota in force.
    pub(crate) fn quota(&self) -> Quota {
        loop {
            // ORDERING: Acquire, as in `read`.
            let epoch = self.epoch.load(Ordering::Acquire);
            let quota = if epoch == UNANCHORED { self.initial } else { self.rest(epoch).load() };
            if self.is_current(epoch) {
                return quota;
            }
        }
    }

    /// Puts `quota` in force.
    pub(crate) fn set<L: Line>(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        self.prepare::<L>(quota, clock)?.publish::<L>(clock);
        Ok(())
    }

    /// Prepares to put `quota` in force.
    ///
    /// Until the change is published or dropped, other changers get [`SetQuotaError::Busy`].
    pub(crate) fn prepare<L: Line>(&self, quota: Quota, clock: &impl Clock) -> Result<QuotaChange<'_>, SetQuotaError> {
        if !self.claim() {
            return Err(SetQuotaError::Busy);
        }
        let claim = Claim(self);
        // ORDERING: Relaxed: only the thread that holds the claim moves the epoch, and the claim was acquired.
        let mut epoch = self.epoch.load(Ordering::Relaxed);
        if epoch == UNANCHORED {
            let line = self.initial_line::<L>(clock);
            epoch = self.publish(epoch, &self.initial, &line);
        }
        // ORDERING: Relaxed: only the thread that holds the claim stores it.
        let behind = self.rest(epoch).behind.load(Ordering::Relaxed);
        let old = Timeline { behind, ..self.record(epoch).timeline(self.rest(epoch)) };
        let changed = old.changed::<L>(&quota, clock.frequency(), self.start.debt_bits)?;
        Ok(QuotaChange { claim, epoch, quota, old, changed })
    }

    /// Publishes a line in the epoch after `last`, which it returns.
    ///
    /// Only the thread that holds the claim publishes.
    fn publish<L: Line>(&self, last: usize, quota: &Quota, line: &L) -> usize {
        let flag = if line.is_unlimited() { UNLIMITED_EPOCH } else { 0 };
        let epoch = (last.wrapping_add(PUBLICATION) & !UNLIMITED_EPOCH) | flag;
        // ORDERING: the Release fence pairs with the Acquire fence in `is_current`: a thread that reads one of the words
        // that are stored below sees the epoch before this one there.
        fence(Ordering::Release);
        self.record(epoch).store(line.timeline(), line.sizes());
        self.rest(epoch).store(quota, line.timeline());
        // ORDERING: Release publishes the record; pairs with the Acquire in `read`.
        self.epoch.store(epoch, Ordering::Release);
        epoch
    }

    fn claim(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `release`: a thread that claims sees the epoch and the records
        // that the one before published.
        self.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn release(&self) {
        // ORDERING: Release, pairs with `claim`.
        self.claimed.store(false, Ordering::Release);
    }

    /// The line of the initial quota. Publishes it unless another thread is about to.
    #[cold]
    fn anchor<L: Line>(&self, clock: &impl Clock) -> L {
        let line = self.initial_line(clock);
        if self.claim() {
            // ORDERING: Relaxed, as in `prepare`.
            if self.epoch.load(Ordering::Relaxed) == UNANCHORED {
                self.publish(UNANCHORED, &self.initial, &line);
            }
            self.release();
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

    /// One more than the tick at which a line starts that is used now for the first time.
    fn first_tick(&self, clock: &impl Clock) -> u64 {
        // Where the clock is just about to wrap, the line starts a tick earlier.
        self.start.alignment.boundary(&self.initial, clock, clock.now()).saturating_add(1)
    }

    /// The line of the initial quota that starts at this tick, of which `first` is one more.
    fn line_from<L: Line>(&self, first: u64, clock: &impl Clock) -> L {
        let origin = first.wrapping_sub(1);
        let timeline = Timeline::new::<L>(&self.initial, &self.largest, clock.frequency(), origin, self.start);
        L::new(timeline, &self.initial)
    }

    #[inline]
    const fn record(&self, epoch: usize) -> &Record {
        &self.records[Self::index(epoch)]
    }

    #[inline]
    const fn rest(&self, epoch: usize) -> &Rest {
        &self.rests[Self::index(epoch)]
    }

    /// Which of the two records is in force.
    #[inline]
    const fn index(epoch: usize) -> usize {
        (epoch / PUBLICATION) & 1
    }
}

/// The right to change a quota, until it is dropped.
struct Claim<'a>(&'a LiveQuota);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A change of a quota that fits, and only has to be published. Dropped instead, it changes nothing.
#[must_use]
pub(crate) struct QuotaChange<'a> {
    claim: Claim<'a>,
    epoch: usize,
    quota: Quota,
    old: Timeline,
    changed: Timeline,
}

impl QuotaChange<'_> {
    /// Puts the quota in force.
    pub(crate) fn publish<L: Line>(self, clock: &impl Clock) {
        let Self { claim: Claim(live), epoch, quota, old, changed } = &self;
        let new = changed.starting(clock.now(), old);
        if !new.is_slower_than(old) {
            live.publish(*epoch, quota, &L::new(new, quota));
            return;
        }
        // Until this is published, checks read the clock on the old line, and the slower line falls behind them. So it is
        // bent a second time, from where the old line is then: no word may lie ahead of the tokens produced. Between the
        // two publications nothing is healed, because a word ahead of this line may have been written on the old one.
        let between = live.publish(*epoch, quota, &L::new(new.without_healing(), quota));
        live.publish(between, quota, &L::new(changed.starting(clock.now(), old), quota));
    }
}

/// The quota in force: what a user set, and not how it is computed with.
impl fmt::Debug for LiveQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.quota(), f)
    }
}
