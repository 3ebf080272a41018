//! Items for `damper-mesh` and `damper-tonic`. Do not use this module.
//!
//! It is public only because those crates are separate. It is excluded from the semver promise: any release may change or remove it, so
//! they are released together with this crate.

#[cfg(feature = "tonic")]
mod grpc;

pub use crate::telemetry::{DeadlineStage, DeadlineTelemetry, PacingTelemetry};
#[cfg(feature = "tracing")]
pub use crate::telemetry::{LogSampler, Sample, millis};
#[cfg(feature = "tonic")]
pub use grpc::{is_grpc_type, is_unprocessed, is_unseen, reason_of, refusal_status, status};
