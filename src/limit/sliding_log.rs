//! The sliding log: a ring of the moments at which the last tokens were taken.
//!
//! As many slots as the limit has tokens, and a head that counts what was taken. To take `n` is one exchange of the
//! head, which makes the next `n` slots one's own; then the moment is written into each.
//!
//! ```text
//! head    63 24 23   0        slot    63   2 1   0
//!        | LAP | INDEX |             | STAMP | LAP |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | head: INDEX | 24 | slots | that of the next token |
//! | head: LAP | 40 | rounds of the ring | wraps |
//! | slot: LAP | 2 | rounds of the ring | in which the slot was stamped, the lowest bits |
//! | slot: STAMP | 62 | units of the quota's line | where the token was taken; wraps |
//!
//! **Why never too many.** A slot is taken only when what it holds was taken a whole window ago. So two tokens of one
//! slot are a window apart, and of all slots together no more than the limit lie within one.
//!
//! **The lap** of a slot tells whether its stamp is of the token before the next one (the lap before the head's), or
//! else:
//!
//! | laps behind the head | means | and so |
//! |---|---|---|
//! | 1 | it was stamped | it is due a window after its stamp |
//! | 2 | who took the token before was stopped before stamping it, for a whole round | it is stamped on their behalf, with a reading made now, which their call lasts beyond (on a core whose clock is behind theirs, early by so much) |
//! | 0 | somebody who was stopped stamped it on behalf of a token that was given back meanwhile | a stamp of the lap before is put there that is due when the token was taken |
//!
//! **To give back** tokens is to put such stamps into their slots and then to move the head back, if they are still the
//! last; if not, they are stamped again.
//!
//! Two bits are enough, because who sees a head sees all slots as they were when it was put there, or later.

use super::algorithm::{Algorithm, Taken, sealed};
use super::{Allowed, Denied, Usage};
use crate::atomic::{AtomicU64, Backoff, Field, Ordering};
use crate::clock::{Clock, Ticks};
use crate::quota::{Alignment, LiveQuota, Measure, Quota, SetQuotaError, Timeline};
use alloc::boxed::Box;
use core::fmt;

const INDEX: Field = Field::lowest(24);
const LAP: Field = INDEX.then(40);
const _: () = assert!(LAP.end() == u64::BITS, "fields must tile the word");

const STAMPED_LAP: Field = Field::lowest(2);
const STAMP: Field = STAMPED_LAP.then(62);
const _: () = assert!(STAMP.end() == u64::BITS, "fields must tile the word");

const LARGEST_LIMIT: u32 = 1 << 24;

/// What a slot holds before its first token: a stamp of the lap before the first, due even to a clock that is behind
/// the one which started the line. (A window has at most 2^60 units, and the line starts at the end of its first.)
const LONG_AGO: u64 = STAMP.put((1u64 << 59).wrapping_neg()) | STAMPED_LAP.put(u64::MAX);

/// The sliding log: at most the quota's limit in *any* stretch of time that is as long as its window. Exact, and the
/// dearest.
///
/// Every token's moment is remembered: 8 bytes of memory for each token of the limit, allocated at construction, and
/// `check_n(n)` looks at and writes `n` of them. There is no boundary, no assumption and no rounding: a token comes
/// back exactly one window after it was taken. For small limits that were promised to somebody word by word.
///
/// What counts is the quota's limit, at most 2^24 (16,777,216); its burst means nothing here, and "more than the burst"
/// is said of a call that asks for more than the limit. `set_quota` changes the window, and the tokens taken are as
/// many parts of a window old as they were; the limit is fixed.
///
/// A clock that steps back by more than it should locks nobody out for longer than one window. A limiter that nobody
/// used for decades may do so too.
///
/// # Examples
///
/// ```
/// use core::time::Duration;
/// use damper::{ManualClock, Quota, RateLimiter, SlidingLog};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::of(SlidingLog::new(Quota::per_minute(3))?, &clock);
/// assert!(limiter.check().is_ok());
/// clock.advance(Duration::from_secs(50));
/// assert!(limiter.check_n(2).is_ok());
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_secs(10)));
/// clock.advance(Duration::from_secs(10));
/// assert!(limiter.check().is_ok(), "a minute after the first");
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_secs(50)));
/// # Ok::<(), damper::SlidingLogError>(())
/// ```
pub struct SlidingLog {
    head: AtomicU64,
    slots: Box<[AtomicU64]>,
    quota: LiveQuota,
}

/// Why there is no sliding log of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SlidingLogError {
    /// The limit is more than 2^24, or the quota is unlimited: so many moments are not remembered.
    LimitTooLarge,
}

