//! A circuit breaker as its state diagram describes it.
//!
//! It has plain fields, one thread, time as a number, and every outcome kept in a list.
//!
//! | in the real breaker | here |
//! |---|---|
//! | a register, a ring, buckets of counts | a list of calls: when each began, whether it failed, whether it was slow |
//! | generations that wrap | generations that do not |
//! | the time when the cooldown ends | the same, in a number that does not wrap |
//! | the time when the half-open state began, beside the word | the same |
//!
//! Times are in microseconds, as the breaker has them: rounded down if they are the clock's, up if they are settings.
#![expect(clippy::cast_precision_loss, reason = "times of microseconds are far below 2^53")]
#![expect(clippy::float_cmp, reason = "a share is the same or another one")]

use damper::breaker::{Cause, Permit, State, StateChange, Window};
use damper::{BreakerConfig, CircuitBreaker, CircuitOpen, ManualClock, Ramp};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

/// The calls from which rates are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowOf {
    /// The default: the last 48, or 24 where slow calls count.
    Few,
    Calls(u32),
    /// Those in ten buckets of time.
    #[cfg(feature = "alloc")]
    Time(Duration),
    /// Those in one bucket of time.
    #[cfg(feature = "alloc")]
    Interval(Duration),
}

impl WindowOf {
    pub(crate) fn window(self) -> Option<Window> {
        match self {
            Self::Few => None,
            Self::Calls(calls) => Some(Window::last_calls(calls)),
            #[cfg(feature = "alloc")]
            Self::Time(duration) => Some(Window::last(duration)),
            #[cfg(feature = "alloc")]
            Self::Interval(duration) => Some(Window::interval(duration)),
        }
    }

    /// The length of a bucket, and how many there are.
    fn buckets(self) -> Option<(u128, u128)> {
        match self {
            Self::Few | Self::Calls(_) => None,
            #[cfg(feature = "alloc")]
            Self::Time(duration) => Some((duration.as_micros().div_ceil(10), 10)),
            #[cfg(feature = "alloc")]
            Self::Interval(duration) => Some((duration.as_micros(), 1)),
        }
    }
}

/// The configuration of a breaker, with the values that the model needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Without jitter.
    pub(crate) config: BreakerConfig,
    /// The cooldown's factor in thousandths, which the configuration does not reveal.
    pub(crate) factor: u32,
    pub(crate) window: WindowOf,
    pub(crate) ramp: Option<RampOf>,
}

/// A ramp after the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RampOf {
    Steps(Duration),
    Linear(Duration),
}

impl RampOf {
    pub(crate) fn ramp(self) -> Ramp {
        match self {
            Self::Steps(length) => Ramp::steps(length),
            Self::Linear(length) => Ramp::linear(length),
        }
    }

    fn length(self) -> u128 {
        let (Self::Steps(length) | Self::Linear(length)) = self;
        micros_of(length)
    }

    /// Returns the share of the calls that pass so many microseconds after the start; `None` if it is over.
    fn share(self, elapsed: u128) -> Option<f64> {
        if elapsed >= self.length() {
            return None;
        }
        Some(match self {
            Self::Steps(_) => [0.001, 0.01, 0.05, 0.1, 0.25, 0.5][(elapsed * 6 / self.length()) as usize],
            Self::Linear(_) => (elapsed as f64 / self.length() as f64).max(0.001),
        })
    }
}

/// By how much a share may be off, because the breaker keeps it in parts of 65,536.
const ROUNDING: f64 = 1.0 / 65_536.0;

/// The breaker's answer to a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The call may be made, in this generation.
    Permitted(u64),
    /// The call may be made, and is not counted.
    Uncounted,
    /// The call is refused for this many microseconds.
    OpenFor(u128),
    /// The call may be made in this generation if it is one of this share of the calls.
    Share(u64, f64),
    /// The call is refused while probes are in flight.
    ProbesInFlight,
    /// The call is refused until a reset.
    Forced,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
    RetryAfter(Duration),
    Ignored,
    /// Its permit was dropped.
    Dropped,
}

/// A control of the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    ForceOpen,
    ForceClosed,
    Disable,
    MetricsOnly,
    Reset,
    Trip,
    TripFor(Duration),
}

#[derive(Clone, Copy, Debug)]
struct Call {
    began: u128,
    failed: bool,
    slow: bool,
}

