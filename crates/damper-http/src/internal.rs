//! For damper's own crates: what `damper-tonic` needs. Do not use it.
//!
//! It is public only because that is a crate of its own. It is no part of the semver promise: any of it may change or
//! go in any release, so `damper-tonic` is released together with this crate.

pub use crate::rate_limit::grpc::{is_grpc_type, refusal_status, status};

pub use crate::stack::wait_of;

use crate::retry::unprocessed;
use core::error::Error;

/// Returns whether the error, or one among its sources, shows that no server processed the request.
#[must_use]
pub fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    unprocessed::is_unprocessed(error)
}
