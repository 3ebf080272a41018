//! From seatbelt 0.11, Microsoft's middleware for resilience, and `seatbelt_http`.
//!
//! seatbelt has layers around an operation, and keeps their state inside. damper has values that you keep, and layers
//! that ask them: `damper::tower` for any tower service, `damper::http` for `http::Request`.
//!
//! | seatbelt | damper | difference |
//! |---|---|---|
//! | `ResilienceContext::new(&clock)` | [`with_clock(…)`](crate::CircuitBreaker::with_clock) of each value | without it the value has the default clock |
//! | `Recovery`, `RecoveryInfo::{retry, unavailable, never, unknown}` | [`Verdict`](crate::breaker::Verdict) for breakers, [`Failure`](crate::retry::Failure) for retries | |
//! | `RecoveryInfo::retry().delay(d)` | [`Failure::retry_after(…)`](crate::retry::Failure::retry_after) | `http::RetryLayer` reads `Retry-After` itself |
//! | `Breaker::layer("name", &context)` | `tower::GateLayer::new(breaker)`, `http::CircuitBreakerLayer` | you keep the breaker: a `static` or an `Arc`, without a lock |
//! | `.failure_threshold(0.1)` | [`.failure_rate(10)`](crate::breaker::BreakerConfigBuilder::failure_rate) | in percent |
//! | `.min_throughput(100)` | [`.minimum_calls(100)`](crate::breaker::BreakerConfigBuilder::minimum_calls) | |
//! | `.sampling_duration(d)` | [`.window(Window::last(d))`](crate::breaker::Window::last) | or the [last calls](crate::breaker::Window::last_calls) |
//! | `.break_duration(d)` | [`.cooldown(d)`](crate::breaker::BreakerConfigBuilder::cooldown) | it can grow, with jitter, and the server's `Retry-After` extends it |
//! | `HalfOpenMode::quick()` | one probe, the default | |
//! | `HalfOpenMode::progressive(d)` | [`.max_probes(n)`](crate::breaker::BreakerConfigBuilder::max_probes), [`.successes_to_close(n)`](crate::breaker::BreakerConfigBuilder::successes_to_close), [`.probe_failure_rate(p)`](crate::breaker::BreakerConfigBuilder::probe_failure_rate) | a number of probes first; then [`.ramp(Ramp::steps(d))`](crate::breaker::BreakerConfigBuilder::ramp) lets through 0.1 to 50 % of the calls in stages |
//! | `AbandonedPolicy::ignore()` | drop the permit | the default |
//! | `AbandonedPolicy::as_failures()` | [`.abandoned_probes_fail()`](crate::breaker::BreakerConfigBuilder::abandoned_probes_fail) | for probes; otherwise record a [`Verdict`](crate::breaker::Verdict) before the drop |
//! | `.breaker_id(…)` | [`KeyedCircuitBreaker`](crate::KeyedCircuitBreaker), `http::CircuitBreakerLayer::per_host` | in bounded memory |
//! | `.on_opened(…)`, `.on_closed(…)` | [`on_state_change(…)`](crate::CircuitBreaker::on_state_change) | called without a lock |
//! | `.rejected_input_error(…)` | [`CallError::Refused`](crate::CallError) | a typed error that has `retry_after()` |
//! | `Retry::layer("name", &context)` | [`Retry`](crate::Retry), `http::RetryLayer` | |
//! | `.max_retry_attempts(3)` | [`Retry::new(4)`](crate::Retry::new) | counts attempts, the first one too |
//! | `.backoff(Backoff::Exponential)`, `.base_delay(d)`, `.max_delay(d)` | [`Backoff::exponential(d)`](crate::Backoff::exponential), [`.max_delay(d)`](crate::Backoff::max_delay) | full jitter by default |
//! | `.clone_input()`, `.restore_input(…)` | a closure that makes each attempt | `http::RetryLayer` sends idempotent requests again |
//! | `.handle_unavailable(true)` | a classifier of your own | |
//! | `Hedging::layer(…)`, `.hedging_delay(d)` | `retry::Hedge`, `http::HedgeLayer` | the delay is measured, and a budget bounds the extra calls |
//! | `Timeout::layer(…)` inside the retry | `attempt_timeout(d)` of `http::client_stack` | |
//! | `Timeout::layer(…)` around it | [`Deadline`](crate::Deadline), `http::ClientDeadlineLayer` | one for all attempts, sent on to the next service |
//! | `BreakerConfig`, `RetryConfig` with `serde` | `damper::config` | checked, and changed in use |
//! | feature `metrics`: events of OpenTelemetry | `damper::metrics` | counts and states, by the crate `metrics` |
//! | `Clock::new_frozen()`, `ClockControl` | [`ManualClock`](crate::ManualClock) | |
//!
//! # The order differs
//!
//! seatbelt recommends the retry around the breaker, so that the breaker counts each attempt. damper puts the breaker
//! around the retry: a call that used up its attempts is one failure, and an open circuit ends it at once.
//! [`retries`](crate::guide::retries) has the reasons.
//!
//! # Missing in damper
//!
//! - **Fallbacks.** damper returns a typed refusal, and the caller matches on it.
//! - **Injected faults and latency.** [`testing`](crate::guide::testing) makes refusals on demand, but does not make a
//!   service slow or broken.
//! - **A threshold for abandoned calls.** seatbelt opens a breaker of which all calls were cancelled, as a hedge cancels
//!   those of a dead host. damper's breaker learns nothing from them. In damper's stacks the hedge is inside the breaker,
//!   and the attempt that wins is the verdict.
//! - **Layers without tokio by default.** Layers that wait use tokio's timer, or a [`Sleep`](crate::time::Sleep) of yours.
//!
//! # Missing in seatbelt
//!
//! It has no rate limits, bulkheads, adaptive limits or throttles, and no retry budget, so retries can multiply the load
//! in an outage. Its breaker has a lock around its state.
//!
//! # A guarded call with seatbelt
//!
//! ```ignore
//! use layered::{Execute, Service, Stack};
//! use seatbelt::breaker::Breaker;
//! use seatbelt::retry::Retry;
//! use seatbelt::{RecoveryInfo, ResilienceContext};
//! use std::time::Duration;
//!
//! let context = ResilienceContext::new(&clock).name("orders");
//! let service = (
//!     Retry::layer("retry", &context)
//!         .clone_input()
//!         .max_retry_attempts(2)
//!         .base_delay(Duration::from_millis(100))
//!         .recovery_with(|answer: &Result<u32, String>, _| match answer {
//!             Ok(_) => RecoveryInfo::never(),
//!             Err(_) => RecoveryInfo::retry(),
//!         }),
//!     Breaker::layer("breaker", &context)
//!         .failure_threshold(0.5)
//!         .min_throughput(20)
//!         .sampling_duration(Duration::from_secs(30))
//!         .break_duration(Duration::from_secs(5))
//!         .recovery_with(|answer: &Result<u32, String>, _| match answer {
//!             Ok(_) => RecoveryInfo::never(),
//!             Err(_) => RecoveryInfo::retry(),
//!         })
//!         .rejected_input_error(|_, _| "circuit open".to_owned()),
//!     Execute::new(fetch),
//! )
//!     .into_service();
//! let answer = service.execute("42".to_owned()).await;
//! ```
//!
//! # The guarded call with damper
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! use damper::breaker::Window;
//! use damper::{Backoff, BreakerConfig, CircuitBreaker, Retry, RetryBudget};
//! use std::time::Duration;
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for a fifth of the calls, and 10 a second
//!
//! async fn fetch(order: &str) -> Result<u32, std::num::ParseIntError> {
//!     order.parse()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = BreakerConfig::builder()
//!     .failure_rate(50)
//!     .failure_threshold(u32::MAX) // by the rate alone, as seatbelt
//!     .window(Window::last(Duration::from_secs(30)))
//!     .minimum_calls(20)
//!     .cooldown(Duration::from_secs(5))
//!     .build()?;
//! let breaker = CircuitBreaker::new(config);
//! let retry = Retry::new(3).backoff(Backoff::exponential(Duration::from_millis(100))).budget(&BUDGET);
//!
//! let answer = breaker.run(retry.run(async |_attempt| fetch("42").await).into_future()).await?;
//! assert_eq!(answer, 42);
//! # Ok(())
//! # }
//! # run().unwrap(); }
//! ```
