//! Limits that mark requests and refuse none.

use crate::cases::cases;
use bytes::Bytes;
use damper::concurrency::Criticality;
use damper::http::{CallClass, Head, Headers, Limit, Mark, Marks, NoWait, PeerAddress, RateLimitLayer, server_stack};
use damper::{ManualClock, Quota, RateLimiter};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use proptest::prelude::*;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::{Layer, Service};

const HEADER: HeaderName = HeaderName::from_static("x-over-limit");

/// The parts of a request that a handler sees.
#[derive(Clone, Debug)]
struct Seen {
    marks: Vec<Mark>,
    header: Vec<HeaderValue>,
    class: Criticality,
}

type Handler = Arc<Mutex<Vec<Seen>>>;

/// Sends a request through a layer. Returns the status and what the handler saw, if it was called.
fn send(layer: &impl Sends, mut request: Request<()>) -> (StatusCode, Option<Seen>) {
    request.extensions_mut().insert(PeerAddress(([192, 0, 2, 7], 5_000).into()));
    let seen = Handler::default();
    let status = layer.send(&seen, request);
    let seen = seen.lock().unwrap().pop();
    (status, seen)
}

/// A layer that a test sends requests through.
trait Sends {
    fn send(&self, handler: &Handler, request: Request<()>) -> StatusCode;
}

fn handler(seen: &Handler) -> Record {
    Record(Arc::clone(seen))
}

#[derive(Clone)]
struct Record(Handler);

impl Service<Request<()>> for Record {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let head = Head::of(&request);
        self.0.lock().unwrap().push(Seen {
            marks: Marks::of(&head).to_vec(),
            header: head.headers.get_all(HEADER).iter().cloned().collect(),
            class: CallClass::of(&head).criticality(),
        });
        ready(Ok(Response::new(Full::default())))
    }
}

impl<L: Layer<Record, Service: Service<Request<()>, Response = Response<R>, Error = Infallible>>, R> Sends for L {
    fn send(&self, seen: &Handler, request: Request<()>) -> StatusCode {
        let mut service = self.layer(handler(seen));
        match pin!(service.call(request)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(response)) => response.status(),
            Poll::Ready(Err(never)) => match never {},
            Poll::Pending => panic!("it waits"),
        }
    }
}

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

fn burst(tokens: u32) -> Quota {
    Quota::per_minute(6).burst(tokens)
}

fn limiter(tokens: u32, clock: &Arc<ManualClock>) -> Arc<RateLimiter<damper::TokenBucket, Arc<ManualClock>>> {
    Arc::new(RateLimiter::with_clock(burst(tokens), Arc::clone(clock)))
}

