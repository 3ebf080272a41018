//! From tower-resilience.
//!
//! `damper::tower` (feature `tower`) has layers for services of any request type, and `damper::http` those for
//! `http::Request`.
//!
//! | tower-resilience | damper | difference |
//! |---|---|---|
//! | `CircuitBreakerLayer::builder()` | `tower::GateLayer::new(breaker)` | you keep the breaker: a `static` or an `Arc`, without a lock |
//! | `.failure_rate_threshold(0.5)` | [`.failure_rate(50)`](crate::breaker::BreakerConfigBuilder::failure_rate) | in percent |
//! | `.sliding_window_size(100)` | [`.window(Window::last_calls(100))`](crate::breaker::Window::last_calls) | |
//! | `SlidingWindowType::TimeBased`, `.sliding_window_duration(d)` | [`.window(Window::last(d))`](crate::breaker::Window::last) | |
//! | `.consecutive_failures(5)` | [`.failure_threshold(5)`](crate::breaker::BreakerConfigBuilder::failure_threshold) | |
//! | `.minimum_number_of_calls(20)` | [`.minimum_calls(20)`](crate::breaker::BreakerConfigBuilder::minimum_calls) | |
//! | `.slow_call_duration_threshold(d)`, `.slow_call_rate_threshold(0.5)` | [`.slow_rate(50, d)`](crate::breaker::BreakerConfigBuilder::slow_rate) | |
//! | `.wait_duration_in_open(d)` | [`.cooldown(d)`](crate::breaker::BreakerConfigBuilder::cooldown) | it can grow: `cooldown_factor`, with jitter |
//! | `.permitted_calls_in_half_open(3)` | [`.max_probes(3)`](crate::breaker::BreakerConfigBuilder::max_probes) | |
//! | `.failure_classifier(…)`, `.classify_response(…)` | `GateLayer::classify(…)` | |
//! | `.on_state_transition(…)` | [`on_state_change(…)`](crate::CircuitBreaker::on_state_change) | called outside any lock |
//! | a manual handle | [`force_open`](crate::CircuitBreaker::force_open), [`force_closed`](crate::CircuitBreaker::force_closed), [`reset`](crate::CircuitBreaker::reset) | on the breaker itself |
//! | `CircuitBreakerError::OpenCircuit` | [`CallError::Refused`](crate::CallError) | has `retry_after()` |
//! | `BulkheadLayer`, `.max_concurrent_calls(64)` | `tower::GateLayer::limit(Bulkhead::new(64))` | refuses by default; waits by `.waiting(longest)` |
//! | the rate limiter's layer | `tower::GateLayer::limit` | |
//! | the adaptive concurrency limit | [`AdaptiveLimit`](crate::AdaptiveLimit), `http::ClientConcurrencyLayer::adaptive` | |
//! | the retry layer | [`Retry`](crate::Retry), `http::RetryLayer` | the budget is on by default in a client's stack |
//! | the hedging layer | `retry::Hedge`, `http::HedgeLayer` | |
//! | the time limiter | [`Deadline`](crate::Deadline), `http::DeadlineLayer` | one deadline for all attempts |
//! | cache, reconnect, chaos, fallback, coalesce | none | other crates do these well |
//!
//! # A breaker with tower-resilience
//!
//! ```ignore
#![doc = include_str!("before/tower_resilience.rs")]
//! ```
//!
//! # A breaker with damper
//!
//! ```
//! # #[cfg(all(feature = "tower", feature = "tokio"))] {
//! use damper::breaker::Window;
//! use damper::tower::GateLayer;
//! use damper::{BreakerConfig, Bulkhead, CircuitBreaker};
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = BreakerConfig::builder()
//!     .failure_rate(50)
//!     .failure_threshold(u32::MAX) // by the rate alone, as tower-resilience
//!     .window(Window::last_calls(100))
//!     .minimum_calls(20)
//!     .cooldown(Duration::from_secs(30))
//!     .max_probes(3)
//!     .build()?;
//! let breaker = Arc::new(CircuitBreaker::new(config)); // keep it to read its state
//! let query = service_fn(async |query: &'static str| query.parse::<u32>());
//! let mut database = ServiceBuilder::new().layer(GateLayer::new(Arc::clone(&breaker))).service(query);
//! assert_eq!(database.ready().await?.call("42").await?, 42);
//!
//! let _bulkhead = GateLayer::limit(Arc::new(Bulkhead::new(64)));
//! # Ok(())
//! # }
//! # run().unwrap(); }
//! ```
