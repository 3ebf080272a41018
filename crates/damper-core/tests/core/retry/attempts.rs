//! Retries: the decision against a slow model, and the results that callers get.

use damper::retry::{Budget, Failure, GaveUp, Jitter, Unlimited};
use damper::{Backoff, Deadline, ManualClock, Retry, RetryError};
#[cfg(feature = "std")]
use damper::{BreakerConfig, CircuitBreaker, Quota, RateLimiter};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::{Future, pending, ready};
use std::io;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Waits of exactly 100, 200, 400 ms.
fn exact() -> Backoff {
    Backoff::DEFAULT.jitter(Jitter::None)
}

fn timeout() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// Allows this many retries.
struct Allowance(Cell<u32>);

impl Budget for Allowance {
    fn try_withdraw(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

/// Makes a call, and returns the result with the waits between the attempts.
fn call<B: Budget, V: damper::Reads<Result<u16, io::Error>, Option<Failure>>>(
    clock: &ManualClock,
    retry: &Retry<&ManualClock, B, V>,
    mut outcomes: impl FnMut(u32) -> io::Result<u16>,
) -> (Result<u16, RetryError<io::Error>>, Vec<Duration>) {
    let waits = RefCell::new(Vec::new());
    let sleep = |wait| {
        clock.advance(wait);
        waits.borrow_mut().push(wait);
    };
    let result = retry.call_sleeping_by(sleep, |attempt| outcomes(attempt.number()));
    (result, waits.into_inner())
}

#[test]
fn succeeds_at_a_later_attempt() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(3, &clock, 1).backoff(exact());
    let (result, waits) = call(&clock, &retry, |attempt| if attempt < 3 { Err(timeout()) } else { Ok(200) });
    assert_eq!(result.expect("the third attempt"), 200);
    assert_eq!(waits, [Duration::from_millis(100), Duration::from_millis(200)]);
}

#[test]
fn gives_up_after_the_last_attempt() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(3, &clock, 1).backoff(exact());
    let error = call(&clock, &retry, |_| Err(timeout())).0.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Attempts, 3));
    assert_eq!(error.elapsed(), Duration::from_millis(300));
    assert_eq!(error.to_string(), "gave up after 3 attempts in 300 ms: no attempts left");
    assert_eq!(error.source().expect("the last error").to_string(), timeout().to_string());
}

#[test]
fn zero_attempts_count_as_one() {
    let clock = ManualClock::new();
    let error = call(&clock, &Retry::with_clock(0, &clock, 1), |_| Err(timeout())).0.unwrap_err();
    assert_eq!(error.to_string(), "gave up after 1 attempt in 0 ns: no attempts left");
}

/// An open breaker, a limit and an expired deadline, however they are wrapped.
///
/// Without `std` the core does not know the errors of `std::io`, so it does not look inside them.
#[cfg(feature = "std")]
#[test]
fn own_refusals_are_never_retried() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(5, &clock, 1);
    let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, &clock);
    breaker.force_open();
    let limiter = RateLimiter::with_clock(Quota::per_second(1).burst(0), &clock);
    let deadline = Deadline::with_clock(Duration::ZERO, &clock);
    let refusals: [&dyn Fn() -> io::Error; 4] = [
        &|| io::Error::other(breaker.try_acquire().unwrap_err()),
        &|| io::Error::other(breaker.call(|| Err::<(), _>(timeout())).unwrap_err()),
        &|| io::Error::other(io::Error::other(limiter.check().unwrap_err())),
        &|| io::Error::other(deadline.check().unwrap_err()),
    ];
    for refusal in refusals {
        let (result, waits) = call(&clock, &retry, |_| Err(refusal()));
        let error = result.unwrap_err();
        assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 1));
        assert!(waits.is_empty());
    }
}

#[test]
fn budget_ends_the_call_and_is_asked_only_for_possible_retries() {
    let clock = ManualClock::new();
    let budget = Allowance(Cell::new(1));
    let retry = Retry::with_clock(9, &clock, 1).budget(&budget);
    let error = call(&clock, &retry, |_| Err(timeout())).0.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Budget, 2));
    assert!(error.to_string().ends_with("retry budget exhausted"));

    let untouched = Allowance(Cell::new(7));
    let tight = Retry::with_clock(9, &clock, 1)
        .budget(&untouched)
        .backoff(exact())
        .deadline(Deadline::with_clock(Duration::from_millis(50), &clock));
    let error = call(&clock, &tight, |_| Err(timeout())).0.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 1));
    assert_eq!(untouched.0.get(), 7);
}

