//! A bucket that calls fill.

use super::{Budget, RetryBudgetConfig};
use crate::limit::{Algorithm, TokenBucket};
use crate::sync::const_unless_loom;
use crate::time::{Clock, DefaultClock};

/// A token bucket of retries that time fills at a floor's rate and each call by a ratio, up to a reserve: one word.
///
/// In any interval `T` the retries are at most `reserve + floor · T + ratio · (calls that began in T)`, whatever the
/// threads. That is stricter than a [`RetryBudget`](super::RetryBudget): what calls bring while the bucket is full is
/// lost, so nothing is saved up before an incident but the reserve. With a reserve of 0 no retry is ever allowed. Reserve
/// and floor hold for at least 4,294,967 retries; what is set beyond that may have no effect.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use damper::retry::{Budget, RetryBucket, RetryBudgetConfig};
///
/// let budget = RetryBucket::new(RetryBudgetConfig::builder().ratio(0.5).floor(0).reserve(1).build()?);
/// assert!(budget.try_withdraw() && !budget.try_withdraw());
/// budget.began();
/// budget.began();
/// assert!(budget.try_withdraw());
/// # Ok::<(), damper::retry::RetryBudgetError>(())
/// ```
#[derive(Debug)]
pub struct RetryBucket<C = DefaultClock> {
    /// In the largest token of which a deposit and a retry are whole numbers, so that no deposit is rounded.
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
}

impl<C: Clock> Budget for RetryBucket<C> {
    /// Fills the bucket by the ratio.
    #[inline]
    fn began(&self) {
        self.bucket.give_back(self.deposit, &self.clock);
    }

    /// Takes a retry.
    #[inline]
    fn try_withdraw(&self) -> bool {
        self.bucket.take_revocably(self.withdrawal, &self.clock).is_ok()
    }
}
