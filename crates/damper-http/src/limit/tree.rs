//! The limits of a quota tree, by a path that a closure reads of a request.

use super::settled::{CorrectedLimit, Correction, Reservation, ReserveAnswer};
use super::{Detail, Limit, LimitDecision, Limited, NoWait, Refusal, Standing};
use crate::Head;
use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;
use damper_core::gate::Forecast;
use damper_core::keyed::{QuotaTree, TreeAllowed, TreeDenied, TreeReservation};
use damper_core::quota::{Plan, Quota};
use damper_core::time::{Clock, DefaultClock, Seed};

/// The path of a request in a [`QuotaTree`]: for each level its key, and a plan for each dimension.
///
/// A key is borrowed from the [`Head`], or owned where it is put together.
pub type TreePath<'a, K, const LEVELS: usize, const DIMENSIONS: usize> = [(Cow<'a, K>, [Plan; DIMENSIONS]); LEVELS];

/// A path whose keys and plans are borrowed, as the tree takes it.
type Steps<'a, K, const LEVELS: usize, const DIMENSIONS: usize> = [(&'a K, [&'a Plan; DIMENSIONS]); LEVELS];

/// Reads the path of a request.
type ReadPath<K, const LEVELS: usize, const DIMENSIONS: usize> =
    Arc<dyn for<'a> Fn(&Head<'a>) -> Option<TreePath<'a, K, LEVELS, DIMENSIONS>> + Send + Sync>;

/// Estimates the costs of a request.
type Estimate<const DIMENSIONS: usize> = Arc<dyn Fn(&Head<'_>) -> [u32; DIMENSIONS] + Send + Sync>;

/// Returns the names of the plans of a request, one for each level.
type PlanNames<const LEVELS: usize> = Arc<dyn for<'a> Fn(&Head<'a>) -> [Cow<'a, str>; LEVELS] + Send + Sync>;

/// The error of a request for which the closure returned no path.
const NO_PATH: &str = "the function that reads a request's path in the quota tree returned none; \
    authenticate requests before the limit, and exempt those that have no path";

/// The limits of a [`QuotaTree`], by a path that a closure reads of a request's head.
///
/// [`RateLimitLayer::tree`](crate::RateLimitLayer::tree) makes it. Create one yourself for
/// [`RateLimitLayer::shadow`](crate::RateLimitLayer::shadow), or for a [`Limit`] of your own around it.
///
/// Clones share the tree.
pub struct TreeLimit<
    K: ToOwned + ?Sized + 'static,
    const LEVELS: usize,
    const DIMENSIONS: usize,
    C = DefaultClock,
    S = Seed,
> {
    tree: Arc<QuotaTree<K, LEVELS, DIMENSIONS, C, S>>,
    path: ReadPath<K, LEVELS, DIMENSIONS>,
    estimate: Option<Estimate<DIMENSIONS>>,
    plan_names: Option<PlanNames<LEVELS>>,
}

impl<K: ToOwned + ?Sized + 'static, const LEVELS: usize, const DIMENSIONS: usize, C, S>
    TreeLimit<K, LEVELS, DIMENSIONS, C, S>
{
    /// Creates the limit of a tree that you keep.
    ///
    /// A request for which `path` returns `None` gets `500 Internal Server Error`. It is not let through, because
    /// otherwise a client that leaves its credentials out would evade the limit.
    pub fn new(
        tree: Arc<QuotaTree<K, LEVELS, DIMENSIONS, C, S>>,
        path: impl for<'a> Fn(&Head<'a>) -> Option<TreePath<'a, K, LEVELS, DIMENSIONS>> + Send + Sync + 'static,
    ) -> Self {
        Self { tree, path: Arc::new(path), estimate: None, plan_names: None }
    }

    /// Sets the costs of a request, one for each dimension. Default: 1 in each.
    ///
    /// The [cost](crate::RateLimitLayer::cost) of the layer multiplies them.
    #[must_use]
    pub fn costs(self, costs: impl Fn(&Head<'_>) -> [u32; DIMENSIONS] + Send + Sync + 'static) -> Self {
        Self { estimate: Some(Arc::new(costs)), ..self }
    }

    /// Sets the names of a request's plans, one for each level. Default: none.
    ///
    /// Metrics of refusals have them as a label.
    #[must_use]
    pub fn plan_names(
        self,
        names: impl for<'a> Fn(&Head<'a>) -> [Cow<'a, str>; LEVELS] + Send + Sync + 'static,
    ) -> Self {
        Self { plan_names: Some(Arc::new(names)), ..self }
    }
}

impl<K, const LEVELS: usize, const DIMENSIONS: usize, C, S> TreeLimit<K, LEVELS, DIMENSIONS, C, S>
where
    K: Hash + ToOwned + ?Sized + 'static,
    C: Clock,
    S: BuildHasher,
{
    /// Asks the tree about the path and the costs of a request.
    fn ask<T>(
        &self,
        head: &Head<'_>,
        cost: u32,
        ask: impl FnOnce(
            &Arc<QuotaTree<K, LEVELS, DIMENSIONS, C, S>>,
            &Steps<'_, K, LEVELS, DIMENSIONS>,
            [u32; DIMENSIONS],
        ) -> T,
    ) -> Result<T, Refusal> {
        let Some(path) = (self.path)(head) else { return Err(Refusal::failed(NO_PATH)) };
        let steps = path.each_ref().map(|(key, plans)| (&**key, plans.each_ref()));
        let costs = self.estimate.as_ref().map_or([1; DIMENSIONS], |estimate| estimate(head));
        Ok(ask(&self.tree, &steps, costs.map(|tokens| tokens.saturating_mul(cost))))
    }

    /// Takes the costs of a request by `take`, which returns the tightest limit and anything else.
    fn take<T>(
        &self,
        head: &Head<'_>,
        cost: u32,
        detail: Detail,
        take: impl FnOnce(
            &Arc<QuotaTree<K, LEVELS, DIMENSIONS, C, S>>,
            &Steps<'_, K, LEVELS, DIMENSIONS>,
            [u32; DIMENSIONS],
        ) -> Result<(TreeAllowed, T), TreeDenied>,
    ) -> Result<(Option<Standing>, T), Refusal> {
        self.ask(head, cost, |tree, steps, costs| match take(tree, steps, costs) {
            Ok((allowed, taken)) => Ok((detail.then(|| standing(steps, allowed)), taken)),
            Err(denied) => Err(Limited::by_tree(&denied).into()),
        })?
    }
}

/// Returns the standing of the tightest limit.
fn standing<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize>(
    path: &Steps<'_, K, LEVELS, DIMENSIONS>,
    tightest: TreeAllowed,
) -> Standing {
    match tightest.allowed() {
        Some(allowed) => {
            let quota = path[tightest.level()].1[tightest.dimension()].quota();
            Standing::new(quota, allowed.remaining(), allowed.resets_in())
        }
        None => Standing::new(Quota::UNLIMITED, u32::MAX, Some(Duration::ZERO)),
    }
}

impl<K, const LEVELS: usize, const DIMENSIONS: usize, C, S> Limit for TreeLimit<K, LEVELS, DIMENSIONS, C, S>
where
    K: Hash + ToOwned + ?Sized + 'static,
    C: Clock,
    S: BuildHasher,
{
    type Future = NoWait;

    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<NoWait> {
        let check = self.take(head, cost, detail, |tree, path, costs| Ok((tree.check(path, costs)?, ())));
        LimitDecision::from(check.map(|(standing, ())| standing))
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        match self.ask(head, cost, |tree, steps, costs| tree.forecast(steps, costs)) {
            Ok(forecast) => forecast.map(|denied| Limited::by_tree(&denied).into()),
            Err(refusal) => Forecast::Refuse(refusal),
        }
    }

    fn plan(&self, head: &Head<'_>, limited: &Limited) -> Option<String> {
        let level = self.tree.levels().iter().position(|level| Some(*level) == limited.level())?;
        let names = (self.plan_names.as_ref()?)(head);
        names.into_iter().nth(level).map(Cow::into_owned)
    }
}

impl<K, const LEVELS: usize, const DIMENSIONS: usize, C, S> CorrectedLimit for TreeLimit<K, LEVELS, DIMENSIONS, C, S>
where
    K: Hash + ToOwned + ?Sized + 'static,
    C: Clock + Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    type Cost = [u32; DIMENSIONS];

    fn correction() -> Correction<Self> {
        fn reserve<K, const LEVELS: usize, const DIMENSIONS: usize, C, S>(
            limit: &TreeLimit<K, LEVELS, DIMENSIONS, C, S>,
            head: &Head<'_>,
            cost: u32,
            detail: Detail,
        ) -> ReserveAnswer
        where
            K: Hash + ToOwned + ?Sized + 'static,
            C: Clock + Send + Sync + 'static,
            S: BuildHasher + Send + Sync + 'static,
        {
            let (standing, reservation) = limit.take(head, cost, detail, |tree, path, costs| {
                let reservation = tree.reserve_owned(path, costs)?;
                Ok((reservation.allowed(), reservation))
            })?;
            Ok(Box::new(Reserved { standing, reservation }))
        }
        Correction::Reserve(reserve)
    }
}

