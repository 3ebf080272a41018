//! The attempts of a hedge and the delay between them, in one word.

use crate::setting::{LiveValue, sealed::Word};
use crate::sync::Field;
use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

/// The schedule of a hedge.
///
/// ```text
///  63        8 7        0
/// |  DELAY + 1 | ATTEMPTS |
/// ```
///
/// DELAY is in microseconds. The field is 0 if the delay is that of the configuration.
const ATTEMPTS: Field = Field::lowest(8);
const DELAY: Field = ATTEMPTS.then(56);
const _: () = assert!(DELAY.end() == u64::BITS, "fields must tile the word");

/// How many attempts a hedged call makes, and the delay between them.
///
/// These are the settings of a [`Hedge`](super::Hedge) that can change while calls are made, together: see
/// [`Hedge::schedule`](super::Hedge::schedule). How many extra requests there may be is part of its
/// [configuration](super::HedgeConfig), and does not change.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::retry::HedgeSchedule;
///
/// let schedule = HedgeSchedule::new(3).delay(Duration::from_millis(50));
/// assert_eq!((schedule.max_attempts(), schedule.fixed_delay()), (3, Some(Duration::from_millis(50))));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg(feature = "alloc")]
pub struct HedgeSchedule(NonZeroU64);

impl HedgeSchedule {
    /// Makes at most so many attempts of a call, including the first. 0 counts as 1, and more than 5 as 5.
    ///
    /// With 1 no call is hedged. The delay is that of the hedge's [configuration](super::HedgeConfig).
    #[must_use]
    pub const fn new(max_attempts: u32) -> Self {
        let attempts = if max_attempts < 5 { max_attempts as u64 } else { 5 };
        Self::of(ATTEMPTS.put(if attempts == 0 { 1 } else { attempts }))
    }

    /// Sets the delay before each further attempt. Default: that of the hedge's configuration.
    ///
    /// It is rounded up to microseconds. More than 2,000 years count as that.
    #[must_use]
    pub const fn delay(self, delay: Duration) -> Self {
        let (micros, most) = (delay.as_nanos().div_ceil(1_000), (1 << 56) - 2);
        let micros = if micros > most { most as u64 } else { micros as u64 };
        Self::of(ATTEMPTS.put(ATTEMPTS.get(self.0.get())) | DELAY.put(micros + 1))
    }

    /// Returns the maximum number of attempts, including the first.
    #[must_use]
    pub const fn max_attempts(self) -> u32 {
        ATTEMPTS.get(self.0.get()) as u32
    }

    /// Returns the delay before each further attempt, unless it is that of the configuration.
    #[must_use]
    pub const fn fixed_delay(self) -> Option<Duration> {
        match DELAY.get(self.0.get()) {
            0 => None,
            micros => Some(Duration::from_micros(micros - 1)),
        }
    }

    /// Creates a schedule from a word, which has at least one attempt.
    const fn of(word: u64) -> Self {
        match NonZeroU64::new(word) {
            Some(word) => Self(word),
            None => Self(NonZeroU64::MIN),
        }
    }
}

impl LiveValue for HedgeSchedule {}

impl Word for HedgeSchedule {
    #[inline]
    fn to_word(self) -> NonZeroU64 {
        self.0
    }

    #[inline]
    fn of_word(word: NonZeroU64) -> Self {
        Self(word)
    }
}

impl fmt::Debug for HedgeSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeSchedule")
            .field("max_attempts", &self.max_attempts())
            .field("fixed_delay", &self.fixed_delay())
            .finish()
    }
}