/// The numbers of calls, of failures and of slow calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    calls: u32,
    failed: u32,
    slow: u32,
}

#[derive(Debug)]
pub(crate) struct PlainBreaker {
    plan: Plan,
    state: State,
    /// Incremented on every transition.
    generation: u64,
    consecutive_failures: u64,
    /// The calls of `counted_generation`.
    calls: VecDeque<Call>,
    counted_generation: u64,
    /// How often probes failed since the breaker was closed.
    reopens: u32,
    open_until: u128,
    half_open_since: u128,
    returning_since: u128,
    probes_in_flight: u32,
    probes_succeeded: u32,
    probes_failed: u32,
    /// Whether the settings have changed in this state.
    has_changed: bool,
    metrics_only: bool,
    reported: Vec<(State, State, Cause, u64)>,
}

fn micros_of(setting: Duration) -> u128 {
    setting.as_nanos().div_ceil(1_000)
}

impl PlainBreaker {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            state: State::Closed,
            generation: 0,
            consecutive_failures: 0,
            calls: VecDeque::new(),
            counted_generation: 0,
            reopens: 0,
            open_until: 0,
            half_open_since: 0,
            returning_since: 0,
            probes_in_flight: 0,
            probes_succeeded: 0,
            probes_failed: 0,
            has_changed: false,
            metrics_only: false,
            reported: Vec::new(),
        }
    }

    fn enter(&mut self, state: State, cause: Cause) {
        self.generation += 1;
        self.reported.push((self.state, state, cause, self.generation));
        self.state = state;
        self.has_changed = false;
        (self.consecutive_failures, self.probes_in_flight, self.probes_succeeded, self.probes_failed) = (0, 0, 0, 0);
        if !matches!(state, State::Open | State::HalfOpen | State::Returning) {
            self.reopens = 0;
        }
    }

    fn open(&mut self, cause: Cause, retry_after: Duration, now: u128) {
        let config = self.plan.config;
        if matches!(self.state, State::HalfOpen | State::Returning) {
            self.reopens += 1;
        }
        self.enter(State::Open, cause);
        let asked_for = micros_of(retry_after).min(micros_of(config.max_retry_after()));
        self.open_until = now + self.cooldown(self.reopens).max(asked_for);
    }

    /// Returns the cooldown after probes have failed `reopens` times.
    fn cooldown(&self, reopens: u32) -> u128 {
        let config = self.plan.config;
        let mut cooldown = micros_of(config.cooldown());
        // The breaker's word counts up to 15 of them, and the next trip adds one.
        for _ in 0..reopens.min(16) {
            cooldown = (cooldown * u128::from(self.plan.factor) / 1_000).min(micros_of(config.max_cooldown()));
        }
        cooldown
    }

    fn cooldown_left(&self, now: u128) -> u128 {
        self.open_until.saturating_sub(now)
    }

    /// Returns whether the breaker has been half-open for too long.
    fn is_half_open_for_too_long(&self, now: u128) -> bool {
        self.plan.config.max_half_open().is_some_and(|longest| now - self.half_open_since >= micros_of(longest))
    }

    /// Returns the share of the calls that pass while the breaker returns; `None` if the ramp is over.
    fn share(&self, now: u128) -> Option<f64> {
        self.plan.ramp?.share(now - self.returning_since)
    }

    /// Returns the state that the next call finds, and how long the call would be refused.
    pub(crate) fn state(&self, now: u128) -> (State, Option<u128>) {
        match self.state {
            State::Open if self.cooldown_left(now) == 0 => (State::HalfOpen, None),
            State::Open => (State::Open, Some(self.cooldown_left(now))),
            State::HalfOpen if self.is_half_open_for_too_long(now) => {
                (State::Open, Some(self.cooldown(self.reopens + 1)))
            }
            State::Returning if self.share(now).is_none() => (State::Closed, None),
            state => (state, None),
        }
    }

    /// Admits or refuses a call.
    pub(crate) fn acquire(&mut self, now: u128) -> Answer {
        match self.acquire_or_refuse(now) {
            Answer::Permitted(generation) => Answer::Permitted(generation),
            Answer::Share(generation, share) => Answer::Share(generation, share),
            _ if self.metrics_only => Answer::Uncounted,
            refused => refused,
        }
    }

    fn acquire_or_refuse(&mut self, now: u128) -> Answer {
        if self.state == State::HalfOpen && self.is_half_open_for_too_long(now) {
            self.open(Cause::HalfOpenTooLong, Duration::ZERO, now);
        }
        if self.state == State::Open && self.cooldown_left(now) == 0 {
            self.enter(State::HalfOpen, Cause::CooldownOver);
            self.half_open_since = now;
        }
        if self.state == State::Returning {
            match self.share(now) {
                Some(share) => return Answer::Share(self.generation, share),
                None => self.enter(State::Closed, Cause::ReturnOver),
            }
        }
        match self.state {
            State::Open => Answer::OpenFor(self.cooldown_left(now)),
            State::HalfOpen => {
                let decided = self.probes_succeeded + self.probes_failed;
                let is_room = self.probes_in_flight < self.plan.config.max_probes();
                let is_decided = self.probes_in_flight + decided >= self.decisive_probes();
                // After a change of the settings, enough probes may have ended, but one more is needed.
                if !is_room || is_decided && self.probes_in_flight > 0 {
                    return Answer::ProbesInFlight;
                }
                self.probes_in_flight += 1;
                Answer::Permitted(self.generation)
            }
            State::ForcedOpen => Answer::Forced,
            State::Closed | State::Returning | State::ForcedClosed | State::Disabled => {
                Answer::Permitted(self.generation)
            }
        }
    }

    /// Returns the largest number of probes that a decision can need.
    fn decisive_probes(&self) -> u32 {
        self.plan.config.max_probes().max(self.plan.config.successes_to_close())
    }

    /// Ends a call that was permitted in this generation and began at this time.
    pub(crate) fn record(&mut self, generation: u64, began: Option<u128>, outcome: Outcome, now: u128) {
        // A call that was not timed counts at its end.
        let began = began.unwrap_or(now);
        if generation != self.generation {
            return;
        }
        let is_probe = self.state == State::HalfOpen;
        let (failed, retry_after) = match outcome {
            Outcome::Success => (false, Duration::ZERO),
            Outcome::Failure => (true, Duration::ZERO),
            Outcome::RetryAfter(wait) => (true, wait),
            Outcome::Dropped if is_probe && self.plan.config.abandoned_probes_fail() => (true, Duration::ZERO),
            Outcome::Ignored | Outcome::Dropped => {
                self.probes_in_flight -= u32::from(is_probe);
                return;
            }
        };
        match self.state {
            State::HalfOpen => self.record_probe(failed || self.is_slow(now - began), retry_after, now),
            State::Closed | State::Returning | State::Disabled => {
                let is_closed = self.state != State::Disabled;
                let too_many = self.count(Call { began, failed, slow: self.is_slow(now - began) }, now);
                if is_closed && let Some(cause) = too_many {
                    return self.open(cause, retry_after, now);
                }
                self.consecutive_failures = if failed { self.consecutive_failures + 1 } else { 0 };
                let threshold = self.plan.config.failure_threshold();
                if is_closed && threshold < u32::MAX && self.consecutive_failures >= threshold.into() {
                    self.open(Cause::ConsecutiveFailures, retry_after, now);
                }
            }
            State::Open | State::ForcedOpen | State::ForcedClosed => {}
        }
    }

    fn record_probe(&mut self, failed: bool, retry_after: Duration, now: u128) {
        self.probes_in_flight -= 1;
        if failed {
            self.probes_failed += 1;
        } else {
            self.probes_succeeded += 1;
        }
        let decisive_probes = self.decisive_probes();
        let (is_closed, is_open) = match self.plan.config.probe_failure_rate() {
            None => (self.probes_succeeded >= self.plan.config.successes_to_close(), failed),
            Some(percent) => {
                // The number of failures if all remaining probes fail.
                let at_the_most = decisive_probes.saturating_sub(self.probes_succeeded);
                let is_open = failed && self.probes_failed * 100 >= percent * decisive_probes;
                (at_the_most * 100 < percent * decisive_probes, is_open)
            }
        };
        if is_open {
            self.open(Cause::ProbeFailed, retry_after, now);
        } else if is_closed && self.plan.ramp.is_some() {
            self.enter(State::Returning, Cause::ProbesSucceeded);
            self.returning_since = now;
        } else if is_closed {
            self.enter(State::Closed, Cause::ProbesSucceeded);
        }
    }

    fn is_slow(&self, took: u128) -> bool {
        self.plan.config.slow_rate().is_some_and(|(_, duration)| took >= micros_of(duration))
    }

    /// Counts a call, and returns why it trips the breaker, if it does.
    fn count(&mut self, call: Call, now: u128) -> Option<Cause> {
        let config = self.plan.config;
        let (failure_rate, slow_rate) = (config.failure_rate(), config.slow_rate().map(|(percent, _)| percent));
        if failure_rate.is_none() && slow_rate.is_none() {
            return None;
        }
        if self.counted_generation != self.generation {
            self.calls.clear();
            self.counted_generation = self.generation;
        }
        self.calls.push_back(call);
        // A window of few calls may grow.
        let kept = self.plan.most_few().max(self.most_calls()) as usize;
        while self.calls.len() > kept {
            self.calls.pop_front();
        }
        let counts = self.counts(now);
        // A window of few calls never has more calls than that.
        let minimum = self.most_calls().min(config.minimum_calls());
        let reaches = |part: u32, rate: Option<u32>| rate.is_some_and(|rate| part * 100 >= counts.calls * rate);
        if counts.calls < minimum {
            None
        } else if reaches(counts.failed, failure_rate) {
            Some(Cause::FailureRate)
        } else if reaches(counts.slow, slow_rate) {
            Some(Cause::SlowRate)
        } else {
            None
        }
    }

    /// A window of time may have any number of calls.
    ///
    /// No test has a history that is long enough to overflow a bucket.
    fn most_calls(&self) -> u32 {
        match self.plan.window {
            WindowOf::Few => self.plan.most_few(),
            WindowOf::Calls(calls) => calls,
            #[cfg(feature = "alloc")]
            WindowOf::Time(_) | WindowOf::Interval(_) => 16_384,
        }
    }

    /// Returns the counts of the window at this time.
    fn counts(&self, now: u128) -> Counts {
        let is_in_window = |call: &&Call| match self.plan.window.buckets() {
            Some((length, buckets)) => (now / length) - (call.began / length) < buckets,
            None => true,
        };
        let newest = self.calls.len().saturating_sub(self.most_calls() as usize);
        let calls = || self.calls.iter().skip(newest).filter(is_in_window);
        Counts {
            calls: calls().count() as u32,
            failed: calls().filter(|call| call.failed).count() as u32,
            slow: calls().filter(|call| call.slow).count() as u32,
        }
    }

    /// Returns the counts of the window that the status shows.
    ///
    /// While the breaker is closed, these are the calls of this state. While it is open or half-open, these are the calls of the last
    /// closed state that had some.
    fn counts_shown(&self, now: u128) -> Counts {
        let is_tripped = matches!(self.state, State::Open | State::HalfOpen);
        if self.state == State::Returning && self.share(now).is_none() {
            // The next call finds the breaker closed.
            return Counts::default();
        }
        let is_shown = self.plan.has_rates() && (self.counted_generation == self.generation || is_tripped);
        if is_shown { self.counts(now) } else { Counts::default() }
    }

    pub(crate) fn control(&mut self, control: Control, now: u128) {
        self.metrics_only = control == Control::MetricsOnly;
        let state = match control {
            Control::ForceOpen => State::ForcedOpen,
            Control::ForceClosed => State::ForcedClosed,
            Control::Disable => State::Disabled,
            Control::Reset => State::Closed,
            Control::MetricsOnly => return,
            Control::Trip | Control::TripFor(_) => State::Open,
        };
        self.reopens = 0;
        self.enter(state, Cause::Control);
        match control {
            Control::Trip => self.open_until = now + self.cooldown(0),
            Control::TripFor(cooldown) => self.open_until = now + micros_of(cooldown).max(1),
            _ => {}
        }
    }

    /// Replaces the settings.
    pub(crate) fn set_plan(&mut self, plan: Plan) {
        let old = self.plan;
        self.plan = plan;
        self.has_changed = true;
        if !plan.continues(old) {
            self.calls.clear();
        }
    }
}

