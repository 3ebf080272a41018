//! Hedged calls on tokio's paused clock.

use crate::models::tokio_clock::TokioClock;
use damper::retry::{Budget, Failure, Hedge, HedgeConfig, RetryThrottle};
use damper::{CircuitBreaker, ManualClock, Quota, RateLimiter};
use std::cell::Cell;
use std::future::pending;
use std::io;
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn hedge(config: HedgeConfig) -> Hedge<TokioClock> {
    Hedge::with_clock(config, TokioClock(Instant::now()))
}

fn fixed(delay: Duration, attempts: u32) -> HedgeConfig {
    HedgeConfig::builder().fixed_delay(delay).max_attempts(attempts).build().expect("in range")
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// One request in a hundred takes a second, and the others take 10 ms.
struct Upstream {
    random: u64,
    slow: Duration,
    fast: Duration,
    requests: Cell<usize>,
}

impl Upstream {
    fn new(seed: u64) -> Self {
        Self { random: seed, slow: Duration::from_secs(1), fast: 10 * MILLISECOND, requests: Cell::new(0) }
    }

    fn request(&mut self) -> impl Future<Output = io::Result<()>> + use<> {
        // The constants of "Numerical Recipes".
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.requests.set(self.requests.get() + 1);
        let latency = if (self.random >> 33).is_multiple_of(100) { self.slow } else { self.fast };
        async move {
            sleep(latency).await;
            Ok(())
        }
    }
}

/// Returns the latency that one call in a thousand exceeds.
fn p999(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort_unstable();
    latencies[latencies.len() * 999 / 1_000]
}

/// Responds after 10 ms.
async fn answer() -> io::Result<()> {
    sleep(10 * MILLISECOND).await;
    Ok(())
}

/// Hedges cut p99.9 from 1 s to 21 ms, with at most 1.1 % more requests.
///
/// The required bars are nine tenths, and 2 % plus 10.
#[tokio::test(start_paused = true)]
async fn hedging_cuts_the_tail_for_few_extra_requests() {
    const CALLS: usize = 20_000;
    for seed in 1..=3 {
        let hedge = hedge(HedgeConfig::DEFAULT);
        let mut upstream = Upstream::new(seed);
        let mut latencies = Vec::new();
        for call in 0..CALLS {
            let began = Instant::now();
            hedge.run(|_| upstream.request()).await.expect("it never fails");
            // The first calls teach the hedge which latency is slow.
            if call >= 2_000 {
                latencies.push(began.elapsed());
            }
        }
        let p999 = p999(latencies);
        let extra = upstream.requests.get() - CALLS;
        assert!(p999 <= Duration::from_millis(21), "p99.9 is {p999:?}, and 1 s without hedges");
        assert!(extra * 90 <= CALLS, "{extra} extra requests: at most 1.1 %");
        assert!(extra * 100 >= CALLS / 2, "{extra} extra requests: most of the 1 % of slow calls are hedged");
    }
}

/// Everything takes 50 times as long from now on, and hedges stay within their share.
#[tokio::test(start_paused = true)]
async fn slow_upstream_gets_few_extra_requests() {
    let hedge = hedge(HedgeConfig::DEFAULT);
    let mut upstream = Upstream::new(7);
    for _ in 0..2_000 {
        hedge.run(|_| upstream.request()).await.expect("it never fails");
    }
    (upstream.fast, upstream.slow) = (500 * MILLISECOND, Duration::from_secs(50));
    let before = upstream.requests.get();
    for calls in 1..=2_000 {
        hedge.run(|_| upstream.request()).await.expect("it never fails");
        let extra = upstream.requests.get() - before - calls;
        assert!(extra * 50 <= calls + 10 * 50, "{extra} extra requests in {calls} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_hedged_before_enough_calls_were_seen() {
    let hedge = hedge(HedgeConfig::DEFAULT);
    for call in 0..200 {
        assert_eq!(hedge.delay(), None, "after {call} calls");
        hedge.run(|_| answer()).await.expect("it succeeds");
    }
    sleep(Duration::from_millis(250)).await;
    let delay = hedge.delay().expect("200 calls");
    assert!((10 * MILLISECOND..=11 * MILLISECOND).contains(&delay), "{delay:?}");
    sleep(Duration::from_secs(31)).await;
    assert_eq!(hedge.delay(), None, "latencies expire after 30 s");
}

#[tokio::test(start_paused = true)]
async fn first_success_wins_and_drops_the_others() {
    let hedge = hedge(fixed(10 * MILLISECOND, 3));
    let began = Instant::now();
    let call = hedge.run(|attempt| async move {
        if attempt < 3 {
            pending::<()>().await;
        }
        sleep(5 * MILLISECOND).await;
        Ok::<_, io::Error>(attempt)
    });
    let winner = tokio::time::timeout(Duration::from_secs(60), call).await.expect("the third attempt answers");
    assert_eq!((winner.expect("the third"), began.elapsed()), (3, 25 * MILLISECOND));
}

#[tokio::test(start_paused = true)]
async fn fast_failure_starts_the_next_attempt_at_once() {
    let hedge = hedge(fixed(Duration::from_secs(60), 3));
    let began = Instant::now();
    let winner = hedge
        .run(|attempt| async move { if attempt < 3 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(attempt) } })
        .await as io::Result<u32>;
    assert_eq!((winner.expect("the third"), began.elapsed()), (3, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn last_failure_is_the_calls() {
    let hedge = hedge(fixed(MILLISECOND, 2));
    let failed = hedge.run(|attempt| async move { Err::<(), _>(io::Error::other(attempt.to_string())) }).await;
    assert_eq!(failed.unwrap_err().to_string(), "2");
}

/// An open breaker is asked only once.
#[tokio::test(start_paused = true)]
async fn own_refusals_are_not_hedged() {
    let hedge = hedge(fixed(MILLISECOND, 5));
    let breaker = CircuitBreaker::default();
    breaker.force_open();
    let attempts = Cell::new(0);
    let refused = hedge
        .run(|attempt| {
            attempts.set(attempt);
            breaker.run(async { Ok::<(), io::Error>(()) })
        })
        .await;
    assert!(refused.unwrap_err().is_refused());
    assert_eq!(attempts.get(), 1);
}

/// A limit inside the hedge refuses the second attempt, and the first continues.
#[tokio::test(start_paused = true)]
async fn refused_hedge_leaves_the_first_attempt_alone() {
    let limiter = RateLimiter::with_clock(Quota::per_hour(1), ManualClock::new());
    let hedge = hedge(fixed(MILLISECOND, 5));
    let began = Instant::now();
    let first = hedge
        .run(|attempt| {
            let permitted = limiter.check();
            async move {
                permitted.map_err(io::Error::other)?;
                sleep(50 * MILLISECOND).await;
                Ok::<_, io::Error>(attempt)
            }
        })
        .await;
    assert_eq!((first.expect("the first"), began.elapsed()), (1, 50 * MILLISECOND));
}

/// An error may be a refusal by a limit of the client, but such an outcome comes from the server.
#[tokio::test(start_paused = true)]
async fn fatal_outcome_of_a_hedge_ends_the_call_if_it_is_no_error() {
    let hedge = hedge(fixed(MILLISECOND, 5)).when(|result: &io::Result<u32>| match result {
        Ok(200) => None,
        _ => Some(Failure::FATAL),
    });
    for (of_hedge, expected, millis) in [(Ok(500), 500, 1), (Err(io::ErrorKind::Other), 200, 50)] {
        let began = Instant::now();
        let call = hedge.run(|attempt| async move {
            if attempt == 1 {
                sleep(50 * MILLISECOND).await;
                return Ok(200);
            }
            of_hedge.map_err(io::Error::from)
        });
        assert_eq!((call.await.unwrap(), began.elapsed()), (expected, millis * MILLISECOND));
    }
}

/// After a refusal by its limit or a hint to wait, the server gets no further attempt.
#[tokio::test(start_paused = true)]
async fn attempts_end_where_the_server_asks_for_a_wait() {
    let hint = Some(Duration::from_secs(60));
    for failure in [Failure::THROTTLED, Failure::TRANSIENT.retry_after(hint), Failure::TRANSIENT.declined()] {
        let hedge =
            hedge(fixed(MILLISECOND, 5)).when(move |result: &io::Result<()>| result.is_err().then_some(failure));
        let attempts = Cell::new(0);
        let failed = hedge
            .run(|attempt| {
                attempts.set(attempt);
                async { Err(io::ErrorKind::TimedOut.into()) }
            })
            .await;
        assert_eq!((failed.unwrap_err().kind(), attempts.get()), (io::ErrorKind::TimedOut, 1));
    }
}

/// Makes a call whose attempts fail at once, each with the next of these failures, or never end.
///
/// Returns when each began, whether the call failed, and when it ended, all in milliseconds.
async fn failing<B: Budget>(hedge: Hedge<TokioClock, B>, failures: &[Failure]) -> (Vec<u128>, Option<u128>) {
    let (starts, began) = (Cell::new(Vec::new()), Instant::now());
    let next = Cell::new(0);
    let hedge = hedge.when(|result: &io::Result<()>| {
        result.as_ref().err()?;
        failures.get(next.replace(next.get() + 1)).copied()
    });
    let call = hedge.run(|number| {
        let mut all = starts.take();
        all.push(began.elapsed().as_millis());
        starts.set(all);
        async move {
            if number as usize > failures.len() {
                pending::<()>().await;
            }
            Err(io::ErrorKind::TimedOut.into())
        }
    });
    let ended = tokio::time::timeout(Duration::from_secs(1_000), call).await;
    let ended = ended.ok().map(|outcome| {
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        began.elapsed().as_millis()
    });
    (starts.take(), ended)
}

/// The next attempt starts then, even if none is in flight, and the others the usual delay later.
#[tokio::test(start_paused = true)]
async fn server_sets_the_time_of_the_next_attempt() {
    let (transient, throttled) = (Failure::TRANSIENT, Failure::THROTTLED);
    let after = |millis: u32| transient.pushback(millis * MILLISECOND);
    for (failures, starts, ended) in [
        (vec![after(50)], vec![0, 50, 57, 64], None),
        (vec![throttled.pushback(50 * MILLISECOND)], vec![0, 50, 57, 64], None),
        (vec![after(0)], vec![0, 0, 7, 14], None),
        (vec![after(50), after(3)], vec![0, 50, 53, 60], None),
        (vec![after(50), transient], vec![0, 50, 50, 57], None),
        (vec![after(50), transient.declined()], vec![0, 50], Some(50)),
        (vec![after(50), after(50), after(50), after(50)], vec![0, 50, 100, 150], Some(150)),
        // More than five minutes.
        (vec![after(300_000)], vec![0, 300_000, 300_007, 300_014], None),
        (vec![after(300_001)], vec![0], Some(0)),
    ] {
        let hedge = hedge(fixed(7 * MILLISECOND, 4));
        assert_eq!(failing(hedge, &failures).await, (starts, ended), "{failures:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_that_the_server_sets_is_kept_by_other_attempts() {
    for (repeats, starts) in [(true, vec![0, 7, 60]), (false, vec![0, 7])] {
        let config = HedgeConfig::builder().fixed_delay(7 * MILLISECOND).max_attempts(3).repeat_failures(repeats);
        let failure = Failure::TRANSIENT.pushback(50 * MILLISECOND);
        let hedge =
            hedge(config.build().unwrap()).when(move |result: &io::Result<()>| result.is_err().then_some(failure));
        let (starts_of_attempts, began) = (Cell::new(Vec::new()), Instant::now());
        let call = hedge.run(|number| {
            let mut all = starts_of_attempts.take();
            all.push(began.elapsed().as_millis());
            starts_of_attempts.set(all);
            async move {
                if number == 1 {
                    sleep(10 * MILLISECOND).await;
                    return Err(io::Error::from(io::ErrorKind::TimedOut));
                }
                pending().await
            }
        });
        tokio::time::timeout(Duration::from_secs(60), call).await.unwrap_err();
        assert_eq!(starts_of_attempts.take(), starts, "repeats failures: {repeats}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_whose_budget_refuses_the_attempt_that_a_server_asked_for_ends_then() {
    struct Nothing;
    impl Budget for Nothing {
        fn try_withdraw(&self) -> bool {
            false
        }
    }
    let refusing = hedge(fixed(7 * MILLISECOND, 4)).budget(Nothing);
    let failure = Failure::TRANSIENT.pushback(50 * MILLISECOND);
    assert_eq!(failing(refusing, &[failure]).await, (vec![0], Some(50)));
}

/// Only a hedge that is told to counts anything.
#[tokio::test(start_paused = true)]
async fn hedge_counts_its_calls_in_a_budget_if_it_is_told_to() {
    let throttle = RetryThrottle::new(10, 0.5).unwrap();
    let silent = || hedge(fixed(7 * MILLISECOND, 3)).budget(&throttle);
    let failures = [Failure::TRANSIENT, Failure::TRANSIENT, Failure::THROTTLED];
    assert_eq!(failing(silent(), &failures).await, (vec![0, 0, 0], Some(0)));
    assert_eq!(throttle.thousandths(), 10_000);
    assert_eq!(failing(silent().counting_calls(), &failures).await, (vec![0, 0, 0], Some(0)));
    assert_eq!(throttle.thousandths(), 7_000);
    assert_eq!(failing(silent().counting_calls(), &[Failure::FATAL]).await, (vec![0], Some(0)));
    assert_eq!(throttle.thousandths(), 7_000);
    assert_eq!(failing(silent().counting_calls(), &[Failure::FATAL.declined()]).await, (vec![0], Some(0)));
    assert_eq!(throttle.thousandths(), 6_000);
    // The attempt that is dropped does not count.
    let slow_first = async |number: u32| {
        sleep(if number == 1 { 100 * MILLISECOND } else { MILLISECOND }).await;
        Ok::<_, io::Error>(number)
    };
    assert_eq!(silent().counting_calls().run(slow_first).await.unwrap(), 2);
    assert_eq!(throttle.thousandths(), 6_500);
}

/// A call keeps the settings that it began with.
#[tokio::test(start_paused = true)]
async fn settings_change_for_calls_that_begin_later() {
    let hedge = hedge(fixed(7 * MILLISECOND, 1));
    let attempts = async || {
        let begun = Cell::new(0);
        let call = hedge.run(|number| {
            begun.set(number);
            if number == 2 {
                hedge.set_config(&fixed(7 * MILLISECOND, 5));
            }
            pending::<io::Result<()>>()
        });
        tokio::time::timeout(31 * MILLISECOND, call).await.unwrap_err();
        begun.get()
    };
    assert_eq!((hedge.delay(), attempts().await), (Some(7 * MILLISECOND), 1));
    hedge.set_config(&fixed(10 * MILLISECOND, 3));
    assert_eq!((hedge.delay(), attempts().await), (Some(10 * MILLISECOND), 3));
    assert_eq!((hedge.delay(), attempts().await), (Some(7 * MILLISECOND), 5));
}

/// The histogram continues after the clock stepped back by an hour.
#[tokio::test(start_paused = true)]
async fn hedges_survive_a_clock_that_steps_back() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(2 * 3_600));
    let hedge = Hedge::with_clock(HedgeConfig::DEFAULT, &clock);
    for step_back in [Duration::ZERO, Duration::from_secs(3_600)] {
        clock.step_back(step_back);
        for _ in 0..200 {
            hedge
                .run(|_| {
                    clock.advance(10 * MILLISECOND);
                    async { Ok::<_, io::Error>(()) }
                })
                .await
                .expect("it succeeds");
        }
        clock.advance(250 * MILLISECOND);
        assert!(hedge.delay().is_some(), "after a step back of {step_back:?}");
    }
}

/// Without a budget and without another attempt in flight, the failure is returned.
#[tokio::test(start_paused = true)]
async fn call_without_a_budget_does_not_hang() {
    struct Nothing;
    impl Budget for Nothing {
        fn try_withdraw(&self) -> bool {
            false
        }
    }
    let hedge = hedge(fixed(MILLISECOND, 5)).budget(Nothing);
    // So few that what the calls themselves allow is no extra request.
    for _ in 0..30 {
        let failed = hedge.run(|_| async { Err::<(), io::Error>(io::ErrorKind::TimedOut.into()) }).await;
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    let status = hedge.status();
    assert_eq!((status.made(), status.over_allowance(), status.over_budget()), (0, 0, 30));
    // The hedge's own allowance keeps the tokens of hedges that the shared budget refuses.
    let hedge = hedge.budget(damper::retry::Unlimited);
    let call = hedge.run(|attempt| async move { if attempt == 1 { pending().await } else { Ok::<_, io::Error>(2) } });
    let winner = tokio::time::timeout(Duration::from_secs(60), call).await;
    assert_eq!(winner.expect("the allowance is back").expect("the second"), 2);
    assert_eq!(hedge.status().made(), 1);
}

/// At first 10 extra requests, then 2 in a hundred calls.
#[tokio::test(start_paused = true)]
async fn extra_requests_are_counted() {
    let hedge = hedge(fixed(MILLISECOND, 2));
    let extra = Cell::new(0);
    let fail = |attempt| {
        extra.set(extra.get() + attempt - 1);
        async { Err::<(), io::Error>(io::ErrorKind::TimedOut.into()) }
    };
    for _ in 0..10 {
        _ = hedge.run(fail).await;
    }
    assert_eq!(extra.get(), 10);
    for _ in 0..1_000 {
        _ = hedge.run(fail).await;
    }
    assert!((10 + 19..=10 + 20).contains(&extra.get()), "{} extra requests", extra.get());
    let (status, extra) = (hedge.status(), u64::from(extra.get()));
    assert_eq!((status.made(), status.over_allowance(), status.over_budget()), (extra, 1_010 - extra, 0));
}

/// Of calls that take 10 ms, these percentages take a second, and fail at once.
///
/// Returns the share of the slow calls that had another attempt, and the hedge.
async fn hedged_share(config: HedgeConfig, slow: u64, failing: u64) -> (f64, Hedge<TokioClock>) {
    let hedge = hedge(config);
    let mut random = 1_u64;
    let mut percent = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % 100
    };
    let (mut slow_calls, mut hedged) = (0_u32, 0_u32);
    for call in 0..20_000 {
        let (is_slow, is_failing) = (percent() < slow, percent() < failing);
        let attempts = Cell::new(0);
        let result = hedge.run(|attempt| {
            attempts.set(attempt);
            async move {
                if is_failing && attempt == 1 {
                    return Err(io::Error::from(io::ErrorKind::TimedOut));
                }
                sleep(if is_slow && attempt == 1 { Duration::from_secs(1) } else { 10 * MILLISECOND }).await;
                Ok(())
            }
        });
        _ = result.await;
        // The first calls teach the hedge which latency is slow.
        if call >= 2_000 && is_slow && !is_failing {
            slow_calls += 1;
            hedged += u32::from(attempts.get() > 1);
        }
    }
    (f64::from(hedged) / f64::from(slow_calls), hedge)
}

/// The table in the documentation of `Hedge`.
#[tokio::test(start_paused = true)]
async fn percentile_and_failures_decide_how_many_slow_calls_are_hedged() {
    let builder = HedgeConfig::builder;
    let rows = [
        (1, 0, builder(), 0.95..1.01),
        (3, 0, builder(), 0.0..0.01),
        (3, 0, builder().percentile(0.95), 0.6..0.7),
        (3, 0, builder().max_extra(0.05), 0.95..1.01),
        (1, 10, builder(), 0.2..0.3),
        (1, 10, builder().repeat_failures(false), 0.95..1.01),
    ];
    for (slow, failing, settings, bounds) in rows {
        let config = settings.build().expect("in range");
        let (share, hedge) = hedged_share(config, slow, failing).await;
        println!("{slow} % slow, {failing} % fail: {share:.2} {:?}", hedge.status());
        assert!(bounds.contains(&share), "{slow} % slow, {failing} % fail, {config:?}: {share}");
    }
}

/// Where more calls are slow than exceed the percentile, the delay shows it.
#[tokio::test(start_paused = true)]
async fn status_shows_why_slow_calls_are_not_hedged() {
    let (_, hedge) = hedged_share(HedgeConfig::DEFAULT, 3, 0).await;
    let status = hedge.status();
    assert_eq!((status.made(), status.over_allowance()), (0, 0), "{status:?}");
    assert!(status.delay().expect("seen") >= Duration::from_secs(1), "{status:?}");
    assert!(status.median().expect("seen") <= 11 * MILLISECOND, "{status:?}");

    let (_, hedge) = hedged_share(HedgeConfig::DEFAULT, 1, 10).await;
    let status = hedge.status();
    assert!((400..=410).contains(&status.made()), "2 % of the calls, and 10: {status:?}");
    assert!(status.over_allowance() >= 1_500, "{status:?}");
}

/// Without repeated failures, a failure ends the call unless another attempt is in flight.
#[tokio::test(start_paused = true)]
async fn failure_that_a_retry_repeats_starts_no_attempt() {
    let config = HedgeConfig::builder().fixed_delay(10 * MILLISECOND).max_attempts(3).repeat_failures(false);
    let hedge = hedge(config.build().expect("in range"));
    // The attempts fail after these times, and the third answers after 50 ms.
    for (first, second, expected, millis) in [(1, 1, Err(1), 1), (15, 50, Ok(3), 70), (60, 1, Ok(3), 70)] {
        let began = Instant::now();
        let call = hedge.run(|attempt| async move {
            sleep([first, second, 50][attempt as usize - 1] * MILLISECOND).await;
            if attempt < 3 { Err(io::Error::other(attempt.to_string())) } else { Ok(attempt) }
        });
        let result = call.await.map_err(|error| error.to_string().parse::<u32>().expect("a number"));
        assert_eq!((result, began.elapsed()), (expected, millis * MILLISECOND), "{first} and {second} ms");
    }
}

/// Three quarters of the allowed extra requests exceed the delay, and a quarter is left for chance.
#[tokio::test(start_paused = true)]
async fn percentile_leaves_a_quarter_of_the_extra_requests() {
    let clock = ManualClock::new();
    let hedge = Hedge::with_clock(HedgeConfig::builder().max_extra(0.2).build().expect("in range"), &clock);
    // 17 % take 100 ms, 3 % take 50 ms: 15 % may exceed the delay.
    for call in 0..1_000 {
        let latency = if call % 100 < 17 {
            100
        } else if call % 100 < 20 {
            50
        } else {
            10
        };
        let call = hedge.run(|_| {
            clock.advance(latency * MILLISECOND);
            async { Ok::<_, io::Error>(()) }
        });
        call.await.expect("it succeeds");
    }
    clock.advance(250 * MILLISECOND);
    assert!(hedge.delay().expect("1,000 calls") >= 100 * MILLISECOND, "{:?}", hedge.delay());
}

/// A call that is given up early does not say how long a response takes.
///
/// Nor does one that fails early.
#[tokio::test(start_paused = true)]
async fn calls_that_end_early_without_a_response_leave_the_delay() {
    let median = HedgeConfig::builder().percentile(0.5).build().expect("in range");
    let hedge = hedge(median).when(|result: &io::Result<()>| result.is_err().then_some(Failure::FATAL));
    for _ in 0..300 {
        hedge.run(|_| answer()).await.expect("it succeeds");
    }
    sleep(Duration::from_millis(250)).await;
    let before = hedge.delay().expect("300 calls");
    for _ in 0..1_000 {
        let call = hedge.run(|_| pending::<io::Result<()>>());
        assert!(tokio::time::timeout(MILLISECOND, call).await.is_err());
    }
    sleep(Duration::from_millis(250)).await;
    assert_eq!(hedge.delay(), Some(before), "after calls that were given up");
    for _ in 0..1_000 {
        let failed = hedge.run(|_| async {
            sleep(MILLISECOND).await;
            Err(io::ErrorKind::TimedOut.into())
        });
        failed.await.expect_err("it fails");
    }
    sleep(Duration::from_millis(250)).await;
    assert_eq!(hedge.delay(), Some(before), "after calls that failed");
}

/// A cancelled call leaves no attempt behind, and the time it waited counts as a latency.
#[tokio::test(start_paused = true)]
async fn dropped_calls_count_as_slow() {
    let hedge = hedge(HedgeConfig::DEFAULT);
    for _ in 0..300 {
        hedge.run(|_| answer()).await.expect("it succeeds");
    }
    for _ in 0..30 {
        let call = hedge.run(|_| pending::<io::Result<()>>());
        assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err());
    }
    sleep(Duration::from_millis(250)).await;
    assert!(hedge.delay().expect("330 calls") >= Duration::from_millis(200));
}

/// Settings change in use: the delay, the attempts, and whether the delay follows the latency.
#[tokio::test(start_paused = true)]
async fn settings_change_in_use() {
    let hedge = hedge(fixed(10 * MILLISECOND, 2));
    let attempts = Cell::new(0);
    let call = async || {
        attempts.set(0);
        let began = Instant::now();
        let never = || {
            attempts.set(attempts.get() + 1);
            let last = attempts.get() == hedge.config().max_attempts();
            async move { if last { Ok::<_, io::Error>(()) } else { pending().await } }
        };
        hedge.run(|_| never()).await.unwrap();
        (attempts.get(), began.elapsed())
    };
    assert_eq!(call().await, (2, 10 * MILLISECOND));

    hedge.set_config(&fixed(20 * MILLISECOND, 4));
    assert_eq!(call().await, (4, 60 * MILLISECOND));

    // From now on the delay follows the latency, of which nothing is known yet.
    let measured = HedgeConfig::builder().max_extra(0.5).build().unwrap();
    hedge.set_config(&measured);
    assert_eq!((hedge.config(), hedge.delay()), (measured, None));
    for _ in 0..400 {
        hedge.run(|_| answer()).await.unwrap();
    }
    let delay = hedge.delay().expect("more than 200 calls were seen");
    assert!((9 * MILLISECOND..=11 * MILLISECOND).contains(&delay), "{delay:?}");

    // The latencies stay while the delay is fixed.
    hedge.set_config(&fixed(30 * MILLISECOND, 2));
    assert_eq!((hedge.delay(), hedge.status().median()), (Some(30 * MILLISECOND), None));
    hedge.set_config(&measured);
    assert_eq!(hedge.delay(), Some(delay));
    assert!(hedge.status().median().is_some());
}

#[test]
fn settings_are_read_as_they_were_set() {
    let hedge = Hedge::with_clock(HedgeConfig::DEFAULT, ManualClock::new());
    assert_eq!(hedge.config(), HedgeConfig::DEFAULT);
    let extremes = [
        HedgeConfig::builder().max_extra(1.0).percentile(0.25).max_attempts(5).min_delay(Duration::ZERO),
        HedgeConfig::builder().max_extra(0.001).percentile(0.999).repeat_failures(false).fixed_delay(Duration::ZERO),
    ];
    for config in extremes.map(|builder| builder.build().unwrap()) {
        hedge.set_config(&config);
        assert_eq!(hedge.config(), config);
    }
    // The longest delays are cut to what 64 bits of nanoseconds have.
    hedge.set_config(&fixed(Duration::MAX, 2));
    assert_eq!(hedge.delay(), Some(Duration::from_nanos(u64::MAX - 1)));
}

/// The delay is the latency that as many calls exceed as three quarters of the extra requests allow.
#[test]
fn percentile_follows_the_extra_requests_unless_it_is_set() {
    let of = |max_extra: f64| HedgeConfig::builder().max_extra(max_extra).build().unwrap();
    assert_eq!([of(0.04), of(0.2)].map(|config| config.percentile().to_string()), ["0.97", "0.85"]);
    let set = HedgeConfig::builder().max_extra(0.04).percentile(0.5).min_delay(7 * MILLISECOND).build().unwrap();
    assert_eq!((set.percentile().to_string(), set.min_delay()), ("0.5".to_owned(), 7 * MILLISECOND));
}
