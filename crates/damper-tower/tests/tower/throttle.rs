//! Throttles before services of any request type.

use damper::gate::{Ending, PerKey};
use damper::throttle::{AdaptiveThrottle, KeyedThrottle, Throttled};
use damper::tower::GateLayer;
use damper::{Bulkhead, BulkheadFull, CallError, ManualClock};
use std::cell::Cell;
use std::error::Error;
use std::future::{Ready, pending, ready};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tower::{Layer, Service, service_fn};

/// A query to a database.
#[derive(Clone, Copy)]
struct Query {
    shard: &'static str,
    is_good: bool,
}

const GOOD: Query = Query { shard: "a", is_good: true };
const BAD: Query = Query { shard: "a", is_good: false };

fn answer(query: Query) -> Ready<Result<&'static str, io::Error>> {
    ready(if query.is_good { Ok("rows") } else { Err(io::ErrorKind::ConnectionRefused.into()) })
}

fn call<S: Service<R>, R>(service: &mut S, request: R) -> Result<S::Response, S::Error> {
    let context = &mut Context::from_waker(Waker::noop());
    assert!(service.poll_ready(context).is_ready());
    match pin!(service.call(request)).poll(context) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

fn requests(throttle: &AdaptiveThrottle) -> (u64, u64) {
    (throttle.status().requests(), throttle.status().accepted())
}

#[test]
fn service_that_rejects_is_mostly_not_called() {
    let (throttle, calls) = (Arc::new(AdaptiveThrottle::new()), Cell::new(0));
    let mut service = GateLayer::new(Arc::clone(&throttle)).layer(service_fn(|query| {
        calls.set(calls.get() + 1);
        answer(query)
    }));
    assert_eq!(call(&mut service, GOOD).unwrap(), "rows");
    assert_eq!(requests(&throttle), (1, 1));
    let mut refused = 0;
    for _ in 0..10_000 {
        match call(&mut service, BAD).unwrap_err() {
            CallError::Refused(_) => refused += 1,
            CallError::Failed(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
        }
    }
    assert!(refused > 9_500, "{refused} of 10,000");
    assert_eq!(calls.get() + refused, 10_001);
}

#[test]
fn static_throttle_is_shared_by_all_services_of_a_layer() {
    static THROTTLE: AdaptiveThrottle = AdaptiveThrottle::new();
    let layer = GateLayer::new(&THROTTLE);
    let (mut one, mut other) = (layer.layer(service_fn(answer)), layer.clone().layer(service_fn(answer)).clone());
    _ = (call(&mut one, GOOD), call(&mut other, BAD));
    assert_eq!(requests(&THROTTLE), (2, 1));
}

#[test]
fn keys_have_throttles_of_their_own() {
    let shards = Arc::new(KeyedThrottle::<String>::new(8).unwrap());
    let layer = GateLayer::new(PerKey::new(|query: &Query| query.shard.to_owned(), Arc::clone(&shards)));
    let mut service = layer.layer(service_fn(answer));
    for _ in 0..100 {
        _ = call(&mut service, BAD);
        assert!(call(&mut service, Query { shard: "b", ..GOOD }).is_ok());
    }
    assert!(shards.get_or_create("a").status().share_refused() > 0.9);
    assert!(shards.get_or_create("b").status().share_refused() < 0.01);
}

#[test]
fn classifier_decides_what_is_a_rejection() {
    let throttle = Arc::new(AdaptiveThrottle::new());
    let layer = GateLayer::new(Arc::clone(&throttle)).classify(|result: &Result<&str, io::Error>| match result {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ending::Declined,
        _ => Ending::Unavailable,
    });
    let mut service = layer.layer(service_fn(answer));
    _ = call(&mut service, BAD);
    assert_eq!(requests(&throttle), (1, 1));
    _ = call(&mut service, GOOD);
    assert_eq!(requests(&throttle), (2, 1));
}

/// An inner bulkhead refused the call, so the service did not see it.
#[test]
fn refusal_of_a_layer_inside_is_not_counted() {
    let throttle = Arc::new(AdaptiveThrottle::new());
    let full = Bulkhead::new(0).try_acquire().unwrap_err();
    let mut service = GateLayer::new(Arc::clone(&throttle))
        .layer(service_fn(move |_: Query| ready(Err::<&str, _>(io::Error::other(full)))));
    for _ in 0..100 {
        let error = call(&mut service, GOOD).unwrap_err().into_failed().expect("the throttle did not refuse");
        assert_eq!(BulkheadFull::find_in(&error), Some(&full));
    }
    assert_eq!(requests(&throttle), (0, 0));
}

#[test]
fn call_that_is_dropped_or_panics_is_not_counted() {
    let throttle = Arc::new(AdaptiveThrottle::new());
    let layer = GateLayer::new(Arc::clone(&throttle));
    let mut service = layer.layer(service_fn(|_: Query| pending::<Result<&str, io::Error>>()));
    drop(service.call(GOOD));
    let mut started = Box::pin(service.call(GOOD));
    assert!(started.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(started);
    let mut panicking = layer.layer(service_fn(|_: Query| -> Ready<Result<&str, io::Error>> {
        std::panic::resume_unwind(Box::new("in `call`"))
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| call(&mut panicking, GOOD))).is_err());
    let mut unwinding = layer.layer(service_fn(|_: Query| async {
        if true {
            std::panic::resume_unwind(Box::new("in the future"));
        }
        Ok::<_, io::Error>("rows")
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| call(&mut unwinding, GOOD))).is_err());
    assert_eq!(requests(&throttle), (0, 0));
}

/// An error of `poll_ready` belongs to no call.
#[test]
fn error_of_readiness_is_not_counted() {
    struct Unready;

    impl Service<Query> for Unready {
        type Response = ();
        type Error = io::Error;
        type Future = Ready<Result<(), io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
            Poll::Ready(Err(io::Error::other("closed")))
        }

        fn call(&mut self, _: Query) -> Self::Future {
            ready(Ok(()))
        }
    }
    let throttle = Arc::new(AdaptiveThrottle::new());
    let mut service = GateLayer::new(Arc::clone(&throttle)).layer(Unready);
    match service.poll_ready(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(error)) => assert_eq!(error.into_failed().unwrap().to_string(), "closed"),
        other => panic!("{other:?}"),
    }
    assert_eq!(requests(&throttle), (0, 0));
}

#[test]
fn error_names_the_refusing_layer_and_has_the_refusal_as_its_source() {
    let throttle = Arc::new(AdaptiveThrottle::with_clock(ManualClock::new(), 7));
    let mut service = GateLayer::new(throttle).layer(service_fn(answer));
    let error = (0..1_000)
        .find_map(|_| call(&mut service, BAD).err().filter(|error| error.refusal().is_some()))
        .expect("it throttles");
    assert_eq!(error.to_string(), "call refused");
    let source = error.source().and_then(|source| source.downcast_ref::<Throttled>()).unwrap();
    assert_eq!(source.to_string(), "throttled, 99 % of the calls are not sent");
    assert!(damper::is_refusal(&error));
}
