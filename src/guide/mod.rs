//! The guide: how to choose, and the exact guarantees.
//!
//! | page | answers |
//! |---|---|
//! | [`rates`] | rate and burst, refusals, debt, changes of a quota |
//! | [`waiting`] | check, wait, lease or stripe; waiting per host, and for a server that asks for a pause |
//! | [`algorithms`] | which algorithm, its cost, its worst case |
//! | [`breakers`] | when to trip, what counts as a failure, where retries go |
//! | [`concurrency`] | bulkhead, adaptive limit or admission; which calls are served under overload; a simulation of each |
//! | [`throttles`] | when to hold back calls that a service would reject |
//! | [`retries`] | how many retries, when, within which budget; their order with breakers, limits and deadlines |
//! | [`keys`] | one limit per key: the capacity, and the choice of a key |
//! | [`coming_from`] | the names and programs of other libraries beside damper's |
//! | [`full_table`] | a full table of a keyed limiter |
//! | [`minorities`] | the most that a few callers can do to all others, and the settings that help |
//! | [`guarantees`] | the exact guarantees of each part, and their limits |
//! | [`costs`] | time, memory, many cores |
//! | `trying` | what a candidate would refuse, before it refuses anyone; the smallest quota for yesterday's traffic |
//! | [`own_gate`] | a gate of your own: what it takes, and how it goes together with damper's |
//! | [`testing`] | how to test your own code: time, refusals, layers |
//! | `across_machines` | one limit for a fleet, on Redis: leases, policies, losses (feature `redis`) |
//! | `http` | global, per route, per client; behind proxies; breakers and retries (feature `http`) |
//! | `configuration` | settings from files and the environment, checked, and changed live (feature `config`) |
//! | `metrics` | what to export, to look at and to be woken by (feature `metrics`) |
//! | `live` | a page that shows limits and breakers live, and changes them (feature `live`) |
//! | `mesh` | limits of several scopes, refusals and deadlines in the protocol Mesh (feature `mesh`) |
//!
//! # Which limit do I need?
//!
//! | you want | at | take | page |
//! |---|---|---|---|
//! | a maximum of calls a second | server or client | [`RateLimiter`](crate::RateLimiter), per key [`KeyedLimiter`](crate::KeyedLimiter) | [`rates`], [`keys`] |
//! | a maximum of calls a second of all processes together | server or client | `redis::RedisLimiter`, per key `redis::KeyedRedisLimiter` | `across_machines` |
//! | a maximum of calls in flight | server or client | [`Bulkhead`](crate::Bulkhead), per key `KeyedBulkhead` | [`concurrency`] |
//! | as many calls in flight as the service can take | server or client | [`AdaptiveLimit`](crate::AdaptiveLimit), per key `KeyedAdaptiveLimit` | [`concurrency`] |
//! | the important calls served under overload, and tenants equally | server | `Admission` | [`concurrency`] |
//! | to protect a service that rejects calls | client | [`AdaptiveThrottle`](crate::throttle::AdaptiveThrottle), per key `KeyedThrottle` | [`throttles`] |
//! | few rejections by a service that limits its clients | client | [`Pacer`](crate::throttle::Pacer) | [`throttles`] |
//! | to stop calling a service that fails | client | [`CircuitBreaker`](crate::CircuitBreaker), per key `KeyedCircuitBreaker` | [`breakers`] |
//! | few retries in an outage | client | [`RetryBudget`](crate::RetryBudget) | [`retries`] |
//! | no work for clients that have gone | both | [`Deadline`](crate::Deadline) | `http` |
//!
//! Each answers a different question, so a service often has several. [`retries`] has their order around a client, and
//! `http::server_stack` their order before a server.
//!
//! The examples advance a [`ManualClock`](crate::ManualClock). With `RateLimiter::new` they use real time.

#[cfg(feature = "redis")]
pub mod across_machines;
pub mod algorithms;
pub mod breakers;
pub mod coming_from;
pub mod concurrency;
#[cfg(feature = "config")]
pub mod configuration;
pub mod costs;
pub mod full_table;
pub mod guarantees;
#[cfg(feature = "http")]
pub mod http;
pub mod keys;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "mesh")]
pub mod mesh;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod minorities;
pub mod own_gate;
pub mod rates;
pub mod retries;
pub mod testing;
pub mod throttles;
#[cfg(feature = "alloc")]
pub mod trying;
pub mod waiting;
