//! The circuit breaker of sony/gobreaker.
//!
//! Every suite marked `must` is run. Checked are states, admissions and transitions always, and the counts that
//! damper's policy keeps: consecutive failures, calls and failures of a window, and probes. Excluded calls leave no
//! trace in damper, so their count is not checked. Neither are the counts of an open breaker.

use damper::breaker::{Permit, State, StateChange, Verdict, Window};
use damper::{BreakerConfig, CallError, CircuitBreaker, ManualClock};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const VECTORS: &str = include_str!("vectors/gobreaker.json");

#[derive(Deserialize)]
struct All {
    suites: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Suite {
    id: String,
    config: Config,
    #[serde(default)]
    steps: Vec<Step>,
    threads: Option<u32>,
    calls_per_thread: Option<u32>,
    #[serde(default)]
    pattern: Vec<Outcome>,
    expect: Option<Expected>,
}

#[derive(Deserialize)]
struct Config {
    half_open_max_requests: u32,
    interval_ns: u64,
    bucket_period_ns: u64,
    open_timeout_ns: u64,
    trip: Trip,
    classify: Option<String>,
}

#[derive(Deserialize)]
struct Trip {
    consecutive_failures_gt: Option<u32>,
    min_requests: Option<u32>,
    failure_ratio_gte: Option<f64>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Step {
    Advance { ns: u64 },
    Call { outcome: Outcome, times: u32, admitted: bool, error: Option<Error> },
    Begin { id: String, admitted: bool },
    End { id: String, outcome: Outcome },
    Expect(Expected),
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Success,
    Failure,
    Excluded,
    Panic,
    Error,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Error {
    Open,
    TooManyRequests,
}

#[derive(Deserialize)]
struct Expected {
    state: Name,
    counts: Option<Counts>,
    last_transition: Option<[Name; 2]>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Closed,
    Open,
    HalfOpen,
}

impl From<Name> for State {
    fn from(name: Name) -> Self {
        match name {
            Name::Closed => Self::Closed,
            Name::Open => Self::Open,
            Name::HalfOpen => Self::HalfOpen,
        }
    }
}

#[derive(Debug, Deserialize)]
struct Counts {
    requests: u32,
    successes: u32,
    failures: u32,
    exclusions: u32,
    consec_failures: u64,
}

fn suites() -> Vec<Suite> {
    let all: All = serde_json::from_str(VECTORS).unwrap();
    let is_must = |suite: &serde_json::Value| suite["conformance"] == "must";
    all.suites.into_iter().filter(is_must).map(|suite| serde_json::from_value(suite).unwrap()).collect()
}

impl Config {
    fn has_window(&self) -> bool {
        self.trip.failure_ratio_gte.is_some()
    }

    fn breaker<'a>(&self, clock: &'a ManualClock) -> CircuitBreaker<&'a ManualClock> {
        // The n-th failure trips; gobreaker has more than n - 1.
        let in_a_row = self.trip.consecutive_failures_gt.map_or(u32::MAX, |failures| failures + 1);
        let mut config = BreakerConfig::builder()
            .failure_threshold(in_a_row)
            .cooldown(Duration::from_nanos(self.open_timeout_ns))
            .max_probes(self.half_open_max_requests)
            .successes_to_close(self.half_open_max_requests);
        if let Some(ratio) = self.trip.failure_ratio_gte {
            config = config.failure_rate((ratio * 100.0).round() as u32).minimum_calls(self.trip.min_requests.unwrap());
        }
        let interval = Duration::from_nanos(self.interval_ns);
        let config = match (self.interval_ns, self.bucket_period_ns) {
            (0, _) => config,
            (_, 0) => config.window(Window::interval(interval)),
            (_, bucket) => {
                assert_eq!(bucket * 10, self.interval_ns, "damper's windows have ten buckets");
                config.window(Window::last(interval))
            }
        };
        CircuitBreaker::with_clock(config.build().unwrap(), clock)
    }
}

fn verdict(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Success => Verdict::Success,
        Outcome::Failure | Outcome::Panic | Outcome::Error => Verdict::Failure,
        Outcome::Excluded => Verdict::Ignored,
    }
}

type Breaker<'a, L> = CircuitBreaker<&'a ManualClock, L>;

