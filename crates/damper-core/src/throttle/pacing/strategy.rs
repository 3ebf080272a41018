//! The trait of strategies, which turn responses into sleeps.

use super::Hints;
use core::time::Duration;

/// Decides how long a client sleeps before its calls, as a pure state machine.
///
/// A [`Pacer`](super::Pacer) runs it.
///
/// A strategy has no clock and no randomness of its own: both come in a [`Moment`]. So the same moments and responses give the
/// same sleeps.
///
/// # State
///
/// The state is two words, which a pacer keeps and threads share. Both are 0 at the beginning.
///
/// | word | is changed by | use |
/// |---|---|---|
/// | `learned` | [`answered`](Self::answered) | the state learned from responses: most strategies have no other |
/// | `schedule` | [`schedule`](Self::schedule) | the place of the next call, for strategies that space the calls of all threads |
///
/// Each word is replaced by a compare-and-swap, so no response is lost, and no word is ever a mix of two states. If another
/// thread has replaced the word meanwhile, the pacer calls the method again with the new word and the same moment. So a method
/// must not have effects of its own.
///
/// # Examples
///
/// A strategy of one's own: each rejection doubles the sleep, each success takes a millisecond off.
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::ManualClock;
/// use damper::throttle::{Hints, Moment, Pacer, Strategy};
///
/// /// The word is the sleep in milliseconds.
/// struct Doubling;
///
/// impl Strategy for Doubling {
///     fn before_call(&self, learned: u64, _: Moment) -> Duration {
///         Duration::from_millis(learned)
///     }
///
///     fn answered(&self, learned: &mut u64, hints: &Hints, _: Moment) -> Duration {
///         *learned = if hints.is_rejected() { (*learned * 2).clamp(1, 60_000) } else { learned.saturating_sub(1) };
///         Duration::from_millis(*learned)
///     }
/// }
///
/// let pacer = Pacer::with_clock(Doubling, ManualClock::new(), 7);
/// assert_eq!(pacer.answered(&Hints::REJECTED), Some(Duration::from_millis(1)));
/// assert_eq!(pacer.answered(&Hints::REJECTED), Some(Duration::from_millis(2)));
/// assert_eq!(pacer.answered(&Hints::ACCEPTED), None);
/// assert_eq!(pacer.before_call(), Duration::from_millis(1));
/// ```
pub trait Strategy {
    /// Returns how long to sleep before a call that has not been made yet.
    fn before_call(&self, learned: u64, moment: Moment) -> Duration;

    /// Learns from a response, and returns how long to sleep before the retry, if the call was rejected.
    ///
    /// The pacer does not call [`before_call`](Self::before_call) before a retry.
    fn answered(&self, learned: &mut u64, hints: &Hints, moment: Moment) -> Duration;

    /// Takes a place for a call or a retry that is to sleep for `sleep`, and returns its new sleep.
    ///
    /// Default: returns `sleep`, for strategies without a schedule.
    fn schedule(&self, schedule: &mut u64, learned: u64, sleep: Duration, moment: Moment) -> Duration {
        _ = (schedule, learned, moment);
        sleep
    }

    /// Returns for how long a response stops all calls of the pacer, whatever the strategy's own sleep.
    ///
    /// `learned` is the word before the response.
    ///
    /// Default: a rejection stops them for the time that the service asked for, `retry_after` or else `resets_in`.
    fn pause(&self, learned: u64, hints: &Hints) -> Option<Duration> {
        _ = learned;
        if hints.is_rejected() { hints.retry_after.or(hints.resets_in) } else { None }
    }

    /// Returns the longest time over which calls are spread after a [`pause`](Self::pause) with `left` left.
    ///
    /// Default: a tenth of it.
    fn spread(&self, learned: u64, left: Duration) -> Duration {
        _ = learned;
        left / 10
    }
}

/// The time and the random number of a step of a [`Strategy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Moment {
    /// The pacer's clock, in microseconds.
    ///
    /// Its zero may be anywhere; it may wrap, and step back a little.
    pub micros: u64,
    /// A random number, evenly spread over all 64 bits, different for each step.
    pub random: u64,
}

impl Moment {
    /// Creates a moment, for tests of a strategy and simulations.
    #[must_use]
    pub const fn new(micros: u64, random: u64) -> Self {
        Self { micros, random }
    }
}

/// Never sleeps: a rejected call is retried at once. For comparisons, and to switch pacing off.
///
/// It still honours `Retry-After`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoPacing;

impl Strategy for NoPacing {
    fn before_call(&self, _: u64, _: Moment) -> Duration {
        Duration::ZERO
    }

    fn answered(&self, _: &mut u64, _: &Hints, _: Moment) -> Duration {
        Duration::ZERO
    }
}
