//! The answers of a tree: [`TreeAllowed`] and [`TreeDenied`].

use super::decision::Plans;
use crate::keyed::table::Fit;
use crate::limit::{Allowed, Denied};
use crate::quota::{Plan, Quota};
use core::fmt;
use core::time::Duration;

/// The permission of a call. It describes the tightest of the limits that the call took from.
///
/// The tightest limit has the smallest part of its burst left. If several are equally tight, it is the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeAllowed {
    allowed: Option<Allowed>,
    level: usize,
    dimension: usize,
    is_borrowed: bool,
}

/// The limit with the smallest part of its burst left, of those that a call has taken from so far.
#[derive(Clone, Copy)]
pub(super) struct Tightest {
    left: u32,
    burst: u32,
    level: usize,
    dimension: usize,
    /// `None` if the call has taken from no limit so far.
    fit: Option<Fit>,
}

impl Tightest {
    pub(super) const NONE: Self = Self { left: 1, burst: 0, level: 0, dimension: 0, fit: None };

    /// Makes this limit the tightest if a smaller part of its burst is left.
    #[inline]
    pub(super) fn narrow(&mut self, fit: Fit, plan: &Plan, (level, dimension): (usize, usize)) {
        let (left, burst) = (fit.left, plan.burst());
        // `NONE` counts as one token left of a burst of 0, so any limit is tighter.
        if u64::from(left) * u64::from(self.burst) < u64::from(self.left) * u64::from(burst) {
            *self = Self { left, burst, level, dimension, fit: Some(fit) };
        }
    }

    pub(super) fn permission<const LEVELS: usize, const DIMENSIONS: usize>(
        &self,
        plans: &impl Plans<LEVELS, DIMENSIONS>,
        is_borrowed: bool,
    ) -> TreeAllowed {
        let Self { level, dimension, fit, .. } = *self;
        let allowed = fit.map(|fit| fit.allowed(plans.plan(level, dimension)));
        TreeAllowed::new(allowed, (level, dimension), is_borrowed)
    }
}

impl TreeAllowed {
    pub(crate) const fn new(allowed: Option<Allowed>, (level, dimension): (usize, usize), is_borrowed: bool) -> Self {
        Self { allowed, level, dimension, is_borrowed }
    }

    /// Returns the index of the level that has the tightest limit, counted from 0.
    #[must_use]
    pub const fn level(&self) -> usize {
        self.level
    }

    /// Returns the index of the dimension that has the tightest limit, counted from 0.
    #[must_use]
    pub const fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the permission by the tightest limit, or `None` if the call took from no limit.
    #[must_use]
    pub const fn allowed(&self) -> Option<Allowed> {
        self.allowed
    }

    /// Returns whether the call went beyond a [guarantee](super::QuotaTreeBuilder::guarantees) in any dimension.
    ///
    /// Such a call took nothing from the guarantee, and left the tokens at the next level that are kept for guaranteed
    /// calls.
    #[must_use]
    pub const fn is_borrowed(&self) -> bool {
        self.is_borrowed
    }
}

/// The refusal of a call on a tree. The call took nothing.
///
/// If several limits refuse the call, the refusal names the one with the longest wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TreeDenied {
    denied: Denied,
    quota: Quota,
    level: u16,
    dimension: u16,
    /// The names of the level and of the dimension.
    names: [&'static str; 2],
    is_contended: bool,
    is_behind_waiters: bool,
}

impl TreeDenied {
    pub(crate) fn new(
        denied: Denied,
        quota: Quota,
        (level, dimension): (usize, usize),
        names: [&'static str; 2],
        is_contended: bool,
    ) -> Self {
        // The builder accepts at most 2^16 of each, so the casts keep the values.
        let (level, dimension) = (level as u16, dimension as u16);
        Self { denied, quota, level, dimension, names, is_contended, is_behind_waiters: false }
    }

    /// Marks this refusal as caused by other calls that wait for the tokens.
    pub(super) fn behind_waiters(self) -> Self {
        Self { is_behind_waiters: true, ..self }
    }

    /// Returns the index of the level that refused, counted from 0.
    #[must_use]
    pub const fn level(&self) -> usize {
        self.level as usize
    }

    /// Returns the name of the level that refused.
    #[must_use]
    pub const fn level_name(&self) -> &'static str {
        self.names[0]
    }

    /// Returns the index of the dimension that refused, counted from 0.
    #[must_use]
    pub const fn dimension(&self) -> usize {
        self.dimension as usize
    }

    /// Returns the name of the dimension that refused.
    #[must_use]
    pub const fn dimension_name(&self) -> &'static str {
        self.names[1]
    }

    /// Returns the quota of the plan that refused.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Returns the refusal by the limit that [`level`](Self::level) and [`dimension`](Self::dimension) name.
    #[must_use]
    pub const fn denied(&self) -> Denied {
        self.denied
    }

    /// Returns the wait after which the same call succeeds, if no other call takes the tokens first.
    ///
    /// It is the longest wait of all limits that refuse. It is `None` if no wait helps, because the call asks for more
    /// than a burst.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied.retry_after()
    }

    /// Returns whether another call took the tokens after this call had looked at the bucket.
    ///
    /// The tokens were there when this call looked. This call has given back what it had already taken from other
    /// buckets.
    #[must_use]
    pub const fn is_contended(&self) -> bool {
        self.is_contended
    }

    /// Returns whether the call was refused because others [wait](crate::QuotaTree::acquire) for one of its buckets.
    ///
    /// A bucket for which calls wait refuses other calls for the longest of three times:
    ///
    /// - the time until the bucket would be full
    /// - the time until the tokens of the first waiting call are due
    /// - the time in which one token is refilled
    ///
    /// The refusal names the bucket with the longest wait. That may be a bucket for which no call waits.
    #[must_use]
    pub const fn is_behind_waiters(&self) -> bool {
        self.is_behind_waiters
    }
}

impl fmt::Display for TreeDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [level, dimension] = self.names;
        write!(f, "{dimension} of this {level} ({}): {}", self.quota, self.denied)
    }
}

crate::internal::debug_by_display!(TreeDenied);

impl core::error::Error for TreeDenied {}
