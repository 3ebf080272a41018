//! The end of a call, as told to the permit of a user's gate, which counts the calls in flight.

use crate::breaker_support::{Asked, Script, Step, panic, panics, polled, request};
use damper::gate::{self, AnswerOf, Ask, Ending, Gate, Never, Permit};
use damper::http::{AtBodyEnd, AtHead, ClientGate, Completion, Head, ResponseHead};
use damper::tower::{GateLayer, GateService};
use damper::{BulkheadFull, CallError, Deadline};
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use std::cell::RefCell;
use std::future::{Ready, pending, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::{Layer, Service};

/// Events of the calls of a gate, in order.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Ended(Ending),
    FirstData,
    Panicked,
    Released,
    /// The body of the response was dropped.
    BodyDropped,
}

use Event::{BodyDropped, Ended, FirstData, Panicked, Released};

/// Holds a place of the gate until the call has ended.
struct Place(Rc<RefCell<Vec<Event>>>);

impl Permit for Place {
    fn end(self, verdict: &gate::Verdict) {
        self.0.borrow_mut().push(Ended(verdict.ending));
    }

    fn first_data(&mut self) {
        self.0.borrow_mut().push(FirstData);
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

/// A gate that lets all calls pass, and notes how they went.
#[derive(Clone, Default)]
struct Places(Rc<RefCell<Vec<Event>>>);

impl Gate for Places {
    type Permit = Place;
    type Refusal = BulkheadFull;
    type Wait = Never<Place, BulkheadFull>;
}

impl Ask<Head<'_>> for Places {
    fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
        gate::Answer::Pass(Place(Rc::clone(&self.0)))
    }
}

/// A service whose calls each take a place.
struct Bulkhead<S, W: Clone> {
    service: GateService<S, ClientGate<Places, W>>,
    places: Places,
}

impl<S, W: Clone> Bulkhead<S, W> {
    fn new(completion: W, service: S) -> Self {
        let places = Places::default();
        // Every passed deadline counts.
        let gate = ClientGate::new(places.clone()).completion(completion).min_budget(Duration::ZERO);
        Self { service: GateLayer::at(gate).layer(service), places }
    }

    /// Returns the events since the previous call.
    fn events(&self) -> Vec<Event> {
        self.places.0.take()
    }
}

impl<S, W, R> Bulkhead<S, W>
where
    S: Service<Asked, Response = Response<R>>,
    W: Completion<R, S::Error, BulkheadFull> + Clone,
{
    fn call(&mut self, request: Asked) -> impl Future<Output = Result<Response<W::Body<Place>>, W::Error>> {
        self.service.call(request)
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
    for (status, ending) in [(200, Ending::Success), (404, Ending::Declined), (503, Ending::Unavailable)] {
        let mut service = Bulkhead::new(AtHead::new(), tower::service_fn(answering(status, data_then(Step::Fail))));
        let answer = polled(service.call(request())).unwrap();
        assert_eq!((answer.status().as_u16(), service.events()), (status, vec![Ended(ending), Released]));
        assert!(polled(answer.into_body().collect()).is_err());
        assert_eq!(service.events(), [], "the body is not observed");
    }
}

#[test]
fn body_ends_a_call() {
    let trailers = || Step::Trailers(http::HeaderMap::new());
    for (end, ending) in [(trailers(), Ending::Success), (Step::Fail, Ending::Broken)] {
        let mut service = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answering(200, data_then(end))));
        let mut body = polled(service.call(request())).unwrap().into_body();
        assert_eq!(service.events(), [], "the call is still in flight");
        assert_eq!(next_frame(&mut body), Poll::Ready(Some(true)));
        assert_eq!(service.events(), [FirstData]);
        assert_eq!(next_frame(&mut body), Poll::Ready(Some(true)));
        assert_eq!(service.events(), [], "only the first data counts");
        assert_eq!(next_frame(&mut body), Poll::Ready(Some(ending == Ending::Success)));
        assert_eq!(service.events(), [Ended(ending), Released]);
        drop(body);
        assert_eq!(service.events(), [], "a permit sees one end");
    }
}

