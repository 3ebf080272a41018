//! For how many keys a limiter or a store can be made.

use crate::OutOfRange;

/// The most keys: 2^28, and 2^24 on targets of 32 bits, where more would not fit the memory.
pub(crate) const MAX_CAPACITY: usize = if usize::BITS >= 64 { 1 << 28 } else { 1 << 24 };

/// Returns the capacity if it is 1 to `max`.
pub(crate) fn capacity_within(max: usize, capacity: usize) -> Result<usize, OutOfRange> {
    OutOfRange::check_count("capacity", capacity as u64, 1..=max as u64)?;
    Ok(capacity)
}
