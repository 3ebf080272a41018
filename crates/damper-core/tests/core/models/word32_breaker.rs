//! A plain model of the 32-bit breaker.
//!
//! It has plain fields, one thread, and time in ticks that do not wrap.
//!
//! | packed in the breaker | in the model |
//! |---|---|
//! | times in units of a power of two of ticks, rounded up | exact times; within the rounding either result is right |
//! | times that wrap | likewise, once a time is so old that it may read as a future one |
//! | generations that wrap after 32 | generations that do not wrap; permits hold the lowest 5 bits |

use super::timer::Timer;
use damper::breaker::{Permit, State};
use damper::{BreakerConfig, CircuitBreaker32, CircuitOpen};
use std::collections::VecDeque;
use std::time::Duration;

/// A breaker's settings, restricted to those that fit 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) config: BreakerConfig,
    /// The cooldown's factor in thousandths, which the configuration does not expose.
    pub(crate) factor: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
    Ignored,
    /// The call's permit is dropped.
    Dropped,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A call asks for a permit.
    Acquire,
    /// Ends the oldest or the newest call in flight.
    Record(bool, Outcome),
    /// A call requests a permit and ends at once.
    Call(Outcome),
    /// This many ticks pass.
    Pass(u64),
    /// The last cooldown ends, plus or minus this many ticks.
    Cooldown(i8),
    /// The longest half-open time ends, plus or minus this many ticks.
    HalfOpen(i8),
    ForceOpen,
    ForceClosed,
    Trip,
    Reset,
}

/// A time span, in ticks since the start of the run.
#[derive(Clone, Copy, Debug, Default)]
struct TimeSpan {
    began: u128,
    lasts: u128,
    /// The unit to which both are rounded up.
    unit: u128,
    /// The age at which the time may read as a future one.
    range: u128,
}

impl TimeSpan {
    /// For spans up to `longest` ticks, in a range of 2^bits units of which a quarter is the longest.
    fn after(began: u128, lasts: u128, longest: u128, bits: u32) -> Self {
        let units = |shift: u32| longest >> shift;
        let shift = (0..u128::BITS).find(|&shift| units(shift) < 1 << (bits - 2)).unwrap();
        let range = ((1 << bits) - units(shift) - 5) << shift;
        Self { began, lasts, unit: 1 << shift, range }
    }

