//! The answers of a tree: [`TreeAllowed`] and [`TreeDenied`].

use crate::limit::{Allowed, Denied};
use crate::quota::{Plan, Quota};
use core::fmt;
use core::time::Duration;

/// The permission of a call: the tightest of the limits that it took from.
///
/// That is the one of which the smallest part of the burst is left, and the first of equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeAllowed {
    tightest: Option<(Allowed, u32)>,
    level: usize,
    dimension: usize,
}

impl TreeAllowed {
    /// The permission of a call that took from no limit.
    pub(super) const UNLIMITED: Self = Self { tightest: None, level: 0, dimension: 0 };

    /// Replaces the limit by another one if less of that is left.
    #[inline]
    pub(super) fn narrow(&mut self, allowed: Allowed, plan: &Plan, level: usize, dimension: usize) {
        let burst = plan.burst();
        let is_tighter = self.tightest.is_none_or(|(least, of)| {
            u64::from(allowed.remaining()) * u64::from(of) < u64::from(least.remaining()) * u64::from(burst)
        });
        if is_tighter {
            *self = Self { tightest: Some((allowed, burst)), level, dimension };
        }
    }

    /// Returns the number of the level, counted from 0.
    #[must_use]
    pub const fn level(&self) -> usize {
        self.level
    }

    /// Returns the number of the dimension, counted from 0.
    #[must_use]
    pub const fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the permission of that limit, or `None` if all plans were unlimited.
    #[must_use]
    pub fn allowed(&self) -> Option<Allowed> {
        self.tightest.map(|(allowed, _)| allowed)
    }
}

/// The refusal of a call on a tree, which took nothing.
///
/// If several limits refuse, it is that with the longest wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TreeDenied {
    denied: Denied,
    quota: Quota,
    level: usize,
    dimension: usize,
    /// The names of the level and of the dimension.
    names: [&'static str; 2],
    is_contended: bool,
}

impl TreeDenied {
    pub(super) fn new(
        denied: Denied,
        quota: Quota,
        (level, dimension): (usize, usize),
        names: [&'static str; 2],
        is_contended: bool,
    ) -> Self {
        Self { denied, quota, level, dimension, names, is_contended }
    }

    /// Returns the number of the level that refused, counted from 0.
    #[must_use]
    pub const fn level(&self) -> usize {
        self.level
    }

    /// Returns the name of that level.
    #[must_use]
    pub const fn level_name(&self) -> &'static str {
        self.names[0]
    }

    /// Returns the number of the dimension that refused, counted from 0.
    #[must_use]
    pub const fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the name of that dimension.
    #[must_use]
    pub const fn dimension_name(&self) -> &'static str {
        self.names[1]
    }

    /// Returns the quota of the plan that refused.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// Returns the refusal of that limit.
    #[must_use]
    pub const fn denied(&self) -> Denied {
        self.denied
    }

    /// Returns the shortest wait after which all limits allow the same call, if no other call takes tokens first.
    ///
    /// It is the longest of all limits that refuse. It returns `None` if no wait helps: the call asks for more than a
    /// burst.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied.retry_after()
    }

    /// Returns whether the tokens were there when the call looked, and another call was faster.
    ///
    /// The call had then begun to take, and has given back what it took.
    #[must_use]
    pub const fn is_contended(&self) -> bool {
        self.is_contended
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