// CLAIM: http::MarkingLayer
#[test]
fn request_over_the_limit_is_marked_and_served() {
    let clock = Arc::new(ManualClock::new());
    let told = Arc::new(AtomicU32::new(0));
    let layer = RateLimitLayer::new(limiter(2, &clock))
        .named("soft \"one\"")
        .unwrap()
        .headers(Headers::OnAllResponses)
        .exempt(|head| head.uri.path() == "/healthz")
        .on_limited({
            let told = Arc::clone(&told);
            move |_, _| _ = told.fetch_add(1, Ordering::Relaxed)
        })
        .marking()
        .header(HEADER);
    for _ in 0..2 {
        let mut forged = get("/");
        forged.headers_mut().insert(HEADER, HeaderValue::from_static("\"made up\""));
        forged.headers_mut().append(HEADER, HeaderValue::from_static("\"twice\""));
        let (status, seen) = send(&layer, forged);
        let seen = seen.expect("it is served");
        assert!(status == StatusCode::OK && seen.marks.is_empty() && seen.header.is_empty(), "{seen:?}");
    }
    let (status, seen) = send(&layer, get("/"));
    let seen = seen.expect("it is served");
    assert_eq!(status, StatusCode::OK);
    let [mark] = &seen.marks[..] else { panic!("one mark: {seen:?}") };
    assert_eq!((mark.limit(), mark.limited().retry_after()), ("soft \"one\"", Some(Duration::from_secs(10))));
    assert_eq!(seen.header, [r#""soft \"one\"";t=10"#]);
    assert_eq!(seen.class, Criticality::Critical, "unless the layer lowers it");
    let (_, seen) = send(&layer, get("/healthz"));
    assert!(seen.expect("it is served").marks.is_empty(), "exempt");
    assert_eq!((layer.shadow_report().only_by_candidate, told.load(Ordering::Relaxed)), (1, 1));
    // The limit has taken nothing for the marked request.
    clock.advance(Duration::from_secs(10));
    assert!(send(&layer, get("/")).1.unwrap().marks.is_empty());
}

#[test]
fn marks_of_several_layers_are_listed_and_classes_only_fall() {
    let clock = Arc::new(ManualClock::new());
    let marking = |name: &str, lowest| {
        RateLimitLayer::new(limiter(0, &clock)).named(name).unwrap().marking().header(HEADER).at_most(lowest)
    };
    let layers = tower::ServiceBuilder::new()
        .layer(marking("outer", Criticality::Sheddable))
        .layer(marking("inner", Criticality::SheddablePlus))
        .into_inner();
    let seen = send(&layers, get("/")).1.expect("it is served");
    assert_eq!(seen.marks.iter().map(Mark::limit).collect::<Vec<_>>(), ["outer", "inner"]);
    assert_eq!(seen.header, ["\"outer\", \"inner\""], "without a wait: no wait helps under a burst of 0");
    assert_eq!(seen.class, Criticality::Sheddable);
}

#[test]
fn request_that_the_limit_cannot_decide_on_is_reported_and_not_marked() {
    let told = Arc::new(AtomicU32::new(0));
    let layer = RateLimitLayer::per_client(burst(0))
        .on_error({
            let told = Arc::clone(&told);
            move |_, _| _ = told.fetch_add(1, Ordering::Relaxed)
        })
        .marking();
    let seen = Handler::default();
    // Without a peer address.
    assert_eq!(layer.send(&seen, get("/")), StatusCode::OK);
    assert!(seen.lock().unwrap().pop().unwrap().marks.is_empty());
    assert_eq!((told.load(Ordering::Relaxed), layer.shadow_report().only_by_candidate), (1, 0));
    assert_eq!(layer.for_peer(([192, 0, 2, 1], 1).into()).send(&seen, get("/")), StatusCode::OK);
    assert_eq!(seen.lock().unwrap().pop().unwrap().marks.len(), 1, "the connection's peer");
}

#[test]
fn stack_takes_a_marking_layer_as_a_limit() {
    let stack = server_stack()
        .client_limit_layer(RateLimitLayer::per_client(burst(1)).marking().at_most(Criticality::Sheddable))
        .limit(burst(2));
    let stack = stack.for_peer(([192, 0, 2, 1], 1).into());
    assert!(send(&stack, get("/")).1.unwrap().marks.is_empty());
    assert_eq!(send(&stack, get("/")).1.unwrap().class, Criticality::Sheddable);
    assert_eq!(send(&stack, get("/")).0, StatusCode::TOO_MANY_REQUESTS);
}

/// A limit that marks and one that refuses, over the same quota and on the same clock.
fn agree<L: Limit<Future = NoWait> + Clone>(
    refusing: &RateLimitLayer<L>,
    marking: RateLimitLayer<L>,
    clock: &ManualClock,
    steps: &[(u64, u32)],
) where
    RateLimitLayer<L>: Sends,
{
    let marking = marking.marking();
    let mut marked = 0;
    for &(millis, cost) in steps {
        clock.advance(Duration::from_millis(millis));
        let request = || Request::get("/").header("x-cost", cost).body(()).unwrap();
        let (status, _) = send(refusing, request());
        let seen = Handler::default();
        let mut service = marking.layer(handler(&seen));
        drop(service.call(request()));
        let is_marked = !seen.lock().unwrap().pop().expect("every request is served").marks.is_empty();
        assert_eq!(is_marked, status == StatusCode::TOO_MANY_REQUESTS);
        marked += u64::from(is_marked);
    }
    assert_eq!(marking.shadow_report().only_by_candidate, marked);
}

proptest! {
    #![proptest_config(cases(128))]

    // CLAIM: http::MarkingLayer
    #[test]
    fn exactly_the_requests_are_marked_that_would_have_been_refused(
        tokens in 0..5_u32,
        steps in prop::collection::vec((0..20_000_u64, 0..4_u32), 1..60),
    ) {
        let clock = Arc::new(ManualClock::new());
        let layer = || RateLimitLayer::new(limiter(tokens, &clock)).cost(|head| {
            head.headers.get("x-cost").and_then(|cost| cost.to_str().ok()?.parse().ok()).unwrap_or(1)
        });
        agree(&layer(), layer(), &clock, &steps);
    }
}