/// The costs of a request that were reserved in a tree.
struct Reserved<R> {
    standing: Option<Standing>,
    reservation: R,
}

impl<K, const LEVELS: usize, const DIMENSIONS: usize, C, S> Reservation
    for Reserved<TreeReservation<Arc<QuotaTree<K, LEVELS, DIMENSIONS, C, S>>>>
where
    K: Hash + ?Sized + 'static,
    C: Clock + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn standing(&self) -> Option<Standing> {
        self.standing
    }

    fn taken(&self) -> Box<[u32]> {
        self.reservation.costs().into()
    }

    fn settle(self: Box<Self>, used: &[u32]) {
        // Another number of dimensions cannot come here; the costs would count as used.
        if let Ok(used) = used.try_into() {
            self.reservation.settle(used);
        }
    }
}

/// Reads how full each level is, with the label `level`.
///
/// The layer counts refusals by level and dimension.
#[cfg(feature = "metrics")]
impl<K: ToOwned + ?Sized + 'static, const LEVELS: usize, const DIMENSIONS: usize, C, S> damper_metrics::Source
    for TreeLimit<K, LEVELS, DIMENSIONS, C, S>
{
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.tree.read(readings);
    }
}

impl<K: ToOwned + ?Sized + 'static, const LEVELS: usize, const DIMENSIONS: usize, C, S> Clone
    for TreeLimit<K, LEVELS, DIMENSIONS, C, S>
{
    fn clone(&self) -> Self {
        Self {
            tree: Arc::clone(&self.tree),
            path: Arc::clone(&self.path),
            estimate: self.estimate.clone(),
            plan_names: self.plan_names.clone(),
        }
    }
}

impl<K: ToOwned + ?Sized + 'static, const LEVELS: usize, const DIMENSIONS: usize, C: fmt::Debug, S> fmt::Debug
    for TreeLimit<K, LEVELS, DIMENSIONS, C, S>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeLimit").field("tree", &self.tree).finish_non_exhaustive()
    }
}
