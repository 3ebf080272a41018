//! The breaker in one word of 32 bits.

use super::Word32Error;
use super::times::Times;
use super::word::{
    COOLDOWNS, DEADLINE_BITS, MOST_FAILURES, MOST_PROBES, Phase, Probes, Snapshot, StateWord, UNTIL_BITS,
};
use crate::breaker::{BreakerConfig, CallError, CircuitOpen, State};
use crate::sync::const_unless_loom;
use crate::time::{FixedFrequency, Scale};
use core::fmt;
use core::time::Duration;

/// A breaker in 32 bits, lock-free where the target has atomics of 32: it opens after failures in a row, and probes
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
/// the time half-open by less than 2^-7. The cooldown stops growing after seven times. A permit that is told after
/// exactly 32 changes of the state (or a multiple) is taken for one of the state of now.
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
    word: StateWord,
    settings: Settings,
    clock: C,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    failure_threshold: u32,
    /// In units, after so many times that probes failed.
    cooldowns: [u32; COOLDOWNS],
    until: Times<UNTIL_BITS>,
    /// Microseconds per unit of `until`.
    micros: Scale,
    /// The longest time half-open, and in units; 0 if there is none.
    deadline: Times<DEADLINE_BITS>,
    max_half_open: u32,
    max_probes: u8,
    successes_to_close: u8,
    abandoned_probes_fail: bool,
}

impl Settings {
    const fn new(config: &BreakerConfig, hertz: u64, skew: u64) -> Result<Self, Word32Error> {
        if config.failure_rate().is_some() {
            return Err(Word32Error::Unsupported("failure_rate"));
        } else if config.slow_rate().is_some() {
            return Err(Word32Error::Unsupported("slow_rate"));
        } else if config.probe_failure_rate().is_some() {
            return Err(Word32Error::Unsupported("probe_failure_rate"));
        } else if config.cooldown_jitter() > 0 {
            return Err(Word32Error::Unsupported("cooldown_jitter"));
        }
        let (probes, successes) = (config.max_probes(), config.successes_to_close());
        if config.failure_threshold() > MOST_FAILURES {
            return Err(Word32Error::FailureThreshold(config.failure_threshold()));
        } else if probes > MOST_PROBES || successes > MOST_PROBES {
            return Err(Word32Error::Probes(if probes > successes { probes } else { successes }));
        }
        let longest = config.max_cooldown();
        let until = match Times::up_to(longest, hertz, skew) {
            Ok(times) => times,
            Err(error) => return Err(error),
        };
        let mut cooldowns = [0; COOLDOWNS];
        // In nanoseconds, so that none is rounded down to less than the settings say.
        let (mut nanos, mut reopens) = (config.cooldown().as_nanos(), 0);
        while reopens < COOLDOWNS {
            // At most 100 days.
            cooldowns[reopens] = until.units_in(Duration::from_nanos(nanos as u64), hertz);
            nanos = nanos * config.factor_in_thousandths() as u128 / 1_000;
            if nanos > longest.as_nanos() {
                nanos = longest.as_nanos();
            }
            reopens += 1;
        }
        let half_open = match config.max_half_open() {
            Some(longest) => longest,
            None => Duration::ZERO,
        };
        let deadline = match Times::up_to(half_open, hertz, skew) {
            Ok(times) => times,
            Err(error) => return Err(error),
        };
        Ok(Self {
            failure_threshold: config.failure_threshold(),
            cooldowns,
            micros: until.micros(hertz),
            until,
            max_half_open: deadline.units_in(half_open, hertz),
            deadline,
            max_probes: probes as u8,
            successes_to_close: successes as u8,
            abandoned_probes_fail: config.abandoned_probes_fail(),
        })
    }

    /// How many probes are needed at the most.
    const fn sample(&self) -> u32 {
        if self.max_probes > self.successes_to_close { self.max_probes as u32 } else { self.successes_to_close as u32 }
    }
}

