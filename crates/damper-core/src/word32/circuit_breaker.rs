//! The breaker in one word of 32 bits.

use super::breaker_settings::BreakerSettings32;
use super::state_word::{Phase32, Probes32, Snapshot32, StateWord32};
use super::{Permit32, Word32Error};
use crate::breaker::permit::FailOnUnwind;
use crate::breaker::{BreakerConfig, CallError, CircuitOpen, State};
use crate::sync::const_unless_loom;
use crate::time::FixedFrequency;
use core::fmt;

/// A breaker in 32 bits, lock-free where the target has atomics of 32: it opens after consecutive failures, and probes
/// when its cooldown is over.
///
/// Works as a [`CircuitBreaker`](crate::CircuitBreaker) does, of which it has the settings `failure_threshold`,
/// `cooldown`, `cooldown_factor`, `max_cooldown`, `max_probes`, `successes_to_close`, `max_half_open` and
/// `abandoned_probes_fail`; no rates, no listener, no jitter.
///
/// # Range
///
/// At most 2^21 - 1 failures, and 31 probes and successes. The longest cooldown and the longest time half-open are less
/// than 2^62 ticks of the clock: 146 years of nanoseconds. Cooldowns are rounded up, by less than 2^-17 of the longest;
/// the time half-open by less than 2^-7. The cooldown stops growing after seven times. A result that is
/// recorded after exactly 32 state changes (or a multiple) is taken for one of the present state.
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
    word: StateWord32,
    settings: BreakerSettings32,
    clock: C,
}

impl<C: FixedFrequency + Copy> CircuitBreaker32<C> {
    const_unless_loom! {
        /// A closed breaker.
        ///
        /// # Errors
        ///
        /// [`Word32Error`], which names the setting that does not fit, or that it does not have.
        pub const fn new(config: BreakerConfig, clock: C) -> Result<Self, Word32Error> {
            match BreakerSettings32::new(&config, C::HERTZ, C::MAX_STEP_BACK) {
                Ok(settings) => Ok(Self { word: StateWord32::closed(), settings, clock }),
                Err(error) => Err(error),
            }
        }
    }
}

