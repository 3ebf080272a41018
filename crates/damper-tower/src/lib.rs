//! Circuit breakers, throttles, rate limits and bulkheads for tower services of any request.
//!
//! | layer | puts a service behind | its error |
//! |---|---|---|
//! | [`BreakerLayer`] | one circuit breaker, or one per key | [`CallError`](damper_core::CallError) |
//! | [`ThrottleLayer`] | one adaptive throttle, or one per key | `CallError<E, Throttled>` |
//! | [`LimitLayer`] | a rate limiter, which refuses or makes wait | `CallError<E, Denied>` |
//! | [`BulkheadLayer`] | one bulkhead, or one per key, which refuses or makes wait | `CallError<E, BulkheadFull>` |
//!
//! They are for what has no `http::Request`: `reqwest::Client` as it is, clients of databases, RPC of your own. For
//! `http::Request`, `damper::http` has layers that know hosts, statuses, bodies and `Retry-After`.
//!
//! Put the breaker outside of what tries again, and the others inside: then a call that used up its tries is one failure,
//! and each try is counted, takes a token and takes a permit. A refusal of any is found in the chain of an error's sources, and
//! damper's retries never retry it.
//!
//! ```text
//! request ─▶ breaker ─▶ retry ─▶ throttle ─▶ limit ─▶ bulkhead ─▶ timeout ─▶ client
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | [`LimitLayer::waiting`](LimitLayer#method.waiting), [`BulkheadLayer::waiting`](BulkheadLayer#method.waiting): calls that wait by tokio's timer |
#![no_std]
#![deny(clippy::std_instead_of_core)]

extern crate alloc;

// | file | idea |
// |---|---|
// | `key` | one for all requests, or one per key |
// | `classify` | the verdict on a result |
// | `waiting` | whether a call waits, and what can wait |
// | `breaker`, `throttle`, `bulkhead`, `limit` | a layer each |

mod breaker;
mod bulkhead;
mod classify;
mod key;
mod limit;
mod throttle;
mod waiting;

pub use breaker::{BreakerFuture, BreakerLayer, BreakerService, SelectBreaker, SharedBreaker};
pub use bulkhead::{BulkheadFuture, BulkheadLayer, BulkheadService, SelectBulkhead, SharedBulkhead};
pub use classify::{ClassifyResult, EveryErr};
pub use key::{Key, One, PerKey};
pub use limit::{LimitFuture, LimitLayer, LimitService, SharedLimiter, WaitingLimiter};
pub use throttle::{SelectThrottle, SharedThrottle, ThrottleFuture, ThrottleLayer, ThrottleService};
pub use waiting::{FindDeadline, NoDeadline, Refusing, Waiting, WaitingService};
