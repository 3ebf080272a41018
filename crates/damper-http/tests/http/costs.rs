//! Costs of requests before and after their responses, on a manual clock.

use damper::decision_log::{DecisionLog, Logged};
use damper::gate::WaitsWith;
use damper::http::{ByHeader, ByKey, Head, Headers, Limit, PeerAddress, PerClient, RateLimitLayer, Refused, Settle};
use damper::{ClientAddress, FixedWindow, KeyedLimiter, ManualClock, Quota, RateLimiter, TokenBucket};
use http::header::RETRY_AFTER;
use http::{HeaderName, Request, Response, StatusCode, response};
use http_body_util::Empty;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::Service;
use tower::util::ServiceFn;

type OnClock = Arc<ManualClock>;
type EmptyResponse = Response<Empty<bytes::Bytes>>;

const USER: HeaderName = HeaderName::from_static("x-user");

/// A request of alice, which costs `cost` by its path and whose response costs `bill`.
fn request(cost: u32, bill: u32) -> Request<()> {
    let mut request = Request::get(format!("/{cost}")).header("x-user", "alice").header("bill", bill);
    let peer = (IpAddr::from([192, 0, 2, 7]), 5_000);
    request.extensions_mut().unwrap().insert(PeerAddress(peer.into()));
    request.body(()).unwrap()
}

fn cost_of(head: &Head<'_>) -> u32 {
    head.uri.path()[1..].parse().unwrap()
}

/// The bill that the service writes, which is the one that the request asks for.
fn bill_of(head: &Head<'_>, response: &response::Parts) -> u32 {
    assert_eq!(head.headers["bill"], response.headers["bill"]);
    response.headers["bill"].to_str().unwrap().parse().unwrap()
}

/// Answers at the second poll, or fails if the bill is 0.
fn serve<B>(request: Request<B>) -> impl Future<Output = Result<EmptyResponse, &'static str>> + use<B> {
    let bill = request.into_parts().0.headers["bill"].clone();
    async move {
        tokio::task::yield_now().await;
        if bill == "0" {
            Err("the service fails")
        } else {
            Ok(Response::builder().header("bill", bill).body(Empty::new()).unwrap())
        }
    }
}

type Serving = Pin<Box<dyn Future<Output = Result<EmptyResponse, &'static str>>>>;
/// The service behind the limits.
type Server = ServiceFn<fn(Request<()>) -> Serving>;

type Call = Pin<Box<dyn Future<Output = Result<Response<()>, &'static str>>>>;

fn call<L>(layer: &RateLimitLayer<L>, request: Request<()>) -> Call
where
    L: Limit<Future: WaitsWith<Server> + 'static> + Clone + 'static,
{
    let serve: fn(_) -> _ = |request| Box::pin(serve::<()>(request)) as Serving;
    let mut service = layer.layer(tower::service_fn(serve));
    let response = Service::call(&mut service, request);
    Box::pin(async { Ok(response.await?.map(drop)) })
}

fn poll(call: &mut Call) -> Poll<Result<Response<()>, &'static str>> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn respond<L>(layer: &RateLimitLayer<L>, request: Request<()>) -> StatusCode
where
    L: Limit<Future: WaitsWith<Server> + 'static> + Clone + 'static,
{
    let mut call = call(layer, request);
    let mut polls = 0;
    loop {
        if let Poll::Ready(response) = poll(&mut call) {
            return response.unwrap().status();
        }
        polls += 1;
        assert!(polls < 3);
    }
}

fn tokens(quota: Quota) -> (OnClock, Arc<RateLimiter<damper::TokenBucket, OnClock>>) {
    let clock = OnClock::default();
    (Arc::clone(&clock), Arc::new(RateLimiter::with_clock(quota, clock)))
}

