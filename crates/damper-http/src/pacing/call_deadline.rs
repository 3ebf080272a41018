//! The time until which a call may sleep, and the timeout that it sends to the server.

use crate::Head;
use crate::deadline::SentTimeout;
use crate::rate_limit::grpc::grpc_type;
use crate::wire;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::throttle::PaceTooSlow;
use http::HeaderMap;

/// The deadline of a call that sleeps before it is made.
#[derive(Clone, Debug)]
pub(super) struct CallDeadline {
    /// The deadline in the extensions of the request.
    given: Option<Deadline>,
    /// The `grpc-timeout` that the request carries.
    grpc: Option<Deadline>,
    /// The timeout that an outer layer of deadlines has written.
    sent: Option<SentTimeout>,
}

impl CallDeadline {
    pub(super) fn of(head: &Head<'_>) -> Self {
        Self {
            given: head.extensions.get::<Deadline>().copied(),
            grpc: grpc_type(head).and_then(|_| wire::grpc_timeout_in(head.headers)).map(Deadline::after),
            sent: head.extensions.get::<SentTimeout>().cloned(),
        }
    }

    /// Checks that the call can sleep for this long.
    ///
    /// # Errors
    ///
    /// [`PaceTooSlow`] if the deadline does not leave enough time.
    pub(super) fn check(&self, sleep: Duration) -> Result<(), PaceTooSlow> {
        let left = self.left();
        if sleep < left { Ok(()) } else { Err(PaceTooSlow::new(sleep, left)) }
    }

    /// Returns the time left, which is [`Duration::MAX`] without a deadline.
    pub(super) fn left(&self) -> Duration {
        let given = self.given.as_ref().filter(|deadline| !deadline.is_never()).map(Deadline::remaining);
        let given = given.into_iter().chain(self.grpc.as_ref().map(Deadline::remaining)).min();
        let sent = self.sent.as_ref().map(SentTimeout::left);
        given.into_iter().chain(sent).min().unwrap_or(Duration::MAX)
    }

    /// Updates the timeout headers with the time left after the sleep.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let left = self.left();
        if let Some(sent) = &self.sent {
            sent.write(headers, left);
            return;
        }
        if self.grpc.is_some() {
            headers.insert(wire::GRPC_TIMEOUT, wire::grpc_timeout(left));
        }
    }
}
