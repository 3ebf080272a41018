//! Limits before HTTP servers, over real sockets, on a manual clock.
//!
//! | what peers get wrong | test |
//! |---|---|
//! | permits taken in `poll_ready` starve others | `readiness_takes_no_token` |
//! | a limiter per connection lets 1,500 through a cap of 5 a second | `connections_share_the_limit` |
//! | the leftmost `X-Forwarded-For` is trusted | `forged_forwarded_header_keeps_the_clients_address` |
//! | addresses with ports are rejected | `forwarded_addresses_may_have_ports` |
//! | an IPv6 client gets a limit for each of its addresses | `ipv6_is_grouped_by_prefix` |
//! | `Retry-After: 0` | `two_a_second_refuses_three_of_five` |
//! | `per_second(n)` means one per n seconds | `two_a_second_refuses_three_of_five` |

use crate::support::{self, Client, LOCALHOST, NEIGHBOUR, hello, serve};
use axum::Router;
use axum::body::Body as AxumBody;
use axum::extract::Path;
use axum::routing::get;
use bytes::Bytes;
use damper::http::{
    Body, ByKey, Head, Headers, Limit, NoWait, PeerAddress, PerClient, RateLimitLayer, Refusal, Refused, Standing,
    refusal_response,
};
use damper::wire::TrustedProxies;
use damper::{
    Bulkhead, CallError, CircuitBreaker, ClientAddress, CoarseClock, FixedWindow, KeyedLimiter, LimitSet, Limiter,
    ManualClock, Quota, RateLimiter, RateLimiter32, Striped,
};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tower::{Layer, Service, ServiceExt};

type Clients = Arc<KeyedLimiter<ClientAddress, Arc<ManualClock>>>;

type Clocked<A = damper::TokenBucket> = Arc<RateLimiter<A, Arc<ManualClock>>>;

fn clocked(quota: Quota) -> (Arc<ManualClock>, Clocked) {
    let clock = Arc::new(ManualClock::new());
    (Arc::clone(&clock), Arc::new(RateLimiter::with_clock(quota, clock)))
}

fn per_client(quota: Quota) -> (Arc<ManualClock>, RateLimitLayer<PerClient<Clients>>) {
    let clock = Arc::new(ManualClock::new());
    let limits = KeyedLimiter::builder(quota).clock(Arc::clone(&clock)).build().unwrap();
    (clock, RateLimitLayer::new(PerClient::new(Arc::new(limits))))
}

fn is_healthz(head: &Head<'_>) -> bool {
    head.uri.path() == "/healthz"
}

/// The scenario of the specification, over HTTP/1.1 and HTTP/2.
///
/// A limit of two a second refuses three of five rapid requests.
#[tokio::test]
async fn two_a_second_refuses_three_of_five() {
    for is_http2 in [false, true] {
        let (clock, limiter) = clocked(Quota::per_second(2));
        let layer = RateLimitLayer::new(limiter).exempt(is_healthz);
        let server = serve(move |peer| layer.for_peer(peer).layer(service_fn(hello))).await;
        let mut client = if is_http2 { Client::http2(server).await } else { Client::of(server).await };
        for _ in 0..2 {
            let response = client.get("/").await;
            assert_eq!((response.status(), &**response.body()), (StatusCode::OK, &b"hello"[..]));
            assert!(!response.headers().contains_key("ratelimit"), "off by default");
        }
        for _ in 0..3 {
            let response = client.get("/").await;
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(response.headers()[RETRY_AFTER], "1", "500 ms, rounded up");
            assert_eq!(response.headers()["ratelimit-policy"], r#""default";q=2;w=1"#);
            assert_eq!(response.headers()["ratelimit"], r#""default";r=0;t=1"#);
            assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
            assert_eq!(&**response.body(), b"rate limit exceeded, retry in 500 ms\n");
        }
        for _ in 0..5 {
            assert_eq!(client.get("/healthz").await.status(), StatusCode::OK);
        }
        clock.advance(Duration::from_millis(500));
        assert_eq!(client.passes(2).await, 1);
        clock.advance(Duration::from_secs(100));
        assert_eq!(client.passes(5).await, 2);
    }
}

#[tokio::test]
async fn addresses_have_separate_limits() {
    let (_, layer) = per_client(Quota::per_minute(1).burst(3));
    let server = serve(move |peer| layer.for_peer(peer).layer(service_fn(hello))).await;
    let mut clients = [Client::from(LOCALHOST, server).await, Client::from(NEIGHBOUR, server).await];
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.get("/").await.status(), StatusCode::OK);
        }
    }
    for client in &mut clients {
        let response = client.get("/").await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "60");
    }
}

