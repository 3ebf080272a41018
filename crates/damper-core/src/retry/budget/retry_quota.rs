//! AWS's budget: tokens that retries take, and their successes give back.

use super::tokens::Tokens;
use super::{Budget, Failure};
use crate::out_of_range::{OutOfRange, check};
use crate::sync::const_unless_loom;

const MOST: u32 = 1_000_000;

/// AWS's budget: the "retry quota" of the SDKs' standard mode.
///
/// A retry takes tokens by the kind of the failure before it. If it succeeds, they are given back. A call that succeeds at once
/// adds a token. So a few failures cost nothing in the end, and an outage uses the quota up: with the default, a hundred calls may have one
/// retry each that fails.
///
/// It ignores time, as [`RetryThrottle`](super::RetryThrottle) does: after an outage only successes allow retries again. Each call may go on to
/// make its first attempt. Use it where clients in other languages have the SDKs' rule.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::retry::{Budget, Failure, RetryQuota};
///
/// static QUOTA: RetryQuota = RetryQuota::standard();
/// assert!(QUOTA.try_withdraw_after(Failure::TRANSIENT));
/// assert_eq!(QUOTA.tokens(), 495);
/// QUOTA.retry_succeeded(Failure::TRANSIENT);
/// assert_eq!(QUOTA.tokens(), 500);
/// ```
///
/// A timeout may cost more than a throttled call:
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::Retry;
/// use damper::retry::RetryQuota;
///
/// # #[cfg(feature = "std")] {
/// let quota = RetryQuota::new(500)?.costs(10, 5)?;
/// let retry = Retry::new(3).budget(quota);
/// # let _ = retry;
/// # }
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Debug)]
pub struct RetryQuota {
    tokens: Tokens,
    transient: u32,
    throttled: u32,
}

impl RetryQuota {
    const_unless_loom! {
        /// Creates a full quota of `capacity` tokens, 1 to 1,000,000. A retry costs 5 of them.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`], if the capacity is out of this range.
        pub const fn new(capacity: u32) -> Result<Self, OutOfRange> {
            check!(check_count("capacity", capacity as u64, 1..=MOST as u64));
            Ok(Self::full(capacity))
        }
    }

    const_unless_loom! {
        /// Creates a full quota of 500 tokens, as the SDKs do by default. A retry costs 5 of them.
        #[must_use]
        pub const fn standard() -> Self {
            Self::full(500)
        }
    }

    const_unless_loom! {
        const fn full(capacity: u32) -> Self {
            Self { tokens: Tokens::full(capacity), transient: 5, throttled: 5 }
        }
    }

    /// Sets the tokens of a retry after a [transient](Failure::TRANSIENT) and after a [throttled](Failure::THROTTLED) failure.
    ///
    /// Each is 0 to 1,000,000. Default: 5.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], which names the cost that is out of this range.
    pub const fn costs(mut self, transient: u32, throttled: u32) -> Result<Self, OutOfRange> {
        check!(check_count("transient cost", transient as u64, 0..=MOST as u64));
        check!(check_count("throttled cost", throttled as u64, 0..=MOST as u64));
        (self.transient, self.throttled) = (transient, throttled);
        Ok(self)
    }

    /// Returns the tokens that are left.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens.left()
    }

    /// Returns how many retries after transient failures could be made now, for dashboards. Takes nothing.
    ///
    /// It is `u32::MAX` if they cost nothing.
    #[must_use]
    pub fn retries_left(&self) -> u32 {
        self.tokens().checked_div(self.transient).unwrap_or(u32::MAX)
    }

    const fn cost(&self, failure: Failure) -> u32 {
        if failure.is_throttled() { self.throttled } else { self.transient }
    }
}

impl Budget for RetryQuota {
    /// Adds a token, up to the capacity.
    #[inline]
    fn succeeded(&self) {
        self.tokens.add(1);
    }

    /// Gives back what the retry took.
    #[inline]
    fn retry_succeeded(&self, failure: Failure) {
        self.tokens.add(self.cost(failure));
    }

    /// Takes the tokens of a retry after a transient failure, such as a hedge.
    #[inline]
    fn try_withdraw(&self) -> bool {
        self.tokens.take(self.transient)
    }

    #[inline]
    fn try_withdraw_after(&self, failure: Failure) -> bool {
        self.tokens.take(self.cost(failure))
    }
}