#[test]
fn nothing_is_called_after_the_deadline() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1).deadline(Deadline::with_clock(Duration::ZERO, &clock));
    let error = call(&clock, &retry, |_| panic!("the deadline has passed")).0.unwrap_err();
    assert_eq!((error.attempts(), error.error().map(io::Error::kind)), (0, None));
    assert_eq!(error.to_string(), "gave up after 0 attempts in 0 ns", "the source gives the reason");
    assert_eq!(error.source().unwrap().to_string(), "no time left");
}

#[test]
fn first_unprocessed_retry_is_free() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1)
        .budget(Allowance(Cell::new(0)))
        .when(|result: &io::Result<u16>| result.is_err().then_some(Failure::TRANSIENT.unprocessed()));
    let error = call(&clock, &retry, |_| Err(timeout())).0.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Budget, 2));
}

/// A server refuses every stream unprocessed.
///
/// One retry is immediate, takes nothing from the budget, and is not counted as an attempt.
#[test]
fn one_retry_of_an_unprocessed_call_is_transparent() {
    let clock = ManualClock::new();
    for max_attempts in [1, 3] {
        let retry = Retry::with_clock(max_attempts, &clock, 1)
            .backoff(exact())
            .when(|result: &io::Result<u16>| result.is_err().then_some(Failure::TRANSIENT.transparent()));
        let (result, waits) = call(&clock, &retry, |_| Err(timeout()));
        let error = result.unwrap_err();
        assert_eq!((error.reason(), error.attempts()), (GaveUp::Attempts, max_attempts + 1));
        let backoffs = [0, 100, 200].map(Duration::from_millis);
        assert_eq!(waits, backoffs[..max_attempts as usize]);
        let spent = retry.clone().budget(Allowance(Cell::new(0)));
        let error = call(&clock, &spent, |_| Err(timeout())).0.unwrap_err();
        let reason = if max_attempts == 1 { GaveUp::Attempts } else { GaveUp::Budget };
        assert_eq!((error.reason(), error.attempts()), (reason, 2));
    }
}

/// The client's own limit refuses the third attempt, and the error keeps the server's failure.
///
/// The error that an I/O error wraps is found with `std` alone.
#[cfg(feature = "std")]
#[test]
fn refused_retry_keeps_the_error_of_the_attempt_before() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1).backoff(exact());
    let full = || io::Error::other(damper::Bulkhead::new(0).try_acquire().unwrap_err());
    let error = call(&clock, &retry, |attempt| Err(if attempt == 3 { full() } else { timeout() })).0.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 3));
    assert!(damper::is_refusal(error.error().unwrap()));
    assert_eq!(error.previous_error().map(io::Error::kind), Some(io::ErrorKind::TimedOut));
    let error = call(&clock, &retry, |_| Err(full())).0.unwrap_err();
    assert!(error.previous_error().is_none(), "the first attempt has no previous error");
}

#[test]
fn result_that_is_not_retried_is_returned() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(2, &clock, 1)
        .when(|result: &io::Result<u16>| matches!(result, Ok(503)).then_some(Failure::TRANSIENT));
    let (result, waits) = call(&clock, &retry, |_| Ok(503));
    assert_eq!((result.expect("the last answer"), waits.len()), (503, 1));
}

/// A hundred clients receive a wait of 60 s at the same time.
#[test]
fn hints_are_kept_and_spread() {
    let hint = Duration::from_secs(60);
    let waits: Vec<_> = (0..100)
        .map(|client| {
            let clock = ManualClock::new();
            let retry = Retry::with_clock(2, &clock, client);
            retry.begin().failed(&retry, Failure::THROTTLED.retry_after(Some(hint))).expect("the wait fits")
        })
        .collect();
    let (first, last) = (waits.iter().min().expect("a hundred"), waits.iter().max().expect("a hundred"));
    assert!(*first >= hint);
    assert!(*last <= hint + hint / 10);
    assert!(*last >= *first + Duration::from_secs(5), "from {first:?} to {last:?}");
}

