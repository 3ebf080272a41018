//! Several limits in one decision.

use super::{Algorithm, Allowed, Denied, Limiter, TokenBucket, Usage};
use crate::quota::{Quota, SetQuotaError};
use crate::time::{Clock, DefaultClock};
use core::fmt;

/// Several limits that a call has to pass together: ten a second *and* a thousand an hour, say.
///
/// All of them are taken, or none.
///
/// The limits are asked in their order. Put the narrowest first, so that the most frequent refusals cost least. When
/// one refuses, the earlier ones get their tokens back, less what has been refilled since, and the later ones are only
/// read. The refusal names the limit with the longest wait.
///
/// No limit ever allows more than it would alone, counting the calls that were allowed by all. A call may be refused
/// because of another call whose tokens are being given back at that moment.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::{LimitSet, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_hour(15)], &clock);
/// assert!(both.check_n(10).is_ok());
/// assert_eq!(both.check().unwrap_err().index(), 0);
/// clock.advance(core::time::Duration::from_secs(1));
/// assert!(both.check_n(5).is_ok());
/// let denied = both.check_n(6).unwrap_err(); // the first limit would wait for 100 ms
/// assert_eq!(denied.to_string(), "limit 2 (15/h burst 15): rate limit exceeded, retry in 1439 s");
/// ```
#[derive(Debug)]
pub struct LimitSet<const N: usize, A = TokenBucket, C = DefaultClock> {
    limits: [A; N],
    clock: C,
}

#[cfg(feature = "std")]
impl<const N: usize> LimitSet<N> {
    /// Token buckets of these quotas on the default clock.
    #[must_use]
    pub fn new(quotas: [Quota; N]) -> Self {
        Self::with_clock(quotas, crate::time::Monotonic)
    }
}

impl<const N: usize, C: Clock> LimitSet<N, TokenBucket, C> {
    /// Token buckets of these quotas on a clock of your own.
    #[must_use]
    pub fn with_clock(quotas: [Quota; N], clock: C) -> Self {
        Self::with_algorithms(quotas.map(TokenBucket::new), clock)
    }
}

impl<const N: usize, A: Algorithm, C: Clock> LimitSet<N, A, C> {
    /// Limits of any one algorithm.
    #[must_use]
    pub fn with_algorithms(limits: [A; N], clock: C) -> Self {
        Self { limits, clock }
    }

    /// Takes one token of every limit if all of them have one.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait.
    pub fn check(&self) -> Result<Allowed, LimitSetDenied> {
        self.check_n(1)
    }

    /// Takes `n` tokens of every limit if all of them have so many, else none of any.
    ///
    /// [`Allowed`] describes the limit that has the fewest left.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait.
    pub fn check_n(&self, n: u32) -> Result<Allowed, LimitSetDenied> {
        let mut taken = [None; N];
        let mut tightest: Option<Allowed> = None;
        for (index, limit) in self.limits.iter().enumerate() {
            match limit.take_revocably(n, &self.clock) {
                Ok((allowed, receipt)) => {
                    taken[index] = Some(receipt);
                    if tightest.is_none_or(|tightest| allowed.remaining() < tightest.remaining()) {
                        tightest = Some(allowed);
                    }
                }
                Err(denied) => {
                    for (limit, receipt) in self.limits.iter().zip(taken).rev() {
                        if let Some(receipt) = receipt {
                            limit.roll_back(n, receipt, &self.clock);
                        }
                    }
                    return Err(self.longest_refusal(n, denied, index));
                }
            }
        }
        Ok(tightest.unwrap_or_else(Allowed::unlimited))
    }

    /// The refusal with the longest wait, of `denied` and of the limits after it.
    ///
    /// `denied` is that of the limit `index`. The limits before it allowed the call.
    #[cold]
    fn longest_refusal(&self, n: u32, denied: Denied, index: usize) -> LimitSetDenied {
        let (mut longest, mut named) = (denied, index);
        for (index, limit) in self.limits.iter().enumerate().skip(index + 1) {
            if let Some(denied) = limit.refusal(n, &self.clock)
                && denied.outlasts(&longest)
            {
                (longest, named) = (denied, index);
            }
        }
        LimitSetDenied::new(longest, named, self.limits[named].quota())
    }

