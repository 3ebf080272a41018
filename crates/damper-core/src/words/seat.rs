//! The number of a process among those that share a bulkhead.

use crate::out_of_range::{OutOfRange, check};
use crate::sync::Field;

/// The number of a process among those that share a [`WordBulkhead`](super::WordBulkhead): 0 to 7.
///
/// Two live processes never have the same seat. The supervisor gives out the seats.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::words::Seat;
///
/// assert_eq!(Seat::new(3)?.number(), 3);
/// assert_eq!(Seat::new(8).unwrap_err().to_string(), "seat is 8, it must be at most 7");
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seat(u8);

impl Seat {
    /// The number of seats.
    pub const COUNT: u8 = 8;

    /// Creates the seat of this number.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the number is above 7.
    pub const fn new(number: u8) -> Result<Self, OutOfRange> {
        check!(check_count("seat", number as u64, 0..=Self::COUNT as u64 - 1));
        Ok(Self(number))
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns all seats, in order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// Returns the byte of this seat in the word.
    pub(super) const fn byte(self) -> Field {
        Field::at(8 * self.0 as u32, 8)
    }
}
