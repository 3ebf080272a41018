//! Lock-free rate limiters and circuit breakers for hot request paths, edge devices and firmware.
//!
//! A limiter or a breaker is a plain value that decides on one atomic word, with no thread, allocation or runtime
//! behind it. Put it in a `static`, a field or an `Arc`. (A limiter is some 340 bytes with its quota, which can be
//! changed while it is used; a breaker is 160.)
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
//! use damper::{CircuitBreaker, KeyedLimiter, Quota, RateLimiter};
//! use std::net::IpAddr;
//!
//! // One limit for all.
//! static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
//!
//! match LOGINS.check() {
//!     Ok(allowed) => println!("{} left", allowed.remaining()),
//!     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
//! }
//!
//! // One limit for each, in a fixed amount of memory.
//! let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_second(50).burst(100)).build()?;
//! limits.check(&IpAddr::from([192, 0, 2, 7]))?;
//!
//! // A breaker before something that may fail: 5 failures, 30 s, 1 probe.
//! let breaker = CircuitBreaker::default();
//! let reply = breaker.call(|| "pong".parse::<String>())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | [`quota`] | [`Quota`]: what is allowed, in tokens per window and a burst |
//! | [`limit`] | [`RateLimiter`], and its answers |
//! | [`keyed`] | [`KeyedLimiter`]: a limit per key |
//! | [`breaker`] | [`CircuitBreaker`], and its permits; [`KeyedCircuitBreaker`]: a breaker per key |
//! | [`store`] | [`LruStore`]: a bounded store of any value per key |
//! | [`deadline`] | [`Deadline`]: the time that a piece of work may take, passed on as a value |
//! | [`throttle`] | [`AdaptiveThrottle`](throttle::AdaptiveThrottle): refuses calls that an overloaded service would reject; `KeyedThrottle`: per key |
//! | [`concurrency`] | [`Bulkhead`]: how many calls may be in flight at once; [`AdaptiveLimit`]: as the service's latency says; [`KeyedBulkhead`] and [`KeyedAdaptiveLimit`]: per key; `Admission`: and which calls |
//! | [`word32`] | limiter and breaker in words of 32 bits, for firmware: [`RateLimiter32`], [`CircuitBreaker32`] |
//! | [`time`] | [`Clock`], the clocks there are, and how to write one; [`Sleep`](time::Sleep), seeds |
//! | [`guide`] | how to choose an algorithm, a rate and a burst, and what exactly is promised |
//! | `http` | limits before HTTP servers, breakers and throttles before HTTP clients |
//! | `tonic` | the same for gRPC |
//! | `config` | settings of all these from files and the environment, checked and reloaded live |
//! | `mesh` | documents of the protocol Mesh, limits of several scopes, a server and a client |
//! | `tower` | breakers, throttles, limits and bulkheads before services of any request |
//! | `wire` | headers: what a server says of its limits, and whom a request is from |
//!
//! # Features
//!
//! All are additive; without any the crate needs neither `std` nor `alloc`.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | the default clock and hasher; `wait`, `Striped`, `CoarseTicker` |
//! | `alloc` | yes | [`SlidingLog`], [`KeyedLimiter`]s of any size and of several quotas; [`LruStore`], [`KeyedCircuitBreaker`], `KeyedThrottle`, queues of [`Bulkhead`]s, [`KeyedBulkhead`], [`KeyedAdaptiveLimit`], `Admission`, `Arc`s as clocks and owned permits where the target has atomic pointers |
//! | `defmt` | | `defmt::Format` for answers, states and errors |
//! | `serde` | | quotas in files, as text: `"100/s burst 200"` |
//! | `tokio` | | `acquire(n).await`: futures that wait for tokens or permits by tokio's timer (with `std`) |
//! | `futures` | | streams and sinks whose items wait for tokens |
//! | `http` | | limits and breakers for HTTP (with `std`), to be used by one of the following |
//! | `tower` | | these as layers and services of tower, and others for services of any request |
//! | `hyper` | | these as services of hyper |
//! | `axum` | | where axum tells the address of a request's peer (with `tower`) |
//! | `tonic` | | these for gRPC, with tonic (with `tower`) |
//! | `config` | | settings from TOML, JSON, YAML and environment variables, checked and reloaded live |
//! | `mesh` | | documents of the protocol Mesh, and servers and clients that speak it over HTTP (with `http`) |
//! | `metrics` | | counts of what limits and breakers for HTTP do (with `http`) |
//! | `tracing` | | logs of what limits refuse and how breakers change (with `http`) |
//!
//! What is here is made of crates that have versions of their own: `damper-core` has all but `http`, `wire`, `tonic`, `mesh`, `config` and `tower`,
//! without any protocol; these are `damper-http`, `damper-tonic`, `damper-mesh` and `damper-config`, and `tower` is `damper-tower`.
//!
//! Where the target has no 64-bit atomics, words of 64 bits are changed in critical sections, for which the firmware
//! provides a `critical-section` implementation; those of [`word32`] are not.
#![no_std]
#![deny(clippy::std_instead_of_core)]

pub mod guide;

#[cfg(feature = "config")]
#[doc(inline)]
pub use damper_config as config;
#[doc(inline)]
pub use damper_core::*;
#[cfg(feature = "http")]
#[doc(inline)]
pub use damper_http as http;
#[cfg(feature = "http")]
#[doc(inline)]
pub use damper_http::wire;
#[cfg(feature = "mesh")]
#[doc(inline)]
pub use damper_mesh as mesh;
#[cfg(feature = "tonic")]
#[doc(inline)]
pub use damper_tonic as tonic;
#[cfg(feature = "tower")]
#[doc(inline)]
pub use damper_tower as tower;

/// The README's examples are tests.
#[cfg(all(doctest, feature = "axum", feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;