impl fmt::Display for SlidingLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitTooLarge => {
                f.write_str("the limit is too large for a sliding log, it must be at most 16777216 (2^24)")
            }
        }
    }
}

impl core::error::Error for SlidingLogError {}

/// A slot, seen from the next token that it is to hold.
enum Slot {
    /// Stamped in the lap before.
    LapBefore(u64),
    /// Stamped in the lap of the token itself.
    SameLap(u64),
    /// Not stamped in the lap before.
    Older,
    /// The token was taken long ago.
    Newer,
}

impl Slot {
    fn of(word: u64, lap: u64) -> Self {
        let stamp = STAMP.get(word);
        match STAMPED_LAP.get(lap.wrapping_sub(STAMPED_LAP.get(word))) {
            0 => Self::SameLap(stamp),
            1 => Self::LapBefore(stamp),
            2 => Self::Older,
            _ => Self::Newer,
        }
    }
}

/// The number of a token, as the head has it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    lap: u64,
    index: usize,
}

impl Place {
    fn of(head: u64) -> Self {
        Self { lap: LAP.get(head), index: INDEX.get(head) as usize }
    }

    fn word(self) -> u64 {
        LAP.put(self.lap) | INDEX.put(self.index as u64)
    }
}

/// How far `at` is past `stamp`, as a signed number of units.
fn age(at: u64, stamp: u64) -> i64 {
    STAMP.ahead(at, stamp)
}

/// A stamp of the lap, as it stands in a slot.
fn stamped(at: u64, lap: u64) -> u64 {
    STAMP.put(at) | STAMPED_LAP.put(lap)
}

impl SlidingLog {
    /// Nothing is taken yet. Allocates 8 bytes for each token of the limit.
    ///
    /// # Errors
    ///
    /// [`SlidingLogError::LimitTooLarge`] beyond a limit of 2^24.
    pub fn new(quota: Quota) -> Result<Self, SlidingLogError> {
        if quota.limit() > LARGEST_LIMIT || quota.is_unlimited() {
            return Err(SlidingLogError::LimitTooLarge);
        }
        let slots = (0..quota.limit()).map(|_| AtomicU64::new(LONG_AGO)).collect();
        let quota = LiveQuota::new(quota, Measure::Windows(Alignment::FirstRequest), 0);
        Ok(Self { head: AtomicU64::new(0), slots, quota })
    }

    /// The place `n` tokens after one; `n` is at most the limit.
    fn after(&self, place: Place, n: usize) -> Place {
        match place.index + n {
            index if index < self.slots.len() => Place { index, ..place },
            index => Place { lap: place.lap.wrapping_add(1), index: index - self.slots.len() },
        }
    }

    /// The place `n` tokens before one; `n` is at most the limit.
    fn before(&self, place: Place, n: usize) -> Place {
        match place.index.checked_sub(n) {
            Some(index) => Place { index, ..place },
            None => Place { lap: place.lap.wrapping_sub(1), index: place.index + self.slots.len() - n },
        }
    }

    fn check(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        let mut healed = false;
        let backoff = Backoff::new();
        loop {
            match self.try_check(n, clock) {
                Attempt::Done(answer) => return answer,
                Attempt::FromTheFuture(_) if !healed => {
                    self.heal(clock);
                    healed = true;
                }
                Attempt::FromTheFuture(denied) => return Err(denied),
                Attempt::Again => backoff.spin(),
            }
        }
    }

