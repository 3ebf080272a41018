//! The guide: how to choose, and what exactly is promised.
//!
//! | page | answers |
//! |---|---|
//! | [`rates`] | which rate, which burst, what a refusal says, what happens in debt and in a change |
//! | [`waiting`] | check, wait, lease or stripe; waiting per host, and for a server that asks for a pause |
//! | [`algorithms`] | which algorithm, what it costs, what its worst moment lets through |
//! | [`breakers`] | when to trip, what counts as a failure, where retries go |
//! | [`concurrency`] | bulkhead, adaptive limit or admission; who is served under overload; what a simulation says of each |
//! | [`throttles`] | when to hold back calls to a service that would reject them |
//! | [`retries`] | how many retries, when, within which budget; in which order with breakers, limits and deadlines |
//! | [`keys`] | one limit per key: how large, and what a key should be |
//! | [`full_table`] | what happens when the table of a keyed limiter is full |
//! | `http` | global, per route, per client; behind proxies; breakers and retries (feature `http`) |
//! | `configuration` | settings from files and the environment, checked, and changed live (feature `config`) |
//! | `mesh` | limits of several scopes, refusals and deadlines in the protocol Mesh (feature `mesh`) |
//!
//! # Which limit do I need?
//!
//! | you want | at | take | page |
//! |---|---|---|---|
//! | at most so many calls a second | server or client | [`RateLimiter`](crate::RateLimiter), per key [`KeyedLimiter`](crate::KeyedLimiter) | [`rates`], [`keys`] |
//! | at most so many calls in flight | server or client | [`Bulkhead`](crate::Bulkhead), per key `KeyedBulkhead` | [`concurrency`] |
//! | as many calls in flight as the service can take | server or client | [`AdaptiveLimit`](crate::AdaptiveLimit), per key `KeyedAdaptiveLimit` | [`concurrency`] |
//! | the important calls served under overload, and tenants equally | server | `Admission` | [`concurrency`] |
//! | to spare a service that rejects calls | client | [`AdaptiveThrottle`](crate::throttle::AdaptiveThrottle), per key `KeyedThrottle` | [`throttles`] |
//! | to stop calling a service that fails | client | [`CircuitBreaker`](crate::CircuitBreaker), per key `KeyedCircuitBreaker` | [`breakers`] |
//! | few retries in an outage | client | [`RetryBudget`](crate::RetryBudget) | [`retries`] |
//! | no work for clients that have gone | both | [`Deadline`](crate::Deadline) | `http` |
//!
//! They answer different questions, so a service often has several. [`retries`] has their order around a client, `http::server_stack` that
//! before a server.
//!
//! The examples move a [`ManualClock`](crate::ManualClock) by hand. Leave it out, with `RateLimiter::new`, and real
//! time passes.

pub mod algorithms;
pub mod breakers;
pub mod concurrency;
#[cfg(feature = "config")]
pub mod configuration;
pub mod full_table;
#[cfg(feature = "http")]
pub mod http;
pub mod keys;
#[cfg(feature = "mesh")]
pub mod mesh;
pub mod rates;
pub mod retries;
pub mod throttles;
pub mod waiting;
