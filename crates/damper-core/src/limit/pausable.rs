//! A limiter that can be paused, for example by a server's `Retry-After`.

use super::{Algorithm, Allowed, Denied, LimitSet, Limiter, Limits, RateLimiter, Usage};
use crate::gate::Forecast;
use crate::ramp::Turns;
use crate::sync::{AtomicU64, Ordering, const_unless_loom};
use crate::time::random::scatter;
use crate::time::{Clock, DefaultClock, FixedFrequency, Frequency, Ticks};
use crate::word32::RateLimiter32;
use crate::{OutOfRange, Ramp};
use core::time::Duration;

/// The longest pause, in ticks. With ticks of a nanosecond it is 146 years.
const LONGEST: u64 = 1 << 62;

/// The value of the field `until` before the first pause.
const NEVER_PAUSED: u64 = 0;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

const MICROS_PER_SECOND: u128 = 1_000_000;

/// A [`Limiter`] that can be paused and then refuses until the pause is over.
///
/// Put it in front of a server that answers `429 Too Many Requests` or `503 Service Unavailable` with a `Retry-After`:
/// the first caller that gets such a response pauses the limiter, and all others wait too instead of asking the server
/// again. Share it by reference, in a `static` or an `Arc`.
///
/// A pause can only become longer. A new pause that would end earlier than the present one changes nothing. No pause
/// can be ended early, because the server may have asked another caller to wait longer.
///
/// During a pause no tokens are taken, and tokens refill as usual. A refusal during a pause gives the rest of the
/// pause as its wait. The limiter itself is asked only after the pause, and may refuse then.
///
/// Before the first pause, a check costs one load more than the limiter's own check. From the first pause on, it also
/// reads the clock once more, or twice with a [ramp](Self::ramp). The limiter inside knows nothing of pauses, so
/// callers that use it directly are not stopped.
///
/// # Clocks
///
/// The end of a pause is exact to the clock's tick. An end counts as passed if it lies further ahead than the sum of
/// the longest pause so far and the clock's [`max_step_back`](Clock::max_step_back). So no pause gets longer than
/// this sum, even if the clock wraps, and a larger step back ends a pause early. On a clock that stands still (a
/// frequency of 0) no pause ends.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{ManualClock, Pausable, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// let limiter = RateLimiter::with_clock(Quota::per_second(10), &clock);
/// let polite = Pausable::with_clock(limiter, &clock);
/// assert_eq!(polite.check()?.remaining(), 9);
///
/// polite.pause_for(Duration::from_secs(2)); // Retry-After: 2
/// polite.pause_for(Duration::from_secs(1)); // is over earlier, and changes nothing
/// assert_eq!(polite.check().unwrap_err().to_string(), "rate limit exceeded, retry in 2 s");
///
/// clock.advance(Duration::from_secs(2));
/// assert!(polite.check().is_ok());
/// # Ok::<(), damper::Denied>(())
/// ```
///
/// The limiter inside may be one that other callers use too:
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{Pausable, Quota, RateLimiter};
///
/// static SEARCHES: RateLimiter = RateLimiter::new(Quota::per_second(10));
/// static POLITE: Pausable<&RateLimiter> = Pausable::new(&SEARCHES);
/// assert!(POLITE.check().is_ok());
/// # }
/// ```
#[derive(Debug)]
pub struct Pausable<L, C = DefaultClock> {
    limiter: L,
    /// The tick at which the pause ends, or [`NEVER_PAUSED`].
    until: AtomicU64,
    /// The longest pause so far, in ticks.
    longest: AtomicU64,
    /// How fast calls are let through again after a pause. If it is `None`, all are let through at once.
    ramp: Option<Ramp>,
    turns: Turns,
    clock: C,
}

#[cfg(feature = "std")]
impl<L> Pausable<L> {
    const_unless_loom! {
        /// Wraps a limiter, not paused at first, on the [default clock](DefaultClock).
        #[must_use]
        pub const fn new(limiter: L) -> Self {
            Self::with_clock(limiter, crate::time::Monotonic)
        }
    }
}

