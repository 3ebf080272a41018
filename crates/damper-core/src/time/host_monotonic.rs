//! The monotonic clock of the host, which all of its processes share.

use super::Clock;
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the host's `CLOCK_MONOTONIC`: the same reading in all processes.
///
/// It is the clock of [words that processes share](crate::words). It counts from the boot of the machine, and stands still while the machine
/// sleeps. Processes in different time namespaces read different times.
///
/// [`Monotonic`](super::Monotonic) does not do there, because each process calibrates the processor's counter for itself: calibrations were
/// seen to differ by 2.5 parts in a million, which is 12 ms after 80 minutes and 21 s after 100 days. [`StdClock`](super::StdClock) starts at
/// 0 in each process. Its nanoseconds are these, but std does not show them.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::Clock;
/// use damper::time::HostMonotonic;
///
/// assert!(HostMonotonic::PRECISE.now() > 0);
/// assert_eq!(HostMonotonic::PRECISE.frequency(), 1_000_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg(all(feature = "rustix", unix))]
pub struct HostMonotonic {
    is_coarse: bool,
}

#[cfg(all(feature = "rustix", unix))]
impl HostMonotonic {
    /// Reads the time to the nanosecond, in some 20 to 60 ns.
    pub const PRECISE: Self = Self { is_coarse: false };

    /// Reads the time of the kernel's last tick, `CLOCK_MONOTONIC_COARSE`: late by 1 to 10 ms, in some 5 ns.
    ///
    /// Tokens come in steps of a tick, so a burst smaller than the tokens of a tick caps the rate. It can be used beside
    /// [`PRECISE`](Self::PRECISE) on the same words.
    #[cfg(target_os = "linux")]
    pub const COARSE: Self = Self { is_coarse: true };

    #[inline]
    fn id(self) -> ClockId {
        match self.is_coarse {
            #[cfg(target_os = "linux")]
            true => ClockId::MonotonicCoarse,
            _ => ClockId::Monotonic,
        }
    }
}

/// The precise clock.
#[cfg(all(feature = "rustix", unix))]
impl Default for HostMonotonic {
    fn default() -> Self {
        Self::PRECISE
    }
}

#[cfg(all(feature = "rustix", unix))]
impl Clock for HostMonotonic {
    /// Wraps after 584 years.
    #[inline]
    fn now(&self) -> u64 {
        let time = clock_gettime(self.id());
        // Neither is negative.
        (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
    }

    /// 10^9.
    #[inline]
    fn frequency(&self) -> u64 {
        1_000_000_000
    }

    /// 20 ms, because a coarse reading is late by up to a tick of the kernel.
    #[inline]
    fn max_step_back(&self) -> u64 {
        20_000_000
    }
}
