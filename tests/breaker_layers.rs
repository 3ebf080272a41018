//! What the breaker layers of HTTP and gRPC have in common, without sockets, on a clock that is moved by hand.
//!
//! | file | property |
//! |---|---|
//! | `panics` | a call that panics has failed |
//! | `readiness` | an open breaker does not poll the readiness of the service, and loses none |
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
