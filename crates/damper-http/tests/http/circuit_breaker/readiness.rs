//! An open breaker refuses at once, whether the service is ready or not, and loses no readiness.

use crate::breaker_support::{Asked, COOLDOWN, Clocked, Script, clocked, let_probe, polled, request};
use damper::breaker::State;
use damper::gate::{Ask, Gate};
use damper::http::{CircuitBreakerLayer, Head};
use damper::{BreakerConfig, CircuitBreaker, CircuitOpen, ManualClock};
use http::Response;
use std::cell::Cell;
use std::error::Error;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Service, ServiceExt};

type Answer = Result<Response<Script>, std::io::Error>;

/// A service that limits concurrent calls.
///
/// A ready service holds a permit until it is called. Clones do not share readiness.
struct Limited {
    semaphore: Arc<Semaphore>,
    waiting: Option<Pin<Box<dyn Future<Output = OwnedSemaphorePermit>>>>,
    permit: Option<OwnedSemaphorePermit>,
    /// How often the service was polled for readiness, and called.
    asked: Rc<Cell<u32>>,
    calls: Rc<Cell<u32>>,
}

impl Limited {
    fn new(permits: usize) -> Self {
        let semaphore = Arc::new(Semaphore::new(permits));
        Self { semaphore, waiting: None, permit: None, asked: Rc::default(), calls: Rc::default() }
    }

    /// A handle to the same service, for assertions.
    fn outside(&self) -> Self {
        self.clone()
    }
}

impl Clone for Limited {
    fn clone(&self) -> Self {
        let Self { semaphore, asked, calls, .. } = self;
        let (semaphore, asked, calls) = (Arc::clone(semaphore), Rc::clone(asked), Rc::clone(calls));
        Self { semaphore, waiting: None, permit: None, asked, calls }
    }
}

impl Service<Asked> for Limited {
    type Response = Response<Script>;
    type Error = std::io::Error;
    type Future = Ready<Answer>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.asked.set(self.asked.get() + 1);
        if self.permit.is_none() {
            let semaphore = Arc::clone(&self.semaphore);
            let acquire = async move { semaphore.acquire_owned().await.expect("the semaphore is never closed") };
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(acquire));
            self.permit = Some(std::task::ready!(waiting.as_mut().poll(context)));
            self.waiting = None;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Asked) -> Self::Future {
        drop(self.permit.take().expect("it is ready before it is called"));
        self.calls.set(self.calls.get() + 1);
        let answer = Response::builder().header("content-type", "application/grpc").header("grpc-status", "0");
        ready(Ok(answer.body(Script::default()).unwrap()))
    }
}

/// Runs a test for the layers of HTTP and of gRPC.
macro_rules! for_both {
    ($test:ident, $breaker:expr) => {
        $test($breaker, |breaker, service| CircuitBreakerLayer::new(breaker).layer(service));
        $test($breaker, |breaker, service| {
            CircuitBreakerLayer::new(breaker).completion(damper::tonic::AtTrailers::new()).layer(service)
        });
    };
}

fn ask<S: Service<Asked>>(service: &mut S) -> Poll<bool> {
    service.poll_ready(&mut Context::from_waker(Waker::noop())).map(|result| result.is_ok())
}

const READY: Poll<bool> = Poll::Ready(true);

/// The refusal of a call that is answered when it is first polled.
fn refusal<S: Service<Asked, Error: Error + 'static>>(service: &mut S) -> CircuitOpen {
    let Err(error) = polled(service.call(request())) else { panic!("let pass") };
    *CircuitOpen::find_in(&error).expect("refused by the breaker")
}

/// The breaker is open, or forced open.
#[test]
fn open_breaker_refuses_within_one_poll() {
    fn test<S>(breaker: &Clocked, layer: impl FnOnce(Clocked, Limited) -> S)
    where
        S: Service<Asked, Error: Error + 'static> + Clone,
    {
        let limited = Limited::new(1);
        let service = layer(Arc::clone(breaker), limited.outside());
        let _taken = Arc::clone(&limited.semaphore).try_acquire_owned().unwrap();
        let refused = || {
            let Err(error) = polled(service.clone().oneshot(request())) else { panic!("let pass") };
            *CircuitOpen::find_in(&error).expect("refused by the breaker")
        };

        breaker.try_acquire().unwrap().failure();
        assert_eq!(refused().retry_after(), Some(COOLDOWN));
        breaker.force_open();
        assert_eq!(refused().to_string(), "circuit forced open");
        assert_eq!(limited.asked.get(), 0);
    }
    for_both!(test, &clocked(1).1);
}