impl<C: FixedFrequency + Copy> CircuitBreaker32<C> {
    const_unless_loom! {
        /// A closed breaker.
        ///
        /// # Errors
        ///
        /// [`Word32Error`], which names the setting that does not fit, or that it does not have.
        pub const fn new(config: BreakerConfig, clock: C) -> Result<Self, Word32Error> {
            match Settings::new(&config, C::HERTZ, C::MAX_STEP_BACK) {
                Ok(settings) => Ok(Self { word: StateWord::closed(), settings, clock }),
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
        let current = self.word.load();
        let generation = if current.is_closed() { current.generation() } else { self.admit_slow()? };
        Ok(Permit32 { breaker: self, generation, settled: false })
    }

    /// Makes one call if it may; `Err` is a failure, and so is unwinding.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was not made, [`CallError::Failed`] with its error if it was.
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        let unwinding = FailsIfDropped(Some(self.try_acquire().map_err(CallError::Open)?));
        let result = call();
        unwinding.record(&result);
        result.map_err(CallError::Failed)
    }

    /// Returns the state that a call would find now.
    ///
    /// An open breaker whose cooldown is over is half-open, though no probe has passed yet. A breaker that was half-open
    /// for longer than `max_half_open` is open, though no call has found it so yet.
    pub fn state(&self) -> State {
        match self.word.load().phase() {
            Phase::Closed { .. } => State::Closed,
            Phase::Open { until } if self.left(until) > 0 => State::Open,
            Phase::HalfOpen(probes) if self.is_over(probes) => State::Open,
            Phase::Open { .. } | Phase::HalfOpen(_) => State::HalfOpen,
            Phase::ForcedOpen => State::ForcedOpen,
            Phase::ForcedClosed => State::ForcedClosed,
        }
    }

    /// Opens the breaker until somebody [resets](Self::reset) it.
    pub fn force_open(&self) {
        self.force(Phase::ForcedOpen);
    }

    /// Closes the breaker until somebody [resets](Self::reset) it: every call passes, and none is counted.
    pub fn force_closed(&self) {
        self.force(Phase::ForcedClosed);
    }

    /// Closes the breaker, with nothing counted, and ends whatever it was forced to. Calls that are under way tell it
    /// nothing any more.
    pub fn reset(&self) {
        self.force(Phase::Closed { failures: 0 });
    }

    fn force(&self, phase: Phase) {
        self.settle(None, |current| current.next(0, phase));
    }

    /// The generation of the call that may be made.
    #[cold]
    fn admit_slow(&self) -> Result<u32, CircuitOpen> {
        loop {
            let current = self.word.load();
            let (next, is_admitted) = match current.phase() {
                Phase::Closed { .. } | Phase::ForcedClosed => return Ok(current.generation()),
                Phase::ForcedOpen => return Err(CircuitOpen::FORCED),
                Phase::Open { until } => match self.left(until) {
                    0 => (current.next(current.reopens(), self.first_probe()), true),
                    left => return Err(CircuitOpen::for_micros(self.micros(left))),
                },
                Phase::HalfOpen(probes) if self.is_over(probes) => (self.reopened(current), false),
                Phase::HalfOpen(Probes { out, succeeded, deadline }) => {
                    // Not more in flight than allowed, nor more than can still be needed.
                    if out >= self.settings.max_probes.into() || out + succeeded >= self.settings.sample() {
                        return Err(CircuitOpen::PROBING);
                    }
                    (current.with(Phase::HalfOpen(Probes { out: out + 1, succeeded, deadline })), true)
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

    fn first_probe(&self) -> Phase {
        let deadline = self.settings.deadline.after(self.now(), self.settings.max_half_open);
        Phase::HalfOpen(Probes { out: 1, succeeded: 0, deadline })
    }

    /// Whether the time half-open is over.
    fn is_over(&self, probes: Probes) -> bool {
        let Settings { deadline, max_half_open, .. } = &self.settings;
        *max_half_open > 0 && deadline.left(probes.deadline, self.now()) == 0
    }

    /// What is left of the cooldown, in units.
    fn left(&self, until: u32) -> u32 {
        self.settings.until.left(until, self.now())
    }

    /// So many units in microseconds, rounded up.
    fn micros(&self, units: u32) -> u64 {
        let Scale { mult, shift } = self.settings.micros;
        (u64::from(units) * mult + ((1 << shift) - 1)) >> shift
    }

    /// Open, after so many times that probes failed.
    fn opened(&self, current: Snapshot, reopens: usize) -> Snapshot {
        let cooldown = self.settings.cooldowns[reopens.min(COOLDOWNS - 1)];
        current.next(reopens, Phase::Open { until: self.settings.until.after(self.now(), cooldown) })
    }

    fn reopened(&self, current: Snapshot) -> Snapshot {
        self.opened(current, current.reopens() + 1)
    }

    #[inline]
    fn succeeded(&self, generation: u32) {
        if !self.word.load().is_closed_without_failure(generation) {
            self.succeeded_slow(generation);
        }
    }

    #[cold]
    fn succeeded_slow(&self, generation: u32) {
        self.settle(Some(generation), |current| match current.phase() {
            Phase::Closed { .. } => current.with(Phase::Closed { failures: 0 }),
            Phase::HalfOpen(Probes { succeeded, .. }) if succeeded + 1 >= self.settings.successes_to_close.into() => {
                current.next(0, Phase::Closed { failures: 0 })
            }
            Phase::HalfOpen(Probes { out, succeeded, deadline }) => {
                let probes = Probes { out: out.saturating_sub(1), succeeded: succeeded + 1, deadline };
                current.with(Phase::HalfOpen(probes))
            }
            _ => current,
        });
    }

    #[cold]
    fn failed(&self, generation: u32) {
        self.settle(Some(generation), |current| match current.phase() {
            Phase::Closed { failures } if failures + 1 >= self.settings.failure_threshold => self.opened(current, 0),
            Phase::Closed { failures } => current.with(Phase::Closed { failures: failures + 1 }),
            Phase::HalfOpen(_) => self.reopened(current),
            _ => current,
        });
    }

    /// A call came to no verdict: a probe gives its place back.
    #[cold]
    fn released(&self, generation: u32) {
        self.settle(Some(generation), |current| match current.phase() {
            Phase::HalfOpen(Probes { out, succeeded, deadline }) => {
                current.with(Phase::HalfOpen(Probes { out: out.saturating_sub(1), succeeded, deadline }))
            }
            _ => current,
        });
    }

    /// Brings the word from this turn of the state, or from any, to the next; a result of an earlier turn is dropped.
    fn settle(&self, generation: Option<u32>, next: impl Fn(Snapshot) -> Snapshot) {
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

/// The permission to make one call, and the way to tell its outcome, as a [`Permit`](crate::Permit) is.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once tells no outcome"]
pub struct Permit32<'a, C: FixedFrequency> {
    breaker: &'a CircuitBreaker32<C>,
    generation: u32,
    settled: bool,
}

impl<C: FixedFrequency> Permit32<'_, C> {
    /// The call succeeded.
    #[inline]
    pub fn success(mut self) {
        self.settled = true;
        self.breaker.succeeded(self.generation);
    }

    /// The call failed.
    #[inline]
    pub fn failure(mut self) {
        self.settled = true;
        self.breaker.failed(self.generation);
    }

    /// The call says nothing about what was called: a probe gives its place back.
    #[inline]
    pub fn ignore(mut self) {
        self.settled = true;
        self.breaker.released(self.generation);
    }

    /// The call succeeded if it returned `Ok`, else it failed.
    #[inline]
    pub fn record_result<T, E>(self, result: &Result<T, E>) {
        if result.is_ok() { self.success() } else { self.failure() }
    }
}

impl<C: FixedFrequency> Drop for Permit32<'_, C> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        if self.breaker.settings.abandoned_probes_fail && matches!(self.breaker.word.load().phase(), Phase::HalfOpen(_))
        {
            self.breaker.failed(self.generation);
        } else {
            self.breaker.released(self.generation);
        }
    }
}

/// Tells a failure where the call unwinds.
struct FailsIfDropped<'a, C: FixedFrequency>(Option<Permit32<'a, C>>);

impl<C: FixedFrequency> FailsIfDropped<'_, C> {
    fn record<T, E>(mut self, result: &Result<T, E>) {
        if let Some(permit) = self.0.take() {
            permit.record_result(result);
        }
    }
}

impl<C: FixedFrequency> Drop for FailsIfDropped<'_, C> {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.failure();
        }
    }
}
