//! The end of a call, as reported to an observer other than a breaker: a permit of a bulkhead.
#![cfg(feature = "tower")]

#[path = "breaker_layers/support.rs"]
#[expect(dead_code, reason = "some of it is for the breakers")]
mod support;

use damper::CallError;
use damper::breaker::Verdict;
use damper::http::{AtBodyEnd, AtHead, CallGuard, CallObserver, Completion, ObservedCall, ResponseHead};
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use std::cell::RefCell;
use std::future::{Ready, pending, poll_fn, ready};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use support::{Asked, Script, Step, panic, panics, polled, request};
use tower::Service;

/// Events of the calls of a bulkhead, in order.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Ended(Verdict),
    FirstData,
    Abandoned,
    Panicked,
    Released,
}

use Event::{Abandoned, Ended, FirstData, Panicked, Released};

/// Holds a place of a bulkhead until the call has ended.
struct Place(Rc<RefCell<Vec<Event>>>);

impl CallObserver for Place {
    fn ended(self, verdict: Verdict) {
        self.0.borrow_mut().push(Ended(verdict));
    }

    fn first_data(&mut self) {
        self.0.borrow_mut().push(FirstData);
    }

    fn abandoned(self) {
        self.0.borrow_mut().push(Abandoned);
    }

    fn panicked(self) {
        self.0.borrow_mut().push(Panicked);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.borrow_mut().push(Released);
    }
}

/// A service whose calls each take a place.
struct Bulkhead<S, W> {
    service: S,
    completion: W,
    events: Rc<RefCell<Vec<Event>>>,
}

impl<S, W> Bulkhead<S, W> {
    fn new(completion: W, service: S) -> Self {
        Self { service, completion, events: Rc::default() }
    }

    /// Returns the events since the previous call.
    fn events(&self) -> Vec<Event> {
        self.events.take()
    }
}

impl<S, W, Q, R> Service<Request<Q>> for Bulkhead<S, W>
where
    S: Service<Request<Q>, Response = Response<R>>,
    W: Completion<R, S::Error> + Clone,
{
    type Response = Response<W::Body<Place>>;
    type Error = W::Error;
    type Future = ObservedCall<S::Future, Place, W>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), W::Error>> {
        self.service.poll_ready(context).map_err(|error| self.completion.not_called(CallError::Failed(error)))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        CallGuard::new(Place(Rc::clone(&self.events)), self.completion.clone()).observe(self.service.call(request))
    }
}

type Answer = io::Result<Response<Script>>;

/// Responds with this status and these steps of a body.
fn answering(status: u16, steps: impl IntoIterator<Item = Step>) -> impl FnMut(Asked) -> Ready<Answer> {
    let mut answer = Some(Response::builder().status(status).body(Script::of(steps)).unwrap());
    move |_| ready(Ok(answer.take().expect("called once")))
}

/// A body with data, followed by this end.
fn data_then(end: Step) -> [Step; 3] {
    [Step::Data(b"hello"), Step::Data(b"again"), end]
}

fn next_frame<B: Body + Unpin>(body: &mut B) -> Poll<Option<bool>> {
    let frame = pin!(body).poll_frame(&mut Context::from_waker(Waker::noop()));
    frame.map(|frame| frame.map(|frame| frame.is_ok()))
}

#[test]
fn head_ends_a_call() {
    for (status, verdict) in [(200, Verdict::Success), (404, Verdict::Success), (503, Verdict::Failure)] {
        let mut service = Bulkhead::new(AtHead::new(), tower::service_fn(answering(status, data_then(Step::Fail))));
        let answer = polled(service.call(request())).unwrap();
        assert_eq!((answer.status().as_u16(), service.events()), (status, vec![Ended(verdict), Released]));
        assert!(polled(answer.into_body().collect()).is_err());
        assert_eq!(service.events(), [], "the body is not observed");
    }
}

#[test]
fn body_ends_a_call() {
    let trailers = || Step::Trailers(http::HeaderMap::new());
    for (end, verdict) in [(trailers(), Verdict::Success), (Step::Fail, Verdict::Failure)] {
        let mut service = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answering(200, data_then(end))));
        let mut body = polled(service.call(request())).unwrap().into_body();
        assert_eq!(service.events(), [], "the call is still in flight");
        assert_eq!(next_frame(&mut body), Poll::Ready(Some(true)));
        assert_eq!(service.events(), [FirstData]);
        assert_eq!(next_frame(&mut body), Poll::Ready(Some(true)));
        assert_eq!(service.events(), [], "only the first data counts");
        assert_eq!(next_frame(&mut body), Poll::Ready(Some(verdict == Verdict::Success)));
        assert_eq!(service.events(), [Ended(verdict), Released]);
        drop(body);
        assert_eq!(service.events(), [], "an observer sees one end");
    }
}

/// A failure in the head ends a call, although its body continues.
#[test]
fn failed_head_ends_a_call_before_its_body() {
    let mut service = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answering(500, data_then(Step::Panic))));
    let mut body = polled(service.call(request())).unwrap().into_body();
    assert_eq!(service.events(), [Ended(Verdict::Failure), Released]);
    assert_eq!(next_frame(&mut body), Poll::Ready(Some(true)));
    assert_eq!(service.events(), []);
}

