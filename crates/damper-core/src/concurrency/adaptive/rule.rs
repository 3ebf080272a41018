//! The rule of a limit: its input, the summary of a window, and its output, the next plan.
//!
//! A rule is a plain value without a clock or atomics. It adds logarithms where it would multiply latencies.

use super::LimitBounds;
use super::log2::exp2;
use core::time::Duration;

/// A rule that sets a concurrency limit by measurements.
///
/// [`ProbedGradient`](super::ProbedGradient), one of the rules to compare with (feature `compared`), or one of your own.
///
/// A rule is a plain value without a clock. An [`AdaptiveLimit`](super::AdaptiveLimit) measures the calls of one window after
/// another, asks the rule when a window is over, and carries out the rule's plan. One thread at a time does so, on a copy that
/// replaces the rule afterwards. If [`next`](Self::next) panics, the rule stays as it was.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::concurrency::{LimitRule, WindowPlan, WindowSummary};
///
/// /// Ten calls by day, a hundred while the service answers within a millisecond.
/// #[derive(Clone, Copy, Debug)]
/// struct TwoSpeeds;
///
/// impl LimitRule for TwoSpeeds {
///     fn first(&self) -> WindowPlan {
///         WindowPlan::new(10)
///     }
///     fn next(&mut self, window: &WindowSummary) -> WindowPlan {
///         WindowPlan::new(if window.latency().is_some_and(|time| time.as_millis() < 1) { 100 } else { 10 })
///     }
/// }
/// ```
pub trait LimitRule: Copy {
    /// Returns the plan of the first window.
    fn first(&self) -> WindowPlan;

    /// Evaluates a window that is over, and returns the plan of the next one.
    fn next(&mut self, window: &WindowSummary) -> WindowPlan;

    /// Returns the latency of the unloaded service, if the rule knows one.
    fn baseline(&self) -> Option<Duration> {
        None
    }
}

/// A rule whose bounds can change in use.
///
/// Set them with [`AdaptiveLimit::set_bounds`](super::AdaptiveLimit::set_bounds).
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::concurrency::{BoundedRule, LimitBounds, LimitRule, WindowPlan, WindowSummary};
///
/// /// A call more with every window.
/// #[derive(Clone, Copy, Debug)]
/// struct Rising {
///     bounds: LimitBounds,
///     limit: u32,
/// }
///
/// impl LimitRule for Rising {
///     fn first(&self) -> WindowPlan {
///         WindowPlan::new(self.limit)
///     }
///     fn next(&mut self, _: &WindowSummary) -> WindowPlan {
///         self.limit = (self.limit + 1).min(self.bounds.max());
///         WindowPlan::new(self.limit)
///     }
/// }
///
/// impl BoundedRule for Rising {
///     fn set_bounds(&mut self, bounds: LimitBounds, _: u32) -> u32 {
///         (self.bounds, self.limit) = (bounds, self.limit.clamp(bounds.min(), bounds.max()));
///         self.limit
///     }
/// }
/// ```
pub trait BoundedRule: LimitRule {
    /// Takes other bounds in the middle of a window under `limit`, and returns the window's new limit.
    ///
    /// The new limit is below the lowest bound only where the rule measures the unloaded service.
    fn set_bounds(&mut self, bounds: LimitBounds, limit: u32) -> u32;
}

/// The measurements of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowSummary {
    /// The calls that succeeded.
    pub successes: u32,
    /// The calls that the service refused because it was overloaded, and those that timed out.
    pub overloaded: u32,
    /// The logarithm to base 2 of the latencies' geometric mean, in microseconds; `None` without a success.
    ///
    /// It is the mean of the logarithms of successful calls. To multiply the latency, add to it.
    pub log2_latency: Option<f64>,
    /// The most calls in flight at once; at least the limit if a call was refused or had to wait.
    pub peak_in_flight: u32,
    /// The calls in flight at the window's end.
    pub in_flight: u32,
    /// The length of the window, without the skipped time.
    pub length: Duration,
    /// The time since the plan was made, including the skipped time.
    pub since_plan: Duration,
}

impl WindowSummary {
    /// Returns the geometric mean of the successful calls' latencies; `None` without a success.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        self.log2_latency.map(latency_of)
    }

    /// Returns whether the callers wanted more than a limit of `limit` gave them.
    ///
    /// They did if a call was refused or had to wait, or if as many calls were in flight as it allows.
    #[must_use]
    pub const fn is_full(&self, limit: u32) -> bool {
        self.peak_in_flight >= limit
    }

    /// Returns whether more than a tenth of the calls were overloaded or timed out.
    #[must_use]
    pub const fn is_failing(&self) -> bool {
        // A tenth of both together is a ninth of the successes.
        self.overloaded as u64 * 9 > self.successes as u64
    }
}

/// The limit and the length of the next window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPlan {
    /// The limit, from now on. One below 1 counts as 1, one above 1,000,000 as 1,000,000.
    pub limit: u32,
    /// The number of calls that end before the window begins.
    ///
    /// It is the number of calls in flight, if these say nothing about the new limit.
    pub skip: u32,
    /// The least number of calls that end in the window.
    pub samples: u32,
    /// The least length of the window; up to 60 s.
    pub length: Duration,
    /// The time after which the window may end with fewer calls, if it was not full.
    ///
    /// It was not if no call was refused and fewer calls were in flight than allowed.
    pub unless_full: Option<Duration>,
}

impl WindowPlan {
    /// Returns the plan of an ordinary window: 100 calls and 500 ms, without skipping any.
    #[must_use]
    pub const fn new(limit: u32) -> Self {
        Self { limit, skip: 0, samples: 100, length: Duration::from_millis(500), unless_full: None }
    }

    /// Returns the plan with a limit that an [`AdaptiveLimit`](super::AdaptiveLimit) can have.
    ///
    /// At 0 no call would ever end again.
    pub(in crate::concurrency) fn held(self) -> Self {
        Self { limit: self.limit.clamp(1, LimitBounds::HIGHEST), ..self }
    }

    /// Skips the calls in flight if the limit has changed by more than a twentieth.
    ///
    /// They began under the old limit.
    pub(in crate::concurrency) fn after(mut self, old_limit: f64, new_limit: f64, in_flight: u32) -> Self {
        if is_another(old_limit, new_limit) {
            self.skip = in_flight;
        }
        self
    }
}

/// Returns whether the new limit differs from the old one by more than a twentieth.
///
/// Calls that began under the old limit then say nothing about the new one.
pub(in crate::concurrency) fn is_another(old_limit: f64, new_limit: f64) -> bool {
    let changed = if new_limit > old_limit { new_limit - old_limit } else { old_limit - new_limit };
    changed > old_limit / 20.0
}

/// Returns the latency with this binary logarithm in microseconds.
pub(in crate::concurrency) fn latency_of(log2_micros: f64) -> Duration {
    let nanos = exp2(log2_micros) * 1_000.0;
    // The cast saturates.
    Duration::from_nanos(nanos as u64)
}