/// A failure in the head ends a call, although its body continues.
#[test]
fn failed_head_ends_a_call_before_its_body() {
    let mut service = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answering(500, data_then(Step::Panic))));
    let mut body = polled(service.call(request())).unwrap().into_body();
    assert_eq!(service.events(), [Ended(Ending::Failed), Released]);
    assert_eq!(next_frame(&mut body), Poll::Ready(Some(true)));
    assert_eq!(service.events(), []);
}

/// The server has not done the work of a call that its limit refused, whatever its body says.
#[test]
fn head_over_a_limit_ends_a_call_before_its_body() {
    let mut service = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answering(429, data_then(Step::Panic))));
    let body = polled(service.call(request())).unwrap().into_body();
    assert_eq!(service.events(), [Ended(Ending::Limited), Released]);
    drop(body);
    assert_eq!(service.events(), []);
}

#[test]
fn whole_body_keeps_the_verdict_of_its_head() {
    for (end, ending) in [(Step::Trailers(http::HeaderMap::new()), Ending::Declined), (Step::Fail, Ending::Broken)] {
        let mut service = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answering(404, data_then(end))));
        let body = polled(service.call(request())).unwrap().into_body();
        assert_eq!(service.events(), [], "the call is still in flight");
        _ = polled(body.collect());
        assert_eq!(service.events(), [FirstData, Ended(ending), Released]);
    }
}

#[test]
fn error_of_the_service_ends_a_call() {
    fn failing(_: Asked) -> Ready<Answer> {
        ready(Err(io::Error::other("down")))
    }
    let mut at_head = Bulkhead::new(AtHead::new(), tower::service_fn(failing));
    assert!(matches!(polled(at_head.call(request())), Err(CallError::Failed(error)) if error.to_string() == "down"));
    assert_eq!(at_head.events(), [Ended(Ending::Broken), Released]);

    let ignoring = AtBodyEnd::new().classify(|_: Result<&ResponseHead, &io::Error>| Ending::NotSent);
    let mut at_body_end = Bulkhead::new(ignoring, tower::service_fn(failing));
    assert!(polled(at_body_end.call(request())).is_err());
    assert_eq!(at_body_end.events(), [Ended(Ending::NotSent), Released]);
}

#[test]
fn abandoned_call_releases_its_place_without_a_verdict() {
    let mut hanging = Bulkhead::new(AtHead::new(), tower::service_fn(|_: Asked| pending::<Answer>()));
    drop(hanging.call(request()));
    assert_eq!(hanging.events(), [Released], "before its response");

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
    assert_eq!(silent.events(), [Released], "while its body is pending");
}

/// While the caller waits for the server: before the response, or within the body.
#[test]
fn call_abandoned_after_its_deadline_has_timed_out() {
    let late = || {
        let mut request = request();
        request.extensions_mut().insert(Deadline::after(Duration::from_millis(1)));
        request
    };
    let pass = || std::thread::sleep(Duration::from_millis(2));
    let mut hanging = Bulkhead::new(AtHead::new(), tower::service_fn(|_: Asked| pending::<Answer>()));
    let call = hanging.call(late());
    pass();
    drop(call);
    assert_eq!(hanging.events(), [Ended(Ending::TimedOut), Released]);

    let script = Script::default();
    let answer = |_: Asked| ready(Answer::Ok(Response::new(script.clone())));
    let mut silent = Bulkhead::new(AtBodyEnd::new(), tower::service_fn(answer));
    let mut body = polled(silent.call(late())).unwrap().into_body();
    assert_eq!(next_frame(&mut body), Poll::Pending);
    pass();
    drop(body);
    assert_eq!(silent.events(), [Ended(Ending::TimedOut), Released]);
}

/// Never has a frame, and notes its drop, which may panic.
struct Silent(Rc<RefCell<Vec<Event>>>, bool);

impl Body for Silent {
    type Data = bytes::Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<http_body::Frame<bytes::Bytes>>>> {
        Poll::Pending
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.0.borrow_mut().push(BodyDropped);
        if self.1 {
            panic();
        }
    }
}

