//! Functions for `damper-tonic`.

pub use crate::rate_limit::grpc::{ask_limit, is_grpc_type};

use crate::StackError;
use crate::retry::unprocessed;
use alloc::string::String;
use core::error::Error;

/// Returns whether the error or one of its sources shows that no server processed the request.
#[must_use]
pub fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    unprocessed::is_unprocessed(error)
}

/// Returns whether an error shows that a connected server's application did not see the request.
#[must_use]
pub fn is_unseen(error: &(dyn Error + 'static)) -> bool {
    unprocessed::is_unseen(error)
}

/// Returns the messages of the sources of a stack's error, each once.
#[must_use]
pub fn reason_of(error: &StackError) -> String {
    crate::stack::reason_of(error)
}
