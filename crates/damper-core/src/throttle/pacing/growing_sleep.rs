//! The sleep of the strategies that grow it at a rejection.

use super::length::Length;
use super::{Hints, Moment};
use crate::out_of_range::{OutOfRange, check};
use crate::quota::Quota;
use core::time::Duration;

/// The default multiplier, in thousandths.
const DEFAULT_MULTIPLIER: u64 = 1_200;

/// The quota's shortest sleep, and the options of its growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(in crate::throttle) struct GrowingSleep {
    /// The time in which the quota brings one token.
    per_token: Length,
    pub(in crate::throttle) start: Length,
    pub(in crate::throttle) cap: Length,
    /// The multiplier, in thousandths.
    pub(in crate::throttle) multiplier: u64,
}

impl GrowingSleep {
    pub(in crate::throttle) const fn new(quota: &Quota) -> Self {
        let cap = default_cap(quota);
        let per_token = Length::per_token(quota).at_most(cap);
        Self { per_token, start: Length::ZERO, cap, multiplier: DEFAULT_MULTIPLIER }
    }

    pub(in crate::throttle) const fn with_multiplier(mut self, multiplier: f64) -> Result<Self, OutOfRange> {
        check!(check_ratio("multiplier", multiplier, 1.0..=10.0));
        self.multiplier = (multiplier * 1_000.0 + 0.5) as u64;
        Ok(self)
    }

    pub(in crate::throttle) const fn with_cap(mut self, cap: Duration) -> Result<Self, OutOfRange> {
        match capped(cap, self.start) {
            Ok(cap) => {
                self.cap = cap;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    pub(in crate::throttle) const fn with_start(mut self, start: Duration) -> Result<Self, OutOfRange> {
        match started(start, self.cap.duration()) {
            Ok(start) => {
                self.start = start;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the default divisor of a decrease: the limit of the quota, at least 1.
    pub(in crate::throttle) const fn default_divisor(quota: &Quota) -> u32 {
        if quota.limit() == 0 { 1 } else { quota.limit() }
    }

    /// Returns the sleep before a call, with jitter.
    pub(in crate::throttle) fn before_call(&self, learned: u64, moment: Moment) -> Duration {
        self.of_word(learned).jittered(moment.random).duration()
    }

    /// Learns from a response, and returns the sleep before a retry.
    ///
    /// A success shortens the sleep by what `decrease` returns of it.
    pub(in crate::throttle) fn answered(
        &self,
        learned: &mut u64,
        hints: &Hints,
        moment: Moment,
        decrease: impl FnOnce(Length) -> Length,
    ) -> Duration {
        if hints.is_rejected() {
            return self.rejected(learned).jittered(moment.random).duration();
        }
        let sleep = self.of_word(*learned);
        // By at least the smallest unit, so that the sleep ends at zero.
        *learned = Self::word(sleep.minus(decrease(sleep).at_least(Length(1))));
        Duration::ZERO
    }

    /// Returns the shortest sleep: the time of a token, at most the cap.
    pub(in crate::throttle) const fn min_sleep(&self) -> Length {
        self.per_token.at_most(self.cap)
    }

    /// Returns the sleep of a word. The word 0 is that of a pacer without responses.
    pub(in crate::throttle) const fn of_word(&self, word: u64) -> Length {
        match word {
            0 => self.start,
            word => Length(word - 1),
        }
    }

    /// Returns the word of a sleep.
    pub(in crate::throttle) const fn word(sleep: Length) -> u64 {
        sleep.0 + 1
    }

    /// Grows the sleep at a rejection: adds the shortest sleep, and then multiplies the sum.
    ///
    /// The sum is slept before the multiplication. Returns the sleep before the retry, without jitter.
    const fn rejected(&self, learned: &mut u64) -> Length {
        let sleep = self.of_word(*learned).plus(self.min_sleep()).at_most(self.cap);
        *learned = Self::word(sleep.thousandths(self.multiplier).at_most(self.cap));
        sleep
    }
}

/// Returns the default cap of a strategy: the quota's window, from a second to a day.
pub(super) const fn default_cap(quota: &Quota) -> Length {
    Length::of(quota.window()).at_least(Length::of(Duration::from_secs(1))).at_most(Length::DAY)
}

/// Returns a cap, if it is in range and not below the start.
pub(super) const fn capped(cap: Duration, start: Length) -> Result<Length, OutOfRange> {
    check!(check_duration("cap", cap, Duration::from_micros(1)..=Length::DAY.duration()));
    match started(start.duration(), cap) {
        Ok(_) => Ok(Length::of(cap)),
        Err(error) => Err(error),
    }
}

/// Returns a start, if it is not above the cap.
pub(super) const fn started(start: Duration, cap: Duration) -> Result<Length, OutOfRange> {
    check!(check_duration("start", start, Duration::ZERO..=cap), "(the cap)");
    Ok(Length::of(start))
}

/// The options of every strategy with a [`GrowingSleep`] as its `sleep`.
macro_rules! sleep_options {
    () => {
        /// Sets the factor by which a rejection multiplies the sleep, rounded to thousandths; 1.0 to 10.0.
        ///
        /// Default: 1.2.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] if it is out of this range.
        pub const fn multiplier(mut self, multiplier: f64) -> Result<Self, OutOfRange> {
            match self.sleep.with_multiplier(multiplier) {
                Ok(sleep) => {
                    self.sleep = sleep;
                    Ok(self)
                }
                Err(error) => Err(error),
            }
        }

        /// Sets the longest sleep, before jitter; 1 µs to 1 day.
        ///
        /// Default: the window of the quota, at least a second and at most a day.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] if it is out of this range, or below the start.
        pub const fn cap(mut self, longest: Duration) -> Result<Self, OutOfRange> {
            match self.sleep.with_cap(longest) {
                Ok(sleep) => {
                    self.sleep = sleep;
                    Ok(self)
                }
                Err(error) => Err(error),
            }
        }
    };
}

/// The option of strategies that sleep before the first call.
macro_rules! start_option {
    () => {
        /// Sets the sleep before the first call; at most the [cap](Self::cap). Default: none.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] if it is longer than the cap.
        pub const fn start(mut self, sleep: Duration) -> Result<Self, OutOfRange> {
            match self.sleep.with_start(sleep) {
                Ok(sleep) => {
                    self.sleep = sleep;
                    Ok(self)
                }
                Err(error) => Err(error),
            }
        }
    };
}

/// The option of strategies whose successes take a part off the sleep.
macro_rules! divisor_option {
    () => {
        /// Sets the divisor of the decrease; at least 1. Default: the limit of the quota.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] if it is 0.
        pub const fn divisor(mut self, divisor: u32) -> Result<Self, OutOfRange> {
            check!(check_count("divisor", divisor as u64, 1..=u64::MAX));
            self.divisor = divisor;
            Ok(self)
        }
    };
}

pub(in crate::throttle) use {divisor_option, sleep_options, start_option};