    /// Whether the span is over, or `None` where both results are right.
    fn is_over(self, now: u128) -> Option<bool> {
        match now - self.began {
            elapsed if elapsed < self.lasts => Some(false),
            elapsed if elapsed < self.lasts + 2 * (self.unit - 1) => None,
            elapsed if elapsed < self.range => Some(true),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct PlainBreaker {
    plan: Plan,
    hertz: u128,
    state: State,
    generation: u64,
    consecutive_failures: u32,
    reopens: u32,
    cooldown: TimeSpan,
    half_open: Option<TimeSpan>,
    in_flight: u32,
    succeeded: u32,
}

const NANOS: u128 = 1_000_000_000;

/// A cooldown stops growing after so many reopenings.
const MOST_REOPENS: u32 = 7;

impl PlainBreaker {
    fn new(plan: Plan, hertz: u64) -> Self {
        Self {
            plan,
            hertz: hertz.into(),
            state: State::Closed,
            generation: 0,
            consecutive_failures: 0,
            reopens: 0,
            cooldown: TimeSpan::default(),
            half_open: None,
            in_flight: 0,
            succeeded: 0,
        }
    }

    fn ticks(&self, nanos: u128) -> u128 {
        (nanos * self.hertz).div_ceil(NANOS)
    }

    fn enter(&mut self, state: State) {
        self.generation += 1;
        self.state = state;
        (self.consecutive_failures, self.in_flight, self.succeeded) = (0, 0, 0);
        if !matches!(state, State::Open | State::HalfOpen) {
            self.reopens = 0;
        }
    }

    fn open(&mut self, now: u128) {
        if self.state == State::HalfOpen {
            self.reopens = (self.reopens + 1).min(MOST_REOPENS);
        }
        self.cool_down(now);
    }

    /// Opens by hand, for a first cooldown.
    fn trip(&mut self, now: u128) {
        self.reopens = 0;
        self.cool_down(now);
    }

    fn cool_down(&mut self, now: u128) {
        self.enter(State::Open);
        self.cooldown = TimeSpan::after(now, self.cooldown_after(self.reopens), self.cooldown_after(MOST_REOPENS), 21);
    }

    /// Returns the ticks of the cooldown after probes failed this many times.
    fn cooldown_after(&self, reopens: u32) -> u128 {
        let config = self.plan.config;
        let mut nanos = config.cooldown().as_nanos();
        for _ in 0..reopens {
            nanos = (nanos * u128::from(self.plan.factor) / 1_000).min(config.max_cooldown().as_nanos());
        }
        self.ticks(nanos)
    }

    fn probe(&mut self, now: u128) {
        self.enter(State::HalfOpen);
        self.in_flight = 1;
        self.half_open = self.plan.config.max_half_open().map(|longest| {
            let ticks = self.ticks(longest.as_nanos());
            TimeSpan::after(now, ticks, ticks, 11)
        });
    }

    /// Returns the state that the next call finds, or `None` if it may be open or half-open.
    fn state(&self, now: u128) -> Option<State> {
        match (self.state, self.half_open) {
            (State::HalfOpen, Some(longest)) => {
                longest.is_over(now).map(|over| if over { State::Open } else { State::HalfOpen })
            }
            (State::Open, _) => self.cooldown.is_over(now).map(|over| if over { State::HalfOpen } else { State::Open }),
            (state, _) => Some(state),
        }
    }

    /// Checks the response to a call, and moves the model to the state after it.
    fn admit(&mut self, now: u128, answer: Result<(), CircuitOpen>) {
        match (self.state, answer) {
            (State::Closed | State::ForcedClosed, Ok(())) => {}
            (State::ForcedOpen, Err(open)) => assert!(open.to_string() == "circuit forced open"),
            (State::Open, Ok(())) => {
                assert_ne!(self.cooldown.is_over(now), Some(false), "too early: {self:?} at {now}");
                self.probe(now);
            }
            (State::Open, Err(open)) => {
                assert_ne!(self.cooldown.is_over(now), Some(true), "too late: {self:?} at {now}");
                self.check_wait(now, open);
            }
            (State::HalfOpen, Err(open)) if open.retry_after().is_some() => {
                let is_over = self.half_open.and_then(|span| span.is_over(now).or(Some(true)));
                assert_eq!(is_over, Some(true), "not half-open for too long: {self:?} at {now}");
                self.open(now);
                self.check_wait(now, open);
            }
            (State::HalfOpen, answer) => {
                let is_over = self.half_open.map_or(Some(false), |span| span.is_over(now));
                assert_ne!(is_over, Some(true), "half-open for too long: {self:?} at {now}");
                let is_full = self.in_flight >= self.plan.config.max_probes()
                    || self.in_flight + self.succeeded >= self.decisive_probes();
                assert_eq!(answer.is_err(), is_full, "{self:?}");
                self.in_flight += u32::from(!is_full);
            }
            (_, answer) => panic!("{answer:?}: {self:?}"),
        }
    }

    /// Checks the wait: rounded up like times, and to microseconds.
    fn check_wait(&self, now: u128, open: CircuitOpen) {
        let TimeSpan { began, lasts, unit, .. } = self.cooldown;
        let nanos = open.retry_after().expect("an open breaker has a wait").as_nanos();
        let longest = self.cooldown_after(MOST_REOPENS);
        let at_the_most = if self.cooldown.is_over(now) == Some(false) { began + lasts - now } else { longest };
        let most = (at_the_most + 4 * unit) * NANOS / self.hertz + 1_000;
        let least = (began + lasts).saturating_sub(now) * NANOS / self.hertz;
        assert!((least..=most).contains(&nanos), "{nanos} ns of {least} to {most}: {self:?} at {now}");
    }

    fn decisive_probes(&self) -> u32 {
        self.plan.config.max_probes().max(self.plan.config.successes_to_close())
    }

    fn record(&mut self, generation: u64, outcome: Outcome, now: u128) {
        if generation % 32 != self.generation % 32 {
            return;
        }
        let fails = self.state == State::HalfOpen && self.plan.config.abandoned_probes_fail();
        match (self.state, outcome) {
            (State::Closed, Outcome::Success) => self.consecutive_failures = 0,
            (State::Closed, Outcome::Failure) => {
                self.consecutive_failures += 1;
                if self.consecutive_failures >= self.plan.config.failure_threshold() {
                    self.open(now);
                }
            }
            (State::HalfOpen, Outcome::Success) => {
                // A probe of 32 generations ago may have no place.
                (self.in_flight, self.succeeded) = (self.in_flight.saturating_sub(1), self.succeeded + 1);
                if self.succeeded >= self.plan.config.successes_to_close() {
                    self.enter(State::Closed);
                }
            }
            (State::HalfOpen, Outcome::Failure) => self.open(now),
            (State::HalfOpen, Outcome::Dropped) if fails => self.open(now),
            (State::HalfOpen, Outcome::Ignored | Outcome::Dropped) => self.in_flight = self.in_flight.saturating_sub(1),
            _ => {}
        }
    }
}

/// Runs a history through a breaker and the model, which must agree on every result and state.
pub(crate) fn compare<const HERTZ: u64>(plan: Plan, start: u64, steps: impl IntoIterator<Item = Step>) {
    /// The clock stays below this, so its ticks do not wrap.
    const MOST_TICKS: u128 = 1 << 63;
    let timer = Timer::<HERTZ>::at(start);
    let breaker = CircuitBreaker32::new(plan.config, &timer).unwrap();
    let mut model = PlainBreaker::new(plan, HERTZ);
    let mut in_flight: VecDeque<(Permit<&CircuitBreaker32<_>>, u64)> = VecDeque::new();
    let mut now = 0u128;
    for step in steps {
        let is_call = matches!(step, Step::Call(_));
        let before = in_flight.len();
        if is_call || matches!(step, Step::Acquire) {
            let answer = breaker.try_acquire();
            model.admit(now, answer.as_ref().map(|_| ()).map_err(|open| *open));
            in_flight.extend(answer.ok().map(|permit| (permit, model.generation)));
        }
        let ticks = match step {
            Step::Acquire => 0,
            Step::Call(outcome) | Step::Record(_, outcome) => {
                let is_newest = !matches!(step, Step::Record(true, _));
                let call = match (is_call && in_flight.len() == before, is_newest) {
                    (true, _) => None,
                    (false, true) => in_flight.pop_back(),
                    (false, false) => in_flight.pop_front(),
                };
                if let Some((permit, generation)) = call {
                    match outcome {
                        Outcome::Success => permit.success(),
                        Outcome::Failure => permit.failure(),
                        Outcome::Ignored => permit.ignore(),
                        Outcome::Dropped => drop(permit),
                    }
                    model.record(generation, outcome, now);
                }
                0
            }
            Step::Pass(ticks) => ticks.into(),
            Step::Cooldown(off) => {
                (model.cooldown.began + model.cooldown.lasts).saturating_sub(now).saturating_add_signed(off.into())
            }
            Step::HalfOpen(off) => model
                .half_open
                .map_or(0, |span| (span.began + span.lasts).saturating_sub(now))
                .saturating_add_signed(off.into()),
            Step::ForceOpen => {
                breaker.force_open();
                model.enter(State::ForcedOpen);
                0
            }
            Step::ForceClosed => {
                breaker.force_closed();
                model.enter(State::ForcedClosed);
                0
            }
            Step::Trip => {
                breaker.trip();
                model.trip(now);
                0
            }
            Step::Reset => {
                breaker.reset();
                model.enter(State::Closed);
                0
            }
        };
        if u128::from(start) + now + ticks < MOST_TICKS {
            now += ticks;
            timer.advance(u64::try_from(ticks).unwrap());
        }
        let state = breaker.state();
        let expected = model.state(now);
        let agrees = expected.map_or(matches!(state, State::Open | State::HalfOpen), |expected| expected == state);
        assert!(agrees, "{state} where {expected:?} was expected: {model:?} at {now}");
    }
}

/// The settings that a 32-bit breaker supports and that fit it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) failure_threshold: u32,
    pub(crate) cooldown: Duration,
    /// By how much the maximum exceeds the cooldown.
    pub(crate) more: Duration,
    /// In thousandths.
    pub(crate) factor: u32,
    pub(crate) max_probes: u32,
    pub(crate) successes_to_close: u32,
    pub(crate) max_half_open: Option<Duration>,
    pub(crate) abandoned_probes_fail: bool,
}

impl Settings {
    pub(crate) fn plan(self) -> Plan {
        let mut config = BreakerConfig::builder()
            .failure_threshold(self.failure_threshold)
            .cooldown(self.cooldown)
            .max_cooldown(self.cooldown + self.more)
            .cooldown_factor(f64::from(self.factor) / 1_000.0)
            .max_probes(self.max_probes)
            .successes_to_close(self.successes_to_close);
        if let Some(longest) = self.max_half_open {
            config = config.max_half_open(longest);
        }
        if self.abandoned_probes_fail {
            config = config.abandoned_probes_fail();
        }
        Plan { config: config.build().unwrap(), factor: self.factor }
    }
}