/// All connections share a global limit, and all connections of a client share its own.
#[tokio::test]
async fn connections_share_the_limit() {
    let (_, limiter) = clocked(Quota::per_second(5));
    let (_, limits) = per_client(Quota::per_second(5));
    let layer = RateLimitLayer::new(limiter);
    let global = serve(move |peer| layer.for_peer(peer).layer(service_fn(hello))).await;
    let each = serve(move |peer| limits.for_peer(peer).layer(service_fn(hello))).await;
    for server in [global, each] {
        let mut passed = 0;
        for _ in 0..30 {
            passed += Client::of(server).await.passes(2).await;
        }
        assert_eq!(passed, 5);
    }
}

/// A caller that polls for readiness and goes away takes no token.
#[tokio::test]
async fn readiness_takes_no_token() {
    let (_, limiter) = clocked(Quota::per_second(1));
    let layer = RateLimitLayer::new(Arc::clone(&limiter));
    for _ in 0..10 {
        let mut service = layer.layer(tower::service_fn(hello::<()>));
        service.ready().await.unwrap();
    }
    assert_eq!(limiter.peek().used(), 0);
    let service = layer.layer(tower::service_fn(hello::<()>));
    assert_eq!(service.oneshot(Request::new(())).await.unwrap().status(), StatusCode::OK);
}

/// The first poll returns the refusal.
///
/// The service is not called, and the body of the request is not read.
#[test]
fn refusal_is_ready_at_first_poll() {
    struct Untouchable;
    impl http_body::Body for Untouchable {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
            panic!("the body was read")
        }
    }
    let called = Arc::new(AtomicUsize::new(0));
    let hits = Arc::clone(&called);
    let inner = tower::service_fn(move |_: Request<Untouchable>| {
        hits.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let mut service = RateLimitLayer::global(Quota::per_second(1).burst(0)).layer(inner);
    let future = std::pin::pin!(service.call(Request::new(Untouchable)));
    let polled = future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(polled, std::task::Poll::Ready(Ok(response)) if response.status() == 429));
    assert_eq!(called.load(Ordering::Relaxed), 0);
}

/// A quota of zero never refills, so the headers name no wait.
#[tokio::test]
async fn retry_after_is_absent_if_no_wait_helps() {
    let layer = RateLimitLayer::global(Quota::per_second(0).burst(1));
    let server = serve(move |_| layer.layer(service_fn(hello))).await;
    let mut client = Client::of(server).await;
    assert_eq!(client.passes(1).await, 1);
    let response = client.get("/").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!response.headers().contains_key(RETRY_AFTER));
    assert_eq!(response.headers()["ratelimit-policy"], r#""default";q=1"#);
}

/// A request without a peer address neither passes nor shares a bucket.
///
/// The callback explains to the operator what to add. The client does not see it.
#[tokio::test]
async fn missing_peer_address_is_explained_to_the_operator_only() {
    let errors = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&errors);
    let layer = RateLimitLayer::per_client(Quota::per_second(1))
        .on_error(move |_, error| {
            let source = std::error::Error::source(error).unwrap();
            assert!(matches!(error, Refusal::MissingPeer));
            for what in ["into_make_service_with_connect_info", "for_peer", "PeerAddress"] {
                assert!(source.to_string().contains(what), "{source}");
            }
            counted.fetch_add(1, Ordering::Relaxed);
        })
        .on_limited(|_, _| panic!("not over any limit"));
    let server = serve(move |_| layer.layer(service_fn(hello))).await;
    let mut client = Client::of(server).await;
    for _ in 0..3 {
        let response = client.get("/").await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(&**response.body(), b"the rate limit could not decide\n");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    }
    assert_eq!(errors.load(Ordering::Relaxed), 3);
}

