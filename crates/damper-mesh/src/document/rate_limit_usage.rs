//! The usage of a limit in a response.

use super::{MeshDuration, Warnings};
use damper_core::limit::Usage;
use damper_http::Standing;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The usage of a limit, as responses report it.
///
/// In documents written by damper, `used + remaining = limit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RateLimitUsage {
    /// The tokens allowed in the window. For a token bucket it is the burst.
    pub limit: u64,
    /// The tokens used, or the whole limit while in debt.
    pub used: u64,
    /// The tokens left.
    pub remaining: u64,
    /// The window. For a token bucket it is the time in which the burst refills.
    pub window: MeshDuration,
    /// The time until no token is in use any more.
    pub resets_in: MeshDuration,
    /// A warning if little is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl RateLimitUsage {
    /// Reports a limiter's usage without a warning, or returns `None` for an unlimited quota.
    ///
    /// A time that never comes is written as [`MeshDuration::NEVER`].
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
    /// use damper::mesh::RateLimitUsage;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::with_clock(Quota::per_minute(60), ManualClock::new());
    /// limiter.check_n(3)?;
    /// let usage = RateLimitUsage::of(&limiter.peek()).expect("the quota has a limit");
    /// assert_eq!((usage.used, usage.remaining), (3, 57));
    /// assert_eq!(usage.resets_in.to_string(), "3 second");
    /// # Ok::<(), damper::Denied>(())
    /// ```
    #[must_use]
    pub fn of(usage: &Usage) -> Option<Self> {
        if usage.quota().is_unlimited() {
            return None;
        }
        Some(Self::new(usage.limit(), usage.remaining(), usage.window(), usage.resets_in()))
    }

    /// Reports a [`Standing`] without a warning, or returns `None` for an unlimited quota.
    ///
    /// The layers of `damper::http` provide the standing of a request.
    #[must_use]
    pub fn of_standing(standing: &Standing) -> Option<Self> {
        let Standing { quota, remaining, resets_in, .. } = *standing;
        if quota.is_unlimited() {
            return None;
        }
        let limit = quota.burst_size();
        Some(Self::new(limit, remaining.min(limit), quota.refill_window(), resets_in))
    }

    fn new(limit: u32, remaining: u32, window: Option<Duration>, resets_in: Option<Duration>) -> Self {
        Self {
            limit: limit.into(),
            used: (limit - remaining).into(),
            remaining: remaining.into(),
            window: window.map_or(MeshDuration::NEVER, MeshDuration::rounded_up),
            resets_in: resets_in.map_or(MeshDuration::NEVER, MeshDuration::wait),
            warning: None,
        }
    }

    /// Returns the same limit with nothing left.
    pub(crate) fn exhausted(self) -> Self {
        Self { used: self.limit, remaining: 0, ..self }
    }

    /// Adds a warning, if one applies.
    #[must_use]
    pub fn warned_by(self, warnings: &Warnings) -> Self {
        let warning = warnings.text(self.remaining, self.limit).map(str::to_owned);
        Self { warning, ..self }
    }

    /// Returns the wait before each call once less than `percent` of the limit is left.
    ///
    /// It is `None` before that. The wait is the time until the reset divided by the remaining tokens, or the whole
    /// time if none remain.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
    /// use core::time::Duration;
    /// use damper::mesh::RateLimitUsage;
    /// use damper::{FixedWindow, ManualClock, Quota, RateLimiter};
    ///
    /// let windows = FixedWindow::new(Quota::per_minute(100));
    /// let limiter = RateLimiter::with_algorithm(windows, ManualClock::new());
    /// limiter.check_n(95)?;
    /// let usage = RateLimitUsage::of(&limiter.peek()).expect("the quota has a limit");
    /// assert_eq!(usage.pace(10), Some(Duration::from_secs(12)));
    /// assert_eq!(usage.pace(5), None);
    /// # Ok::<(), damper::Denied>(())
    /// ```
    #[must_use]
    pub fn pace(&self, percent: u32) -> Option<Duration> {
        let is_under = u128::from(self.remaining) * 100 < u128::from(self.limit) * u128::from(percent);
        let parts = u32::try_from(self.remaining).unwrap_or(u32::MAX).max(1);
        (is_under || self.remaining == 0).then(|| self.resets_in.duration() / parts)
    }
}

/// The scope of a limit: the calls that it counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All clients together.
    Global,
    /// Each calling service.
    Service,
    /// Each function.
    Function,
    /// Each user.
    User,
}

impl Scope {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Service => "service",
            Self::Function => "function",
            Self::User => "user",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