/// The breaker is half-open with a probe in flight. The next call that may pass polls the service.
#[test]
fn half_open_breaker_refuses_within_one_poll() {
    fn test<S>((clock, breaker): (Arc<ManualClock>, Clocked), layer: impl Fn(Clocked, Limited) -> S)
    where
        S: Service<Asked, Error: Error + 'static>,
    {
        let limited = Limited::new(0);
        let_probe(&clock, &breaker);
        let probe = breaker.try_acquire().unwrap();
        let Err(error) = polled(layer(Arc::clone(&breaker), limited.outside()).oneshot(request())) else { panic!() };
        assert_eq!(CircuitOpen::find_in(&error).expect("refused").retry_after(), None);
        assert_eq!(limited.asked.get(), 0);
        probe.ignore();
        assert_eq!(ask(&mut layer(breaker, limited.outside())), Poll::Pending, "the next call is a probe");
    }
    for_both!(test, clocked(1));
}

#[test]
fn refusals_reserve_no_readiness() {
    fn test<S>(breaker: &Clocked, layer: impl FnOnce(Clocked, Limited) -> S)
    where
        S: Service<Asked, Error: Error + 'static> + Clone,
    {
        let limited = Limited::new(10);
        let mut service = layer(Arc::clone(breaker), limited.outside());
        breaker.force_open();
        for _ in 0..1_000 {
            assert_eq!(ask(&mut service), READY);
            refusal(&mut service);
        }
        let mut clones = vec![service; 1_000];
        for service in &mut clones {
            assert_eq!(ask(service), READY);
            refusal(service);
        }
        assert_eq!(limited.semaphore.available_permits(), 10);
        breaker.reset();
        for service in &mut clones {
            assert_eq!(ask(service), READY);
            assert!(polled(service.call(request())).is_ok());
        }
        assert_eq!((limited.semaphore.available_permits(), limited.calls.get()), (10, 1_000));
    }
    for_both!(test, &clocked(1).1);
}

/// The breaker trips between `poll_ready` and `call`.
#[test]
fn next_call_uses_readiness_kept_by_a_refusal() {
    fn test<S>(breaker: &Clocked, layer: impl FnOnce(Clocked, Limited) -> S)
    where
        S: Service<Asked, Error: Error + 'static>,
    {
        let limited = Limited::new(1);
        let mut service = layer(Arc::clone(breaker), limited.outside());
        assert_eq!(ask(&mut service), READY);
        breaker.try_acquire().unwrap().failure();
        for _ in 0..3 {
            refusal(&mut service);
            assert_eq!(ask(&mut service), READY);
        }
        assert_eq!((limited.asked.get(), limited.calls.get()), (1, 0));
        assert_eq!(limited.semaphore.available_permits(), 0, "the service is still ready");
        breaker.reset();
        assert!(polled(service.call(request())).is_ok(), "the service was already ready");
        assert_eq!((limited.asked.get(), limited.calls.get()), (1, 1));
        assert_eq!(limited.semaphore.available_permits(), 1);
    }
    for_both!(test, &clocked(1).1);
}

/// The cooldown ends between `poll_ready`, which did not poll the service, and `call`.
#[test]
fn service_is_called_only_after_its_readiness() {
    fn test<S>((clock, breaker): (Arc<ManualClock>, Clocked), layer: impl FnOnce(Clocked, Limited) -> S)
    where
        S: Service<Asked, Error: Error + 'static>,
    {
        let limited = Limited::new(1);
        let taken = Arc::clone(&limited.semaphore).try_acquire_owned().unwrap();
        let mut service = layer(Arc::clone(&breaker), limited.outside());
        breaker.try_acquire().unwrap().failure();
        assert_eq!(ask(&mut service), READY);
        clock.advance(COOLDOWN);
        assert_eq!(refusal(&mut service).retry_after(), Some(COOLDOWN), "as it was when the service was not asked");
        assert_eq!((limited.asked.get(), limited.calls.get()), (0, 0));
        assert_eq!(breaker.state(), State::HalfOpen, "no verdict was recorded");

        assert_eq!(ask(&mut service), Poll::Pending, "the service is polled now");
        drop(taken);
        assert_eq!(ask(&mut service), READY);
        assert!(polled(service.call(request())).is_ok());
        assert_eq!((breaker.state(), limited.calls.get()), (State::Closed, 1));
    }
    for_both!(test, clocked(1));
    let abandoned_probes_fail = || {
        let clock = Arc::new(ManualClock::new());
        let config = BreakerConfig::builder().failure_threshold(1).abandoned_probes_fail().build().unwrap();
        (Arc::clone(&clock), Arc::new(CircuitBreaker::with_clock(config, clock)))
    };
    for_both!(test, abandoned_probes_fail());
}

