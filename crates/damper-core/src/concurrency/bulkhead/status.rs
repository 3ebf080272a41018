//! The counts of a bulkhead.

use crate::concurrency::slots::Occupancy;
use core::fmt;

/// The limit and the calls in flight and queued, all of one moment.
///
/// They belong to a [`Bulkhead`](super::Bulkhead) or an [`AdaptiveLimit`](crate::concurrency::AdaptiveLimit).
///
/// Displayed as `12 of 64 in flight, 3 queued`.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::Bulkhead;
///
/// let pool = Bulkhead::new(64);
/// let _permit = pool.try_acquire()?;
/// let status = pool.status();
/// assert_eq!((status.limit(), status.in_flight(), status.queued()), (64, 1, 0));
/// assert_eq!(status.to_string(), "1 of 64 in flight, 0 queued");
/// # }
/// # Ok::<(), damper::BulkheadFull>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BulkheadStatus {
    limit: u32,
    in_flight: u32,
    queued: u32,
}

impl BulkheadStatus {
    pub(super) const fn new(occupancy: Occupancy) -> Self {
        Self { limit: occupancy.limit(), in_flight: occupancy.in_flight(), queued: occupancy.queued() }
    }

    /// Returns the limit in force, in calls in flight.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the number of permits. It exceeds the limit only after the limit was lowered.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns how many calls waited in the queue.
    #[must_use]
    pub const fn queued(&self) -> u32 {
        self.queued
    }
}

impl fmt::Display for BulkheadStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, in_flight, queued } = self;
        write!(f, "{in_flight} of {limit} in flight, {queued} queued")
    }
}
