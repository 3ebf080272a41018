//! One layer for every gate, before services of any request type.

use damper::breaker::State;
use damper::gate::{AnyGate, Costs, Either, Ending, Exempt, PerKey, Refusal, RefusalKind, Waits};
use damper::shadow::Shadowed;
use damper::tower::GateLayer;
use damper::{
    BreakerConfig, Bulkhead, CallError, CircuitBreaker, KeyedBulkhead, KeyedLimiter, ManualClock, Quota, RateLimiter,
    is_refusal,
};
use std::convert::Infallible;
use std::future::{Future, Ready, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::{Layer, Service, ServiceExt, service_fn};

const MINUTE: Duration = Duration::from_secs(60);

/// A service that is not `Clone`, and doubles numbers.
struct Doubling;

impl Service<u32> for Doubling {
    type Response = u32;
    type Error = Infallible;
    type Future = Ready<Result<u32, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u32) -> Self::Future {
        ready(Ok(2 * number))
    }
}

fn is_pending(call: Pin<&mut impl Future>) -> bool {
    call.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

async fn call<S: Service<u32>>(service: &mut S, number: u32) -> Result<S::Response, S::Error> {
    service.ready().await?.call(number).await
}

#[tokio::test]
async fn both_gates_of_a_pair_have_to_let_a_call_pass() {
    let (limiter, pool) =
        (RateLimiter::with_clock(Quota::per_second(1).burst(3), ManualClock::new()), Arc::new(Bulkhead::new(1)));
    let mut service = GateLayer::new((Arc::new(limiter), Arc::clone(&pool))).layer(Doubling);
    assert_eq!(call(&mut service, 1).await, Ok(2));
    let held = pool.try_acquire().unwrap();
    let Err(CallError::Refused(refusal @ Either::Second(_))) = call(&mut service, 2).await else {
        panic!("it is full")
    };
    assert_eq!(refusal.kind(), RefusalKind::Unavailable);
    drop(held);
    assert_eq!(call(&mut service, 3).await, Ok(6));
    // The refused call has cost a token.
    let error = call(&mut service, 4).await.unwrap_err();
    assert!(matches!(error, CallError::Refused(Either::First(_))));
    assert!(is_refusal(&error));
    assert_eq!(pool.in_flight(), 0);
}

#[tokio::test]
async fn gates_that_no_call_waits_at_take_every_service() {
    let full = Arc::new(Bulkhead::new(0));
    let mut service = GateLayer::new(Exempt::new(Arc::clone(&full), |number: &u32| *number == 0)).layer(Doubling);
    assert_eq!(call(&mut service, 0).await, Ok(0));
    assert!(call(&mut service, 1).await.is_err());

    let mut service = GateLayer::new(None::<Arc<Bulkhead>>).layer(Doubling);
    assert_eq!(call(&mut service, 1).await, Ok(2));

    let shadowed = Shadowed::new(Arc::new(Bulkhead::new(1)), full);
    let layer = GateLayer::new(AnyGate::<u32>::new(shadowed));
    let mut service = layer.layer(service_fn(|number: u32| ready(Ok::<_, Infallible>(number))));
    assert_eq!(call(&mut service, 1).await.map_err(|error| error.to_string()), Ok(1));
}

#[tokio::test]
async fn call_costs_tokens_of_its_key() {
    let limits = KeyedLimiter::<u32>::builder(Quota::per_second(10)).clock(ManualClock::new()).build().unwrap();
    let gate = PerKey::new(|number: &u32| number % 2, Arc::new(limits));
    let mut service = GateLayer::new(gate).cost(|number: &u32| *number).layer(Doubling);
    assert_eq!(call(&mut service, 7).await, Ok(14));
    assert!(call(&mut service, 5).await.is_err());
    assert_eq!(call(&mut service, 10).await, Ok(20));
    assert_eq!(call(&mut service, 3).await, Ok(6));
}

#[tokio::test(start_paused = true)]
async fn calls_wait_at_the_bulkhead_of_their_key_until_their_deadline() {
    let pools = Arc::new(KeyedBulkhead::<u32>::new(1, 16).unwrap().queue(4));
    let layer = GateLayer::new(PerKey::new(|number: &u32| number % 10, Arc::clone(&pools)))
        .waiting(MINUTE)
        .time_left(|number: &u32| (*number > 10).then_some(Duration::from_millis(20)));
    let mut service = layer.layer(service_fn(|_: u32| pending::<Result<u32, Infallible>>()));
    let mut first = Box::pin(service.ready().await.unwrap().call(1));
    assert!(is_pending(first.as_mut()));
    let mut second = Box::pin(service.ready().await.unwrap().call(1));
    assert!(is_pending(second.as_mut()));
    let error = call(&mut service, 11).await.unwrap_err();
    assert!(error.refusal().is_some());
    drop(first);
    assert!(is_pending(second.as_mut()));
    assert_eq!((pools.get_or_create(&1).unwrap().in_flight(), pools.get_or_create(&1).unwrap().queued()), (1, 0));
}

/// A caller that catches the panic may keep the future.
#[tokio::test]
async fn panic_after_a_wait_frees_the_slot_at_once() {
    let pool = Arc::new(Bulkhead::new(1).queue(1));
    let held = pool.try_acquire_owned().unwrap();
    let layer = GateLayer::new(Waits::new(Arc::clone(&pool), MINUTE, tokio::time::sleep));
    let mut service = layer.layer(service_fn(|_: u32| -> Ready<Result<u32, Infallible>> {
        std::panic::resume_unwind(Box::new("in `call`"))
    }));
    let mut waiting = Box::pin(service.ready().await.unwrap().call(1));
    assert!(is_pending(waiting.as_mut()));
    drop(held);
    assert!(catch_unwind(AssertUnwindSafe(|| is_pending(waiting.as_mut()))).is_err());
    assert_eq!((pool.in_flight(), pool.queued()), (0, 0));
    assert!(is_pending(waiting.as_mut()), "polled again");
    assert_eq!(pool.in_flight(), 0);
}

#[tokio::test]
async fn classifier_that_panics_is_a_call_that_does() {
    let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::new(config));
    let layer = GateLayer::new(Arc::clone(&breaker))
        .classify(|_: &Result<u32, Infallible>| -> Ending { std::panic::resume_unwind(Box::new("in the classifier")) });
    let mut service = layer.layer(Doubling);
    let mut failing = Box::pin(service.ready().await.unwrap().call(1));
    assert!(catch_unwind(AssertUnwindSafe(|| is_pending(failing.as_mut()))).is_err());
    assert_eq!(breaker.state(), State::Open);
    assert!(is_pending(failing.as_mut()), "polled again");
}

