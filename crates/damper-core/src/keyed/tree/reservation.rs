//! The costs of a call, taken from all words of a path and settled later.
//!
//! A word is the bucket of one level and one dimension.

use super::decision::{Call, Plans};
use super::lines::Bucket;
use super::{PerWord, QuotaTree, Step, TreeAllowed, TreeDenied};
use crate::keyed::table::{Fingerprint, Receipt};
use crate::limit::Counted;
use crate::quota::Plan;
use crate::time::Clock;
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::ops::Deref;
use sealed::Settles;

/// A pointer to a [`QuotaTree`] that a [`TreeReservation`] can hold.
///
/// It is a `&QuotaTree`, or an `Arc<QuotaTree>` if the reservation has to outlive the borrow.
pub trait TreeRef: Deref<Target: Settles> {}

impl<T: Deref<Target: Settles>> TreeRef for T {}

mod sealed {
    /// The part of a tree that its reservations need.
    pub trait Settles {
        /// A number of tokens for each dimension.
        type Costs: Copy;

        /// The costs that a call took, and the words that it took them from.
        type Taken;

        /// Stops counting the taken costs as unsettled.
        fn release(&self, taken: &Self::Taken);
    }
}

/// A word of the path that the settlement of a reservation may change.
#[derive(Debug)]
struct TakenWord {
    bucket: Fingerprint,
    plan: Plan,
    /// The proof of the take, which the settlement uses up. It is `None` if the cost was 0.
    receipt: Option<Receipt>,
    counted: Counted,
}

/// The costs that a call took from the words of its path.
#[derive(Debug)]
pub struct TakenPath<const LEVELS: usize, const DIMENSIONS: usize> {
    /// The words that the call took from.
    ///
    /// A word is `None` if its plan has no limit, or if the call borrowed past it.
    words: PerWord<Option<TakenWord>, LEVELS, DIMENSIONS>,
    /// The tick at which the costs were taken.
    since: u64,
}

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S> Settles
    for QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    type Costs = [u32; DIMENSIONS];
    type Taken = TakenPath<LEVELS, DIMENSIONS>;

    fn release(&self, taken: &Self::Taken) {
        for (level, taken) in self.levels.iter().zip(&taken.words) {
            for word in taken.iter().flatten() {
                level.unsettled(word.bucket).release(word.counted);
            }
        }
    }
}

/// The costs of one call, taken from all levels and dimensions of its path.
///
/// [`QuotaTree::reserve`] returns it, or [`reserve_owned`](QuotaTree::reserve_owned) for spawned tasks and streamed
/// responses.
///
/// Keep it for as long as the call takes, and [settle](Self::settle) it when the true costs are known. If a panic or a
/// disconnected client drops it instead, the costs count as used.
#[must_use = "a reservation that is dropped at once counts as used"]
pub struct TreeReservation<T: TreeRef> {
    tree: T,
    costs: <T::Target as Settles>::Costs,
    taken: <T::Target as Settles>::Taken,
    allowed: TreeAllowed,
}

