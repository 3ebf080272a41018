//! The retries of gRPC: throttling, pushback, backoff.
//!
//! Every suite about retries that is marked `must` is run, as far as it needs no wire.

use damper::retry::{Budget, Failure, GaveUp, Jitter, RetryThrottle};
use damper::{Backoff, Deadline, ManualClock, Retry};
use serde::Deserialize;
use std::time::Duration;

const VECTORS: &str = include_str!("vectors/grpc.json");

#[derive(Deserialize)]
struct All {
    suites: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct ThrottleConfig {
    max_tokens: u32,
    token_ratio: f64,
}

impl ThrottleConfig {
    fn throttle(&self) -> RetryThrottle {
        RetryThrottle::new(self.max_tokens, self.token_ratio).expect("in range")
    }
}

/// The settings of a suite, and its steps.
fn suite<C: for<'a> Deserialize<'a>, S: for<'a> Deserialize<'a>>(id: &str) -> (C, Vec<S>) {
    let all: All = serde_json::from_str(VECTORS).expect("it is JSON");
    let mut suite = all.suites.into_iter().find(|suite| suite["id"] == id).expect("there is such a suite");
    let config = serde_json::from_value(suite["config"].take()).expect("its settings");
    (config, serde_json::from_value(suite["steps"].take()).expect("its steps"))
}

fn thousandths(tokens: f64) -> u32 {
    (tokens * 1_000.0).round() as u32
}

#[test]
fn throttle_counts_successes_and_failures() {
    #[derive(Deserialize)]
    struct Step {
        op: String,
        retry_allowed: Option<bool>,
        tokens_after: f64,
    }
    let (config, steps): (ThrottleConfig, Vec<Step>) = suite("throttle_basic");
    let throttle = config.throttle();
    for (number, Step { op, retry_allowed, tokens_after }) in steps.into_iter().enumerate() {
        match op.as_str() {
            "success" => throttle.succeeded(),
            "failure" => throttle.failed(),
            other => panic!("step {number} is {other:?}"),
        }
        assert_eq!(throttle.thousandths(), thousandths(tokens_after), "step {number}");
        assert!(retry_allowed.is_none_or(|expected| throttle.try_withdraw() == expected), "step {number}");
    }
}

#[test]
fn throttled_calls_end() {
    #[derive(Deserialize)]
    struct Config {
        #[serde(flatten)]
        throttle: ThrottleConfig,
        max_attempts: u32,
        server_ok_at_attempt_index: Vec<usize>,
    }
    #[derive(Deserialize)]
    struct Step {
        result: String,
        last_attempt_index: usize,
        tokens_after: f64,
    }
    let (config, steps): (Config, Vec<Step>) = suite("throttle_end_to_end_go");
    let (clock, throttle) = (ManualClock::new(), config.throttle.throttle());
    let retry = Retry::with_clock(config.max_attempts, &clock, 1).budget(&throttle);
    let retry = retry.when(|result: &Result<(), &str>| result.is_err().then_some(Failure::TRANSIENT));
    let mut attempts = 0;
    for (call, Step { result, last_attempt_index, tokens_after }) in steps.into_iter().enumerate() {
        let answer = retry.call_sleeping_by(
            |wait| clock.advance(wait),
            |_| {
                attempts += 1;
                if config.server_ok_at_attempt_index.contains(&(attempts - 1)) { Ok(()) } else { Err("UNAVAILABLE") }
            },
        );
        assert_eq!((answer.is_ok(), attempts - 1), (result == "OK", last_attempt_index), "call {call}");
        assert_eq!(throttle.thousandths(), thousandths(tokens_after), "call {call}");
    }
}

/// A pushback is one whole number of milliseconds. Any other value declines the retry.
///
/// The adapter parses the header; this test passes the parsed values.
#[test]
fn pushback_is_exact_or_ends_the_call() {
    #[derive(Deserialize)]
    struct Step {
        values: Vec<String>,
        retry: bool,
        delay_ms: Option<u64>,
    }
    let ((), steps): ((), Vec<Step>) = suite("pushback");
    let (clock, throttle) = (ManualClock::new(), RetryThrottle::new(10, 0.1).expect("in range"));
    let base = Duration::from_millis(100);
    let retry = Retry::with_clock(9, &clock, 1).backoff(Backoff::exponential(base).jitter(Jitter::None));
    let retry = retry.budget(&throttle);
    for Step { values, retry: is_retried, delay_ms } in steps {
        let failure = match values.as_slice() {
            [] => Failure::TRANSIENT,
            [value] => match value.parse() {
                Ok(millis) => Failure::TRANSIENT.pushback(Duration::from_millis(millis)),
                Err(_) => Failure::TRANSIENT.declined(),
            },
            _ => Failure::TRANSIENT.declined(),
        };
        let mut attempts = retry.begin();
        // The backoff of the second retry is twice as long.
        assert_eq!(attempts.failed(&retry, Failure::TRANSIENT), Ok(base));
        let before = throttle.thousandths();
        let decided = attempts.failed(&retry, failure);
        assert_eq!(before - throttle.thousandths(), 1_000, "{values:?} is a failure for the throttle");
        match (is_retried, delay_ms) {
            (false, _) => assert_eq!(decided, Err(GaveUp::Declined), "{values:?}"),
            (true, None) => assert_eq!(decided, Ok(base * 2), "{values:?}"),
            (true, Some(millis)) => {
                assert_eq!(decided, Ok(Duration::from_millis(millis)), "{values:?}");
                assert_eq!(attempts.failed(&retry, Failure::TRANSIENT), Ok(base), "the backoff starts over");
            }
        }
        (0..100).for_each(|_| throttle.succeeded());
    }
}

#[test]
fn backoff_is_within_its_bounds() {
    #[derive(Deserialize)]
    struct Config {
        initial_ms: u64,
        multiplier: f64,
        max_ms: u64,
    }
    #[derive(Deserialize)]
    struct Step {
        retry: usize,
        range_ms: [u128; 2],
    }
    let (config, steps): (Config, Vec<Step>) = suite("backoff_bounds");
    let backoff = Backoff::exponential(Duration::from_millis(config.initial_ms)).factor(config.multiplier);
    // gRPC's jitter exceeds the longest delay by up to a fifth. damper's never exceeds it.
    let (backoff, longest) = (backoff.expect("in range").jitter(Jitter::PROPORTIONAL), config.max_ms);
    for Step { retry, range_ms: [least, most] } in steps {
        for seed in 0..1_000 {
            let mut delays = backoff.max_delay(Duration::from_millis(longest)).delays(seed);
            let wait = delays.nth(retry - 1).expect("the delays never end").as_millis();
            assert!(least <= wait && wait <= most, "retry {retry}: {wait} ms");
        }
    }
}

/// Only the step about a retry. The others are in `grpc/deadline.rs`.
#[test]
fn no_retry_is_made_whose_wait_passes_the_deadline() {
    #[derive(Deserialize)]
    struct Step {
        incoming: Option<String>,
        retry_delay_ms: Option<u64>,
    }
    let (_, steps): (Option<()>, Vec<Step>) = suite("deadline_propagation");
    let mut run = 0;
    for step in steps {
        let (Some(delay), Some(incoming)) = (step.retry_delay_ms, step.incoming) else { continue };
        let seconds = incoming.strip_suffix('S').and_then(|seconds| seconds.parse().ok()).expect("it is in seconds");
        let clock = ManualClock::new();
        let backoff = Backoff::constant(Duration::from_millis(delay)).jitter(Jitter::None);
        let retry = Retry::with_clock(9, &clock, 1).backoff(backoff);
        let mut attempts = retry.begin_by(Deadline::with_clock(Duration::from_secs(seconds), &clock));
        assert_eq!(attempts.failed(&retry, Failure::TRANSIENT), Err(GaveUp::Deadline { hint: None }));
        run += 1;
    }
    assert_eq!(run, 1);
}
