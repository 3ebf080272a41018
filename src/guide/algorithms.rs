//! Algorithms: which one when, what each costs, and what the worst moment lets through.
//!
//! | algorithm | time | state per limit | at once | worst window of the quota's length |
//! |---|---|---|---|---|
//! | [`TokenBucket`](crate::TokenBucket) | constant | 8 bytes | the burst | burst + limit |
//! | [`LeakyBucket`](crate::LeakyBucket), a meter | constant | 8 bytes | the burst | burst + limit |
//! | [`LeakyQueue`](crate::LeakyQueue) | constant | 8 bytes | 1 | 1 + limit |
//! | [`FixedWindow`](crate::FixedWindow) | constant | 8 bytes | the limit, at a boundary twice | twice the limit |
//! | [`SlidingCounter`](crate::SlidingCounter) | constant | 8 bytes | the limit | the limit if calls come evenly, just less than twice if they are arranged to |
//! | [`SlidingLog`](crate::SlidingLog) | as many tokens as are asked for | 8 bytes for each token of the limit | the limit | the limit |
//!
//! The quota itself is beside the state. All of them decide with one compare-and-swap, after which the log writes down
//! a moment for each token, and write nothing when they refuse. In the long run all of them allow the same rate.
//!
//! # Which one when
//!
//! **The token bucket, unless something speaks against it.** It has no windows and so no boundaries, the burst is a
//! number of its own, and it alone can be charged after the fact, go into debt, give out reservations and hand back
//! ([rates](super::rates)). Its worst window is chosen with the burst: 90 a minute and a burst of 10 are never more
//! than 100 in any minute.
//!
//! **The leaky bucket where levels are what is thought in.** As a meter it allows and refuses the very same calls as
//! the token bucket, and tells how full it is rather than how much is left. As a queue it is something else: calls
//! leave it one after another at a constant rate, and each is told how long to wait; if they keep to it, what stands
//! behind never sees a burst.
//!
//! **The fixed window where a window is what was agreed on**: a thousand per hour, counted anew on the hour, as a
//! vendor counts them or a bill does. What is left and when it starts anew are easy to explain. The price is the
//! boundary: the limit just before it and again just after.
//!
//! **The sliding counter where a number per window was agreed on, but not the boundary.** It allows the whole limit at
//! once, as a fixed window does, then counts what is left of the window before. That assumes the calls of that window
//! came evenly; where they did not it is too strict or too lenient.
//!
//! **The sliding log where the number was promised to the letter**: never more than the limit in any window, wherever
//! it begins. It remembers the moment of each token, so it takes memory for all of them, allocated when it is built
//! (feature `alloc`), and the limit is fixed.
//!
//! # The worst moment
//!
//! The same 100 a minute, and somebody who wants as many as possible around the end of the first minute:
//!
#![cfg_attr(feature = "alloc", doc = "```")]
#![cfg_attr(not(feature = "alloc"), doc = "```text")]
//! use core::time::Duration;
//! use damper::limit::Algorithm;
//! use damper::{Alignment, FixedWindow, ManualClock, Quota, RateLimiter, SlidingCounter, SlidingLog, TokenBucket};
//!
//! const QUOTA: Quota = Quota::per_minute(100);
//!
//! /// What is taken at 0:59, between then and 1:01, and between then and 1:59.
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
//! assert_eq!(worst(SlidingLog::new(QUOTA)?), [100, 100, 200]); // at 1:59, and not before, all are back
//! assert_eq!(worst(TokenBucket::new(QUOTA)), [100, 103, 200]);
//! assert_eq!(worst(TokenBucket::new(QUOTA.burst(10))), [10, 13, 110]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # An even flow
//!
//! The queue is for what must be spread out, whatever came at once:
//!
//! ```
//! use core::time::Duration;
//! use damper::{LeakyQueue, ManualClock, Quota};
//!
//! // Ten mails a second to one relay, with room for three, the one that leaves included.
//! let mails = LeakyQueue::with_clock(Quota::per_second(10).burst(3), ManualClock::new());
//! for mail in 0..3 {
//!     assert_eq!(mails.enter()?, mail * Duration::from_millis(100));
//! }
//! assert!(mails.enter().is_err(), "it overflows");
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! # What they have in common
//!
//! [`check`](crate::RateLimiter::check), [`check_n`](crate::RateLimiter::check_n), [`peek`](crate::RateLimiter::peek)
//! and [`set_quota`](crate::RateLimiter::set_quota) are the same for all, and any of them can be a layer of
//! [`LimitSet`](crate::LimitSet), together with others of the same algorithm. The queue alone is no `RateLimiter`: it is
//! [entered](crate::LeakyQueue::enter).
//!
//! Code that works with any of them takes an `impl` [`Limiter`](crate::Limiter), or keeps a `Box<dyn Limiter + Send +
//! Sync>` where the algorithm is chosen at run time. A [`LimitSet`](crate::LimitSet) and [`Striped`](crate::Striped) are
//! limiters too, and so is your own type that implements the trait.
//!
//! The windows count the quota's limit and do not look at its burst; for the buckets the limit is the rate, and the
//! burst is what can be taken at once; for the queue the burst is how many fit.