impl Plan {
    /// The time beyond which the numbers of buckets wrap.
    fn most_nanos(&self) -> u128 {
        self.window.buckets().map_or(1 << 52, |(length, _)| (1 << 52).min(length * 200_000 * 1_000))
    }

    fn has_rates(&self) -> bool {
        self.config.failure_rate().is_some() || self.config.slow_rate().is_some()
    }

    fn is_timed(&self) -> bool {
        self.config.slow_rate().is_some() || self.has_rates() && self.window.buckets().is_some()
    }

    /// Returns whether the window is small enough for its outcomes to be kept in another small window.
    fn has_few(&self) -> bool {
        match self.window {
            WindowOf::Few => true,
            WindowOf::Calls(calls) => calls <= self.most_few(),
            #[cfg(feature = "alloc")]
            WindowOf::Time(_) | WindowOf::Interval(_) => false,
        }
    }

    /// Returns the size up to which a window is small. That many outcomes are kept for it.
    fn most_few(&self) -> u32 {
        if self.config.slow_rate().is_some() { 24 } else { 48 }
    }

    /// Returns whether the window takes over the outcomes of the window of `old`.
    fn continues(&self, old: Self) -> bool {
        // Durations that differ by less than a bucket's rounding have the same buckets.
        let has_same_buckets = self.window.buckets().is_some() && self.window.buckets() == old.window.buckets();
        let is_same =
            self.config.window() == old.config.window() || has_same_buckets || self.has_few() && old.has_few();
        is_same
            && self.config.slow_rate().is_some() == old.config.slow_rate().is_some()
            && self.has_rates() == old.has_rates()
    }
}

