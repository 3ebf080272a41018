//! Paced services of any request, on tokio's paused time.

use crate::tokio_clock::TokioClock;
use damper::breaker::State;
use damper::gate::{Either, Ending, Paces, Verdict};
use damper::retry::{Budget, GaveUp};
use damper::throttle::{Hints, NoPacing, PaceTooSlow, PacedRetry, Pacer, RemainingDecrease};
use damper::time::TokioSleep;
use damper::tower::{GateLayer, PacingLayer};
use damper::{BreakerConfig, Bulkhead, CallError, CircuitBreaker, Deadline, Quota, is_refusal};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum DatabaseError {
    OverLimit,
    Lost,
}

type Answer = Result<&'static str, DatabaseError>;

fn hints(result: &Answer) -> Hints {
    match result {
        Ok(_) => Hints::ACCEPTED,
        Err(DatabaseError::OverLimit) => Hints::REJECTED,
        Err(DatabaseError::Lost) => Hints::UNKNOWN,
    }
}

fn sleeping(sleep: Duration) -> Arc<Pacer<RemainingDecrease>> {
    Arc::new(Pacer::with_strategy(RemainingDecrease::new(Quota::per_hour(4_500)).start(sleep).unwrap()))
}

/// A database that answers by the number of the query, counted from 0, and when the queries came.
fn database<Q: Send + 'static>(
    answer: impl Fn(usize) -> Answer + Clone + Send,
) -> (
    impl Service<Q, Response = &'static str, Error = DatabaseError, Future: Send> + Clone + Send,
    Arc<Mutex<Vec<Duration>>>,
) {
    let (start, at) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&at);
    let service = service_fn(move |_: Q| {
        let mut at = at.lock().unwrap();
        at.push(start.elapsed());
        let answer = answer(at.len() - 1);
        async { answer }
    });
    (service, seen)
}

#[tokio::test(start_paused = true)]
async fn call_sleeps_first_and_rejected_call_is_made_again() {
    let (database, at) = database(|number| if number == 0 { Err(DatabaseError::OverLimit) } else { Ok("rows") });
    let client = PacingLayer::new(sleeping(8 * SECOND), hints).layer(database);
    assert_eq!(client.oneshot("query").await.unwrap(), "rows");
    let at = at.lock().unwrap();
    assert_eq!(at.len(), 2);
    assert!((8 * SECOND..9 * SECOND).contains(&at[0]) && at[1] >= at[0] + 8 * SECOND, "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn call_that_is_given_up_returns_its_last_error_with_the_reason() {
    let (over_limit, at) = database(|_| Err(DatabaseError::OverLimit));
    let client =
        PacingLayer::new(Arc::new(Pacer::with_strategy(NoPacing)), hints).retry(PacedRetry::new(3)).layer(over_limit);
    let error = client.oneshot("query").await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), at.lock().unwrap().len()), (GaveUp::Attempts, 3, 3));
    assert_eq!(error.into_error(), Some(DatabaseError::OverLimit));
    // Errors that say nothing about the limit are not retried.
    let (lost, at) = database(|_| Err(DatabaseError::Lost));
    let client = PacingLayer::new(Arc::new(Pacer::with_strategy(NoPacing)), hints).layer(lost);
    let error = client.oneshot("query").await.unwrap_err();
    assert_eq!((error.reason(), at.lock().unwrap().len()), (GaveUp::NotRetryable, 1));
}

#[tokio::test(start_paused = true)]
async fn sleep_beyond_the_deadline_fails_at_once() {
    #[derive(Clone, Copy)]
    struct Query(Deadline);
    let (database, at) = database(|_| Ok("rows"));
    let layer = PacingLayer::new(sleeping(8 * SECOND), hints).time_left(|Query(deadline)| Some(deadline.remaining()));
    let start = Instant::now();
    let error = layer.layer(database.clone()).oneshot(Query(Deadline::after(2 * SECOND))).await.unwrap_err();
    assert!(matches!(error.reason(), GaveUp::Paced(_)) && error.attempts() == 0, "{error:?}");
    let error = layer.without_retries().layer(database).oneshot(Query(Deadline::after(2 * SECOND))).await.unwrap_err();
    let CallError::Refused(too_slow) = error else { panic!("{error:?}") };
    assert!(too_slow.retry_after() >= 8 * SECOND && is_refusal(&too_slow) && PaceTooSlow::find_in(&too_slow).is_some());
    assert_eq!((start.elapsed(), at.lock().unwrap().len()), (Duration::ZERO, 0));
}

