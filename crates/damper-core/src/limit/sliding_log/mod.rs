//! The sliding log: a ring of the moments at which the last tokens were taken.
//!
//! The ring has as many slots as the limit has tokens, and the head counts the tokens taken. To take `n`, a thread
//! swaps the head once. That gives it the next `n` slots, and it then writes the time into each.
//!
//! **Why never too many.** A slot is taken only if its last token was taken at least a whole window ago. So within one
//! window each slot gives at most one token, and all slots together give no more than the limit.
//!
//! **Giving back** tokens moves the head back, if no others were taken since. The times in their slots, the *stamps*,
//! stay until a thread takes the tokens again. `ring` has the fields, and what a slot may hold.

// | file | idea |
// |---|---|
// | `mod` | `SlidingLog`: takes tokens and gives them back |
// | `ring` | the words of the head and of the slots |

mod ring;

use super::algorithm::{Algorithm, PreparedQuota, TakePosition, sealed};
use super::windows::WindowLine;
use super::{Allowed, Denied, Usage};
use crate::OutOfRange;
use crate::quota::{Alignment, Line, LiveQuota, Quota, SetQuotaError};
use crate::sync::{AtomicU64, Ordering, SpinWait};
use crate::time::{Clock, Ticks};
use core::fmt;
use core::time::Duration;
use ring::{Stamp, StampRing, TokenNumber, age, age_of, freed, restamped, stamped};

const LARGEST_LIMIT: u32 = 1 << 24;

/// The sliding log, which allows the limit in *any* stretch of time as long as the window.
///
/// It is exact, and the most expensive algorithm.
///
/// It stores the time of every token in 8 bytes, allocated at construction, and `check_n(n)` reads and writes about `n` of
/// them. There is no boundary, no assumption and no rounding: a token comes back exactly one window after it was
/// taken. Use it for small limits that a contract states to the letter.
///
/// It goes by the quota's limit, at most 2^24 (16,777,216), and ignores the burst. So a refusal with "more than the
/// burst" means more than the limit. `set_quota` can change the window but not the limit. The age of each token then
/// stays the same fraction of the window.
///
/// If the clock steps back by more than its [`max_step_back`](Clock::max_step_back), callers are locked out for at most
/// one window. The same may happen to a limiter that was idle for years.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{ManualClock, Quota, RateLimiter, SlidingLog};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::with_algorithm(SlidingLog::new(Quota::per_minute(3))?, &clock);
/// assert!(limiter.check().is_ok());
/// clock.advance(Duration::from_secs(50));
/// assert!(limiter.check_n(2).is_ok());
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_secs(10)));
/// clock.advance(Duration::from_secs(10));
/// assert!(limiter.check().is_ok(), "a minute after the first");
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_secs(50)));
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[cfg(feature = "alloc")]
pub struct SlidingLog {
    head: AtomicU64,
    ring: StampRing,
    quota: LiveQuota,
}

impl SlidingLog {
    /// Creates a log with no tokens taken. It allocates 8 bytes for each token of the limit.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the limit exceeds 2^24, or if the quota has no limit.
    pub fn new(quota: Quota) -> Result<Self, OutOfRange> {
        let note = "(2^24, of a sliding log)";
        if quota.is_unlimited() {
            return Err(OutOfRange::unlimited("limit", LARGEST_LIMIT.into()).note(note));
        }
        OutOfRange::check_count("limit", quota.limit().into(), 0..=LARGEST_LIMIT.into())
            .map_err(|error| error.note(note))?;
        let ring = StampRing::new(quota.limit());
        let quota = LiveQuota::new(quota, WindowLine::aligned_to(Alignment::FirstRequest));
        Ok(Self { head: AtomicU64::new(0), ring, quota })
    }

