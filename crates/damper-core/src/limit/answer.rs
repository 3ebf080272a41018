//! The answers of a check: [`Allowed`] and [`Denied`].

#[cfg(test)]
mod tests;

use super::LimitSetDenied;
use super::token_bucket::{TakeError, TokenLine};
use crate::breaker::source_of;
use crate::quota::{Line, Tempo};
#[cfg(feature = "defmt")]
use crate::time::Micros;
use crate::time::{Frequency, Human, Ticks};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::time::Duration;

/// The level of a bucket right after a decision, as plain numbers.
///
/// Few callers ask an answer for tokens or waits. So its methods compute them from these numbers when they are called,
/// and a check does not pay for them even where it is not inlined.
#[derive(Clone, Copy)]
struct Level {
    tempo: Tempo,
    /// How far the bucket is below full, in units (fixed-point fractions of a token).
    ///
    /// It is 0 or less if the bucket is full. It is also 0 if `Level::counted_by` created the level.
    ahead: i64,
    /// The burst in tokens. If `Level::counted_by` created the level, it is the number of tokens left.
    most: u32,
    /// In [`Allowed`], the limiter's soft limit. In [`Denied`], the number of tokens that the call asked for.
    tokens: u32,
}

impl Level {
    #[inline]
    fn of(line: &TokenLine, word: u64, at: u64, tokens: u32) -> Self {
        Self { tempo: line.timeline().tempo(), ahead: word.wrapping_sub(at) as i64, most: line.burst(), tokens }
    }

    /// Creates a level from results that are known already, instead of from the state of a bucket.
    ///
    /// A `wait` of zero means that no wait helps, because the call asks for more than the limiter can ever give. (A
    /// real wait is never zero.)
    #[inline]
    fn counted_by(frequency: Frequency, remaining: u32, resets_in: Ticks, wait: Ticks) -> Self {
        Self { tempo: Tempo::known([resets_in, wait], frequency), ahead: 0, most: remaining, tokens: 0 }
    }

    /// Returns how far the bucket is below full, in units.
    fn debt(&self) -> u64 {
        u64::try_from(self.ahead).unwrap_or(0)
    }

    fn remaining(&self) -> u32 {
        if self.tempo.waits().is_some() {
            self.most
        } else if self.tempo.is_unlimited() {
            u32::MAX
        } else {
            self.tempo.tokens(self.tempo.units(self.most).saturating_sub(self.debt()))
        }
    }

    fn resets_in(&self) -> Option<Duration> {
        let ticks = match self.tempo.waits() {
            Some([resets_in, _]) => resets_in,
            None if self.tempo.is_unlimited() => Ticks::ZERO,
            None => self.tempo.wait(self.debt()),
        };
        ticks.duration(self.tempo.frequency())
    }

    /// Returns the part of the requested tokens that the bucket lacks, in units.
    fn missing(&self) -> u64 {
        // The sum is at most 2^63 + 2^61, so it does not overflow.
        (self.debt() + self.tempo.units(self.tokens)).saturating_sub(self.tempo.units(self.most))
    }

    /// Returns whether the call asked for more tokens than the burst, so that no wait helps.
    fn exceeds_burst(&self) -> bool {
        match self.tempo.waits() {
            Some([_, wait]) => wait == Ticks::ZERO,
            None => self.tokens > self.most,
        }
    }

    /// Returns the wait for the requested tokens, or `None` if they never come.
    ///
    /// The call must not have asked for more tokens than the burst.
    fn retry_after(&self) -> Option<Duration> {
        let ticks = self.tempo.waits().map_or_else(|| self.tempo.wait(self.missing()), |[_, wait]| wait);
        ticks.duration(self.tempo.frequency())
    }
}

/// The answer to an allowed call, whose tokens were taken.
///
/// It is `Copy` and has at most 48 bytes. Its methods compute tokens and waits when they are called. Two answers are
/// equal if all their methods return equal values.
#[derive(Clone, Copy)]
pub struct Allowed {
    level: Level,
}

impl Allowed {
    #[inline]
    pub(crate) fn new(line: &TokenLine, word: u64, at: u64) -> Self {
        Self { level: Level::of(line, word, at, 0) }
    }

    /// Creates an answer from results that are known already, instead of from the state of a bucket.
    #[inline]
    pub(crate) fn counted_by(frequency: Frequency, remaining: u32, resets_in: Ticks) -> Self {
        Self { level: Level::counted_by(frequency, remaining, resets_in, Ticks::ZERO) }
    }

    /// Creates the answer of a limiter that has no limit.
    pub(super) fn unlimited() -> Self {
        Self::counted_by(Frequency::from_hertz(1), u32::MAX, Ticks::ZERO)
    }

    #[inline]
    pub(super) const fn set_soft_limit(&mut self, tokens: u32) {
        self.level.tokens = tokens;
    }

    /// Returns whether fewer tokens are left than the [soft limit](super::RateLimiter::soft_limit).
    ///
    /// If so, it is time to warn, or to shed calls that can wait. It returns `false` if no soft limit was set.
    #[must_use]
    pub fn is_near_limit(&self) -> bool {
        self.remaining() < self.level.tokens
    }

    /// Returns how many more tokens could have been taken at the moment of the decision, rounded down.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.level.remaining()
    }

    /// Returns the time from the decision until the bucket is full again.
    ///
    /// The time is rounded up to the clock's tick. It is `None` if the bucket will never be full.
    #[must_use]
    pub fn resets_in(&self) -> Option<Duration> {
        self.level.resets_in()
    }

    /// Returns the values that equality compares.
    fn told(&self) -> (u32, Option<Duration>, bool) {
        (self.remaining(), self.resets_in(), self.is_near_limit())
    }
}

