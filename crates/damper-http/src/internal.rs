//! For damper's own crates: what `damper-tonic` needs. Do not use it.
//!
//! It is public only because that is a crate of its own. It is no part of the semver promise: any of it may change or
//! go in any release, so `damper-tonic` is released together with this crate.

pub use crate::rate_limit::grpc::{is_grpc_type, refusal_status, status};

use crate::retry::unprocessed;
use core::error::Error;
use core::time::Duration;

/// Returns whether the error, or one among its sources, shows that no server processed the request.
#[must_use]
pub fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    unprocessed::is_unprocessed(error)
}

/// Returns the wait that a refusal in the chain of an error's sources names.
#[must_use]
pub fn wait_of(error: &(dyn Error + 'static)) -> Option<Duration> {
    crate::stack::wait_of(error)
}
