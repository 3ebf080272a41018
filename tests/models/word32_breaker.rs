//! The breaker of 32 bits as a diagram is drawn: plain fields, one thread, and time in ticks that do not wrap.
//!
//! | what the real one packs | here |
//! |---|---|
//! | moments in units of a power of two of ticks, rounded up | exact ones; while the rounding lasts either answer does |
//! | moments that wrap | the same, once a moment is so far back that it may read as one to come |
//! | generations that wrap after 32 | turns, of which permits are told apart by the lowest 5 bits |

use super::timer::Timer;
use damper::word32::Permit32;
use damper::{BreakerConfig, CircuitBreaker32, CircuitOpen, State};
use std::collections::VecDeque;
use std::time::Duration;

/// All that a breaker is made of: settings that it has, and fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) config: BreakerConfig,
    /// The cooldown's factor in thousandths, which the configuration does not tell.
    pub(crate) factor: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
    Ignored,
    /// Its permit was dropped.
    Dropped,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A call asks.
    Ask,
    /// Ends the oldest or else the newest call that is out.
    Tell(bool, Outcome),
    /// A call that asks, and ends at once.
    Call(Outcome),
    /// Ticks pass.
    Pass(u64),
    /// The cooldown that was begun last is over, or so many ticks more or less.
    Cooldown(i8),
    /// As long as it may be half-open, or so many ticks more or less.
    HalfOpen(i8),
    ForceOpen,
    ForceClosed,
    Reset,
}

/// A time that ends: in ticks since the run began.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    began: u128,
    lasts: u128,
    /// What both are rounded up to.
    unit: u128,
    /// After so long it may read as one that is to come.
    circle: u128,
}

impl Moment {
    /// Of times up to `longest` ticks, in a circle of 2^bits units of which a quarter is the longest.
    fn after(began: u128, lasts: u128, longest: u128, bits: u32) -> Self {
        let units = |shift: u32| longest >> shift;
        let shift = (0..u128::BITS).find(|&shift| units(shift) < 1 << (bits - 2)).unwrap();
        let circle = ((1 << bits) - units(shift) - 5) << shift;
        Self { began, lasts, unit: 1 << shift, circle }
    }

