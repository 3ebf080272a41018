//! Waiting for the costs of a path.

use super::waiting::PathCosts;
use super::{QuotaTree, Step};
use crate::Acquire;
use crate::concurrency::CostsRequest;
use crate::time::Clock;
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use core::hash::{BuildHasher, Hash};

impl<K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher>
    QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    /// Prepares to wait for the costs of a path.
    ///
    /// `tree.acquire(&path, costs).wait()?` blocks the thread, and `tree.acquire(&path, costs).await?` does not (feature
    /// `tokio`; elsewhere [`sleeping_by`](Acquire::sleeping_by)). Either returns a [`TreeReservation`](super::TreeReservation), as
    /// [`reserve`](Self::reserve) does. The plans are copied now, so the path need not live as long as the wait.
    ///
    /// # Order
    ///
    /// A call waits in a line of each bucket that has refused it, behind older calls that wait there, until it is served or gives
    /// up. While one level refuses it or holds it up, it waits in no line of a later level. So no later call takes from
    /// a bucket that has refused it at the same level or an earlier one. Calls that take from the same buckets are served in
    /// the order in which they came, whatever they cost. [`check`](Self::check) and [`reserve`](Self::reserve) are refused
    /// while a call waits for one of their buckets, so they overtake none.
    ///
    /// A call is never held up by calls that share no bucket with it, nor by those that only a bucket refuses from which it
    /// takes nothing. Name the most specific level first: then a user without tokens does not hold up the other users of
    /// the organisation.
    ///
    /// A large call holds up those behind it at the buckets that have refused it, until they have its costs. Where callers
    /// are not trusted, bound their estimates.
    ///
    /// A call within its [guarantee](super::QuotaTreeBuilder::guarantees) waits behind no call at the next level. One that
    /// borrows waits for as long as the guaranteed calls take all of the rate, or until its own guarantee is refilled: later
    /// calls of the same key leave that to it. A call whose cost exceeds the burst of its guarantee can only borrow, and leaves
    /// the guarantee to the others of its key.
    ///
    /// # Waiting
    ///
    /// Nothing is taken before all of it is there. So each bucket allows its envelope, as for calls that do not wait. A call
    /// that may ask does so again when its tokens are due. A reservation that is settled wakes the first call of a line earlier,
    /// and the calls within their guarantee. Other changes, such as [`replan`](Self::replan), are noticed within a second. A
    /// call whose time is over holds up others no longer, even if nothing polls its future.
    ///
    /// If the tables give a new key [no slot](crate::WhenFull), a call of it waits for one as for tokens. Of such keys the first
    /// to ask gets a slot that becomes free.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "tokio")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use core::time::Duration;
    /// use damper::{Plan, Quota, QuotaTree};
    ///
    /// let tree = QuotaTree::<str, 2, 1>::builder(["user", "organisation"], ["tokens"]).build()?;
    /// let (user, organisation) = (Plan::new(Quota::per_second(1_000))?, Plan::new(Quota::per_second(5_000))?);
    ///
    /// let path = [("alice", [&user]), ("acme", [&organisation])];
    /// let first = tree.acquire(&path, [1_000]).await?;
    /// let second = tree.acquire(&path, [10]).within(Duration::from_secs(5)).await?; // after 10 ms
    /// second.settle([7]);
    /// # first.settle([1_000]);
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn acquire(&self, path: &[Step<'_, K, DIMENSIONS>; LEVELS], costs: [u32; DIMENSIONS]) -> Acquire<&Self> {
        Acquire::new(CostsRequest::new(self, Ok(PathCosts::new(self.buckets(path), path, costs))))
    }

    /// Prepares to wait as [`acquire`](Self::acquire) does, for a reservation with its own reference to the tree.
    #[cfg(target_has_atomic = "ptr")]
    pub fn acquire_owned(
        self: &Arc<Self>,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> Acquire<Arc<Self>> {
        Acquire::new(CostsRequest::new(Arc::clone(self), Ok(PathCosts::new(self.buckets(path), path, costs))))
    }

    /// Returns how many calls wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.lines.waiting()
    }
}
