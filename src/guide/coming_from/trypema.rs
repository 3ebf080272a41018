//! From trypema 2.2, limits per key in windows, in one process and on Redis.
//!
//! | trypema | damper | difference |
//! |---|---|---|
//! | `LocalRateLimiterProvider::builder()` | [`KeyedLimiter::builder(quota)`](crate::KeyedLimiter::builder) | |
//! | `RateLimit::per_second(10.0)` and `WindowSize::minutes(1)` | [`Quota::per_minute(600)`](crate::Quota::per_minute) | a whole number of tokens in any window: 0.5 a second is `Quota::per_minute(30)` |
//! | `.bucket_size(…)` | none | buckets of a time exist in [`SlidingCounter`](crate::SlidingCounter) only, one a window |
//! | `absolute().inc(key, &rate, n)` | [`check_n(key, n)`](crate::KeyedLimiter::check_n) | all `n` or none; trypema allows all `n` while one is left |
//! | a rate with each call, which sticks to the key | [`by_plan()`](crate::KeyedLimiter::by_plan), [`check_with(key, &plan, n)`](crate::KeyedLimiter::check_with) | the plan of each call is in force at once |
//! | `is_allowed(key)` | [`peek(key)`](crate::KeyedLimiter::peek) | |
//! | `get(key)` | `peek(key)`, [`Usage`](crate::Usage) | what remains instead of what was used |
//! | `RateLimitDecision::Allowed`, `Rejected { retry_after, .. }` | `Ok(`[`Allowed`](crate::Allowed)`)`, `Err(`[`Denied`](crate::Denied)`)` | `?` works; the wait is exact, not best effort |
//! | `set_rate_limit(key, &rate)` | [`set_tier(key, tier)`](crate::KeyedLimiter::set_tier), or [`replan(key, …)`](crate::KeyedLimiter::replan) | |
//! | `set_if(…)`, `set_if_preserve_history(…)` | [`charge`](crate::KeyedLimiter::charge), [`refund`](crate::KeyedLimiter::refund), [`drain`](crate::KeyedLimiter::drain) | by an amount, not to a total |
//! | `delete(key)`, `clear()` | [`reset(key)`](crate::KeyedLimiter::reset), [`clear()`](crate::KeyedLimiter::clear) | |
//! | `.cleanup_interval(…)`, `start_cleanup_loop()` | none | all memory is allocated at the start, and no thread cleans up |
//! | `RedisRateLimiterProvider` | `redis::KeyedRedisLimiter` with `.leasing(Leasing::Never)` | one script for each check, too |
//! | `HybridRateLimiterProvider`, `.sync_interval(d)` | `redis::KeyedRedisLimiter` with its default | a hot process spends only tokens that the server has leased to it, so it never runs ahead of the limit |
//! | `try_inc(key, n)` | `check_n(key, n)` | it does not wait for the server while the lease lasts |
//! | `Err(TrypemaError)` when Redis fails | `.when_down(WhenDown::…)` | a share of the quota, open, or closed |
//!
//! # Differences under load
//!
//! trypema's absolute limit is best effort: threads that look at the same time all pass, so a window may hold more than its
//! limit. damper's check is one compare-and-swap, and the limit holds however threads race.
//! [`guarantees`](crate::guide::guarantees) has the bounds.
//!
//! trypema keeps a queue of buckets for each key. damper keeps one word for each key: a token bucket by default, which
//! lets a burst pass and then refills evenly. [`SlidingCounter`](crate::SlidingCounter) and
//! [`FixedWindow`](crate::FixedWindow) count windows, also per key. For one limit
//! [`SlidingLog`](crate::SlidingLog) is exact, and there is none per key.
//!
//! # Missing in damper
//!
//! - **Suppression.** trypema's second strategy refuses a growing part of the calls at random between a soft limit and a hard
//!   one. damper's limiters refuse only when a quota is spent. An [`AdaptiveThrottle`](crate::throttle::AdaptiveThrottle)
//!   refuses at random too, but by what a service rejects, in its client.
//! - **A compare-and-set of a key's total.**
//! - **Sliding windows per key that are exact to a bucket.** A `SlidingCounter` estimates the previous window's part.
//! - **smol for Redis.** damper's limiters on Redis need tokio.
//!
//! # Missing in trypema
//!
//! It has no bound on the number of keys between two cleanups, no waiting, no reservations, no limits of several levels, no
//! layers, and no clock that a test can move.
//!
//! # A limit per key with trypema
//!
//! ```ignore
//! use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize, local::LocalRateLimiterProvider};
//!
//! let provider = LocalRateLimiterProvider::builder().window_size(WindowSize::minutes(1)?).build()?;
//! let rate = RateLimit::per_minute(600.0)?;
//! match provider.absolute().inc("user:42", &rate, 1) {
//!     RateLimitDecision::Allowed => println!("served"),
//!     RateLimitDecision::Rejected { retry_after, .. } => println!("retry in {retry_after:?}"),
//!     RateLimitDecision::Suppressed { .. } => unreachable!("the limit is absolute"),
//! }
//! ```
//!
//! # A limit per key with damper
//!
//! ```
//! use damper::{KeyedLimiter, Quota, SlidingCounter};
//!
//! # #[cfg(feature = "std")] {
//! let limits = KeyedLimiter::<str>::builder(Quota::per_minute(600)).algorithm::<SlidingCounter>().build()?;
//! match limits.check("user:42") {
//!     Ok(allowed) => println!("served, {} left", allowed.remaining()), // served, 599 left
//!     Err(denied) => println!("{denied}"),                             // rate limit exceeded, retry in 10 s
//! }
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With a quota that the caller knows, as trypema's is:
//!
//! ```
//! use damper::{KeyedLimiter, Plan, Quota};
//!
//! # #[cfg(feature = "std")] {
//! let users = KeyedLimiter::<str>::by_plan().build()?;
//! let free = Plan::new(Quota::per_minute(60))?;
//! let paid = Plan::new(Quota::per_minute(600))?;
//! assert!(users.check_with("user:42", &free, 1).is_ok());
//! assert!(users.check_with("user:43", &paid, 1).is_ok());
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
