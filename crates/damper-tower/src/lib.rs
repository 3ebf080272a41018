//! Circuit breakers and rate limits for tower services of any request.
//!
//! | layer | puts a service behind | its error |
//! |---|---|---|
//! | [`BreakerLayer`] | one circuit breaker, or one per key | [`CallError`](damper_core::CallError) |
//! | [`LimitLayer`] | a rate limiter, which refuses or makes wait | [`LimitedError`] |
//!
//! They are for what has no `http::Request`: `reqwest::Client` as it is, clients of databases, RPC of your own. For
//! `http::Request`, `damper::http` has layers that know hosts, statuses, bodies and `Retry-After`.
//!
//! Put the breaker outside of what tries again, and the limit inside: then a call that used up its tries is one failure,
//! and each try takes a token. A refusal of either is found in the chain of an error's sources, and damper's retries never
//! retry it.
//!
//! ```text
//! request ─▶ breaker ─▶ retry ─▶ limit ─▶ timeout ─▶ client
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | [`LimitLayer::waiting`](LimitLayer#method.waiting): limits that wait by tokio's timer |
#![no_std]
#![deny(clippy::std_instead_of_core)]

extern crate alloc;

mod breaker;
mod limit;

pub use breaker::{
    BreakerFuture, BreakerKey, BreakerLayer, BreakerService, ClassifyResult, EveryErr, One, PerKey, SelectBreaker,
    SharedBreaker,
};
pub use limit::{
    FindDeadline, LimitFuture, LimitLayer, LimitService, LimitedError, NoDeadline, Refusing, SharedLimiter, Waiting,
    WaitingLimiter, WaitingService,
};
