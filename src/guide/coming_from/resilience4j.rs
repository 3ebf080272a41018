//! From resilience4j.
//!
//! | resilience4j | damper | difference |
//! |---|---|---|
//! | `CircuitBreaker.of(name, config)` | [`CircuitBreaker::new(config)`](crate::CircuitBreaker::new) | no registry: a `static`, a field, or [`KeyedCircuitBreaker`](crate::breaker) per key |
//! | `failureRateThreshold(50)` | [`.failure_rate(50)`](crate::breaker::BreakerConfigBuilder::failure_rate) | |
//! | `slowCallRateThreshold(50)`, `slowCallDurationThreshold(d)` | [`.slow_rate(50, d)`](crate::breaker::BreakerConfigBuilder::slow_rate) | |
//! | `slidingWindowType(COUNT_BASED)`, `slidingWindowSize(100)` | [`.window(Window::last_calls(100))`](crate::breaker::Window::last_calls) | |
//! | `slidingWindowType(TIME_BASED)`, `slidingWindowSize(10)` | [`.window(Window::last(Duration::from_secs(10)))`](crate::breaker::Window::last) | |
//! | `minimumNumberOfCalls(20)` | [`.minimum_calls(20)`](crate::breaker::BreakerConfigBuilder::minimum_calls) | |
//! | `waitDurationInOpenState(d)` | [`.cooldown(d)`](crate::breaker::BreakerConfigBuilder::cooldown) | no thread changes the state: the next call is the first probe |
//! | `permittedNumberOfCallsInHalfOpenState(3)` | [`.max_probes(3)`](crate::breaker::BreakerConfigBuilder::max_probes), [`.successes_to_close(3)`](crate::breaker::BreakerConfigBuilder::successes_to_close) | |
//! | `maxWaitDurationInHalfOpenState(d)` | [`.max_half_open(d)`](crate::breaker::BreakerConfigBuilder::max_half_open) | |
//! | `recordExceptions`, `ignoreExceptions` | [`call_with(…)`](crate::CircuitBreaker::call_with) and a [`Verdict`](crate::breaker::Verdict) | |
//! | `transitionToForcedOpenState()`, `transitionToDisabledState()` | [`force_open()`](crate::CircuitBreaker::force_open), [`disable()`](crate::CircuitBreaker::disable) | |
//! | `transitionToMetricsOnlyState()` | [`metrics_only()`](crate::CircuitBreaker::metrics_only) | |
//! | `CallNotPermittedException` | [`CircuitOpen`](crate::CircuitOpen) | has `retry_after()` |
//! | `RateLimiterConfig`: `limitForPeriod(50)`, `limitRefreshPeriod(1 s)` | [`Quota::per_second(50)`](crate::Quota::per_second) | tokens refill evenly instead of all at once; for the same behaviour use [`FixedWindow`](crate::FixedWindow) |
//! | `timeoutDuration(d)` | [`acquire(1).within(d)`](crate::RateLimiter::acquire) | |
//! | `BulkheadConfig`: `maxConcurrentCalls(25)`, `maxWaitDuration(d)` | [`Bulkhead::new(25)`](crate::Bulkhead::new) with a queue, `acquire().within(d)` | |
//! | `RetryConfig`: `maxAttempts(3)`, `IntervalFunction` | [`Retry::new(3)`](crate::Retry::new), [`Backoff`](crate::Backoff) | within a [`RetryBudget`](crate::RetryBudget) that all calls share |
//! | `TimeLimiter` | [`Deadline`](crate::Deadline) | for all attempts together, passed on to the next service |
//!
//! **The order differs.** resilience4j's annotations put the retry outermost, so the breaker counts each attempt.
//! damper puts the breaker around the retry: a call that failed three times is one failure, and an open circuit ends it
//! at once. [`retries`](crate::guide::retries) has the reasons.
//!
//! # A guarded call in Java
//!
//! ```java
//! CircuitBreaker breaker = CircuitBreaker.of("backend", CircuitBreakerConfig.custom()
//!     .failureRateThreshold(50)
//!     .slidingWindowSize(100)
//!     .minimumNumberOfCalls(20)
//!     .waitDurationInOpenState(Duration.ofSeconds(30))
//!     .permittedNumberOfCallsInHalfOpenState(3)
//!     .build());
//! Bulkhead bulkhead = Bulkhead.of("backend", BulkheadConfig.custom().maxConcurrentCalls(25).build());
//! Retry retry = Retry.of("backend", RetryConfig.custom()
//!     .maxAttempts(3)
//!     .intervalFunction(IntervalFunction.ofExponentialRandomBackoff(100, 2.0))
//!     .build());
//!
//! Supplier<String> guarded = Decorators.ofSupplier(backend::fetch)
//!     .withBulkhead(bulkhead)
//!     .withCircuitBreaker(breaker)
//!     .withRetry(retry)
//!     .decorate();
//! ```
//!
//! # The guarded call with damper
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::breaker::Window;
//! use damper::{Backoff, BreakerConfig, Bulkhead, CircuitBreaker, Retry, RetryBudget};
//! use std::time::Duration;
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for a fifth of the calls, and 10 a second
//!
//! let config = BreakerConfig::builder()
//!     .failure_rate(50)
//!     .failure_threshold(u32::MAX) // by the rate alone, as Resilience4j
//!     .window(Window::last_calls(100))
//!     .minimum_calls(20)
//!     .cooldown(Duration::from_secs(30))
//!     .max_probes(3)
//!     .successes_to_close(3)
//!     .build()?;
//! let breaker = CircuitBreaker::new(config);
//! let bulkhead = Bulkhead::new(25);
//! let retry = Retry::new(3).backoff(Backoff::exponential(Duration::from_millis(100))).budget(&BUDGET);
//!
//! let fetch = || "42".parse::<u32>();
//! let answer = breaker.call(|| retry.call(|_attempt| bulkhead.call(fetch)))?;
//! assert_eq!(answer, 42);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
