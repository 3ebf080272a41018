//! The time that a piece of work may take: [`Deadline`].

// | file | idea |
// |---|---|
// | here | `Deadline`: an instant on a clock, and how far ahead it was when it was set |
// | `detached` | work that continues after its caller's deadline |
// | `exceeded` | the error of work that took too long |
// | `usual_latency` | how long most successes of a healthy server take |
// | `skew_guard` | whether to trust deadlines that have passed on arrival |

#[cfg(feature = "tokio")]
mod detached;
mod exceeded;
mod skew_guard;
pub(crate) mod usual_latency;

#[cfg(feature = "tokio")]
use detached::Detached;
pub use exceeded::DeadlineExceeded;
pub use skew_guard::{Arrival, SkewGuard};
pub use usual_latency::UsualLatency;

use crate::time::{Clock, DefaultClock};
use core::fmt;
use core::time::Duration;

/// The farthest that a deadline lies ahead, in ticks. In nanoseconds that is 146 years.
///
/// The sign of a difference separates past from future. A quarter of the cycle is left for clocks that step back.
const FARTHEST: u64 = 1 << 62;

/// The time that a piece of work may take, as a value.
///
/// It is passed to all parts of the work, across threads and tasks.
///
/// It is set once, where the work begins, and everything below checks the same deadline. So retries, waits and
/// downstream calls share the remaining time instead of having a timeout each. A copy equals the original, and takes 16
/// bytes on the default clock.
///
/// All arithmetic saturates. `remaining` is rounded down to the clock's tick and `elapsed` up. Together they are
/// `specified` until the deadline has passed.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
/// use damper::{Deadline, DeadlineExceeded};
///
/// fn report(deadline: Deadline) -> Result<u32, DeadlineExceeded> {
///     let mut sum = 0;
///     for page in 0..3 {
///         deadline.check()?; // before each costly step
///         sum += page;
///     }
///     Ok(sum)
/// }
///
/// assert_eq!(report(Deadline::after(Duration::from_secs(2))), Ok(3));
/// let error = report(Deadline::after(Duration::ZERO)).unwrap_err();
/// assert_eq!(error.specified(), Duration::ZERO);
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Deadline<C = DefaultClock> {
    /// When it passes, in ticks of the clock. Without meaning if `specified` is [`NEVER`].
    expires: u64,
    /// How far ahead the deadline was when it was set, in nanoseconds.
    specified: u64,
    clock: C,
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The `specified` of a deadline that never passes.
const NEVER: u64 = u64::MAX;

/// The longest `specified`, in nanoseconds: 584 years.
const LONGEST: u64 = u64::MAX - 1;

#[cfg(feature = "std")]
impl Deadline {
    /// The deadline that never passes.
    pub const NEVER: Self = Self { expires: 0, specified: NEVER, clock: crate::time::Monotonic };

    /// Returns the deadline this far ahead, on the [default clock](DefaultClock).
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self::with_clock(duration, crate::time::Monotonic)
    }

    /// Returns the deadline at an instant of the system's clock.
    ///
    /// If the instant has passed, the deadline has no time left.
    #[must_use]
    pub fn at(instant: std::time::Instant) -> Self {
        Self::after(instant.saturating_duration_since(std::time::Instant::now()))
    }
}

impl<C: Clock> Deadline<C> {
    /// Returns the deadline this far ahead of the reading of `clock`.
    ///
    /// A reference to a clock is a clock too. The time is rounded down to the clock's tick, and saturates at 2^62 ticks
    /// (146 years of nanoseconds).
    #[must_use]
    pub fn with_clock(duration: Duration, clock: C) -> Self {
        Self::after_tick(clock.now(), duration, clock)
    }

    /// Returns the deadline this far ahead of a reading of `clock`.
    fn after_tick(now: u64, duration: Duration, clock: C) -> Self {
        let ticks = ticks_in(duration, &clock);
        let specified = u64::try_from(duration.as_nanos()).unwrap_or(LONGEST).min(LONGEST);
        Self { expires: now.wrapping_add(ticks), specified, clock }
    }

