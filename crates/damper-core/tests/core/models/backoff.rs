//! The delays of a backoff, computed step by step in 128 bits.

use damper::Backoff;
use damper::retry::Jitter;
use std::time::Duration;

/// The longest wait in nanoseconds: 292 years.
pub(crate) const LONGEST: u128 = u64::MAX as u128 >> 1;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Growth {
    Constant,
    /// Multiplies by a factor in thousandths.
    Exponential(u32),
    Fibonacci,
    Linear,
}

/// A backoff, and its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowBackoff {
    pub(crate) growth: Growth,
    pub(crate) base: Duration,
    pub(crate) longest: Duration,
    pub(crate) jitter: Jitter,
}

impl SlowBackoff {
    pub(crate) fn backoff(self) -> Backoff {
        let backoff = match self.growth {
            Growth::Constant => Backoff::constant(self.base),
            Growth::Exponential(thousandths) => {
                Backoff::exponential(self.base).factor(f64::from(thousandths) / 1_000.0).expect("in range")
            }
            Growth::Fibonacci => Backoff::fibonacci(self.base),
            Growth::Linear => Backoff::linear(self.base),
        };
        backoff.max_delay(self.longest).jitter(self.jitter)
    }

    pub(crate) fn base_nanos(self) -> u128 {
        self.base.as_nanos().min(LONGEST)
    }

    /// Returns the delay before a retry, in nanoseconds, without jitter.
    pub(crate) fn delay(self, retry: u32) -> u128 {
        if let Growth::Linear = self.growth {
            return (self.base_nanos() * u128::from(retry)).min(LONGEST).min(self.longest.as_nanos());
        }
        let (mut previous, mut delay) = (0, self.base_nanos());
        for _ in 1..retry {
            let next = match self.growth {
                Growth::Constant => delay,
                Growth::Exponential(thousandths) => (delay * u128::from(thousandths)).div_ceil(1_000),
                Growth::Fibonacci => delay + previous,
                Growth::Linear => unreachable!("it has a formula"),
            };
            // From here on the delay stays the same.
            if next == delay && previous == delay || delay == LONGEST {
                break;
            }
            (previous, delay) = (delay, next.min(LONGEST));
        }
        delay.min(self.longest.as_nanos())
    }

    /// Returns the shortest and the longest wait before a retry, in nanoseconds.
    ///
    /// The wait before it was at most `previous`.
    pub(crate) fn bounds(self, retry: u32, previous: u128) -> (u128, u128) {
        let (delay, longest) = (self.delay(retry), self.longest.as_nanos().min(LONGEST));
        let (least, most) = match self.jitter {
            Jitter::Full => (0, delay),
            Jitter::Equal => (delay / 2, delay),
            Jitter::Decorrelated => {
                let base = self.base_nanos().min(longest);
                (base, (previous * 3).max(base))
            }
            Jitter::Spread { thousandths, .. } => {
                let part = delay * u128::from(thousandths) / 1_000;
                (delay - part, delay + part)
            }
            _ => (delay, delay),
        };
        (least, most.min(longest))
    }
}