/// The request is not `Clone`.
#[tokio::test(start_paused = true)]
async fn without_retries_a_rejection_is_returned_and_learned_from() {
    struct Query;
    let (database, at) = database(|_| Err(DatabaseError::OverLimit));
    let clock = TokioClock(Instant::now());
    let pacer = Arc::new(Pacer::with_clock(NoPacing, clock, 7));
    let five = |result: &Answer| hints(result).retry_after(Some(5 * SECOND));
    let client = PacingLayer::new(Arc::clone(&pacer), five).without_retries().layer(database);
    let error = client.clone().oneshot(Query).await.unwrap_err();
    assert_eq!((error.into_failed(), pacer.peek()), (Some(DatabaseError::OverLimit), 5 * SECOND));
    _ = client.oneshot(Query).await;
    assert!(at.lock().unwrap()[1] >= 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn closure_chooses_the_pacer() {
    let (busy, idle) = (sleeping(8 * SECOND), sleeping(Duration::ZERO));
    let (database, at) = database(|_| Ok("rows"));
    let select = {
        let (busy, idle) = (Arc::clone(&busy), Arc::clone(&idle));
        move |shard: &&str| Arc::clone(if *shard == "busy" { &busy } else { &idle })
    };
    let client = PacingLayer::new(idle, hints).by(select).layer(database);
    client.clone().oneshot("idle").await.unwrap();
    client.oneshot("busy").await.unwrap();
    let at = at.lock().unwrap();
    assert!(at[0].is_zero() && at[1] >= 8 * SECOND, "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn dropped_call_leaves_nothing_behind() {
    let (database, at) = database(|_| Ok("rows"));
    let pacer = sleeping(8 * SECOND);
    let before = pacer.peek();
    let client = PacingLayer::new(Arc::clone(&pacer), hints).layer(database);
    assert!(tokio::time::timeout(SECOND, client.oneshot("query")).await.is_err());
    assert_eq!((at.lock().unwrap().len(), pacer.peek(), Arc::strong_count(&pacer)), (0, before, 1));
}

/// A call that sleeps reserves nothing of the service.
#[tokio::test(start_paused = true)]
async fn service_is_asked_for_readiness_after_the_sleep() {
    static READY: AtomicU32 = AtomicU32::new(0);
    #[derive(Clone)]
    struct Counting;
    impl Service<&'static str> for Counting {
        type Response = &'static str;
        type Error = DatabaseError;
        type Future = std::future::Ready<Answer>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), DatabaseError>> {
            READY.fetch_add(1, Ordering::Relaxed);
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: &'static str) -> Self::Future {
            std::future::ready(Ok("rows"))
        }
    }
    let client = PacingLayer::new(sleeping(8 * SECOND), hints).layer(Counting);
    let call = tokio::spawn(client.oneshot("query"));
    tokio::time::sleep(SECOND).await;
    assert_eq!(READY.load(Ordering::Relaxed), 1, "before the sleep");
    call.await.unwrap().unwrap();
    assert_eq!(READY.load(Ordering::Relaxed), 2);
}

/// The handle of each call must give back its readiness before the sleep.
///
/// It lives until the end, so it would hold its permit meanwhile.
#[tokio::test(start_paused = true)]
async fn sleeping_call_gives_back_the_readiness_of_its_handle() {
    let (database, _) = database(|number| if number == 0 { Err(DatabaseError::OverLimit) } else { Ok("rows") });
    let limited = ConcurrencyLimitLayer::new(1).layer(database);
    let layer = PacingLayer::new(sleeping(8 * SECOND), hints);
    let mut alone = layer.clone().layer(limited.clone());
    let call = alone.ready().await.unwrap().call("query");
    assert_eq!(tokio::time::timeout(MINUTE, call).await.expect("the permit is free").unwrap(), "rows");
    let mut only_paced = layer.clone().without_retries().layer(limited.clone());
    let call = only_paced.ready().await.unwrap().call("query");
    assert_eq!(tokio::time::timeout(MINUTE, call).await.expect("the permit is free").unwrap(), "rows");
    // A refused call gives it back too.
    let mut refused = layer.time_left(|_: &&str| Some(SECOND)).layer(limited.clone());
    assert!(refused.ready().await.unwrap().call("query").await.is_err());
    tokio::time::timeout(SECOND, limited.oneshot("query")).await.expect("the permit is free").unwrap();
    drop((alone, only_paced, refused));
}

/// A call that the inner of two gates refuses gives back the readiness of its handle too.
#[tokio::test(start_paused = true)]
async fn call_refused_behind_another_gate_gives_back_the_readiness_of_its_handle() {
    let (database, _) = database(|_| Ok("rows"));
    let limited = ConcurrencyLimitLayer::new(1).layer(database);
    let gate = Paces::new(sleeping(8 * SECOND), TokioSleep).time_left(|_: &&str| Some(SECOND));
    let mut refused = GateLayer::limit((Arc::new(Bulkhead::new(1)), gate)).layer(limited.clone());
    assert!(refused.ready().await.unwrap().call("query").await.is_err());
    tokio::time::timeout(SECOND, limited.oneshot("query")).await.expect("the permit is free").unwrap();
    drop(refused);
}

#[tokio::test(start_paused = true)]
async fn pause_holds_calls_that_already_sleep() {
    let (database, at) = database(|_| Ok("rows"));
    let clock = TokioClock(Instant::now());
    let strategy = RemainingDecrease::new(Quota::per_hour(4_500)).start(8 * SECOND).unwrap();
    let pacer = Arc::new(Pacer::with_clock(strategy, clock, 7));
    let layer = PacingLayer::new(Arc::clone(&pacer), hints);
    let only_paced = layer.clone().without_retries().layer(database.clone());
    let alone = tokio::spawn(layer.layer(database).oneshot("query"));
    let only_paced = tokio::spawn(only_paced.oneshot("query"));
    tokio::time::sleep(SECOND).await;
    pacer.answered(&Hints::REJECTED.retry_after(Some(MINUTE)));
    alone.await.unwrap().unwrap();
    only_paced.await.unwrap().unwrap();
    let at = at.lock().unwrap();
    assert!(at.len() == 2 && at.iter().all(|at| *at >= 61 * SECOND), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn pause_beyond_the_deadline_ends_a_sleeping_call() {
    let (database, at) = database(|_| Ok("rows"));
    let strategy = RemainingDecrease::new(Quota::per_hour(4_500)).start(8 * SECOND).unwrap();
    let pacer = Arc::new(Pacer::with_clock(strategy, TokioClock(Instant::now()), 7));
    let client = PacingLayer::new(Arc::clone(&pacer), hints).retry(PacedRetry::new(3).max_time(MINUTE)).layer(database);
    let call = tokio::spawn(client.oneshot("query"));
    tokio::time::sleep(SECOND).await;
    pacer.answered(&Hints::REJECTED.retry_after(Some(2 * MINUTE)));
    let error = call.await.unwrap().unwrap_err();
    let too_slow = PaceTooSlow::find_in(&error.reason()).copied().expect("the pacer refused it");
    assert!(too_slow.retry_after() > MINUTE && at.lock().unwrap().is_empty(), "{too_slow}");
}

/// Ready for the first call, and then for none.
#[derive(Clone)]
struct ReadyOnce(Arc<AtomicU32>);

impl Service<&'static str> for ReadyOnce {
    type Response = &'static str;
    type Error = DatabaseError;
    type Future = std::future::Ready<Answer>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), DatabaseError>> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            std::task::Poll::Ready(Ok(()))
        } else {
            std::task::Poll::Pending
        }
    }

    fn call(&mut self, _: &'static str) -> Self::Future {
        std::future::ready(Ok("rows"))
    }
}

