//! Hints: the state of the service's limit, as a response reports it.

use core::time::Duration;

/// The verdict of the service's limit on a call and the state of the limit, as a response reports them.
///
/// All but the verdict are optional. Most services report how many calls remain, if they report anything.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::throttle::Hints;
///
/// # let (status, remaining, retry_after) = (429, Some(0), Some(Duration::from_secs(2)));
/// let hints = match status {
///     429 => Hints::REJECTED.retry_after(retry_after),
///     200..500 => Hints::ACCEPTED,
///     _ => Hints::UNKNOWN,
/// };
/// let hints = hints.remaining(remaining);
/// assert!(hints.is_rejected());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[must_use]
pub struct Hints {
    verdict: LimitVerdict,
    /// The number of calls that the limit allows now.
    pub remaining: Option<u64>,
    /// The most calls that the limit allows.
    pub limit: Option<u64>,
    /// The time until the limit is reset.
    pub resets_in: Option<Duration>,
    /// The time after which the service accepts a retry of a rejected call.
    pub retry_after: Option<Duration>,
}

/// The verdict of the limit on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum LimitVerdict {
    Accepted,
    Rejected,
    Unknown,
}

impl Hints {
    /// The limit accepted the call, whatever its further outcome.
    pub const ACCEPTED: Self = Self::of(LimitVerdict::Accepted);

    /// The limit rejected the call, for example with 429.
    pub const REJECTED: Self = Self::of(LimitVerdict::Rejected);

    /// The limit may not have seen the call: a timeout, or no connection.
    ///
    /// A pacer learns nothing from it.
    pub const UNKNOWN: Self = Self::of(LimitVerdict::Unknown);

    const fn of(verdict: LimitVerdict) -> Self {
        Self { verdict, remaining: None, limit: None, resets_in: None, retry_after: None }
    }

    /// Sets the number of calls that the limit allows now. Default: unknown.
    pub const fn remaining(mut self, calls: Option<u64>) -> Self {
        self.remaining = calls;
        self
    }

    /// Sets the most calls that the limit allows. Default: unknown.
    pub const fn limit(mut self, calls: Option<u64>) -> Self {
        self.limit = calls;
        self
    }

    /// Sets the time until the limit is reset. Default: unknown.
    pub const fn resets_in(mut self, time: Option<Duration>) -> Self {
        self.resets_in = time;
        self
    }

    /// Sets the time after which the service accepts a retry of a rejected call. Default: unknown.
    pub const fn retry_after(mut self, time: Option<Duration>) -> Self {
        self.retry_after = time;
        self
    }

    /// Shortens the times to at most `longest`.
    pub(super) fn within(mut self, longest: Duration) -> Self {
        self.resets_in = self.resets_in.map(|time| time.min(longest));
        self.retry_after = self.retry_after.map(|time| time.min(longest));
        self
    }

    /// Returns whether the limit rejected the call.
    #[must_use]
    pub const fn is_rejected(&self) -> bool {
        matches!(self.verdict, LimitVerdict::Rejected)
    }

    /// Returns whether the limit accepted the call.
    #[must_use]
    pub const fn is_accepted(&self) -> bool {
        matches!(self.verdict, LimitVerdict::Accepted)
    }
}
