//! Several limits in one decision.

use super::algorithm::Algorithm;
use super::{Allowed, Denied, TokenBucket, Usage};
use crate::clock::{Clock, DefaultClock};
use crate::quota::{Quota, SetQuotaError};
use core::fmt;

/// Several limits that a call has to pass together: ten a second *and* a thousand an hour, say. All of them are taken,
/// or none.
///
/// The limits are asked in their order; give the narrowest first, so that what is refused most often costs least. When
/// a later one refuses, the earlier ones get back what they gave, less what has been refilled since.
///
/// No limit ever allows more than it would alone, counting the calls that were allowed by all. A call may be refused
/// because of another that is being taken back at that moment.
///
/// # Examples
///
/// ```
/// use damper::{Layered, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let both = Layered::with_clock([Quota::per_second(10), Quota::per_hour(15)], &clock);
/// assert!(both.check_n(10).is_ok());
/// assert_eq!(both.check().unwrap_err().layer(), 0);
/// clock.advance(core::time::Duration::from_secs(1));
/// assert!(both.check_n(5).is_ok());
/// assert_eq!(both.check().unwrap_err().to_string(), "limit 2 (15/h burst 15): rate limit exceeded, retry in 239 s");
/// ```
#[derive(Debug)]
pub struct Layered<const N: usize, A = TokenBucket, C = DefaultClock> {
    layers: [A; N],
    clock: C,
}

#[cfg(feature = "std")]
impl<const N: usize> Layered<N> {
    /// Token buckets of these quotas on the default clock.
    #[must_use]
    pub fn new(quotas: [Quota; N]) -> Self {
        Self::with_clock(quotas, crate::clock::Monotonic)
    }
}

impl<const N: usize, C: Clock> Layered<N, TokenBucket, C> {
    /// Token buckets of these quotas on a clock of your own.
    #[must_use]
    pub fn with_clock(quotas: [Quota; N], clock: C) -> Self {
        Self::of(quotas.map(TokenBucket::new), clock)
    }
}

impl<const N: usize, A: Algorithm, C: Clock> Layered<N, A, C> {
    /// Limits of any one algorithm.
    #[must_use]
    pub fn of(layers: [A; N], clock: C) -> Self {
        Self { layers, clock }
    }

    /// Takes one token of every limit if all of them have one.
    ///
    /// # Errors
    ///
    /// [`LayerDenied`], which names the first limit that refused.
    pub fn check(&self) -> Result<Allowed, LayerDenied> {
        self.check_n(1)
    }

    /// Takes `n` tokens of every limit if all of them have so many, else none of any. What is allowed is told of the
    /// limit that has the fewest left.
    ///
    /// # Errors
    ///
    /// [`LayerDenied`], which names the first limit that refused.
    pub fn check_n(&self, n: u32) -> Result<Allowed, LayerDenied> {
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
                    return Err(LayerDenied::new(denied, index, layer.quota()));
                }
            }
        }
        Ok(tightest.unwrap_or_else(Allowed::unlimited))
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

/// The refusal of one of several limits: nothing was taken from any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LayerDenied {
    denied: Denied,
    layer: usize,
    quota: Quota,
}

impl LayerDenied {
    pub(crate) fn new(denied: Denied, layer: usize, quota: Quota) -> Self {
        Self { denied, layer, quota }
    }

    /// Which limit refused, counted from 0 in their order.
    #[must_use]
    pub fn layer(&self) -> usize {
        self.layer
    }

    /// The quota of the limit that refused.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Its refusal.
    #[must_use]
    pub fn denied(&self) -> Denied {
        self.denied
    }

    /// The wait after which that limit would allow the same call; the others may refuse then.
    #[must_use]
    pub fn retry_after(&self) -> Option<core::time::Duration> {
        self.denied.retry_after()
    }
}

impl fmt::Display for LayerDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {} ({}): {}", self.layer + 1, self.quota, self.denied)
    }
}

impl core::error::Error for LayerDenied {}
