//! Circuit breakers, throttles, pacing, rate limits and bulkheads for tower services of any request.
//!
//! The crate [`damper`](https://docs.rs/damper) has it as `damper::tower`, and the primitives of
//! [`damper-core`](https://docs.rs/damper-core) beside it. These layers suit services without an `http::Request`: `reqwest::Client` itself,
//! clients of databases, RPC of your own. For `http::Request`, [`damper-http`](https://docs.rs/damper-http) has layers that know hosts,
//! statuses, bodies and `Retry-After`.
//!
//! ```
//! # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
//! use damper::tower::GateLayer;
//! use damper::{BreakerConfig, Bulkhead, CallError, CircuitBreaker};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! static BREAKER: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT); // 5 failures, 30 s, 1 probe
//! static POOL: Bulkhead = Bulkhead::new(64);
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let mut database = ServiceBuilder::new()
//!     .layer(GateLayer::new(&BREAKER))
//!     .layer(GateLayer::limit(&POOL))
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
//! There is one layer, [`GateLayer`], for all [gates](damper_core::gate), those of your own too. Its constructors say what a gate learns
//! from results:
//!
//! | constructor | puts a service behind | its error |
//! |---|---|---|
//! | [`GateLayer::new`] | a circuit breaker or a throttle, which learns from errors, or one per key | [`CallError<E>`](damper_core::CallError), `CallError<E, Throttled>` |
//! | [`GateLayer::limit`] | a rate limiter, a bulkhead or an adaptive limit, which refuses or makes wait, or one per key | `CallError<E, Denied>`, `CallError<E, BulkheadFull>` |
//! | [`GateLayer::at`] | any gate, by the rules of another protocol: a `ClientGate` of `damper::http` | that of the protocol |
//!
//! [`PacingLayer`] makes wait what the server's limit would reject, and makes rejected calls again (`RetryError<E>`). Without retries it is a
//! `GateLayer` too, of a [gate at which calls sleep](damper_core::gate::Paces).
//!
//! Put the breaker around the retries and the others inside them. Then a call whose attempts all failed is one failure, and each
//! attempt is counted, takes a token and takes a permit. damper's retries find a refusal of these layers in the chain of an error's
//! sources. They do not retry it, unless a `when` of your own says so.
//!
//! ```text
//! request ─▶ breaker ─▶ retry ─▶ pacing ─▶ throttle ─▶ limit ─▶ bulkhead ─▶ timeout ─▶ client
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `hyper` | services of hyper behind a gate |
//! | `tonic` | the names of tonic's services behind a gate |
//! | `tokio` | `PacingLayer::new`, [`GateLayer::waiting`](GateLayer#method.waiting): calls that wait by tokio's timer |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

extern crate alloc;

// | file | idea |
// |---|---|
// | `layer`, `service`, `future` | a layer for every gate, its services, and their calls |
// | `hyper_service` | services of hyper behind a gate |
// | `side` | where a gate stands: what a protocol makes of questions, results and refusals |
// | `plain` | the side of services of any request |
// | `judge` | how a call of any service ended |
// | `unwinding` | a permit while the code of a service runs |
// | `pacing` | the side of calls that sleep at a pacer, and a layer that makes rejected ones again |

mod future;
#[cfg(feature = "hyper")]
mod hyper_service;
#[doc(hidden)]
pub mod internal;
mod judge;
mod layer;
mod pacing;
mod plain;
mod service;
mod side;
mod unwinding;

pub use judge::{ClassifyResult, OkOrErr};
pub use layer::{GateLayer, PlainLayer};
pub use pacing::PacingLayer;
pub use plain::Plain;
pub use service::GateService;