#[test]
fn error_of_the_service_ends_a_call() {
    fn failing(_: Asked) -> Ready<Answer> {
        ready(Err(io::Error::other("down")))
    }
    let mut at_head = Bulkhead::new(AtHead::new(), tower::service_fn(failing));
    assert!(matches!(polled(at_head.call(request())), Err(CallError::Failed(error)) if error.to_string() == "down"));
    assert_eq!(at_head.events(), [Ended(Verdict::Failure), Released]);

    let ignoring = AtBodyEnd::new().classify(|_: Result<&ResponseHead, &io::Error>| Verdict::Ignored);
    let mut at_body_end = Bulkhead::new(ignoring, tower::service_fn(failing));
    assert!(polled(at_body_end.call(request())).is_err());
    assert_eq!(at_body_end.events(), [Ended(Verdict::Ignored), Released]);
}

#[test]
fn abandoned_call_releases_its_place_without_a_verdict() {
    let mut hanging = Bulkhead::new(AtHead::new(), tower::service_fn(|_: Asked| pending::<Answer>()));
    drop(hanging.call(request()));
    assert_eq!(hanging.events(), [Abandoned, Released], "before its response");

    let mut streaming = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answering(200, data_then(Step::Fail))));
    let mut body = polled(streaming.call(request())).unwrap().into_body();
    assert_eq!(next_frame(&mut body), Poll::Ready(Some(true)));
    drop(body);
    assert_eq!(streaming.events(), [FirstData, Released], "before the end of its body");

    let script = Script::default();
    let answer = |_: Asked| ready(Answer::Ok(Response::new(script.clone())));
    let mut silent = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answer));
    let mut body = polled(silent.call(request())).unwrap().into_body();
    assert_eq!(next_frame(&mut body), Poll::Pending);
    drop(body);
    assert_eq!(silent.events(), [Abandoned, Released], "while its body is pending");

    drop(CallGuard::new(Place(Rc::clone(&hanging.events)), AtHead::new()));
    assert_eq!(hanging.events(), [Released], "before the first poll");
}

/// The caller panics while it polls the call, and the call is dropped during the unwinding.
#[test]
fn panic_of_the_caller_is_no_panic_of_the_call() {
    let mut hanging = Bulkhead::new(AtHead::new(), tower::service_fn(|_: Asked| pending::<Answer>()));
    let mut call = Box::pin(hanging.call(request()));
    let caller = poll_fn(move |context| -> Poll<()> {
        assert!(call.as_mut().poll(context).is_pending());
        panic()
    });
    assert!(panics(|| polled(caller)));
    assert_eq!(hanging.events(), [Abandoned, Released]);
}

#[test]
fn panic_of_a_call_is_reported_wherever_it_panics() {
    let in_call = Bulkhead::new(AtHead::new(), tower::service_fn(|_: Asked| -> Ready<Answer> { panic() }));
    assert_panics(in_call, "in call");

    let future = |_: Asked| poll_fn(|_| -> Poll<Answer> { panic() });
    assert_panics(Bulkhead::new(AtHead::new(), tower::service_fn(future)), "in the future");

    let judge = |_: Result<&ResponseHead, &io::Error>| -> Verdict { panic() };
    let answer = tower::service_fn(answering(200, []));
    assert_panics(Bulkhead::new(AtHead::new().classify(judge), answer), "in the verdict on a response");

    let failing = tower::service_fn(|_: Asked| ready(Answer::Err(io::Error::other("down"))));
    assert_panics(Bulkhead::new(AtBodyEnd::new().classify(judge), failing), "in the verdict on an error");

    let mut service = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answering(200, [Step::Panic])));
    let mut body = polled(service.call(request())).unwrap().into_body();
    assert!(panics(|| next_frame(&mut body)));
    assert_eq!(service.events(), [Panicked, Released], "in the body");
}

fn assert_panics<S, W>(mut service: Bulkhead<S, W>, place: &str)
where
    S: Service<Asked, Response = Response<Script>, Error = io::Error>,
    W: Completion<Script, io::Error> + Clone,
{
    assert!(panics(|| drop(polled(service.call(request())))), "{place}");
    assert_eq!(service.events(), [Panicked, Released], "{place}");
}

/// A response whose body is empty, such as one to HEAD, ends the call with its head.
#[test]
fn empty_body_ends_a_call_with_the_head() {
    let empty = |_: Asked| ready(Ok::<_, io::Error>(Response::new(http_body_util::Empty::<bytes::Bytes>::new())));
    let mut service = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(empty));
    let answer = polled(service.call(request())).unwrap();
    assert_eq!((answer.status(), service.events()), (StatusCode::OK, vec![Ended(Verdict::Success), Released]));
}

/// gRPC's completion serves other observers too.
#[cfg(feature = "tonic")]
#[test]
fn trailers_end_a_call() {
    let status = |code: &str| http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())]);
    for (code, verdict) in [("0", Verdict::Success), ("14", Verdict::Failure)] {
        let answer = tower::service_fn(answering(200, data_then(Step::Trailers(status(code)))));
        let mut service = Bulkhead::new(damper::tonic::AtTrailers::new(), answer);
        let body = polled(service.call(request())).unwrap().into_body();
        assert!(polled(body.collect()).is_ok());
        assert_eq!(service.events(), [FirstData, Ended(verdict), Released]);
    }
}
