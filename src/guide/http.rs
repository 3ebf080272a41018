//! Limits before servers and breakers before clients: where to put them, and what they count.
//!
//! # Global, per route, per client
//!
//! A limit is a layer, and counts the requests that pass through it: around a router all requests, around a handler
//! those of one route. The layer determines whose requests share a limit:
//!
//! | limit | counts | for |
//! |---|---|---|
//! | [`RateLimitLayer::global`](crate::http::RateLimitLayer::global) | all requests together | the capacity of the server |
//! | [`per_client`](crate::http::RateLimitLayer::per_client) | requests of each address | fairness among anonymous clients |
//! | [`by_header`](crate::http::RateLimitLayer::by_header), [`by`](crate::http::RateLimitLayer::by) | requests of each API key, user, tenant, path | fairness among known clients |
//!
//! They can be combined, one around the other, and a request must pass all of them. Put the cheapest and the widest
//! outside, where they stop a flood before the server identifies the client. If an inner limit refuses a request, the
//! tokens that it took from an outer limit stay taken. To avoid that, make one decision on several limits: a
//! [`LimitSet`](crate::LimitSet) in [`RateLimitLayer::new`](crate::http::RateLimitLayer::new), or
//! [`check_n_with`](crate::KeyedLimiter::check_n_with) in a [`Limit`](crate::http::Limit) of your own.
//!
//! ```
//! # #[cfg(feature = "axum")] {
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
//!     .route("/report", get(report).layer(RateLimitLayer::global(Quota::per_minute(10)))) // expensive for any client
//!     .layer(RateLimitLayer::by(|head| head.extensions.get::<User>().cloned(), Quota::per_second(20)))
//!     .route("/healthz", get(healthz)) // added later, so the layers above do not wrap it
//!     .layer(RateLimitLayer::per_client(Quota::per_second(50).burst(100)).exempt(|head| head.uri.path() == "/healthz"))
//!     .layer(RateLimitLayer::global(Quota::per_second(5_000)));
//! # }
//! ```
//!
//! Limits decide when a service is called, never when it is polled for readiness, because a caller may poll and go
//! away. All clones of a layer and all services that it made share its limit, so servers may make a service for each
//! connection.
//!
//! # Costs
//!
//! A request takes one token, or what [`cost`](crate::http::RateLimitLayer::cost) says. Where the true cost is known only by
//! the response, [`charge_by_response`](crate::http::RateLimitLayer::charge_by_response) corrects it: an excess is charged, into
//! debt if necessary, and tokens that were not used are given back. Take an estimate before, because a client may have many
//! requests in flight whose responses are not known yet.
//!
//! ```
//! use damper::Quota;
//! use damper::http::RateLimitLayer;
//!
//! // Rows of a database: a query is estimated at 100, and the handler says how many it read.
//! let rows = RateLimitLayer::per_client(Quota::per_second(1_000).burst(5_000))
//!     .cost(|head| if head.uri.path() == "/search" { 100 } else { 1 })
//!     .charge_by_response(|_, response| response.extensions.get::<RowsRead>().map_or(1, |rows| rows.0));
//! # let _ = rows;
//! #[derive(Clone)]
//! struct RowsRead(u32);
//! ```
//!
//! [`charge_by_body`](crate::http::RateLimitLayer::charge_by_body) does so by the response's body as it is sent: for a download that is
//! broken off, and for the usage that a language model states in the last event of its stream. A client that leaves before that event pays
//! the estimate. A client that keeps many responses open can save up their estimates, and spend them beyond the burst at once. Only a tree
//! bounds that. Limits of users, teams and organisations, in requests and tokens at once, are [trees](crate::guide::trees#over-http).
//!
//! # Behind proxies
//!
//! The address of a client is that of the connection's other end, which behind a proxy is the proxy. The proxy writes
//! the client's address into `X-Forwarded-For` (or `Forwarded`), but the client can write there first. So name the
//! proxies that you trust:
//!
//! ```
//! use damper::Quota;
//! use damper::http::RateLimitLayer;
//! use damper::wire::TrustedProxies;
//!
//! let limits = RateLimitLayer::per_client(Quota::per_second(50))
//!     .behind(TrustedProxies::new(["10.0.0.0/8", "fd00::/8"])?);
//! # let _ = limits;
//! # Ok::<(), damper::InvalidText>(())
//! ```
//!
//! The list is read from the right, where the nearest proxy wrote, and the first address that belongs to no trusted
//! proxy is the client's. Entries further left come from machines that you do not trust, and are ignored, so no client
//! can choose its own key. Name every proxy on the way: an unnamed one counts as the client, and all clients behind it
//! share its limit. Only the header that your proxy writes is read
//! ([`forwarded`](crate::wire::TrustedProxies::forwarded) selects the other), because the other header comes from the
//! client.
//!
//! If the server does not provide the peer's address, the response is `500 Internal Server Error`, and the request
//! shares no bucket with others. The log (feature `tracing`) and [`on_error`](crate::http::RateLimitLayer::on_error)
//! explain what to add to the server. The response does not.
//!
//! # Networks with many addresses
//!
//! IPv6 clients are distinguished by their first 64 bits. One network may own many such prefixes, 65,536 of them in a
//! /48, each with a separate limit. So limit the network too:
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
//! All limits of a request are one decision: it takes a token from each, or from none. Choose the wider quota for the
//! busiest honest network, such as an office, a campus or a mobile carrier's gateway, whose clients share it.
//!
//! # Limits that take their time
//!
//! Client addresses, header values and closures provide the keys for any [`KeyedLimit`](crate::http::KeyedLimit): a
//! [`KeyedLimiter`](crate::KeyedLimiter) of this process, or your own limit on a store that several servers share. Such
//! a limit returns a future, and decides itself what happens while the store is unreachable: an error, or `Ok(None)`,
//! which lets the request pass. The example `limit_elsewhere` asks a task over a channel, in 30 lines.
//!
//! # The response to a refused client
//!
//! The response is `429 Too Many Requests`, with the time until a retry (`Retry-After`) and the client's limit
//! (`RateLimit`, `RateLimit-Policy`). It is sent at once: a request over the limit is never queued, and its body is not
//! read. The same layer refuses a gRPC call, which is a POST with gRPC's content type, with `RESOURCE_EXHAUSTED` and a
//! `RetryInfo`. Every refusal carries `Cache-Control: no-store`.
//!
//! # Inside of CORS
//!
//! Our layers go into one `ServiceBuilder` with those of tower-http, around them and inside of them. Put CORS outside of
//! the limits:
//!
//! - A browser hides a response without CORS headers from a page of another origin. A 429 from outside of CORS looks like a
//!   broken network there, so the page retries at once and never sees `Retry-After`.
//! - CORS answers the preflights of browsers itself. Outside of it, a limit takes a token for each of them, and refuses a
//!   preflight as it refuses a request.
//! - A page reads only the headers that CORS exposes, so name `Retry-After` and the `RateLimit` headers.
//!
//! Logs and request ids stand outside of both, because they see refusals too. Limits of bodies and timeouts of tower-http
//! stand inside, next to the handler.
//!
//! ```
//! # #[cfg(all(feature = "axum", feature = "tokio"))] {
//! use axum::http::{HeaderName, header::RETRY_AFTER};
//! use axum::{Router, routing::get};
//! use damper::Quota;
//! use damper::http::server_stack;
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//! use tower_http::{cors::CorsLayer, limit::RequestBodyLimitLayer, trace::TraceLayer};
//!
//! const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
//!
//! let layers = ServiceBuilder::new()
//!     .layer(TraceLayer::new_for_http())
//!     .layer(CorsLayer::permissive().expose_headers([RETRY_AFTER, RATE_LIMIT]))
//!     .layer(server_stack().deadline(Duration::from_secs(5)).limit(Quota::per_second(1_000)).bulkhead(256))
//!     .layer(RequestBodyLimitLayer::new(1 << 20));
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(layers);
//! # let _ = app;
//! # }
//! ```
//!
//! # Calls in flight
//!
//! A rate limit is an estimate of a server's capacity, and wrong as soon as the work changes. A limit on the calls in
//! flight holds however long they take: when the server slows down, requests are refused, or wait in a short queue, and
//! do not accumulate.
//!
//! ```
//! # #[cfg(all(feature = "tower", feature = "tokio"))] {
//! use damper::concurrency::LimitBounds;
//! use damper::http::{ClientConcurrencyLayer, ConcurrencyLayer};
//! use std::time::Duration;
//!
//! let reports = ConcurrencyLayer::bulkhead(8).waiting(Duration::from_millis(200)); // the pool has 8 connections
//! let all = ConcurrencyLayer::adaptive(LimitBounds::DEFAULT); // follows the latency of the responses
//! let upstreams = ClientConcurrencyLayer::bulkhead_per_host(64); // a host that hangs takes no slots from the others
//! # let _ = (reports, all, upstreams);
//! # }
//! ```
//!
//! The server responds with `503 Service Unavailable` and `Retry-After`, or `UNAVAILABLE` in gRPC. The client gets a
//! [`CallError`](crate::CallError) without a call. A slot is held until the response has *ended*, including its body
//! and its trailers. A client that disconnects, a deadline that passes and a handler that panics free it at once. A client
//! that stays and reads nothing keeps it until its deadline, or until the layer's `stall_limit`, which is 30 s in
//! `server_stack`. Then the handler's body is dropped, although nobody polls it.
//!
//! An adaptive limit measures the time until a response begins, so a slowly reading client does not count as a slow
//! server. Signs of overload are 503, 504 and calls that their deadlines ended although they had time enough
//! ([`EveryStatus`](crate::http::EveryStatus)), or those of your [`classify`](crate::http::ConcurrencyLayer::classify). A 429
//! is none, because it is about the quota of one client. At a server the order is: deadline outside, then rate limits,
//! then this, then the handler. At a client it belongs inside the retries, so that a call waiting for its next attempt
//! holds no slot.
//!
//! If some requests are more important than others, use an [`AdmissionLayer`](crate::http::AdmissionLayer) in place of
//! this layer at the server. Under overload it serves the highest class first, gives the tenants of a class equal
//! shares, and refuses at once the requests that cannot finish within their deadlines.
//!
//! # A client's limit waits
//!
//! A client of a rate-limited service usually prefers to wait:
//! `RateLimitLayer::global(quota).wait(longest)`, feature `tokio`. Requests are served in FIFO order. A request that
//! would have to wait longer gets a response at once, as if the server had sent 429.
//!
//! # Requests that the server refused, and the client's limit
//!
//! A rate limit outside of these layers has taken a token of each request that they refuse. A client that retries an
//! overloaded server is then over its own limit when the server has recovered.
//! [`refund_unserved`](crate::http::RateLimitLayer::refund_unserved) gives back every second of these tokens. It is off
//! by default, because half as many requests more reach the server then.
//!
//! # Breakers stand outside of retries
//!
//! ```text
//!            ┌─────────┐   ┌─────────┐   ┌─────────┐
//! request ──▶│ breaker │──▶│  retry  │──▶│ timeout │──▶ transport
//!            └─────────┘   └─────────┘   └─────────┘
//!                 │ open: an error at once, without a wait or a call
//! ```
//!
//! So a call that used up its attempts is one failure, an open breaker costs no backoff, and a probe cannot last for
//! ever. A breaker inside the retries counts each attempt, trips on a single bad call, and makes the other attempts
//! wait in vain.
//!
//! Retries are a layer too. It repeats requests that are safe to repeat, honours the server's `Retry-After` and the
//! [`Deadline`](crate::Deadline) in a request's extensions, and all callers share one budget:
//!
//! ```
//! # #[cfg(all(feature = "tower", feature = "tokio"))] {
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
//! # }
//! ```
//!
//! A server that states its limit before it refuses lets a client slow down in time:
//! [`RateLimitStatus`](crate::wire::RateLimitStatus) reads the remaining requests from a response, and its
//! [`pace`](crate::wire::RateLimitStatus::pace) spreads them over time.
//!
//! An open breaker refuses at once, even while the service behind it is not ready. A tower service with a single
//! breaker is then ready without polling the inner service. With one breaker per host the request decides, so the inner
//! service has to be ready first.
//!
//! Use one breaker for each host ([`per_host`](crate::http::CircuitBreakerLayer::per_host)) unless all hosts are one
//! service, so that a failing host does not block the healthy ones. Errors of the transport and 5xx are failures. 4xx
//! are the caller's mistakes, and 429 is left to the retry, because it names a wait.
//!
//! The breakers are built first, with their settings, and then put into a layer.
//! [`PerHost::builder`](crate::http::PerHost::builder) and [`Single::builder`](crate::http::Single::builder) take a
//! name for metrics, a capacity and a callback.
//!
//! ```
//! use damper::BreakerConfig;
//! use damper::http::{CircuitBreakerLayer, PerHost};
//!
//! let hosts = PerHost::builder(BreakerConfig::default()).named("upstreams").capacity(64).build()?;
//! let layer = CircuitBreakerLayer::new(hosts);
//! # let _ = layer;
//! # Ok::<(), damper::OutOfRange>(())
//! ```
//!
//! # When a call has ended
//!
//! | client | setting | a call ends |
//! |---|---|---|
//! | HTTP | none | with the head of its response |
//! | HTTP, with bodies that break off | [`.when_body_ends()`](crate::http::CircuitBreakerLayer::when_body_ends) | with its body, or with a head that shows a failure or a 429 |
//! | gRPC | `.completion(AtTrailers::new())` of `damper::tonic` | with its status, which follows the last message |
//!
//! Around a `Channel` of tonic the last one is required: gRPC sends a `200 OK` before its status, so a breaker that
//! judges heads counts an unavailable server as healthy and never trips. The log (feature `tracing`, level debug) has a
//! line for every such response.
//!
//! A gate of your own that holds something until a call has ended learns of it in the same way: see
//! [`ClientGate`](crate::http::ClientGate).
//!
//! # One deadline from hop to hop
//!
//! Separate timeouts for each call add up along a chain of servers, and the last ones work for a client that has gone.
//! A deadline avoids this: the first server sets it, each server passes on the remaining time, and all of them stop
//! when it has passed.
//!
//! ```text
//! client ── x-timeout-ms: 2000 ──▶ server ── grpc-timeout: 1700000u ──▶ server ── x-timeout-ms: 1200 ──▶ server
//! ```
//!
//! A [`DeadlineLayer`](crate::http::DeadlineLayer) around a server reads the timeout, and puts the
//! [`Deadline`](crate::Deadline) into the request's extensions. The handler copies it into the extensions of its own
//! requests, where a [`ClientDeadlineLayer`](crate::http::ClientDeadlineLayer) finds it:
//!
//! ```
//! # #[cfg(all(feature = "axum", feature = "hyper", feature = "tokio"))] {
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
//! # }
//! ```
//!
//! The deadline covers the response to its last byte, so it also cuts off a stalled body. In gRPC its header is
//! `grpc-timeout`, and the response is `DEADLINE_EXCEEDED` instead of 504. A client's deadline belongs outside its
//! breaker and its retries, which share it.
//!
//! Clients that send their deadline as an instant need clocks that agree with the server's. `instant_header` reads it,
//! and with a [`SkewGuard`](crate::deadline::SkewGuard) a server with a wrong clock still serves four of five requests.
//!
//! # One class from hop to hop
//!
//! Under overload a server should know which requests count most, and that is known where they enter the system. A
//! [`CriticalityLayer`](crate::http::CriticalityLayer) reads the class and the tenant of a request from two headers, but
//! only if the caller is trusted: by the network of its connection, or by a predicate, such as on its certificate. The
//! headers of all other callers are removed. An [`AdmissionLayer`](crate::http::AdmissionLayer) inside decides by what the
//! layer found, and a [`ClientCriticalityLayer`](crate::http::ClientCriticalityLayer) sends it to the next server:
//!
//! ```text
//! client ── x-criticality: critical-plus (made up) ──▶ gateway ── x-criticality: sheddable-plus, x-tenant: acme ──▶ server
//! ```
//!
//! Both stacks have it as one setting. The example `criticality` has a gateway and a server:
//!
//! ```
//! # #[cfg(all(feature = "axum", feature = "hyper", feature = "tokio"))] {
//! use axum::http::{HeaderName, Request, StatusCode};
//! use axum::{Extension, Router, routing::get};
//! use bytes::Bytes;
//! use damper::Deadline;
//! use damper::concurrency::{Admission, LimitBounds};
//! use damper::http::{CallClass, ClassHeaders, CriticalityLayer, client_stack, server_stack};
//! use damper::wire::TrustedProxies;
//! use http_body_util::Empty;
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//! use std::time::Duration;
//! use tower::ServiceExt;
//!
//! let headers = ClassHeaders::new(HeaderName::from_static("x-criticality")).tenant(HeaderName::from_static("x-tenant"));
//! let client = client_stack()
//!     .criticality(headers.clone())
//!     .deadline(Duration::from_secs(2))
//!     .service(Client::builder(TokioExecutor::new()).build_http());
//!
//! let price = async move |Extension(deadline): Extension<Deadline>, Extension(class): Extension<CallClass>| {
//!     let request = Request::get("http://prices.example.com/").extension(deadline).extension(class);
//!     let response = client.oneshot(request.body(Empty::<Bytes>::new()).expect("a valid URI")).await;
//!     response.map_or(StatusCode::BAD_GATEWAY, |response| response.status())
//! };
//! let stack = server_stack()
//!     .criticality(CriticalityLayer::new(headers).trusting(TrustedProxies::new(["10.0.0.0/8"])?))
//!     .deadline(Duration::from_secs(5))
//!     .admission(Admission::new(LimitBounds::DEFAULT));
//! let app: Router = Router::new().route("/price", get(price)).layer(stack);
//! # let _ = app;
//! # }
//! # Ok::<(), damper::InvalidText>(())
//! ```
//!
//! gRPC carries both as metadata of the same names. With `urgency()` a request without a class has that of its `Priority`
//! (RFC 9218): a trusted caller's as it is, any other caller's only where it is lower than the default. So a browser may say that
//! a picture can wait. A server behind a proxy trusts that proxy, so the proxy has to set or remove the headers of its
//! clients; one with this layer does.
//!
//! In a [file of settings](super::configuration) it is one key on each side, whose change needs a restart:
//!
//! ```
//! # #[cfg(feature = "config")] {
//! use damper::config::Sources;
//!
//! let text = r#"
//!     [server.http.stack]
//!     concurrency = "admission"
//!     class_header = "x-criticality"
//!     tenant_header = "x-tenant"         # optional, as all keys below
//!     trusted_callers = ["10.0.0.0/8"]   # by default no caller is believed
//!     default_class = "sheddable_plus"   # of requests without a class, and of all other callers
//!     urgency = true                     # RFC 9218
//!
//!     [client.http.stack]
//!     class_header = "x-criticality"
//!     tenant_header = "x-tenant"
//! "#;
//! let settings = Sources::new().toml("app.toml", text).load()?;
//! // settings.server.http.server_stack()?, settings.client.http.client_stack()?
//! # let _ = settings;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A handler puts the class and the deadline of its request into the extensions of each call, as above.
//!
//! # No answer is invented
//!
//! While a breaker is open, the caller gets an error that states so and for how long
//! ([`CircuitOpen`](crate::CircuitOpen), found in any chain of sources by [`find_in`](crate::CircuitOpen::find_in)).
//! damper has no cache of former responses and no default: only the caller knows whether a stale price is better than
//! none.
