//! Limits before servers, breakers before clients: where to put them, and whom they count.
//!
//! # Global, per route, per client
//!
//! A limit is a layer, and what it counts is what it is put around: around a router all requests, around a handler
//! those of one route. Whom it counts is the layer's own matter:
//!
//! | limit | counts | for |
//! |---|---|---|
//! | [`RateLimitLayer::global`](crate::http::RateLimitLayer::global) | all requests together | what the server can bear |
//! | [`per_client`](crate::http::RateLimitLayer::per_client) | those of each address | fairness between strangers |
//! | [`by_header`](crate::http::RateLimitLayer::by_header), [`by`](crate::http::RateLimitLayer::by) | those of each API key, user, tenant, path | fairness between those you know |
//!
//! They go together, one around the other, and a request passes if all let it pass. The cheapest and the widest belong
//! outside: a client who floods is stopped before anybody asks who he is. What a request took of an outer limit stays
//! taken if an inner one refuses it. Where that must not be, ask several limits in one decision: a
//! [`LimitSet`](crate::LimitSet) in [`RateLimitLayer::new`](crate::http::RateLimitLayer::new), or
//! [`check_n_with`](crate::KeyedLimiter::check_n_with) in a [`Limit`](crate::http::Limit) of your own.
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```text")]
//! use axum::{Router, routing::get};
//! use damper::Quota;
//! use damper::http::RateLimitLayer;
//!
//! # async fn home() {}
//! # async fn report() {}
//! # async fn healthz() {}
//! # #[derive(Clone, Hash)]
//! # struct User(u64);
//! let app: Router = Router::new()
//!     .route("/", get(home))
//!     .route("/report", get(report).layer(RateLimitLayer::global(Quota::per_minute(10)))) // expensive, whoever asks
//!     .layer(RateLimitLayer::by(|head| head.extensions.get::<User>().cloned(), Quota::per_second(20)))
//!     .route("/healthz", get(healthz)) // added after: only what follows is around it
//!     .layer(RateLimitLayer::per_client(Quota::per_second(50).burst(100)).exempt(|head| head.uri.path() == "/healthz"))
//!     .layer(RateLimitLayer::global(Quota::per_second(5_000)));
//! ```
//!
//! Limits are asked when a service is called, and never when it is polled for readiness: who polls may go away. All
//! clones of a layer, and all services that it made, share its limit, so it does not matter that servers make a service
//! for each connection.
//!
//! # Behind proxies
//!
//! The address of a client is that of the other end of the connection, and behind a proxy that is the proxy. What the
//! proxy writes into `X-Forwarded-For` (or `Forwarded`) tells the client's, but the client can write there too, before
//! the proxy does. So name the proxies that you trust:
//!
//! ```
//! use damper::Quota;
//! use damper::http::RateLimitLayer;
//! use damper::wire::TrustedProxies;
//!
//! let limits = RateLimitLayer::per_client(Quota::per_second(50))
//!     .behind(TrustedProxies::new(["10.0.0.0/8", "fd00::/8"])?);
//! # let _ = limits;
//! # Ok::<(), damper::wire::TrustedProxiesError>(())
//! ```
//!
//! The list is read from the right, where the nearest proxy wrote, and the first address that is none of the proxies'
//! is the client's. What stands further left was written by nobody you trust, and is not looked at; so no client
//! chooses its own key. Name every proxy on the way: one that is missing is taken for the client, and all behind it
//! share its limit. Only the one header is read that your proxy writes
//! ([`forwarded`](crate::wire::TrustedProxies::forwarded) selects the other), because the one it does not write comes
//! from the client.
//!
//! A request whose server does not tell the peer's address is answered `500 Internal Server Error`; it shares no bucket
//! with others. What the server has to add is for you and not for the client: it is in the log (feature `tracing`), and
//! [`on_error`](crate::http::RateLimitLayer::on_error) is called with it.
//!
//! # Networks with many addresses
//!
//! IPv6 clients are told apart by their first 64 bits. One network may own many such prefixes: 65,536 of them in a /48,
//! and each has a limit of its own. So limit the network too:
//!
//! ```
//! use damper::Quota;
//! use damper::http::RateLimitLayer;
//!
//! let limits = RateLimitLayer::per_client(Quota::per_second(50).burst(100))
//!     .prefix(48, Quota::per_second(500))
//!     .prefix_v4(24, Quota::per_second(500));
//! # let _ = limits;
//! ```
//!
//! All limits that a request falls under are one decision: it takes a token of each, or of none. Choose the wider quota
//! for the busiest honest network, such as an office, a campus or the gateway of a mobile carrier: its clients share it.
//!
//! # Limits that take their time
//!
//! Client addresses, header values and the keys of a closure stand before any [`KeyedLimit`](crate::http::KeyedLimit):
//! a [`KeyedLimiter`](crate::KeyedLimiter) of this process, or what you write for a store that several servers share.
//! Such a limit answers by a future, and decides itself what happens while the store cannot be reached: an error, or
//! `Ok(None)`, which lets the request pass. The example `limit_elsewhere` asks a task over a channel, in 30 lines.
//!
//! # What a refused client is told
//!
//! `429 Too Many Requests`, when it may come back (`Retry-After`), and how much it has (`RateLimit`,
//! `RateLimit-Policy`), at once: a request over the limit is never queued, and its body is not read. A gRPC call, which
//! is a POST with gRPC's content type, is refused with `RESOURCE_EXHAUSTED` and a `RetryInfo`, by the same layer. Every
//! refusal carries `Cache-Control: no-store`.
//!
//! # Calls in flight
//!
//! A rate limit is a guess of what a server can do in a second, and wrong as soon as the work changes. A limit on the calls in
//! flight holds whatever each of them takes: when the server slows down, requests are refused, or wait in a short queue, and do
//! not pile up.
//!
#![cfg_attr(all(feature = "tower", feature = "tokio"), doc = "```")]
#![cfg_attr(not(all(feature = "tower", feature = "tokio")), doc = "```text")]
//! use damper::concurrency::LimitBounds;
//! use damper::http::{ClientConcurrencyLayer, ConcurrencyLayer};
//! use std::time::Duration;
//!
//! let reports = ConcurrencyLayer::bulkhead(8).waiting(Duration::from_millis(200)); // the pool has 8 connections
//! let all = ConcurrencyLayer::adaptive(LimitBounds::DEFAULT); // follows the latency of the responses
//! let upstreams = ClientConcurrencyLayer::bulkhead_per_host(64); // a host that hangs takes no slots from the others
//! # let _ = (reports, all, upstreams);
//! ```
//!
//! The server answers `503 Service Unavailable` with `Retry-After`, or `UNAVAILABLE` in gRPC; the client gets a
//! [`CallError`](crate::CallError) and makes no call. A slot is held until the response has *ended*, with its
//! body and its trailers. A client that goes away, a deadline that passes and a handler that panics free it at once.
//!
//! An adaptive limit measures the time until a response begins, so a client that is slow to read does not count as a slow
//! server. It takes 429, 503, 504 and calls that their deadlines ended for signs of overload
//! ([`LoadSigns`](crate::http::LoadSigns)), or what your [`classify`](crate::http::ConcurrencyLayer::classify) says. At a server
//! the order is: deadline outside, then rate limits, then this, then the handler. At a client it belongs inside of the retries,
//! so that a call that waits for its next attempt holds no slot.
//!
//! Where some requests count more than others, an [`AdmissionLayer`](crate::http::AdmissionLayer) takes this layer's place at the server: under
//! overload it serves the highest class first, gives the tenants of a class equal shares, and refuses at once what cannot be
//! answered within its deadline.
//!
//! # A client's limit waits
//!
//! Who calls a service with a limit rather waits for its turn than be refused:
//! `RateLimitLayer::global(quota).wait(longest)`, feature `tokio`. Requests go first come, first served; one that would
//! have to wait longer is answered at once, as if the server had said 429.
//!
//! # Breakers stand outside of retries
//!
//! ```text
//!            ┌─────────┐   ┌─────────┐   ┌─────────┐
//! request ──▶│ breaker │──▶│  retry  │──▶│ timeout │──▶ transport
//!            └─────────┘   └─────────┘   └─────────┘
//!                 │ open: an error at once, nothing waits and nobody is called
//! ```
//!
//! So a call that used up its tries is one failure and not several, an open breaker costs no wait between tries, and a
//! probe cannot last for ever. A breaker inside of the retries counts each try, trips on a single bad call, and makes
//! the others wait for nothing.
//!
//! Retries are a layer too. It sends again what may be sent twice, keeps to the server's `Retry-After` and to the
//! [`Deadline`](crate::Deadline) in a request's extensions, and all callers share one budget:
//!
#![cfg_attr(all(feature = "tower", feature = "tokio"), doc = "```")]
#![cfg_attr(not(all(feature = "tower", feature = "tokio")), doc = "```text")]
//! use damper::http::{CircuitBreakerLayer, RetryLayer};
//! use damper::{BreakerConfig, Retry, RetryBudget};
//! use http_body_util::Empty;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//! use tower::ServiceBuilder;
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for 20 % of first attempts, and 10 a second
//!
//! let client = ServiceBuilder::new()
//!     .layer(CircuitBreakerLayer::per_host(BreakerConfig::default()))
//!     .layer(RetryLayer::new(Retry::new(3).budget(&BUDGET)))
//!     .service(Client::builder(TokioExecutor::new()).build_http::<Empty<bytes::Bytes>>());
//! # let _ = client;
//! ```
//!
//! A server that states its limit before it refuses lets a client slow down in time:
//! [`RateLimitStatus`](crate::wire::RateLimitStatus) reads what is left from a response, and its
//! [`pace`](crate::wire::RateLimitStatus::pace) spreads it.
//!
//! An open breaker answers at once, even while the service behind it is not ready: a service of tower with one breaker
//! is then ready without asking the inner service. With one breaker per host the request decides, so the inner service
//! has to be ready first.
//!
//! One breaker for each host ([`per_host`](crate::http::CircuitBreakerLayer::per_host)) unless all hosts are one
//! service: a sick host does not shut off the healthy ones. Errors of the transport and 5xx are failures; 4xx are the
//! caller's own, and 429 is retry's business: it says when to come back.
//!
//! The breakers are built first, with their settings, and then put into a layer:
//! [`PerHost::builder`](crate::http::PerHost::builder) and [`Single::builder`](crate::http::Single::builder) take a name
//! for metrics, a capacity and a callback.
//!
//! ```
//! use damper::BreakerConfig;
//! use damper::http::{CircuitBreakerLayer, PerHost};
//!
//! let hosts = PerHost::builder(BreakerConfig::default()).named("upstreams").capacity(64).build()?;
//! let layer = CircuitBreakerLayer::new(hosts);
//! # let _ = layer;
//! # Ok::<(), damper::CapacityError>(())
//! ```
//!
//! # When a call has ended
//!
//! | the client speaks | write | a call ends |
//! |---|---|---|
//! | HTTP | nothing more | with the head of its response |
//! | HTTP, with bodies that break off | [`.when_body_ends()`](crate::http::CircuitBreakerLayer::when_body_ends) | with its body |
//! | gRPC | `.completion(AtTrailers::new())` of `damper::tonic` | with its status, which follows the last message |
//!
//! Around a `Channel` of tonic the last one is needed: gRPC sends a `200 OK` before its status, so a breaker that judges
//! heads counts an unavailable server as healthy and never trips. In the log (feature `tracing`, level debug) every such
//! response has a line.
//!
//! A layer of yours that holds something until a call has ended can use the same part: see
//! [`ObservedCall`](crate::http::ObservedCall).
//!
//! # One deadline from hop to hop
//!
//! A timeout for each call adds up along a chain of servers, and the last ones work for a client that has gone. A deadline
//! does not: the first server sets it, each server passes on what is left, and all of them stop when it has passed.
//!
//! ```text
//! client ── x-timeout-ms: 2000 ──▶ server ── grpc-timeout: 1700000u ──▶ server ── x-timeout-ms: 1200 ──▶ server
//! ```
//!
//! A [`DeadlineLayer`](crate::http::DeadlineLayer) around a server reads the timeout, and puts the
//! [`Deadline`](crate::Deadline) into the request's extensions. The handler passes it on by value, into the extensions of
//! its own requests, where a [`ClientDeadlineLayer`](crate::http::ClientDeadlineLayer) finds it:
//!
#![cfg_attr(all(feature = "axum", feature = "hyper", feature = "tokio"), doc = "```")]
#![cfg_attr(not(all(feature = "axum", feature = "hyper", feature = "tokio")), doc = "```text")]
//! use axum::http::{HeaderName, Request, StatusCode};
//! use axum::{Extension, Router, routing::get};
//! use bytes::Bytes;
//! use damper::Deadline;
//! use damper::http::{ClientDeadlineLayer, DeadlineLayer, TimeoutUnit};
//! use http_body_util::Empty;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//! use std::time::Duration;
//! use tower::ServiceExt;
//!
//! const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");
//!
//! let client = ClientDeadlineLayer::new(Duration::from_secs(2))
//!     .header(TIMEOUT, TimeoutUnit::Milliseconds)
//!     .layer(Client::builder(TokioExecutor::new()).build_http());
//!
//! let price = async move |Extension(deadline): Extension<Deadline>| {
//!     let request = Request::get("http://prices.example.com/").extension(deadline).body(Empty::<Bytes>::new());
//!     let response = client.oneshot(request.expect("a valid URI")).await;
//!     response.map_or(StatusCode::BAD_GATEWAY, |response| response.status())
//! };
//! let app: Router = Router::new()
//!     .route("/price", get(price))
//!     .layer(DeadlineLayer::new(Duration::from_secs(5)).header(TIMEOUT, TimeoutUnit::Milliseconds));
//! # let _ = app;
//! ```
//!
//! The deadline lasts to the last byte of a response: a body that stalls is cut off by it. In gRPC its header is
//! `grpc-timeout`, and the answer `DEADLINE_EXCEEDED` instead of 504. A client's deadline belongs outside of its breaker
//! and its retries, which share it.
//!
//! Clients that send their deadline as an instant need clocks that agree with the server's. `instant_header` reads it, and with
//! a [`SkewGuard`](crate::deadline::SkewGuard) a server whose clock is wrong still serves four of five requests.
//!
//! # No answer is invented
//!
//! While a breaker is open, the caller gets an error that says so and for how long
//! ([`CircuitOpen`](crate::CircuitOpen), found in any chain of sources by
//! [`find_in`](crate::CircuitOpen::find_in)). There is no cache of former answers and no default: whether a stale price
//! is better than none, only the caller knows.