#[test]
fn request_takes_its_cost() {
    let (clock, limiter) = tokens(Quota::per_second(10));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(cost_of);
    assert_eq!(respond(&layer, request(7, 1)), StatusCode::OK);
    assert_eq!(limiter.peek().used(), 7);
    let mut refused = call(&layer, request(4, 1));
    let Poll::Ready(Ok(refusal)) = poll(&mut refused) else { panic!("a refusal is ready at once") };
    assert_eq!(
        (refusal.status(), &refusal.headers()[RETRY_AFTER]),
        (StatusCode::TOO_MANY_REQUESTS, &"1".parse().unwrap())
    );
    assert_eq!(respond(&layer, request(0, 1)), StatusCode::OK, "costs nothing");
    assert_eq!(limiter.peek().used(), 7);
    clock.advance(Duration::from_secs(1));
    let Poll::Ready(Ok(refusal)) = poll(&mut call(&layer, request(11, 1))) else {
        panic!("a refusal is ready at once")
    };
    assert_eq!(refusal.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!refusal.headers().contains_key(RETRY_AFTER), "more than the burst is never there");
}

#[test]
fn response_corrects_the_cost() {
    let (_, limiter) = tokens(Quota::per_second(10).max_debt(20));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(cost_of).charge_by_response(bill_of);
    respond(&layer, request(5, 3));
    assert_eq!(limiter.peek().used(), 3, "2 are given back");
    respond(&layer, request(5, 9));
    assert_eq!((limiter.peek().remaining(), limiter.debt()), (0, 2), "2 more than there were");
    assert_eq!(respond(&layer, request(1, 1)), StatusCode::TOO_MANY_REQUESTS, "debt comes first");
    assert_eq!(respond(&layer, request(0, 1_000)), StatusCode::OK);
    assert_eq!(limiter.debt(), 20, "no deeper");
}

/// Without a cost before, a request takes one token.
#[test]
fn response_costs_beyond_the_first_token() {
    let (_, limiter) = tokens(Quota::per_second(10));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).charge_by_response(bill_of).headers(Headers::OnAllResponses);
    let mut call = call(&layer, request(9, 4));
    assert!(poll(&mut call).is_pending());
    assert_eq!(limiter.peek().used(), 1);
    let Poll::Ready(Ok(response)) = poll(&mut call) else { panic!("it is ready at the second poll") };
    assert_eq!(limiter.peek().used(), 4);
    assert_eq!(response.headers()["ratelimit"], r#""default";r=9;t=1"#, "as it was before the response");
}

#[test]
fn dropped_and_failed_requests_keep_their_cost() {
    let (_, limiter) = tokens(Quota::per_second(10));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(cost_of).charge_by_response(bill_of);
    let mut dropped = call(&layer, request(3, 1));
    assert!(poll(&mut dropped).is_pending());
    drop(dropped);
    assert_eq!(limiter.peek().used(), 3);
    let mut failed = call(&layer, request(2, 0));
    assert!(poll(&mut failed).is_pending());
    assert!(matches!(poll(&mut failed), Poll::Ready(Err("the service fails"))));
    assert_eq!(limiter.peek().used(), 5);
}

