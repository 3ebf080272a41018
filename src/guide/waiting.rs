//! Check, wait, lease or stripe: four ways to use one limit.
//!
//! | way | for | cost | remarks |
//! |---|---|---|---|
//! | [`check`](crate::RateLimiter::check) | an immediate decision: a server that refuses | one clock reading and one swap | the refusal names a wait |
//! | [`acquire`](crate::RateLimiter::acquire) | a caller that must get through: a client of a rate-limited service | the same, and a sleep | FIFO order |
//! | [`lease`](crate::Lease) | threads and tasks with a million checks a second | usually a subtraction | holds tokens that other callers cannot use |
//! | `Striped` | the same, without a handle | usually a swap on the thread's own cache line | the same |
//!
//! All of them share one envelope: in any interval at most the burst plus the refilled tokens.
//!
//! # Waiting is a place in the order
//!
//! A waiter takes its tokens now and gets the time at which they are valid. So waiters of any size are served in order
//! of arrival, no thread wakes in vain, and the whole rate is used however many wait. Tokens taken in advance are a debt
//! of the bucket: while there are waiters, checks are refused, and
//! [`Quota::max_debt`](crate::Quota::max_debt) bounds the tokens of all waiters. A caller beyond that is refused at
//! once, and so is one whose tokens would be too late:
//!
//! ```
//! use core::time::Duration;
//! use damper::{ManualClock, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(1).max_debt(2), &clock);
//! // `acquire(1).wait()` does this before it sleeps:
//! assert_eq!(limiter.reserve(1)?.ready_in(), Some(Duration::ZERO));
//! assert_eq!(limiter.reserve(1)?.ready_in(), Some(Duration::from_millis(100)));
//! assert!(limiter.reserve_within(1, Duration::from_millis(150)).is_err(), "too late");
//! assert_eq!(limiter.reserve(1)?.ready_in(), Some(Duration::from_millis(200)));
//! assert!(limiter.reserve(1).is_err(), "two tokens are owed, and no more may be");
//! assert!(limiter.check().is_err(), "there is a waiter");
//! # Ok::<(), damper::Denied>(())
//! ```
//!
//! An [`Acquire`](crate::Acquire) sets how to wait: the number of tokens, the longest wait, the jitter. Then `wait()`
//! blocks, while `.await` (by tokio's timer, feature `tokio`) and [`sleeping_by`](crate::Acquire::sleeping_by) (by any
//! sleep function) wait in a future. A dropped future gives its tokens back if no caller came after it. Otherwise they
//! count as used, because the later waiters already have their times. Many cancelled callers in the middle of the queue
//! waste the rate: bound the wait with [`within`](crate::Acquire::within), which refuses at once, instead of a timeout
//! around the future. In a loop of `select!` create the future once, and pin it outside.
//!
//! Only the token bucket has an order of its own, so only it supports this kind of waiting. In tests, sleep by advancing the clock:
//! `sleeping_by(|wait| { clock.advance(wait); core::future::ready(()) })`. Blocking waits sleep in real time, whatever
//! the clock.
//!
//! A [`refund`](crate::RateLimiter::refund) or a change of the quota moves all waiters, and wakes blocked threads. A
//! future is not registered anywhere: it checks again at its time, and at least once a second.
//!
//! `pace` and `pace_sink` (feature `futures`) make the items of a stream or sink wait.
//!
//! # Waiting for several limits
//!
//! A call that needs requests, tokens and a slot waits for all of them at once. A [`LimitSet`](crate::LimitSet) with a
//! [`queue`](crate::LimitSet::queue) serves its waiters first come, first served:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use core::time::Duration;
//! use damper::{Bulkhead, LimitSet, Quota};
//!
//! let limits = [Quota::per_minute(60), Quota::per_minute(90_000)];
//! let llm = LimitSet::new(limits).with_bulkhead(Bulkhead::new(8)).queue(1_024);
//! let call = llm.acquire([1, 2_000]).within(Duration::from_secs(30)).wait()?; // or `.await`
//! call.settle([1, 700]);
//! # }
//! # Ok::<(), damper::LimitSetRefusal>(())
//! ```
//!
//! Nothing is taken in advance, because tokens of one limit would be used late where another one holds the call up. So
//! a cancelled waiter loses nothing, and those behind it keep their order. Only the first call asks; a reservation that is
//! settled wakes it. A large call holds up those behind it until its costs are there. A tenth of the callers that
//! estimate a whole burst, and use none of it, delay the others by the time to fill the burst for each such call before
//! them. No call waits for one that came later.
//!
//! # Waiting for a tree
//!
//! A call that takes from a user, a team and an organisation waits for all of them by
//! [`QuotaTree::acquire`](crate::QuotaTree::acquire):
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use core::time::Duration;
//! use damper::{Plan, Quota, QuotaTree};
//!
//! let tree = QuotaTree::<str, 2, 1>::builder(["user", "organisation"], ["tokens"]).build()?;
//! let (user, organisation) = (Plan::new(Quota::per_minute(6_000))?, Plan::new(Quota::per_minute(90_000))?);
//! let path = [("alice", [&user]), ("acme", [&organisation])];
//! let call = tree.acquire(&path, [2_000]).within(Duration::from_secs(30)).wait()?; // or `.await`
//! call.settle([700]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A single queue would let one user without tokens hold up the whole organisation. So each bucket that refuses has a line of its
//! own, and a call waits in the lines of all that have refused it. It asks only while no older call waits for one of its
//! buckets. So once the requests and the tokens of an organisation have both refused it, no later call takes of either before
//! it. The calls of one user are served in the order in which they came. In a simulated minute a user with thirty
//! workers wanted all tokens, and nine others 40 a second each, under plans of 100 a second. The organisation had 1,000 a second:
//!
//! | calls wait | longest wait of the nine | they got, of what they wanted |
//! |---|---|---|
//! | in a line for each bucket that refuses | 0 s | 100 % |
//! | in one queue for the whole tree | 15 s | 2.5 % |
//!
//! (`cargo test -p damper-core --test core keyed::tree_waiting`.) With 400 a second, less than the 460 that they
//! want together, no call of the nine waits for longer than 0.2 s, and they get 85 %.
//!
//! Nothing is taken in advance, as for a set. So a cancelled call loses nothing, and a call that other levels hold up takes no
//! tokens out of use. Calls that do not wait are [refused](crate::TreeDenied::is_behind_waiters) while others wait for one of
//! their buckets.
//!
//! **Levels.** While a user's bucket refuses a call, the call waits in no line of the organisation. Otherwise a user who spends all own
//! tokens elsewhere would hold up everyone. So name the most specific level first.
//!
//! **Guarantees.** A call within its guarantee waits behind no call that borrows. One that borrows waits for as long as the guaranteed
//! calls take all of the rate, or until its own guarantee is refilled. Later calls of the same key leave that to it.
//!
//! **Places.** A [`queue`](crate::keyed::QuotaTreeBuilder::queue) has 1,024 of them, unless set. The calls that wait at one bucket take a
//! fifth at most, and less when others take the rest. If ten of a hundred users start as many calls as they can, they get 916
//! places, the first of them 205 and the last 28, and each other user still finds one. A call whose time is over gives up its
//! place and holds up no other call, even if nothing polls it.
//!
//! # Waiting for each host's tokens
//!
//! A client that calls many hosts waits for the tokens of a key:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use core::time::Duration;
//! use damper::{KeyedLimiter, Quota};
//!
//! let hosts = KeyedLimiter::<str>::builder(Quota::per_second(10)).capacity(1024).build()?;
//! hosts.acquire("api.example.com", 1).within(Duration::from_secs(2)).wait()?; // or `.await`
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each key has a separate queue. Memory stays at 51 bytes a key, however many wait, because a waiter keeps its place
//! in its own future or on its stack. A flood of other hosts moves no waiter. Two things differ from a separate
//! limiter. A [`refund`](crate::KeyedLimiter::refund) makes waiters ready only when it brings the key out of debt, and
//! before that a later caller may be served together with earlier ones. And when all slots are busy, a new key waits in
//! a bucket that it shares with others. [`WhenFull`](crate::WhenFull) has other policies.
//!
//! If each host needs more than a quota, such as its own [`Pausable`](crate::Pausable), put the limiters into an
//! [`BoundedStore`](crate::BoundedStore), at some 400 bytes a host:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use core::time::Duration;
//! use damper::{BoundedStore, Quota, RateLimiter};
//!
//! let hosts = BoundedStore::<String, RateLimiter>::new(1024)?.keep_if(|limiter| limiter.peek().used() > 0);
//! let limiter = hosts.get_or_insert_with("api.example.com", || RateLimiter::new(Quota::per_second(10)));
//! limiter.acquire(1).within(Duration::from_secs(2)).wait()?; // or `.await`
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `keep_if` evicts full limiters first, so after a flood of other hosts a host has neither a new burst nor a second
//! queue. If all limiters of a shard owe tokens, one is evicted nevertheless, and
//! [`kept_evictions`](crate::BoundedStore::kept_evictions) counts it.
//!
//! # Keeping to a server's Retry-After
//!
//! [`Pausable`](crate::Pausable) stops a limiter for all its callers. A pause does not move waiters, so sleep until its
//! end first:
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
//! All callers come back when the pause ends. With a [`ramp`](crate::Pausable::ramp) a growing share of their calls asks the limiter, and
//! the others are refused until twice as many may.
//!
//! # A lease is a budget
//!
//! A part of the burst, the budget, is reserved when the limiter is built. It bounds the tokens that leases may hold
//! together, and the bucket itself has the rest. That keeps the envelope exact: all leases full and the bucket full are
//! one burst, and no more.
//!
//! ```
//! use damper::{LeasingBucket, ManualClock, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! // A burst of 100, of which leases may hold 40.
//! let limiter = RateLimiter::with_algorithm(LeasingBucket::new(Quota::per_second(1_000).burst(100), 40)?, &clock);
//! let mut lease = limiter.lease(10)?;
//! lease.check()?; // 11 are taken: one is spent, ten are held
//! assert_eq!((lease.held(), limiter.peek().remaining()), (10, 49));
//! assert!(limiter.check_n(61).unwrap_err().exceeds_burst());
//! lease.give_back(); // before a pause
//! assert_eq!(limiter.peek().remaining(), 59);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! So a plain check also finds at most the rest at once. Set the burst to the sum of that rest and the budget.
//!
//! How large? A lease of k accesses the bucket once in k checks, so 64 to 1,024 remove all but a percent of the cost.
//! Held tokens are unavailable to others while the lease is idle, which is unfair at low rates. As a rule of thumb, a
//! lease should not exceed what a thread spends in a tenth of a second.
//!
//! `Striped` works without handles: threads find a stripe themselves, and search the others' before they are refused,
//! so no tokens are stranded.