/// The server knows better than the client's longer backoff for calls over a limit.
#[test]
fn hint_replaces_the_base_of_throttled_calls() {
    let hint = Duration::from_millis(200);
    for client in 0..100 {
        let clock = ManualClock::new();
        let retry = Retry::with_clock(2, &clock, client);
        let wait = retry.begin().failed(&retry, Failure::THROTTLED.retry_after(Some(hint))).expect("the wait fits");
        assert!((hint..hint + Backoff::DEFAULT.base()).contains(&wait), "{wait:?}");
    }
}

#[test]
fn hint_beyond_the_longest_ends_the_call() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1);
    let hint = Duration::from_secs(301);
    let gave_up = GaveUp::Hint { wait: hint, longest: Duration::from_secs(300) };
    for failure in [Failure::TRANSIENT.retry_after(Some(hint)), Failure::TRANSIENT.pushback(hint)] {
        assert_eq!(retry.begin().failed(&retry, failure), Err(gave_up));
    }
    assert_eq!(gave_up.to_string(), "the server asked for a wait of 301 s, the longest is 300 s");
}

#[test]
fn hint_beyond_the_deadline_ends_the_call_with_the_hint() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1).deadline(Deadline::with_clock(SECOND, &clock));
    let hint = Duration::from_secs(2);
    let gave_up = retry.begin().failed(&retry, Failure::TRANSIENT.retry_after(Some(hint))).unwrap_err();
    assert_eq!(gave_up, GaveUp::Deadline { hint: Some(hint) });
    assert_eq!(gave_up.to_string(), "the server asked for a wait of 2 s, which exceeds the deadline");
}

/// A hint that fits is honoured, even if its spread does not fit.
#[test]
fn hint_is_spread_within_the_deadline() {
    for seed in 0..100 {
        let clock = ManualClock::new();
        let deadline = Deadline::with_clock(Duration::from_millis(2_010), &clock);
        let retry = Retry::with_clock(9, &clock, seed).backoff(exact()).deadline(deadline);
        let wait = retry.begin().failed(&retry, Failure::TRANSIENT.retry_after(Some(2 * SECOND))).expect("it fits");
        assert!((Duration::from_secs(2)..Duration::from_millis(2_010)).contains(&wait), "{wait:?}");
    }
    // The backoff does not fit, although the hint does.
    let clock = ManualClock::new();
    let deadline = Deadline::with_clock(SECOND, &clock);
    let retry = Retry::with_clock(9, &clock, 1).backoff(Backoff::constant(5 * SECOND).jitter(Jitter::None));
    let retry = retry.deadline(deadline);
    let hint = Failure::TRANSIENT.retry_after(Some(Duration::from_millis(10)));
    assert_eq!(retry.begin().failed(&retry, hint), Err(GaveUp::Deadline { hint: None }));
}

/// Middleware that sends a request earlier than the deadline bounds its waits as the deadline does.
#[test]
fn hint_is_spread_within_the_time_left() {
    let (clock, left) = (ManualClock::new(), Duration::from_millis(2_010));
    for seed in 0..100 {
        let retry = Retry::with_clock(9, &clock, seed).backoff(exact());
        let failure = Failure::TRANSIENT.retry_after(Some(2 * SECOND));
        let wait = retry.begin().next_wait(&retry, failure, left).expect("it fits");
        assert!((2 * SECOND..=Duration::from_millis(2_005)).contains(&wait), "{wait:?}, and a late timer has room");
        let gave_up = retry.begin().next_wait(&retry, failure, 2 * SECOND).unwrap_err();
        assert_eq!(gave_up, GaveUp::Deadline { hint: Some(2 * SECOND) });
    }
    let retry = Retry::with_clock(9, &clock, 1);
    let no_time = retry.begin().next_wait(&retry, Failure::TRANSIENT.transparent(), Duration::ZERO);
    assert_eq!(no_time, Err(GaveUp::Deadline { hint: None }));
}

/// The sleep takes longer than requested.
#[test]
fn no_attempt_begins_after_the_deadline() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1).backoff(exact()).deadline(Deadline::with_clock(SECOND, &clock));
    let mut attempts = 0;
    let failed = retry.call_sleeping_by(
        |wait| clock.advance(wait + 10 * SECOND),
        |_| {
            attempts += 1;
            Err::<(), _>(timeout())
        },
    );
    let error = failed.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), attempts), (GaveUp::Deadline { hint: None }, 1, 1));
    assert_eq!(error.error().map(io::Error::kind), Some(io::ErrorKind::TimedOut));
}

