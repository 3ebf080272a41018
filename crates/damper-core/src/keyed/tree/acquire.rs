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
    /// `tree.acquire(&path, costs).wait()?` blocks the thread. With the feature `tokio`,
    /// `tree.acquire(&path, costs).await?` suspends the task instead. On other runtimes, pass the timer to
    /// [`sleeping_by`](Acquire::sleeping_by). Each of these returns a [`TreeReservation`](super::TreeReservation), as
    /// [`reserve`](Self::reserve) does. The plans are copied now, so the path need not live as long as the wait.
    ///
    /// # Order
    ///
    /// Each bucket has a line of calls that it has refused. A call stands in the line of each bucket that refused it,
    /// behind older calls, until it is served or gives up. Calls that take from the same buckets are served in the
    /// order in which they came, whatever they cost. [`check`](Self::check) and [`reserve`](Self::reserve) are refused
    /// while a call waits for one of their buckets, so they overtake no call.
    ///
    /// A call passes the levels one after the other. While it waits at one level, it stands in no line of a later
    /// level. It keeps its places at all buckets of this level and of earlier levels that have refused it, so no later
    /// call overtakes it there.
    ///
    /// A call is held up only by older calls that wait at a bucket from which it takes too. Name the most specific
    /// level first. Then a user without tokens waits at its own bucket, and does not hold up the other users of the
    /// organisation.
    ///
    /// A call with large costs holds up the calls behind it until the buckets that have refused it have the tokens for
    /// these costs. If callers are not trusted, bound their estimates.
    ///
    /// [Guarantees](super::QuotaTreeBuilder::guarantees) add these rules:
    ///
    /// - A call within its guarantee waits behind no call at the next level.
    /// - A call beyond its guarantee borrows from the next level. It waits while the guaranteed calls take all of the
    ///   rate, or until its own guarantee is refilled. While it waits, later calls of the same key leave the guarantee
    ///   to it.
    /// - A call whose cost exceeds the burst of its guarantee can only borrow. It leaves the guarantee to the other
    ///   calls of its key.
    ///
    /// # Waiting
    ///
    /// A call takes nothing until all its costs are available. So each bucket allows what its plan says, as it does for
    /// calls that do not wait. If no older call holds a call up, it tries again when its tokens are due.
    ///
    /// When a reservation gives tokens back, it wakes the first call in the line of each of its buckets. It also wakes
    /// calls behind the first one that may be within their guarantee by now. Other changes, such as
    /// [`replan`](Self::replan), are noticed within a second. A call whose time is over no longer holds up others, even
    /// if nothing polls its future.
    ///
    /// If a table has [no slot](crate::WhenFull) for a new key, a call for this key waits for a slot as it waits for
    /// tokens. When a slot becomes free, the first such call that asks gets it.
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
