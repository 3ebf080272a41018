//! Tokens that were taken for a call whose cost is known later.

use super::RedisLimiter;
use super::keyed_redis_limiter::LimitHandle;
use core::fmt;
use damper_core::Allowed;

/// Tokens that were taken in advance for a call whose cost is known later.
///
/// If the reservation is dropped without [`settle`](Self::settle), all of them count as used.
#[must_use = "a reservation that is not settled counts as used"]
pub struct RedisReservation {
    limit: Reserved,
    taken: u32,
    allowed: Allowed,
}

/// The limit of a reservation.
pub(super) enum Reserved {
    /// It keeps the limiter, which goes on to serve it.
    Limiter(RedisLimiter),
    /// `None` if the key has no limit.
    Key(Option<LimitHandle>),
}

impl RedisReservation {
    pub(super) fn new(limit: Reserved, taken: u32, allowed: Allowed) -> Self {
        Self { limit, taken, allowed }
    }

    /// Returns the answer to the check that took the tokens.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        self.allowed
    }

    /// Corrects the cost: gives back unused tokens, or charges those that were used beyond the reservation.
    ///
    /// It calls [`refund`](RedisLimiter::refund) or [`charge`](RedisLimiter::charge).
    pub fn settle(self, used: u32) {
        match self.limit {
            Reserved::Limiter(limiter) if used > self.taken => limiter.charge(used - self.taken),
            Reserved::Limiter(limiter) => limiter.refund(self.taken - used),
            Reserved::Key(Some(handle)) => handle.settle(self.taken, used),
            Reserved::Key(None) => {}
        }
    }
}

impl fmt::Debug for RedisReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisReservation").field("taken", &self.taken).finish_non_exhaustive()
    }
}