impl<L, C: Clock> Pausable<L, C> {
    const_unless_loom! {
        /// Wraps a limiter, not paused at first, on a clock of your own.
        ///
        /// A reference to a clock is a clock too. The limiter may use another clock.
        #[must_use]
        pub const fn with_clock(limiter: L, clock: C) -> Self {
            Self {
                limiter,
                until: AtomicU64::new(NEVER_PAUSED),
                longest: AtomicU64::new(0),
                ramp: None,
                turns: Turns::new(),
                clock,
            }
        }
    }

    /// Lets only a growing share of the calls through to the limiter after a pause. Default: all calls.
    ///
    /// The ramp begins when the pause ends, so the callers that have waited for the end do not all come at once. The
    /// calls that pass are spread evenly, as by the [ramp of a breaker](crate::breaker::BreakerConfigBuilder::ramp).
    /// All other calls are refused. Their wait is the time until at least twice as many calls pass, or all. A later
    /// pause begins a new ramp.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the length of the ramp is zero or more than a day.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{ManualClock, Pausable, Quota, Ramp, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = RateLimiter::with_clock(Quota::UNLIMITED, &clock);
    /// let polite = Pausable::with_clock(limiter, &clock).ramp(Ramp::linear(Duration::from_secs(10)))?;
    /// polite.pause_for(Duration::from_secs(2));
    /// clock.advance(Duration::from_secs(2 + 5));
    /// let passed = (0..100).filter(|_| polite.check().is_ok()).count();
    /// assert!((45..=55).contains(&passed));
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn ramp(self, ramp: Ramp) -> Result<Self, OutOfRange> {
        ramp.check("ramp")?;
        Ok(Self { ramp: Some(ramp), ..self })
    }

    /// Returns the limiter inside.
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Pauses the limiter for `pause` from now on, unless a present pause ends later.
    ///
    /// The pause is rounded up to the clock's tick, and saturates at 2^62 ticks (146 years of nanoseconds).
    pub fn pause_for(&self, pause: Duration) {
        let ticks = ticks_in(pause, self.clock.frequency());
        if ticks == 0 {
            return;
        }
        // ORDERING: Relaxed: `longest` only grows, and the Release swap of `until` below publishes it.
        let mut longest = self.longest.load(Ordering::Relaxed);
        while longest < ticks {
            match self.longest.compare_exchange_weak(longest, ticks, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(present) => longest = present,
            }
        }
        // ORDERING: Acquire, also where the swap fails, as in `rest`. loom-tests: pausable::longer_pause_is_kept.
        let mut until = self.until.load(Ordering::Acquire);
        loop {
            // The clock is read after `until`, as in `rest_until`. loom-tests:
            // pausable::pause_that_ends_later_stands.
            let now = self.clock.now();
            if self.ahead(until, now) >= ticks {
                return;
            }
            // If the end falls on tick 0, which stands for "never paused", the pause ends a tick later.
            let next = now.wrapping_add(ticks).max(NEVER_PAUSED + 1);
            // ORDERING: Release pairs with the Acquire load in `rest` and publishes `longest`. loom-tests:
            // pausable::longer_of_two_pauses_stands, pausable::longer_pause_leaves_no_gap.
            match self.until.compare_exchange_weak(until, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(present) => until = present,
            }
        }
    }

    /// Pauses the limiter until `instant`, unless a present pause ends later.
    #[cfg(feature = "std")]
    pub fn pause_until(&self, instant: std::time::Instant) {
        self.pause_for(instant.saturating_duration_since(std::time::Instant::now()));
    }

    /// Returns the rest of the pause, rounded up to nanoseconds.
    ///
    /// It is zero if the limiter is not paused, and [`Duration::MAX`] if it is paused on a clock that stands still.
    #[must_use]
    pub fn pause_left(&self) -> Duration {
        self.rest().map_or(Duration::ZERO, |rest| rest.duration(self.frequency()).unwrap_or(Duration::MAX))
    }

