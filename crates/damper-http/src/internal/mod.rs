//! Items for `damper-config`, `damper-live`, `damper-mesh` and `damper-tonic`. Do not use this module.
//!
//! It is public only because those crates are separate. It is excluded from the semver promise: any release may change or remove it, so
//! they are released together with this crate.

mod grpc;

pub use crate::limit::limits_for_each;
#[cfg(feature = "tower")]
pub use crate::stack::{AttemptParts, CallParts, GatePart, LayerPart, NoPart, RepeatParts};
pub use crate::telemetry::{DeadlineStage, DeadlineTelemetry, PacingTelemetry};
#[cfg(feature = "tracing")]
pub use crate::telemetry::{LogSampler, Sample, millis};
pub use crate::timed_body::BodyLimits;
#[cfg(feature = "http2")]
pub use grpc::is_refused_stream;
pub use grpc::{ask_limit, is_grpc_type, is_unprocessed};
#[cfg(feature = "tower")]
pub use grpc::{reason_of, stack_error};

use crate::{Head, TimedBody};
use core::net::SocketAddr;

/// Puts a body under these times.
pub fn timed_body<B: http_body::Body + Send + 'static>(body: B, limits: Option<BodyLimits>) -> TimedBody<B> {
    TimedBody::new(body, limits)
}

/// Returns the head with the peer of its connection, if one is given.
#[must_use]
pub fn with_peer<'a>(head: Head<'a>, peer: Option<&'a SocketAddr>) -> Head<'a> {
    head.with_peer(peer)
}
