//! damper-tonic through its public API: gRPC servers and clients, over real sockets.

mod allocations;
#[path = "../../../damper-http/tests/http/breaker_support.rs"]
#[expect(dead_code, reason = "some of it is for the tests of other crates")]
mod breaker_support;
mod circuit_breaker;
mod concurrency;
mod deadline;
mod hedge;
#[path = "../../../damper-http/tests/http/support.rs"]
#[expect(dead_code, reason = "some of it is for the tests of other crates")]
#[allow(unexpected_cfgs, reason = "this package has no feature `axum`")]
mod http_support;
mod missing_status;
mod pacing;
mod rate_limit;
mod retry;
mod stack;
#[path = "../../../../tests/support/subscribers.rs"]
mod subscribers;
mod support;
mod throttle;
#[path = "../../../damper-core/tests/core/models/tokio_clock.rs"]
mod tokio_clock;