    /// Returns the rest of the pause, if there is one.
    #[inline]
    fn rest(&self) -> Option<Ticks> {
        // ORDERING: Acquire pairs with the Release swaps in `pause_for`, so that `longest` is no shorter than this pause.
        // loom-tests: pausable::longer_pause_leaves_no_gap.
        let until = self.until.load(Ordering::Acquire);
        if until == NEVER_PAUSED { None } else { self.rest_until(until) }
    }

    #[cold]
    fn rest_until(&self, until: u64) -> Option<Ticks> {
        // The clock is read after `until`. In the other order, another thread could begin a pause between the two
        // reads. Seen from the earlier reading, the end of that pause would lie too far ahead, and would count as
        // passed. loom-tests: pausable::pause_that_grows_while_it_is_read_still_stands.
        match self.ahead(until, self.clock.now()) {
            0 => None,
            ticks => Some(Ticks::new(ticks)),
        }
    }

    /// Returns how many ticks after `now` the pause ends, or 0 if it has ended.
    fn ahead(&self, until: u64, now: u64) -> u64 {
        let ahead = until.wrapping_sub(now);
        // The extra tick is for an end that `pause_for` moved from tick 0 to tick 1. If the end is in the past, the
        // subtraction above wraps to more than 2^63 ticks, which exceeds `farthest`.
        let skew = self.clock.max_step_back().saturating_add(1);
        // ORDERING: Relaxed: the caller loaded `until` with Acquire, which orders this load after that one.
        let farthest = self.longest.load(Ordering::Relaxed).saturating_add(skew).min(i64::MAX as u64);
        if until == NEVER_PAUSED || ahead > farthest { 0 } else { ahead }
    }

    fn frequency(&self) -> Frequency {
        Frequency::from_hertz(self.clock.frequency())
    }

    /// Returns the refusal of `n` tokens by a pause, or by the ramp after it.
    ///
    /// `turn` says whether the ramp lets the call pass. It is [`Turns::take`], which counts the call, or
    /// [`Turns::peek`], which does not.
    #[inline]
    fn refusal(&self, n: u32, turn: impl FnOnce(&Turns, u32, u64) -> bool) -> Option<Denied> {
        // ORDERING: Acquire, as in `rest`.
        let until = self.until.load(Ordering::Acquire);
        if n == 0 || until == NEVER_PAUSED { None } else { self.refusal_until(until, turn) }
    }

    #[cold]
    fn refusal_until(&self, until: u64, turn: impl FnOnce(&Turns, u32, u64) -> bool) -> Option<Denied> {
        let rest = self.rest_until(until).or_else(|| self.returning(until, turn))?;
        Some(Denied::counted_by(self.frequency(), 0, rest, rest))
    }

    /// Returns the wait of a call that the ramp refuses, or `None` if the call may pass.
    ///
    /// The ramp began when the pause ended, at the tick `until`. The wait lasts until at least twice as many calls
    /// pass, or all.
    fn returning(&self, until: u64, turn: impl FnOnce(&Turns, u32, u64) -> bool) -> Option<Ticks> {
        let ramp = self.ramp?;
        let frequency = u128::from(self.clock.frequency());
        let now = self.clock.now();
        let elapsed = match self.ahead(until, now) {
            // After a large step back of the clock the pause counts as passed although `until` lies ahead
            // (see `ahead`). `now - until` then wraps to a long time, so the ramp counts as over too.
            0 => now.wrapping_sub(until),
            // The clock has stepped back by a little since `rest_until` found the pause over.
            _ => 0,
        };
        let elapsed = u128::from(elapsed) * MICROS_PER_SECOND;
        let elapsed = u64::try_from(elapsed.checked_div(frequency)?).unwrap_or(u64::MAX);
        let stage = ramp.stage_at(elapsed)?;
        if turn(&self.turns, stage.parts, scatter(0, until)) {
            return None;
        }
        let ticks = (u128::from(stage.grows_in) * frequency).div_ceil(MICROS_PER_SECOND);
        Some(Ticks::new(u64::try_from(ticks).unwrap_or(LONGEST)))
    }
}

