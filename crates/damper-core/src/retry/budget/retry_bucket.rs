//! A bucket that calls fill.

use super::{Budget, RetryBudgetConfig};
use crate::limit::{Algorithm, TokenBucket};
use crate::sync::const_unless_loom;
use crate::time::{Clock, DefaultClock};

/// A token bucket of retries that time and calls refill, in one word.
///
/// Time refills it at the floor's rate and each call by the ratio, up to the reserve.
///
/// In any interval `T` the retries are at most `reserve + floor · T + ratio · (calls that began in T)`, across all
/// threads. That is stricter than a [`RetryBudget`](super::RetryBudget): the deposits of calls into a full bucket are
/// lost, so only the reserve is saved up before an incident. With a reserve of 0 no retry is ever allowed. Reserve and
/// floor hold for at least 4,294,967 retries. Larger settings may have no effect.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::retry::{Budget, RetryBucket, RetryBudgetConfig};
///
/// let budget = RetryBucket::new(RetryBudgetConfig::builder().ratio(0.5).floor(0).reserve(1).build()?);
/// assert!(budget.try_withdraw() && !budget.try_withdraw());
/// budget.began();
/// budget.began();
/// assert!(budget.try_withdraw());
/// # }
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Debug)]
pub struct RetryBucket<C = DefaultClock> {
    /// The bucket. Its token divides both a deposit and a retry, so that no deposit is rounded.
    bucket: TokenBucket,
    deposit: u32,
    withdrawal: u32,
    clock: C,
}

#[cfg(feature = "std")]
impl RetryBucket {
    const_unless_loom! {
        /// Creates a full bucket on the [default clock](DefaultClock).
        #[must_use]
        pub const fn new(config: RetryBudgetConfig) -> Self {
            Self::with_clock(config, crate::time::Monotonic)
        }
    }
}

impl<C: Clock> RetryBucket<C> {
    const_unless_loom! {
        /// Creates a full bucket on a clock of your own. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(config: RetryBudgetConfig, clock: C) -> Self {
            let (deposit, withdrawal) = config.ratio.in_units();
            Self { bucket: TokenBucket::new(config.bucket(withdrawal)), deposit, withdrawal, clock }
        }
    }

    /// Returns how many retries could be made now, for dashboards. Takes nothing.
    #[must_use]
    pub fn retries_left(&self) -> u32 {
        self.bucket.usage(&self.clock).remaining() / self.withdrawal
    }
}

impl<C: Clock> Budget for RetryBucket<C> {
    /// Refills the bucket by the ratio.
    #[inline]
    fn began(&self) {
        self.bucket.give_back(self.deposit, &self.clock);
    }

    /// Takes the tokens of a retry.
    #[inline]
    fn try_withdraw(&self) -> bool {
        self.bucket.take_revocably(self.withdrawal, &self.clock).is_ok()
    }
}
