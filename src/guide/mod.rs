//! What takes pages: how to choose, and what exactly is promised.
//!
//! | page | answers |
//! |---|---|
//! | [`rates`] | which rate, which burst, what a refusal says, what happens in debt and in a change |
//! | [`waiting`] | check, wait, lease or stripe; waiting per host, and for a server that asks for a pause |
//! | [`algorithms`] | which algorithm, what it costs, what its worst moment lets through |
//! | [`breakers`] | when to trip, what counts as a failure, where retries go |
//! | [`concurrency`] | bulkhead, adaptive limit or admission; what the adaptive limit does, and what a simulation says of it |
//! | [`retries`] | how many retries, when, within which budget; in which order with breakers, limits and deadlines |
//! | [`keys`] | one limit per key: how large, and what a key should be |
//! | [`full_table`] | what happens when the table of a keyed limiter is full |
//! | `http` | global, per route, per client; behind proxies; breakers and retries (feature `http`) |
//! | `configuration` | settings from files and the environment, checked, and changed live (feature `config`) |
//! | `mesh` | limits of several scopes, refusals and deadlines in the protocol Mesh (feature `mesh`) |
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
pub mod waiting;
