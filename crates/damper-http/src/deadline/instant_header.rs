//! A deadline as an instant in a header of the user's choosing.

use super::timeout_header::number_in;
use alloc::sync::Arc;
use core::time::Duration;
use damper_core::deadline::{Arrival, Deadline, SkewGuard};
use http::{HeaderMap, HeaderName};
use std::time::SystemTime;

/// The header that carries the instant, and the guard that decides whether to believe it.
#[derive(Clone, Debug, Default)]
pub(super) struct InstantHeader {
    pub(super) name: Option<HeaderName>,
    pub(super) guard: Option<Arc<SkewGuard>>,
}

impl InstantHeader {
    /// Reads the deadline of a request by the system clock, and decides on it.
    ///
    /// It returns `None` if there is none, or if it is malformed.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<(Deadline, Arrival)> {
        let instant = Duration::from_millis(number_in(headers, self.name.as_ref()?)?);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let deadline = Deadline::after(instant.saturating_sub(now));
        let arrival = match &self.guard {
            Some(guard) => guard.arrived(&deadline),
            None => deadline.check().map_or_else(Arrival::Expired, |()| Arrival::InTime),
        };
        Some((deadline, arrival))
    }
}
