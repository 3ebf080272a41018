//! For how many hosts breakers can be made.

use core::fmt;

/// The most hosts, as of [`LruStore`](damper_core::LruStore).
const MAX_CAPACITY: usize = 1 << 28;

/// Returns the capacity if it is 1 to the most.
pub(super) const fn check_capacity(capacity: usize) -> Result<usize, CapacityError> {
    if capacity >= 1 && capacity <= MAX_CAPACITY { Ok(capacity) } else { Err(CapacityError { capacity }) }
}

/// A capacity that is 0, or more than there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CapacityError {
    capacity: usize,
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
        MAX_CAPACITY
    }
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "capacity is {}, it must be 1 to {}", self.capacity, self.max())
    }
}

impl core::error::Error for CapacityError {}
