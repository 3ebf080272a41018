//! Algorithms: when to use which, what each costs, and its worst case.
//!
//! | algorithm | time | state per limit | at once | worst window |
//! |---|---|---|---|---|
//! | [`TokenBucket`](crate::TokenBucket) | constant | 8 bytes | the burst | burst + limit |
//! | [`LeakyBucket`](crate::LeakyBucket), a meter | constant | 8 bytes | the burst | burst + limit |
//! | [`LeakyQueue`](crate::LeakyQueue) | constant | 8 bytes | 1 | 1 + limit |
//! | [`FixedWindow`](crate::FixedWindow) | constant | 8 bytes | the limit, twice at a boundary | twice the limit |
//! | [`SlidingCounter`](crate::SlidingCounter) | constant | 8 bytes | the limit | the limit for evenly spaced calls, almost twice for the worst pattern |
//! | [`SlidingLog`](crate::SlidingLog) | linear in the requested tokens | 8 bytes for each token of the limit | the limit | the limit |
//!
//! The quota is stored beside the state. Every algorithm decides with one compare-and-swap and writes nothing when it
//! refuses. The log then also records a time for each token. In the long run all of them allow the same rate.
//!
//! # Which one when
//!
//! **The token bucket, unless there is a reason against it.** It has no windows and so no boundaries, and its burst is
//! a separate number. Only it supports charges afterwards, debt, reservations and refunds ([rates](super::rates)). The
//! burst determines its worst window: 90 a minute and a burst of 10 never exceed 100 in any minute.
//!
//! **The leaky bucket if you think in levels.** As a meter it allows and refuses the same calls as the token bucket,
//! and reports how full it is instead of how much is left. The queue is different: calls leave it one after another at
//! a constant rate, and each gets its wait. If callers sleep that long, the service behind never sees a burst.
//!
//! **The fixed window if a window was agreed on**: a thousand per hour, restarted on the hour, as vendors and bills
//! count. The rest of a window and its end are easy to explain. The price is the boundary: the whole limit just before
//! it, and again just after.
//!
//! The windows of either algorithm begin with the first request. Counters that are to agree with a vendor's, which mostly begin at
//! the full minute or hour, are [aligned](crate::Alignment).
//!
//! **The sliding counter if a number per window was agreed on, but not the boundary.** It allows the whole limit at
//! once, like a fixed window, and then counts the remaining part of the previous window. It assumes that the calls of
//! that window were evenly spaced. If they were not, it is too strict or too lenient.
//!
//! **The sliding log if the number must be exact**: never more than the limit in any window, wherever it begins. It
//! keeps the time of each token, so its memory is proportional to the limit. The memory is allocated at construction
//! (feature `alloc`), and the limit is fixed.
//!
//! # The worst moment
//!
//! The same 100 a minute, and a caller that takes as many as possible around the end of the first minute:
//!
//! ```
//! # #[cfg(feature = "alloc")] {
//! use core::time::Duration;
//! use damper::limit::Algorithm;
//! use damper::{Alignment, FixedWindow, ManualClock, Quota, RateLimiter, SlidingCounter, SlidingLog, TokenBucket};
//!
//! const QUOTA: Quota = Quota::per_minute(100);
//!
//! /// The tokens taken at 0:59, by 1:01, and by 1:59.
//! fn worst<A: Algorithm>(algorithm: A) -> [usize; 3] {
//!     let clock = ManualClock::new();
//!     let limiter = RateLimiter::with_algorithm(algorithm, &clock);
//!     let all = |limiter: &RateLimiter<A, _>| core::iter::from_fn(|| limiter.check().ok()).count();
//!     clock.advance(Duration::from_secs(59));
//!     let mut taken = all(&limiter);
//!     let at_once = taken;
//!     let mut after = |seconds| {
//!         for _ in 0..seconds * 10 {
//!             clock.advance(Duration::from_millis(100));
//!             taken += all(&limiter);
//!         }
//!         taken
//!     };
//!     [at_once, after(2), after(58)]
//! }
//!
//! let fixed = FixedWindow::new(QUOTA).aligned_to(Alignment::ClockOrigin);
//! assert_eq!(worst(fixed), [100, 200, 200]);
//! let sliding = SlidingCounter::new(QUOTA)?.aligned_to(Alignment::ClockOrigin);
//! assert_eq!(worst(sliding), [100, 101, 198]);
//! assert_eq!(worst(SlidingLog::new(QUOTA)?), [100, 100, 200]); // all are back at 1:59, and not before
//! assert_eq!(worst(TokenBucket::new(QUOTA)), [100, 103, 200]);
//! assert_eq!(worst(TokenBucket::new(QUOTA.burst(10))), [10, 13, 110]);
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # An even flow
//!
//! The queue spreads calls out, however they arrive:
//!
//! ```
//! use core::time::Duration;
//! use damper::{LeakyQueue, ManualClock, Quota};
//!
//! // Ten mails a second to one relay, with room for three, including the one that leaves.
//! let mails = LeakyQueue::with_clock(Quota::per_second(10).burst(3), ManualClock::new());
//! for mail in 0..3 {
//!     assert_eq!(mails.enter()?, mail * Duration::from_millis(100));
//! }
//! assert!(mails.enter().is_err(), "it overflows");
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! # Common to all
//!
//! [`check`](crate::RateLimiter::check), [`check_n`](crate::RateLimiter::check_n), [`peek`](crate::RateLimiter::peek)
//! and [`set_quota`](crate::RateLimiter::set_quota) are the same for all algorithms. Any of them can be in a
//! [`LimitSet`](crate::LimitSet), together with others of the same algorithm and a bulkhead. Only the queue is not a `RateLimiter`: it
//! is [entered](crate::LeakyQueue::enter).
//!
//! Code for any limiter takes an `impl` [`Limiter`](crate::Limiter), or keeps a `Box<dyn Limiter + Send + Sync>` if the
//! algorithm is chosen at run time. A [`LimitSet`](crate::LimitSet) and [`Striped`](crate::Striped) are limiters too,
//! and so is your own type that implements the trait.
//!
//! The windows count the quota's limit and ignore its burst. For the buckets the limit is the rate, and the burst is
//! the number available at once. For the queue the burst is the number that fits.