#[test]
fn call_without_an_attempt_is_not_counted() {
    struct Calls(Cell<u32>);
    impl Budget for Calls {
        fn began(&self) {
            self.0.set(self.0.get() + 1);
        }
        fn try_withdraw(&self) -> bool {
            true
        }
    }
    let clock = ManualClock::new();
    let calls = Calls(Cell::new(0));
    let retry = Retry::with_clock(9, &clock, 1).budget(&calls);
    _ = retry.begin_by(Deadline::with_clock(Duration::ZERO, &clock));
    assert_eq!(calls.0.get(), 0);
    _ = retry.begin();
    assert_eq!(calls.0.get(), 1);
}

/// The inner retry ran out of time before any attempt failed.
#[test]
fn spent_deadline_of_an_inner_retry_is_not_retried() {
    let clock = ManualClock::new();
    let inner = Retry::with_clock(3, &clock, 1).deadline(Deadline::with_clock(Duration::ZERO, &clock));
    let outer = Retry::with_clock(3, &clock, 2);
    let failed = outer.call_sleeping_by(
        |wait| clock.advance(wait),
        |_| inner.call_sleeping_by(|wait| clock.advance(wait), |_| Ok::<(), io::Error>(())),
    );
    assert_eq!(failed.unwrap_err().reason(), GaveUp::NotRetryable);
}

/// For example a sleep of whole milliseconds, of which less than one is left.
#[test]
fn sleep_that_ends_at_once_does_not_hold_the_thread() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(3, &clock, 1).deadline(Deadline::with_clock(SECOND, &clock));
    let sleeps = Cell::new(0);
    let sleep = |_| {
        sleeps.set(sleeps.get() + 1);
        if sleeps.get() == 1_000 {
            clock.advance(SECOND);
        }
        ready(())
    };
    let mut call = pin!(retry.run(|_| pending::<io::Result<()>>()).sleeping_by(sleep));
    let mut context = Context::from_waker(Waker::noop());
    for polls in 1..=3 {
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert_eq!(sleeps.get(), polls, "poll returns, to be polled again");
    }
    clock.advance(SECOND);
    assert!(call.as_mut().poll(&mut context).is_ready());
}

#[test]
fn throttled_calls_begin_with_a_longer_delay() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1).backoff(exact());
    let mut attempts = retry.begin();
    assert_eq!(attempts.failed(&retry, Failure::THROTTLED), Ok(SECOND));
    assert_eq!(attempts.failed(&retry, Failure::TRANSIENT), Ok(Duration::from_millis(200)));
    assert_eq!(attempts.failed(&retry, Failure::THROTTLED), Ok(4 * SECOND));
}

/// A declined retry ends the call, whatever else the server said.
#[test]
fn declined_retry_ends_the_call() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1);
    let declined = Failure::TRANSIENT.declined().retry_after(Some(SECOND)).pushback(SECOND);
    assert_eq!(retry.begin().failed(&retry, declined), Err(GaveUp::Declined));
}

/// All combinations of server hints, with any wait.
fn failures() -> impl Strategy<Value = Failure> {
    let kind = prop::sample::select(vec![Failure::TRANSIENT, Failure::THROTTLED, Failure::FATAL]);
    let wait = prop_oneof![Just(0), 0..2_000u64, 200_000..400_000u64].prop_map(Duration::from_millis);
    (kind, wait, 0..8u32, 0..4u32).prop_map(|(failure, wait, hint, unprocessed)| {
        let failure = match hint {
            0 => failure.retry_after(Some(wait)),
            1 => failure.pushback(wait),
            2 => failure.declined(),
            _ => failure,
        };
        match unprocessed {
            0 => failure.transparent(),
            1 => failure.unprocessed(),
            _ => failure,
        }
    })
}

