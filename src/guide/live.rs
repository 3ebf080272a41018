//! The live page: limits and breakers in a browser, while they work.
//!
//! Metrics answer what happened; the page answers what is happening. It shows the levels of limits, refusals, the states of breakers,
//! percentiles of latencies and the hottest keys, once a second, and an operator with a token can change a quota, or trip and reset a
//! breaker. `cargo run --release --example gateway -- --serve` has one at `/damper`.
//!
//! At the top is what is wrong now. A breaker shows each change of its state with its time and its cause, also one between two samples, and
//! one of before the page was opened. Nothing is sampled while no page is open, so the lines of other cards begin when it is.
//!
//! # Mounting
//!
//! Beside a service of hyper, for each connection:
//!
//! ```
//! use bytes::Bytes;
//! use damper::live::{Latencies, LivePage, LiveToken};
//! use damper::http::{PerClient, RateLimitLayer};
//! use damper::decision_log::DecisionLog;
//! use damper::{CircuitBreaker, ClientAddress, KeyedLimiter, Quota};
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use hyper::body::Incoming;
//! use hyper::service::service_fn;
//! use std::convert::Infallible;
//! use std::sync::Arc;
//!
//! static DECISIONS: DecisionLog = DecisionLog::new(65_536);
//!
//! let clients = Arc::new(KeyedLimiter::<ClientAddress>::builder(Quota::per_second(50).burst(100)).build()?);
//! let upstream = Arc::new(CircuitBreaker::default());
//! let latencies = Latencies::new("requests");
//! let live = LivePage::new()
//!     .limit("clients", Arc::clone(&clients))
//!     .decision_log("clients", &DECISIONS) // refusals, and the hottest keys
//!     .breaker("upstream", Arc::clone(&upstream))
//!     .latencies(&latencies)
//!     .token(LiveToken::generate()?) // print what it reveals
//!     .build()?;
//!
//! let limits = RateLimitLayer::new(PerClient::new(clients)).decision_log(&DECISIONS);
//! # let peer: std::net::SocketAddr = ([127, 0, 0, 1], 5_000).into();
//! // For each connection:
//! let hello = service_fn(async |_: Request<Incoming>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello"))));
//! let service = live.for_peer(peer).beside(latencies.layer(limits.for_peer(peer).layer(hello)));
//! # let _ = service;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With axum, mount the page after the layers, and serve with the peers' addresses. The page and limits per client need them, and answer
//! `500 Internal Server Error` without.
//!
//! ```
//! use axum::{Router, routing::get};
//! use damper::decision_log::DecisionLog;
//! use damper::live::LivePage;
//! use damper::http::{PerClient, RateLimitLayer};
//! use damper::{ClientAddress, KeyedLimiter, Quota};
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//!
//! static DECISIONS: DecisionLog = DecisionLog::new(65_536);
//!
//! let clients = Arc::new(KeyedLimiter::<ClientAddress>::builder(Quota::per_second(50).burst(100)).build()?);
//! let live = LivePage::new().limit("clients", Arc::clone(&clients)).decision_log("clients", &DECISIONS).build()?;
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(PerClient::new(clients)).decision_log(&DECISIONS))
//!     .nest_service("/damper", live);
//!
//! let server = async {
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//!     axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
//! };
//! # let _ = server;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `nest_service` may mount the page anywhere, and so may a proxy: the page finds its files beside itself. The service beside another one
//! answers at the path that [`path`](crate::live::LivePage::path) sets. These break it, and the page or the response says so:
//!
//! | mistake | what is seen |
//! |---|---|
//! | axum's `route_service` instead of `nest_service` | 404, with the path that the page answers at |
//! | a proxy passes the page on, and not the paths below it | a page without styles that names the missing files |
//! | a proxy buffers responses | `no event comes: does a proxy hold the stream back?` |
//! | a proxy rewrites `Host` | a change is refused, with both hosts |
//! | a proxy adds `X-Forwarded-For`, `Via`, `X-Real-IP` or a like header, or speaks HTTP/1.0; or a browser of another machine asks | 403, and [`open_to`](crate::live::LivePage::open_to) |
//! | a ninth page of one address is opened, as all are behind a proxy | 429, and [`behind`](crate::live::LivePage::behind) |
//! | axum without `into_make_service_with_connect_info` | 500, with what is missing |
//! | two sources of one kind and name | a line at the top of the page |
//!
//! # Explanations
//!
//! A stack of a server or a client that is given to the page explains what would happen to a request, part by part, for scripts and for a
//! shell. Nothing is taken for it:
//!
//! ```
//! use damper::Quota;
//! use damper::http::server_stack;
//! use damper::live::LivePage;
//!
//! let stack = server_stack().limit_per_client(Quota::per_second(50)).limit(Quota::per_second(1_000));
//! let explained = stack.clone();
//! let live = LivePage::new().explain("api", move |head| explained.explain(head)).build()?;
//! # let _ = (stack, live);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! $ curl -H 'damper-client: 203.0.113.9' -H 'Accept: text/plain' localhost:8080/damper/explain/api/search?q=1
//! client limit "client": refuses: rate limit exceeded, retry in 20 ms (0 left of 50/s burst 50)
//! limit "server": passes (871 left of 1000/s burst 1000)
//! refused by the client limit, retry in 20 ms
//! ```
//!
//! # Counting
//!
//! The page adds no counting of its own to a request. It reads what the primitives have anyway, and what you let count:
//!
//! | on the page | needs | costs a request |
//! |---|---|---|
//! | levels, states, calls in flight, budgets | nothing | nothing |
//! | rates of a limit, the hottest keys | a [`DecisionLog`](crate::decision_log::DecisionLog) | some 40 instructions, one shared count |
//! | changes of breakers, how often they opened | nothing | nothing; a change takes one reading of the clock and some stores |
//! | rates and totals of all layers | a [`LiveRecorder`](crate::live::LiveRecorder), or another recorder behind it | one atomic addition a layer |
//! | latencies | [`Latencies`](crate::live::Latencies), as a layer | two readings of the clock, one atomic addition |
//!
//! A limit on Redis has counts of its own: [`LivePage::source(name, fleet)`](crate::live::LivePage::source) shows its rates, and which
//! policy decides while Redis does not answer. Leases count the tokens that they allow or lose, not requests. The page cannot change its
//! quota.
//!
//! The refusals of a breaker come from its layer, if the breaker has the name of the page:
//! [`Single::builder(config).named("upstream")`](crate::http::Single::builder), registered by
//! [`breaker("upstream", single.clone())`](crate::live::LivePage::breaker).
//!
//! Any other limit with neither shows its level, and a line that says that there are no counts.
//!
//! A sample takes some 270 bytes a limit and 1 KB a breaker, for each page. A page of 1,000 limits gets 267 KB a second.
//!
//! The hottest keys are hashes. A log of 65,536 decisions holds those of one second at that rate; with more, the page estimates, and says so.
//!
//! # Safety
//!
//! Only browsers of the same machine may look, unless [`open_to`](crate::live::LivePage::open_to) names the hosts under which others
//! may. **A reverse proxy on the same machine publishes what it passes on**: its requests come from this machine, under whatever host it writes.
//! The page refuses requests in which a proxy shows, such as those of nginx's plain `proxy_pass`, which speaks HTTP/1.0. A proxy that adds no
//! header and speaks HTTP/1.1 (`proxy_http_version 1.1`, the default of new versions) does not show. So where a proxy stands before the server,
//! leave the page's path out of what it passes on, or set a [`look_token`](crate::live::LivePage::look_token), for which browsers ask
//! their users.
//!
//! With `open_to`, clients that read nothing lose their places after the [`patience`](crate::live::LivePage::patience), one address has at
//! most eight of them, and ten wrong tokens make an address wait. Through a tunnel, `ssh -L 8080:localhost:8080 server`, nothing has to be opened. Without a token the page can only be looked at.
//! Looking changes nothing. See [`live`](crate::live) for the rest.
