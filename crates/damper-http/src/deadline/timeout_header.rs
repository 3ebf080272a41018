//! A timeout, and a deadline as an instant, in headers of the user's choosing.

use alloc::sync::Arc;
use core::time::Duration;
use damper_core::deadline::{Arrival, Deadline, SkewGuard};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::time::SystemTime;

/// The unit of the number in a timeout header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutUnit {
    /// Whole seconds.
    Seconds,
    /// Whole milliseconds, as in Envoy's `x-envoy-expected-rq-timeout-ms`.
    Milliseconds,
    /// Whole microseconds.
    Microseconds,
}

/// The name of a header and the unit of its number.
#[derive(Clone, Debug)]
pub(super) struct TimeoutHeader {
    pub(super) name: HeaderName,
    pub(super) unit: TimeoutUnit,
}

impl TimeoutHeader {
    /// Reads the timeout. Larger numbers saturate at `u64::MAX`.
    ///
    /// It returns `None` if there is none, or if it is malformed.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<Duration> {
        let number = number_in(headers, &self.name)?;
        Some(match self.unit {
            TimeoutUnit::Seconds => Duration::from_secs(number),
            TimeoutUnit::Milliseconds => Duration::from_millis(number),
            TimeoutUnit::Microseconds => Duration::from_micros(number),
        })
    }

    /// Writes a timeout in whole units: at least one, and otherwise no more than the time left.
    pub(super) fn write(&self, headers: &mut HeaderMap, timeout: Duration) {
        let number = match self.unit {
            TimeoutUnit::Seconds => u128::from(timeout.as_secs()),
            TimeoutUnit::Milliseconds => timeout.as_millis(),
            TimeoutUnit::Microseconds => timeout.as_micros(),
        };
        let number = u64::try_from(number).unwrap_or(u64::MAX).max(1);
        headers.insert(self.name.clone(), HeaderValue::from(number));
    }
}

/// Reads the whole number in a header, if there is one. Larger numbers saturate at `u64::MAX`.
pub(super) fn number_in(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let digits = headers.get(name)?.to_str().ok()?.trim_ascii();
    // Only digits are valid, but parsing a `u64` would accept a sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// The header that carries the instant, and the guard that decides whether to believe it.
#[derive(Clone, Debug, Default)]
pub(super) struct InstantHeader {
    pub(super) name: Option<HeaderName>,
    pub(super) guard: Option<Arc<SkewGuard>>,
}

impl InstantHeader {
    /// Reads the deadline of a request by the system clock.
    ///
    /// It returns `None` if there is none, or if it is malformed.
    pub(super) fn deadline(&self, headers: &HeaderMap) -> Option<Deadline> {
        let instant = Duration::from_millis(number_in(headers, self.name.as_ref()?)?);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some(Deadline::after(instant.saturating_sub(now)))
    }

    /// Reads the deadline of a request by the system clock, and decides on it.
    ///
    /// It returns `None` if there is none, or if it is malformed.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<(Deadline, Arrival)> {
        let deadline = self.deadline(headers)?;
        let arrival = match &self.guard {
            Some(guard) => guard.arrived(&deadline),
            None => deadline.check().map_or_else(Arrival::Expired, |()| Arrival::InTime),
        };
        Some((deadline, arrival))
    }
}