/// A gate that does not learn does not judge.
#[tokio::test]
async fn results_are_read_for_gates_that_learn() {
    static JUDGED: AtomicU32 = AtomicU32::new(0);
    let ending = |_: &Result<u32, Infallible>| {
        JUDGED.fetch_add(1, Ordering::Relaxed);
        Ending::Success
    };
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(10)));
    let costly = Costs::new(Arc::clone(&limiter), |_: &u32| 2);
    assert_eq!(call(&mut GateLayer::new(costly).classify(ending).layer(Doubling), 1).await, Ok(2));
    assert_eq!(call(&mut GateLayer::new(Arc::new(Bulkhead::new(1))).classify(ending).layer(Doubling), 1).await, Ok(2));
    assert_eq!(JUDGED.load(Ordering::Relaxed), 0);
    let breaker = Arc::new(CircuitBreaker::default());
    assert_eq!(call(&mut GateLayer::new((limiter, breaker)).classify(ending).layer(Doubling), 1).await, Ok(2));
    assert_eq!(JUDGED.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn call_shows_whether_it_waits_was_refused_or_is_made() {
    let pool = Arc::new(Bulkhead::new(1).queue(1));
    let never = service_fn(|_: u32| pending::<Result<u32, Infallible>>());
    let mut service = GateLayer::new(Waits::new(Arc::clone(&pool), MINUTE, tokio::time::sleep)).layer(never);
    let mut call = |number| format!("{:?}", service.call(number));
    assert_eq!(call(1), "GateFuture { state: \"calling\", .. }");
    let held = pool.try_acquire().unwrap();
    assert_eq!(call(2), "GateFuture { state: \"waiting\", .. }");
    drop(held);
    let mut service = GateLayer::new(Arc::new(Bulkhead::new(0))).layer(Doubling);
    assert_eq!(format!("{:?}", service.call(3)), "GateFuture { state: \"refused\", .. }");
}

#[tokio::test]
async fn service_behind_a_gate_can_be_reached() {
    struct Counting(u32);
    let mut service = GateLayer::new(Arc::new(Bulkhead::new(1))).layer(Counting(1));
    service.get_mut().0 += 1;
    assert_eq!(service.get_ref().0, 2);
    assert_eq!(service.into_inner().0, 2);
}
