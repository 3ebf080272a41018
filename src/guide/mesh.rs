//! Mesh: limits and deadlines that services exchange in JSON.
//!
//! Mesh is a JSON protocol between services. damper speaks the parts of it that concern load: how much of a limit is used, what a
//! refusal says, which limits there are, and how long a request may take.
//!
//! # A service
//!
//! [`MeshLayer`](crate::mesh::MeshLayer) stands around a tower service that gets calls and returns JSON values. It reads the envelope,
//! asks the limits, ends the call at its deadline, and writes the answer.
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use damper::Quota;
//! use damper::mesh::{IncomingCall, MeshError, MeshLayer, Scopes};
//! use serde_json::{Value, json};
//! use tower::{ServiceBuilder, service_fn};
//!
//! async fn orders(call: IncomingCall) -> Result<Value, MeshError> {
//!     match call.function() {
//!         "orders.create" => Ok(json!({ "order_id": 456 })),
//!         other => Err(MeshError::new("FUNCTION_NOT_FOUND", format!("There is no function {other}"))),
//!     }
//! }
//!
//! let scopes = Scopes::builder()
//!     .global(Quota::per_minute(10_000))
//!     .service(Quota::per_minute(1_000))
//!     .function("orders.create", Quota::per_minute(100))
//!     .build()?;
//!
//! /// The service that an authentication layer outside of this one verified, and put into the request's extensions.
//! #[derive(Clone)]
//! struct Verified(String);
//!
//! let layer = MeshLayer::new("orders-api", scopes).caller(|caller, head, _| {
//!     caller.service(head.extensions.get::<Verified>().map_or("", |verified| &verified.0))
//! });
//! let service = ServiceBuilder::new().layer(layer).service(service_fn(orders));
//! # let _ = service; // for axum: Router::new().route_service("/mesh", service)
//! # Ok::<(), damper::mesh::ScopesError>(())
//! ```
//!
//! The function `mesh.capabilities` publishes the limits in force. They are read from the limiters at that moment, so a quota that was
//! changed live is shown as it is.
//!
//! | answer | status of HTTP |
//! |---|---|
//! | a result, or an error of the function, whatever its code | 200 |
//! | a refusal by a limit of the layer: `RATE_LIMITED` | 429, with `Retry-After` |
//! | the deadline passed: `DEADLINE_EXCEEDED` | 504 |
//! | unreadable, or another protocol: `INVALID_REQUEST` | 400 |
//!
//! A function that calls other services passes their errors on through
//! [`MeshError::from_downstream`](crate::mesh::MeshError::from_downstream). `RATE_LIMITED` then becomes `DOWNSTREAM_RATE_LIMITED`. Otherwise
//! its clients would slow down for a limit that this service does not have. A [`CallError`](crate::mesh::CallError) converts with `?`.
//!
//! One refusal deviates from Mesh: where no wait helps, `retryable` is false and `retry_after` is
//! [`MeshDuration::NEVER`](crate::mesh::MeshDuration::NEVER). Clients give up at once on it.
//!
//! # Scopes
//!
//! A request may count in up to four limits: that of its user, of its function, of the service that calls, and of all clients
//! together. [`Scopes`](crate::mesh::Scopes) decides on all of them at once. A request takes a token of each, or of none:
//!
//! ```
//! use damper::mesh::{Caller, Scope, Scopes};
//! use damper::{ManualClock, Quota};
//!
//! let clock = ManualClock::new();
//! let scopes = Scopes::with_clock(&clock).global(Quota::per_hour(100)).user(Quota::per_minute(2)).build()?;
//! let alice = Caller::of("orders.create").user("alice");
//! assert!(scopes.check_n(alice, 2).is_ok());
//! let denied = scopes.check(alice).unwrap_err();
//! assert_eq!(denied.to_string(), "user: rate limit exceeded, retry in 30 s");
//! let all = scopes.peek(alice).usage(Scope::Global).expect("there is such a limit");
//! assert_eq!(all.used(), 2, "the refusal took nothing");
//! # Ok::<(), damper::mesh::ScopesError>(())
//! ```
//!
//! Names of services and users come from the closure of [`caller`](crate::mesh::MeshLayer::caller). A client that can choose its name
//! evades the limit. Take names from an extension that an authentication layer set, not from a header. Requests without a name share one
//! limit.
//!
//! An answer reports the usage of one limit as `rate_limit`, of several as `rate_limits`. By default it warns at 10 % and at 2 % left;
//! [`Warnings`](crate::mesh::Warnings) sets other thresholds. Token buckets report the burst, and the time in which all of it is
//! refilled. For whole windows, choose the algorithm [`FixedWindow`](crate::FixedWindow).
//!
//! # A client
//!
//! [`Client`](crate::mesh::Client) reads these answers. While less than 10 % of a limit is left it waits `resets_in / remaining` before
//! each call, and with nothing left until the reset. After a refusal it waits as long as the service said, twice as long after the next
//! one, and so on up to 5 minutes. It tries five times at most, within a retry budget.
//!
//! A function's limit slows down calls of that function; every other limit, also one without a scope, all calls. Calls that wait already
//! are held by a refusal that comes meanwhile, and a response to an older request does not free them. They leave one by one, or spread by
//! a tenth of the wait.
//!
//! A wait is never cut short. A call whose deadline comes before the end of its wait fails at once, unsent, with
//! [`CallError::Paced`](crate::mesh::CallError::Paced), which names the wait. Without a deadline, waits are accepted up to 5 minutes;
//! [`max_pacing_wait`](crate::mesh::ClientBuilder::max_pacing_wait) changes that. For breakers such a call is a [refusal](crate::is_refusal) and no
//! failure of the service.
//!
//! Behind another client, read the documents yourself: [`Response::failure`](crate::mesh::Response::failure) is what a
//! [`Retry`](crate::Retry) asks for, [`RateLimitUsage::pace`](crate::mesh::RateLimitUsage::pace) is the wait before the limit, and a
//! [`Pausable`](crate::Pausable) stops other callers:
//!
//! ```
//! use damper::mesh::{RateLimited, Response};
//! use damper::{ManualClock, Pausable, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! let server = RateLimiter::with_clock(Quota::per_minute(1), &clock);
//! server.check()?;
//! let denied = server.check().unwrap_err();
//! let answer = Response::error(Some("req_1".into()), RateLimited::by(&denied, &server.peek()));
//!
//! let polite = Pausable::with_clock(RateLimiter::with_clock(Quota::per_second(10), &clock), &clock);
//! if let Some(wait) = answer.rate_limited()?.and_then(|limited| limited.retry_after) {
//!     polite.pause_for(wait.duration());
//! }
//! assert_eq!(polite.check().unwrap_err().to_string(), "rate limit exceeded, retry in 60 s");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Deadlines
//!
//! A request may carry the extension `urn:mesh:ext:deadline`: a duration, or an instant of ISO 8601. The time starts when the head of
//! the HTTP request arrives. Once it is over, the service's future is dropped, and the answer is `DEADLINE_EXCEEDED`: no result follows.
//!
//! A call that is made for another one gets what is left: pass [`IncomingCall::deadline`](crate::mesh::IncomingCall::deadline) to
//! [`Client::call_within`](crate::mesh::Client::call_within). An instant goes on as it came, and more than an hour is sent as an instant,
//! so these need clocks that agree. A duration does not. Where clocks may differ, give the layer a
//! [`skew_guard`](crate::mesh::MeshLayer::skew_guard): it serves requests that seem to have expired on arrival, if too many do.
//!
//! ```
//! use core::time::Duration;
//! use damper::ManualClock;
//! use damper::mesh::{Receipt, SpecifiedDeadline};
//!
//! let clock = ManualClock::new();
//! let deadline = Receipt::with_clock(&clock).deadline(SpecifiedDeadline::after(Duration::from_secs(5)));
//! clock.advance(Duration::from_secs(1)); // work of our own
//! let sent = deadline.downstream().expect("4 s are left");
//! assert_eq!(sent.to_string(), "4 second");
//! ```
//!
//! # Without the envelope
//!
//! A [`RateLimitLayer`](crate::http::RateLimitLayer) in front of a service refuses before a request is read. Give it
//! [`refusal_body`](crate::mesh::refusal_body), and its refusals are Mesh documents too, though without the request's id.
