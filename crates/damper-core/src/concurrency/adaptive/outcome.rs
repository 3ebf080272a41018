//! The outcome of a call, as a sign of the service's load.

use super::{AdaptiveLimit, LimitRule};
use crate::concurrency::BulkheadPermit;
use crate::time::Clock;
use core::ops::Deref;

/// The outcome of a call, as a sign of the service's load, for an [`AdaptiveLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Outcome {
    /// The service did its work: how long that took counts.
    Success,
    /// The service refused the call because it is overloaded (503, 429), or the call timed out.
    Overloaded,
    /// Nothing: the caller gave up, the request was invalid, or an error came faster than an answer would have.
    Ignored,
}

impl Outcome {
    /// Returns the outcome of a call without a closer look: `Ok` is a success, and `Err` is ignored, because an error that comes
    /// fast says nothing about the service's load.
    pub const fn of<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(_) => Self::Ignored,
        }
    }
}

/// How the call of an [`AdaptiveLimit`]'s permit ended. A permit that is dropped says nothing.
impl<L, R, C> BulkheadPermit<L>
where
    L: Deref<Target = AdaptiveLimit<R, C>>,
    R: LimitRule,
    C: Clock,
{
    /// Records that the service did its work: the time since the permit was given counts.
    #[inline]
    pub fn success(self) {
        self.record(Outcome::Success);
    }

    /// Records that the service refused the call because it is overloaded, or that the call timed out.
    ///
    /// If that happens to more than a tenth of the calls, and the limit is reached, it shrinks.
    #[inline]
    pub fn overloaded(self) {
        self.record(Outcome::Overloaded);
    }

    /// Records nothing, as if the permit was dropped.
    #[inline]
    pub fn ignore(self) {
        self.record(Outcome::Ignored);
    }

    /// Records `outcome`.
    #[inline]
    pub fn record(self, outcome: Outcome) {
        let (limit, began) = self.parts();
        limit.record(began, outcome);
    }
}