/// Neither takes a token, and neither's response is looked at.
#[test]
fn exempt_and_refused_requests_cost_nothing() {
    let (_, limiter) = tokens(Quota::per_second(2));
    let looked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&looked);
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).exempt(|head| head.uri.path() == "/0").cost(cost_of);
    let layer = layer.charge_by_response(move |head, response| {
        counter.fetch_add(1, Ordering::Relaxed);
        bill_of(head, response)
    });
    assert_eq!(respond(&layer, request(0, 9)), StatusCode::OK);
    assert_eq!(respond(&layer, request(3, 9)), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((limiter.peek().used(), looked.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(respond(&layer, request(2, 2)), StatusCode::OK);
    assert_eq!((limiter.peek().used(), looked.load(Ordering::Relaxed)), (2, 1));
}

/// A client sends costly requests at once: an estimate before keeps it within its envelope.
#[test]
fn estimate_holds_back_concurrent_requests() {
    let used = |estimate: u32| {
        let (_, limiter) = tokens(Quota::per_second(100));
        let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(move |_| estimate).charge_by_response(bill_of);
        let mut calls: Vec<_> = (0..1_000).map(|_| call(&layer, request(1, 50))).collect();
        let passed = calls.iter_mut().filter_map(|call| poll(call).is_pending().then_some(call));
        let mut bills = 0;
        for call in passed {
            let Poll::Ready(Ok(_)) = poll(call) else { panic!("it is ready at the second poll") };
            bills += 50;
        }
        bills
    };
    assert_eq!(used(1), 5_000, "a hundred requests pass before the first response is known");
    assert_eq!(used(50), 100, "the burst");
    assert_eq!(used(100), 50, "then the second request waits for the first response");
}

fn settles_by_key<L: Limit<Future: WaitsWith<Server> + 'static> + for<'a> Settle<Head<'a>> + Clone + 'static>(
    limit: L,
    used: impl Fn() -> u32,
) {
    let layer = RateLimitLayer::new(limit).cost(cost_of).charge_by_response(bill_of);
    assert_eq!(respond(&layer, request(6, 2)), StatusCode::OK);
    assert_eq!(used(), 2);
    assert_eq!(respond(&layer, request(1, 5)), StatusCode::OK);
    assert_eq!(used(), 7);
    assert_eq!(respond(&layer, request(4, 5)), StatusCode::TOO_MANY_REQUESTS);
}

#[test]
fn limits_per_key_are_settled_for_their_key() {
    let quota = Quota::per_hour(10);
    let clients = Arc::new(KeyedLimiter::<ClientAddress>::builder(quota).build().unwrap());
    let client = ClientAddress::from(IpAddr::from([192, 0, 2, 7]));
    settles_by_key(PerClient::new(Arc::clone(&clients)), || clients.peek(&client).used());

    let users = Arc::new(KeyedLimiter::<[u8]>::builder(quota).build().unwrap());
    settles_by_key(ByHeader::new(USER, Arc::clone(&users)), || users.peek(b"alice").used());

    let windows = Arc::new(KeyedLimiter::<String>::builder(quota).algorithm::<FixedWindow>().build().unwrap());
    let user_of = |head: &Head<'_>| head.headers[USER].to_str().unwrap().to_owned();
    settles_by_key(ByKey::new(user_of, Arc::clone(&windows)), || windows.peek(&"alice".to_owned()).used());
}

/// The log keeps the cost that was decided on, and the response corrects the limit behind it.
#[test]
fn limits_that_log_are_settled() {
    let quota = Quota::per_hour(10);
    let log = Arc::new(DecisionLog::with_clock(8, ManualClock::new()));
    let limiter = Arc::new(RateLimiter::new(quota));
    settles_by_key(Logged::new(Arc::clone(&limiter), Arc::clone(&log)), || limiter.peek().used());
    let costs: Vec<u32> = log.reader().map(|decision| decision.cost).collect();
    assert_eq!(costs, [6, 1, 4]);

    let users = Arc::new(KeyedLimiter::<[u8]>::builder(quota).build().unwrap());
    let logged = Logged::new(Arc::clone(&users), Arc::clone(&log));
    settles_by_key(ByHeader::new(USER, logged), || users.peek(b"alice").used());
    assert_eq!(log.written(), 6);
}

/// A layer for a connection knows its peer also when the response comes.
#[test]
fn peer_of_a_connection_is_kept_until_the_response() {
    let clients = Arc::new(KeyedLimiter::<ClientAddress>::builder(Quota::per_hour(10)).build().unwrap());
    let layer = RateLimitLayer::new(PerClient::new(Arc::clone(&clients))).charge_by_response(bill_of);
    let peer = IpAddr::from([198, 51, 100, 1]);
    respond(&layer.for_peer((peer, 443).into()), request(1, 4));
    assert_eq!(clients.peek(&peer.into()).used(), 4);
}

#[test]
fn limits_of_prefixes_take_and_settle_the_same_cost() {
    let limits = |quota| Arc::new(KeyedLimiter::<ClientAddress>::builder(quota).build().unwrap());
    let (each, networks) = (limits(Quota::per_hour(10)), limits(Quota::per_hour(100)));
    let clients = PerClient::new(Arc::clone(&each)).prefix_v4(24, Arc::clone(&networks));
    let layer = RateLimitLayer::new(clients).cost(cost_of).charge_by_response(bill_of);
    respond(&layer, request(6, 3));
    let used =
        |limits: &KeyedLimiter<ClientAddress>, address: [u8; 4]| limits.peek(&IpAddr::from(address).into()).used();
    assert_eq!((used(&each, [192, 0, 2, 7]), used(&networks, [192, 0, 2, 0])), (3, 3));
    assert_eq!(respond(&layer, request(8, 3)), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((used(&each, [192, 0, 2, 7]), used(&networks, [192, 0, 2, 0])), (3, 3));
}

/// Requests that wait do so for all their tokens, and their costs are corrected too.
#[tokio::test(start_paused = true)]
async fn waiting_requests_are_settled() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(10)));
    limiter.check_n(10).unwrap();
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(cost_of).charge_by_response(bill_of);
    let layer = layer.wait(Duration::from_hours(2)).headers(Headers::OnAllResponses);
    let mut waiting = pin!(call(&layer, request(8, 2)));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(limiter.debt(), 8);
    assert_eq!(limiter.refund(8), 8, "the tokens are there now");
    tokio::time::advance(Duration::from_secs(2)).await;
    let response = waiting.await.unwrap();
    assert!(response.headers().contains_key("ratelimit"));
    assert_eq!((limiter.debt(), limiter.peek().remaining()), (0, 6));
}

