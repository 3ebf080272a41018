//! From rate-net 2.1, throttle-net 2.0 and better-bucket 1.1, which share an author and a bucket.
//!
//! | rate-net, throttle-net, better-bucket | damper | difference |
//! |---|---|---|
//! | `Bucket`, `DirectLimiter`, `Throttle` | [`RateLimiter`](crate::RateLimiter) | can be a `static` |
//! | `RateLimiter::per_second(100)`, `PerKey` | [`KeyedLimiter`](crate::KeyedLimiter) | the keys have a type, so a text never equals an id |
//! | `Decision::Allow`, `Decision::Deny { retry_after }` | `Ok(`[`Allowed`](crate::Allowed)`)`, `Err(`[`Denied`](crate::Denied)`)` | `?` works |
//! | `try_acquire(…)`, a `bool` | `check().is_ok()` | |
//! | `acquire_with_timeout(…)`, `AsyncLimiter` | [`acquire(n)`](crate::RateLimiter::acquire) | waiters are served first come, first served |
//! | `acquire_up_to(n)` | [`take_up_to(n)`](crate::RateLimiter::take_up_to) | |
//! | `reserve(n, max_wait)` | [`reserve_within(n, max_wait)`](crate::RateLimiter::reserve_within) | dropping it keeps the tokens taken; `cancel()` or `settle(used)` gives back |
//! | `refund(n)` | [`refund(n)`](crate::RateLimiter::refund) | |
//! | `algorithm(Algorithm::…)` | [`algorithm::<FixedWindow>()`](crate::keyed::KeyedLimiterBuilder::algorithm) | a type, chosen when compiling |
//! | `quota_for(…)`: any quota for any key | [`by_plan()`](crate::KeyedLimiter::by_plan) | the quota comes with the call; with `tiers(…)` a key has one of at most fifteen |
//! | `Eviction::capacity(max_keys)` | [`capacity(…)`](crate::keyed::KeyedLimiterBuilder::capacity) | all memory is allocated at the start: 51 bytes a key; keys are not stored |
//! | `Eviction::idle(ttl)` | none | a slot whose owner owes nothing is vacant |
//! | a ledger for the debts of evicted keys | [`WhenFull::SharedOverflow`](crate::WhenFull::SharedOverflow) | new keys share buckets, so some are refused early; no debt is forgotten |
//! | `Overflow::FailClosed`, `WhenFull::RefuseNew` | [`WhenFull::DenyNew`](crate::WhenFull::DenyNew) | |
//! | `Overflow::Forget`, `WhenFull::ForgetDebt` | [`WhenFull::EvictLeastIndebted`](crate::WhenFull::EvictLeastIndebted) | |
//! | `Key::ip_prefix(…)` | [`ClientAddress`](crate::ClientAddress) | the `/64` of an IPv6 address, the IPv4 address that is mapped into one |
//! | `max_key_len`, `digest_keys_longer_than` | none | a key of any length takes the same memory |
//! | `peek(…)` | [`peek(…)`](crate::KeyedLimiter::peek) | |
//! | `MultiLimiter`, `Layered`, `Hybrid` | [`LimitSet`](crate::LimitSet) | all or nothing |
//! | `CoarseClock` | [`CoarseClock`](crate::time::CoarseClock) | |
//! | `Gcra`, `GcraParams`, `BucketCore` without `std` | the same types on a clock of your own, or `word32` | |
//! | `tower::RateLimitLayer`, `headers` | `http::RateLimitLayer` | trusted proxies by [address](crate::guide::http) |
//! | `Retry`, `RetryBudget`, `Backoff` | [`Retry`](crate::Retry), [`RetryBudget`](crate::RetryBudget), [`Backoff`](crate::Backoff) | |
//! | `CircuitBreaker`, `Bulkhead`, `AdaptiveLimiter` | the same names, [`AdaptiveLimit`](crate::AdaptiveLimit) | |
//!
//! # A limit per key with rate-net
//!
//! ```ignore
//! use rate_net::{Decision, RateLimiter};
//!
//! let limiter = RateLimiter::per_second(100);
//! match limiter.check("user:42") {
//!     Decision::Allow => println!("served"),
//!     Decision::Deny { retry_after } => println!("retry in {retry_after:?}"),
//!     _ => {}
//! }
//! ```
//!
//! # A limit per key with damper
//!
//! ```
//! use damper::{KeyedLimiter, Quota};
//!
//! # #[cfg(feature = "std")] {
//! let limits = KeyedLimiter::<str>::builder(Quota::per_second(100)).build().unwrap();
//! match limits.check("user:42") {
//!     Ok(_) => println!("served"),
//!     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 10 ms
//! }
//! # }
//! ```