proptest! {
    /// Retries stay within the attempts, the deadline and the budget, and honour the server's waits.
    ///
    /// Each wait is followed by exactly one attempt.
    #[test]
    fn retries_stay_within_every_limit(
        failures in prop::collection::vec(failures(), 1..20),
        max_attempts in 0..8u32,
        allowed in 0..6u32,
        time_left in prop_oneof![Just(None), (0..500_000u64).prop_map(Some)],
        seed: u64,
    ) {
        let clock = ManualClock::new();
        let deadline = match time_left {
            Some(millis) => Deadline::with_clock(Duration::from_millis(millis), &clock),
            None => Deadline::never(&clock),
        };
        let budget = Allowance(Cell::new(allowed));
        let retry = Retry::with_clock(max_attempts, &clock, seed).budget(&budget).deadline(deadline);
        let mut attempts = retry.begin();
        let mut retries = 0;
        let mut paid = 0;
        let mut had_free = false;
        let mut transparent = 0;
        for failure in failures {
            let before = budget.0.get();
            let text = format!("{failure:?}");
            match attempts.failed(&retry, failure) {
                Ok(wait) => {
                    retries += 1;
                    prop_assert!(!text.contains("Fatal") && !text.contains("Never"));
                    prop_assert!(wait < deadline.remaining());
                    prop_assert!(wait <= Duration::from_secs(330));
                    let is_transparent = text.contains("is_unseen: true") && transparent == 0;
                    let is_free = text.contains("is_unprocessed: true") && !had_free || is_transparent;
                    had_free |= is_free;
                    if text.contains("is_unseen: true") && transparent == 0 {
                        transparent = 1;
                        prop_assert!(wait.is_zero());
                        had_free = true;
                    }
                    paid += u32::from(!is_free);
                    prop_assert_eq!(before - budget.0.get(), u32::from(!is_free));
                    clock.advance(wait);
                }
                Err(reason) => {
                    // The reason is right, and giving up takes nothing from the budget.
                    let left = deadline.remaining();
                    match reason {
                        GaveUp::NotRetryable => prop_assert!(text.contains("Fatal")),
                        GaveUp::Declined => prop_assert!(text.contains("Never")),
                        GaveUp::Attempts => prop_assert_eq!(retries + 1 - transparent, max_attempts.max(1)),
                        GaveUp::Hint { wait, .. } => prop_assert!(wait > Duration::from_secs(300)),
                        GaveUp::Deadline { .. } => prop_assert!(left <= Duration::from_secs(330)),
                        _ => prop_assert_eq!(before, 0),
                    }
                    prop_assert_eq!(before, budget.0.get());
                    break;
                }
            }
            prop_assert_eq!(attempts.number(), retries + 1);
        }
        prop_assert!(retries - transparent < max_attempts.max(1) && paid <= allowed);
    }
}

proptest! {
    /// The clock is set forwards and backwards during waits and attempts.
    ///
    /// By its own reading no attempt begins after the deadline, and there are not too many attempts.
    #[test]
    fn no_attempt_begins_after_the_deadline_on_a_clock_that_steps(
        millis in 0..20_000u64,
        max_attempts in 1..50u32,
        seed: u64,
        steps in prop::collection::vec(prop_oneof![Just(0), -30_000..30_000i64], 1..20),
    ) {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(3_600));
        let mut steps = steps.into_iter().cycle();
        let mut step = || match steps.next().expect("the steps repeat") {
            forwards @ 0.. => clock.advance(Duration::from_millis(forwards.unsigned_abs())),
            back => clock.step_back(Duration::from_millis(back.unsigned_abs())),
        };
        let deadline = Deadline::with_clock(Duration::from_millis(millis), &clock);
        let retry = Retry::with_clock(max_attempts, &clock, seed).deadline(deadline);
        let (step, attempts) = (RefCell::new(&mut step), Cell::new(0));
        let result = retry.call_sleeping_by(
            |wait| {
                clock.advance(wait);
                (step.borrow_mut())();
            },
            |attempt| {
                attempts.set(attempts.get() + 1);
                assert!(!deadline.is_expired() && attempt.number() == attempts.get());
                (step.borrow_mut())();
                Err::<(), _>(timeout())
            },
        );
        let error = result.unwrap_err();
        prop_assert!(attempts.get() <= max_attempts);
        prop_assert_eq!(error.attempts(), attempts.get());
        let is_expected = match error.reason() {
            GaveUp::Attempts => attempts.get() == max_attempts,
            // The drawn wait exceeds the remaining time, or the deadline passed during a wait.
            GaveUp::Deadline { hint: None } => deadline.remaining() <= Duration::from_secs(20),
            _ => false,
        };
        prop_assert!(is_expected, "{error}");
    }
}

