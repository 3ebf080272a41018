//! Limits before servers and breakers before clients, for everything that speaks HTTP.
//!
//! | where | put there | by |
//! |---|---|---|
//! | axum | [`RateLimitLayer`] around a router or a handler | `Router::layer`, with the feature `axum` |
//! | hyper's servers | `layer.for_peer(address).layer(service)` for each connection | the feature `hyper` |
//! | tower's services, behind hyper-util's `TowerToHyperService` or elsewhere | both layers | the feature `tower` |
//! | hyper-util's client, reqwest, every client that is a service | [`CircuitBreakerLayer`] | `tower`, or `hyper` |
//!
//! A limiter protects what receives load, so it belongs to the server's side; a breaker protects the caller from a sick callee, so it
//! belongs to the client's. Adapters translate and decide nothing: limits are [limiters](crate::RateLimiter) and breakers are
//! [breakers](crate::CircuitBreaker), which can be kept, looked at, and changed.
//!
//! Closures of yours see the [`Head`] of a request, so that they need not know what its body is.

// With neither trait of services the layers are there, and nobody calls.
#![cfg_attr(not(any(feature = "hyper", feature = "tower")), allow(dead_code, unused_imports))]

mod body;
mod call;
mod circuit_break;
mod head;
mod limit;
mod peer;
mod rate_limit;

pub use body::Body;
pub use circuit_break::{
    BodyEnd, BodyEnds, Breakers, CircuitBreak, CircuitBreakFuture, CircuitBreakerLayer, Classify, Ending, HeadArrives,
    Moment, One, PerHost, ServerErrors, Told, WatchedBody,
};
pub use head::{Head, ResponseHead};
pub use limit::{Answer, By, ByHeader, Decision, Limit, LimitError, Limited, PerClient, Refusal, Standing};
#[cfg(feature = "tokio")]
pub use limit::{Wait, WaitTurn};
pub use peer::{MissingPeer, PeerAddress};
pub use rate_limit::{RateLimit, RateLimitFuture, RateLimitLayer};