    fn check(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied> {
        let mut healed = false;
        let spin_wait = SpinWait::new();
        loop {
            match self.try_check(n, clock) {
                LogCheck::Done(answer) => return answer,
                LogCheck::FromTheFuture(_) if !healed => {
                    self.heal(clock);
                    healed = true;
                }
                LogCheck::FromTheFuture(denied) => return Err(denied),
                LogCheck::Again => spin_wait.spin(),
            }
        }
    }

    fn try_check(&self, n: u32, clock: &impl Clock) -> LogCheck {
        let (epoch, mut line) = self.quota.read::<WindowLine>(clock);
        // ORDERING: Acquire pairs with the Release of the swap below: a thread that sees a head sees every slot as the
        // writer of the head saw it, or newer. So it does not mistake an old stamp for a later one whose lap has the
        // same two lowest bits. loom-tests: sliding_log::head_publishes_the_slots.
        let head = self.head.load(Ordering::Acquire);
        let place = TokenNumber::of(head);
        if n == 0 || line.is_unlimited() {
            let at = line.reading(clock.now());
            if !self.quota.is_current(epoch) {
                return LogCheck::Again;
            }
            let remaining =
                if line.is_unlimited() { u32::MAX } else { self.ring.free(line.window(), at, place, self.ring.len()) };
            let resets_in = self.resets_in(&line, at, place);
            let allowed = Allowed::counted_by(line.frequency(), remaining, resets_in);
            return LogCheck::Done(Ok((allowed, TakePosition::UNCOUNTED)));
        }
        let limit = self.ring.len();
        // A call for more tokens than the limit looks at every slot once.
        let wanted = (n as usize).min(limit);
        let window = line.window() as i64;
        let mut newest = None;
        let mut given_back = None;
        let mut is_one_moment = true;
        for next in (0..wanted).map(|n| self.ring.after(place, n)) {
            // ORDERING: Relaxed, because the fence in `is_current` follows.
            let word = self.ring.slot(next).load(Ordering::Relaxed);
            let stamp = match Stamp::of(word, next.lap) {
                Stamp::LapBefore(stamp) => stamp,
                // A token that was given back is available again from the moment at which it was taken.
                Stamp::SameLap(stamp) => {
                    is_one_moment &= given_back.is_none_or(|other| other == stamp);
                    given_back = Some(stamp);
                    stamp.wrapping_sub(line.window())
                }
                Stamp::Older | Stamp::Newer => {
                    self.stamp_on_behalf(word, next, head, epoch, &line, clock);
                    return LogCheck::Again;
                }
            };
            if newest.is_none_or(|newest| age(stamp, newest) > 0) {
                newest = Some(stamp);
            }
        }
        // The slots are read before the clock, so a stamp lies far ahead of the reading only if the clock stepped back.
        let at = line.reading(clock.now());
        if !self.quota.is_current(epoch) {
            return LogCheck::Again;
        }
        let age = newest.map_or(window, |newest| age(at, newest));
        if n as usize <= limit && age >= window {
            if given_back.is_some_and(|stamp| !is_one_moment || self::age(at, stamp) != 0) {
                self.take_off_stamps(head, place, wanted, at, &line);
                return LogCheck::Again;
            }
            let end = self.ring.after(place, wanted);
            let new = end.after(head);
            // ORDERING: Release pairs with the Acquire above. A swap of a head that another thread wrote continues that
            // thread's release sequence. Relaxed on failure: the value read is dropped. loom-tests:
            // sliding_log::last_token_is_taken_once, sliding_log::head_publishes_the_slots.
            if self.head.compare_exchange(head, new, Ordering::Release, Ordering::Relaxed).is_err() {
                return LogCheck::Again;
            }
            for mine in (0..wanted).map(|n| self.ring.after(place, n)) {
                self.ring.stamp(mine, at, window);
            }
            let remaining = self.ring.free(line.window(), at, end, limit - wanted);
            let allowed = Allowed::counted_by(line.frequency(), remaining, line.wait(line.window()));
            return LogCheck::Done(Ok((allowed, TakePosition { at: new })));
        }
        // The wait is right even if the head has moved on, because the tokens after these come back no earlier.
        let wait = if n as usize > limit { Ticks::ZERO } else { line.wait((window - age) as u64) };
        // The count ends below `n`, so that a refusal never reports `n` tokens or more, even if other threads give
        // tokens back meanwhile.
        let most = if n as usize > limit { limit } else { wanted - 1 };
        let remaining = self.ring.free(line.window(), at, place, most);
        let resets_in = self.resets_in(&line, at, place);
        let denied = Denied::counted_by(line.frequency(), remaining, resets_in, wait);
        if age < 0 && line.is_beyond_next_window(age.unsigned_abs(), clock) {
            return LogCheck::FromTheFuture(denied);
        }
        LogCheck::Done(Err(denied))
    }

    /// Returns whether a check of `n` tokens would be refused now.
    ///
    /// It returns `None` if another thread intervened.
    ///
    /// A token that was taken and has no stamp yet counts as taken now.
    fn try_refusal(&self, n: u32, clock: &impl Clock) -> Option<Result<(), Denied>> {
        let (epoch, mut line) = self.quota.read::<WindowLine>(clock);
        // ORDERING: Acquire, as in `try_check`.
        let place = TokenNumber::of(self.head.load(Ordering::Acquire));
        let (limit, window) = (self.ring.len(), line.window());
        let (mut newest, mut is_unstamped) = (None, false);
        for next in (0..(n as usize).min(limit)).map(|n| self.ring.after(place, n)) {
            // ORDERING: Relaxed, because the fence in `is_current` follows.
            let stamp = match Stamp::of(self.ring.slot(next).load(Ordering::Relaxed), next.lap) {
                Stamp::LapBefore(stamp) => stamp,
                Stamp::SameLap(stamp) => stamp.wrapping_sub(window),
                Stamp::Older => {
                    is_unstamped = true;
                    continue;
                }
                Stamp::Newer => {
                    // `is_current` is called for its fence, so that the next attempt sees the head that has moved on.
                    _ = self.quota.is_current(epoch);
                    return None;
                }
            };
            if newest.is_none_or(|newest| age(stamp, newest) > 0) {
                newest = Some(stamp);
            }
        }
        // The slots are read before the clock, as in `try_check`.
        let at = line.reading(clock.now());
        if !self.quota.is_current(epoch) {
            return None;
        }
        if n == 0 || line.is_unlimited() {
            return Some(Ok(()));
        }
        let age = match newest {
            _ if is_unstamped => 0,
            None => window as i64,
            Some(newest) => match age(at, newest) {
                // A check would heal the stamp first, so this call does too. Otherwise a caller that waits as it is
                // told would make no check, and the stamp would stay until the clock has caught up.
                age if age < 0 && line.is_beyond_next_window(age.unsigned_abs(), clock) => {
                    self.heal(clock);
                    0
                }
                age => age,
            },
        };
        let wait = match (window as i64).saturating_sub(age) {
            _ if n as usize > limit => Ticks::ZERO,
            ..=0 => return Some(Ok(())),
            units => line.wait(units as u64),
        };
        let remaining = self.ring.free(window, at, place, (n as usize - 1).min(limit));
        let resets_in = self.resets_in(&line, at, place);
        Some(Err(Denied::counted_by(line.frequency(), remaining, resets_in, wait)))
    }

    /// Stamps the slot at `next` on behalf of the thread that took its token of the lap before.
    ///
    /// The slot holds `word`. If the head has moved on, it does nothing.
    #[cold]
    fn stamp_on_behalf(
        &self,
        word: u64,
        next: TokenNumber,
        head: u64,
        epoch: usize,
        line: &WindowLine,
        clock: &impl Clock,
    ) {
        let now = line.timeline().position(clock.now());
        // ORDERING: as in `try_check`: a thread that sees a stamp of a later lap also sees, after the fence, that the
        // head has moved on.
        if !self.quota.is_current(epoch) || self.head.load(Ordering::Relaxed) != head {
            return;
        }
        if let Stamp::Older = Stamp::of(word, next.lap) {
            let stamp = stamped(now, next.lap.wrapping_sub(1));
            _ = self.ring.slot(next).compare_exchange(word, stamp, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Moves the stamps before `at`, of tokens that were given back, to the previous lap.
    #[cold]
    fn take_off_stamps(&self, head: u64, place: TokenNumber, n: usize, at: u64, line: &WindowLine) {
        // The head gets a new version first. A thread that loads the new head reads the clock after that, so it writes
        // no stamp that equals one of these.
        let new = place.back(head);
        // ORDERING: Release, as in `try_check`.
        if self.head.compare_exchange(head, new, Ordering::Release, Ordering::Relaxed).is_err() {
            return;
        }
        for next in (0..n).map(|n| self.ring.after(place, n)) {
            let slot = self.ring.slot(next);
            // ORDERING: Relaxed: a stamp older than `at` can only be of a token that was given back.
            let word = slot.load(Ordering::Relaxed);
            let Stamp::SameLap(stamp) = Stamp::of(word, next.lap) else { continue };
            if age(at, stamp) <= 0 {
                continue;
            }
            let due = freed(stamp.wrapping_sub(line.window()), next.lap.wrapping_sub(1));
            // ORDERING: Release, as in `StampRing::stamp`.
            _ = slot.compare_exchange(word, due, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Moves each stamp that lies too far in the future back to the present.
    ///
    /// "Too far" is further ahead than the sum of a window and the longest step back that the clock may take. Only a
    /// larger step back leaves such a stamp.
    #[cold]
    fn heal(&self, clock: &impl Clock) {
        for slot in self.ring.slots() {
            let (epoch, line) = self.quota.read::<WindowLine>(clock);
            // ORDERING: Relaxed, as in `try_check`. The stamp is loaded before the clock is read.
            let word = slot.load(Ordering::Relaxed);
            let at = line.timeline().position(clock.now());
            let age = age_of(at, word);
            if self.quota.is_current(epoch) && age < 0 && line.is_beyond_next_window(age.unsigned_abs(), clock) {
                _ = slot.compare_exchange(word, restamped(word, at), Ordering::Release, Ordering::Relaxed);
            }
        }
    }

    /// Returns the wait until no taken token counts, which is until the newest one comes back.
    fn resets_in(&self, line: &WindowLine, at: u64, place: TokenNumber) -> Ticks {
        if self.ring.len() == 0 || line.is_unlimited() {
            return Ticks::ZERO;
        }
        let newest = self.ring.before(place, 1);
        // ORDERING: Relaxed, as in `free`.
        let age = match Stamp::of(self.ring.slot(newest).load(Ordering::Relaxed), newest.lap) {
            Stamp::SameLap(stamp) => age(at, stamp),
            _ => 0,
        };
        line.wait((line.window() as i64).saturating_sub(age).max(0) as u64)
    }
}

/// The result of one attempt of a check.
enum LogCheck {
    Done(Result<(Allowed, TakePosition), Denied>),
    /// The refusal by a stamp that was written before the clock stepped back.
    FromTheFuture(Denied),
    /// Another thread intervened.
    Again,
}

/// Shows the log without its slots, of which there may be millions.
impl fmt::Debug for SlidingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlidingLog").field("quota", &self.quota).finish_non_exhaustive()
    }
}

impl sealed::Sealed for SlidingLog {}

impl Algorithm for SlidingLog {
    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, TakePosition), Denied> {
        self.check(n, clock)
    }

    fn roll_back(&self, n: u32, taken: TakePosition, _: &impl Clock) {
        if taken == TakePosition::UNCOUNTED {
            return;
        }
        let end = TokenNumber::of(taken.at);
        let start = self.ring.before(end, n as usize);
        let slots = || (0..n as usize).map(|n| self.ring.after(start, n));
        // ORDERING: Acquire, as in `try_check`.
        let mut head = self.head.load(Ordering::Acquire);
        // Tokens can be given back only if they are the last ones taken. They are then the next ones to take. The
        // stamps are compared too, because a window may have passed, and the slots may have held later tokens that were
        // given back before these.
        while TokenNumber::of(head) == end && slots().all(|mine| self.ring.is_stamped(mine)) {
            // ORDERING: Release, as in `try_check`.
            match self.head.compare_exchange_weak(head, start.back(head), Ordering::Release, Ordering::Acquire) {
                Ok(_) => return,
                Err(newer) => head = newer,
            }
        }
    }

    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied> {
        let spin_wait = SpinWait::new();
        loop {
            if let Some(answer) = self.try_refusal(n, clock) {
                return answer.err();
            }
            spin_wait.spin();
        }
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        // The log was not used yet, and reading it is not its first use.
        if self.quota.unsettled_line::<WindowLine>(clock).is_some() {
            return Usage::of_windows(self.quota(), u32::MAX, Some(Duration::ZERO));
        }
        let (remaining, resets_in) = match self.check(0, clock) {
            Ok((allowed, _)) => (allowed.remaining(), allowed.resets_in()),
            Err(denied) => (denied.remaining(), denied.resets_in()),
        };
        Usage::of_windows(self.quota(), remaining, resets_in)
    }

    /// Forgets the tokens taken. Those that have no stamp yet count as taken after the reset.
    fn reset(&self, clock: &impl Clock) {
        for slot in self.ring.slots() {
            let spin_wait = SpinWait::new();
            loop {
                let (epoch, line) = self.quota.read::<WindowLine>(clock);
                // ORDERING: Relaxed, as in `try_check`. The stamp is loaded before the clock is read.
                let word = slot.load(Ordering::Relaxed);
                let at = line.timeline().position(clock.now());
                if self.quota.is_current(epoch) {
                    if age_of(at, word) < line.window() as i64 {
                        let due = restamped(word, at.wrapping_sub(line.window()));
                        // ORDERING: Release, as in `StampRing::stamp`. If the slot has changed, it holds a later token,
                        // which stays. loom-tests: sliding_log::reset_beside_a_check_mints_no_token.
                        _ = slot.compare_exchange(word, due, Ordering::Release, Ordering::Relaxed);
                    }
                    break;
                }
                spin_wait.spin();
            }
        }
    }

    fn quota(&self) -> Quota {
        self.quota.quota()
    }

    fn prepare_quota(&self, quota: Quota, clock: &impl Clock) -> Result<PreparedQuota<'_>, SetQuotaError> {
        if quota.limit() as usize != self.ring.len() && !quota.is_unlimited() {
            return Err(SetQuotaError::FixedLimit);
        }
        self.quota.prepare::<WindowLine>(quota, clock).map(PreparedQuota)
    }

    fn put_in_force(&self, prepared: PreparedQuota<'_>, clock: &impl Clock) {
        drop(prepared.0.publish::<WindowLine>(clock));
    }
}
