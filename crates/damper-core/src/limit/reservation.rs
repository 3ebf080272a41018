//! Tokens that were taken now, to be used when they are there.

use super::TokenBucket;
use super::token_bucket::Reserved;
use crate::time::Clock;
use core::time::Duration;

/// Tokens that were taken in advance: they may be used when [`ready_in`](Reservation::ready_in) says.
///
/// Dropping it keeps them taken; [`cancel`](Reservation::cancel) gives them back as far as that is possible.
#[derive(Debug)]
#[must_use = "the tokens are taken, and are not there before `ready_in` says"]
pub struct Reservation<'a, C: Clock> {
    bucket: &'a TokenBucket,
    clock: &'a C,
    reserved: Reserved,
}

impl<'a, C: Clock> Reservation<'a, C> {
    pub(super) fn new(bucket: &'a TokenBucket, clock: &'a C, reserved: Reserved) -> Self {
        Self { bucket, clock, reserved }
    }

    /// The time from now until the tokens may be used, rounded up to the clock's tick; zero if they may be. `None` if
    /// they never will be, because the quota was changed to one that refills nothing.
    #[must_use]
    pub fn ready_in(&self) -> Option<Duration> {
        self.bucket.ready_in(self.reserved, self.clock)
    }

    /// Blocks the thread until the tokens are there. A refund or a change of the quota wakes it, and it waits by what is
    /// in force then.
    #[cfg(feature = "std")]
    pub fn wait(self) {
        self.bucket.wait(self.reserved, self.clock);
    }

    /// Gives the tokens back if nothing was taken since and their time has not come; whether it did.
    ///
    /// All or nothing: a partial return would allow too much when two reservations are cancelled out of order. Tokens
    /// that are not given back count as used.
    #[expect(clippy::must_use_candidate, reason = "who cancels may not care")]
    pub fn cancel(self) -> bool {
        self.bucket.cancel(self.reserved, self.clock)
    }
}
