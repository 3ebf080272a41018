//! The units in which instants of buckets under plans are kept.

use super::SECOND;

/// The bits of an instant in beats of 64 ns.
pub(crate) const TIME_BITS: u32 = 48;

/// The bits of an instant in beats of 256 ns.
#[cfg(target_has_atomic = "64")]
pub(crate) const COARSE_TIME_BITS: u32 = 41;

/// A unit of time, and how many bits of an instant are kept in it.
///
/// A debt takes at most a quarter of the circle of instants to be repaid, and a token lasts at least two units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beats {
    nanos: u64,
    bits: u32,
    shortest_note: &'static str,
    longest_note: &'static str,
}

impl Beats {
    /// The beats of plans: 64 ns, in 48 bits. Instants circle after 208 days.
    pub(crate) const FINE: Self = Self {
        nanos: 64,
        bits: TIME_BITS,
        shortest_note: "(a token takes 128 ns or more)",
        longest_note: "(a refill takes 52 days or less)",
    };

    /// The beats of a table of words: 256 ns, in 41 bits. Instants circle after 6.5 days.
    #[cfg(target_has_atomic = "64")]
    pub(crate) const COARSE: Self = Self {
        nanos: 256,
        bits: COARSE_TIME_BITS,
        shortest_note: "(in a table of words a token takes 512 ns or more)",
        longest_note: "(in a table of words a refill takes 39 hours or less)",
    };

    /// Returns the nanoseconds of a beat.
    pub(crate) const fn nanos(self) -> u64 {
        self.nanos
    }

    /// Returns the beats of a second.
    pub(crate) const fn per_second(self) -> u64 {
        SECOND / self.nanos
    }

    /// Returns the most beats that a debt takes to be repaid: a quarter of the circle of instants.
    pub(crate) const fn longest_debt(self) -> u64 {
        1 << (self.bits - 2)
    }

    /// Returns the shortest time that a token takes, in nanoseconds.
    pub(crate) const fn shortest_token(self) -> u64 {
        2 * self.nanos
    }

    /// Returns what a refusal of a quota that is too fast adds.
    pub(crate) const fn shortest_note(self) -> &'static str {
        self.shortest_note
    }

    /// Returns what a refusal of a quota whose debts are too long adds.
    pub(crate) const fn longest_note(self) -> &'static str {
        self.longest_note
    }
}