impl PartialEq for Allowed {
    fn eq(&self, other: &Self) -> bool {
        self.told() == other.told()
    }
}

impl Eq for Allowed {}

impl Hash for Allowed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.told().hash(state);
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

/// The refusal of a call, which took no tokens.
///
/// Either the tokens were not all available, or the limiter was [paused](super::Pausable).
///
/// A refusal is `Copy` and has at most 48 bytes. Its methods compute tokens and waits when they are called. It is
/// displayed as a sentence, such as `rate limit exceeded, retry in 1.2 s`. Two refusals are equal if all their methods
/// return equal values.
#[derive(Clone, Copy)]
pub struct Denied {
    level: Level,
}

impl Denied {
    /// Creates the refusal of a bucket in which fewer than `n` tokens were left.
    #[inline]
    pub(crate) fn of(line: &TokenLine, word: u64, at: u64, n: u32) -> Self {
        Self { level: Level::of(line, word, at, n) }
    }

    /// Creates the refusal of a bucket for the reason `error`.
    #[inline]
    pub(crate) fn new(line: &TokenLine, word: u64, at: u64, error: TakeError) -> Self {
        let wait = match error {
            TakeError::ExceedsBurst => Ticks::ZERO,
            TakeError::Short(units) => line.wait(units),
            TakeError::Later(wait) => wait,
        };
        Self::counted_by(line.frequency(), line.remaining(word, at), line.resets_in(word, at), wait)
    }

    /// Creates a refusal from results that are known already, instead of from the state of a bucket.
    ///
    /// A `wait` of zero means that no wait helps, because the call asks for more than the limiter can ever give.
    #[inline]
    pub(crate) fn counted_by(frequency: Frequency, remaining: u32, resets_in: Ticks, wait: Ticks) -> Self {
        Self { level: Level::counted_by(frequency, remaining, resets_in, wait) }
    }

    /// Creates a refusal for a limiter of your own. No token is left, and all tokens are back after `wait`.
    ///
    /// A `wait` of zero counts as one nanosecond. A `wait` of more than 584 years counts as never.
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
    /// The wait is exact to the clock's tick and never too short. The same call one tick sooner would be refused. (A
    /// wait of more than 2^62 ticks may be too long.)
    ///
    /// Returns `None` if no wait helps, because the call asks for more than the burst or the quota never refills.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.exceeds_burst() { None } else { self.level.retry_after() }
    }

    /// Returns whether this refusal makes a caller wait longer than `other` does.
    ///
    /// Refusals rank in this order, the longest first:
    ///
    /// - The call asks for more tokens than the burst.
    /// - The quota never refills.
    /// - The refusal gives a wait. Of two such refusals, the one with the longer wait comes first.
    pub(crate) fn outlasts(&self, other: &Self) -> bool {
        let rank = |denied: &Self| {
            let wait = denied.retry_after();
            (denied.exceeds_burst(), wait.is_none(), wait)
        };
        rank(self) > rank(other)
    }

    /// Returns whether the call asked for more tokens than the burst, so that it can never succeed.
    #[must_use]
    pub fn exceeds_burst(&self) -> bool {
        self.level.exceeds_burst()
    }

    /// Returns whether the burst is 0.
    ///
    /// A bucket with such a burst is full, and yet no token remains.
    fn allows_nothing(&self) -> bool {
        self.exceeds_burst() && self.remaining() == 0 && self.resets_in() == Some(Duration::ZERO)
    }

    /// Returns how many tokens could have been taken instead, rounded down.
    ///
    /// The number is less than the call asked for.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.level.remaining()
    }

    /// Returns the time from the refusal until the bucket is full again.
    ///
    /// The time is rounded up to the clock's tick. It is `None` if the bucket will never be full.
    #[must_use]
    pub fn resets_in(&self) -> Option<Duration> {
        self.level.resets_in()
    }

    /// Returns the values that equality compares.
    fn told(&self) -> (Option<Duration>, bool, u32, Option<Duration>) {
        (self.retry_after(), self.exceeds_burst(), self.remaining(), self.resets_in())
    }
}

impl PartialEq for Denied {
    fn eq(&self, other: &Self) -> bool {
        self.told() == other.told()
    }
}

impl Eq for Denied {}

impl Hash for Denied {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.told().hash(state);
    }
}

crate::internal::debug_by_display!(Denied);

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

/// Writes the sentence of `Display`, but with the wait in microseconds, rounded up.
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

impl Denied {
    /// Returns the first `Denied` in an error's chain of sources, which starts with the error itself.
    ///
    /// A [`LimitSetDenied`] in the chain counts too. It stands for the refusal that its
    /// [`denied`](LimitSetDenied::denied) returns.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::{Denied, ManualClock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::with_clock(Quota::per_minute(1), ManualClock::new());
    /// limiter.check()?;
    /// let error = std::io::Error::other(limiter.check().unwrap_err());
    /// assert_eq!(Denied::find_in(&error).unwrap().retry_after(), Some(Duration::from_secs(60)));
    /// # }
    /// # Ok::<(), damper::Denied>(())
    /// ```
    #[must_use]
    pub fn find_in(error: &(dyn core::error::Error + 'static)) -> Option<Self> {
        core::iter::successors(Some(error), |error| source_of(*error)).find_map(|error| {
            error.downcast_ref().copied().or_else(|| error.downcast_ref().map(LimitSetDenied::denied))
        })
    }
}

const _: () = assert!(size_of::<Allowed>() <= 48, "a permission is small");
const _: () = assert!(size_of::<Denied>() <= 48, "so is a refusal");
const _: () = assert!(size_of::<Result<Allowed, Denied>>() <= 56, "and an answer");