/// A step of a history.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "a history of a test is short")]
pub(crate) enum Step {
    /// A call asks for a permit.
    Acquire,
    /// Ends the oldest or else the newest call in flight.
    Record(bool, Outcome),
    /// A call that asks for a permit, and ends at once.
    Call(Outcome),
    /// Nanoseconds pass.
    Pass(u32),
    /// Time passes until something is due, plus or minus this many microseconds.
    PassUntil(Due, i8),
    Control(Control),
    SetConfig(Plan),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// The rest of the cooldown, or a whole cooldown.
    Cooldown,
    /// The maximum time half-open, from the start of the state.
    HalfOpen,
    /// The next sixth of the ramp.
    Ramp,
    /// The time from which on a call is slow.
    Slow,
    /// The next bucket of the window.
    Bucket,
    /// The whole window.
    Window,
}

/// A breaker, its model, and the calls in flight.
struct Pair<'a, L: Fn(StateChange)> {
    breaker: &'a CircuitBreaker<&'a ManualClock, L>,
    clock: &'a ManualClock,
    changes: &'a RefCell<Vec<StateChange>>,
    model: PlainBreaker,
    in_flight: VecDeque<InFlight<'a, L>>,
    nanos: u64,
    /// The time beyond which the numbers of buckets wrap.
    most_nanos: u128,
    /// The calls since the share last changed: the share, how many there were, and how many of them passed.
    shared: (f64, u32, u32),
}

