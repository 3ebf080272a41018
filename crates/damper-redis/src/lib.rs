//! One rate limit across machines, on Redis.
//!
//! The crate [`damper`](https://docs.rs/damper) re-exports this crate as `damper::redis`, with the feature `redis`.
//!
//! Processes on any number of machines share a [`Quota`](damper_core::Quota). Answers, headers and layers are those of local limits. One
//! script on the server decides, with the server's own time. A process that spends much of a limit leases tokens from it, so that most
//! checks need no round trip.
//!
//! ```no_run
//! # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; }
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use damper::Quota;
//! use damper::redis::{RedisLimiter, WhenDown};
//!
//! let fleet = RedisLimiter::connect("redis://127.0.0.1/")
//!     .name("orders")
//!     .quota(Quota::per_second(10_000))
//!     .when_down(WhenDown::LocalShare)
//!     .build()
//!     .await?;
//!
//! match fleet.check().await {
//!     Ok(allowed) => println!("{} left", allowed.remaining()),
//!     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
//! }
//! # Ok(())
//! # }
//! ```
//!
//! On a new server limits start empty, because it looks like one that has lost its memory: see [the server](#on-the-server). Tests
//! with an empty server use [`AfterLoss::Full`].
//!
//! A [`KeyedRedisLimiter`] has a limit for each key: `tenants.check("tenant-42").await`. With the feature `http` both go into layers:
//! `RateLimitLayer::new(fleet)`, `RateLimitLayer::new(PerClient::new(tenants))`.
//!
//! Quotas may also come with each call, as a [`Plan`](damper_core::Plan): a [`PlannedRedisLimiter`] has any plan for each key, and a
//! [`RedisTree`] takes from several levels and dimensions at once, and settles estimates. Each of their calls is a round trip.
//!
//! # Deciding
//!
//! | decides | when | a check takes |
//! |---|---|---|
//! | a lease of this process | the burst is at least what the rate brings in 100 ms, and this process makes at least 80 checks a second | 1.4 times a local check in a loop (12 ns for 9), up to 1.9 times in a program |
//! | this process, a denial | the server has said for how long there are no tokens | no round trip and no lock |
//! | the server | otherwise | a round trip |
//! | the policy | the server has not answered by the deadline, 5 ms by default | at most the deadline |
//!
//! While leasing, a process sends at most 50 commands a second, whatever the load, and up to 20 that it saved before. It asks for
//! tokens before it runs out of them, and returns those that it has not used for 100 ms. A lease that runs dry is no reason to deny.
//! While the limit has tokens, one more command brings some for all waiting checks. Up to 50 of these a second, and 20 that were saved,
//! may be extra commands. So at 95 % of the rate at most 1 % of the checks are denied, for a burst of 100 ms or more, up to 16
//! processes, and a [deadline](RedisLimiterBuilder::deadline) of five round trips or more. (In a simulation in which every check comes on
//! time, at most 0.5 % are denied.)
//!
//! A process that knows a limit to be empty asks again after five seconds at the latest, in case tokens were given back or the limit
//! was reset.
//!
//! # Guarantees
//!
//! In any stretch of `t` seconds all processes together admit at most:
//!
//! - **Leased: the burst and `rate · t`.** This holds when processes are killed or paused, and when the network between them and the server
//!   fails. A lease counts by the holder's own monotonic clock, from before its request was sent.
//! - **Decided by the server: the burst and `rate · (t + D)`**, where `D` is the deadline of a check, but at least 5 ms, and 10 ms for
//!   late timers, because a process admits after the server has decided.
//! - **And one decision per thread** that the system stops between decision and use.
//!
//! Refunds are trusted: tokens that you give back may be taken again. A call whose reply is lost counts as taken.
//!
//! A limit is also used up: under load at least 98 % of it, if leases are possible.
//!
//! # Losses
//!
//! | what happens | a limit admits beyond the promise at most |
//! |---|---|
//! | a process is killed or cut off | nothing; its lease ends after 1 second |
//! | a virtual machine is paused so that its clocks stop | what it had leased, and what the server had allowed to its checks in flight |
//! | the server's clock steps forward by `s` | `rate · s`, no more than a burst, and what is leased |
//! | the server's clock steps back, as on a promoted replica | nothing; the limit has its deepest debt, and refills |
//! | the server loses its memory: a restart without files, `FLUSHALL`, an empty replica | what [`AfterLoss`] says: nothing, the burst less what 60 seconds refill (the default), or a burst |
//! | the server goes back in time: a replica that lagged, an append-only file that is written every second | what the lost writes had taken (at most a burst; `rate ·` the lag of a limit that is used up), and what was leased |
//! | the server evicts a key | a burst; so a server whose `maxmemory-policy` is not `noeviction` is an error, unless it is [accepted](RedisLimiterBuilder::accept_eviction) |
//! | the server forgets its scripts | nothing |
//!
//! # When the server is slow or gone
//!
//! | [`WhenDown`] | a check is | beyond the quota |
//! |---|---|---|
//! | `LocalShare` | decided by this process's share: the quota divided by the number of processes, empty when the server stops; denied while that number is not known | nothing while all are cut off; when they return, up to `(N - 1)/N` of a burst for half a second, which is repaid; `k` of `N` processes that are cut off add at most `k/N` of the rate to what the others admit |
//! | `Open` | allowed | anything |
//! | `Closed` | denied | nothing |
//!
//! The policy comes into force within one check. Each check has its own deadline, and after five consecutive failures a breaker saves the
//! wait. Leased tokens are spent first. Processes try to reconnect for ever, with random pauses of 20 to 200 ms, so a recovered server
//! is in use again within a second, even if it lost its memory. If the server refused the connection, because of the password or TLS, the pause
//! is 500 to 1,000 ms. Then tokens of a local share are charged to the limit, up to that share of the burst.
//!
//! The server counts the processes, each of which sends a heartbeat every second. A process that starts while the server is gone does
//! not know the number, so under `LocalShare` it denies, unless [`processes`](RedisLimiterBuilder::processes) has set one.
//!
//! # Observing it
//!
//! [`RedisLimiter::status`] says which policy is in force and since when, and the last error with its age, [`RedisLimiter::counts`] what decided, and
//! [`on_event`](RedisLimiterBuilder::on_event) registers a callback. With the feature `metrics` all limiters are sources of
//! damper-metrics, which has panels and alerts for them.
//!
//! # On the server
//!
//! The tests run on Redis 7.0. The server needs Lua scripts with the library `struct`, and the commands of Redis 7. A limit is one key,
//! which expires when the limit is full. Keys begin with `damper:`, and all keys of a subject are in one slot of a cluster. A server
//! with persistence survives a restart. Without it [`AfterLoss`] applies. A new server looks like one that has lost its memory, so the
//! first checks on it are denied, until tokens have dripped in. To start with full limits, call
//! [`mark_deployed`](RedisLimiterBuilder::mark_deployed) once when you set it up, before the first limiter is built on it.
//!
//! A key of a subject with 16 bytes takes about 232 bytes if nothing is leased. It exists from the first check until its limit is full
//! again, which takes the missing tokens divided by the rate. So a flood of new keys takes 232 bytes times the new keys per second times
//! that time: 10,000 a second with a limit that is full again after a minute are 140 MB. A server without free memory refuses the script,
//! and then the policy decides for **all** limits on it. So give the limits a server of their own, with `noeviction` and a `maxmemory` above
//! that figure, and put a local [`KeyedLimiter`](damper_core::KeyedLimiter) before keys that a client can invent. A limit that is full
//! again within milliseconds also takes a key, because otherwise each check in that time would find a full limit.
//!
//! A bucket of a [`RedisTree`] or a [`PlannedRedisLimiter`] takes about as much. With a reservation it exists until nothing of that can
//! be unsettled any more: two times-to-live after the last one at most.
//!
//! A user of its own needs no more permissions than these, and [`build`](RedisLimiterBuilder::build) fails if one of them is missing:
//!
//! ```text
//! ACL SETUSER limits on >password ~damper:* +evalsha +eval +script|load +time +get +mget +set
//!     +zadd +zrem +zremrangebyscore +zcard +pexpire +config|get
//! ```
//!
//! Without `config|get` the server's `maxmemory-policy` is not checked. A cluster also needs `+cluster|slots`, `+asking` and `+ping`, and another
//! database than 0 `+select`.
//!
//! # TLS
//!
//! With the feature `tls`, or `redis-tls` of the crate `damper`, addresses may begin with `rediss://` and `valkeys://`. They mean versions 1.2
//! and 1.3 of TLS by rustls.
//!
//! Servers' certificates must lead to a root that Mozilla trusts, or to one of
//! [`root_certificates`](RedisLimiterBuilder::root_certificates). The roots of the platform are not read: the redis crate would read them at each
//! attempt to connect, and fail if one of them is malformed. If the program also uses the redis crate directly, it gets Mozilla's roots
//! there too.
//! [`client_certificate`](RedisLimiterBuilder::client_certificate) is for servers that ask for one. A certificate must name the host of
//! the address, and in a cluster the hosts or addresses that its servers announce. An address that ends with `#insecure` is an error, and so are
//! certificates with an address without TLS.
//!
//! The handshake is a part of the [`connect_timeout`](RedisLimiterBuilder::connect_timeout). One that fails is an error of
//! [`build`](RedisLimiterBuilder::build) at once, with the reason: [`RedisLimiterError::Handshake`].
//!
//! rustls takes its cryptography from one provider, which a process chooses once. If the program has chosen none, the first
//! connection with TLS chooses `ring`. A program that wants another one installs it before.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `http` | the limiters as limits of damper-http's layers |
//! | `metrics` | the limiters as sources of damper-metrics |
//! | `tls` | connections with TLS: `rediss://` and `valkeys://` |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod by_plan;
mod gate;
#[cfg(feature = "http")]
mod http;
#[doc(hidden)]
pub mod internal;
mod limiter;
#[cfg(feature = "metrics")]
mod metrics;
mod micros;
mod script;
mod server;
pub(crate) mod subject;

pub use by_plan::{PlannedRedisLimiter, RedisTree, RedisTreeReservation};
pub use limiter::{
    AfterLoss, KeyedRedisLimiter, LastError, Leasing, RedisCounts, RedisEvent, RedisKey, RedisLimiter,
    RedisLimiterBuilder, RedisLimiterError, RedisReservation, RedisStatus, Unavailable, WhenDown,
};