impl<C: FixedFrequency> CircuitBreaker32<C> {
    /// Asks to make one call.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with its probes out.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit32<'_, C>, CircuitOpen> {
        Ok(Permit32::new(self, self.admit()?))
    }

    /// Makes one call if the breaker lets it pass. `Err` is a failure, and so is a panic.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was not made, [`CallError::Failed`] with its error if it was.
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        let generation = self.admit()?;
        let guard = FailOnUnwind::recorded_by(|| self.failed(generation));
        let result = call();
        guard.over();
        if result.is_ok() {
            self.succeeded(generation);
        } else {
            self.failed(generation);
        }
        result.map_err(CallError::Failed)
    }

    /// Returns the state that a call would find now.
    ///
    /// An open breaker whose cooldown is over is half-open, though no probe has passed yet. A breaker that was half-open
    /// for longer than `max_half_open` is open, though no call has found it so yet.
    pub fn state(&self) -> State {
        match self.word.load().phase() {
            Phase32::Closed { .. } => State::Closed,
            Phase32::Open { until } if self.left(until) > 0 => State::Open,
            Phase32::HalfOpen(probes) if self.is_over(probes) => State::Open,
            Phase32::Open { .. } | Phase32::HalfOpen(_) => State::HalfOpen,
            Phase32::ForcedOpen => State::ForcedOpen,
            Phase32::ForcedClosed => State::ForcedClosed,
        }
    }

    /// Opens the breaker until it is [reset](Self::reset).
    pub fn force_open(&self) {
        self.force(Phase32::ForcedOpen);
    }

    /// Closes the breaker until it is [reset](Self::reset): every call passes, and none is counted.
    pub fn force_closed(&self) {
        self.force(Phase32::ForcedClosed);
    }

    /// Closes the breaker with nothing counted, and ends every forced state. Results of in-flight calls are discarded.
    pub fn reset(&self) {
        self.force(Phase32::Closed { failures: 0 });
    }

    fn force(&self, phase: Phase32) {
        self.settle(None, |current| current.next(0, phase));
    }

    /// Lets a call pass, which belongs to the generation that is returned, or refuses it.
    #[inline]
    fn admit(&self) -> Result<u32, CircuitOpen> {
        let current = self.word.load();
        if current.is_closed() { Ok(current.generation()) } else { self.admit_slow() }
    }

    #[cold]
    fn admit_slow(&self) -> Result<u32, CircuitOpen> {
        loop {
            let current = self.word.load();
            let (next, is_admitted) = match current.phase() {
                Phase32::Closed { .. } | Phase32::ForcedClosed => return Ok(current.generation()),
                Phase32::ForcedOpen => return Err(CircuitOpen::FORCED),
                Phase32::Open { until } => match self.left(until) {
                    0 => (current.next(current.reopens(), self.first_probe()), true),
                    left => return Err(CircuitOpen::for_micros(self.settings.micros(left))),
                },
                Phase32::HalfOpen(probes) if self.is_over(probes) => (self.reopened(current), false),
                Phase32::HalfOpen(Probes32 { in_flight, succeeded, deadline }) => {
                    // Not more in flight than allowed, nor more than can still be needed.
                    if in_flight >= self.settings.max_probes.into()
                        || in_flight + succeeded >= self.settings.decisive_probes()
                    {
                        return Err(CircuitOpen::PROBING);
                    }
                    (current.with(Phase32::HalfOpen(Probes32 { in_flight: in_flight + 1, succeeded, deadline })), true)
                }
            };
            if self.word.replace(current, next) && is_admitted {
                return Ok(next.generation());
            }
        }
    }

    /// Out of line, to be there once.
    #[inline(never)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn first_probe(&self) -> Phase32 {
        let deadline = self.settings.half_open_until(self.now());
        Phase32::HalfOpen(Probes32 { in_flight: 1, succeeded: 0, deadline })
    }

    /// Whether `max_half_open` has passed, where there is one.
    fn is_over(&self, probes: Probes32) -> bool {
        self.settings.is_half_open_over(probes.deadline, || self.now())
    }

    /// What is left of the cooldown, in units.
    fn left(&self, until: u32) -> u32 {
        self.settings.open_left(until, self.now())
    }

    /// The open state, after so many times that probes failed.
    fn opened(&self, current: Snapshot32, reopens: usize) -> Snapshot32 {
        current.next(reopens, Phase32::Open { until: self.settings.open_until(reopens, self.now()) })
    }

    fn reopened(&self, current: Snapshot32) -> Snapshot32 {
        self.opened(current, current.reopens() + 1)
    }

    #[inline]
    pub(super) fn succeeded(&self, generation: u32) {
        if !self.word.load().is_closed_without_failure(generation) {
            self.succeeded_slow(generation);
        }
    }

    #[cold]
    fn succeeded_slow(&self, generation: u32) {
        self.settle(Some(generation), |current| match current.phase() {
            Phase32::Closed { .. } => current.with(Phase32::Closed { failures: 0 }),
            Phase32::HalfOpen(Probes32 { succeeded, .. })
                if succeeded + 1 >= self.settings.successes_to_close.into() =>
            {
                current.next(0, Phase32::Closed { failures: 0 })
            }
            Phase32::HalfOpen(Probes32 { in_flight, succeeded, deadline }) => {
                let probes = Probes32 { in_flight: in_flight.saturating_sub(1), succeeded: succeeded + 1, deadline };
                current.with(Phase32::HalfOpen(probes))
            }
            _ => current,
        });
    }

    #[cold]
    pub(super) fn failed(&self, generation: u32) {
        self.settle(Some(generation), |current| match current.phase() {
            Phase32::Closed { failures } if failures + 1 >= self.settings.failure_threshold => self.opened(current, 0),
            Phase32::Closed { failures } => current.with(Phase32::Closed { failures: failures + 1 }),
            Phase32::HalfOpen(_) => self.reopened(current),
            _ => current,
        });
    }

    /// Records that a call came to no verdict: a probe's place becomes free.
    #[cold]
    pub(super) fn released(&self, generation: u32) {
        self.settle(Some(generation), |current| match current.phase() {
            Phase32::HalfOpen(Probes32 { in_flight, succeeded, deadline }) => current
                .with(Phase32::HalfOpen(Probes32 { in_flight: in_flight.saturating_sub(1), succeeded, deadline })),
            _ => current,
        });
    }

    /// Records that the permit was dropped without a verdict.
    pub(super) fn abandoned(&self, generation: u32) {
        if self.settings.abandoned_probes_fail && matches!(self.word.load().phase(), Phase32::HalfOpen(_)) {
            self.failed(generation);
        } else {
            self.released(generation);
        }
    }

    /// Replaces the word of this generation, or of any where none is given, by `next` of it. The result of a call of
    /// another generation is discarded.
    fn settle(&self, generation: Option<u32>, next: impl Fn(Snapshot32) -> Snapshot32) {
        loop {
            let current = self.word.load();
            if generation.is_some_and(|generation| generation != current.generation()) {
                return;
            }
            let next = next(current);
            if next == current || self.word.replace(current, next) {
                return;
            }
        }
    }
}

impl<C> fmt::Debug for CircuitBreaker32<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker32").field("phase", &self.word.load().phase()).finish_non_exhaustive()
    }
}
