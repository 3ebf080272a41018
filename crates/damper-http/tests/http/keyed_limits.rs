//! Limits per key: custom keyed limits, and the capacity of limits that layers build.

use damper::gate::WaitsWith;
use damper::http::{
    ByHeader, ByKey, Detail, Head, Headers, KeyedLimit, Limit, LimitAnswer, LimitDecision, Limited, PeerAddress,
    PerClient, RateLimitCapacityError, RateLimitLayer, Refusal, Standing,
};
use damper::wire::TrustedProxies;
use damper::{KeyedLimiter, Quota};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::Empty;
use std::convert::Infallible;
use std::fmt::Debug;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::Service;
use tower::util::ServiceFn;

const USER: HeaderName = HeaderName::from_static("x-user");

/// A request from this address, sent by alice.
fn from(address: &str) -> Request<()> {
    let mut request = Request::get("/path").header("x-user", "alice").header("x-forwarded-for", "2001:db8::7");
    request.extensions_mut().unwrap().insert(PeerAddress((address.parse::<IpAddr>().unwrap(), 5_000).into()));
    request.body(()).unwrap()
}

type Responded = Ready<Result<Response<Empty<bytes::Bytes>>, Infallible>>;
/// The service behind the limits.
type Bare = ServiceFn<fn(Request<()>) -> Responded>;

fn respond(_: Request<()>) -> Responded {
    ready(Ok(Response::default()))
}

/// Returns the head of a layer's response to a request.
///
/// The response is ready at the first poll, or at the second if the decision takes one.
fn respond_by<L: Limit<Future: WaitsWith<Bare>>>(layer: &RateLimitLayer<L>, request: Request<()>) -> Response<()> {
    let mut call = pin!(layer.layer(tower::service_fn(respond as fn(_) -> _)).call(request));
    let context = &mut Context::from_waker(Waker::noop());
    for _ in 0..2 {
        if let Poll::Ready(response) = call.as_mut().poll(context) {
            return response.unwrap().map(drop);
        }
    }
    panic!("the decision needs more than one further poll");
}

/// A remote limit that records the keys it is asked about.
///
/// Its decisions are pending at the first poll.
#[derive(Clone)]
struct Elsewhere {
    asked: Arc<Mutex<Vec<String>>>,
    answer: fn(Detail) -> LimitAnswer,
}

