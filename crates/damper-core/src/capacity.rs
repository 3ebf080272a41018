//! For how many keys a limiter or a store can be made.

use core::fmt;

/// The most keys: 2^28, and 2^24 on targets of 32 bits, where more would not fit the memory.
pub(crate) const MAX_CAPACITY: usize = if usize::BITS >= 64 { 1 << 28 } else { 1 << 24 };

/// Returns the capacity if it is 1 to `max`.
pub(crate) const fn capacity_within(max: usize, capacity: usize) -> Result<usize, CapacityError> {
    if capacity >= 1 && capacity <= max { Ok(capacity) } else { Err(CapacityError { capacity, max }) }
}

/// A capacity that is 0, or more than there can be.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::LruStore;
///
/// let error = LruStore::<String, u32>::new(0).unwrap_err();
/// assert_eq!((error.capacity(), error.max()), (0, 1 << 28));
/// assert_eq!(error.to_string(), "capacity is 0, it must be 1 to 268435456");
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg(feature = "alloc")]
pub struct CapacityError {
    capacity: usize,
    max: usize,
}

impl CapacityError {
    /// Returns the capacity that was asked for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the largest capacity that is allowed. The smallest is 1.
    #[must_use]
    pub const fn max(&self) -> usize {
        self.max
    }
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "capacity is {}, it must be 1 to {}", self.capacity, self.max)
    }
}

crate::internal::debug_by_display!(CapacityError);

impl core::error::Error for CapacityError {}
