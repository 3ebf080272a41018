//! Check, wait, lease or stripe: four ways to ask one limit.
//!
//! | way | for | it costs | and |
//! |---|---|---|---|
//! | [`check`](crate::RateLimiter::check) | an answer at once: a server that refuses | one clock reading and one swap | says when to come back |
//! | [`acquire`](crate::RateLimiter::acquire) | a caller that must get through: a client of a rate-limited service | the same, and a sleep | first come, first served |
//! | [`lease`](crate::Lease) | threads and tasks that ask a million times a second | a subtraction, mostly | holds tokens that other callers cannot use |
//! | `Striped` | the same, where no handle can be held | mostly a swap on a cache line of the thread's own | the same |
//!
//! All are in one envelope: in any stretch of time at most the burst and what drips in.
//!
//! # Waiting is a place in the order
//!
//! A waiter takes its tokens now and learns when they are good. So waiters are served in the order in which they came,
//! whatever their sizes; no thread wakes in vain; and the whole rate is used however many wait. What is taken in advance is
//! a debt of the bucket: while anybody waits, checks are refused, and [`Quota::max_debt`](crate::Quota::max_debt) bounds
//! how many tokens may be waited for. A caller beyond that is refused at once, and so is one whose tokens would come too
//! late:
//!
//! ```
//! use core::time::Duration;
//! use damper::{ManualClock, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(1).max_debt(2), &clock);
//! // What `acquire(1).wait()` does before it sleeps:
//! assert_eq!(limiter.reserve(1)?.ready_in(), Some(Duration::ZERO));
//! assert_eq!(limiter.reserve(1)?.ready_in(), Some(Duration::from_millis(100)));
//! assert!(limiter.reserve_within(1, Duration::from_millis(150)).is_err(), "too late");
//! assert_eq!(limiter.reserve(1)?.ready_in(), Some(Duration::from_millis(200)));
//! assert!(limiter.reserve(1).is_err(), "two tokens are owed, and no more may be");
//! assert!(limiter.check().is_err(), "somebody waits");
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! An [`Acquire`](crate::Acquire) says how to wait: for how many tokens, for how long at most, with what jitter. Then
//! `wait()` blocks; `.await` (by tokio's timer, feature `tokio`) and [`sleeping_by`](crate::Acquire::sleeping_by) (by any
//! function that sleeps) wait in a future. A future that is dropped gives its tokens back if no caller came after it;
//! otherwise they count as used, because the later waiters know their times already. Many callers that give up in the
//! middle of the order waste the rate: say how long to wait with [`within`](crate::Acquire::within), which refuses at once,
//! rather than by a timeout around the future; and in a loop of `select!` make the future once, and pin it outside.
//!
//! Only the token bucket has an order, so only it can be waited for. In tests, sleep by moving the clock:
//! `sleeping_by(|wait| { clock.advance(wait); core::future::ready(()) })`; blocking waits sleep in real time, whatever the
//! clock.
//!
//! A [`refund`](crate::RateLimiter::refund) or a change of the quota moves all waiters. It wakes threads that block. A
//! future is not registered anywhere: it looks again when its time comes, and at least once a second.
//!
//! `pace` and `pace_sink` (feature `futures`) make the items of a stream or sink wait.
//!
//! # Waiting for each host's tokens
//!
//! A client that calls many hosts waits for the tokens of a key:
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
//! use core::time::Duration;
//! use damper::{KeyedLimiter, Quota};
//!
//! let hosts = KeyedLimiter::<str>::builder(Quota::per_second(10)).capacity(1024).build()?;
//! hosts.acquire("api.example.com", 1).within(Duration::from_secs(2)).wait()?; // or `.await`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each key has an order of its own. Memory stays at 48 bytes a key, however many wait, because a waiter keeps its place
//! in its own future or on its stack. A flood of other hosts moves no waiter. Two things differ from a limiter of its
//! own. A [`refund`](crate::KeyedLimiter::refund) makes waiters ready only when it brings the key out of debt, and
//! before that it may let a later caller be served together with earlier ones. And when all slots are busy, a new key
//! waits in a bucket that it shares with others; [`WhenFull`](crate::WhenFull) has other ways.
//!
//! Where each host needs more than a quota, such as a [`Pausable`](crate::Pausable) of its own, put the limiters into an
//! [`LruStore`](crate::LruStore), at some 400 bytes a host:
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
//! use core::time::Duration;
//! use damper::{LruStore, Quota, RateLimiter};
//!
//! let hosts = LruStore::<String, RateLimiter>::new(1024)?.keep_if(|limiter| limiter.peek().used() > 0);
//! let limiter = hosts.get_or_insert_with("api.example.com", || RateLimiter::new(Quota::per_second(10)));
//! limiter.acquire(1).within(Duration::from_secs(2)).wait()?; // or `.await`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `keep_if` evicts full limiters first, so that after a flood of other hosts a host has neither a new burst nor a
//! second queue. Where all limiters of a shard owe tokens, one goes nevertheless, and
//! [`kept_evictions`](crate::LruStore::kept_evictions) counts it.
//!
//! # Keeping to a server's Retry-After
//!
//! [`Pausable`](crate::Pausable) stops a limiter for all its callers. A pause moves no waiter, so sleep it out first:
//!
//! ```
//! use core::time::Duration;
//! use damper::{ManualClock, Pausable, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! let polite = Pausable::with_clock(RateLimiter::with_clock(Quota::per_second(10), &clock), &clock);
//! polite.pause_for(Duration::from_secs(2)); // the server said `Retry-After: 2`
//! assert_eq!(polite.check().unwrap_err().retry_after(), Some(Duration::from_secs(2)));
//!
//! clock.advance(polite.pause_left()); // sleep
//! let slot = polite.limiter().reserve(1)?;
//! # _ = slot;
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! # A lease is a budget
//!
//! Of the burst, a budget is set aside when the limiter is built: so many tokens the leases may hold together, and the
//! bucket itself gives at once what is left. That is what keeps the envelope exact: all leases full and the bucket full
//! are one burst, and no more.
//!
//! ```
//! use damper::{LeasingBucket, ManualClock, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! // A burst of 100, of which leases may hold 40.
//! let limiter = RateLimiter::with_algorithm(LeasingBucket::new(Quota::per_second(1_000).burst(100), 40)?, &clock);
//! let mut lease = limiter.lease(10)?;
//! lease.check()?; // 11 were taken: one is spent, ten are held
//! assert_eq!((lease.held(), limiter.peek().remaining()), (10, 49));
//! assert!(limiter.check_n(61).unwrap_err().exceeds_burst());
//! lease.give_back(); // before a pause
//! assert_eq!(limiter.peek().remaining(), 59);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! So a plain check, too, finds no more than the rest at once: set the burst to what is to be there at once and the
//! budget together.
//!
//! How large? A lease of k looks at the bucket once in k checks, so 64 to 1,024 take away all but a percent of the
//! cost. Held tokens are stranded while the lease is idle: at low rates that is unfair to the others. A rule of thumb:
//! no lease larger than what a thread spends in a tenth of a second.
//!
//! `Striped` is the same without handles: threads find a stripe by themselves, and take from others' before they are
//! refused, so that nothing is stranded.
