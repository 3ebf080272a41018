//! Items for `damper-config`, `damper-live`, `damper-mesh` and `damper-tonic`. Do not use this module.
//!
//! It is public only because those crates are separate. It is excluded from the semver promise: any release may change or remove it, so
//! they are released together with this crate.

pub use crate::limit::limits_for_each;
pub use crate::pacing::{PaceOnly, Repeating, Unjudged};
pub use crate::rate_limit::grpc::{ask_limit, is_grpc_type};
#[cfg(feature = "hyper")]
pub use crate::retry::classify::is_error_of_user;
#[cfg(feature = "http2")]
pub use crate::retry::classify::is_refused_stream;
pub use crate::retry::classify::{is_fault_of_request, is_unprocessed};
pub use crate::rewrite::OptionalRewrite;
pub use crate::stack::{AttemptParts, CallParts, GatePart, LayerPart, NoPart, PartErrors, PeerLimit, RepeatParts};
pub use crate::telemetry::{DeadlineStage, Event, Kind, RefusalDetails, Telemetry};
pub use crate::timed_body::{BodyLimits, TimedBody};
pub use crate::wire::{ERROR_DOMAIN, QUOTA_SUBJECT, error_reason};

pub use of_stacks::{reason_of, stack_error};

use crate::Head;
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