    /// Returns how much of each limit is used, in their order, and takes nothing.
    pub fn peek(&self) -> [Usage; N] {
        self.limits.each_ref().map(|limit| limit.usage(&self.clock))
    }

    /// Puts another quota in force for one of the limits, as [`RateLimiter::set_quota`](super::RateLimiter::set_quota)
    /// does.
    ///
    /// # Errors
    ///
    /// [`LimitSetQuotaError`] if there is no such limit, or if it refuses the quota. The quota then stays.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{LimitSet, ManualClock, Quota};
    ///
    /// let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_hour(1_000)], ManualClock::new());
    /// both.set_quota(1, Quota::per_hour(2_000))?;
    /// let error = both.set_quota(2, Quota::per_hour(2_000)).unwrap_err();
    /// assert_eq!(error.to_string(), "limit 3 does not exist, there are 2");
    /// # Ok::<(), damper::limit::LimitSetQuotaError>(())
    /// ```
    pub fn set_quota(&self, index: usize, quota: Quota) -> Result<(), LimitSetQuotaError> {
        let limit = self.limits.get(index).ok_or(LimitSetQuotaError::NoSuchLimit { index, limits: N })?;
        limit.set_quota(quota, &self.clock).map_err(|error| LimitSetQuotaError::Refused { index, error })
    }
}

/// A refusal is that of the limit with the longest wait. [`check_n`](LimitSet::check_n) also says which one that is.
impl<const N: usize, A: Algorithm, C: Clock> Limiter for LimitSet<N, A, C> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        self.check_n(n).map(drop).map_err(|refused| refused.denied)
    }

    fn usage(&self) -> Usage {
        self.peek().into_iter().min_by_key(Usage::remaining).unwrap_or(Usage::UNLIMITED)
    }
}

/// The refusal of a call on several limits: nothing was taken from any.
///
/// Where several limits refuse, it is that of the limit with the longest wait. A limit that can never allow the call
/// outlasts every wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LimitSetDenied {
    denied: Denied,
    index: usize,
    quota: Quota,
}

impl LimitSetDenied {
    pub(crate) fn new(denied: Denied, index: usize, quota: Quota) -> Self {
        Self { denied, index, quota }
    }

    /// Returns which limit the caller waits for, counted from 0 in their order.
    ///
    /// Of the limits that refuse it is the one with the longest wait, and the first of those whose waits are equal.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the quota of that limit.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Returns the refusal of that limit.
    #[must_use]
    pub fn denied(&self) -> Denied {
        self.denied
    }

    /// Returns the shortest wait after which all limits allow the same call.
    ///
    /// Other callers that take tokens first make it longer.
    ///
    /// Never too short. `None` if no wait helps: the call asks for more than a burst, or a quota never refills.
    #[must_use]
    pub fn retry_after(&self) -> Option<core::time::Duration> {
        self.denied.retry_after()
    }
}

impl fmt::Display for LimitSetDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {} ({}): {}", self.index + 1, self.quota, self.denied)
    }
}

impl core::error::Error for LimitSetDenied {}

/// Why a [`LimitSet`] did not put a quota in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LimitSetQuotaError {
    /// The set has no limit of this index.
    NoSuchLimit {
        /// The index, counted from 0.
        index: usize,
        /// How many limits there are.
        limits: usize,
    },
    /// The limit refused the quota.
    Refused {
        /// The index of the limit, counted from 0.
        index: usize,
        /// Why.
        error: SetQuotaError,
    },
}

/// As in [`LimitSetDenied`], the first limit is limit 1.
impl fmt::Display for LimitSetQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchLimit { index, limits } => {
                write!(f, "limit {} does not exist, there are {limits}", index.saturating_add(1))
            }
            Self::Refused { index, error } => write!(f, "limit {}: {error}", index.saturating_add(1)),
        }
    }
}

impl core::error::Error for LimitSetQuotaError {}
