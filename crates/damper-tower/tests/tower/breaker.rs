//! Breakers before services of any request type.

use damper::breaker::State;
use damper::gate::{Ending, PerKey};
use damper::retry::EveryErr;
use damper::tower::{ClassifyResult, GateLayer, GateService};
use damper::{
    BreakerConfig, CallError, CircuitBreaker, CircuitOpen, Denied, KeyedCircuitBreaker, ManualClock, Quota, Ramp,
    RateLimiter,
};
use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::{Ready, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::{Layer, Service, service_fn};

/// A query to a database.
#[derive(Clone, Copy)]
struct Query {
    shard: &'static str,
    is_good: bool,
}

const GOOD: Query = Query { shard: "a", is_good: true };
const BAD: Query = Query { shard: "a", is_good: false };

#[derive(Debug, PartialEq, Eq)]
struct ConnectionLost;

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection lost")
    }
}

impl Error for ConnectionLost {}

fn answer(query: Query) -> Ready<Result<&'static str, ConnectionLost>> {
    ready(if query.is_good { Ok("rows") } else { Err(ConnectionLost) })
}

/// Trips at the first failure, and probes at once.
fn breaker() -> Arc<CircuitBreaker> {
    Arc::new(CircuitBreaker::new(config()))
}

fn config() -> BreakerConfig {
    BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_secs(60)).build().unwrap()
}

fn probing() -> Arc<CircuitBreaker> {
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_nanos(1)).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::new(config));
    breaker.try_acquire().unwrap().failure();
    std::thread::sleep(Duration::from_millis(1));
    breaker
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn call<S: Service<R>, R>(service: &mut S, request: R) -> Result<S::Response, S::Error> {
    assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
    match poll(service.call(request)) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

fn refusal<T, E>(result: Result<T, CallError<E>>) -> Option<CircuitOpen> {
    result.err().and_then(|error| error.refusal().copied())
}

#[test]
fn failing_service_is_not_called() {
    let calls = Cell::new(0);
    let service = service_fn(|query| {
        calls.set(calls.get() + 1);
        answer(query)
    });
    let mut service = GateLayer::new(breaker()).layer(service);
    assert_eq!(call(&mut service, GOOD), Ok("rows"));
    assert_eq!(call(&mut service, BAD), Err(CallError::Failed(ConnectionLost)));
    assert!(refusal(call(&mut service, GOOD)).is_some());
    assert_eq!(calls.get(), 2);
}

#[test]
fn static_breaker_is_shared_by_all_services_of_a_layer() {
    static BREAKER: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    let layer = GateLayer::new(&BREAKER);
    let (mut one, mut other) = (layer.layer(service_fn(answer)), layer.clone().layer(service_fn(answer)));
    BREAKER.force_open();
    assert!(refusal(call(&mut one, GOOD)).is_some() && refusal(call(&mut other, GOOD)).is_some());
}

#[test]
fn keys_have_breakers_of_their_own() {
    let shards = Arc::new(KeyedCircuitBreaker::<String>::new(config(), 8).unwrap());
    let layer = GateLayer::new(PerKey::new(|query: &Query| query.shard.to_owned(), Arc::clone(&shards)));
    let mut service = layer.layer(service_fn(answer));
    assert_eq!(call(&mut service, BAD), Err(CallError::Failed(ConnectionLost)));
    assert!(refusal(call(&mut service, GOOD)).is_some());
    assert_eq!(call(&mut service, Query { shard: "b", ..GOOD }), Ok("rows"));
    assert_eq!(shards.get_or_create("a").state(), State::Open);
    // The key may be an owned value, and need not be text.
    let layer = GateLayer::new(PerKey::new(
        |query: &Query| query.is_good,
        Arc::new(KeyedCircuitBreaker::new(config(), 8).unwrap()),
    ));
    assert_eq!(call(&mut layer.layer(service_fn(answer)), GOOD), Ok("rows"));
}

#[test]
fn closure_decides_what_is_a_failure() {
    let breaker = breaker();
    let layer =
        GateLayer::new(Arc::clone(&breaker)).classify(
            |result: &Result<&str, ConnectionLost>| {
                if result.is_ok() { Ending::Failed } else { Ending::Declined }
            },
        );
    let mut service = layer.layer(service_fn(answer));
    assert_eq!(call(&mut service, BAD), Err(CallError::Failed(ConnectionLost)));
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(call(&mut service, GOOD), Ok("rows"));
    assert_eq!(breaker.state(), State::Open);
}

/// A burst over the client's own limit says nothing about the server.
#[test]
fn refusals_behind_the_breaker_do_not_open_it() {
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_hour(1), ManualClock::new()));
    let breaker = breaker();
    let mut service = GateLayer::new(Arc::clone(&breaker)).layer(GateLayer::limit(limiter).layer(service_fn(answer)));
    assert_eq!(call(&mut service, GOOD).unwrap(), "rows");
    for _ in 0..5 {
        let Err(CallError::Failed(error)) = call(&mut service, GOOD) else { panic!("it passed") };
        assert!(error.refusal().is_some());
    }
    assert_eq!(breaker.state(), State::Closed);
}

