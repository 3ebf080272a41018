//! Why a call was not made.

use crate::breaker::source_of;
use core::fmt;
use core::time::Duration;

/// The refusal of a throttle: the call was not made, because the service rejects most calls.
///
/// Displayed as a sentence: `throttled, 87 % of the calls are not sent`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Throttled {
    /// The refused share, in ten-thousandths.
    refused: u32,
    /// The time until a probe, in microseconds.
    probe_in: u32,
}

impl Throttled {
    /// Creates the refusal of a share, in ten-thousandths; `probe_in` is in microseconds.
    pub(super) fn new(refused: u64, probe_in: u64) -> Self {
        // At most 10,000, and at most a second.
        Self { refused: refused as u32, probe_in: probe_in as u32 }
    }

    /// Returns the share of the calls that the throttle refused at that moment, 0.0 to 0.99.
    #[must_use]
    pub fn share_refused(&self) -> f64 {
        f64::from(self.refused) / 10_000.0
    }

    /// Returns the time after which the throttle sends a call whatever the share: at most a second.
    ///
    /// It counts from now, if the throttle sends no other call before.
    ///
    /// A throttle refuses by chance, so an earlier call may pass too. After that time it sends one call: of the callers that come
    /// back at once, the others are refused again with the same share.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        Duration::from_micros(u64::from(self.probe_in))
    }

    /// Returns the first `Throttled` in an error's chain of sources, the error itself included.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::ManualClock;
    /// use damper::throttle::{AdaptiveThrottle, Throttled};
    ///
    /// let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7);
    /// let throttled = loop {
    ///     match throttle.try_acquire() {
    ///         Ok(permit) => permit.rejected(),
    ///         Err(throttled) => break throttled,
    ///     }
    /// };
    /// assert_eq!(Throttled::find_in(&std::io::Error::other(throttled)), Some(&throttled));
    /// # }
    /// ```
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn core::error::Error + 'static)) -> Option<&'a Self> {
        core::iter::successors(Some(error), |error| source_of(*error)).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "throttled, {} % of the calls are not sent", self.refused.div_ceil(100))
    }
}

crate::internal::debug_by_display!(Throttled);

impl core::error::Error for Throttled {}
