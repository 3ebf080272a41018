//! The answers of a check: allowed or denied.

use super::token_bucket::{TakeError, TokenLine};
use crate::quota::Line;
#[cfg(feature = "defmt")]
use crate::time::Micros;
use crate::time::{Frequency, Human, Ticks};
use core::fmt;
use core::time::Duration;

/// The level of a bucket right after a decision.
///
/// Plain numbers, converted when asked. An inlined check does not even compute the ones that its caller never reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Level {
    resets_in: Ticks,
    remaining: u32,
    frequency: Frequency,
}

impl Level {
    #[inline]
    fn of(line: &TokenLine, word: u64, at: u64) -> Self {
        Self { resets_in: line.resets_in(word, at), remaining: line.remaining(word, at), frequency: line.frequency() }
    }
}

/// The tokens were taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Allowed {
    level: Level,
    near_limit: bool,
}

impl Allowed {
    #[inline]
    pub(crate) fn new(line: &TokenLine, word: u64, at: u64) -> Self {
        Self { level: Level::of(line, word, at), near_limit: false }
    }

    /// As `new`, of a level that was computed otherwise.
    #[inline]
    pub(crate) fn counted_by(frequency: Frequency, remaining: u32, resets_in: Ticks) -> Self {
        Self { level: Level { resets_in, remaining, frequency }, near_limit: false }
    }

    /// By a limit that has none.
    pub(super) fn unlimited() -> Self {
        let level = Level { resets_in: Ticks::ZERO, remaining: u32::MAX, frequency: Frequency::from_hertz(1) };
        Self { level, near_limit: false }
    }

    #[inline]
    pub(super) fn with_soft_limit(self, tokens: u32) -> Self {
        Self { near_limit: self.level.remaining < tokens, ..self }
    }

    /// Whether fewer tokens are left than the limiter's [soft limit](super::RateLimiter::soft_limit): time to warn, or
    /// to shed what can wait.
    ///
    /// `false` where no soft limit was set.
    #[must_use]
    pub fn is_near_limit(&self) -> bool {
        self.near_limit
    }

    /// How many more tokens could have been taken at that moment, rounded down.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.level.remaining
    }

    /// The time from that moment until the bucket is full, rounded up to the clock's tick.
    ///
    /// `None` if it never will be.
    #[must_use]
    pub fn resets_in(&self) -> Option<Duration> {
        self.level.resets_in.duration(self.level.frequency)
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed").field("remaining", &self.remaining()).field("resets_in", &self.resets_in()).finish()
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Allowed {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=u32} left", self.remaining());
    }
}

/// The refusal: not all of the tokens are there, and none was taken.
///
/// Owned, 24 bytes, and displayed as a sentence: `rate limit exceeded, retry in 1.2 s`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Denied {
    level: Level,
    /// `ZERO`, which no real wait is, where the call asked for more than the burst.
    wait: Ticks,
}

impl Denied {
    #[inline]
    pub(crate) fn new(line: &TokenLine, word: u64, at: u64, error: TakeError) -> Self {
        let wait = match error {
            TakeError::ExceedsBurst => Ticks::ZERO,
            TakeError::Short(units) => line.wait(units),
            TakeError::Later(wait) => wait,
        };
        Self { level: Level::of(line, word, at), wait }
    }

    /// As `new`, of a level that was computed otherwise.
    ///
    /// A wait of 0 says that no wait helps, because more is asked for than there can ever be.
    #[inline]
    pub(crate) fn counted_by(frequency: Frequency, remaining: u32, resets_in: Ticks, wait: Ticks) -> Self {
        Self { level: Level { resets_in, remaining, frequency }, wait }
    }

    /// Creates the refusal of a limiter of your own: nothing is left, and all of it is back after `wait`.
    ///
    /// The wait is kept in nanoseconds, at least one. Beyond 584 years no wait helps.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::Denied;
    ///
    /// let denied = Denied::after(Duration::from_millis(1_200));
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(1_200)));
    /// assert_eq!(denied.to_string(), "rate limit exceeded, retry in 1.2 s");
    /// assert_eq!(Denied::after(Duration::MAX).retry_after(), None);
    /// ```
    #[must_use]
    pub fn after(wait: Duration) -> Self {
        let nanos = u64::try_from(wait.as_nanos()).map_or(Ticks::NEVER, |nanos| Ticks::new(nanos.max(1)));
        Self::counted_by(Frequency::from_hertz(1_000_000_000), 0, nanos, nanos)
    }

    /// Returns the shortest wait after which the same call succeeds if no other caller takes tokens first.
    ///
    /// Exact to the clock's tick, and never too short: a tick sooner the call is refused. (A wait of more than 2^62 ticks
    /// may be too long.) `None` if no wait helps: the call asks for more than the burst, or the quota never refills.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.exceeds_burst() { None } else { self.wait.duration(self.level.frequency) }
    }

    /// Whether the caller waits longer because of this refusal than because of `other`.
    ///
    /// "More than the burst" outlasts a quota that refills nothing, which outlasts every wait.
    pub(crate) fn outlasts(&self, other: &Self) -> bool {
        let rank = |denied: &Self| {
            let wait = denied.retry_after();
            (denied.exceeds_burst(), wait.is_none(), wait)
        };
        rank(self) > rank(other)
    }

    /// Whether the call asked for more tokens than the burst, so that it can never succeed.
    #[must_use]
    pub fn exceeds_burst(&self) -> bool {
        self.wait == Ticks::ZERO
    }

    /// Whether the burst is 0: all of it is there, and it is nothing.
    fn allows_nothing(&self) -> bool {
        self.exceeds_burst() && self.level.remaining == 0 && self.level.resets_in == Ticks::ZERO
    }

    /// How many tokens could have been taken at that moment, rounded down: fewer than were asked for.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.level.remaining
    }

    /// The time from that moment until the bucket is full, rounded up to the clock's tick.
    ///
    /// `None` if it never will be.
    #[must_use]
    pub fn resets_in(&self) -> Option<Duration> {
        self.level.resets_in.duration(self.level.frequency)
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denied")
            .field("retry_after", &self.retry_after())
            .field("exceeds_burst", &self.exceeds_burst())
            .field("remaining", &self.remaining())
            .field("resets_in", &self.resets_in())
            .finish()
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after() {
            Some(wait) => write!(f, "rate limit exceeded, retry in {}", Human(wait)),
            None if self.allows_nothing() => f.write_str("rate limit exceeded: the burst is 0"),
            None if self.exceeds_burst() => f.write_str("rate limit exceeded: more tokens asked for than the burst"),
            None => f.write_str("rate limit exceeded, and the quota refills nothing"),
        }
    }
}

/// The sentence that is displayed, with the wait in microseconds, rounded up.
#[cfg(feature = "defmt")]
impl defmt::Format for Denied {
    fn format(&self, f: defmt::Formatter<'_>) {
        match self.retry_after() {
            Some(wait) => defmt::write!(f, "rate limit exceeded, retry in {=u64:us}", Micros::of_duration(wait)),
            None if self.allows_nothing() => defmt::write!(f, "rate limit exceeded: the burst is 0"),
            None if self.exceeds_burst() => {
                defmt::write!(f, "rate limit exceeded: more tokens asked for than the burst");
            }
            None => defmt::write!(f, "rate limit exceeded, and the quota refills nothing"),
        }
    }
}

impl core::error::Error for Denied {}

const _: () = assert!(size_of::<Denied>() <= 24, "a refusal is small");
const _: () = assert!(size_of::<Result<Allowed, Denied>>() <= 32, "so is an answer");
