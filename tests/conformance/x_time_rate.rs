//! The token bucket of golang.org/x/time/rate.

use damper::{ManualClock, Quota, RateLimiter};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

const VECTORS: &str = include_str!("vectors/x_time_rate.json");

/// The suites of operations that damper offers.
const SUITES: [&str; 7] =
    ["burst1", "burst3", "no_truncation", "tiny_limit", "simultaneous", "long_running_qps", "every"];

#[derive(Deserialize)]
struct Suite {
    id: String,
    config: Config,
    #[serde(default)]
    steps: Vec<serde_json::Value>,
    threads: Option<u32>,
    expect_admitted_exactly: Option<u32>,
    r#loop: Option<Loop>,
    expect: Option<Expect>,
}

#[derive(Deserialize)]
struct Config {
    limit_per_s: Option<f64>,
    burst: Option<u32>,
}

#[derive(Deserialize)]
struct Step {
    op: String,
    t_ns: u64,
    n: u32,
    tokens_before: Option<u32>,
    ok: bool,
}

#[derive(Deserialize)]
struct Rate {
    interval_ns: String,
    limit_per_s: serde_json::Value,
}

#[derive(Deserialize)]
struct Loop {
    first_t_ns: u64,
    step_ns: u64,
    stop_before_ns: u64,
    n: u32,
    calls: u32,
}

#[derive(Deserialize)]
struct Expect {
    admitted_exact_arithmetic: u32,
}

/// A rate as a quota: a whole number per second, or one token an interval.
fn quota(config: &Config) -> Quota {
    let limit = config.limit_per_s.expect("a suite of buckets names its limit");
    let quota = if limit.fract() == 0.0 {
        Quota::per_second(limit as u32)
    } else {
        Quota::every(Duration::from_secs_f64(limit.recip())).expect("an interval that means something")
    };
    quota.burst(config.burst.expect("a suite of buckets names its burst"))
}

fn suite(id: &str) -> Suite {
    // Only the suites that are run have to be of a shape that is known here.
    #[derive(Deserialize)]
    struct Untyped {
        suites: Vec<serde_json::Value>,
    }
    let all: Untyped = serde_json::from_str(VECTORS).unwrap();
    let found = all.suites.into_iter().find(|suite| suite["id"] == id);
    serde_json::from_value(found.expect("the suite is in the vectors")).unwrap()
}

#[test]
fn the_calls_of_every_suite_come_out_as_told() {
    let mut run = 0;
    for suite in SUITES.into_iter().map(suite).filter(|suite| suite.config.limit_per_s.is_some()) {
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_clock(quota(&suite.config), &clock);
        for (index, step) in suite.steps.into_iter().enumerate() {
            let step: Step = serde_json::from_value(step).unwrap();
            assert_eq!(step.op, "allow");
            clock.set_ticks(step.t_ns);
            if let Some(tokens) = step.tokens_before {
                assert_eq!(limiter.peek().remaining(), tokens, "{} step {index}", suite.id);
            }
            assert_eq!(limiter.check_n(step.n).is_ok(), step.ok, "{} step {index}", suite.id);
            run += 1;
        }
    }
    assert_eq!(run, 9 + 13 + 1 + 2, "every step was run");
}

#[test]
fn simultaneous_calls_share_one_burst() {
    let suite = suite("simultaneous");
    let threads = suite.threads.unwrap();
    for _ in 0..200 {
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_clock(quota(&suite.config), &clock);
        let barrier = Barrier::new(threads as usize);
        let allowed: u32 = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        u32::from(limiter.check().is_ok())
                    })
                })
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).sum()
        });
        assert_eq!(Some(allowed), suite.expect_admitted_exactly);
    }
}

#[test]
fn a_long_run_gets_exactly_the_rate() {
    let suite = suite("long_running_qps");
    let (calls, expect) = (suite.r#loop.unwrap(), suite.expect.unwrap());
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(quota(&suite.config), &clock);
    let (mut made, mut admitted) = (0, 0);
    let mut at = calls.first_t_ns;
    while at < calls.stop_before_ns {
        clock.set_ticks(at);
        admitted += if limiter.check_n(calls.n).is_ok() { calls.n } else { 0 };
        made += 1;
        at += calls.step_ns;
    }
    assert_eq!((made, admitted), (calls.calls, expect.admitted_exact_arithmetic));
}

#[test]
fn intervals_are_rates() {
    for rate in suite("every").steps {
        let rate: Rate = serde_json::from_value(rate).unwrap();
        // A `Duration` cannot be negative, and a zero interval, infinite upstream, is an error here.
        let Ok(nanos) = rate.interval_ns.parse::<u64>() else { continue };
        let Ok(quota) = Quota::every(Duration::from_nanos(nanos)) else {
            assert_eq!(rate.limit_per_s, "inf");
            continue;
        };
        let per_second = f64::from(quota.limit()) / quota.window().as_secs_f64();
        let expected = rate.limit_per_s.as_f64().unwrap();
        assert!((per_second / expected - 1.0).abs() < 1e-9, "{nanos} ns: {per_second}, not {expected}");
    }
}

/// A suite that is left out is left out on purpose: because damper does not offer the operation yet.
#[test]
fn no_other_suite_consists_of_checks_alone() {
    #[derive(Deserialize)]
    struct Summary {
        id: String,
        conformance: String,
        #[serde(default)]
        steps: Vec<serde_json::Value>,
    }
    #[derive(Deserialize)]
    struct All {
        suites: Vec<Summary>,
    }
    let all: All = serde_json::from_str(VECTORS).unwrap();
    let run: BTreeSet<_> = SUITES.into_iter().collect();
    for suite in all.suites.iter().filter(|suite| suite.conformance == "must" && !run.contains(&*suite.id)) {
        assert!(suite.steps.iter().any(|step| step["op"] != "allow"), "{} could be run", suite.id);
    }
}