#[tokio::test(start_paused = true)]
async fn call_ends_at_its_deadline_while_its_service_is_not_ready() {
    let start = Instant::now();
    let strategy = RemainingDecrease::new(Quota::per_hour(4_500)).start(8 * SECOND).unwrap();
    let pacer = Arc::new(Pacer::with_clock(strategy, TokioClock(start), 7));
    let layer = PacingLayer::new(pacer, hints).time_left(|_: &&str| Some(20 * SECOND));
    let alone = layer.clone().layer(ReadyOnce(Arc::default()));
    let error = tokio::time::timeout(MINUTE, alone.oneshot("query")).await.expect("it ends").unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 0));
    let only_paced = layer.without_retries().layer(ReadyOnce(Arc::default()));
    let error = tokio::time::timeout(MINUTE, only_paced.oneshot("query")).await.expect("it ends").unwrap_err();
    assert!(matches!(error, CallError::Refused(too_slow) if too_slow.retry_after() >= 8 * SECOND), "{error:?}");
    assert!(start.elapsed() < 42 * SECOND);
}

/// The timer wakes the call after its time.
#[tokio::test(start_paused = true)]
async fn refusal_after_a_late_timer_says_how_long_the_call_slept() {
    let (database, at) = database(|_| Ok("rows"));
    let clock = TokioClock(Instant::now());
    let pacer = Arc::new(Pacer::with_clock(NoPacing, clock, 7));
    pacer.answered(&Hints::REJECTED.retry_after(Some(8 * SECOND)));
    let late = |wait: Duration| tokio::time::sleep(wait + MINUTE);
    let layer = PacingLayer::sleeping_by(pacer, hints, late).time_left(|_: &&str| Some(20 * SECOND));
    let error = layer.without_retries().layer(database).oneshot("query").await.unwrap_err();
    assert!(matches!(error, CallError::Refused(too_slow) if too_slow.retry_after() >= 8 * SECOND), "{error:?}");
    assert!(at.lock().unwrap().is_empty());
}