    /// Returns a deadline on `clock` that never passes.
    #[must_use]
    pub const fn never(clock: C) -> Self {
        Self { expires: 0, specified: NEVER, clock }
    }

    /// Returns the deadline at a tick of `clock`, which was `specified` ahead when it was set.
    #[cfg(feature = "alloc")]
    pub(crate) fn ending_at(tick: u64, specified: Duration, clock: C) -> Self {
        Self { expires: tick, specified: u64::try_from(specified.as_nanos()).unwrap_or(LONGEST).min(LONGEST), clock }
    }

    /// Returns whether this deadline never passes.
    #[must_use]
    pub const fn is_never(&self) -> bool {
        self.specified == NEVER
    }

    /// Returns the remaining time, rounded down to the clock's tick.
    ///
    /// It is zero once the deadline has passed, and [`Duration::MAX`] if it never does.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.ticks_left().map_or(Duration::MAX, |left| self.remaining_of(left))
    }

    /// Returns the remaining time if so many ticks are left.
    fn remaining_of(&self, left: i64) -> Duration {
        let nanos = match (left, self.clock.frequency()) {
            (..=0, _) => 0,
            (_, 0) => self.specified,
            // A clock that stepped back does not lengthen the deadline.
            (left, frequency) => {
                let nanos = u128::from(left.unsigned_abs()) * NANOS_PER_SECOND / u128::from(frequency);
                u64::try_from(nanos).unwrap_or(u64::MAX).min(self.specified)
            }
        };
        Duration::from_nanos(nanos)
    }

    /// Returns the time since the deadline was set, rounded up to the clock's tick.
    ///
    /// It is zero for a deadline that never passes.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.ticks_left().map_or(Duration::ZERO, |left| self.elapsed_of(left))
    }

    /// Returns the time since the deadline was set, if so many ticks are left.
    fn elapsed_of(&self, left: i64) -> Duration {
        let overdue = match (left, self.clock.frequency()) {
            (1.., _) | (_, 0) => 0,
            (left, frequency) => {
                let nanos = (u128::from(left.unsigned_abs()) * NANOS_PER_SECOND).div_ceil(u128::from(frequency));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        };
        Duration::from_nanos(self.specified).saturating_sub(self.remaining_of(left)) + Duration::from_nanos(overdue)
    }

    /// Returns how far ahead the deadline was when it was set, or [`Duration::MAX`] if it never passes.
    #[must_use]
    pub const fn specified(&self) -> Duration {
        if self.is_never() { Duration::MAX } else { Duration::from_nanos(self.specified) }
    }

    /// Returns the part of the time that has elapsed, from 0 to 1.
    ///
    /// It is 1 once the deadline has passed, and 0 if it never does.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        match self.ticks_left() {
            None => 0.0,
            Some(..=0) => 1.0,
            Some(left) => self.elapsed_of(left).as_secs_f64() / self.specified().as_secs_f64(),
        }
    }

    /// Returns whether the deadline has passed.
    #[inline]
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.ticks_left().is_some_and(|left| left <= 0)
    }

    /// Returns an error if the deadline has passed. Use `?` with it before each costly step.
    ///
    /// # Errors
    ///
    /// [`DeadlineExceeded`], with the specified and the elapsed time.
    #[inline]
    pub fn check(&self) -> Result<(), DeadlineExceeded> {
        if self.is_expired() { Err(self.exceeded()) } else { Ok(()) }
    }

    /// Returns the error of work that cannot end in time.
    #[cold]
    pub(crate) fn exceeded(&self) -> DeadlineExceeded {
        DeadlineExceeded::new(self.specified(), self.elapsed())
    }

    /// Returns the deadline that passes first.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self.is_never(), other.is_never()) {
            (true, _) => return other,
            (_, true) => return self,
            _ => {}
        }
        let now = self.clock.now();
        // Clocks without a size are one clock, such as the default one. A second reading would make `other` seem to pass sooner.
        let others_now = if size_of::<C>() == 0 { now } else { other.clock.now() };
        if other.ticks_left_at(others_now) < self.ticks_left_at(now) { other } else { self }
    }

    /// Returns a deadline for a part of the work: `margin` before this one, set now.
    ///
    /// The margin is the time that the caller needs after the part is done, for example to send the response. If less
    /// than that is left, the new deadline has already passed.
    #[must_use]
    pub fn child(&self, margin: Duration) -> Self
    where
        C: Clone,
    {
        if self.is_never() {
            return Self::never(self.clock.clone());
        }
        // One reading for both, so that this deadline does not pass before the new one.
        let now = self.clock.now();
        let left = self.remaining_of(self.ticks_left_at(now));
        Self::after_tick(now, left.saturating_sub(margin), self.clock.clone())
    }

    /// Returns the ticks until the deadline passes, or `None` if it never does.
    #[inline]
    fn ticks_left(&self) -> Option<i64> {
        if self.is_never() { None } else { Some(self.ticks_left_at(self.clock.now())) }
    }

    /// Returns the ticks from this reading until the deadline passes.
    ///
    /// A deadline without time has none left, even if the clock has stepped back.
    #[inline]
    fn ticks_left_at(&self, now: u64) -> i64 {
        let left = self.expires.wrapping_sub(now) as i64;
        if self.specified == 0 { left.min(0) } else { left }
    }
}