impl Elsewhere {
    fn new(answer: fn(Detail) -> LimitAnswer) -> Self {
        Self { asked: Arc::default(), answer }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl<K: Debug + ?Sized> KeyedLimit<K> for Elsewhere {
    type Future = Pin<Box<dyn Future<Output = LimitAnswer> + Send>>;

    fn decide(&self, key: &K, _: u32, detail: Detail) -> LimitDecision<Self::Future> {
        self.asked.lock().unwrap().push(format!("{key:?}"));
        let (answer, mut polls) = (self.answer, 0);
        LimitDecision::Wait(Box::pin(std::future::poll_fn(move |_| {
            polls += 1;
            if polls == 2 { Poll::Ready(answer(detail)) } else { Poll::Pending }
        })))
    }
}

fn standing() -> Standing {
    Standing::new(Quota::per_minute(5), 3, Some(Duration::from_secs(20)))
}

/// A remote limit is asked about an address, a header value, or the key of a closure.
///
/// The address is grouped by its prefix and found behind proxies.
#[test]
fn remote_limit_is_asked_about_each_kind_of_key() {
    let elsewhere = Elsewhere::new(|detail| Ok(detail.then(standing)));

    let clients = RateLimitLayer::new(PerClient::new(elsewhere.clone())).headers(Headers::OnAllResponses);
    let clients = clients.ipv6_prefix(32).behind(TrustedProxies::new(["10.0.0.0/8"]).unwrap());
    assert_eq!(respond_by(&clients, from("192.0.2.7")).headers()["ratelimit"], r#""default";r=3;t=20"#);
    respond_by(&clients, from("10.0.0.1"));
    let addresses =
        ["192.0.2.7", "2001:db8::"].map(|address| damper::ClientAddress::from(address.parse::<IpAddr>().unwrap()));
    assert_eq!(elsewhere.asked(), addresses.map(|address| format!("{address:?}")));

    let users = RateLimitLayer::new(ByHeader::new(USER, elsewhere.clone()));
    assert_eq!(respond_by(&users, from("192.0.2.7")).status(), StatusCode::OK);
    assert_eq!(elsewhere.asked(), [format!("{:?}", b"alice")]);

    let paths = RateLimitLayer::new(ByKey::new(|head: &Head<'_>| head.uri.path().to_owned(), elsewhere.clone()));
    assert_eq!(respond_by(&paths, from("192.0.2.7")).status(), StatusCode::OK);
    assert_eq!(elsewhere.asked(), [r#""/path""#]);
}

#[test]
fn remote_limit_refuses_fails_or_admits() {
    let status = |answer| {
        let errors = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&errors);
        let layer = RateLimitLayer::new(PerClient::new(Elsewhere::new(answer)))
            .on_error(move |_, _| _ = seen.fetch_add(1, Ordering::Relaxed));
        let response = respond_by(&layer, from("192.0.2.7"));
        (response.status().as_u16(), errors.load(Ordering::Relaxed))
    };
    assert_eq!(status(|_| Err(Limited::new(None, standing()).into())), (429, 0));
    assert_eq!(status(|_| Err(Refusal::failed("the store is down"))), (500, 1));
    assert_eq!(status(|_| Ok(None)), (200, 0));
}

/// A request without an address is refused before the limit is asked.
#[test]
fn remote_limit_is_not_asked_without_a_key() {
    let elsewhere = Elsewhere::new(|_| Ok(None));
    let clients = PerClient::new(&elsewhere);
    let request = Request::new(());
    assert!(matches!(clients.decide(&Head::of(&request), 1, Detail::None), LimitDecision::Refuse(_)));
    assert!(elsewhere.asked().is_empty());
}

/// Returns the capacity of a layer's limiter, from the layer's `Debug` output.
fn capacity_of<L: Debug>(layer: &RateLimitLayer<L>) -> usize {
    let text = format!("{layer:?}");
    let (_, rest) = text.split_once("capacity: ").expect("a keyed limiter shows its capacity");
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

const QUOTA: Quota = Quota::per_hour(1).burst(2);

#[test]
fn layer_builds_its_limiter_with_a_capacity() {
    let clients = RateLimitLayer::per_client(QUOTA).capacity(100).unwrap();
    assert_eq!(capacity_of(&clients), 100);
    let statuses = [(); 3].map(|()| respond_by(&clients, from("192.0.2.7")).status().as_u16());
    assert_eq!(statuses, [200, 200, 429], "the quota is unchanged");

    assert_eq!(capacity_of(&RateLimitLayer::by_header(USER, QUOTA).capacity(101).unwrap()), 101);
    assert_eq!(capacity_of(&RateLimitLayer::by(|head| head.version, QUOTA).capacity(102).unwrap()), 102);
    // A capacity may be set twice, and after other settings.
    let layer = RateLimitLayer::per_client(QUOTA).named("clients").unwrap().prefix(48, QUOTA).capacity(1).unwrap();
    assert_eq!(capacity_of(&layer.capacity(103).unwrap()), 103);
    assert_eq!(capacity_of(&RateLimitLayer::per_client(QUOTA)), 8_192);
}

#[test]
fn capacity_out_of_range_is_the_limiters_error() {
    for keys in [0, (1 << 28) + 1] {
        let error = RateLimitLayer::per_client(QUOTA).capacity(keys).unwrap_err();
        let RateLimitCapacityError::OutOfRange(refused) = error else { panic!("{error:?}") };
        assert_eq!(refused.setting(), "capacity");
        assert_eq!(error.to_string(), format!("capacity is {keys}, it must be 1 to 268435456"));
    }
}

/// Setting a capacity fails while anything else uses the limiter.
///
/// It would replace the limiter.
#[test]
fn shared_limiter_is_not_replaced() {
    let shared = |layer: RateLimitLayer<PerClient>| layer.capacity(100).unwrap_err() == RateLimitCapacityError::Shared;

    let layer = RateLimitLayer::per_client(QUOTA);
    let clone = layer.clone();
    assert!(shared(layer));
    assert_eq!(capacity_of(&clone.capacity(100).unwrap()), 100, "a layer without clones shares nothing");

    // Other setters copy the settings, but still share the limiter.
    let layer = RateLimitLayer::per_client(QUOTA);
    let stricter = layer.clone().exempt(|_| false);
    assert!(shared(stricter));

    let layer = RateLimitLayer::per_client(QUOTA);
    let service = layer.layer(());
    assert!(shared(layer));
    drop(service);

    let layer = RateLimitLayer::per_client(QUOTA);
    let for_peer = layer.for_peer(([192, 0, 2, 7], 5_000).into());
    assert!(shared(layer));
    drop(for_peer);
}

#[test]
fn limiter_of_the_caller_is_not_replaced() {
    let limits = || Arc::new(KeyedLimiter::builder(QUOTA).capacity(7).build().unwrap());
    let layer = RateLimitLayer::new(PerClient::new(limits())).named("clients").unwrap();
    let error = layer.capacity(100).unwrap_err();
    assert_eq!(error, RateLimitCapacityError::Given);
    assert_eq!(
        error.to_string(),
        "the limiter was passed to RateLimitLayer::new; set its capacity in KeyedLimiterBuilder::capacity"
    );
    let layer = RateLimitLayer::new(ByHeader::new(USER, Arc::new(KeyedLimiter::builder(QUOTA).build().unwrap())));
    assert_eq!(layer.capacity(100).unwrap_err(), RateLimitCapacityError::Given);
}

/// Every setter leaves earlier clones unchanged.
///
/// All of them share one limit.
#[test]
fn setters_change_no_earlier_clone_and_share_the_limit() {
    type Layer = RateLimitLayer<PerClient>;
    type Setter = fn(Layer) -> Layer;
    let setters: [(&str, Setter); 10] = [
        ("exempt", |layer| layer.exempt(|head| head.uri.path() == "/other")),
        ("headers", |layer| layer.headers(Headers::OnAllResponsesWithX)),
        ("named", |layer| layer.named("other").unwrap()),
        ("body", |layer| layer.body(|_, _| ("text/html", "<p>"))),
        ("problem_json", RateLimitLayer::problem_json),
        ("on_limited", |layer| layer.on_limited(|_, _| ())),
        ("on_error", |layer| layer.on_error(|_, _| ())),
        ("behind", |layer| layer.behind(TrustedProxies::new(["10.0.0.0/8"]).unwrap())),
        ("ipv6_prefix", |layer| layer.ipv6_prefix(48)),
        ("prefix", |layer| layer.prefix(48, QUOTA).prefix_v4(24, QUOTA)),
    ];
    for (name, set) in setters {
        let before = RateLimitLayer::per_client(QUOTA);
        let (text, service) = (format!("{before:?}"), before.layer(()));
        let after = set(before.clone());
        assert_eq!(format!("{before:?}"), text, "{name}");
        assert_eq!(format!("{service:?}"), format!("{:?}", before.layer(())), "{name}");
        respond_by(&before, from("192.0.2.7"));
        respond_by(&after, from("192.0.2.7"));
        let refused = respond_by(&before, from("192.0.2.7"));
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{name}");
        assert_eq!(refused.headers()["content-type"], "text/plain; charset=utf-8", "{name}");
        assert!(!refused.headers().contains_key("x-ratelimit-limit"), "{name}");
    }
}

/// A key in a log is not a secret that a client sent.
#[test]
fn sensitive_header_is_no_key_of_logs() {
    let layer = ByHeader::new(USER, Arc::new(KeyedLimiter::<[u8]>::builder(Quota::per_second(1)).build().unwrap()));
    let mut request = from("192.0.2.1");
    assert_eq!(layer.key(&Head::of(&request)).as_deref(), Some("alice"));
    request.headers_mut().get_mut(USER).unwrap().set_sensitive(true);
    assert_eq!(layer.key(&Head::of(&request)), None);
}