/// Any service can add the address to the extensions.
#[tokio::test]
async fn peer_is_read_from_extensions() {
    let (_, layer) = per_client(Quota::per_minute(1).burst(1));
    let server = serve(move |peer| {
        let limited = layer.layer(tower::service_fn(hello::<Incoming>));
        let with_peer = tower::util::MapRequest::new(limited, move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddress(peer));
            request
        });
        TowerToHyperService::new(with_peer)
    })
    .await;
    assert_eq!(Client::from(LOCALHOST, server).await.passes(2).await, 1);
    assert_eq!(Client::from(NEIGHBOUR, server).await.passes(2).await, 1);
}

fn behind(networks: &[&str]) -> RateLimitLayer<PerClient<Clients>> {
    per_client(Quota::per_minute(1).burst(2)).1.behind(TrustedProxies::new(networks).unwrap())
}

async fn statuses(layer: RateLimitLayer<PerClient<Clients>>, forwarded: &[&str]) -> Vec<u16> {
    let server = serve(move |peer| layer.for_peer(peer).layer(service_fn(hello))).await;
    let mut client = Client::of(server).await;
    let mut statuses = Vec::new();
    for value in forwarded {
        statuses.push(client.get_with("/", &[("x-forwarded-for", value)]).await.status().as_u16());
    }
    statuses
}

/// The client's own entries are to the left of the proxy's.
///
/// Without trusted proxies the header is ignored.
#[tokio::test]
async fn forged_forwarded_header_keeps_the_clients_address() {
    let forged = ["1.1.1.1, 192.0.2.7", "2.2.2.2, 192.0.2.7", "3.3.3.3, 192.0.2.7"];
    assert_eq!(statuses(behind(&["127.0.0.0/8"]), &forged).await, [200, 200, 429]);
    let direct = ["1.1.1.1", "2.2.2.2", "3.3.3.3"];
    assert_eq!(statuses(behind(&["10.0.0.0/8"]), &direct).await, [200, 200, 429]);
    assert_eq!(statuses(per_client(Quota::per_minute(1).burst(2)).1, &direct).await, [200, 200, 429]);
    // Clients that the proxy distinguishes have separate limits.
    assert_eq!(statuses(behind(&["127.0.0.0/8"]), &direct).await, [200; 3]);
}

#[tokio::test]
async fn forwarded_addresses_may_have_ports() {
    let ported = ["192.0.2.7:1234", "192.0.2.7:5678", "192.0.2.7", "[2001:db8::1]:443"];
    assert_eq!(statuses(behind(&["127.0.0.0/8"]), &ported).await, [200, 200, 429, 200]);
}

#[tokio::test]
async fn ipv6_is_grouped_by_prefix() {
    let neighbours = ["2001:db8::1", "2001:db8::2", "2001:db8::3:0:0:4", "2001:db8:0:1::1"];
    assert_eq!(statuses(behind(&["127.0.0.0/8"]), &neighbours).await, [200, 200, 429, 200]);
    let by_32 = behind(&["127.0.0.0/8"]).ipv6_prefix(32);
    assert_eq!(statuses(by_32, &neighbours).await, [200, 200, 429, 429]);
}

