//! The timeouts of requests: the deadline of a received one, and the timeout that a client sends.

use super::{Protocol, TimeoutHeader};
use crate::Head;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::setting::Setting;
use http::{Extensions, HeaderMap, Request};

/// The sources of a request's deadline in a layer.
#[derive(Clone, Debug)]
pub(super) struct Timeouts {
    /// The layer's own timeout.
    pub(super) default: Option<Setting<Duration>>,
    /// The header of requests other than gRPC.
    pub(super) header: Option<TimeoutHeader>,
}

impl Timeouts {
    pub(super) fn new(default: Option<Setting<Duration>>) -> Self {
        Self { default, header: None }
    }

    /// Returns the earliest deadline that is set for this request.
    ///
    /// A malformed header sets none, so it cannot lengthen the default.
    pub(super) fn deadline(&self, head: &Head<'_>, protocol: &Protocol) -> Deadline {
        let requested = protocol.read_timeout(head.headers, self.header.as_ref());
        let timeout = requested.into_iter().chain(self.default.as_ref().map(Setting::get)).min();
        let own = timeout.map_or(Deadline::NEVER, Deadline::after);
        // An outer layer or the handler may have set one.
        head.extensions.get::<Deadline>().map_or(own, |outer| own.earlier(*outer))
    }
}

/// The timeout in a request's headers, which can be updated.
///
/// A client's layer of deadlines puts it into the extensions of a request, for inner layers that send the request again.
#[derive(Clone, Debug)]
pub(crate) struct SentTimeout {
    pub(super) deadline: Deadline,
    pub(super) margin: Duration,
    pub(super) protocol: Protocol,
    pub(super) header: Option<TimeoutHeader>,
}

impl SentTimeout {
    /// Writes the time left now minus the margin, but at most `most`, the caller's time left.
    pub(crate) fn write(&self, headers: &mut HeaderMap, most: Duration) {
        self.protocol.write_timeout(headers, self.header.as_ref(), self.left().min(most));
    }

    /// Writes the time left now into a request that has waited, if a layer of deadlines is around.
    pub(crate) fn update<B>(request: &mut Request<B>) {
        if let Some(sent) = request.extensions().get::<Self>().cloned() {
            sent.write(request.headers_mut(), Duration::MAX);
        }
    }

    /// Returns the time within which a request with these extensions has to be sent.
    ///
    /// It is [`Duration::MAX`] without a layer of deadlines around.
    pub(crate) fn left_in(extensions: &Extensions) -> Duration {
        extensions.get().map_or(Duration::MAX, Self::left)
    }

    /// Returns the time left now minus the margin.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.remaining().saturating_sub(self.margin)
    }
}