impl<K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher>
    QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    /// Takes the costs, one for each dimension, from every level of the path, or takes nothing.
    ///
    /// The caller [settles](TreeReservation::settle) them when the true costs are known.
    ///
    /// # Errors
    ///
    /// [`TreeDenied`], which names the level and the dimension with the longest wait.
    pub fn reserve(
        &self,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> Result<TreeReservation<&Self>, TreeDenied> {
        self.reserve_by(path, costs).map(|taken| TreeReservation::of(self, costs, taken))
    }

    /// Reserves as [`reserve`](Self::reserve) does, with a reservation that owns a reference to the tree.
    ///
    /// # Errors
    ///
    /// It fails as [`reserve`](Self::reserve) does.
    #[cfg(target_has_atomic = "ptr")]
    pub fn reserve_owned(
        self: &Arc<Self>,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> Result<TreeReservation<Arc<Self>>, TreeDenied> {
        self.reserve_by(path, costs).map(|taken| TreeReservation::of(Arc::clone(self), costs, taken))
    }

    /// Takes the costs of a path, unless calls wait for one of its buckets.
    #[inline]
    fn reserve_by(
        &self,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> Result<(TreeAllowed, TakenPath<LEVELS, DIMENSIONS>), TreeDenied> {
        let call = Call { buckets: &self.buckets(path), plans: path, costs };
        self.held_up(&call).map_or_else(|| self.take_to_settle(&call), Err)
    }
}

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S> QuotaTree<K, LEVELS, DIMENSIONS, C, S> {
    /// Takes the costs of a call, or nothing, and counts them as unsettled.
    ///
    /// It does not check whether other calls wait, so the caller has to check that first.
    #[inline]
    pub(super) fn take_to_settle(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
    ) -> Result<(TreeAllowed, TakenPath<LEVELS, DIMENSIONS>), TreeDenied> {
        let (allowed, receipts) = self.take(call)?;
        let since = self.clock.now();
        let mut receipts = receipts.into_iter().map(IntoIterator::into_iter);
        let words = core::array::from_fn(|level| {
            let mut receipts = receipts.next();
            core::array::from_fn(|dimension| {
                let receipt = receipts.as_mut().and_then(Iterator::next).flatten();
                let (bucket, plan, cost) =
                    (call.buckets[level][dimension], *call.plan(level, dimension), call.costs[dimension]);
                // A word with a cost of 0 is kept, because the settlement may charge it. If the call has a cost but no
                // receipt, the word is a guarantee from which it took nothing, because it borrowed.
                if plan.is_unlimited() || receipt.is_none() && cost > 0 {
                    return None;
                }
                let word = self.levels[level].unsettled(bucket);
                let counted = self.bounds.count(word, cost, plan.burst(), since);
                Some(TakenWord { bucket, plan, receipt, counted })
            })
        });
        Ok((allowed, TakenPath { words, since }))
    }
}

impl<T, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S> TreeReservation<T>
where
    T: Deref<Target = QuotaTree<K, LEVELS, DIMENSIONS, C, S>>,
{
    /// Creates the reservation of costs that [`QuotaTree::take_to_settle`] took.
    pub(super) fn of(
        tree: T,
        costs: [u32; DIMENSIONS],
        (allowed, taken): (TreeAllowed, TakenPath<LEVELS, DIMENSIONS>),
    ) -> Self {
        Self { tree, costs, taken, allowed }
    }

    /// Returns the tree.
    pub(super) fn tree(&self) -> &T::Target {
        &self.tree
    }

    /// Corrects the costs to what the call used, one number for each dimension.
    ///
    /// If the call was not made, settle with costs of 0. Tokens that were not used are given back, with these
    /// exceptions:
    ///
    /// - Tokens for which a full bucket has no room are lost.
    /// - Tokens beyond the [bound](super::QuotaTreeBuilder::unsettled) on unsettled costs are not given back.
    /// - Nothing is given back after the [time-to-live](super::QuotaTreeBuilder::time_to_live).
    /// - Nothing is given back to a bucket whose debt was [converted](QuotaTree::replan) after the costs were taken.
    /// - Nothing is given back to a bucket that became full after that, and was then used only under another plan.
    /// - A guarantee gets back at most as many tokens as are given to the next level that the call took from. Those for
    ///   which that level has no room count here: its bucket is full, or forgotten because its key lost its slot.
    ///
    /// Tokens that were used beyond the costs are booked as debt, even if they are guaranteed to another key. The debt
    /// is at most [`Quota::max_debt`](crate::Quota::max_debt). They are lost if the bucket has no slot and can get none,
    /// as [`KeyedLimiter::charge`](crate::KeyedLimiter::charge) says.
    pub fn settle(mut self, used: [u32; DIMENSIONS]) {
        let tree = &*self.tree;
        let mut gives_back = false;
        let now = tree.clock.now();
        let is_alive = tree.bounds.is_alive(self.taken.since, now);
        // The levels are settled from the last to the first. A guarantee gets back no more than was given to the next
        // level. Otherwise it would promise tokens that the next level does not have. Tokens for which the next level
        // has no room count as given to it, because a full bucket has all that it promised. A guarantee that the call
        // borrowed past is as it was before the call, so it passes the bound on.
        let mut most = [u32::MAX; DIMENSIONS];
        for (level, taken) in tree.levels.iter().zip(&mut self.taken.words).rev() {
            for (((taken, cost), used), most) in taken.iter_mut().zip(self.costs).zip(used).zip(&mut most) {
                let limit = if level.is_guarantee { *most } else { u32::MAX };
                *most = limit;
                let Some(TakenWord { bucket, plan, receipt, counted }) = taken else { continue };
                match cost.checked_sub(used) {
                    None => _ = level.table.charge_planned(*bucket, plan, used - cost, &tree.clock),
                    Some(unused) => {
                        let unused = unused.min(counted.tokens(plan.burst())).min(limit);
                        *most = 0;
                        if unused > 0
                            && is_alive
                            && let Some(receipt) = receipt.take()
                        {
                            gives_back = true;
                            if level.table.refund_planned(*bucket, plan, unused, receipt, &tree.clock) {
                                *most = unused;
                            }
                        }
                    }
                }
            }
        }
        if gives_back {
            let taken = self.taken.words.iter().enumerate();
            let buckets = taken
                .flat_map(|(level, words)| words.iter().flatten().map(move |word| Bucket::new(level, word.bucket)));
            tree.lines.wake(buckets, now);
        }
        // `self` is dropped here, after the refunds. Until now the reservation has counted as unsettled.
    }
}

impl<T: TreeRef> TreeReservation<T> {
    /// Returns the costs that were taken.
    #[must_use]
    pub fn costs(&self) -> <T::Target as Settles>::Costs {
        self.costs
    }

    /// Returns the permission of the call, which describes the tightest limit.
    #[must_use]
    pub fn allowed(&self) -> TreeAllowed {
        self.allowed
    }
}

impl<T: TreeRef> Drop for TreeReservation<T> {
    fn drop(&mut self) {
        self.tree.release(&self.taken);
    }
}

impl<T: TreeRef<Target: Settles<Costs: fmt::Debug>>> fmt::Debug for TreeReservation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeReservation").field("costs", &self.costs).finish_non_exhaustive()
    }
}
