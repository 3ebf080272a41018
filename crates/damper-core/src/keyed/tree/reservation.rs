//! The costs of a call, taken from all words of a path and settled later.

use super::decision::Call;
use super::lines::{Bucket, Ticket};
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

pub(super) mod sealed {
    use crate::keyed::tree::lines::Ticket;

    /// The part of a tree that its reservations need.
    pub trait Settles {
        /// A number of tokens for each dimension.
        type Costs: Copy;

        /// The words that costs were taken from.
        type Taken;

        /// Subtracts what was taken from the tokens that count as unsettled.
        fn release(&self, taken: &Self::Taken);

        /// Removes a call that waits from its lines.
        fn leave(&self, ticket: Ticket);
    }
}

/// A word from which a reservation took its cost.
#[derive(Debug)]
pub struct TakenWord {
    bucket: Fingerprint,
    plan: Plan,
    /// It is used once, when the reservation is settled.
    receipt: Option<Receipt>,
    counted: Counted,
}

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S> Settles
    for QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    type Costs = [u32; DIMENSIONS];
    type Taken = PerWord<Option<TakenWord>, LEVELS, DIMENSIONS>;

    fn release(&self, taken: &Self::Taken) {
        for (level, taken) in self.levels.iter().zip(taken) {
            for word in taken.iter().flatten() {
                level.unsettled(word.bucket).release(word.counted);
            }
        }
    }

    fn leave(&self, ticket: Ticket) {
        self.lines.leave(ticket, self.clock.now());
    }
}

/// The costs of one call, taken from all levels and dimensions of its path.
///
/// [`QuotaTree::reserve`] returns it, or [`reserve_owned`](QuotaTree::reserve_owned) for spawned tasks and streamed
/// responses.
///
/// Keep it for as long as the call takes, and [settle](Self::settle) it when the true costs are known. If it is dropped
/// instead, by a panic or a client that disconnects, the costs count as used.
#[must_use = "a reservation that is dropped at once counts as used"]
pub struct TreeReservation<T: TreeRef> {
    tree: T,
    costs: <T::Target as Settles>::Costs,
    taken: <T::Target as Settles>::Taken,
    allowed: TreeAllowed,
    /// The tick at which the costs were taken.
    since: u64,
}

impl<K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher>
    QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    /// Takes the costs, one for each dimension, from every level of the path, or takes nothing.
    ///
    /// They are settled when the true costs are known.
    ///
    /// # Errors
    ///
    /// [`TreeDenied`], which names the level and the dimension with the longest wait.
    pub fn reserve(
        &self,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> Result<TreeReservation<&Self>, TreeDenied> {
        let call = Call { buckets: &self.buckets(path), path, costs };
        self.held_up(&call).map_or_else(|| TreeReservation::new(self, &call), Err)
    }

    /// Reserves as [`reserve`](Self::reserve) does; the reservation owns a reference to the tree.
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
        let call = Call { buckets: &self.buckets(path), path, costs };
        self.held_up(&call).map_or_else(|| TreeReservation::new(Arc::clone(self), &call), Err)
    }
}

impl<T, K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher> TreeReservation<T>
where
    T: Deref<Target = QuotaTree<K, LEVELS, DIMENSIONS, C, S>>,
{
    pub(super) fn new(tree: T, call: &Call<'_, '_, K, LEVELS, DIMENSIONS>) -> Result<Self, TreeDenied> {
        let (allowed, receipts) = tree.take(call)?;
        let &Call { buckets, path, costs } = call;
        let since = tree.clock.now();
        let mut receipts = receipts.into_iter().map(IntoIterator::into_iter);
        let taken = core::array::from_fn(|level| {
            let mut receipts = receipts.next();
            core::array::from_fn(|dimension| {
                let receipt = receipts.as_mut().and_then(Iterator::next).flatten();
                let (bucket, plan) = (buckets[level][dimension], *path[level].1[dimension]);
                // A cost of 0 may be settled to more. A call that borrowed took nothing of its guarantee.
                if plan.is_unlimited() || receipt.is_none() && costs[dimension] > 0 {
                    return None;
                }
                let word = tree.levels[level].unsettled(bucket);
                let counted = tree.bounds.count(word, costs[dimension], plan.burst(), since);
                Some(TakenWord { bucket, plan, receipt, counted })
            })
        });
        Ok(Self { tree, costs, taken, allowed, since })
    }

    /// Corrects the costs to what the call used, one number for each dimension.
    ///
    /// Tokens that were not used are given back, except those that a full bucket has no room for, those beyond the
    /// [bound](super::QuotaTreeBuilder::unsettled) on what is unsettled, and all of them after the
    /// [time-to-live](super::QuotaTreeBuilder::time_to_live). Tokens that were used beyond the costs are booked into
    /// debt, but none beyond [`Quota::max_debt`](crate::Quota::max_debt), also those that another key is guaranteed. Nothing is
    /// given back to a bucket whose debt was [converted](QuotaTree::replan) since, or that was full since and then used under
    /// another plan alone. Settle a call that was not made with costs of 0.
    pub fn settle(mut self, used: [u32; DIMENSIONS]) {
        let tree = &*self.tree;
        let mut gives_back = false;
        let now = tree.clock.now();
        let is_alive = tree.bounds.is_alive(self.since, now);
        // In the opposite order, and of a guarantee no more than of what it guarantees: else it would have tokens again that
        // the next level has not.
        let mut most = [u32::MAX; DIMENSIONS];
        for (level, taken) in tree.levels.iter().zip(&mut self.taken).rev() {
            for (((taken, cost), used), most) in taken.iter_mut().zip(self.costs).zip(used).zip(&mut most) {
                let of_next = core::mem::replace(most, u32::MAX);
                let limit = if level.is_guarantee { of_next } else { u32::MAX };
                let Some(TakenWord { bucket, plan, receipt, counted }) = taken else { continue };
                match cost.checked_sub(used) {
                    None => _ = level.table.charge_planned(*bucket, plan, used - cost, &tree.clock),
                    Some(unused) => {
                        let unused = unused.min(counted.tokens(plan.burst())).min(limit);
                        *most = unused;
                        if unused > 0
                            && is_alive
                            && let Some(receipt) = receipt.take()
                        {
                            gives_back = true;
                            level.table.refund_planned(*bucket, plan, unused, receipt, &tree.clock);
                        }
                    }
                }
            }
        }
        if gives_back {
            let taken = self.taken.iter().enumerate();
            let buckets = taken
                .flat_map(|(level, words)| words.iter().flatten().map(move |word| Bucket::new(level, word.bucket)));
            tree.lines.wake(buckets, now);
        }
        // Only now does the drop stop counting the reservation as unsettled.
    }
}

impl<T: TreeRef> TreeReservation<T> {
    /// Returns the costs that were taken.
    #[must_use]
    pub fn costs(&self) -> <T::Target as Settles>::Costs {
        self.costs
    }

    /// Returns the permission: the tightest of the limits.
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
