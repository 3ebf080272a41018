//! From failsafe and recloser.
//!
//! | failsafe | recloser | damper |
//! |---|---|---|
//! | `Config::new().build()` | `Recloser::custom().build()` | [`CircuitBreaker::new(config)`](crate::CircuitBreaker::new), which can be a `static` |
//! | `failure_policy::consecutive_failures(3, …)` | | [`.failure_threshold(3)`](crate::breaker::BreakerConfigBuilder::failure_threshold) |
//! | `failure_policy::success_rate_over_time_window(0.8, 20, d, …)` | `.error_rate(0.5)` | [`.failure_rate(20)`](crate::breaker::BreakerConfigBuilder::failure_rate), the percentage of failures |
//! | its window of time, its minimum of requests | `.closed_len(100)` | [`.window(Window::last_calls(100))`](crate::breaker::Window) or `Window::last(d)`, [`.minimum_calls(20)`](crate::breaker::BreakerConfigBuilder::minimum_calls) |
//! | `backoff::constant(d)` | `.open_wait(d)` | [`.cooldown(d)`](crate::breaker::BreakerConfigBuilder::cooldown) |
//! | `backoff::exponential(first, most)` | `.open_wait_strategy(…)` | `.cooldown(first)`, [`.cooldown_factor(2.0)`](crate::breaker::BreakerConfigBuilder::cooldown_factor), [`.max_cooldown(most)`](crate::breaker::BreakerConfigBuilder::max_cooldown) |
//! | `backoff::equal_jittered`, `full_jittered` | | [`.cooldown_jitter(percent)`](crate::breaker::BreakerConfigBuilder::cooldown_jitter) |
//! | one probe | `.half_open_len(10)`, `.error_rate_half_open(0.5)` | [`.max_probes(10)`](crate::breaker::BreakerConfigBuilder::max_probes), [`.probe_failure_rate(50)`](crate::breaker::BreakerConfigBuilder::probe_failure_rate) |
//! | `call(…)` | `call(…)` | [`call(…)`](crate::CircuitBreaker::call) |
//! | `call_with(predicate, …)` | `call_with(predicate, …)` | [`call_with(…)`](crate::CircuitBreaker::call_with), whose verdict may also be to ignore a call |
//! | `futures::CircuitBreaker::call` | `AsyncRecloser::call` | [`run(future)`](crate::CircuitBreaker::run) |
//! | `is_call_permitted()`, `on_success()`, `on_error()` | | [`try_acquire()`](crate::CircuitBreaker::try_acquire), and the permit's `success()`, `failure()`, `ignore()` |
//! | `Error::Inner`, `Error::Rejected` | the same | [`CallError::Failed`](crate::CallError), [`CallError::Refused`](crate::CallError), which has `retry_after()` |
//! | `Instrument` | events of `tracing` | [`on_state_change(…)`](crate::CircuitBreaker::on_state_change) |
//!
//! # A breaker with failsafe
//!
//! ```ignore
#![doc = include_str!("before/failsafe.rs")]
//! ```
//!
//! # A breaker with recloser
//!
//! ```ignore
#![doc = include_str!("before/recloser.rs")]
//! ```
//!
//! # Both breakers with damper
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::breaker::Window;
//! use damper::{BreakerConfig, CallError, CircuitBreaker};
//! use std::time::Duration;
//!
//! let _as_with_failsafe = BreakerConfig::builder()
//!     .failure_threshold(3)
//!     .cooldown(Duration::from_secs(10))
//!     .cooldown_factor(2.0)
//!     .max_cooldown(Duration::from_secs(60))
//!     .build()?;
//! let as_with_recloser = BreakerConfig::builder()
//!     .failure_rate(50)
//!     .failure_threshold(u32::MAX) // by the rate alone, as recloser
//!     .window(Window::last_calls(100))
//!     .minimum_calls(100)
//!     .max_probes(10)
//!     .successes_to_close(10)
//!     .probe_failure_rate(50)
//!     .cooldown(Duration::from_secs(30))
//!     .build()?;
//! let breaker = CircuitBreaker::new(as_with_recloser);
//! match breaker.call(|| "42".parse::<u32>()) {
//!     Ok(answer) => println!("{answer}"),
//!     Err(CallError::Refused(open)) => println!("{open}"), // circuit open, next probe in 28 s
//!     Err(CallError::Failed(error)) => println!("{error}"),
//! }
//! # }
//! # Ok::<(), damper::OutOfRange>(())
//! ```