/// A boxed error is judged by the same function.
#[test]
fn timeout_of_tower_is_one_behind_other_errors_too() {
    #[derive(Debug)]
    struct Lost(Box<dyn Error + Send + Sync>);

    impl fmt::Display for Lost {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("lost")
        }
    }

    impl Error for Lost {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }

    let elapsed = || Box::new(tower::timeout::error::Elapsed::new());
    for (error, ending) in [
        (Lost(elapsed()), Ending::TimedOut),
        (Lost(Box::new(Lost(elapsed()))), Ending::TimedOut),
        (Lost("a reset".into()), Ending::Broken),
    ] {
        assert_eq!(EveryErr.verdict(&Err::<(), _>(error)).ending, ending);
    }
}

#[test]
fn boxed_errors_are_classified_by_their_content() {
    type BoxError = Box<dyn Error + Send + Sync>;
    let denied: Denied = RateLimiter::new(Quota::per_hour(0)).check_n(2).unwrap_err();
    for (error, state) in [(BoxError::from(denied), State::Closed), (BoxError::from("down"), State::Open)] {
        let breaker = breaker();
        let layer = GateLayer::new(Arc::clone(&breaker)).classify(|result: &Result<(), BoxError>| {
            result.as_ref().map_or_else(|error| Ending::of_error(&**error), |()| Ending::Success)
        });
        let mut error = Some(error);
        let mut service = layer.layer(service_fn(|()| ready(Err(error.take().unwrap()))));
        assert!(call(&mut service, ()).is_err());
        assert_eq!(breaker.state(), state);
    }
}

#[test]
fn dropped_call_is_no_success_and_frees_the_probe() {
    let breaker = probing();
    let mut service = GateLayer::new(Arc::clone(&breaker))
        .layer(service_fn(|()| async { pending::<Result<(), Infallible>>().await }));
    for polls in [0, 1] {
        let mut probe = Box::pin(service.call(()));
        for _ in 0..polls {
            assert!(poll(probe.as_mut()).is_pending());
        }
        assert_eq!(breaker.state(), State::HalfOpen);
        assert_eq!(breaker.status().probes_in_flight(), 1);
        drop(probe);
        assert_eq!(breaker.state(), State::HalfOpen, "no verdict");
        assert_eq!(breaker.status().probes_in_flight(), 0);
    }
}

#[test]
fn panic_in_the_call_or_in_its_future_is_a_failure() {
    let (in_call, in_future) = (breaker(), breaker());
    let mut service = GateLayer::new(Arc::clone(&in_call))
        .layer(service_fn(|()| -> Ready<Result<(), Infallible>> { panic!("in the call") }));
    assert!(catch_unwind(AssertUnwindSafe(|| service.call(()))).is_err());
    assert_eq!(in_call.state(), State::Open);
    let mut service = GateLayer::new(Arc::clone(&in_future))
        .layer(service_fn(|()| async { if true { panic!("in the future") } else { Ok::<_, Infallible>(()) } }));
    assert!(catch_unwind(AssertUnwindSafe(|| poll(service.call(())))).is_err());
    assert_eq!(in_future.state(), State::Open);
}

/// A service that is never ready.
struct Busy;

impl Service<()> for Busy {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, (): ()) -> Self::Future {
        panic!("the service was called before it was ready")
    }
}

#[test]
fn open_breaker_refuses_although_the_service_is_not_ready() {
    let breaker = breaker();
    let mut service: GateService<Busy, _> = GateLayer::new(Arc::clone(&breaker)).layer(Busy);
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_pending());
    breaker.force_open();
    assert!(service.poll_ready(&mut context).is_ready());
    // The breaker closes before the call. The service was not polled, so it is not called.
    breaker.reset();
    let Poll::Ready(result) = poll(service.call(())) else { panic!("it waits") };
    assert!(refusal(result).is_some());
    // The service is asked before the next call.
    assert!(service.poll_ready(&mut context).is_pending());
}

/// Readiness is asked before each call, and refuses most calls of an open breaker without a call.
#[test]
fn probe_that_hangs_blocks_a_service_for_max_half_open_only() {
    let second = Duration::from_secs(1);
    let config =
        BreakerConfig::builder().failure_threshold(1).cooldown(second).max_half_open(2 * second).build().unwrap();
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let answers = service_fn(|query: Option<Query>| async move {
        match query {
            Some(query) => answer(query).await,
            None => pending().await,
        }
    });
    let mut service = GateLayer::new(&breaker).layer(answers);
    assert_eq!(call(&mut service, Some(BAD)), Err(CallError::Failed(ConnectionLost)));
    clock.advance(second);
    assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
    let mut hung = pin!(service.call(None));
    assert!(hung.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(refusal(call(&mut service, Some(GOOD))).is_some());
    clock.advance(2 * second);
    assert_eq!(refusal(call(&mut service, Some(GOOD))).unwrap().retry_after(), Some(second), "it opens again");
    clock.advance(second);
    assert_eq!(call(&mut service, Some(GOOD)), Ok("rows"));
}

#[test]
fn share_of_a_ramp_passes_a_layer() {
    let config =
        BreakerConfig::builder().failure_threshold(1).ramp(Ramp::steps(Duration::from_secs(60))).build().unwrap();
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config, &clock);
    let mut service = GateLayer::new(&breaker).layer(service_fn(answer));
    for _ in 0..8 {
        breaker.trip();
        clock.advance(Duration::from_secs(30));
        assert_eq!(call(&mut service, GOOD), Ok("rows"), "the probe");
        clock.advance(Duration::from_secs(45)); // the fifth step of six: a quarter
        let passed = (0..1_000).filter(|_| call(&mut service.clone(), GOOD).is_ok()).count();
        assert!(passed.abs_diff(250) <= 8, "{passed}");
        clock.advance(Duration::from_secs(15));
    }
}
