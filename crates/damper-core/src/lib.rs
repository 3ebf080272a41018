//! Lock-free rate limiters and circuit breakers for hot request paths, edge devices and firmware.
//!
//! A limiter or a breaker is a plain value that decides on one atomic word, with no thread, allocation or runtime
//! behind it. Put it in a `static`, a field or an `Arc`. (A limiter is some 340 bytes with its quota, which can be
//! changed while it is used; a breaker is 160.)
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
//! # extern crate damper_core as damper;
//! use damper::{CircuitBreaker, KeyedLimiter, Quota, RateLimiter};
//! use std::net::IpAddr;
//!
//! // One limit for all.
//! static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
//!
//! match LOGINS.check() {
//!     Ok(allowed) => println!("{} left", allowed.remaining()),
//!     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
//! }
//!
//! // One limit for each, in a fixed amount of memory.
//! let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_second(50).burst(100)).build()?;
//! limits.check(&IpAddr::from([192, 0, 2, 7]))?;
//!
//! // A breaker before something that may fail: 5 failures, 30 s, 1 probe.
//! let breaker = CircuitBreaker::default();
//! let reply = breaker.call(|| "pong".parse::<String>())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | [`quota`] | [`Quota`]: what is allowed, in tokens per window and a burst |
//! | [`limit`] | [`RateLimiter`], and its answers; [`Limiter`]: the trait of everything that decides without a key |
//! | [`keyed`] | [`KeyedLimiter`]: a limit per key |
//! | [`breaker`] | [`CircuitBreaker`], and its permits; [`KeyedCircuitBreaker`]: a breaker per key |
//! | [`store`] | [`LruStore`]: a bounded store of any value per key |
//! | [`deadline`] | [`Deadline`]: the time that a piece of work may take, passed on as a value |
//! | [`retry`] | [`Retry`]: tries again, with a [`Backoff`] and within a [`RetryBudget`] |
//! | [`throttle`] | [`AdaptiveThrottle`](throttle::AdaptiveThrottle): refuses calls that an overloaded service would reject; `KeyedThrottle`: per key |
//! | [`concurrency`] | [`Bulkhead`]: how many calls may be in flight at once; [`AdaptiveLimit`]: as the service's latency says; [`KeyedBulkhead`] and [`KeyedAdaptiveLimit`]: per key; `Admission`: and which calls |
//! | [`word32`] | limiter and breaker in words of 32 bits, for firmware: [`RateLimiter32`], [`CircuitBreaker32`] |
//! | [`time`] | [`Clock`], the clocks there are, and how to write one; [`Sleep`](time::Sleep), seeds |
//!
//! The crate [`damper`](https://docs.rs/damper) re-exports all of it, adds limits and breakers for HTTP and gRPC, and has
//! [a guide](https://docs.rs/damper/latest/damper/guide/): how to choose an algorithm, a rate and a burst. Use this one
//! alone for firmware, and for middleware of your own that is not to follow the versions of any protocol's crates. The
//! examples name it `damper`, as everything here is in that crate too.
//!
//! # Features
//!
//! All are additive; without any the crate needs neither `std` nor `alloc`.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | the default clock and hasher; `wait`, `Striped`, `CoarseTicker` |
//! | `alloc` | yes | [`SlidingLog`], [`KeyedLimiter`]s of any size and of several quotas; [`LruStore`], [`KeyedCircuitBreaker`], queues of [`Bulkhead`]s, [`KeyedBulkhead`], [`KeyedAdaptiveLimit`], `Admission`, `Arc`s as clocks and owned permits where the target has atomic pointers |
//! | `defmt` | | `defmt::Format` for answers, states and errors |
//! | `serde` | | quotas in files, as text: `"100/s burst 200"` |
//! | `tokio` | | `acquire(n).await`: futures that wait for tokens or permits by tokio's timer (with `std`) |
//! | `futures` | | streams and sinks whose items wait for tokens |
//!
//! Where the target has no 64-bit atomics, words of 64 bits are changed in critical sections, for which the firmware
//! provides a `critical-section` implementation; those of [`word32`] are not.
#![no_std]
#![deny(clippy::std_instead_of_core)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod breaker;
mod call_error;
#[cfg(feature = "alloc")]
mod capacity;
pub mod concurrency;
pub mod deadline;
#[doc(hidden)]
pub mod internal;
pub mod keyed;
pub mod limit;
pub mod quota;
mod refusal;
pub mod retry;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub mod store;
#[doc(hidden)]
pub mod sync;
pub mod throttle;
pub mod time;
pub mod word32;

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use breaker::KeyedCircuitBreaker;
pub use breaker::{
    BreakerConfig, BreakerConfigError, BreakerStatus, Cause, CircuitBreaker, CircuitOpen, OnStateChange, Permit, State,
    StateChange, Verdict, Window,
};
pub use call_error::CallError;
#[cfg(feature = "alloc")]
pub use capacity::CapacityError;
pub use concurrency::{AdaptiveLimit, Bulkhead, BulkheadFull};
#[cfg(feature = "alloc")]
pub use concurrency::{Admission, AdmissionRequest, Criticality, NotAdmitted};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use concurrency::{KeyedAdaptiveLimit, KeyedBulkhead};
pub use deadline::{Deadline, DeadlineExceeded};
#[cfg(feature = "alloc")]
pub use keyed::KeyedLimiterError;
pub use keyed::{ClientAddress, KeyedLimiter, TierError, WhenFull};
#[cfg(feature = "std")]
pub use limit::Striped;
pub use limit::{
    Acquire, Alignment, Allowed, BudgetError, Denied, FixedWindow, KeyedAlgorithm, LeakyBucket, LeakyQueue, Lease,
    LeaseError, LeasingBucket, LimitSet, LimitSetDenied, LimitSetQuotaError, Limiter, Pausable, RateLimiter,
    Reservation, SlidingCounter, SlidingCounterError, TokenBucket, Usage,
};
#[cfg(feature = "alloc")]
pub use limit::{SlidingLog, SlidingLogError};
pub use quota::{ParseQuotaError, Quota, QuotaError, SetQuotaError};
pub use refusal::is_refusal;
pub use retry::{Backoff, Retry, RetryBudget, RetryError};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use store::LruStore;
pub use time::{Clock, CoarseClock, ManualClock};
#[cfg(feature = "std")]
pub use time::{CoarseTicker, CoarseTickerError, Monotonic, StdClock};
pub use word32::{CircuitBreaker32, RateLimiter32};

/// The README's examples are tests.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