    fn try_check(&self, n: u32, clock: &impl Clock) -> Attempt {
        let (epoch, line) = self.quota.read(clock);
        // ORDERING: Acquire pairs with the Release of the exchange below: who sees a head sees what was seen of the
        // slots when it was put there, and takes no stamp for a later one that has the same two bits. loom-tests:
        // sliding_log::who_sees_the_head_sees_the_slots.
        let head = self.head.load(Ordering::Acquire);
        let place = Place::of(head);
        if n == 0 || line.is_unlimited() {
            let at = line.position(clock.now());
            if !self.quota.is_current(epoch) {
                return Attempt::Again;
            }
            let remaining = if line.is_unlimited() { u32::MAX } else { self.free(&line, at, place, self.slots.len()) };
            let allowed = Allowed::counted(&line, remaining, self.resets_in(&line, at, place));
            return Attempt::Done(Ok((allowed, Taken::NOWHERE)));
        }
        let limit = self.slots.len();
        // Of what is more than the limit, the limit is looked at.
        let wanted = (n as usize).min(limit);
        let mut newest = None;
        for next in (0..wanted).map(|n| self.after(place, n)) {
            // ORDERING: Relaxed, because the fence in `is_current` follows.
            let word = self.slots[next.index].load(Ordering::Relaxed);
            let Slot::LapBefore(stamp) = Slot::of(word, next.lap) else {
                self.repair(word, next, head, epoch, &line, clock);
                return Attempt::Again;
            };
            if newest.is_none_or(|newest| age(stamp, newest) > 0) {
                newest = Some(stamp);
            }
        }
        // The slots first, then the clock: then only a clock that stepped back finds a stamp far ahead of it.
        let at = line.position(clock.now());
        if !self.quota.is_current(epoch) {
            return Attempt::Again;
        }
        let window = line.window() as i64;
        let age = newest.map_or(window, |newest| age(at, newest));
        if n as usize <= limit && age >= window {
            let end = self.after(place, wanted);
            // ORDERING: Release pairs with the Acquire above; an exchange upon another's continues its release
            // sequence. Relaxed on failure: the value read is dropped. loom-tests:
            // sliding_log::the_last_has_one_winner, sliding_log::who_sees_the_head_sees_the_slots.
            if self.head.compare_exchange(head, end.word(), Ordering::Release, Ordering::Relaxed).is_err() {
                return Attempt::Again;
            }
            for mine in (0..wanted).map(|n| self.after(place, n)) {
                self.stamp(mine, at, window);
            }
            let allowed = Allowed::counted(&line, self.free(&line, at, end, limit - wanted), line.wait(line.window()));
            return Attempt::Done(Ok((allowed, Taken { at: end.word() })));
        }
        // Wherever the head is by now, the tokens after these are back no earlier.
        let wait = if n as usize > limit { Ticks::ZERO } else { line.wait((window - age) as u64) };
        // Fewer than were asked for, whatever others do meanwhile.
        let most = if n as usize > limit { limit } else { wanted - 1 };
        let remaining = self.free(&line, at, place, most);
        let denied = Denied::counted(&line, remaining, self.resets_in(&line, at, place), wait);
        if age < 0 && line.is_beyond_next_window(age.unsigned_abs(), clock) {
            return Attempt::FromTheFuture(denied);
        }
        Attempt::Done(Err(denied))
    }

    /// Puts a stamp of the lap before into the slot of the token at `next`, which holds `word` instead.
    #[cold]
    fn repair(&self, word: u64, next: Place, head: u64, epoch: usize, line: &Timeline, clock: &impl Clock) {
        let now = line.position(clock.now());
        // ORDERING: as in `try_check`: whoever sees a stamp of a later lap sees, after the fence, that the head has
        // moved on.
        if !self.quota.is_current(epoch) || self.head.load(Ordering::Relaxed) != head {
            return;
        }
        let at = match Slot::of(word, next.lap) {
            // Given back: due when it was taken.
            Slot::SameLap(stamp) => stamp.wrapping_sub(line.window()),
            // On behalf of who has not got around to it.
            Slot::Older => now,
            Slot::LapBefore(_) | Slot::Newer => return,
        };
        let restored = stamped(at, next.lap.wrapping_sub(1));
        _ = self.slots[next.index].compare_exchange(word, restored, Ordering::Release, Ordering::Relaxed);
    }

    /// Stamps a slot that is one's own, unless somebody did it on one's behalf.
    fn stamp(&self, mine: Place, at: u64, window: i64) {
        let slot = &self.slots[mine.index];
        // ORDERING: Relaxed: a stamp that is due at `at` can only be the one that was seen there. Release pairs with
        // the fence in `is_current`: who sees the stamp sees the head that it belongs to, and the epoch of its line.
        // loom-tests: sliding_log::a_roll_back_mints_nothing.
        let mut word = slot.load(Ordering::Relaxed);
        loop {
            let is_missing = match Slot::of(word, mine.lap) {
                Slot::LapBefore(stamp) => age(at, stamp) >= window,
                Slot::SameLap(stamp) => age(at, stamp) > 0,
                Slot::Older | Slot::Newer => false,
            };
            if !is_missing {
                return;
            }
            match slot.compare_exchange(word, stamped(at, mine.lap), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => word = newer,
            }
        }
    }

