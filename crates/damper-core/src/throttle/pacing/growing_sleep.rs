//! The sleep of the strategies that grow it at a rejection.

use super::length::Length;
use crate::out_of_range::{OutOfRange, check};
use crate::quota::Quota;
use core::time::Duration;

/// The default multiplier, in thousandths.
const DEFAULT_MULTIPLIER: u64 = 1_200;

/// The quota's shortest sleep, and the options of its growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct GrowingSleep {
    /// The time in which the quota brings one token.
    per_token: Length,
    pub(super) start: Length,
    pub(super) cap: Length,
    /// The multiplier, in thousandths.
    pub(super) multiplier: u64,
}

impl GrowingSleep {
    pub(super) const fn new(quota: &Quota) -> Self {
        let cap = default_cap(quota);
        let per_token = Length::per_token(quota).at_most(cap);
        Self { per_token, start: Length::ZERO, cap, multiplier: DEFAULT_MULTIPLIER }
    }

    pub(super) const fn with_multiplier(mut self, multiplier: f64) -> Result<Self, OutOfRange> {
        check!(check_ratio("multiplier", multiplier, 1.0..=10.0));
        self.multiplier = (multiplier * 1_000.0 + 0.5) as u64;
        Ok(self)
    }

    pub(super) const fn with_cap(mut self, cap: Duration) -> Result<Self, OutOfRange> {
        match capped(cap, self.start) {
            Ok(cap) => {
                self.cap = cap;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) const fn with_start(mut self, start: Duration) -> Result<Self, OutOfRange> {
        match started(start, self.cap.duration()) {
            Ok(start) => {
                self.start = start;
                Ok(self)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the shortest sleep: the time of a token, at most the cap.
    pub(super) const fn min_sleep(&self) -> Length {
        self.per_token.at_most(self.cap)
    }

    /// Returns the sleep of a word. The word 0 is that of a pacer without responses.
    pub(super) const fn of_word(&self, word: u64) -> Length {
        match word {
            0 => self.start,
            word => Length(word - 1),
        }
    }

    /// Returns the word of a sleep.
    pub(super) const fn word(sleep: Length) -> u64 {
        sleep.0 + 1
    }

    /// Grows the sleep at a rejection: adds the shortest sleep, and then multiplies the sum.
    ///
    /// The sum is slept before the multiplication. Returns the sleep before the retry, without jitter.
    pub(super) const fn rejected(&self, learned: &mut u64) -> Length {
        let sleep = self.of_word(*learned).plus(self.min_sleep()).at_most(self.cap);
        *learned = Self::word(sleep.thousandths(self.multiplier).at_most(self.cap));
        sleep
    }

    /// Shortens the sleep by `decrease`, and by at least the smallest unit, so that it ends at zero.
    pub(super) const fn accepted(&self, learned: &mut u64, decrease: Length) {
        *learned = Self::word(self.of_word(*learned).minus(decrease.at_least(Length(1))));
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
