//! One limit for a fleet: when to share it, and what a server's failure means.
//!
//! # Do you need it?
//!
//! A quota divided by the number of processes needs no server, and never fails. Share a limit where that is not good enough: where
//! requests of one client meet few of the processes, where the number of processes changes, or where an upstream service counts the calls
//! of all of them.
//!
//! | you want | take |
//! |---|---|
//! | to protect one process | a [`RateLimiter`](crate::RateLimiter) in each |
//! | a part of a quota in each process, as many as there are | a [`LiveShare`](crate::quota::LiveShare): see "Shares without a server" |
//! | a limit per client, and any process may get its requests | a [`KeyedRedisLimiter`](crate::redis::KeyedRedisLimiter) |
//! | one limit for a fleet, as of an upstream service or a database | a [`RedisLimiter`](crate::redis::RedisLimiter) |
//! | a quota of its own for each key, which the caller knows | a [`PlannedRedisLimiter`](crate::redis::PlannedRedisLimiter) |
//! | limits of users, teams and organisations, in requests and tokens | a [`RedisTree`](crate::redis::RedisTree) |
//! | several limits of one subject: 50 a second and 10,000 an hour | either, with [`also`](crate::redis::RedisLimiterBuilder::also) |
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use damper::Quota;
//! use damper::redis::{AfterLoss, RedisLimiter, WhenDown};
//! use std::time::Duration;
//!
//! let fleet = RedisLimiter::connect("redis://127.0.0.1/")
//!     .name("orders")
//!     .quota(Quota::per_second(10_000))
//!     .when_down(WhenDown::LocalShare)
//!     .after_loss(AfterLoss::EmptyFor(Duration::from_secs(60)))
//!     .build()
//!     .await?;
//!
//! match fleet.check().await {
//!     Ok(allowed) => println!("{} left", allowed.remaining()),
//!     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
//! }
//!
//! // On a server that was never used, limits begin empty: see "Losing the server's memory" below.
//!
//! // A cost that is known later.
//! let reservation = fleet.reserve(500).await?;
//! reservation.settle(420);
//! # Ok(())
//! # }
//! ```
//!
//! Behind layers both limiters work as local ones do, with the same responses:
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use damper::Quota;
//! use damper::http::{PerClient, RateLimitLayer};
//! use damper::redis::RedisLimiter;
//!
//! let url = "redis://127.0.0.1/";
//! let fleet = RedisLimiter::connect(url).name("all").quota(Quota::per_second(10_000)).build().await?;
//! let clients = RedisLimiter::connect(url).name("clients").quota(Quota::per_second(50).burst(100)).build_keyed().await?;
//! let layers = (RateLimitLayer::new(fleet), RateLimitLayer::new(PerClient::new(clients)));
//! # let _ = layers;
//! # Ok(())
//! # }
//! ```
//!
//! # Shares without a server
//!
//! Where each process may have a fixed part of the quota, but their number changes, a [`LiveShare`](crate::quota::LiveShare) computes the part
//! from the list of those that live. It does no I/O: whatever discovers the members tells it. Its limiter gets each new part by
//! [`set_share`](crate::RateLimiter::set_share), which leaves the tokens as they are, and costs a check nothing.
//!
//! ```
//! use damper::quota::LiveShare;
//! use damper::{Quota, RateLimiter};
//! use std::time::{Duration, Instant};
//!
//! let whole = Quota::per_second(10_000);
//! let limiter = RateLimiter::new(whole);
//! // A change of the members is known to all of them after a second. A member that hears nothing for three seconds stops.
//! let mut share = LiveShare::new(whole, "10.0.0.7", Duration::from_secs(1)).fence_after(Duration::from_secs(3));
//! let start = Instant::now();
//!
//! // In a task that runs once a second:
//! let members = ["10.0.0.7", "10.0.0.8"]; // from DNS, files or an orchestrator
//! share.view(members.map(|member| (member, 1)), start.elapsed());
//! limiter.set_share(share.terms(start.elapsed()).quota)?;
//! # Ok::<(), damper::SetQuotaError>(())
//! ```
//!
//! The members together stay within the quota if every change reaches each of them within the stated delay, or they have stopped by their
//! fence. In a simulated fleet of three to eight greedy members, with a change in every 15 s, they used 97 % of the quota with views
//! up to a second late, 90 % up to five seconds late, and were never beyond it. A larger share that begins at once is up to several
//! bursts beyond it, and so is a fleet without a fence when members are cut off.
//!
//! A process that meets few of a client's requests has its whole part for them, so a limit per client is better on Redis. The
//! example [`shares`](https://github.com/damper-rs/damper/blob/main/examples/shares.rs) has members that find one another by files, join, crash
//! and are cut off.
//!
//! # Plans and trees
//!
//! Limits whose quota comes with the call, as a [`Plan`](crate::Plan), are decided by the server, each call in one round trip. A call
//! costs the server about as much as one on a set of as many limits. The page [`trees`](super::trees) explains plans, levels and
//! dimensions.
//!
//! ```no_run
//! # async fn complete() -> u32 { 2_500 }
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use damper::redis::RedisLimiter;
//! use damper::{Plan, Quota};
//! use std::time::Duration;
//!
//! let tree = RedisLimiter::connect("redis://127.0.0.1/")
//!     .name("completions")
//!     .unsettled(2.0)
//!     .time_to_live(Duration::from_secs(120))
//!     .build_tree(["user", "organisation"], ["requests", "tokens"])
//!     .await?;
//!
//! let (requests, tokens) = (Plan::new(Quota::per_minute(60))?, Plan::new(Quota::per_minute(90_000))?);
//! let path = [("alice", [&requests, &tokens]), ("acme", [&Plan::UNLIMITED, &tokens])];
//! let call = tree.reserve(&path, [1, 60_000]).await?; // from all four buckets or from none
//! call.settle([1, complete().await]);
//! # Ok(())
//! # }
//! ```
//!
//! | | [`QuotaTree`](crate::QuotaTree), in a process | [`RedisTree`](crate::redis::RedisTree), across machines |
//! |---|---|---|
//! | one decision | loads and swaps of the words of its path; a refusal may be contended | one script; no refusal is contended |
//! | the key `alice` under two organisations | one bucket | two buckets: a key belongs to its root, with which it is in one slot of a cluster |
//! | a plan | early by 256 ns at most | exact; a change of plan rounds up, by less than a microsecond |
//! | a reservation | settled by one call | settled by one more command, in the background; if that is lost, it counts as used in full |
//! | a process that dies | frees nothing | its reservations count as used, and take up the bound for two times-to-live at most |
//! | a full table | keys share words | none: the server has a key for each bucket until it is full and nothing is unsettled |
//! | `replan` | converts a debt | none: a key keeps the time until its bucket is full |
//!
//! After a refusal, a process refuses the same without asking for up to 100 ms. In this time tokens that another process gives back are
//! not noticed. So a flood of refused calls on one bucket costs the server some 10 commands a second from each process.
//!
//! Under [`WhenDown::LocalShare`](crate::redis::WhenDown::LocalShare) each plan is divided by the number of processes. A call that
//! the policy allowed gives nothing back. It is charged to its buckets, up to the share of the burst, with the process's next command for
//! each of them. If a lost command carried a charge, it waits for two more calls on the bucket by this process: one that gets a reply,
//! and one that carries it. A bucket that fills while no process reaches the server may therefore give a burst once more. `Open` and `Closed`
//! do as everywhere, and a refusal by `Closed` names the first limit of the path.
//!
//! # Choosing the burst
//!
//!
//! A limit whose burst is at least what the rate brings in 100 ms is leased to busy processes: their checks are local, and each process sends
//! at most 50 commands a second, and 50 more for checks whose lease has run dry. Of each kind it may save up 20. With a smaller burst the
//! server decides each check, and the cost of a check is a round trip. So give a hot limit a burst of some 100 ms or more. With a burst of a
//! second, a hot process has 30 checks and more per command.
//!
//! Leases hold at most a quarter of the burst, for all processes together. That is not lost: under load it is spent, and an idle process
//! returns its lease after 100 ms. [`lease_share`](crate::redis::RedisLimiterBuilder::lease_share) changes the part.
//!
//! # Choosing a policy
//!
//! | the limit protects | while the server is gone |
//! |---|---|
//! | your own capacity, or a quota that you pay for | [`LocalShare`](crate::redis::WhenDown::LocalShare): the fleet goes on at the quota |
//! | fairness among clients | [`Open`](crate::redis::WhenDown::Open), behind a local limit of the process's capacity |
//! | something that must never be exceeded | [`Closed`](crate::redis::WhenDown::Closed) |
//!
//! Under `LocalShare` each process has the quota divided by the number of processes, which the server counted last. A process that starts
//! without the server does not know that number, and denies until it does: set [`processes`](crate::redis::RedisLimiterBuilder::processes)
//! where that is too long. The share is empty when the server stops, so the switch itself admits no burst. If only some processes are cut off, the others still admit up to the quota:
//! `k` of `N` processes add at most `k/N` of the rate. When the server is back, each process charges what it spent, up to its share of the
//! burst: a bucket that no process reached has filled by no more than that. To charge all of it was seen to lock a limit out for as long as the
//! server had been away. Processes return one after the other, so for about half a second those that return first may spend what the
//! others have not charged yet: with `N` processes up to `(N - 1)/N` of a burst. The late charges put the limit in debt by as much, which is
//! repaid before another token is allowed.
//!
//! # Sizing the server
//!
//! A limit takes about 232 bytes of the server from its first check until it is full again. A flood of invented keys takes `232 bytes · keys per second ·
//! time to full`, and once the server's memory is full, the policy decides for all limits on it. Give the limits a Redis of their own, with
//! `noeviction` and a `maxmemory` above that figure, keep the time to full short for keys that clients can invent, and put a local
//! [`KeyedLimiter`](crate::KeyedLimiter) in front.
//!
//! # Losing the server's memory
//!
//! A limit that is full has no key, so a server that lost its memory looks as if all limits were full. A marker without expiry tells the
//! two apart. After a loss, a limit without a key is taken to have been empty at that time, for 60 seconds by default
//! ([`AfterLoss`](crate::redis::AfterLoss)). Limits that refill within that time admit nothing beyond their quota. For slow ones, such as
//! 1,000 a day, take `AfterLoss::Empty`, or let the server keep its files. A limit that is used within the 60 seconds keeps its debt, and refills
//! at its rate. Tests that begin with an empty server take `AfterLoss::Full`.
//!
//! Tokens that were leased before the loss may still be out. So for one lease, about a second, the limit fills only up to the burst less what
//! may be leased. Tokens that drip in are leased at once, for a shorter time: half a second with a burst of a second and the default share.
//!
//! A new server has no marker either, so the first checks on it are denied, until tokens have dripped in. Call
//! [`mark_deployed`](crate::redis::RedisLimiterBuilder::mark_deployed) once when you set it up, before the first limiter is built on it, for
//! example in the job that deploys it:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use damper::redis::RedisLimiter;
//!
//! RedisLimiter::connect("redis://127.0.0.1/").mark_deployed().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Encrypting
//!
//! Most managed servers take connections with TLS only, and their addresses begin with `rediss://`. Enable the feature `redis-tls`. A server
//! whose certificate a public authority has issued needs nothing else. Others need their root, as PEM, and some the certificate of the
//! program:
//!
//! ```no_run
//! # #[cfg(feature = "redis-tls")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use damper::Quota;
//! use damper::redis::RedisLimiter;
//!
//! let fleet = RedisLimiter::connect("rediss://redis.internal:6380/")
//!     .root_certificates(std::fs::read("ca.pem")?)
//!     .client_certificate(std::fs::read("client.pem")?, std::fs::read("client-key.pem")?)
//!     .quota(Quota::per_second(10_000))
//!     .build()
//!     .await?;
//! # let _ = fleet;
//! # Ok(())
//! # }
//! ```
//!
//! | `build` says | it means |
//! |---|---|
//! | `UnknownIssuer` | the root of the server's certificate is not among the trusted ones |
//! | `certificate not valid for name` | the address names another host than the certificate |
//! | `CertificateRequired`, with TLS 1.2 `HandshakeFailure` | the server asks for a certificate of the program |
//! | `a server that does not speak TLS gives none` | the port may be the one without TLS |
//! | `if it speaks only TLS, its address begins with rediss://` | the port may be the one with TLS |
//!
//! # Changing a quota
//!
//! Every process sends its quota with each command, so a rolling deployment changes it process by process: the quota of the process that asks
//! holds for its check. Tokens that are taken stay taken.
//!
//! Beside a larger burst a smaller one starves: while the processes with the larger one have taken more than the smaller, the others find the
//! limit empty. A change of the rate alone has no such effect. Deploy another burst under another
//! [name](crate::redis::RedisLimiterBuilder::name), or to all processes at once.
//!
//! # Names of redis-cell
//!
//! redis-cell is a module of Redis with one command, `CL.THROTTLE key max_burst count period [quantity]`. Its bucket holds `max_burst + 1`
//! tokens.
//!
//! | redis-cell | here |
//! |---|---|
//! | `CL.THROTTLE user 14 30 60` | `Quota::per_minute(30).burst(15)`, `tenants.check("user").await` |
//! | the argument `quantity` | `check_n("user", quantity)` |
//! | reply 1: 0 allowed, 1 limited | `Ok` or `Err` |
//! | reply 2: the limit, `max_burst + 1` | `quotas()[0].burst_size()` |
//! | reply 3: remaining | `remaining()` of either answer |
//! | reply 4: seconds until retry, -1 if allowed | `denied.retry_after()`, exact to the microsecond; `None` if no wait helps |
//! | reply 5: seconds until the limit is full | `resets_in()` of either answer |
//! | `quantity` 0 | `usage("user").await`, which takes nothing |
//!
//! # Names of `redis_rate`
//!
//! `redis_rate` is a package of Go with a script for each call. Its results have the fields `Allowed`, `Remaining`, `RetryAfter` and `ResetAfter`.
//!
//! | `redis_rate` | here |
//! |---|---|
//! | `PerSecond(10)`, `Limit{Rate, Burst, Period}` | `Quota::per_second(10)`, `Quota::per(rate, period)?.burst(burst)` |
//! | `limiter.Allow(ctx, key, limit)` | `limits.check(key).await`; the quota belongs to the limiter |
//! | `AllowN(ctx, key, limit, n)` | `limits.check_n(key, n).await`: all or none |
//! | `AllowAtMost(ctx, key, limit, n)` | none; `usage(key)` and then `check_n` of what is left, which another process may have taken meanwhile |
//! | `res.Allowed`: how many, 0 if none | `Ok` or `Err` |
//! | `res.Remaining` | `remaining()` |
//! | `res.RetryAfter`, -1 if allowed | `denied.retry_after()` |
//! | `res.ResetAfter` | `resets_in()` |
//! | `Reset(ctx, key)` | `reset(key).await` |
//! | an error of the server | the policy decides; [`status`](crate::redis::RedisLimiter::status) has the error and its age |
//! | the context's deadline | [`deadline`](crate::redis::RedisLimiterBuilder::deadline), 5 ms by default |
//!
//! Neither leases tokens or has a policy: each of their checks is a round trip, and the caller handles a server that is gone.