/// 10,000 keys occupy no more slots than the table has.
#[tokio::test]
async fn key_churn_stays_within_capacity() {
    let limits = KeyedLimiter::<u64>::builder(Quota::per_hour(1)).capacity(100).clock(ManualClock::new());
    let limits = Arc::new(limits.build().unwrap());
    let by_id = |head: &Head<'_>| head.headers["x-id"].to_str().unwrap().parse::<u64>().unwrap();
    let layer = RateLimitLayer::new(ByKey::new(by_id, Arc::clone(&limits)));
    let mut service = layer.layer(tower::service_fn(hello::<()>));
    for id in 0..10_000 {
        let request = Request::get("/").header("x-id", id).body(()).unwrap();
        service.call(request).await.unwrap();
    }
    assert!(limits.len() <= 200, "{} keys", limits.len());
}

/// Requests without a key share a bucket that requests with a key do not use.
#[tokio::test]
async fn requests_without_a_key_share_a_bucket() {
    let by_user = RateLimitLayer::by(|head| head.headers.get("x-user").cloned(), Quota::per_hour(1).burst(2));
    let by_header = RateLimitLayer::by_header(http::HeaderName::from_static("x-user"), Quota::per_hour(1).burst(2));
    let servers = [
        serve(move |_| by_user.layer(service_fn(hello))).await,
        serve(move |_| by_header.layer(service_fn(hello))).await,
    ];
    for server in servers {
        assert_eq!(Client::of(server).await.passes(1).await, 1);
        let mut client = Client::from(NEIGHBOUR, server).await;
        assert_eq!(client.passes(3).await, 1);
        for user in ["alice", "bob"] {
            let mut status = async || client.get_with("/", &[("x-user", user)]).await.status().as_u16();
            assert_eq!([status().await, status().await, status().await], [200, 200, 429]);
        }
    }
}