impl<L, C: Clock> Pausable<L, C> {
    /// Takes one token as the limiter's own `check` does, unless the limiter is paused.
    ///
    /// # Errors
    ///
    /// [`Denied`]. During a pause, its wait is the rest of the pause. Otherwise the [ramp](Self::ramp) or the limiter
    /// itself refuses.
    #[inline]
    pub fn check(&self) -> Result<Allowed, Denied>
    where
        L: Checkable,
    {
        self.check_n(1)
    }

    /// Takes `n` tokens as the limiter's own `check_n` does, unless the limiter is paused.
    ///
    /// It takes all of the tokens or none. A call for 0 tokens is always allowed.
    ///
    /// # Errors
    ///
    /// [`Denied`]. During a pause, its wait is the rest of the pause. Otherwise the [ramp](Self::ramp) or the limiter
    /// itself refuses. Only the limiter's own refusal says whether `n` exceeds the burst.
    #[inline]
    pub fn check_n(&self, n: u32) -> Result<Allowed, Denied>
    where
        L: Checkable,
    {
        match self.refusal(n, Turns::take) {
            Some(denied) => Err(denied),
            None => self.limiter.take(n),
        }
    }
}

impl<L: Limiter, C: Clock> Limiter for Pausable<L, C> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        match self.refusal(n, Turns::take) {
            Some(denied) => Err(denied),
            None => self.limiter.try_acquire(n),
        }
    }

    fn forecast(&self, n: u32) -> Forecast<Denied> {
        match self.refusal(n, Turns::peek) {
            Some(denied) => Forecast::Refuse(denied),
            None => self.limiter.forecast(n),
        }
    }

    /// Returns how much of the limit is used. While the limiter is paused, all of it is.
    fn usage(&self) -> Usage {
        let usage = self.limiter.usage();
        match self.rest() {
            Some(rest) => usage.paused_for(rest.duration(self.frequency())),
            None => usage,
        }
    }
}

/// Returns the ticks in a duration, rounded up, at most [`LONGEST`].
///
/// On a clock that stands still, every duration except zero is one tick, which never comes.
fn ticks_in(duration: Duration, frequency: u64) -> u64 {
    if frequency == 0 {
        return u64::from(!duration.is_zero());
    }
    let ticks = duration.as_nanos().saturating_mul(u128::from(frequency)).div_ceil(NANOS_PER_SECOND);
    u64::try_from(ticks).unwrap_or(LONGEST).min(LONGEST)
}

/// A limiter whose check returns [`Allowed`], from which the remaining tokens can be read.
#[diagnostic::on_unimplemented(
    message = "a check of `{Self}` does not return `Allowed`",
    note = "`try_acquire` of the trait `Limiter` works with every limiter"
)]
pub trait Checkable {
    #[doc(hidden)]
    fn take(&self, n: u32) -> Result<Allowed, Denied>;
}

impl<A: Algorithm, C: Clock> Checkable for RateLimiter<A, C> {
    #[inline]
    fn take(&self, n: u32) -> Result<Allowed, Denied> {
        self.check_n(n)
    }
}

impl<C: FixedFrequency> Checkable for RateLimiter32<C> {
    #[inline]
    fn take(&self, n: u32) -> Result<Allowed, Denied> {
        self.check_n(n)
    }
}

impl<L: Limits, C: Clock> Checkable for LimitSet<L, C> {
    #[inline]
    fn take(&self, n: u32) -> Result<Allowed, Denied> {
        self.check_n(n).map_err(|refused| refused.denied())
    }
}

/// Implements [`Checkable`] for a pointer.
macro_rules! checked_by_pointer {
    ($(#[$attribute:meta])* $pointer:ty) => {
        $(#[$attribute])*
        impl<L: Checkable + ?Sized> Checkable for $pointer {
            #[inline]
            fn take(&self, n: u32) -> Result<Allowed, Denied> {
                (**self).take(n)
            }
        }
    };
}

checked_by_pointer!(&L);
checked_by_pointer!(
    #[cfg(feature = "alloc")]
    alloc::boxed::Box<L>
);
checked_by_pointer!(
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    alloc::sync::Arc<L>
);