    /// Takes the stamp from a slot that is one's own, as if its token had been due when it was taken.
    fn unstamp(&self, mine: Place, window: u64) {
        let slot = &self.slots[mine.index];
        // ORDERING: as in `stamp`.
        let word = slot.load(Ordering::Relaxed);
        if let Slot::SameLap(stamp) = Slot::of(word, mine.lap) {
            let due = stamped(stamp.wrapping_sub(window), mine.lap.wrapping_sub(1));
            _ = slot.compare_exchange(word, due, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Undoes [`unstamp`](Self::unstamp), unless somebody stamped the slot meanwhile.
    fn restamp(&self, mine: Place, window: u64) {
        let slot = &self.slots[mine.index];
        // ORDERING: as in `stamp`.
        let word = slot.load(Ordering::Relaxed);
        if let Slot::LapBefore(stamp) = Slot::of(word, mine.lap) {
            let taken = stamped(stamp.wrapping_add(window), mine.lap);
            _ = slot.compare_exchange(word, taken, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Brings stamps that lie further ahead than a window and what the clock may step back to where the clock is now:
    /// they can only be from before it stepped back.
    #[cold]
    fn heal(&self, clock: &impl Clock) {
        for slot in &self.slots {
            let (epoch, line) = self.quota.read(clock);
            // ORDERING: as in `try_check`; the stamp first, then the clock.
            let word = slot.load(Ordering::Relaxed);
            let at = line.position(clock.now());
            let age = age(at, STAMP.get(word));
            if self.quota.is_current(epoch) && age < 0 && line.is_beyond_next_window(age.unsigned_abs(), clock) {
                let healed = stamped(at, STAMPED_LAP.get(word));
                _ = slot.compare_exchange(word, healed, Ordering::Release, Ordering::Relaxed);
            }
        }
    }

    /// How many of the next tokens are there, up to `most`. They come back in the order in which they were taken.
    fn free(&self, line: &Timeline, at: u64, place: Place, most: usize) -> u32 {
        let (mut free, mut end) = (0, most);
        while free < end {
            let middle = usize::midpoint(free, end);
            let next = self.after(place, middle);
            // ORDERING: Relaxed: what is told counts for the moment of the decision, and others go on.
            let is_due = match Slot::of(self.slots[next.index].load(Ordering::Relaxed), next.lap) {
                Slot::LapBefore(stamp) => age(at, stamp) >= line.window() as i64,
                Slot::SameLap(_) => true,
                Slot::Older | Slot::Newer => false,
            };
            if is_due {
                free = middle + 1;
            } else {
                end = middle;
            }
        }
        // At most the limit.
        free as u32
    }

    /// The wait until nothing counts: until the newest token is back.
    fn resets_in(&self, line: &Timeline, at: u64, place: Place) -> Ticks {
        if self.slots.is_empty() || line.is_unlimited() {
            return Ticks::ZERO;
        }
        let newest = self.before(place, 1);
        // ORDERING: Relaxed, as in `free`.
        let age = match Slot::of(self.slots[newest.index].load(Ordering::Relaxed), newest.lap) {
            Slot::SameLap(stamp) => age(at, stamp),
            _ => 0,
        };
        line.wait((line.window() as i64).saturating_sub(age).max(0) as u64)
    }
}

/// What came of one look at the log.
enum Attempt {
    Done(Result<(Allowed, Taken), Denied>),
    /// Refused by a stamp that can only be from before the clock stepped back.
    FromTheFuture(Denied),
    /// Others came between.
    Again,
}

/// Without the slots, of which there may be millions.
impl fmt::Debug for SlidingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlidingLog").field("quota", &self.quota).finish_non_exhaustive()
    }
}

impl sealed::Sealed for SlidingLog {}

impl Algorithm for SlidingLog {
    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        self.check(n, clock)
    }

    fn roll_back(&self, n: u32, taken: Taken, clock: &impl Clock) {
        if taken == Taken::NOWHERE {
            return;
        }
        // Only what is the last can be given back: its tokens are the next ones again.
        let start = self.before(Place::of(taken.at), n as usize);
        let window = self.quota.read(clock).1.window();
        // First the slots, then the head: who sees the head sees them as they were before.
        for mine in (0..n as usize).map(|n| self.after(start, n)) {
            self.unstamp(mine, window);
        }
        // ORDERING: Release, as in `try_check`.
        if self.head.compare_exchange(taken.at, start.word(), Ordering::Release, Ordering::Relaxed).is_err() {
            for mine in (0..n as usize).map(|n| self.after(start, n)) {
                self.restamp(mine, window);
            }
        }
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        let (remaining, resets_in) = match self.check(0, clock) {
            Ok((allowed, _)) => (allowed.remaining(), allowed.resets_in()),
            Err(denied) => (denied.remaining(), denied.resets_in()),
        };
        Usage::of_windows(self.quota(), remaining, resets_in)
    }

    fn quota(&self) -> Quota {
        self.quota.quota()
    }

    fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        if quota.limit() as usize != self.slots.len() && !quota.is_unlimited() {
            return Err(SetQuotaError::FixedLimit);
        }
        self.quota.set(quota, clock)
    }
}
