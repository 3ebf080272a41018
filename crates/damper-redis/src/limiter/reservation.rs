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
    limiter: RedisLimiter,
    taken: u32,
    allowed: Allowed,
}

impl RedisReservation {
    pub(super) fn new(limiter: RedisLimiter, taken: u32, allowed: Allowed) -> Self {
        Self { limiter, taken, allowed }
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
        if used > self.taken {
            self.limiter.charge(used - self.taken);
        } else {
            self.limiter.refund(self.taken - used);
        }
    }
}

impl fmt::Debug for RedisReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisReservation").field("taken", &self.taken).finish_non_exhaustive()
    }
}

/// Tokens of a key that were taken in advance, like a [`RedisReservation`].
#[must_use = "a reservation that is not settled counts as used"]
pub struct KeyedRedisReservation {
    handle: Option<LimitHandle>,
    taken: u32,
    allowed: Allowed,
}

impl KeyedRedisReservation {
    pub(super) fn new(handle: Option<LimitHandle>, taken: u32, allowed: Allowed) -> Self {
        Self { handle, taken, allowed }
    }

    /// Returns the answer to the check that took the tokens.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        self.allowed
    }

    /// Corrects the cost: gives back unused tokens, or charges those that were used beyond the reservation.
    pub fn settle(self, used: u32) {
        if let Some(handle) = self.handle {
            handle.settle(self.taken, used);
        }
    }
}

impl fmt::Debug for KeyedRedisReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRedisReservation").field("taken", &self.taken).finish_non_exhaustive()
    }
}
