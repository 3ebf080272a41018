//! A call that panics counts as a failure, and the panic reaches the caller.
//!
//! It may panic in `Service::call`, in the future, in the closure that classifies it, or in a watched body.

use crate::breaker_support::{
    Asked, BoxError, Clocked, Script, Step, clocked, let_probe, panic, panics, polled, request,
};
use damper::breaker::State;
use damper::gate::Ending;
use damper::http::{CircuitBreakerLayer, ResponseHead};
use http::Response;
use http_body_util::BodyExt;
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::Poll;
use tower::Service;

/// Where the call panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Call,
    Future,
    Verdict,
    Body,
}

type Answer = Result<Response<Script>, io::Error>;

/// A service that counts its calls and panics in them.
fn panicking(place: Place, calls: &Rc<Cell<u32>>) -> impl Fn(Asked) -> Panicking + Clone + use<> {
    let calls = Rc::clone(calls);
    move |_| {
        calls.set(calls.get() + 1);
        if place == Place::Call {
            panic();
        }
        Box::pin(async move {
            if place == Place::Future {
                panic();
            }
            let steps = [Step::Data(b"hello"), Step::Panic];
            Ok(Response::builder().header("content-type", "application/grpc").body(Script::of(steps)).unwrap())
        })
    }
}

type Panicking = std::pin::Pin<Box<dyn Future<Output = Answer>>>;

/// Makes a hundred calls and returns how many of them panicked.
fn hundred<F, B, E>(mut call: impl FnMut() -> F) -> u32
where
    F: Future<Output = Result<Response<B>, E>>,
    B: http_body::Body,
{
    let panicked = (0..100).filter(|_| {
        panics(|| {
            if let Ok(answer) = polled(call()) {
                _ = polled(answer.into_body().collect());
            }
        })
    });
    panicked.count() as u32
}

#[test]
fn panicking_http_calls_open_the_breaker() {
    for place in [Place::Call, Place::Future, Place::Verdict, Place::Body] {
        let (_, breaker) = clocked(5);
        let calls = Rc::new(Cell::new(0));
        let service = tower::service_fn(panicking(place, &calls));
        let judge = move |_: Result<&ResponseHead, &io::Error>| {
            if place == Place::Verdict {
                panic();
            }
            Ending::Success
        };
        let mut client = CircuitBreakerLayer::new(breaker.clone()).classify(judge).when_body_ends().layer(service);
        let panicked = hundred(|| client.call(request()));
        assert_eq!((panicked, calls.get(), breaker.state()), (5, 5, State::Open), "in {place:?}");
    }
}

#[test]
fn panicking_hyper_calls_open_the_breaker() {
    use hyper::service::{Service, service_fn};
    for place in [Place::Call, Place::Future] {
        let (_, breaker) = clocked(5);
        let calls = Rc::new(Cell::new(0));
        let client = CircuitBreakerLayer::new(breaker.clone()).layer(service_fn(panicking(place, &calls)));
        let panicked = hundred(|| client.call(request()));
        assert_eq!((panicked, calls.get(), breaker.state()), (5, 5, State::Open), "in {place:?}");
    }
}

#[test]
fn panicking_grpc_calls_open_the_breaker() {
    for place in [Place::Call, Place::Future, Place::Body] {
        let (_, breaker) = clocked(5);
        let calls = Rc::new(Cell::new(0));
        let service = tower::service_fn(panicking(place, &calls));
        let mut client =
            CircuitBreakerLayer::new(breaker.clone()).completion(damper::tonic::AtTrailers::new()).layer(service);
        let panicked = hundred(|| client.call(request()));
        assert_eq!((panicked, calls.get(), breaker.state()), (5, 5, State::Open), "in {place:?}");
    }
}

/// The closure that classifies a gRPC status panics on the head, on the trailers or on an error.
#[test]
fn panic_while_classifying_opens_the_breaker() {
    use http::HeaderMap;
    let status = || HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
    for kind in 0..3 {
        let (_, breaker) = clocked(1);
        let service = tower::service_fn(move |_: Asked| async move {
            let mut answer = Response::builder().header("content-type", "application/grpc").body(Script::default());
            match kind {
                0 => answer.as_mut().unwrap().headers_mut().extend(status()),
                1 => *answer.as_mut().unwrap().body_mut() = Script::of([Step::Trailers(status())]),
                _ => return Err(BoxError::from(tonic::Status::not_found("nothing"))),
            }
            Ok(answer.unwrap())
        });
        let at_trailers = damper::tonic::AtTrailers::new().classify(|_| -> Ending { panic() });
        let mut client = CircuitBreakerLayer::new(breaker.clone()).completion(at_trailers).layer(service);
        assert!(panics(|| polled(polled(client.call(request())).unwrap().into_body().collect())));
        assert_eq!(breaker.state(), State::Open, "kind {kind}");
    }
}

/// A probe that panics is a failed probe.
#[test]
fn panicking_probe_reopens() {
    let (clock, breaker) = clocked(1);
    let_probe(&clock, &breaker);
    let service = tower::service_fn(panicking(Place::Future, &Rc::default()));
    let mut client = CircuitBreakerLayer::new(breaker.clone()).layer(service);
    assert!(panics(|| polled(client.call(request()))));
    assert_eq!(breaker.state(), State::Open);
}

/// A call that is cancelled because its caller panics did not panic itself.
#[test]
fn call_cancelled_by_the_callers_panic_records_no_verdict() {
    let (_, breaker) = clocked(1);
    let hanging = tower::service_fn(|_: Asked| pending::<Answer>());
    let mut client = CircuitBreakerLayer::new(breaker.clone()).when_body_ends().layer(hanging);
    cancelled_by_a_panic(&breaker, client.call(request()));

    let silent = Script::default();
    let answer = silent.clone();
    let streaming = tower::service_fn(move |_: Asked| {
        let answer = Response::new(answer.clone());
        async { Ok::<_, io::Error>(answer) }
    });
    let mut client = CircuitBreakerLayer::new(breaker.clone()).when_body_ends().layer(streaming);
    let body = polled(client.call(request())).unwrap().into_body();
    cancelled_by_a_panic(&breaker, body.collect());
}

fn cancelled_by_a_panic(breaker: &Clocked, call: impl Future) {
    let mut call = Box::pin(call);
    let caller = poll_fn(move |context| -> Poll<()> {
        assert!(call.as_mut().poll(context).is_pending());
        panic()
    });
    assert!(panics(|| polled(caller)));
    assert_eq!((breaker.state(), breaker.status().consecutive_failures()), (State::Closed, 0));
}
