//! From Go's `golang.org/x/time/rate`.
//!
//! Both are token buckets that start full, and both let a caller reserve tokens and wait for them.
//!
//! | `rate` | damper | difference |
//! |---|---|---|
//! | `rate.NewLimiter(50, 100)` | [`RateLimiter::new(Quota::per_second(50).burst(100))`](crate::RateLimiter::new) | no mutex; it can be a `static` |
//! | `rate.Every(d)` | [`Quota::every(d)`](crate::Quota::every) | |
//! | `rate.Inf` | [`Quota::UNLIMITED`](crate::Quota::UNLIMITED) | |
//! | `Allow()` | [`check()`](crate::RateLimiter::check) | the error has `retry_after()` |
//! | `AllowN(now, n)` | [`check_n(n)`](crate::RateLimiter::check_n) | time comes from the limiter's clock |
//! | `Wait(ctx)`, `WaitN(ctx, n)` | [`acquire(n)`](crate::RateLimiter::acquire), then `.wait()` or `.await` | a bound by `.within(longest)`; a dropped future cancels |
//! | `Reserve()`, `ReserveN(now, n)` | [`reserve(n)`](crate::RateLimiter::reserve) | an `Err` where `r.OK()` is false |
//! | `r.Delay()` | [`ready_in()`](crate::limit::Reservation::ready_in) | |
//! | `r.Cancel()` | [`cancel()`](crate::limit::Reservation::cancel) | |
//! | `Tokens()` | [`peek().remaining()`](crate::RateLimiter::peek) | whole tokens |
//! | `SetLimit(l)`, `SetBurst(b)` | [`set_quota(quota)`](crate::RateLimiter::set_quota) | both in one step |
//! | a map of limiters under a mutex | [`KeyedLimiter`](crate::KeyedLimiter) | fixed memory, no lock for a known key |
//!
//! # A limiter in Go
//!
//! ```go
//! package main
//!
//! import (
//!     "context"
//!     "fmt"
//!     "time"
//!
//!     "golang.org/x/time/rate"
//! )
//!
//! func main() {
//!     limiter := rate.NewLimiter(50, 100)
//!     if !limiter.Allow() {
//!         fmt.Println("not now")
//!     }
//!     r := limiter.ReserveN(time.Now(), 5)
//!     if r.OK() {
//!         time.Sleep(r.Delay())
//!     }
//!     ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
//!     defer cancel()
//!     if err := limiter.Wait(ctx); err != nil {
//!         fmt.Println(err)
//!     }
//! }
//! ```
//!
//! # The limiter with damper
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{Quota, RateLimiter};
//! use std::time::Duration;
//!
//! static LIMITER: RateLimiter = RateLimiter::new(Quota::per_second(50).burst(100));
//!
//! if let Err(denied) = LIMITER.check() {
//!     println!("{denied}"); // rate limit exceeded, retry in 1.2 s
//! }
//! if let Ok(reservation) = LIMITER.reserve(5) {
//!     reservation.wait();
//! }
//! if let Err(denied) = LIMITER.acquire(1).within(Duration::from_secs(2)).wait() {
//!     println!("{denied}");
//! }
//! # }
//! ```
