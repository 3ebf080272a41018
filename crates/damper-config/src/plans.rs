//! Plans by name, which are replaced all at once.

use arc_swap::ArcSwap;
use damper_core::Plan;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Plans by name, with a plan for each dimension of a [`QuotaTree`](damper_core::QuotaTree).
///
/// They come from [settings](crate::TreeSettings::named_plans), or from a source of yours such as a database, and are replaced all at once:
/// no call sees some of the old plans and some of the new ones. A name that is unknown has the default plan.
///
/// Reading takes no lock and allocates nothing, so it belongs into the path of every call.
///
/// # When the plan of a key changes
///
/// The next call brings the new plan. The tree keeps for each key the time until its bucket is full, and not its tokens: after a change from
/// 60 to 600 tokens a minute, a user who had to wait for ten seconds still waits for ten seconds. So an emptied bucket of a slow plan
/// stays empty for as long as that plan said. To keep the tokens instead, call [`QuotaTree::replan`](damper_core::QuotaTree::replan) once for the
/// key, with its old and its new plans, where the plan of a customer is changed.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
/// use damper::config::Plans;
/// use damper::{Plan, Quota};
///
/// let of = |requests, tokens| -> Result<_, damper::OutOfRange> {
///     Ok([Plan::new(Quota::per_minute(requests))?, Plan::new(Quota::per_minute(tokens))?])
/// };
/// let (free, pro) = (of(60, 10_000)?, of(600, 90_000)?);
/// let plans = Plans::new(["requests", "tokens"], free);
/// plans.replace(free, [("pro", pro)]); // as often as the database changes
/// assert_eq!((plans.get("pro"), plans.get("unheard of")), (pro, free));
/// # Ok::<(), damper::OutOfRange>(())
/// ```
pub struct Plans<const DIMENSIONS: usize> {
    dimensions: [&'static str; DIMENSIONS],
    current: ArcSwap<NamedPlans<DIMENSIONS>>,
}

struct NamedPlans<const DIMENSIONS: usize> {
    default: [Plan; DIMENSIONS],
    by_name: HashMap<String, [Plan; DIMENSIONS]>,
}

impl<const DIMENSIONS: usize> Plans<DIMENSIONS> {
    /// Creates plans for these dimensions, of which every name has the default one.
    #[must_use]
    pub fn new(dimensions: [&'static str; DIMENSIONS], default: [Plan; DIMENSIONS]) -> Self {
        let current = ArcSwap::from_pointee(NamedPlans { default, by_name: HashMap::new() });
        Self { dimensions, current }
    }

    /// Returns the plans of this name, one for each dimension, or the default ones if the name is unknown.
    #[must_use]
    pub fn get(&self, name: &str) -> [Plan; DIMENSIONS] {
        let plans = self.current.load();
        *plans.by_name.get(name).unwrap_or(&plans.default)
    }

    /// Replaces all plans at once. Of two with the same name the last one counts.
    pub fn replace<N: Into<String>>(
        &self,
        default: [Plan; DIMENSIONS],
        plans: impl IntoIterator<Item = (N, [Plan; DIMENSIONS])>,
    ) {
        let by_name = plans.into_iter().map(|(name, plans)| (name.into(), plans)).collect();
        self.current.store(Arc::new(NamedPlans { default, by_name }));
    }

    /// Returns the names of the dimensions.
    #[must_use]
    pub const fn dimensions(&self) -> [&'static str; DIMENSIONS] {
        self.dimensions
    }
}

impl<const DIMENSIONS: usize> fmt::Debug for Plans<DIMENSIONS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.current.load().by_name.len();
        f.debug_struct("Plans").field("dimensions", &self.dimensions).field("names", &names).finish_non_exhaustive()
    }
}

/// The error of a plan that limits a dimension which the program does not have.
#[derive(Clone, PartialEq, Eq)]
pub struct PlansError {
    plan: String,
    dimension: String,
    allowed: Vec<&'static str>,
}

impl PlansError {
    pub(crate) fn new(plan: &str, dimension: &str, allowed: &[&'static str]) -> Self {
        Self { plan: plan.to_owned(), dimension: dimension.to_owned(), allowed: allowed.to_owned() }
    }
}

impl fmt::Display for PlansError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, dimension, allowed } = self;
        write!(f, "plan {plan:?} limits {dimension:?}, the dimensions are {}", allowed.join(", "))
    }
}

damper_core::internal::debug_by_display!(PlansError);

impl Error for PlansError {}
