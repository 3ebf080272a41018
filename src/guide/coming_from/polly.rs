//! From Polly.
//!
//! | Polly 8 | damper | difference |
//! |---|---|---|
//! | `AddCircuitBreaker(options)` | [`CircuitBreaker::new(config)`](crate::CircuitBreaker::new) | |
//! | `FailureRatio = 0.1` | [`.failure_rate(10)`](crate::breaker::BreakerConfigBuilder::failure_rate) | in percent |
//! | `SamplingDuration` | [`.window(Window::last(d))`](crate::breaker::Window::last) | a sliding window instead of a restarting one |
//! | `MinimumThroughput = 100` | [`.minimum_calls(100)`](crate::breaker::BreakerConfigBuilder::minimum_calls) | |
//! | `BreakDuration`, `BreakDurationGenerator` | [`.cooldown(d)`](crate::breaker::BreakerConfigBuilder::cooldown), [`.cooldown_factor(2.0)`](crate::breaker::BreakerConfigBuilder::cooldown_factor) | |
//! | `ShouldHandle` | [`call_with(…)`](crate::CircuitBreaker::call_with) and a [`Verdict`](crate::breaker::Verdict) | |
//! | `OnOpened`, `OnClosed`, `OnHalfOpened` | [`on_state_change(…)`](crate::CircuitBreaker::on_state_change) | |
//! | `CircuitBreakerManualControl`: `IsolateAsync`, `CloseAsync` | [`force_open()`](crate::CircuitBreaker::force_open), [`reset()`](crate::CircuitBreaker::reset) | |
//! | `CircuitBreakerStateProvider` | [`state()`](crate::CircuitBreaker::state), [`status()`](crate::CircuitBreaker::status) | |
//! | `BrokenCircuitException` | [`CircuitOpen`](crate::CircuitOpen) | has `retry_after()` |
//! | `AddRetry(options)`: `MaxRetryAttempts = 3` | [`Retry::new(4)`](crate::Retry::new) | counts attempts, the first one too |
//! | `BackoffType.Exponential`, `Delay`, `UseJitter` | [`Backoff::exponential(d)`](crate::Backoff::exponential) | full jitter by default |
//! | `AddTimeout(d)` inside the retry | `attempt_timeout(d)` of `http::client_stack` | |
//! | `AddTimeout(d)` outside the retry | [`Retry::deadline(Deadline::after(d))`](crate::Retry::deadline) | |
//! | `AddConcurrencyLimiter(25, 50)` | [`Bulkhead::new(25).queue(50)`](crate::Bulkhead::new) | |
//! | `AddRateLimiter(new TokenBucketRateLimiter(…))` | [`RateLimiter`](crate::RateLimiter) | |
//! | `PartitionedRateLimiter` | [`KeyedLimiter`](crate::KeyedLimiter) | fixed memory |
//! | `RateLimiterRejectedException` | [`Denied`](crate::Denied), [`BulkheadFull`](crate::BulkheadFull) | |
//! | `AddHedging(options)` | `retry::Hedge` | within a budget |
//! | `AddFallback(options)` | `match` | |
//!
//! Polly has no retry budget. damper's [`RetryBudget`](crate::RetryBudget) limits the retries of all callers together
//! to a part of their calls, so retries cannot multiply the load in an outage. Only a call that no server has processed
//! has up to two free retries.
//!
//! # A pipeline in C#
//!
//! ```csharp
//! ResiliencePipeline pipeline = new ResiliencePipelineBuilder()
//!     .AddCircuitBreaker(new CircuitBreakerStrategyOptions
//!     {
//!         FailureRatio = 0.5,
//!         SamplingDuration = TimeSpan.FromSeconds(30),
//!         MinimumThroughput = 20,
//!         BreakDuration = TimeSpan.FromSeconds(5),
//!     })
//!     .AddRetry(new RetryStrategyOptions
//!     {
//!         MaxRetryAttempts = 3,
//!         BackoffType = DelayBackoffType.Exponential,
//!         Delay = TimeSpan.FromMilliseconds(100),
//!         UseJitter = true,
//!     })
//!     .AddConcurrencyLimiter(permitLimit: 25, queueLimit: 50)
//!     .Build();
//!
//! string page = await pipeline.ExecuteAsync(async token => await client.GetStringAsync(url, token));
//! ```
//!
//! # The pipeline with damper
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! use damper::breaker::Window;
//! use damper::{Backoff, BreakerConfig, Bulkhead, CallError, CircuitBreaker, Retry, RetryBudget};
//! use std::time::Duration;
//!
//! static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for a fifth of the calls, and 10 a second
//!
//! # async fn fetch() -> Result<String, std::io::Error> { Ok("page".to_owned()) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = BreakerConfig::builder()
//!     .failure_rate(50)
//!     .failure_threshold(u32::MAX) // by the rate alone, as Polly
//!     .window(Window::last(Duration::from_secs(30)))
//!     .minimum_calls(20)
//!     .cooldown(Duration::from_secs(5))
//!     .build()?;
//! let breaker = CircuitBreaker::new(config);
//! let retry = Retry::new(4).backoff(Backoff::exponential(Duration::from_millis(100))).budget(&BUDGET);
//! let bulkhead = Bulkhead::new(25).queue(50);
//!
//! let attempt = async |_attempt| {
//!     match bulkhead.acquire().await {
//!         Ok(_permit) => fetch().await.map_err(CallError::Failed),
//!         Err(full) => Err(CallError::Refused(full)),
//!     }
//! };
//! let page = breaker.run(retry.run(attempt).into_future()).await?;
//! assert_eq!(page, "page");
//! # Ok(())
//! # }
//! # run().unwrap(); }
//! ```
