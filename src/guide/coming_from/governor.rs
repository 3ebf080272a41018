//! From governor and `tower_governor`.
//!
//! governor's GCRA and damper's token bucket allow the same calls. In both, a quota of 50 a second has a burst of 50 by
//! default.
//!
//! | governor | damper | difference |
//! |---|---|---|
//! | `Quota::per_second(nonzero!(50u32))` | [`Quota::per_second(50)`](crate::Quota::per_second) | any `u32`; 0 refills nothing |
//! | `.allow_burst(nonzero!(100u32))` | [`.burst(100)`](crate::Quota::burst) | |
//! | `Quota::with_period(interval)` | [`Quota::every(interval)`](crate::Quota::every) | an error instead of `None` |
//! | `RateLimiter::direct(quota)` | [`RateLimiter::new(quota)`](crate::RateLimiter::new) | `const`: it can be a `static` |
//! | `RateLimiter::direct_with_clock(quota, clock)` | [`RateLimiter::with_clock(quota, clock)`](crate::RateLimiter::with_clock) | |
//! | `check()` | [`check()`](crate::RateLimiter::check) | `Ok` has `remaining()` |
//! | `check_n(n)`, a `Result` in a `Result` | [`check_n(n)`](crate::RateLimiter::check_n) | one `Result`; [`exceeds_burst()`](crate::Denied::exceeds_burst) of the error |
//! | `until.wait_time_from(clock.now())` | [`denied.retry_after()`](crate::Denied::retry_after) | no second clock |
//! | `until_ready().await`, `until_n_ready(n).await` | [`acquire(n).await`](crate::RateLimiter::acquire) | first come, first served; a bound by `within(…)`, jitter by `jitter(…)` |
//! | `stream.ratelimit_stream(&limiter)` | `limiter.pace(stream)` (feature `futures`) | |
//! | `RateLimiter::keyed(quota)`, `dashmap`, `hashmap` | [`KeyedLimiter::builder(quota)`](crate::KeyedLimiter) | memory is fixed at construction |
//! | `check_key(&key)` | [`check(&key)`](crate::KeyedLimiter::check) | |
//! | `retain_recent()`, `shrink_to_fit()` | nothing to call | idle keys make room by themselves |
//! | `StateInformationMiddleware` | `remaining()` of [`Allowed`](crate::Allowed) | computed only if asked |
//! | `FakeRelativeClock` | [`ManualClock`](crate::ManualClock) | |
//! | a new limiter for a new quota | [`set_quota(quota)`](crate::RateLimiter::set_quota) | live, keeps the taken tokens |
//!
//! # Limiters with governor
//!
//! ```ignore
#![doc = include_str!("before/governor.rs")]
//! ```
//!
//! # Limiters with damper
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{KeyedLimiter, Quota, RateLimiter};
//! use std::net::IpAddr;
//!
//! let quota = Quota::per_second(50).burst(100);
//! let limiter = RateLimiter::new(quota);
//! match limiter.check() {
//!     Ok(allowed) => println!("allowed, {} left", allowed.remaining()),
//!     Err(denied) => println!("retry in {:?}", denied.retry_after()),
//! }
//! match limiter.check_n(5) {
//!     Ok(_) => println!("allowed"),
//!     Err(denied) if denied.exceeds_burst() => println!("never: more than the burst"),
//!     Err(_) => println!("not now"),
//! }
//!
//! let clients = KeyedLimiter::<IpAddr>::builder(quota).capacity(100_000).build()?;
//! assert!(clients.check(&IpAddr::from([192, 0, 2, 7])).is_ok());
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A layer for axum
//!
//! | tower_governor | damper | difference |
//! |---|---|---|
//! | `.per_second(2)`: one request every two seconds | `Quota::every(Duration::from_secs(2))` | `Quota::per_second(2)` is two requests a second |
//! | `.burst_size(100)` | `.burst(100)` | |
//! | `PeerIpKeyExtractor` | `RateLimitLayer::per_client(quota)` | IPv6 addresses of a /64 are one client |
//! | `SmartIpKeyExtractor` | `.behind(TrustedProxies::new([…])?)` | reads `X-Forwarded-For` only of proxies that you name, so a client cannot choose its address |
//! | `GlobalKeyExtractor` | `RateLimitLayer::global(quota)` | |
//! | a `KeyExtractor` of your own | <code>RateLimitLayer::by(\|head\| …, quota)</code> | |
//! | `.use_headers()` | `.headers(Headers::OnAllResponses)` | `RateLimit` and `RateLimit-Policy`; the `X-` headers by `OnAllResponsesWithX` |
//! | `.methods(vec![…])` | <code>.exempt(\|head\| …)</code> | |
//! | `.error_handler(…)` | <code>.body(\|head, limited\| …)</code>, `.problem_json()` | the status and `Retry-After` are set for you |
//! | a thread that calls `retain_recent` | nothing | |
//!
//! With `tower_governor`:
//!
//! ```ignore
#![doc = include_str!("before/tower_governor.rs")]
//! ```
//!
//! With damper:
//!
//! ```
//! # #[cfg(all(feature = "axum", feature = "tokio"))] {
//! use axum::Router;
//! use damper::Quota;
//! use damper::http::{Headers, RateLimitLayer};
//! use damper::wire::TrustedProxies;
//!
//! fn app() -> Result<Router, Box<dyn std::error::Error>> {
//!     let limit = RateLimitLayer::per_client(Quota::per_second(50).burst(100))
//!         .behind(TrustedProxies::new(["10.0.0.0/8"])?)
//!         .headers(Headers::OnAllResponses);
//!     Ok(Router::new().layer(limit))
//! }
//! # app().unwrap();
//! # }
//! ```
