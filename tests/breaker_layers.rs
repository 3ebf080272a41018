//! Properties shared by the breaker layers of HTTP and gRPC, without sockets, on a manual clock.
//!
//! | file | property |
//! |---|---|
//! | `panics` | a call that panics counts as a failure |
//! | `readiness` | an open breaker does not poll the service's readiness, and loses none |
//! | `streams` | the first message of a stream makes it a successful probe |
#![cfg(all(feature = "hyper", feature = "tower"))]

#[path = "breaker_layers/panics.rs"]
mod panics;
#[path = "breaker_layers/readiness.rs"]
mod readiness;
#[path = "breaker_layers/streams.rs"]
mod streams;
#[path = "breaker_layers/support.rs"]
mod support;