/// A caller polls for readiness and goes away.
#[test]
fn readiness_takes_no_probe() {
    fn test<S>((clock, breaker): (Arc<ManualClock>, Clocked), layer: impl FnOnce(Clocked, Limited) -> S)
    where
        S: Service<Asked, Error: Error + 'static> + Clone,
    {
        let_probe(&clock, &breaker);
        let mut waiting = vec![layer(Arc::clone(&breaker), Limited::new(20)); 10];
        for service in &mut waiting {
            assert_eq!(ask(service), READY);
        }
        assert!(polled(waiting[9].call(request())).is_ok());
        assert_eq!(breaker.state(), State::Closed);
    }
    for_both!(test, clocked(1));
}

/// Later results of the service's `poll_ready` are passed on, as without a breaker.
#[test]
fn ready_service_is_polled_again() {
    let mut answers =
        vec![Poll::Ready(Err(io::Error::other("the connection is lost"))), Poll::Ready(Ok(())), Poll::Pending];
    let service = Answers(move || answers.pop().unwrap());
    let (_, breaker) = clocked(1);
    let mut service = CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(service);
    for answer in [Poll::Pending, READY, Poll::Ready(false)] {
        assert_eq!(ask(&mut service), answer);
    }
    assert_eq!(breaker.status().consecutive_failures(), 0, "the error belongs to no call");
}

/// A service that only reports whether it is ready.
struct Answers<F>(F);

impl<F: FnMut() -> Poll<io::Result<()>>> Service<Asked> for Answers<F> {
    type Response = Response<()>;
    type Error = io::Error;
    type Future = Ready<io::Result<Response<()>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        (self.0)()
    }

    fn call(&mut self, _: Asked) -> Self::Future {
        ready(Err(io::Error::other("not called")))
    }
}

/// An open breaker that only records metrics polls the service.
#[test]
fn metrics_only_breaker_polls_the_service() {
    let (_, breaker) = clocked(1);
    breaker.metrics_only();
    breaker.try_acquire().unwrap().failure();
    assert_eq!(breaker.state(), State::Open);
    let mut service = CircuitBreakerLayer::new(breaker).layer(Limited::new(0));
    assert_eq!(ask(&mut service), Poll::Pending);
}

/// The layer creates the breaker itself.
#[test]
fn single_breaker_of_a_layer_refuses_within_one_poll() {
    let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
    let layer = CircuitBreakerLayer::single(config);
    let mut failing =
        layer.layer(tower::service_fn(|_: Asked| ready(Err::<Response<()>, _>(io::Error::other("down")))));
    polled(failing.call(request())).unwrap_err();
    let Err(error) = polled(layer.layer(Limited::new(0)).oneshot(request())) else { panic!("let pass") };
    assert!(error.is_refused());
}

/// Only a request selects one of several breakers, so the service is polled first.
#[test]
fn per_host_breakers_decide_in_call() {
    let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
    let mut service = CircuitBreakerLayer::per_host(config).layer(Limited::new(0));
    assert_eq!(ask(&mut service), Poll::Pending);
}

/// `refusal`, which `poll_ready` uses, equals the refusal of `try_acquire` in every state.
#[test]
fn readiness_refusal_equals_the_calls_refusal() {
    let clock = Arc::new(ManualClock::new());
    let config = BreakerConfig::builder().failure_threshold(1).max_half_open(COOLDOWN).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
    let refusal = || {
        let refusal = CircuitBreaker::refusal(&breaker);
        assert_eq!([Gate::refusal(&breaker), Gate::refusal(&&*breaker)], [refusal; 2]);
        let head = request();
        let call = breaker.ask(&Head::of(&head)).into_result();
        assert_eq!(call.as_ref().err().copied(), refusal);
        if let Ok(permit) = call {
            permit.ignore();
        }
        refusal
    };
    assert_eq!(refusal(), None, "closed");
    breaker.try_acquire().unwrap().failure();
    clock.advance(COOLDOWN / 3);
    assert_eq!(refusal().unwrap().retry_after(), Some(COOLDOWN * 2 / 3), "open");
    clock.advance(COOLDOWN);
    assert_eq!(refusal(), None, "the cooldown is over");
    let _probe = breaker.try_acquire().unwrap();
    assert_eq!(refusal().unwrap().retry_after(), None, "a probe is in flight");
    clock.advance(COOLDOWN * 2);
    let of_next_call = CircuitBreaker::refusal(&breaker).unwrap();
    assert_eq!(of_next_call.retry_after(), Some(COOLDOWN), "half-open for too long");
    assert_eq!([Gate::refusal(&breaker), Gate::refusal(&&*breaker)], [None; 2], "only a call opens it");
    assert!(breaker.try_acquire().is_err());
    assert_eq!(refusal().unwrap().retry_after(), Some(COOLDOWN), "open again");
    breaker.metrics_only();
    assert_eq!(refusal(), None, "only measured");
    breaker.force_open();
    assert_eq!(refusal().unwrap().to_string(), "circuit forced open");
    breaker.force_closed();
    assert_eq!(refusal(), None);
    breaker.disable();
    assert_eq!(refusal(), None);
}