/// There is nothing to sleep for, so only retries look at the deadline.
#[tokio::test(start_paused = true)]
async fn expired_deadline_ends_calls_with_retries_and_is_ignored_without() {
    let (database, at) = database(|_| Ok("rows"));
    let layer = PacingLayer::new(sleeping(Duration::ZERO), hints).time_left(|_: &&str| Some(Duration::ZERO));
    let error = layer.clone().layer(database.clone()).oneshot("query").await.unwrap_err();
    assert_eq!((error.reason(), at.lock().unwrap().len()), (GaveUp::Deadline { hint: None }, 0));
    layer.without_retries().layer(database).oneshot("query").await.unwrap();
    assert_eq!(at.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn refused_calls_earn_no_retries() {
    #[derive(Default)]
    struct Counting(AtomicU32);
    impl Budget for Counting {
        fn began(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn failed(&self) {}

        fn try_withdraw(&self) -> bool {
            true
        }
    }
    let budget = Arc::new(Counting::default());
    let (database, _) = database(|number| if number == 0 { Err(DatabaseError::OverLimit) } else { Ok("rows") });
    let retry = PacedRetry::new(3).budget(Arc::clone(&budget));
    let refusing = PacingLayer::new(sleeping(8 * SECOND), hints).retry(retry.clone().max_time(SECOND));
    for _ in 0..5 {
        assert!(refusing.clone().layer(database.clone()).oneshot("query").await.is_err());
    }
    assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    PacingLayer::new(sleeping(8 * SECOND), hints).retry(retry).layer(database).oneshot("query").await.unwrap();
    assert_eq!(budget.0.load(Ordering::Relaxed), 1, "with its first attempt, and not with the second");
}

#[tokio::test(start_paused = true)]
async fn call_that_is_made_once_and_at_once_clones_no_service() {
    struct Counting(Arc<AtomicU32>);
    impl Clone for Counting {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Self(Arc::clone(&self.0))
        }
    }
    impl Service<&'static str> for Counting {
        type Response = &'static str;
        type Error = DatabaseError;
        type Future = std::future::Ready<Answer>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), DatabaseError>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: &'static str) -> Self::Future {
            std::future::ready(Ok("rows"))
        }
    }
    let clones = Arc::new(AtomicU32::new(0));
    let layer = PacingLayer::new(sleeping(Duration::ZERO), hints).without_retries();
    layer.layer(Counting(Arc::clone(&clones))).oneshot("query").await.unwrap();
    assert_eq!(clones.load(Ordering::Relaxed), 0);
}

