//! The refusal.

use damper::gate::{NotSent, Refusal, RefusalKind};
use damper::tonic::{IntoStatus, status_of_refusal};
use std::error::Error;
use std::fmt;
use std::time::Duration;
use tonic::Status;

/// The refusal of a gate that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    pub(crate) opens: u32,
    pub(crate) opens_in: Duration,
}

impl Refusal for Closed {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable // 503, or gRPC's UNAVAILABLE
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(self.opens_in)
    }

    fn label(&self) -> &'static str {
        "closed"
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "closed, opens at {}:00", self.opens)
    }
}

/// Its source says that the call was not sent.
///
/// So breakers and retries know it as a refusal, and callers find it by its type, in every error around it.
impl Error for Closed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&NotSent)
    }
}

/// Clients of gRPC get errors as statuses. Servers do not need this.
impl IntoStatus for Closed {
    fn into_status(self) -> Status {
        status_of_refusal(self)
    }
}
