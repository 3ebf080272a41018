//! Where several crates of damper meet: stacks, telemetry, and what all crates keep to.

#[cfg(all(feature = "tokio", feature = "tower"))]
mod boxed_errors;
#[cfg(all(feature = "hyper", feature = "tokio", feature = "tower"))]
mod client;
#[cfg(all(feature = "http", feature = "tonic"))]
mod endings;
#[cfg(all(feature = "hyper", feature = "tokio", feature = "axum"))]
mod gates;
#[cfg(all(feature = "config", feature = "tokio", feature = "tonic"))]
mod grpc_settings;
#[path = "../../crates/damper-tonic/tests/grpc/support.rs"]
#[cfg(all(feature = "config", feature = "tokio", feature = "tonic"))]
#[expect(dead_code, reason = "some of it is for the tests of other crates")]
mod grpc_support;
#[cfg(feature = "std")]
mod live_settings;
#[cfg(feature = "std")]
mod minorities;
#[cfg(feature = "std")]
mod public_types;
#[cfg(all(feature = "hyper", feature = "tokio", feature = "axum"))]
mod stacks;
#[path = "../support/subscribers.rs"]
#[cfg(all(feature = "metrics", feature = "tower", feature = "tracing"))]
mod subscribers;
#[path = "../../crates/damper-http/tests/http/support.rs"]
#[cfg(all(feature = "hyper", feature = "tokio", feature = "tower"))]
#[expect(dead_code, reason = "some of it is for the tests of other crates")]
mod support;
#[cfg(all(feature = "metrics", feature = "tower", feature = "tracing"))]
mod telemetry;
#[cfg(all(feature = "hyper", feature = "live", feature = "mesh", feature = "tokio", feature = "tower"))]
mod tower_http;
