//! The sliding log: a ring of the moments at which the last tokens were taken.
//!
//! The ring has as many slots as the limit has tokens, and the head counts the tokens taken. To take `n`, a thread
//! swaps the head once. That gives it the next `n` slots, and it then writes the time into each.
//!
//! **Why it never allows too many.** A slot is taken only if its last token was taken at least a whole window ago. So
//! within one window each slot gives at most one token, and all slots together give no more than the limit.
//!
//! **Giving back** tokens moves the head back. It is possible only if no other tokens were taken since. The times in
//! the slots, the *stamps*, stay until a thread takes these tokens again. `ring` describes the fields of the head and
//! of a slot.

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
/// It stores the time of every token in 8 bytes, which are allocated at construction. `check_n(n)` reads and writes
/// about `n` of these times. A token comes back exactly one window after it was taken: nothing is rounded, and nothing
/// is assumed about the traffic. Use it for small limits that a contract states to the letter.
///
/// Only the quota's limit counts, at most 2^24 (16,777,216). The burst is ignored, so a refusal with "more than the
/// burst" means more than the limit. `set_quota` can change the window but not the limit. The age of each token then
/// stays the same fraction of the window.
///
/// If the clock steps back by more than its [`max_step_back`](Clock::max_step_back), callers are locked out for at most
/// one window. A limiter that was idle for years may lock callers out for as long.
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
        // writer of the head saw it, or newer. Otherwise it could mistake an old stamp for one of a later lap (round of
        // the ring), because a slot stores only the two lowest bits of its lap. loom-tests:
        // sliding_log::head_publishes_the_slots.
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
            // ORDERING: Relaxed, because the Acquire fence in `is_current` follows. The fence pairs with the Release of
            // the swaps that write stamps: a thread that sees a stamp then also sees the head that took its token.
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
        // The slots are read before the clock. So a stamp is far ahead of the reading only if the clock stepped back.
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
            // ORDERING: Release pairs with the Acquire load of the head above: a thread that loads the new head sees
            // the slots as this thread saw them, or newer. It also sees what earlier writers of the head saw, because
            // each swap continues their release sequences. Relaxed on failure: the value read is dropped. loom-tests:
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
        // The wait is right even if the head has moved on meanwhile: later tokens come back no earlier than these.
        let wait = if n as usize > limit { Ticks::ZERO } else { line.wait((window - age) as u64) };
        // At most `n - 1` tokens are counted. So a refusal never reports `n` tokens or more, even if other threads give
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

    /// Returns the result that a check of `n` tokens would have now, or `None` if another thread intervened.
    ///
    /// A token that was taken and has no time in its slot yet counts as taken now.
    fn try_refusal(&self, n: u32, clock: &impl Clock) -> Option<Result<(), Denied>> {
        let (epoch, mut line) = self.quota.read::<WindowLine>(clock);
        // ORDERING: Acquire, as in `try_check`.
        let place = TokenNumber::of(self.head.load(Ordering::Acquire));
        let (limit, window) = (self.ring.len(), line.window());
        let (mut newest, mut is_unstamped) = (None, false);
        for next in (0..(n as usize).min(limit)).map(|n| self.ring.after(place, n)) {
            // ORDERING: Relaxed, because the Acquire fence in `is_current` follows, as in `try_check`.
            let stamp = match Stamp::of(self.ring.slot(next).load(Ordering::Relaxed), next.lap) {
                Stamp::LapBefore(stamp) => stamp,
                Stamp::SameLap(stamp) => stamp.wrapping_sub(window),
                Stamp::Older => {
                    is_unstamped = true;
                    continue;
                }
                Stamp::Newer => {
                    // The head has moved on. `is_current` is called for its Acquire fence, so that the next attempt
                    // sees the new head.
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
                // The stamp was written before the clock stepped back. A check would first move it to the present, so
                // this call does too. A caller that waits for the returned time makes no check before its end. So
                // without this repair the stamp would stay until the clock has caught up.
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

    /// Stamps the slot at `next` on behalf of the thread that took the slot's last token.
    ///
    /// That thread took the token in the previous lap (round of the ring), but has not stamped the slot yet. The slot
    /// holds `word`. If the head is no longer `head`, this call does nothing.
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
        // ORDERING: the Acquire fence in `is_current` pairs with the Release of the swap that wrote the stamp in
        // `word`. So if the stamp is of a later lap than `head`, this load sees that the head has moved on.
        if !self.quota.is_current(epoch) || self.head.load(Ordering::Relaxed) != head {
            return;
        }
        if let Stamp::Older = Stamp::of(word, next.lap) {
            let stamp = stamped(now, next.lap.wrapping_sub(1));
            _ = self.ring.slot(next).compare_exchange(word, stamp, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Moves stamps older than `at` of tokens that were given back to the previous lap (round of the ring).
    ///
    /// Otherwise, once these tokens are taken again, the old stamps would be mistaken for those of the new take.
    #[cold]
    fn take_off_stamps(&self, head: u64, place: TokenNumber, n: usize, at: u64, line: &WindowLine) {
        // The head gets a new version first. A thread that takes these tokens must load the new head, and reads the
        // clock after that. So none of its stamps equals one that is moved below.
        let new = place.back(head);
        // ORDERING: Release, as in `try_check`.
        if self.head.compare_exchange(head, new, Ordering::Release, Ordering::Relaxed).is_err() {
            return;
        }
        for next in (0..n).map(|n| self.ring.after(place, n)) {
            let slot = self.ring.slot(next);
            // ORDERING: Relaxed: whatever value is loaded, a stamp of this lap that is older than `at` belongs to a
            // token that was given back. The swap below fails if the value is stale.
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
    /// A stamp is too far if it is ahead by more than a window plus the longest step back that the clock may take. Only
    /// a larger step back leaves such a stamp.
    #[cold]
    fn heal(&self, clock: &impl Clock) {
        for slot in self.ring.slots() {
            let (epoch, line) = self.quota.read::<WindowLine>(clock);
            // ORDERING: Relaxed, as in `try_check`. The stamp is loaded before the clock is read, so it is far ahead of
            // the reading only if the clock stepped back.
            let word = slot.load(Ordering::Relaxed);
            let at = line.timeline().position(clock.now());
            let age = age_of(at, word);
            if self.quota.is_current(epoch) && age < 0 && line.is_beyond_next_window(age.unsigned_abs(), clock) {
                _ = slot.compare_exchange(word, restamped(word, at), Ordering::Release, Ordering::Relaxed);
            }
        }
    }

    /// Returns the wait until all tokens have come back, which is when the last one taken does.
    fn resets_in(&self, line: &WindowLine, at: u64, place: TokenNumber) -> Ticks {
        if self.ring.len() == 0 || line.is_unlimited() {
            return Ticks::ZERO;
        }
        let newest = self.ring.before(place, 1);
        // ORDERING: Relaxed, as in `StampRing::free`: the result is a snapshot.
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
    /// The refusal because of a stamp that was written before the clock stepped back.
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
        // Tokens can be given back only if they are the last ones taken. They are then the next ones to take. The head
        // alone does not show that. Later tokens may have used the same slots after a window, and may have been given
        // back. So the stamps are compared too.
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
        // An unused log stays unused, because reading it is not its first use.
        if self.quota.unsettled_line::<WindowLine>(clock).is_some() {
            return Usage::of_windows(self.quota(), u32::MAX, Some(Duration::ZERO));
        }
        let (remaining, resets_in) = match self.check(0, clock) {
            Ok((allowed, _)) => (allowed.remaining(), allowed.resets_in()),
            Err(denied) => (denied.remaining(), denied.resets_in()),
        };
        Usage::of_windows(self.quota(), remaining, resets_in)
    }

    /// Forgets the tokens taken. Tokens that have no time in their slot yet count as taken after the reset.
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
                        // ORDERING: Release, as in `StampRing::stamp`. If the slot has changed meanwhile, the swap
                        // fails and the newer stamp stays. loom-tests:
                        // sliding_log::reset_beside_a_check_mints_no_token.
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
