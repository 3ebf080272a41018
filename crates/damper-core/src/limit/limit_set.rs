//! Several limits in one decision.

use super::algorithm::Algorithm;
use super::{Allowed, Denied, TokenBucket, Usage};
use crate::quota::{Quota, SetQuotaError};
use crate::time::{Clock, DefaultClock};
use core::fmt;

/// Several limits that a call has to pass together: ten a second *and* a thousand an hour, say. All of them are taken,
/// or none.
///
/// The limits are asked in their order. Put the narrowest first, so that what is refused most often costs least. When
/// one refuses, the earlier ones get back what they gave, less what has been refilled since, and the later ones are only
/// looked at: the refusal names the limit with the longest wait.
///
/// No limit ever allows more than it would alone, counting the calls that were allowed by all. A call may be refused
/// because of another that is being taken back at that moment.
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
/// assert_eq!(both.check().unwrap_err().layer(), 0);
/// clock.advance(core::time::Duration::from_secs(1));
/// assert!(both.check_n(5).is_ok());
/// let denied = both.check_n(6).unwrap_err(); // the first limit would wait for 100 ms
/// assert_eq!(denied.to_string(), "limit 2 (15/h burst 15): rate limit exceeded, retry in 1439 s");
/// ```
#[derive(Debug)]
pub struct LimitSet<const N: usize, A = TokenBucket, C = DefaultClock> {
    layers: [A; N],
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
    pub fn with_algorithms(layers: [A; N], clock: C) -> Self {
        Self { layers, clock }
    }

    /// Takes one token of every limit if all of them have one.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait.
    pub fn check(&self) -> Result<Allowed, LimitSetDenied> {
        self.check_n(1)
    }

    /// Takes `n` tokens of every limit if all of them have so many, else none of any. [`Allowed`] describes the limit
    /// that has the fewest left.
    ///
    /// # Errors
    ///
    /// [`LimitSetDenied`], which names the refusing limit with the longest wait.
    pub fn check_n(&self, n: u32) -> Result<Allowed, LimitSetDenied> {
        let mut taken = [None; N];
        let mut tightest: Option<Allowed> = None;
        for (index, layer) in self.layers.iter().enumerate() {
            match layer.take_revocably(n, &self.clock) {
                Ok((allowed, receipt)) => {
                    taken[index] = Some(receipt);
                    if tightest.is_none_or(|tightest| allowed.remaining() < tightest.remaining()) {
                        tightest = Some(allowed);
                    }
                }
                Err(denied) => {
                    for (layer, receipt) in self.layers.iter().zip(taken).rev() {
                        if let Some(receipt) = receipt {
                            layer.roll_back(n, receipt, &self.clock);
                        }
                    }
                    return Err(self.longest_refusal(n, denied, index));
                }
            }
        }
        Ok(tightest.unwrap_or_else(Allowed::unlimited))
    }

    /// The refusal with the longest wait, among `denied` of the limit `index` and what the limits after it say now. The
    /// limits before it allowed the call.
    #[cold]
    fn longest_refusal(&self, n: u32, denied: Denied, index: usize) -> LimitSetDenied {
        let (mut longest, mut named) = (denied, index);
        for (index, layer) in self.layers.iter().enumerate().skip(index + 1) {
            if let Some(denied) = layer.refusal(n, &self.clock)
                && denied.outlasts(&longest)
            {
                (longest, named) = (denied, index);
            }
        }
        LimitSetDenied::new(longest, named, self.layers[named].quota())
    }

    /// Tells how much of each limit is used, in their order, and takes nothing.
    pub fn peek(&self) -> [Usage; N] {
        self.layers.each_ref().map(|layer| layer.usage(&self.clock))
    }

    /// Puts another quota in force for one of the limits, as [`RateLimiter::set_quota`](super::RateLimiter::set_quota)
    /// does.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], and the quota stays. `None` if there are no so many limits.
    pub fn set_quota(&self, layer: usize, quota: Quota) -> Option<Result<(), SetQuotaError>> {
        Some(self.layers.get(layer)?.set_quota(quota, &self.clock))
    }
}

/// The refusal of a call on several limits: nothing was taken from any.
///
/// Where several limits refuse, it is that of the limit with the longest wait. A limit that can never allow the call
/// outlasts every wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LimitSetDenied {
    denied: Denied,
    layer: usize,
    quota: Quota,
}

impl LimitSetDenied {
    pub(crate) fn new(denied: Denied, layer: usize, quota: Quota) -> Self {
        Self { denied, layer, quota }
    }

    /// Returns which limit the caller waits for, counted from 0 in their order: of those that refuse, the one with the
    /// longest wait, and the first of those whose waits are equal.
    #[must_use]
    pub fn layer(&self) -> usize {
        self.layer
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

    /// Returns the shortest wait after which all limits allow the same call, if nobody else takes tokens first.
    ///
    /// Never too short. `None` if no wait helps: the call asks for more than a burst, or a quota never refills.
    #[must_use]
    pub fn retry_after(&self) -> Option<core::time::Duration> {
        self.denied.retry_after()
    }
}

impl fmt::Display for LimitSetDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {} ({}): {}", self.layer + 1, self.quota, self.denied)
    }
}

impl core::error::Error for LimitSetDenied {}
