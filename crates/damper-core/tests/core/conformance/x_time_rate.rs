//! The token bucket of golang.org/x/time/rate.
//!
//! Every suite marked `must` is run. Of the others run those whose semantics damper shares: [`SAME_SEMANTICS`]
//! unchanged, and some in tests of their own that explain the difference.
//!
//! Waits are futures, polled by hand while the clock moves to the end of each sleep, and are compared to the
//! nanosecond. A cancelled context is a dropped future.

use damper::{Clock, Denied, ManualClock, Quota, RateLimiter, Reservation, TokenBucket};
use serde::Deserialize;
use std::cell::Cell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const VECTORS: &str = include_str!("vectors/x_time_rate.json");

/// Optional suites that damper passes unchanged.
const SAME_SEMANTICS: [&str; 6] = [
    "zero_limit",
    "infinite_limit",
    "cancel_0_tokens",
    "reserve_set_limit",
    "reserve_set_limit_cancel",
    "set_after_zero_limit",
];

#[derive(Deserialize)]
struct All {
    suites: Vec<Suite>,
}

#[derive(Deserialize)]
struct Suite {
    id: String,
    kind: String,
    conformance: String,
    config: Config,
    #[serde(default)]
    steps: Vec<serde_json::Value>,
    threads: Option<u32>,
    expect_admitted_exactly: Option<u32>,
    r#loop: Option<Loop>,
    expect: Option<Expect>,
}

#[derive(Clone, Deserialize)]
struct Config {
    limit_per_s: Option<serde_json::Value>,
    burst: Option<u32>,
}

