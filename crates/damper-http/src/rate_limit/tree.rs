//! Layers with the limits of a quota tree.

use super::RateLimitLayer;
use crate::Head;
use crate::limit::{TreeLimit, TreePath};
use alloc::borrow::{Cow, ToOwned};
use alloc::sync::Arc;
use core::hash::{BuildHasher, Hash};
use damper_core::keyed::QuotaTree;
use damper_core::time::Clock;

impl<K, const LEVELS: usize, const DIMENSIONS: usize, C, S> RateLimitLayer<TreeLimit<K, LEVELS, DIMENSIONS, C, S>>
where
    K: Hash + ToOwned + ?Sized + 'static,
    C: Clock,
    S: BuildHasher,
{
    /// Creates a layer with the limits of a quota tree, which are one decision.
    ///
    /// The levels are such as user, team and organisation, and the dimensions such as requests and tokens.
    ///
    /// `path` returns the key and the plans of each level, from the request's head. A request for which it returns `None` gets
    /// `500 Internal Server Error`, because otherwise a client that leaves its credentials out would evade the limits. Put the layer
    /// inside of the one that authenticates, and [exempt](Self::exempt) requests that have no path.
    ///
    /// A request takes its [costs](Self::costs) from all levels and dimensions, or from none. Headers report the limit of which the smallest
    /// part is left, or of those that refuse the one with the longest wait. A refusal's text names its level and its dimension, as do
    /// [`Limited::level`](crate::Limited::level) and [`dimension`](crate::Limited::dimension). No response and no metric has a key.
    ///
    /// Costs that are known only afterwards are estimated and then corrected, by the [head](Self::charge_by_response) of the response, or
    /// by its [body](Self::charge_by_body). The request holds a [reservation](damper_core::TreeReservation) until then.
    ///
    /// # Examples
    ///
    /// A gateway to a language model. The answer is a stream of events, and each has the tokens that were used so far:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::{BodyLines, RateLimitLayer};
    /// use damper::{Plan, Quota, QuotaTree};
    /// use std::sync::Arc;
    ///
    /// /// What authentication writes into the extensions of a request.
    /// #[derive(Clone)]
    /// struct Account {
    ///     user: String,
    ///     organisation: String,
    ///     plans: [[Plan; 2]; 2],
    /// }
    ///
    /// let tree = Arc::new(QuotaTree::<str, 2, 2>::builder(["user", "organisation"], ["requests", "tokens"]).build()?);
    /// let layer = RateLimitLayer::tree(tree, |head| {
    ///     let Account { user, organisation, plans } = head.extensions.get()?;
    ///     Some([(user.into(), plans[0]), (organisation.into(), plans[1])])
    /// })
    /// .costs(|_| [1, 4_000])
    /// .charge_by_body(|_, _| {
    ///     let mut lines = BodyLines::up_to(4_096);
    ///     move |piece, used| {
    ///         lines.push(piece, |line| {
    ///             let tokens = line.strip_prefix(b"data: tokens=").and_then(|tokens| str::from_utf8(tokens).ok());
    ///             used[1] = tokens.and_then(|tokens| tokens.parse().ok()).unwrap_or(used[1]);
    ///         })
    ///     }
    /// });
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tree(
        tree: Arc<QuotaTree<K, LEVELS, DIMENSIONS, C, S>>,
        path: impl for<'a> Fn(&Head<'a>) -> Option<TreePath<'a, K, LEVELS, DIMENSIONS>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(TreeLimit::new(tree, path))
    }

    /// Sets the costs of a request, one for each dimension of the tree. Default: 1 in each.
    ///
    /// They are an estimate where the response corrects them. The [cost](Self::cost) of a request multiplies them.
    #[must_use]
    pub fn costs(self, costs: impl Fn(&Head<'_>) -> [u32; DIMENSIONS] + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.limit = settings.limit.clone().costs(costs))
    }

    /// Sets the names of a request's plans, one for each level. Default: none.
    ///
    /// They are the label `plan` of refusals in metrics.
    ///
    /// They are asked for when a request is refused. Return names of which there are few, and never a key: each has a counter of its
    /// own.
    #[must_use]
    pub fn plan_names(
        self,
        names: impl for<'a> Fn(&Head<'a>) -> [Cow<'a, str>; LEVELS] + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.limit = settings.limit.clone().plan_names(names))
    }
}