#[cfg(feature = "std")]
#[test]
fn default_policy_retries_on_the_default_clock() {
    let retry = Retry::new(3).backoff(Backoff::constant(Duration::from_millis(1)));
    let mut attempts = 0;
    let result = retry.call(|_| {
        attempts += 1;
        if attempts < 3 { Err(timeout()) } else { Ok(attempts) }
    });
    assert_eq!(result.expect("the third"), 3);
}

#[cfg(feature = "tokio")]
mod asynchronous {
    use super::*;
    use crate::models::tokio_clock::TokioClock;
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::time::Instant;

    fn retry(max_attempts: u32) -> (TokioClock, Retry<TokioClock>) {
        let clock = TokioClock(Instant::now());
        (clock, Retry::with_clock(max_attempts, clock, 7).backoff(exact()))
    }

    #[tokio::test(start_paused = true)]
    async fn waits_between_attempts() {
        let (clock, retry) = retry(3);
        let attempts = AtomicU32::new(0);
        let result = retry
            .run(|attempt| {
                attempts.fetch_add(1, Ordering::Relaxed);
                async move { if attempt.number() < 3 { Err(timeout()) } else { Ok(attempt.number()) } }
            })
            .await;
        assert_eq!((result.expect("the third"), attempts.into_inner()), (3, 3));
        assert_eq!(clock.0.elapsed().as_millis(), 300);
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_drops_the_attempt() {
        let (clock, retry) = retry(3);
        let retry = retry.deadline(Deadline::with_clock(SECOND, clock));
        let alive = Arc::new(());
        let error = retry
            .run(|attempt| {
                let alive = Arc::clone(&alive);
                async move {
                    if attempt.number() == 1 {
                        return Err(timeout());
                    }
                    pending::<()>().await;
                    drop(alive);
                    Ok(())
                }
            })
            .await
            .unwrap_err();
        assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 2));
        assert_eq!(error.error().map(io::Error::kind), Some(io::ErrorKind::TimedOut));
        assert_eq!((clock.0.elapsed(), Arc::strong_count(&alive)), (SECOND, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_call_makes_no_other_attempt() {
        let (_, retry) = retry(9);
        let attempts = AtomicU32::new(0);
        let run = retry.run(|_| {
            attempts.fetch_add(1, Ordering::Relaxed);
            async { Err::<(), _>(timeout()) }
        });
        assert!(tokio::time::timeout(Duration::from_millis(250), run).await.is_err());
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(attempts.into_inner(), 2);
    }

    /// A future counts and calls nothing before its first poll.
    #[tokio::test(start_paused = true)]
    async fn call_begins_when_it_is_first_polled() {
        struct Calls(AtomicU32);
        impl Budget for Calls {
            fn began(&self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            fn try_withdraw(&self) -> bool {
                true
            }
        }
        let (_, retry) = retry(1);
        let calls = Calls(AtomicU32::new(0));
        let retry = retry.budget(&calls);
        let run = retry.run(|_| async { Ok::<_, io::Error>(()) }).into_future();
        assert_eq!(calls.0.load(Ordering::Relaxed), 0);
        run.await.expect("it succeeds");
        assert_eq!(calls.0.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn unlimited_allows_everything() {
    assert!(Unlimited.try_withdraw());
}

/// Two calls with the same seed wait for the same times if they begin at the same tick.
#[test]
fn seed_repeats_the_waits_of_a_call() {
    let waits_of = |seed: u64, begins_at: u64| {
        let clock = ManualClock::new();
        clock.set_ticks(begins_at);
        let retry = Retry::with_clock(6, &clock, 1).seed(seed);
        call(&clock, &retry, |_| Err(timeout())).1
    };
    assert_eq!(waits_of(7, 0).len(), 5);
    assert_eq!(waits_of(7, 0), waits_of(7, 0));
    assert_ne!(waits_of(7, 0), waits_of(8, 0));
    assert_ne!(waits_of(7, 0), waits_of(7, 1), "clients that begin at other times spread");
}