#[tokio::test]
async fn headers_report_the_standing_of_each_limit() {
    let (clock, limiter) = clocked(Quota::per_second(50).burst(100));
    let outer = RateLimitLayer::new(limiter).headers(Headers::OnAllResponsesWithX);
    let inner = RateLimitLayer::new(Arc::new(RateLimiter::with_clock(Quota::per_minute(10), Arc::clone(&clock))));
    let inner = inner.headers(Headers::OnAllResponses).named("search").unwrap();
    let server = serve(move |_| outer.layer(inner.layer(service_fn(hello)))).await;
    let mut client = Client::of(server).await;
    let all = |headers: &HeaderMap, name: &str| {
        headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let response = client.get("/").await;
    let headers = response.headers();
    assert_eq!(all(headers, "ratelimit-policy"), [r#""search";q=10;w=60"#, r#""default";q=100;w=2"#]);
    assert_eq!(all(headers, "ratelimit"), [r#""search";r=9;t=6"#, r#""default";r=99;t=1"#]);
    assert_eq!(headers["x-ratelimit-limit"], "100");
    assert_eq!(headers["x-ratelimit-remaining"], "99");
    assert_eq!(headers["x-ratelimit-reset"], "1");
    assert_eq!(client.passes(9).await, 9);
    let response = client.get("/").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(all(response.headers(), "ratelimit")[0], r#""search";r=0;t=6"#);
    assert_eq!(response.headers()[RETRY_AFTER], "6");
    assert!(RateLimitLayer::global(Quota::per_second(1)).named("ümlaut").is_err());
}

/// The wait for one token is in `RateLimit` and `Retry-After`, and the wait for all in `X-RateLimit-Reset`.
#[tokio::test]
async fn reset_of_a_refusal_is_the_time_until_all_tokens_are_there() {
    let (_, limiter) = clocked(Quota::per_minute(10));
    let layer = RateLimitLayer::new(limiter).headers(Headers::OnRefusalsWithX);
    let mut client = Client::of(serve(move |_| layer.layer(service_fn(hello))).await).await;
    assert_eq!(client.passes(10).await, 10);
    let response = client.get("/").await;
    assert_eq!(response.headers()["ratelimit"], r#""default";r=0;t=6"#);
    assert_eq!(response.headers()[RETRY_AFTER], "6");
    assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
    assert_eq!(response.headers()["x-ratelimit-reset"], "60");
}

/// A set of windows reports each of them as the window does alone.
#[tokio::test]
async fn policy_of_a_set_of_windows_is_the_same_on_refusals() {
    let quotas = [Quota::per_second(100), Quota::per_minute(2).burst(9)];
    let windows = LimitSet::with_algorithms(quotas.map(FixedWindow::new), Arc::new(ManualClock::new()));
    let layer = RateLimitLayer::new(Arc::new(windows)).headers(Headers::OnAllResponses);
    let mut client = Client::of(serve(move |_| layer.layer(service_fn(hello))).await).await;
    for status in [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        let response = client.get("/").await;
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["ratelimit-policy"], r#""default";q=2;w=60"#, "{status}");
    }
}

/// Headers report windows and sets of limits in the same form.
#[tokio::test]
async fn windows_and_limit_sets_report_headers() {
    let clock = Arc::new(ManualClock::new());
    let window = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_minute(2)), Arc::clone(&clock));
    let window = RateLimitLayer::new(Arc::new(window)).headers(Headers::OnAllResponses);
    let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_hour(2)], Arc::clone(&clock));
    let both = RateLimitLayer::new(Arc::new(both)).headers(Headers::OnAllResponses);
    let each = KeyedLimiter::builder(Quota::per_minute(2).burst(9)).clock(clock).algorithm::<FixedWindow>();
    let each = RateLimitLayer::new(PerClient::new(Arc::new(each.build().unwrap()))).headers(Headers::OnAllResponses);
    let each = serve(move |peer| each.for_peer(peer).layer(service_fn(hello))).await;
    let window = serve(move |_| window.layer(service_fn(hello))).await;
    let both = serve(move |_| both.layer(service_fn(hello))).await;
    for (server, policy, left) in [
        (window, r#""default";q=2;w=60"#, r#""default";r=1;t=60"#),
        (each, r#""default";q=2;w=60"#, r#""default";r=1;t=60"#),
        (both, r#""default";q=2;w=3600"#, r#""default";r=1;t=1800"#),
    ] {
        let mut client = Client::of(server).await;
        let response = client.get("/").await;
        assert_eq!(response.headers()["ratelimit-policy"], policy);
        assert_eq!(response.headers()["ratelimit"], left);
        assert_eq!(client.passes(2).await, 1);
    }
}

#[tokio::test]
async fn refusal_body_is_text_problem_json_or_custom() {
    let nothing = Quota::per_second(1).burst(0);
    let problem = RateLimitLayer::global(nothing).problem_json();
    let problem = serve(move |_| problem.layer(service_fn(hello))).await;
    let response = Client::of(problem).await.get("/").await;
    assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(document["status"], 429);
    assert_eq!(document["title"], "Too Many Requests");

    let own = RateLimitLayer::global(nothing).body(|head, _| ("text/html", format!("<h1>{}</h1>", head.uri.path())));
    let own = serve(move |_| own.layer(service_fn(hello))).await;
    let response = Client::of(own).await.get("/a").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[CONTENT_TYPE], "text/html");
    assert_eq!(&**response.body(), b"<h1>/a</h1>");
}

/// A cache must not answer another client with a refusal, whatever its body is.
#[tokio::test]
async fn refusals_forbid_caching() {
    let nothing = || RateLimitLayer::global(Quota::per_second(1).burst(0));
    let own = nothing().body(|_, _| ("text/html", "slow down"));
    for layer in [nothing(), nothing().problem_json(), own] {
        let response = layer.layer(tower::service_fn(hello::<()>)).oneshot(Request::new(())).await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    }
    let allowing = RateLimitLayer::global(Quota::per_second(1)).layer(tower::service_fn(hello::<()>));
    let response = allowing.oneshot(Request::new(())).await.unwrap();
    assert!(!response.headers().contains_key(CACHE_CONTROL), "the service's response is unchanged");
}

/// Refusals of all kinds, in a handler that asks a gate itself.
#[tokio::test]
async fn refusals_make_their_own_responses() {
    async fn refused(Path(by): Path<String>) -> Result<(), Response<String>> {
        let limiter = RateLimiter::with_clock(Quota::per_minute(2), ManualClock::new());
        match &*by {
            "limit" => limiter.check_n(2).and_then(|_| limiter.check()).map(drop).map_err(refusal_response),
            "never" => limiter.check_n(3).map(drop).map_err(refusal_response),
            "breaker" => {
                let breaker = CircuitBreaker::default();
                breaker.force_open();
                breaker.call(|| Ok::<_, Infallible>(())).map_err(|error| match error {
                    CallError::Refused(open) => refusal_response(open),
                    CallError::Failed(never) => match never {},
                })
            }
            _ => Bulkhead::new(0).try_acquire().map(drop).map_err(refusal_response),
        }
    }
    let app = Router::new().route("/{by}", get(refused));
    for (by, status, retry_after, text) in [
        ("limit", 429, Some("30"), "rate limit exceeded, retry in 30 s\n"),
        ("never", 429, None, "rate limit exceeded: more tokens asked for than the burst\n"),
        ("breaker", 503, None, "circuit forced open\n"),
        ("bulkhead", 503, None, "too many calls in flight, limit 0\n"),
    ] {
        let response =
            app.clone().oneshot(Request::get(format!("/{by}")).body(AxumBody::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{by}");
        let headers = response.headers();
        assert_eq!(headers.get(RETRY_AFTER).map(|wait| wait.to_str().unwrap()), retry_after, "{by}");
        assert_eq!(
            (&headers[CACHE_CONTROL], &headers[CONTENT_TYPE]),
            (&"no-store".parse().unwrap(), &"text/plain; charset=utf-8".parse().unwrap())
        );
        assert!(Refused::is_in(response.extensions()));
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), text, "{by}");
    }
}

/// Where no request waits, none keeps the service.
#[tokio::test]
async fn service_that_is_not_clone_stands_behind_a_limit() {
    let calls = std::sync::atomic::AtomicU32::new(0);
    let service = tower::service_fn(move |request: Request<()>| {
        calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        hello(request)
    });
    let mut service = RateLimitLayer::global(Quota::per_hour(1)).layer(service);
    let mut statuses = Vec::new();
    for _ in 0..2 {
        let response = service.ready().await.unwrap().call(Request::new(())).await.unwrap();
        statuses.push(response.status());
    }
    assert_eq!(statuses, [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]);
}

/// Limiters without keys: striped, with a 32-bit word, or chosen at run time.
#[tokio::test]
async fn every_limiter_stands_behind_a_layer() {
    async fn check(limit: impl Limit<Future = NoWait> + 'static) {
        let limit = RateLimitLayer::new(Arc::new(limit)).headers(Headers::OnAllResponses);
        let mut answers = Vec::new();
        for _ in 0..3 {
            let service = limit.layer(tower::service_fn(hello::<()>));
            let answer = service.oneshot(Request::new(())).await.unwrap();
            let headers = answer.headers();
            let text = |name: &str| headers[name].to_str().unwrap().to_owned();
            assert_eq!(text("ratelimit-policy"), r#""default";q=2;w=3600"#);
            answers.push((answer.status().as_u16(), text("ratelimit")));
        }
        assert_eq!(answers.remove(0), (200, r#""default";r=1;t=1800"#.to_owned()));
        assert_eq!(answers.remove(0), (200, r#""default";r=0;t=3600"#.to_owned()));
        assert_eq!(answers.remove(0), (429, r#""default";r=0;t=1800"#.to_owned()));
    }
    static TIME: CoarseClock = CoarseClock::new();
    let (clock, quota) = (Arc::new(ManualClock::new()), Quota::per_hour(2));
    let log = || RateLimiter::with_clock(quota, Arc::clone(&clock));
    let chosen: Arc<dyn Limiter + Send + Sync> = Arc::new(log());
    check(chosen).await;
    let chosen: Box<dyn Limiter + Send + Sync> = Box::new(log());
    check(chosen).await;
    check(RateLimiter32::new(quota, &TIME).unwrap()).await;

    // Headers show the bucket without the tokens reserved for stripes.
    let striped = Striped::with_stripes(Quota::per_hour(3), 1, 1, Arc::clone(&clock)).unwrap();
    let striped = RateLimitLayer::new(Arc::new(striped));
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let answer = striped.layer(tower::service_fn(hello::<()>)).oneshot(Request::new(())).await.unwrap();
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 429], "the bucket has two tokens, and time brings the third");
}

/// Headers state the quota itself where the burst does not show the rate, for every kind of limit.
///
/// A burst that refills within a second does not show it.
#[tokio::test]
async fn policy_reports_the_rate_of_a_small_burst() {
    let clock = Arc::new(ManualClock::new());
    let quota = Quota::per_second(1_000).burst(50);
    let global = RateLimitLayer::new(Arc::new(RateLimiter::with_clock(quota, Arc::clone(&clock))))
        .headers(Headers::OnAllResponses);
    let both = LimitSet::with_clock([quota, Quota::per_hour(1_000_000)], Arc::clone(&clock));
    let both = RateLimitLayer::new(Arc::new(both)).headers(Headers::OnAllResponses);
    let each = per_client(quota).1.headers(Headers::OnAllResponses).for_peer(SocketAddr::from((LOCALHOST, 1)));
    let mut answers = Vec::new();
    answers.push(global.layer(tower::service_fn(hello::<()>)).oneshot(Request::new(())).await.unwrap());
    answers.push(both.layer(tower::service_fn(hello::<()>)).oneshot(Request::new(())).await.unwrap());
    answers.push(each.layer(tower::service_fn(hello::<()>)).oneshot(Request::new(())).await.unwrap());
    for answer in answers {
        assert_eq!(answer.headers()["ratelimit-policy"], r#""default";q=1000;w=1"#);
        assert_eq!(answer.headers()["ratelimit"], r#""default";r=49;t=1"#);
    }
    // A quota per minute keeps its window of a minute.
    let (_, limiter) = clocked(Quota::per_minute(100).burst(1));
    let service = RateLimitLayer::new(limiter).headers(Headers::OnAllResponses).layer(tower::service_fn(hello::<()>));
    let answer = service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(answer.headers()["ratelimit-policy"], r#""default";q=100;w=60"#);
}

#[tokio::test]
async fn on_limited_is_called_before_the_refusal_is_sent() {
    let (_, limiter) = clocked(Quota::per_second(1));
    let (sender, seen) = std::sync::mpsc::channel();
    let layer = RateLimitLayer::new(limiter)
        .on_limited(move |head, limited| sender.send((head.uri.path().to_owned(), *limited)).unwrap());
    let server = serve(move |peer| layer.for_peer(peer).layer(service_fn(hello))).await;
    let mut client = Client::of(server).await;
    client.get("/first").await;
    assert!(seen.try_recv().is_err());
    client.get("/second").await;
    let (path, refusal) = seen.try_recv().unwrap();
    assert_eq!((path.as_str(), refusal.retry_after()), ("/second", Some(Duration::from_secs(1))));
    assert_eq!(refusal.standing(), Standing::new(Quota::per_second(1), 0, Some(Duration::from_secs(1))));
}

/// The caller keeps the limiter and changes its quota.
#[tokio::test]
async fn quota_changes_while_serving() {
    let (_, limiter) = clocked(Quota::per_second(1));
    let layer = RateLimitLayer::new(Arc::clone(&limiter));
    let server = serve(move |_| layer.layer(service_fn(hello))).await;
    let mut client = Client::of(server).await;
    assert_eq!(client.passes(3).await, 1);
    limiter.set_quota(Quota::per_second(4)).unwrap();
    assert_eq!(client.passes(5).await, 3, "tokens already taken stay taken");
}

/// hyper-util's server takes a tower service, and so does axum.
#[tokio::test]
async fn tower_services_serve_through_hyper_util() {
    let (_, layer) = per_client(Quota::per_hour(1).burst(2));
    let server = serve(move |peer| {
        TowerToHyperService::new(Layer::layer(&layer.for_peer(peer), tower::service_fn(hello::<Incoming>)))
    })
    .await;
    assert_eq!(Client::of(server).await.passes(3).await, 2);
}

#[tokio::test]
async fn axum_routes_and_clients_have_separate_limits() {
    use axum::{Router, routing::get};
    let clock = Arc::new(ManualClock::new());
    let (_, clients) = per_client(Quota::per_hour(1).burst(4));
    let search = RateLimitLayer::new(Arc::new(RateLimiter::with_clock(Quota::per_hour(1).burst(1), clock)));
    let app = Router::new()
        .route("/", get(|| async { "home" }))
        .route("/search", get(|| async { "found" }).layer(search))
        .route("/healthz", get(|| async { "healthy" }))
        .layer(clients.exempt(is_healthz));
    let server = support::serve_axum(app).await;
    let mut client = Client::of(server).await;
    assert_eq!(client.get("/search").await.status(), StatusCode::OK);
    assert_eq!(client.get("/search").await.status(), StatusCode::TOO_MANY_REQUESTS, "the route's limit refuses");
    assert_eq!(client.passes(3).await, 2, "the client's limit counts both routes");
    assert_eq!(client.get("/healthz").await.status(), StatusCode::OK);
    let mut other = Client::from(NEIGHBOUR, server).await;
    assert_eq!(other.get("/search").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(other.passes(4).await, 3);
}

/// Many connections on several threads share one bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_connections_stay_within_the_burst() {
    let (_, layer) = per_client(Quota::per_hour(1).burst(100));
    let server = serve(move |peer| layer.for_peer(peer).layer(service_fn(hello))).await;
    let clients = (0..16).map(|_| {
        tokio::spawn(async move {
            let mut client = Client::of(server).await;
            let mut passed = 0;
            for _ in 0..20 {
                passed += usize::from(client.get("/").await.status() == StatusCode::OK);
            }
            passed
        })
    });
    let mut passed = 0;
    for client in clients.collect::<Vec<_>>() {
        passed += client.await.unwrap();
    }
    assert_eq!(passed, 100);
}

/// The body of a refusal knows its length.
#[tokio::test]
async fn refusal_body_has_an_exact_size_hint() {
    let service = RateLimitLayer::global(Quota::per_second(1).burst(0)).layer(tower::service_fn(hello::<()>));
    let body: Body<Full<Bytes>> = service.oneshot(Request::new(())).await.unwrap().into_body();
    let exact = http_body::Body::size_hint(&body).exact();
    let bytes = body.collect().await.unwrap().to_bytes();
    assert_eq!(exact, Some(bytes.len() as u64));
}

/// Responses are moved on their way, so refusals and counted bodies must not make the others larger.
#[test]
fn limited_body_is_as_large_as_the_body_of_the_service() {
    // A body with trailers. Its unused values tell the variants apart.
    assert_eq!(size_of::<Body<HeaderMap>>(), size_of::<HeaderMap>());
}

#[test]
fn peer_address_extension_precedes_connect_info() {
    let address = |last| SocketAddr::from((IpAddr::from([192, 0, 2, last]), 1));
    let mut request = Request::new(());
    assert_eq!(Head::of(&request).peer(), None);
    {
        request.extensions_mut().insert(axum::extract::ConnectInfo(address(1)));
        assert_eq!(Head::of(&request).peer(), Some(address(1)));
    }
    request.extensions_mut().insert(PeerAddress(address(2)));
    assert_eq!(Head::of(&request).peer(), Some(address(2)));
    assert_eq!(Head::from(&request.into_parts().0).peer(), Some(address(2)));
}
