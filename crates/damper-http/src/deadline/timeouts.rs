//! The deadline of a request: from its header, its extensions, and the layer's own default.

use super::{Protocol, TimeoutHeader};
use crate::Head;
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::setting::Setting;

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