    /// `None` where both are right.
    fn is_over(self, now: u128) -> Option<bool> {
        match now - self.began {
            elapsed if elapsed < self.lasts => Some(false),
            elapsed if elapsed < self.lasts + 2 * (self.unit - 1) => None,
            elapsed if elapsed < self.circle => Some(true),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct PlainBreaker {
    plan: Plan,
    hertz: u128,
    state: State,
    turn: u64,
    consecutive_failures: u32,
    reopens: u32,
    cooldown: Moment,
    half_open: Option<Moment>,
    out: u32,
    succeeded: u32,
}

const NANOS: u128 = 1_000_000_000;

impl PlainBreaker {
    fn new(plan: Plan, hertz: u64) -> Self {
        Self {
            plan,
            hertz: hertz.into(),
            state: State::Closed,
            turn: 0,
            consecutive_failures: 0,
            reopens: 0,
            cooldown: Moment::default(),
            half_open: None,
            out: 0,
            succeeded: 0,
        }
    }

    fn ticks(&self, nanos: u128) -> u128 {
        (nanos * self.hertz).div_ceil(NANOS)
    }

    fn enter(&mut self, state: State) {
        self.turn += 1;
        self.state = state;
        (self.consecutive_failures, self.out, self.succeeded) = (0, 0, 0);
        if !matches!(state, State::Open | State::HalfOpen) {
            self.reopens = 0;
        }
    }

    fn open(&mut self, now: u128) {
        if self.state == State::HalfOpen {
            self.reopens = (self.reopens + 1).min(7);
        }
        self.enter(State::Open);
        let config = self.plan.config;
        let mut nanos = config.cooldown().as_nanos();
        for _ in 0..self.reopens {
            nanos = (nanos * u128::from(self.plan.factor) / 1_000).min(config.max_cooldown().as_nanos());
        }
        let longest = self.ticks(config.max_cooldown().as_nanos());
        self.cooldown = Moment::after(now, self.ticks(nanos), longest, 21);
    }

    fn probe(&mut self, now: u128) {
        self.enter(State::HalfOpen);
        self.out = 1;
        self.half_open = self.plan.config.max_half_open().map(|longest| {
            let ticks = self.ticks(longest.as_nanos());
            Moment::after(now, ticks, ticks, 11)
        });
    }

    /// The state that may be told, which is the one that the next call finds; `None` where it may be open or half-open.
    fn state(&self, now: u128) -> Option<State> {
        match (self.state, self.half_open) {
            (State::HalfOpen, Some(longest)) => {
                longest.is_over(now).map(|over| if over { State::Open } else { State::HalfOpen })
            }
            (State::Open, _) => self.cooldown.is_over(now).map(|over| if over { State::HalfOpen } else { State::Open }),
            (state, _) => Some(state),
        }
    }

    /// A call asked, and was answered: what it may have been answered, this brings the model to.
    fn ask(&mut self, now: u128, answer: Result<(), CircuitOpen>) {
        match (self.state, answer) {
            (State::Closed | State::ForcedClosed, Ok(())) => {}
            (State::ForcedOpen, Err(open)) => assert!(open.to_string() == "circuit forced open"),
            (State::Open, Ok(())) => {
                assert_ne!(self.cooldown.is_over(now), Some(false), "too early: {self:?} at {now}");
                self.probe(now);
            }
            (State::Open, Err(open)) => {
                assert_ne!(self.cooldown.is_over(now), Some(true), "too late: {self:?} at {now}");
                self.is_told(now, open);
            }
            (State::HalfOpen, Err(open)) if open.retry_after().is_some() => {
                let is_over = self.half_open.and_then(|moment| moment.is_over(now).or(Some(true)));
                assert_eq!(is_over, Some(true), "not half-open for too long: {self:?} at {now}");
                self.open(now);
                self.is_told(now, open);
            }
            (State::HalfOpen, answer) => {
                let is_over = self.half_open.map_or(Some(false), |moment| moment.is_over(now));
                assert_ne!(is_over, Some(true), "half-open for too long: {self:?} at {now}");
                let is_full = self.out >= self.plan.config.max_probes() || self.out + self.succeeded >= self.sample();
                assert_eq!(answer.is_err(), is_full, "{self:?}");
                self.out += u32::from(!is_full);
            }
            (_, answer) => panic!("{answer:?}: {self:?}"),
        }
    }

    /// How long to wait: rounded up, by what moments are, and to microseconds.
    fn is_told(&self, now: u128, open: CircuitOpen) {
        let Moment { began, lasts, unit, .. } = self.cooldown;
        let nanos = open.retry_after().expect("it is open").as_nanos();
        let longest = self.ticks(self.plan.config.max_cooldown().as_nanos());
        let at_the_most = if self.cooldown.is_over(now) == Some(false) { began + lasts - now } else { longest };
        let most = (at_the_most + 4 * unit) * NANOS / self.hertz + 1_000;
        let least = (began + lasts).saturating_sub(now) * NANOS / self.hertz;
        assert!((least..=most).contains(&nanos), "{nanos} ns of {least} to {most}: {self:?} at {now}");
    }

    fn sample(&self) -> u32 {
        self.plan.config.max_probes().max(self.plan.config.successes_to_close())
    }

    fn tell(&mut self, turn: u64, outcome: Outcome, now: u128) {
        if turn % 32 != self.turn % 32 {
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
                // One of 32 turns ago may have no place.
                (self.out, self.succeeded) = (self.out.saturating_sub(1), self.succeeded + 1);
                if self.succeeded >= self.plan.config.successes_to_close() {
                    self.enter(State::Closed);
                }
            }
            (State::HalfOpen, Outcome::Failure) => self.open(now),
            (State::HalfOpen, Outcome::Dropped) if fails => self.open(now),
            (State::HalfOpen, Outcome::Ignored | Outcome::Dropped) => self.out = self.out.saturating_sub(1),
            _ => {}
        }
    }
}

/// Runs a history through a breaker and the model, which must agree on every answer and every state.
pub(crate) fn compare<const HERTZ: u64>(plan: Plan, start: u64, steps: impl IntoIterator<Item = Step>) {
    /// Ticks are counted further than any breaker is used, and do not wrap here.
    const MOST_TICKS: u128 = 1 << 63;
    let timer = Timer::<HERTZ>::at(start);
    let breaker = CircuitBreaker32::new(plan.config, &timer).unwrap();
    let mut model = PlainBreaker::new(plan, HERTZ);
    let mut out: VecDeque<(Permit32<'_, _>, u64)> = VecDeque::new();
    let mut now = 0u128;
    for step in steps {
        let is_call = matches!(step, Step::Call(_));
        let before = out.len();
        if is_call || matches!(step, Step::Ask) {
            let answer = breaker.try_acquire();
            model.ask(now, answer.as_ref().map(|_| ()).map_err(|open| *open));
            out.extend(answer.ok().map(|permit| (permit, model.turn)));
        }
        let ticks = match step {
            Step::Ask => 0,
            Step::Call(outcome) | Step::Tell(_, outcome) => {
                let is_newest = !matches!(step, Step::Tell(true, _));
                let call = match (is_call && out.len() == before, is_newest) {
                    (true, _) => None,
                    (false, true) => out.pop_back(),
                    (false, false) => out.pop_front(),
                };
                if let Some((permit, turn)) = call {
                    match outcome {
                        Outcome::Success => permit.success(),
                        Outcome::Failure => permit.failure(),
                        Outcome::Ignored => permit.ignore(),
                        Outcome::Dropped => drop(permit),
                    }
                    model.tell(turn, outcome, now);
                }
                0
            }
            Step::Pass(ticks) => ticks.into(),
            Step::Cooldown(off) => {
                (model.cooldown.began + model.cooldown.lasts).saturating_sub(now).saturating_add_signed(off.into())
            }
            Step::HalfOpen(off) => model
                .half_open
                .map_or(0, |moment| (moment.began + moment.lasts).saturating_sub(now))
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

/// The settings that a breaker of 32 bits has, and that fit it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) failure_threshold: u32,
    pub(crate) cooldown: Duration,
    /// How much more it can be.
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