/// hyper's services do the same.
#[tokio::test]
async fn hyper_services_settle_costs() {
    let (_, limiter) = tokens(Quota::per_second(10));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(cost_of).charge_by_response(bill_of);
    let service = layer.layer(hyper::service::service_fn(serve::<Empty<bytes::Bytes>>));
    let response = hyper::service::Service::call(&service, request(7, 2).map(|()| Empty::new())).await.unwrap();
    assert_eq!((response.status(), limiter.peek().used()), (StatusCode::OK, 2));
}

/// A service that is overloaded, or a layer in front of it: it answers, and marks the answer.
fn refuse<B>(_: Request<B>) -> std::future::Ready<Result<EmptyResponse, &'static str>> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.extensions_mut().insert(Refused);
    std::future::ready(Ok(response))
}

/// Returns how many of these requests got past the limit, to a service that refuses them.
fn unserved(layer: &RateLimitLayer<Arc<RateLimiter<TokenBucket, OnClock>>>, requests: u32) -> u32 {
    let mut service = layer.layer(tower::service_fn(refuse::<()>));
    let mut call = || {
        let mut response = pin!(Service::call(&mut service, request(1, 1)));
        match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(response) => response.unwrap().status(),
            Poll::Pending => panic!("no request waits"),
        }
    };
    (0..requests).filter(|_| call() == StatusCode::SERVICE_UNAVAILABLE).count() as u32
}

/// A client that retries what the service refused sends twice its burst, and not more.
#[test]
fn every_second_request_that_was_not_served_is_refunded() {
    let (_, limiter) = tokens(Quota::per_hour(1).burst(1_000));
    let layer = RateLimitLayer::new(Arc::clone(&limiter));
    assert_eq!(unserved(&layer.clone(), 10), 10);
    assert_eq!(limiter.peek().used(), 10, "off by default");
    limiter.refund(10);
    let layer = layer.refund_unserved();
    let passed = unserved(&layer, 10_000);
    assert!((1_900..2_100).contains(&passed), "{passed} of a burst of 1000");
}

#[test]
fn refunds_and_costs_by_response_go_together() {
    for refunds_first in [true, false] {
        let (_, limiter) = tokens(Quota::per_hour(1).burst(1_000));
        let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(|_| 2);
        let layer = if refunds_first {
            layer.refund_unserved().charge_by_response(|_, _| 7)
        } else {
            layer.charge_by_response(|_, _| 7).refund_unserved()
        };
        unserved(&layer, 100);
        let charged = limiter.peek().used();
        assert!(charged.is_multiple_of(7) && (210..490).contains(&charged), "about 50 of 100 cost 7: {charged}");
    }
    let (_, limiter) = tokens(Quota::per_hour(1).burst(100));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).cost(cost_of).refund_unserved();
    assert_eq!(respond(&layer, request(3, 1)), StatusCode::OK);
    assert_eq!(limiter.peek().used(), 3, "a request that was served costs what it took");
}