#[derive(Deserialize)]
struct Step {
    t_ns: u64,
    tokens_before: Option<i64>,
    /// The name of a reservation that is cancelled later.
    id: Option<String>,
    #[serde(flatten)]
    op: Op,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Allow {
        n: u32,
        ok: bool,
    },
    Reserve {
        n: u32,
        ok: bool,
        act_at_ns: Option<u64>,
        delay_ns: Option<u64>,
        max_delay_ns: Option<u64>,
    },
    Cancel {
        tokens_restored: i64,
    },
    SetLimit {
        limit_per_s: serde_json::Value,
    },
    Wait {
        n: u32,
        ok: bool,
        waited_ns: u64,
        deadline_ns: Option<u64>,
        cancel_at_ns: Option<u64>,
        #[serde(default)]
        already_cancelled: bool,
        error: Option<WaitError>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WaitError {
    Cancelled,
    ExceedsBurst,
    WouldExceedDeadline,
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

impl Suite {
    fn all() -> Vec<Self> {
        serde_json::from_str::<All>(VECTORS).unwrap().suites
    }

    fn named(id: &str) -> Self {
        Self::all().into_iter().find(|suite| suite.id == id).expect("the suite is in the vectors")
    }

    fn run(&self) {
        match self.kind.as_str() {
            "token_bucket" => self.run_steps(),
            "token_bucket.concurrency" => self.run_threads(),
            "token_bucket.rate" => self.run_loop(),
            "rate_from_interval" => self.run_intervals(),
            kind => panic!("{}: suites of the kind {kind} are unknown", self.id),
        }
    }

    fn run_steps(&self) {
        assert!(!self.steps.is_empty(), "{}: no steps", self.id);
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_clock(quota(&self.config), &clock);
        let quota = quota(&self.config);
        let mut bucket = Bucket { limiter: &limiter, clock: &clock, quota, reserved: HashMap::new(), kept: 0 };
        for (index, step) in self.steps.iter().enumerate() {
            let step: Step = serde_json::from_value(step.clone()).unwrap();
            clock.set_ticks(step.t_ns);
            bucket.run(step, &format!("{} step {index}", self.id));
        }
    }

    fn run_threads(&self) {
        let threads = self.threads.unwrap();
        for _ in 0..200 {
            let clock = ManualClock::new();
            let limiter = RateLimiter::with_clock(quota(&self.config), &clock);
            let barrier = Barrier::new(threads as usize);
            let call = || {
                barrier.wait();
                u32::from(limiter.check().is_ok())
            };
            let allowed: u32 = std::thread::scope(|scope| {
                let calls: Vec<_> = (0..threads).map(|_| scope.spawn(call)).collect();
                calls.into_iter().map(|call| call.join().unwrap()).sum()
            });
            assert_eq!(Some(allowed), self.expect_admitted_exactly);
        }
    }

    fn run_loop(&self) {
        let (calls, expect) = (self.r#loop.as_ref().unwrap(), self.expect.as_ref().unwrap());
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_clock(quota(&self.config), &clock);
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

    fn run_intervals(&self) {
        for rate in &self.steps {
            let rate: Rate = serde_json::from_value(rate.clone()).unwrap();
            // A `Duration` cannot be negative. A zero interval is infinite upstream and an error here.
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
}

type Slot<'a> = Reservation<&'a RateLimiter<TokenBucket, &'a ManualClock>>;

/// A limiter within a suite.
struct Bucket<'a> {
    limiter: &'a RateLimiter<TokenBucket, &'a ManualClock>,
    clock: &'a ManualClock,
    quota: Quota,
    reserved: HashMap<String, (u32, Option<Slot<'a>>)>,
    /// Tokens that upstream gives back and damper keeps.
    kept: u64,
}

impl Bucket<'_> {
    /// The level of the bucket, negative while tokens are owed.
    fn level(&self) -> i64 {
        i64::from(self.limiter.peek().remaining()) - i64::from(self.limiter.debt())
    }

    fn run(&mut self, step: Step, what: &str) {
        if let Some(tokens) = step.tokens_before {
            assert_eq!(self.level(), tokens, "{what}");
        }
        match step.op {
            Op::Allow { n, ok } => assert_eq!(self.limiter.check_n(n).is_ok(), ok, "{what}"),
            Op::Reserve { n, ok, act_at_ns, delay_ns, max_delay_ns } => {
                let reserved = match max_delay_ns {
                    Some(longest) => self.limiter.reserve_within(n, Duration::from_nanos(longest)).ok(),
                    None => self.limiter.reserve(n).ok(),
                };
                assert_eq!(reserved.is_some(), ok, "{what}");
                if let Some(reserved) = &reserved {
                    let delay = delay_ns.expect("a reservation has a time");
                    assert_eq!(act_at_ns, Some(step.t_ns + delay), "{what}: the vector is consistent");
                    assert_eq!(reserved.ready_in(), Some(Duration::from_nanos(delay) + self.extra()), "{what}");
                }
                if let Some(id) = step.id {
                    self.reserved.insert(id, (n, reserved));
                }
            }
            Op::Cancel { tokens_restored } => {
                let (n, reserved) = self.reserved.remove(&step.id.expect("a name")).expect("was reserved");
                let before = self.level();
                let cancelled = reserved.is_some_and(Reservation::cancel);
                assert_eq!(self.level() - before, if cancelled { n.into() } else { 0 }, "{what}");
                // damper returns all of a reservation or nothing.
                assert_eq!(cancelled, tokens_restored == i64::from(n), "{what}");
                self.kept += if cancelled { 0 } else { tokens_restored.unsigned_abs() };
            }
            Op::SetLimit { limit_per_s } => {
                self.quota = rate(&limit_per_s).burst(self.quota.burst_size());
                self.limiter.set_quota(self.quota).unwrap();
            }
            Op::Wait { n, ok, waited_ns, deadline_ns, cancel_at_ns, already_cancelled, error } => {
                let before = self.level();
                let longest = deadline_ns.map(|deadline| Duration::from_nanos(deadline - step.t_ns));
                // A context cancelled from the start is a future that is never polled.
                let waited = if already_cancelled { None } else { self.wait(n, longest, cancel_at_ns) };
                assert_eq!(waited == Some(Ok(())), ok, "{what}");
                assert_eq!(self.clock.now(), step.t_ns + waited_ns, "{what}");
                assert!(ok || self.level() >= before, "{what}: no token is taken");
                let found = waited.map_or(Some(WaitError::Cancelled), |waited| {
                    let denied = waited.err()?;
                    Some(if denied.exceeds_burst() {
                        WaitError::ExceedsBurst
                    } else {
                        self.too_late(n, longest, denied)
                    })
                });
                assert_eq!(found, error, "{what}");
            }
        }
    }

    /// Waits for the tokens until `cancelled` at most. Returns `None` if that comes first.
    fn wait(&self, n: u32, longest: Option<Duration>, cancelled: Option<u64>) -> Option<Result<(), Denied>> {
        let until = Cell::new(0);
        let sleep = |duration: Duration| {
            until.set(self.clock.now() + duration.as_nanos() as u64);
            let until = until.get();
            poll_fn(move |_| if self.clock.now() < until { Poll::Pending } else { Poll::Ready(()) })
        };
        let turn = self.limiter.acquire(n);
        let turn = longest.map_or(turn, |longest| turn.within(longest));
        let mut ready = pin!(turn.sleeping_by(sleep));
        loop {
            if let Poll::Ready(result) = ready.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return Some(result);
            }
            assert!(until.get() > self.clock.now(), "the sleep is not empty");
            match cancelled {
                Some(cancelled) if cancelled < until.get() => {
                    self.clock.set_ticks(cancelled);
                    return None;
                }
                _ => self.clock.set_ticks(until.get()),
            }
        }
    }

    /// Checks a refusal that is due to the deadline alone.
    ///
    /// Without a deadline the wait would exceed it by exactly the refusal's `retry_after`.
    fn too_late(&self, n: u32, longest: Option<Duration>, denied: Denied) -> WaitError {
        let reserved = self.limiter.reserve(n).expect("without a deadline");
        assert_eq!(reserved.ready_in(), Some(longest.unwrap() + denied.retry_after().unwrap()));
        assert!(reserved.cancel());
        WaitError::WouldExceedDeadline
    }

    /// How much later reservations are ready because of the tokens that were kept.
    fn extra(&self) -> Duration {
        if self.kept == 0 {
            return Duration::ZERO;
        }
        self.quota.window() * u32::try_from(self.kept).unwrap() / self.quota.limit()
    }
}

fn quota(config: &Config) -> Quota {
    let limit = config.limit_per_s.as_ref().expect("a suite of buckets names its limit");
    rate(limit).burst(config.burst.expect("a suite of buckets names its burst"))
}

/// Converts a rate to a quota: a whole number per second, one token per interval, or no limit.
fn rate(limit: &serde_json::Value) -> Quota {
    let Some(limit) = limit.as_f64() else {
        assert_eq!(*limit, "inf");
        return Quota::UNLIMITED;
    };
    if limit.fract() == 0.0 {
        Quota::per_second(limit as u32)
    } else {
        Quota::every(Duration::from_secs_f64(limit.recip())).expect("a valid interval")
    }
}

/// Every required suite is run. An unknown kind of suite fails the test, so none is skipped.
#[test]
fn required_suites_hold() {
    let mut run = 0;
    for suite in Suite::all().iter().filter(|suite| suite.conformance == "must") {
        suite.run();
        run += 1;
    }
    assert!(run >= 16, "{run} suites, the file has fewer than before");
}

#[test]
fn suites_of_the_same_semantics_hold() {
    for id in SAME_SEMANTICS {
        let suite = Suite::named(id);
        assert_eq!(suite.conformance, "semantics_specific");
        suite.run();
    }
}

/// Upstream returns a part of a reservation if later reservations took tokens.
///
/// damper keeps that part, so the next reservation waits that much longer. The reservations in between keep their times
/// either way.
#[test]
fn cancel_gives_back_all_or_nothing_unlike_upstream() {
    for (id, kept) in [("cancel_0_tokens", 0), ("cancel_1_token", 1), ("cancel_multi", 2)] {
        let suite = Suite::named(id);
        suite.run();
        let restored = |step: &serde_json::Value| step["tokens_restored"].as_u64();
        let last = suite.steps.iter().filter_map(restored).next_back();
        assert_eq!(last, Some(kept), "{id}: the suite covers this case");
    }
}

/// Upstream a reservation keeps its original time.
///
/// In damper the time follows the quota, and the debt in tokens stays the same.
#[test]
fn reservation_follows_the_quota() {
    let config = Suite::named("reserve_set_limit").config;
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(quota(&config), &clock);
    limiter.check_n(2).unwrap();
    let waiting = limiter.reserve(2).unwrap();
    assert_eq!(waiting.ready_in(), Some(Duration::from_millis(400)));
    clock.advance(Duration::from_millis(200));
    limiter.set_quota(Quota::per_second(10).burst(2)).unwrap();
    assert_eq!(waiting.ready_in(), Some(Duration::from_millis(100)), "one token is still missing");
    assert_eq!(limiter.debt(), 1);
}

/// Upstream credits a stretch of time twice when the clock jumps back and forth.
///
/// damper credits it once. At no time does it allow more than a bucket whose time only moves forward, and in the end it
/// allows as much.
#[test]
fn clock_that_jumps_back_keeps_the_envelope() {
    let suite = Suite::named("jump_backwards_clamped");
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(quota(&suite.config), &clock);
    let (mut allowed, mut clamped) = (0, 0);
    for step in suite.steps {
        let step: Step = serde_json::from_value(step).unwrap();
        let Op::Allow { n, ok } = step.op else { panic!("only checks") };
        clock.set_ticks(step.t_ns);
        allowed += if limiter.check_n(n).is_ok() { n } else { 0 };
        clamped += if ok { n } else { 0 };
        assert!(allowed <= clamped, "at {}", step.t_ns);
    }
    assert_eq!(allowed, clamped);
}