/// The body holds its connection until it is dropped.
#[test]
fn given_up_body_is_dropped_before_its_place_is_released() {
    for (left, panics_in_drop) in [(None, false), (Some(Duration::from_millis(1)), false), (None, true)] {
        let places = Places::default();
        let gate = ClientGate::new(places.clone()).completion(AtBodyEnd::new()).min_budget(Duration::ZERO);
        let body = || Silent(Rc::clone(&places.0), panics_in_drop);
        let silent = tower::service_fn(|_: Asked| ready(Ok::<_, io::Error>(Response::new(body()))));
        let mut request = request();
        if let Some(left) = left {
            request.extensions_mut().insert(Deadline::after(left));
        }
        let mut body = polled(GateLayer::at(gate).layer(silent).call(request)).unwrap().into_body();
        assert_eq!(next_frame(&mut body), Poll::Pending);
        std::thread::sleep(2 * left.unwrap_or_default());
        assert_eq!(panics(|| drop(body)), panics_in_drop);
        let timed_out = left.map(|_| Ended(Ending::TimedOut));
        let expected: Vec<_> = [BodyDropped].into_iter().chain(timed_out).chain([Released]).collect();
        assert_eq!(places.0.take(), expected, "{left:?}");
    }
}

/// Whatever the server says, also when to come back. Before the deadline its answer counts.
#[test]
fn failure_after_a_deadline_that_was_too_short_is_not_told() {
    for (left, retry_after, expected) in [
        (Duration::from_millis(1), None, Ending::NotSent),
        (Duration::from_millis(1), Some("7"), Ending::NotSent),
        (Duration::from_mins(1), None, Ending::Unavailable),
        (Duration::from_mins(1), Some("7"), Ending::Unavailable),
    ] {
        let slow = tower::service_fn(move |_: Asked| {
            std::thread::sleep(Duration::from_millis(2));
            let mut response = Response::builder().status(503);
            if let Some(wait) = retry_after {
                response = response.header("retry-after", wait);
            }
            ready(Answer::Ok(response.body(Script::default()).unwrap()))
        });
        let places = Places::default();
        // No time is enough.
        let gate = ClientGate::new(places.clone()).min_budget(Duration::MAX);
        let mut request = request();
        request.extensions_mut().insert(Deadline::after(left));
        polled(GateLayer::at(gate).layer(slow).call(request)).unwrap();
        assert_eq!(places.0.take(), [Ended(expected), Released], "{left:?}, {retry_after:?}");
    }
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
    assert_eq!(hanging.events(), [Released]);
}

#[test]
fn panic_of_a_call_is_reported_wherever_it_panics() {
    let in_call = Bulkhead::new(AtHead::new(), tower::service_fn(|_: Asked| -> Ready<Answer> { panic() }));
    assert_panics(in_call, "in call");

    let future = |_: Asked| poll_fn(|_| -> Poll<Answer> { panic() });
    assert_panics(Bulkhead::new(AtHead::new(), tower::service_fn(future)), "in the future");

    let judge = |_: Result<&ResponseHead, &io::Error>| -> Ending { panic() };
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
    W: Completion<Script, io::Error, BulkheadFull> + Clone,
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
    assert_eq!((answer.status(), service.events()), (StatusCode::OK, vec![Ended(Ending::Success), Released]));
}

/// gRPC's completion serves other gates too.
#[test]
fn trailers_end_a_call() {
    let status = |code: &str| http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())]);
    for (code, ending) in [("0", Ending::Success), ("14", Ending::Unavailable)] {
        let answer = tower::service_fn(answering(200, data_then(Step::Trailers(status(code)))));
        let mut service = Bulkhead::new(damper::tonic::AtTrailers::new(), answer);
        let body = polled(service.call(request())).unwrap().into_body();
        assert!(polled(body.collect()).is_ok());
        assert_eq!(service.events(), [FirstData, Ended(ending), Released]);
    }
}
