//! Limits before servers and breakers before clients, for everything that speaks HTTP.
//!
//! | where | put there | by |
//! |---|---|---|
//! | axum | [`RateLimitLayer`] around a router or a handler | `Router::layer`, with the feature `axum` |
//! | hyper's servers | `layer.for_peer(address).layer(service)` for each connection | the feature `hyper` |
//! | tower's services, behind hyper-util's `TowerToHyperService` or elsewhere | both layers | the feature `tower` |
//! | hyper-util's client, reqwest, every client that is a service | [`CircuitBreakerLayer`] | `tower`, or `hyper` |
//! | tonic's servers | [`RateLimitLayer`] around all services or one | the feature `tonic`; breakers are in its module |
//!
//! A limiter protects what receives load, so it belongs to the server's side; a breaker protects the caller from a sick
//! callee, so it belongs to the client's. Adapters translate and decide nothing: limits are
//! [limiters](damper_core::RateLimiter) and breakers are [breakers](damper_core::CircuitBreaker), which can be kept,
//! looked at, and
//! changed.
//!
//! Closures of yours see the [`Head`] of a request, so that they need not know what its body is.
//!
//! # Metrics and logs
//!
//! With the feature `metrics`, by the facade of this name. The labels are the names that the layers are given, and the
//! states: nothing that a client or a server chooses. A layer looks for the recorder when it first needs it: install
//! that before the first request.
//!
//! | metric | kind | labels | of |
//! |---|---|---|---|
//! | `damper_allowed_total` | counter | `limit` | requests that a limit let pass |
//! | `damper_refused_total` | counter | `limit` | requests that were over it |
//! | `damper_errors_total` | counter | `limit`, `cause` | requests that it could not decide on: `missing_peer`, `other` |
//! | `damper_keys` | gauge | `limit`, `prefix` | keys that have a slot in the table of a limit per key |
//! | `damper_keys_capacity` | gauge | `limit`, `prefix` | keys that the table was built for |
//! | `damper_evictions_total` | counter | `limit`, `prefix` | keys that lost their slot while they owed something |
//! | `damper_overflows_total` | counter | `limit`, `prefix` | requests decided by a bucket that keys without a slot share |
//! | `damper_refused_newcomers_total` | counter | `limit`, `prefix` | requests refused to keys without a slot |
//! | `damper_breaker_allowed_total` | counter | `breaker` | calls that breakers let pass |
//! | `damper_breaker_refused_total` | counter | `breaker` | calls that they refused |
//! | `damper_breaker_probes_total` | counter | `breaker` | calls that passed as probes |
//! | `damper_breaker_evictions_total` | counter | `breaker` | hosts whose breakers made room for others |
//! | `damper_breaker_kept_evictions_total` | counter | `breaker` | those among them whose breakers were open, or worth keeping otherwise |
//! | `damper_breaker_state` | gauge | `breaker`, `state` | breakers in this state: `open`, `half_open`, `forced_open`, … |
//!
//! All are recorded as things happen, but for those of limits per key: call
#![cfg_attr(feature = "metrics", doc = "[`RateLimitLayer::record_metrics`]")]
#![cfg_attr(not(feature = "metrics"), doc = "`RateLimitLayer::record_metrics`")]
//! at the tick of your exporter. The label `prefix` (`ipv6/48`) is there for limits of wider
//! [prefixes](RateLimitLayer::prefix) only. A table whose overflows grow is too small.
//!
//! With the feature `tracing`, by the facade of this name, with the target `damper`: refusals at the level debug, with
//! the method, the path, and 64 bytes of the key if that can be displayed; changes of a breaker's state at info, with
//! the host and why; requests that a limit cannot decide on at error. Those without a peer's address are all alike, so of
//! a layer the first is logged, the second, the fourth, the eighth, and so on, with their number.
//!
//! Breakers that you keep tell you themselves: they are not counted.

#![no_std]
#![deny(clippy::std_instead_of_core)]
// With neither trait of services the layers are there, and nobody calls.
#![cfg_attr(not(any(feature = "hyper", feature = "tower")), allow(dead_code, unused_imports))]

extern crate alloc;
extern crate std;

mod circuit_breaker;
mod head;
#[cfg(feature = "tower")]
#[doc(hidden)]
pub mod internal;
mod limit;
mod peer;
mod rate_limit;
mod telemetry;
pub mod wire;

pub use circuit_breaker::{
    AtBodyEnd, AtHead, BodyEnd, Breakers, CircuitBreak, CircuitBreakFuture, CircuitBreakerLayer, Classify, ClassifyEnd,
    Completion, HostListener, PerHost, ResponseHead, ServerErrors, Single, WatchedBody,
};
pub use head::Head;
pub use limit::{
    Answer, ByHeader, ByKey, Decision, Detail, KeyedStatus, Limit, LimitError, Limited, PerClient, Refusal, Standing,
};
#[cfg(feature = "tokio")]
pub use limit::{Wait, WaitFuture};
pub use peer::{MissingPeer, PeerAddress};
pub use rate_limit::{Body, Headers, RateLimit, RateLimitFuture, RateLimitLayer};
