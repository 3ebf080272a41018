//! The breaker in one word of 32 bits.

use super::breaker_settings::BreakerSettings32;
use super::{FixedBreaker, unsupported};
use crate::breaker::state_word::{Phase, Snapshot, StateWord};
use crate::breaker::transitions::Transitions;
use crate::breaker::{BreakerConfig, CallError, Cause, CircuitOpen, Permit, State, Verdict, guarded_call};
use crate::out_of_range::OutOfRange;
use crate::sync::const_unless_loom;
use crate::time::FixedFrequency;
use core::fmt;
use core::time::Duration;

/// A breaker in 32 bits, lock-free where the target has atomics of 32.
///
/// It opens after consecutive failures, and probes when its cooldown is over.
///
/// Works as a [`CircuitBreaker`](crate::CircuitBreaker) does, of which it has the settings `failure_threshold`,
/// `cooldown`, `cooldown_factor`, `max_cooldown`, `max_probes`, `successes_to_close`, `max_half_open` and
/// `abandoned_probes_fail`; no rates, no listener, no jitter, no ramp. A server's `Retry-After` extends no cooldown. Its settings are
/// constants: the word counts times in units of the longest cooldown, so no other settings fit a word in use.
///
/// # Range
///
/// At most 2^21 - 1 failures, and 31 probes and successes. The longest cooldown and the longest time half-open are less
/// than 2^62 ticks of the clock: 146 years of nanoseconds. Cooldowns are rounded up, by less than 2^-17 of the longest;
/// the time half-open by less than 2^-7. The cooldown stops growing after seven times. A result that is
/// recorded after exactly 32 state changes (or a multiple) is taken for one of the present state.
///
/// Times circle. An open breaker that no call asks for four times its longest cooldown may be open for one cooldown
/// more. A half-open breaker may likewise stay so for one `max_half_open` more.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::{BreakerConfig, CircuitBreaker32, CoarseClock};
///
/// static TIME: CoarseClock = CoarseClock::new(); // or a timer of your own
/// static SENSOR: CircuitBreaker32<&CoarseClock> = match CircuitBreaker32::new(BreakerConfig::DEFAULT, &TIME) {
///     Ok(breaker) => breaker,
///     Err(_) => panic!("does not fit"),
/// };
///
/// for _ in 0..5 {
///     assert!(SENSOR.call(|| Err::<u16, _>("no answer")).is_err());
/// }
/// assert_eq!(SENSOR.try_acquire().unwrap_err().to_string(), "circuit open, next probe in 31 s"); // rounded up
/// ```
pub struct CircuitBreaker32<C> {
    word: StateWord<u32>,
    settings: BreakerSettings32,
    clock: C,
}

impl<C: FixedFrequency + Copy> CircuitBreaker32<C> {
    const_unless_loom! {
        /// A closed breaker.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`] of a setting that does not fit, or that it does not have, or of the clock if its ticks wrap too soon.
        pub const fn new(config: BreakerConfig, clock: C) -> Result<Self, OutOfRange> {
            if config.failure_rate().is_some() {
                return Err(unsupported("failure_rate"));
            }
            let max_half_open = match config.max_half_open() {
                Some(longest) => longest,
                None => Duration::ZERO,
            };
            match BreakerSettings32::new(&config, max_half_open, C::HERTZ, C::MAX_STEP_BACK) {
                Ok(settings) => Ok(Self { word: StateWord::<u32>::closed(), settings, clock }),
                Err(error) => Err(error),
            }
        }
    }
}

impl<C: FixedFrequency> CircuitBreaker32<C> {
    /// Makes one call if the breaker lets it pass. `Err` is a failure, and so is a panic.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        guarded_call(self, call, Verdict::of)
    }

    /// Returns a permit for one call.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with all its probes in flight.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, CircuitOpen> {
        Permit::admitted_by(self)
    }

    /// Returns the state that a call would find now.
    ///
    /// An open breaker whose cooldown is over is half-open, though no probe has passed yet. A breaker that was half-open
    /// for longer than `max_half_open` is open, though no call has found it so yet.
    pub fn state(&self) -> State {
        self.state_of(self.word.load()).0
    }

    /// Opens the breaker for its cooldown, as too many failures would, whatever its state.
    ///
    /// After the cooldown the breaker is probed. It ends every forced state. Results of in-flight calls are discarded.
    pub fn trip(&self) {
        Transitions::trip(self);
    }

    /// Opens the breaker until it is [reset](Self::reset).
    pub fn force_open(&self) {
        self.force(Phase::ForcedOpen);
    }

    /// Closes the breaker until it is [reset](Self::reset): every call passes, and none is counted.
    pub fn force_closed(&self) {
        self.force(Phase::ForcedClosed);
    }

    /// Closes the breaker with nothing counted, and ends every forced state.
    ///
    /// Results of in-flight calls are discarded.
    pub fn reset(&self) {
        self.force(Phase::Closed { failures: 0 });
    }
}

impl<C: FixedFrequency> Transitions for CircuitBreaker32<C> {
    type Word = u32;
    type Now = u64;
    type Request = ();
    type Settings<'a>
        = &'a BreakerSettings32
    where
        Self: 'a;

    #[inline]
    fn word(&self) -> &StateWord<u32> {
        &self.word
    }

    #[inline]
    fn settings(&self) -> &BreakerSettings32 {
        &self.settings
    }

    /// They do not change.
    #[inline]
    fn are_in_force(&self, _: &&BreakerSettings32) -> bool {
        true
    }

    /// Out of line, to be there once.
    #[inline(never)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    #[inline]
    fn cooldown(&self, _: Duration) {}

    #[inline]
    fn changed(&self, _: Snapshot<u32>, _: Snapshot<u32>, _: Option<Cause>) {}
}

impl<C: FixedFrequency> FixedBreaker for CircuitBreaker32<C> {
    #[inline]
    fn counts_successes(&self) -> bool {
        false
    }

    #[inline]
    fn abandoned_probes_fail(&self) -> bool {
        self.settings.abandoned_probes_fail
    }
}

impl<C> fmt::Debug for CircuitBreaker32<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker32").field("phase", &self.word.load().phase()).finish_non_exhaustive()
    }
}
