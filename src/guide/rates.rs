//! Rates and bursts: how to choose them, and the exact guarantees of a token bucket.
//!
//! # The promise of a quota
//!
//! A [`Quota`](crate::Quota) is a rate and a burst. Tokens are refilled evenly at the rate, and up to a burst of them
//! can be saved. In *any* interval W, wherever it begins, at most
//!
//! ```text
//! burst + rate · W
//! ```
//!
//! tokens are allowed (and those of one more clock tick). This holds for any number of threads, any costs, and any
//! pause before. In the long run, if callers always want tokens, exactly the rate is allowed.
//!
//! | quota | at once | in any second | in any minute | in the long run |
//! |---|---|---|---|---|
//! | `per_second(10)` | 10 | 20 | 610 | 10 a second |
//! | `per_second(10).burst(1)` | 1 | 11 | 601 | 10 a second |
//! | `per_minute(600)` | 600 | 610 | 1,200 | 10 a second |
//!
//! The three have the same rate. **A number per window is a rate, not a count per calendar window**: `per_minute(600)`
//! allows up to 1,200 in an unlucky minute, because 600 may have been saved before it. If a contract says "no more than
//! N in any W", choose the burst so that burst + rate · W is N:
//!
//! ```
//! use core::time::Duration;
//! use damper::{ManualClock, Quota, RateLimiter};
//!
//! // At most 100 in any minute: ten at once, and ninety refilled.
//! let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_minute(90).burst(10), &clock);
//! let mut allowed = 0;
//! for _ in 0..60_000 {
//!     allowed += limiter.take_up_to(100);
//!     clock.advance(Duration::from_millis(1));
//! }
//! assert!(allowed <= 100);
//! assert_eq!(allowed, 99); // the hundredth arrives when the minute has ended
//! ```
//!
//! # Which rate, which burst
//!
//! The **rate** is what the service behind the limit can sustain for ever. The **burst** is what it can take at once.
//! They are different questions, and the burst is often forgotten:
//!
//! - The default burst is the limit: a whole window's worth. For `per_second` that is often right. For `per_hour(1000)`
//!   it admits a thousand calls in a millisecond.
//! - A burst of 1 enforces a distance between any two calls. It also refuses a client that keeps the rate but is
//!   sometimes a little early. A slack of 5 to 20 calls costs no relevant protection.
//! - The burst is the largest cost of a single call. A limit on bytes must hold the largest message, or use
//!   [`check_oversized`](crate::RateLimiter::check_oversized).
//! - A caller that checks at intervals, such as a loop that wakes every 100 ms, needs a burst of at least the tokens of
//!   that interval.
//!
//! A limit of 0 is a quota too: the burst once, and no more. [`Quota::UNLIMITED`](crate::Quota::UNLIMITED) allows
//! everything.
//!
//! # How many tokens
//!
//! A check takes all of its tokens or none. Two costs are special:
//!
//! - *0 tokens* are always allowed, even in debt, and take nothing.
//! - *More than the burst* can never be available. The refusal states so, and has no `retry_after`, because no wait
//!   helps.
//!
//! ```
//! # use damper::{ManualClock, Quota, RateLimiter};
//! # let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(5), &clock);
//! limiter.check_n(5)?;
//! assert!(limiter.check_n(0).is_ok());
//! let denied = limiter.check_n(6).unwrap_err();
//! assert!(denied.exceeds_burst());
//! assert_eq!(denied.retry_after(), None);
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! # The promise of `retry_after`
//!
//! [`Denied::retry_after`](crate::Denied::retry_after) is the time after which the same call succeeds if no other
//! caller takes tokens first. It describes the moment of the refusal, and reserves nothing.
//!
//! | case | `retry_after` |
//! |---|---|
//! | at every rate, even after a change of the quota | exact to the clock's tick: a tick sooner the call is refused |
//! | several limits refuse ([`LimitSet`](crate::LimitSet)) | the longest of their waits |
//! | another call takes tokens of a limit between the look and the take ([`is_contended`](crate::LimitSetDenied::is_contended)) | the wait of that limit; a retry at once may succeed |
//! | more tokens than the burst | `None` |
//! | the quota refills nothing | `None` |
//!
//! ```
//! # use core::time::Duration;
//! # use damper::{ManualClock, Quota, RateLimiter};
//! # let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(1), &clock);
//! limiter.check()?;
//! let wait = limiter.check().unwrap_err().retry_after().unwrap();
//! assert_eq!(wait, Duration::from_millis(100));
//! clock.advance(wait - Duration::from_nanos(1));
//! assert!(limiter.check().is_err());
//! clock.advance(Duration::from_nanos(1));
//! assert!(limiter.check().is_ok());
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! Clients that receive the same wait return together, and all but a few are refused again. Let them add jitter, or
//! give each of them a separate time: a reservation.
//!
//! # Costs that are known afterwards: debt and refunds
//!
//! [`charge`](crate::RateLimiter::charge) books a cost that is known only afterwards, whether its tokens are available
//! or not. The level may fall below zero, and until the debt is repaid every check is refused, so the rate still holds
//! in the long run. Debt is at most [`Quota::max_debt`](crate::Quota::max_debt), ten bursts by default. `charge`
//! returns the amount that it booked, and the excess is lost, so let `max_debt` be larger than the largest cost.
//!
//! [`refund`](crate::RateLimiter::refund) gives back unused tokens, and returns how many. The limit's guarantee then
//! counts the tokens net of refunds, because only you know that they were not used. A refund makes waiters ready
//! earlier, in their order, and no newcomer overtakes them. Tokens beyond a full bucket are lost.
//!
//! A reservation does both. Reserve an estimate, and [`settle`](crate::Reservation::settle) when the bill arrives: the rest
//! is refunded, or the excess is charged. The whole quota is used, however many workers wait for it. A reservation that is
//! dropped without that counts as used in full.
//!
//! A refund comes on top of the envelope. The reservations of a set or a tree give back at most two bursts of a limit at any
//! moment, and nothing after two minutes, unless [`unsettled`](crate::LimitSet::unsettled) and
//! [`time_to_live`](crate::LimitSet::time_to_live) say otherwise. [Trees](super::trees) compares the choices.
//!
//! | to settle | who takes it | what it does |
//! |---|---|---|
//! | [`RateLimiter::reserve`](crate::RateLimiter::reserve), `reserve_owned` in an `Arc` | a caller that can wait | takes in advance; `ready_in` says when the tokens are there |
//! | [`KeyedLimiter::reserve`](crate::KeyedLimiter::reserve) | the same, of a key | the same |
//! | [`LimitSet::reserve`](crate::LimitSet::reserve), `reserve_owned` | a call with a cost of each limit, and a slot of a bulkhead | looks at all and takes all now, or none |
//! | [`LimitSet::acquire`](crate::LimitSet::acquire), `acquire_owned`, of a set with a [`queue`](crate::LimitSet::queue) | the same call, which waits first come, first served | takes nothing before all is there |
//! | [`Lease::reserve`](crate::Lease::reserve) | a worker with a lease | spends tokens that no other thread looks at |
//! | `RateLimitLayer::charge_by_response` of [`http`](crate::guide::http) | a request over HTTP | corrects its cost by the head of its response |
//!
//! The example `llm_tokens` keeps calls to a language model within requests a minute, tokens a minute and calls in flight.
//! `ready_in` of a limiter or a set says how long it takes until tokens are there, and takes none.
//!
//! ```
//! # use damper::{ManualClock, Quota, RateLimiter};
//! # let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_second(10).max_debt(20), &clock);
//! limiter.check_n(4)?;
//! assert_eq!(limiter.refund(1), 1);
//! assert_eq!(limiter.peek().remaining(), 7);
//! assert_eq!(limiter.charge(100), 27); // the seven, and twenty of debt
//! assert_eq!(limiter.debt(), 20);
//! assert_eq!(limiter.refund(5), 5); // repays a part of the debt
//! assert_eq!(limiter.debt(), 15);
//! assert_eq!(limiter.refund(100), 25); // the rest of it, and a full bucket
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! [`check_oversized`](crate::RateLimiter::check_oversized) is for single calls that cost more than the burst. A full
//! bucket allows them, up to the burst and `max_debt` together, and is in debt afterwards.
//!
//! # Reservations
//!
//! [`reserve`](crate::RateLimiter::reserve) takes tokens now and returns when they may be used. Waiting is built on it:
//! [Waiting](super::waiting) describes the order, the refusals, and the length of the queue.
//!
//! [`cancel`](crate::Reservation::cancel) gives the tokens back only before their time, and only if none were taken
//! since. It gives back all of them or none. (Giving back a part would allow too much when two reservations are
//! cancelled out of order.) Tokens that are not given back count as used. Dropping a reservation keeps it. A caller that
//! has not used its tokens although they were there gives them back by [`settle(0)`](crate::Reservation::settle).
//!
//! ```
//! # use core::time::Duration;
//! # use damper::{ManualClock, Quota, RateLimiter};
//! # let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(2), &clock);
//! limiter.check_n(2)?;
//! let first = limiter.reserve(1)?;
//! let second = limiter.reserve(2)?;
//! assert!(!first.cancel(), "the second was reserved since");
//! assert!(second.cancel());
//! assert!(limiter.reserve_within(2, Duration::from_millis(299)).is_err(), "the first still counts");
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! # Changing a quota
//!
//! [`set_quota`](crate::RateLimiter::set_quota) changes the quota while others check. No caller ever sees the rate of
//! one quota and the burst of the other. A change keeps the tokens that are *missing* from a full bucket: with 7 of 10
//! used and a new burst of 100, 93 are available at once. With 7 of 10 used and a new burst of 5, two are owed.
//! Reservations keep their place, and their time follows the new rate.
//!
//! Across a change at most the larger of the two bursts is allowed, plus the tokens of both rates in their times.
//!
//! | refusal | because | what helps |
//! |---|---|---|
//! | [`Busy`](crate::SetQuotaError::Busy) | another thread is changing the quota | change quotas in one place, or retry |
//! | [`TooFast`](crate::SetQuotaError::TooFast) | more than a thousand times as fast as the one it was built with | build it [`up_to`](crate::RateLimiter::up_to) its fastest quota |
//! | [`TooLarge`](crate::SetQuotaError::TooLarge) | burst and `max_debt` do not fit the word | build it `up_to` its largest quota, or state a smaller `max_debt` |
//!
//! After a refusal the quota is unchanged. The error names the requested value and the limiter's maximum.
//!
//! A limiter counts in steps that suit the fastest quota it was built for. After a change waits are exact to the
//! clock's tick, and a token is late by less than two ticks. If the quota is `k` times slower than the fastest one, a token
//! may be early by less than `k` ticks: a millisecond after a change from 1,000,000/s to 1/s, on a clock of
//! nanoseconds.
//!
//! ```
//! # use core::time::Duration;
//! # use damper::{ManualClock, Quota, RateLimiter, SetQuotaError};
//! # let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_second(10), &clock);
//! limiter.check_n(7)?;
//! limiter.set_quota(Quota::per_second(10).burst(5))?;
//! assert_eq!((limiter.peek().remaining(), limiter.debt()), (0, 2));
//! let slot = limiter.reserve(1)?;
//! assert_eq!(slot.ready_in(), Some(Duration::from_millis(300)));
//! limiter.set_quota(Quota::per_second(100).burst(5))?;
//! assert_eq!(slot.ready_in(), Some(Duration::from_millis(30)));
//! let error = limiter.set_quota(Quota::per_second(1_000_000)).unwrap_err();
//! assert_eq!(error.to_string(), "1000000/s exceeds the maximum 15258/s that the limiter was built for");
//! assert!(matches!(error, SetQuotaError::TooFast { most: 15_258, .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # An operator's switches
//!
//! | to | do |
//! |---|---|
//! | refuse everything | `set_quota(Quota::per_second(0))` |
//! | allow everything | `set_quota(Quota::UNLIMITED)` |
//! | go on as before | `set_quota` with the quota of before: the level is where it was |
//! | give everybody a fresh start | [`reset`](crate::RateLimiter::reset), [of a key](crate::KeyedLimiter::reset), [of all keys](crate::KeyedLimiter::clear) |
//! | start without a burst | [`drain`](crate::RateLimiter::drain), [of a key](crate::KeyedLimiter::drain) |
//! | stop until a moment | [`Pausable`](crate::Pausable) |
//! | warm up after a start | `set_quota` with [`Ramp::quota_at`](crate::Ramp::quota_at), at intervals until the ramp is over |
//!
//! A switch is a quota and no flag beside it, because a check reads the quota anyway: it costs nothing while it is not used. Layers
//! share a limit, so keep its `Arc` and switch it there. All keys of several
//! [tiers](crate::keyed::KeyedLimiterBuilder::tiers) are switched together by
//! [`set_tier_quotas`](crate::KeyedLimiter::set_tier_quotas). A sliding log has a place for each token, and a limiter with leases or
//! stripes holds some: their quotas cannot be 0. Put a `Pausable` before those.
//!
//! ```
//! # use damper::{ManualClock, Quota, RateLimiter};
//! # let clock = ManualClock::new();
//! let exports = RateLimiter::with_clock(Quota::per_hour(100), &clock);
//! exports.check_n(40)?;
//! let quota = exports.quota();
//! exports.set_quota(Quota::per_second(0))?; // the database is being restored
//! assert!(exports.check().is_err());
//! exports.set_quota(quota)?;
//! assert_eq!(exports.peek().remaining(), 60);
//! exports.reset(); // an apology
//! assert_eq!(exports.peek().remaining(), 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Breakers have switches [of their own](super::breakers#in-operation).