struct InFlight<'a, L: Fn(StateChange)> {
    permit: Permit<&'a CircuitBreaker<&'a ManualClock, L>>,
    /// `None` if the call is not counted.
    generation: Option<u64>,
    /// `None` if calls were not timed at that moment.
    began: Option<u128>,
}

/// Runs a history through a breaker and the model, which must agree.
///
/// They must agree on every answer, state and count, and on every reported change.
pub(crate) fn compare(plan: Plan, steps: impl IntoIterator<Item = Step>) {
    let clock = ManualClock::new();
    let changes = RefCell::new(Vec::new());
    let breaker =
        CircuitBreaker::with_clock(plan.config, &clock).on_state_change(|change| changes.borrow_mut().push(change));
    let mut pair = Pair {
        breaker: &breaker,
        clock: &clock,
        changes: &changes,
        model: PlainBreaker::new(plan),
        in_flight: VecDeque::new(),
        nanos: 0,
        most_nanos: plan.most_nanos(),
        shared: (0.0, 0, 0),
    };
    for step in steps {
        pair.step(step);
        pair.agree();
    }
}

impl<L: Fn(StateChange)> Pair<'_, L> {
    fn micros(&self) -> u128 {
        u128::from(self.nanos / 1_000)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Acquire => self.acquire(),
            Step::Record(is_oldest, outcome) => self.record(is_oldest, outcome),
            Step::Call(outcome) => {
                let before = self.in_flight.len();
                self.acquire();
                if self.in_flight.len() > before {
                    self.record(false, outcome);
                }
            }
            Step::Pass(nanos) => self.pass(nanos.into()),
            Step::PassUntil(due, off) => self.pass_until(due, off),
            Step::Control(control) => {
                match control {
                    Control::ForceOpen => self.breaker.force_open(),
                    Control::ForceClosed => self.breaker.force_closed(),
                    Control::Disable => self.breaker.disable(),
                    Control::MetricsOnly => self.breaker.metrics_only(),
                    Control::Reset => self.breaker.reset(),
                    Control::Trip => self.breaker.trip(),
                    Control::TripFor(cooldown) => self.breaker.trip_for(cooldown),
                }
                self.model.control(control, self.micros());
            }
            Step::SetConfig(plan) => {
                self.breaker.set_config(&plan.config).unwrap();
                self.model.set_plan(plan);
                self.most_nanos = self.most_nanos.min(plan.most_nanos() / 8);
            }
        }
    }

    fn acquire(&mut self) {
        let now = self.micros();
        let began = Some(now).filter(|_| self.model.plan.is_timed());
        if self.model.metrics_only && self.model.state(now).0 == State::Returning {
            // All calls pass, and it cannot be seen from outside which of them are counted.
            return;
        }
        let peeked = self.breaker.refusal();
        assert_eq!(peeked, self.acquire_both(now, began).filter(|_| !self.model.metrics_only));
    }

    /// Returns the refusal.
    fn acquire_both(&mut self, now: u128, began: Option<u128>) -> Option<CircuitOpen> {
        let answer = self.breaker.try_acquire();
        let refusal = answer.as_ref().err().copied();
        match (answer, self.model.acquire(now)) {
            (Ok(permit), Answer::Permitted(generation)) => {
                self.in_flight.push_back(InFlight { permit, generation: Some(generation), began });
            }
            (Ok(permit), Answer::Uncounted) => {
                self.in_flight.push_back(InFlight { permit, generation: None, began });
            }
            (answer, Answer::Share(generation, share)) => {
                let (of, calls, passed) = self.shared;
                let (calls, passed) = if of == share { (calls, passed) } else { (0, 0) };
                self.shared = (share, calls + 1, passed + u32::from(answer.is_ok()));
                let expected = f64::from(calls + 1) * share;
                let off = (f64::from(self.shared.2) - expected).abs();
                assert!(off <= 8.0 + f64::from(calls) * ROUNDING, "{:?}: {expected} expected", self.shared);
                match answer {
                    Ok(permit) => self.in_flight.push_back(InFlight { permit, generation: Some(generation), began }),
                    Err(open) => {
                        assert!(says(open, "circuit returning, twice as many calls pass in "));
                        let micros = open.retry_after().map_or(0, |wait| wait.as_micros());
                        assert!(micros > 0);
                        // Within the ramp, and no later than the share has doubled.
                        let before = self.model.share(now + micros - 1);
                        assert!(before.is_some_and(|before| before < 2.0 * share + 2.0 * ROUNDING));
                        let then = self.model.share(now + micros);
                        assert!(then.is_none_or(|then| then >= 2.0 * share - 2.0 * ROUNDING));
                    }
                }
            }
            (Err(open), Answer::OpenFor(left)) => {
                assert_eq!(open.retry_after().map(|wait| wait.as_nanos()), Some(left * 1_000));
                assert!(says(open, "circuit open, next probe in "));
            }
            (Err(open), Answer::ProbesInFlight) => {
                assert_eq!(open.retry_after(), None);
                assert!(says(open, "circuit half-open, probe in progress"));
            }
            (Err(open), Answer::Forced) => {
                assert_eq!(open.retry_after(), None);
                assert!(says(open, "circuit forced open"));
            }
            (found, expected) => panic!("{found:?} where {expected:?} was expected: {:?}", self.model),
        }
        refusal
    }

    fn record(&mut self, is_oldest: bool, outcome: Outcome) {
        let now = self.micros();
        let call = if is_oldest { self.in_flight.pop_front() } else { self.in_flight.pop_back() };
        let Some(InFlight { permit, generation, began }) = call else { return };
        match outcome {
            Outcome::Success => permit.success(),
            Outcome::Failure => permit.failure(),
            Outcome::RetryAfter(wait) => permit.failure_with_retry_after(wait),
            Outcome::Ignored => permit.ignore(),
            Outcome::Dropped => drop(permit),
        }
        if let Some(generation) = generation {
            self.model.record(generation, began, outcome, now);
        }
    }

    fn pass_until(&mut self, due: Due, off: i8) {
        let (now, config) = (self.micros(), self.model.plan.config);
        let micros = match due {
            Due::Cooldown if self.model.state == State::Open && self.model.cooldown_left(now) > 0 => {
                self.model.cooldown_left(now)
            }
            Due::Cooldown => micros_of(config.cooldown()),
            Due::HalfOpen => {
                (self.model.half_open_since + config.max_half_open().map_or(0, micros_of)).saturating_sub(now)
            }
            Due::Ramp => self.model.plan.ramp.map_or(0, |ramp| {
                let elapsed = now.saturating_sub(self.model.returning_since);
                let sixths = elapsed * 6 / ramp.length();
                if sixths < 6 { ((sixths + 1) * ramp.length()).div_ceil(6) - elapsed } else { ramp.length() }
            }),
            Due::Slow => config.slow_rate().map_or(0, |(_, duration)| micros_of(duration)),
            Due::Bucket => self.model.plan.window.buckets().map_or(0, |(length, _)| length - now % length),
            Due::Window => self.model.plan.window.buckets().map_or(0, |(length, buckets)| length * buckets),
        };
        self.pass((micros * 1_000).saturating_add_signed(i128::from(off) * 1_000));
    }

    fn pass(&mut self, nanos: u128) {
        let later = u128::from(self.nanos) + nanos;
        if later < self.most_nanos {
            self.nanos = u64::try_from(later).expect("less than 2^52");
            self.clock.set_ticks(self.nanos);
        }
    }

    fn agree(&mut self) {
        let (now, model) = (self.micros(), &self.model);
        let status = self.breaker.status();
        let (state, left) = model.state(now);
        assert_eq!((self.breaker.state(), status.state()), (state, state));
        assert_eq!(u64::from(status.generation()), model.generation % 8_192);
        assert_eq!(status.is_metrics_only(), model.metrics_only);
        let share = if state == State::Returning { model.share(now) } else { None };
        assert_eq!(status.returning_share().is_some(), share.is_some());
        assert!((status.returning_share().unwrap_or(0.0) - share.unwrap_or(0.0)).abs() <= ROUNDING);
        let is_over = model.state == State::Returning && share.is_none();
        let consecutive_failures = if is_over { 0 } else { model.consecutive_failures };
        assert_eq!(u64::from(status.consecutive_failures()), consecutive_failures);
        let counts = model.counts_shown(now);
        let shown = Counts { calls: status.calls(), failed: status.failures(), slow: status.slow_calls() };
        assert_eq!(shown, counts, "{model:?}");
        let rate = |part: u32| (shown.calls > 0).then(|| f64::from(part) * 100.0 / f64::from(shown.calls));
        assert_eq!((status.failure_rate(), status.slow_rate()), (rate(counts.failed), rate(counts.slow)));
        let probes = (status.probes_in_flight(), status.probes_succeeded(), status.probes_failed());
        // If the breaker was half-open for too long, the next call finds no probes.
        let is_open = state == State::Open;
        let expected = (model.probes_in_flight, model.probes_succeeded, model.probes_failed);
        assert_eq!(probes, if is_open { (0, 0, 0) } else { expected });
        let decisive_probes = model.decisive_probes();
        let is_within = probes.0 <= model.plan.config.max_probes() && probes.0 + probes.1 + probes.2 <= decisive_probes;
        assert!(is_within || model.has_changed);
        assert_eq!(status.next_probe_in().map(|wait| wait.as_nanos()), left.map(|micros| micros * 1_000));
        // Each change is reported once, and in order.
        let mut changes = self.changes.borrow_mut();
        let changes = changes
            .drain(..)
            .map(|change| (change.from(), change.to(), change.cause(), u64::from(change.generation())));
        let expected =
            self.model.reported.drain(..).map(|(from, to, cause, generation)| (from, to, cause, generation % 8_192));
        assert_eq!(changes.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

fn says(open: CircuitOpen, sentence: &str) -> bool {
    open.to_string().starts_with(sentence)
}