/// Makes a call, and returns the refusal if it was not admitted.
fn call<L: damper::breaker::OnStateChange>(
    breaker: &Breaker<'_, L>,
    config: &Config,
    outcome: Outcome,
) -> Option<Error> {
    let call = || match outcome {
        Outcome::Success => Ok(()),
        Outcome::Panic => panic!("as the suite says"),
        _ => Err(()),
    };
    let classify = |_: &Result<(), ()>| if config.classify.is_some() { Verdict::Success } else { verdict(outcome) };
    match catch_unwind(AssertUnwindSafe(|| breaker.call_with(call, classify))) {
        Ok(Err(CallError::Refused(open))) => {
            Some(if open.retry_after().is_some() { Error::Open } else { Error::TooManyRequests })
        }
        Ok(_) => {
            assert_ne!(outcome, Outcome::Panic, "a panic unwinds through the breaker");
            None
        }
        Err(_) => {
            assert_eq!(outcome, Outcome::Panic);
            None
        }
    }
}

fn check<L: damper::breaker::OnStateChange>(
    breaker: &Breaker<'_, L>,
    config: &Config,
    expected: &Expected,
    what: &str,
) {
    assert_eq!(breaker.state(), expected.state.into(), "{what}");
    let Some(counts) = &expected.counts else { return };
    let status = breaker.status();
    match status.state() {
        State::Closed => {
            assert_eq!(u64::from(status.consecutive_failures()), counts.consec_failures, "{what}");
            if config.has_window() {
                let found = (status.calls(), status.failures());
                assert_eq!(found, (counts.successes + counts.failures, counts.failures), "{what}: {counts:?}");
            }
        }
        State::HalfOpen => {
            let out = counts.requests - counts.successes - counts.failures - counts.exclusions;
            assert_eq!((status.probes_in_flight(), status.probes_succeeded()), (out, counts.successes), "{what}");
        }
        _ => {}
    }
}

fn run(suite: &Suite) {
    let clock = ManualClock::new();
    let changes = RefCell::new(Vec::<StateChange>::new());
    let breaker = suite.config.breaker(&clock).on_state_change(|change| changes.borrow_mut().push(change));
    let mut permits: HashMap<&str, Permit<_>> = HashMap::new();
    for (index, step) in suite.steps.iter().enumerate() {
        let what = format!("{}, step {index}", suite.id);
        match step {
            Step::Advance { ns } => clock.advance(Duration::from_nanos(*ns)),
            Step::Call { outcome, times, admitted, error } => {
                for _ in 0..*times {
                    match (call(&breaker, &suite.config, *outcome), error) {
                        (None, _) => assert!(*admitted, "{what}"),
                        (Some(Error::Open), Some(Error::Open))
                        | (Some(Error::TooManyRequests), Some(Error::TooManyRequests)) => assert!(!*admitted, "{what}"),
                        (Some(_), _) => panic!("{what}: refused"),
                    }
                }
            }
            Step::Begin { id, admitted } => {
                let permit = breaker.try_acquire();
                assert_eq!(permit.is_ok(), *admitted, "{what}");
                permits.extend(permit.map(|permit| (id.as_str(), permit)));
            }
            Step::End { id, outcome } => permits.remove(id.as_str()).unwrap().record(verdict(*outcome)),
            Step::Expect(expected) => {
                check(&breaker, &suite.config, expected, &what);
                if let Some([from, to]) = expected.last_transition {
                    let changes = changes.borrow();
                    let last = changes.last().map(|change| (change.from(), change.to()));
                    // A query moves gobreaker to half-open. damper reports that the next call will do so.
                    let is_due = (from.into(), to.into()) == (State::Open, State::HalfOpen);
                    let expected = if is_due { (State::Closed, State::Open) } else { (from.into(), to.into()) };
                    assert!(
                        last == Some(expected) || is_due && last.is_some_and(|last| last.1 == State::Open),
                        "{what}: {last:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_suite_that_must_pass_does() {
    let suites = suites();
    let run_of_steps = suites.iter().filter(|suite| !suite.steps.is_empty()).inspect(|suite| run(suite)).count();
    assert_eq!((run_of_steps, suites.len()), (9, 10));
}

#[test]
fn counts_are_exact_in_parallel() {
    let suites = suites();
    let suite = suites.iter().find(|suite| suite.threads.is_some()).unwrap();
    let clock = ManualClock::new();
    let breaker = suite.config.breaker(&clock);
    std::thread::scope(|scope| {
        for _ in 0..suite.threads.unwrap() {
            scope.spawn(|| {
                for outcome in suite.pattern.iter().cycle().take(suite.calls_per_thread.unwrap() as usize) {
                    assert!(call(&breaker, &suite.config, *outcome).is_none(), "none is refused");
                }
            });
        }
    });
    check(&breaker, &suite.config, suite.expect.as_ref().unwrap(), &suite.id);
}
