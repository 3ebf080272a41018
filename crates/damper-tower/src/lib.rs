//! Circuit breakers, throttles, pacing, rate limits and bulkheads for tower services of any request.
//!
//! The crate [`damper`](https://docs.rs/damper) has it as `damper::tower`, and the primitives of
//! [`damper-core`](https://docs.rs/damper-core) beside it. These layers suit services without an `http::Request`: `reqwest::Client` itself,
//! clients of databases, RPC of your own. For `http::Request`, [`damper-http`](https://docs.rs/damper-http) has layers that know hosts,
//! statuses, bodies and `Retry-After`.
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
//! use damper::tower::{BreakerLayer, BulkheadLayer};
//! use damper::{BreakerConfig, Bulkhead, CallError, CircuitBreaker};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! static BREAKER: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT); // 5 failures, 30 s, 1 probe
//! static POOL: Bulkhead = Bulkhead::new(64);
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let mut database = ServiceBuilder::new()
//!     .layer(BreakerLayer::new(&BREAKER))
//!     .layer(BulkheadLayer::new(&POOL))
//!     .service(service_fn(async |query: &'static str| query.parse::<u32>()));
//! match database.ready().await.expect("it is always ready").call("42").await {
//!     Ok(answer) => println!("{answer}"),
//!     Err(CallError::Refused(open)) => println!("{open}"), // circuit open, next probe in 28 s
//!     Err(CallError::Failed(error)) => println!("{error}"),
//! }
//! # }
//! ```
//!
//! # Layers
//!
//! | layer | puts a service behind | its error |
//! |---|---|---|
//! | [`BreakerLayer`] | one circuit breaker, or one per key | [`CallError`](damper_core::CallError) |
//! | [`ThrottleLayer`] | one adaptive throttle, or one per key | `CallError<E, Throttled>` |
//! | [`PacingLayer`] | a pacer, which makes wait what the server's limit would reject | `RetryError<E>` |
//! | [`LimitLayer`] | a rate limiter, which refuses or makes wait | `CallError<E, Denied>` |
//! | [`BulkheadLayer`] | one bulkhead, or one per key, which refuses or makes wait | `CallError<E, BulkheadFull>` |
//!
//! Put the breaker around the retries and the others inside them. Then a call whose attempts all failed is one failure, and each
//! attempt is counted, takes a token and takes a permit. damper's retries never retry a refusal of these layers, which they find in the
//! chain of an error's sources.
//!
//! ```text
//! request ─▶ breaker ─▶ retry ─▶ pacing ─▶ throttle ─▶ limit ─▶ bulkhead ─▶ timeout ─▶ client
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | `PacingLayer::new`, [`LimitLayer::waiting`](LimitLayer#method.waiting), [`BulkheadLayer::waiting`](BulkheadLayer#method.waiting): calls that wait by tokio's timer |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

extern crate alloc;

// | file | idea |
// |---|---|
// | `key` | one for all requests, or one per key |
// | `classify` | the verdict on a result |
// | `waiting` | whether a call waits, and what can wait |
// | `breaker`, `throttle`, `pacing`, `bulkhead`, `limit` | a layer each |

mod breaker;
mod bulkhead;
mod classify;
mod key;
mod limit;
mod pacing;
mod throttle;
mod waiting;

pub use breaker::{BreakerFuture, BreakerLayer, BreakerService, SelectBreaker, SharedBreaker};
pub use bulkhead::{BulkheadFuture, BulkheadLayer, BulkheadService, SelectBulkhead, SharedBulkhead};
pub use classify::{ClassifyResult, EveryErr};
pub use key::{Key, One, PerKey};
pub use limit::{LimitFuture, LimitLayer, LimitService, OneToken, RequestCost, SharedLimiter, WaitingLimiter};
pub use pacing::{PaceOnly, PacingFuture, PacingLayer, PacingMode, PacingService, Repeating, SelectPacer, SelectedBy};
pub use throttle::{SelectThrottle, SharedThrottle, ThrottleFuture, ThrottleLayer, ThrottleService};
pub use waiting::{FindDeadline, NoDeadline, Refusing, Waiting, WaitingService};
