//! Functions for `damper-tonic`.

pub use crate::rate_limit::grpc::{ask_limit, is_grpc_type};
#[cfg(feature = "http2")]
pub use crate::retry::refused_stream::is_refused_stream;
pub use crate::retry::unprocessed::is_unprocessed;

#[cfg(feature = "tower")]
pub use of_stacks::{reason_of, stack_error};

#[cfg(feature = "tower")]
mod of_stacks {
    use crate::{StackError, StackPart, StackProtocol};
    use alloc::boxed::Box;
    use alloc::string::String;
    use core::error::Error;
    use core::time::Duration;

    /// Returns the messages of the sources of a stack's error, each once.
    #[must_use]
    pub fn reason_of(error: &StackError) -> String {
        crate::stack::reason_of(error)
    }

    /// Returns the error of a stack by its protocol.
    ///
    /// It asks for this wait, unless the error has one.
    #[must_use]
    pub fn stack_error<P: StackProtocol>(
        part: StackPart,
        error: Box<dyn Error + Send + Sync>,
        retry_after: Option<Duration>,
    ) -> StackError {
        StackError::of_boxed::<P>(part, error).or_retry_after(retry_after)
    }
}