#[cfg(feature = "tokio")]
impl Deadline {
    /// Awaits work until this deadline. After it the work continues as a tokio task.
    ///
    /// Use it for work that must not be lost with the response: an audit record, the filling of a cache, the second
    /// half of a change. A handler's future is dropped at its deadline or when its client disconnects, together with
    /// everything that it awaits. Detached work is moved out before that: it continues, and only its result is dropped.
    /// Until then it runs within the handler, so a handler that ends in time has the result.
    ///
    /// Do not detach work that only the response needs, such as a query. It would continue for a caller that is gone,
    /// and a server under load would work on requests that have ended. No deadline bounds detached work, so give the
    /// work a deadline of its own, and bound its retries. The work ends with the runtime.
    ///
    /// The work runs as a task outside of its request's slot, so no bulkhead or gate around the handler bounds it.
    /// Task-locals and the current tracing span do not follow it. A panic of the task reaches no caller.
    ///
    /// On another runtime, spawn the work before you await it.
    ///
    /// # Errors
    ///
    /// [`DeadlineExceeded`] at the deadline.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, even before its first poll, moves the work into a task of the runtime in which `detach` was
    /// called.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime. The future panics if it has to wait for a deadline while no tokio runtime with a timer
    /// is entered. Even then the work continues as a task.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{Deadline, DeadlineExceeded};
    ///
    /// # async fn record(_: &str) -> u64 { 7 }
    /// async fn transfer(deadline: Deadline) -> Result<u64, DeadlineExceeded> {
    ///     deadline.check()?;
    ///     // The money has moved, so the record is written, whether or not the client still waits.
    ///     let number = deadline.detach(async { record("12.50 to Ada").await }).await?;
    ///     Ok(number)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(transfer(Deadline::after(Duration::from_secs(2))).await, Ok(7));
    /// # }
    /// ```
    #[track_caller]
    pub fn detach<F>(&self, work: F) -> Detached<F::IntoFuture>
    where
        F: IntoFuture<IntoFuture: Send + 'static>,
    {
        Detached::new(*self, work.into_future(), tokio::runtime::Handle::current())
    }
}

/// Converts a duration to ticks, rounded down, at most [`FARTHEST`].
///
/// A clock that stands still has one tick, which never comes.
fn ticks_in(duration: Duration, clock: &impl Clock) -> u64 {
    let frequency = clock.frequency();
    if frequency == 0 {
        return u64::from(!duration.is_zero());
    }
    let ticks = duration.as_nanos().saturating_mul(u128::from(frequency)) / NANOS_PER_SECOND;
    u64::try_from(ticks).unwrap_or(FARTHEST).min(FARTHEST)
}

impl<C: Clock> fmt::Debug for Deadline<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("specified", &self.specified()).field("remaining", &self.remaining()).finish()
    }
}
