//! The order in which a queue is served.

use super::Link;
use core::fmt;

/// Decides which waiting call gets the next slot, and which one gives way.
///
/// It has the waiting calls in lists of its own, through the links of the queue's places.
///
/// `ticket` returns the number of a waiting call. Newer calls have higher numbers.
pub(in crate::concurrency) trait Discipline: fmt::Debug {
    /// The properties of a newcomer by which it is ranked.
    type Newcomer: Copy;

    /// The rank of a waiting call, which its place keeps.
    type Rank: Copy + Default + fmt::Debug;

    /// Whether no more calls may wait than may be in flight.
    const IS_WITHIN_LIMIT: bool;

    /// The places for each call that may wait. With two, granted calls take none from newcomers.
    const PLACES_PER_CALL: u16;

    /// Adds a newcomer, in the place `call`, and returns its rank.
    fn push(&mut self, newcomer: Self::Newcomer, call: u16, links: &mut [Link]) -> Self::Rank;

    /// Removes a waiting call.
    fn remove(&mut self, rank: Self::Rank, call: u16, links: &mut [Link]);

    /// Records that a call of this rank got a slot.
    fn start(&mut self, rank: Self::Rank);

    /// Returns the call that gets the next slot, if one waits.
    fn next(&self, ticket: impl Fn(u16) -> u64) -> Option<u16>;

    /// Returns the call that gives way to this newcomer, or to a queue that has become shorter.
    fn victim(&self, newcomer: Option<Self::Newcomer>, ticket: impl Fn(u16) -> u64) -> Option<u16>;
}