/// Without hints, a pacer learns whether it was rejected from the verdicts that every gate gets.
#[tokio::test(start_paused = true)]
async fn pacer_is_a_gate_that_learns_from_verdicts() {
    let (database, at) = database(|number| if number == 0 { Err(DatabaseError::OverLimit) } else { Ok("rows") });
    let pacer = Arc::new(Pacer::with_clock(NoPacing, TokioClock(Instant::now()), 7));
    let layer = GateLayer::new(Paces::new(Arc::clone(&pacer), TokioSleep)).classify(|result: &Answer| match result {
        Ok(_) => Verdict::of(Ending::Success),
        Err(_) => Verdict::of(Ending::Limited).with_retry_after(Some(5 * SECOND)),
    });
    let client = layer.layer(database);
    let error = client.clone().oneshot("query").await.unwrap_err();
    assert_eq!((error.into_failed(), pacer.peek()), (Some(DatabaseError::OverLimit), 5 * SECOND));
    client.oneshot("query").await.unwrap();
    assert!(at.lock().unwrap()[1] >= 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn slot_before_a_pacer_is_free_after_a_call_whose_service_is_not_ready_in_time() {
    let pool = Arc::new(Bulkhead::new(1));
    let strategy = RemainingDecrease::new(Quota::per_hour(4_500)).start(8 * SECOND).unwrap();
    let pacer = Arc::new(Pacer::with_clock(strategy, TokioClock(Instant::now()), 7));
    let gate = Paces::new(pacer, TokioSleep).time_left(|_: &&str| Some(20 * SECOND));
    let client = GateLayer::limit((Arc::clone(&pool), gate)).layer(ReadyOnce(Arc::default()));
    let error = tokio::time::timeout(MINUTE, client.oneshot("query")).await.expect("it ends").unwrap_err();
    assert!(matches!(error, CallError::Refused(Either::Second(_))), "{error:?}");
    assert!(pool.try_acquire().is_ok());
}

/// The error and the refusal come after the wait, when the call has both permits.
#[tokio::test(start_paused = true)]
async fn breaker_before_a_pacer_learns_nothing_of_a_service_that_does_not_become_ready() {
    /// Ready for the first call, and then broken.
    struct BrokenLater(bool);

    impl Service<&'static str> for BrokenLater {
        type Response = &'static str;
        type Error = DatabaseError;
        type Future = std::future::Ready<Answer>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), DatabaseError>> {
            let is_broken = std::mem::replace(&mut self.0, true);
            std::task::Poll::Ready(if is_broken { Err(DatabaseError::Lost) } else { Ok(()) })
        }

        fn call(&mut self, _: &'static str) -> Self::Future {
            std::future::ready(Ok("rows"))
        }
    }

    impl Clone for BrokenLater {
        fn clone(&self) -> Self {
            Self(true)
        }
    }

    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()));
    let strategy = RemainingDecrease::new(Quota::per_hour(4_500)).start(8 * SECOND).unwrap();
    let pacer = Arc::new(Pacer::with_clock(strategy, TokioClock(Instant::now()), 7));
    let gate = Paces::new(pacer, TokioSleep).time_left(|_: &&str| Some(20 * SECOND));
    let layer = GateLayer::limit((Arc::clone(&breaker), gate));
    let error = layer.clone().layer(BrokenLater(false)).oneshot("query").await.unwrap_err();
    assert_eq!(error.into_failed(), Some(DatabaseError::Lost));
    assert_eq!(breaker.state(), State::Closed, "after an error of readiness");
    let late = layer.layer(ReadyOnce(Arc::default())).oneshot("query");
    assert!(tokio::time::timeout(MINUTE, late).await.expect("it ends").is_err_and(|error| error.refusal().is_some()));
    assert_eq!(breaker.state(), State::Closed, "after the deadline");
}

#[tokio::test(start_paused = true)]
async fn sleeping_call_reserves_no_place_of_its_service() {
    let (database, _) = database(|_| Ok("rows"));
    let limited = ConcurrencyLimitLayer::new(1).layer(database);
    let mut paced = PacingLayer::new(sleeping(8 * SECOND), hints).layer(limited.clone());
    let sleeping = tokio::spawn(paced.ready().await.unwrap().call("query"));
    tokio::time::sleep(SECOND).await;
    let meanwhile = tokio::time::timeout(SECOND, limited.oneshot("query")).await;
    assert_eq!(meanwhile.expect("the permit is free").unwrap(), "rows");
    assert_eq!(sleeping.await.unwrap().unwrap(), "rows");
}
