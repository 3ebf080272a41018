//! A circuit breaker as a diagram is drawn: plain fields, one thread, time as a number.

use damper::{BreakerConfig, CircuitBreaker, ManualClock, Permit, State};
use std::collections::VecDeque;

/// What a call is told when it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It may be made; the number is the turn of the state it belongs to.
    Permitted(u64),
    /// It may not, for so many microseconds.
    OpenFor(u128),
    /// It may not, while probes are out.
    ProbesOut,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
    NoVerdict,
}

#[derive(Debug)]
pub(crate) struct PlainBreaker {
    config: BreakerConfig,
    state: State,
    /// Counts changes of the state.
    turn: u64,
    failures: u32,
    opened_at: u128,
    probes: u32,
    successes: u32,
}

impl PlainBreaker {
    pub(crate) fn new(config: BreakerConfig) -> Self {
        Self { config, state: State::Closed, turn: 0, failures: 0, opened_at: 0, probes: 0, successes: 0 }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.turn += 1;
        (self.failures, self.probes, self.successes) = (0, 0, 0);
    }

    fn cooldown_left(&self, now: u128) -> u128 {
        (self.opened_at + self.config.cooldown().as_micros()).saturating_sub(now)
    }

    pub(crate) fn state(&self, now: u128) -> State {
        match self.state {
            State::Open if self.cooldown_left(now) == 0 => State::HalfOpen,
            state => state,
        }
    }

    pub(crate) fn ask(&mut self, now: u128) -> Answer {
        match self.state {
            State::Closed => return Answer::Permitted(self.turn),
            State::Open if self.cooldown_left(now) > 0 => return Answer::OpenFor(self.cooldown_left(now)),
            State::Open => self.enter(State::HalfOpen),
            State::HalfOpen => {}
            forced => unreachable!("nobody forces it {forced}"),
        }
        let wanted = self.config.max_probes().max(self.config.successes_to_close());
        if self.probes == self.config.max_probes() || self.probes + self.successes == wanted {
            return Answer::ProbesOut;
        }
        self.probes += 1;
        Answer::Permitted(self.turn)
    }

    pub(crate) fn tell(&mut self, turn: u64, outcome: Outcome, now: u128) {
        if turn != self.turn {
            return;
        }
        let probe = self.state == State::HalfOpen;
        self.probes -= u32::from(probe);
        match outcome {
            Outcome::NoVerdict => {}
            Outcome::Success if probe => {
                self.successes += 1;
                if self.successes == self.config.successes_to_close() {
                    self.enter(State::Closed);
                }
            }
            Outcome::Success => self.failures = 0,
            Outcome::Failure => {
                self.failures += 1;
                if probe || self.failures == self.config.failure_threshold() {
                    self.enter(State::Open);
                    self.opened_at = now;
                }
            }
        }
    }
}

/// A step of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A call asks.
    Ask,
    /// Ends the oldest or else the newest call that is out.
    Tell(bool, Outcome),
    /// Nanoseconds pass.
    Pass(u32),
    /// A cooldown passes, or so many microseconds more or less.
    PassCooldown(i8),
}

/// Runs a history through a breaker and the model, which must agree on every answer and every state.
pub(crate) fn compare(config: BreakerConfig, steps: impl IntoIterator<Item = Step>) {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let mut model = PlainBreaker::new(config);
    let mut out: VecDeque<(Permit<_>, u64)> = VecDeque::new();
    let mut nanos = 0u64;
    for step in steps {
        let micros = u128::from(nanos / 1_000);
        match step {
            Step::Ask => match (breaker.try_acquire(), model.ask(micros)) {
                (Ok(permit), Answer::Permitted(turn)) => out.push_back((permit, turn)),
                (Err(open), Answer::OpenFor(left)) => {
                    assert_eq!(open.retry_after().map(|wait| wait.as_micros()), Some(left));
                }
                (Err(open), Answer::ProbesOut) => assert_eq!(open.retry_after(), None),
                (found, expected) => panic!("{found:?} where {expected:?} was expected"),
            },
            Step::Tell(oldest, outcome) => {
                let call = if oldest { out.pop_front() } else { out.pop_back() };
                if let Some((permit, turn)) = call {
                    match outcome {
                        Outcome::Success => permit.success(),
                        Outcome::Failure => permit.failure(),
                        Outcome::NoVerdict => permit.ignore(),
                    }
                    model.tell(turn, outcome, micros);
                }
            }
            Step::Pass(ticks) => nanos += u64::from(ticks),
            Step::PassCooldown(off) => {
                let cooldown = u64::try_from(config.cooldown().as_nanos()).unwrap();
                nanos += cooldown.saturating_add_signed(i64::from(off) * 1_000);
            }
        }
        clock.set_ticks(nanos);
        assert_eq!(breaker.state(), model.state(u128::from(nanos / 1_000)));
    }
}
