//! The units of time in which the buckets under a [`Plan`](super::Plan) store instants.

use super::SECOND;

/// The number of bits in which an instant is stored if a [beat](Beats) is 64 ns.
pub(crate) const TIME_BITS: u32 = 48;

/// The number of bits in which an instant is stored if a [beat](Beats) is 256 ns.
#[cfg(target_has_atomic = "64")]
pub(crate) const COARSE_TIME_BITS: u32 = 41;

/// A unit of time, the *beat*, and the number of bits in which an instant is stored.
///
/// An instant is a number of beats, which wraps when it exceeds the bits. Every debt is repaid within a quarter of the
/// time after which instants wrap. A token takes at least two beats to arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beats {
    nanos: u64,
    bits: u32,
    shortest_note: &'static str,
    longest_note: &'static str,
}

impl Beats {
    /// The beats of a [`Plan`](super::Plan): 64 ns each, with instants of 48 bits, which wrap after 208 days.
    pub(crate) const FINE: Self = Self {
        nanos: 64,
        bits: TIME_BITS,
        shortest_note: "(a token takes 128 ns or more)",
        longest_note: "(a refill takes 52 days or less)",
    };

    /// The beats of a [table of words](crate::words): 256 ns each, with instants of 41 bits.
    ///
    /// These instants wrap after 6.5 days.
    #[cfg(target_has_atomic = "64")]
    pub(crate) const COARSE: Self = Self {
        nanos: 256,
        bits: COARSE_TIME_BITS,
        shortest_note: "(in a table of words a token takes 512 ns or more)",
        longest_note: "(in a table of words a refill takes 39 hours or less)",
    };

    /// Returns the length of a beat in nanoseconds.
    pub(crate) const fn nanos(self) -> u64 {
        self.nanos
    }

    /// Returns the number of beats in a second.
    pub(crate) const fn per_second(self) -> u64 {
        SECOND / self.nanos
    }

    /// Returns the most beats that repaying a debt may take: a quarter of the time until instants wrap.
    pub(crate) const fn longest_debt(self) -> u64 {
        1 << (self.bits - 2)
    }

    /// Returns the shortest time in which a token may arrive, in nanoseconds.
    pub(crate) const fn shortest_token(self) -> u64 {
        2 * self.nanos
    }

    /// Returns the note that ends the error message for a quota that is too fast.
    pub(crate) const fn shortest_note(self) -> &'static str {
        self.shortest_note
    }

    /// Returns the note that ends the error message for a quota whose debts take too long to repay.
    pub(crate) const fn longest_note(self) -> &'static str {
        self.longest_note
    }
}
