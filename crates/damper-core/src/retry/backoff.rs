//! How long to wait before each retry.

use super::jitter::{Draw, Jitter};
use crate::out_of_range::{OutOfRange, check};
#[cfg(feature = "std")]
use crate::time::random;
use crate::time::random::SplitMix;
use core::time::Duration;

/// The longest wait, in nanoseconds: 292 years. Sums and random bounds of such waits fit.
const LONGEST: u64 = u64::MAX >> 1;

const THOUSAND: u32 = 1_000;

const MAX_FACTOR: f64 = 1_000.0;

/// How long to wait before each retry: a growing delay, up to a longest one, with [jitter](Jitter).
///
/// | | before retry `n` | |
/// |---|---|---|
/// | [`exponential`](Backoff::exponential) | `base · factor^(n - 1)` | the default: 100 ms, doubled each time |
/// | [`linear`](Backoff::linear) | `base · n` | grows by the same time each time |
/// | [`fibonacci`](Backoff::fibonacci) | `base · F(n)`: 1, 1, 2, 3, 5 … | grows more slowly |
/// | [`constant`](Backoff::constant) | `base` | |
///
/// All arithmetic saturates: the millionth retry waits for the longest delay. Products are rounded up to nanoseconds.
///
/// # Examples
///
/// A backoff is an iterator of waits, for example in firmware. Devices that fail together must not draw the same numbers, so without `std`
/// they pass a number that differs between devices:
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::Backoff;
///
/// let serial_number = 0x00C0_FFEE;
/// for delay in Backoff::exponential(Duration::from_millis(50)).delays(serial_number).take(5) {
///     assert!(delay <= Duration::from_millis(800));
///     // sleep, and try again
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Backoff {
    growth: Growth,
    /// The first delay in nanoseconds, like all delays here.
    base: u64,
    longest: u64,
    jitter: Jitter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Growth {
    Constant,
    /// Each delay is this many thousandths of the last one, at least 1000.
    Exponential(u32),
    Linear,
    Fibonacci,
}

impl Backoff {
    /// 100 ms, doubled each time, up to 20 s, with [`Jitter::Full`].
    pub const DEFAULT: Self = Self::exponential(Duration::from_millis(100));

    /// Doubles the delay from retry to retry, starting with `base`. See [`factor`](Self::factor).
    #[must_use]
    pub const fn exponential(base: Duration) -> Self {
        Self::new(Growth::Exponential(2 * THOUSAND), base)
    }

    /// Grows the delay by `base` from retry to retry, starting with `base`.
    #[must_use]
    pub const fn linear(base: Duration) -> Self {
        Self::new(Growth::Linear, base)
    }

    /// Grows the delay like the Fibonacci numbers, starting with `base`.
    #[must_use]
    pub const fn fibonacci(base: Duration) -> Self {
        Self::new(Growth::Fibonacci, base)
    }

    /// Waits for the same delay each time.
    #[must_use]
    pub const fn constant(delay: Duration) -> Self {
        Self::new(Growth::Constant, delay)
    }

    const fn new(growth: Growth, base: Duration) -> Self {
        Self { growth, base: nanos(base), longest: 20_000_000_000, jitter: Jitter::Full }
    }

    /// Sets the factor of exponential growth, 1.0 to 1000.0, rounded to thousandths. Default: 2.0.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], if the factor is out of this range.
    pub const fn factor(mut self, factor: f64) -> Result<Self, OutOfRange> {
        check!(check_ratio("factor", factor, 1.0..=MAX_FACTOR));
        self.growth = Growth::Exponential((factor * THOUSAND as f64 + 0.5) as u32);
        Ok(self)
    }

    /// Sets the longest delay. Default: 20 s.
    ///
    /// No wait is longer, with any jitter, unless a server asks for it.
    #[must_use]
    pub const fn max_delay(mut self, longest: Duration) -> Self {
        self.longest = nanos(longest);
        self
    }

    /// Sets the jitter, which is the random part of a delay. Default: [`Jitter::Full`].
    #[must_use]
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the first delay, without jitter.
    #[must_use]
    pub const fn base(&self) -> Duration {
        Duration::from_nanos(self.base)
    }

    /// Returns the longest delay.
    pub(super) const fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// Returns the delay before the retry with this number, counted from 1, without jitter.
    #[must_use]
    pub const fn delay(&self, retry: u32) -> Duration {
        Duration::from_nanos(self.nanos_before(retry))
    }

    /// Returns the waits before successive retries, without end.
    ///
    /// The same seed gives the same waits, which suits a test but not two devices.
    #[must_use]
    pub const fn delays(self, seed: u64) -> Delays {
        Delays { backoff: self, retry: 0, previous: self.base, random: SplitMix::new(seed) }
    }

    /// Draws the wait before a retry.
    pub(super) const fn draw(&self, retry: u32, previous: u64, random: u64) -> u64 {
        let delay = self.nanos_before(retry);
        self.jitter.draw(Draw { delay, base: self.base, previous, longest: self.longest }, random)
    }

    /// Returns the same backoff with another first delay.
    pub(super) const fn beginning_with(mut self, base: Duration) -> Self {
        self.base = nanos(base);
        self
    }

    /// Computes a delay in as many steps as lead to the longest one.
    ///
    /// That is at most 64 steps with the default factor, and 45,000 with the smallest.
    const fn nanos_before(&self, retry: u32) -> u64 {
        let (mut previous, mut delay, mut step) = (0, self.base, 1);
        if let Growth::Linear = self.growth {
            delay = self.base.saturating_mul(if retry > 1 { retry as u64 } else { 1 });
        }
        while step < retry && delay < self.longest && delay > 0 {
            let next = match self.growth {
                Growth::Constant | Growth::Linear | Growth::Exponential(THOUSAND) => break,
                Growth::Exponential(thousandths) => grown(delay, thousandths),
                // F(1) and F(2) are both 1.
                Growth::Fibonacci => delay.saturating_add(previous),
            };
            previous = delay;
            delay = next;
            step += 1;
        }
        if delay < self.longest { delay } else { self.longest }
    }
}

/// Multiplies a delay by a factor in thousandths, rounding up, to at most [`LONGEST`].
const fn grown(delay: u64, thousandths: u32) -> u64 {
    // Nearly every product fits 64 bits, and a 128-bit division takes ten times as long.
    if let Some(product) = delay.checked_mul(thousandths as u64) {
        return product.div_ceil(THOUSAND as u64);
    }
    // Below 2^63 times 10^6.
    let product = (delay as u128 * thousandths as u128).div_ceil(THOUSAND as u128);
    if product > LONGEST as u128 { LONGEST } else { product as u64 }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Iterates with a new random seed each time.
#[cfg(feature = "std")]
impl IntoIterator for Backoff {
    type Item = Duration;
    type IntoIter = Delays;

    fn into_iter(self) -> Delays {
        self.delays(random::draw())
    }
}

/// The waits before successive retries, without end. Made by [`Backoff::delays`].
#[derive(Clone, Debug)]
pub struct Delays {
    backoff: Backoff,
    /// The number of waits returned.
    retry: u32,
    previous: u64,
    random: SplitMix,
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.retry = self.retry.saturating_add(1);
        self.previous = self.backoff.draw(self.retry, self.previous, self.random.next());
        Some(Duration::from_nanos(self.previous))
    }
}

/// Returns the nanoseconds in a duration, at most [`LONGEST`].
const fn nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > LONGEST as u128 { LONGEST } else { nanos as u64 }
}
