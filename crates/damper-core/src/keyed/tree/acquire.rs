//! How to wait for the costs of a path.

use super::reservation::TreeRef;
#[cfg(feature = "std")]
use super::stay::Progress;
use super::stay::Stay;
use super::{QuotaTree, Step, TreeAcquireFuture};
#[cfg(feature = "std")]
use super::{TreeRefusal, TreeReservation};
use crate::Deadline;
use crate::concurrency::{Expiry, Patience};
#[cfg(feature = "std")]
use crate::sync::Parker;
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use crate::time::{Clock, Sleep};
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::ops::Deref;
use core::time::Duration;

impl<K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher>
    QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    /// Prepares to wait for the costs of a path.
    ///
    /// `tree.acquire(&path, costs).wait()?` blocks the thread, and `tree.acquire(&path, costs).await?` does not (feature
    /// `tokio`; elsewhere [`sleeping_by`](TreeAcquire::sleeping_by)). Either returns a [`TreeReservation`](super::TreeReservation), as
    /// [`reserve`](Self::reserve) does.
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
    /// that may ask does so again when its tokens are due. A reservation that is settled wakes the first call of a line earlier.
    /// Other changes, such as [`replan`](Self::replan), are noticed within a second. A call whose time is over holds up
    /// others no longer, even if nothing polls its future.
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
    pub fn acquire<'a>(
        &self,
        path: &'a [Step<'a, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> TreeAcquire<'a, &Self, K, LEVELS, DIMENSIONS> {
        TreeAcquire { tree: self, path, costs, patience: Patience::default() }
    }

    /// Prepares to wait as [`acquire`](Self::acquire) does, for a reservation with its own reference to the tree.
    #[cfg(target_has_atomic = "ptr")]
    pub fn acquire_owned<'a>(
        self: &Arc<Self>,
        path: &'a [Step<'a, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> TreeAcquire<'a, Arc<Self>, K, LEVELS, DIMENSIONS> {
        TreeAcquire { tree: Arc::clone(self), path, costs, patience: Patience::default() }
    }

    /// Returns how many calls wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.lines.waiting()
    }
}

/// A wait for the costs of a path, with its longest time. Made by [`QuotaTree::acquire`].
///
/// Nothing is taken before [`wait`](Self::wait) is called, or a future of it is polled. With the feature `tokio` it can be
/// awaited directly; [`sleeping_by`](Self::sleeping_by) makes a future for any other runtime.
///
/// # Errors
///
/// [`TreeRefusal`](super::TreeRefusal). At once: a cost exceeds its burst, or the [places](super::QuotaTreeBuilder::queue) for
/// calls that wait are taken. Later: the time to wait is over. A call that would be late is not refused at once, because a reservation that is settled may bring its tokens
/// earlier.
#[must_use = "nothing waits before `wait` is called or the future is awaited"]
pub struct TreeAcquire<'a, T: TreeRef, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> {
    pub(super) tree: T,
    pub(super) path: &'a [Step<'a, K, DIMENSIONS>; LEVELS],
    pub(super) costs: [u32; DIMENSIONS],
    pub(super) patience: Patience,
}

impl<T, K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher>
    TreeAcquire<'_, T, K, LEVELS, DIMENSIONS>
where
    T: Deref<Target = QuotaTree<K, LEVELS, DIMENSIONS, C, S>> + Clone,
{
    /// Sets the longest wait. Default: for ever.
    ///
    /// It begins when the call begins to wait. With [`by`](Self::by) too, the earlier end counts.
    pub fn within(mut self, longest: Duration) -> Self {
        self.patience.longest = Some(longest);
        self
    }

    /// Sets the deadline by which to be served. Default: none.
    ///
    /// The time until the deadline is read now. Of several deadlines the earliest counts.
    pub fn by<D: Clock>(mut self, deadline: &Deadline<D>) -> Self {
        if !deadline.is_never() {
            self.patience.wait_until(Expiry::after(deadline.remaining(), &self.tree.clock));
        }
        self
    }

    /// Blocks the thread until the costs are there and taken.
    ///
    /// The first wait of a thread allocates its waker.
    ///
    /// # Errors
    ///
    /// The errors of [`TreeAcquire`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{Plan, Quota, QuotaTree};
    ///
    /// let tree = QuotaTree::<str, 1, 1>::builder(["user"], ["calls"]).build()?;
    /// let plan = Plan::new(Quota::per_second(100).burst(1))?;
    /// for _ in 0..3 {
    ///     drop(tree.acquire(&[("alice", [&plan])], [1]).within(Duration::from_secs(5)).wait()?);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn wait(self) -> Result<TreeReservation<T>, TreeRefusal> {
        let parker = Parker::of_this_thread();
        let waker = parker.waker();
        let mut stay = Stay::new(self);
        loop {
            // The wake-ups are counted before each look, so that none is lost between a look and the wait.
            let seen = parker.wake_ups();
            match stay.step(&waker) {
                Progress::Over(result) => return result,
                Progress::Wait(longest) => parker.wait(seen, longest),
            }
        }
    }

    /// Returns a future that waits for the costs, on any runtime.
    ///
    /// A sleep that is ready whenever it is polled, like `|_| ready(())`, keeps its task busy: each poll returns, and wakes
    /// the task at once.
    pub fn sleeping_by<Z: Sleep>(self, sleep: Z) -> TreeAcquireFuture<Self, Z> {
        TreeAcquireFuture::new(Stay::new(self), sleep)
    }
}

/// Waits in a future that sleeps by tokio's timer.
///
/// # Panics
///
/// If polled outside of a tokio runtime whose timer is enabled, once it has to wait. Elsewhere:
/// [`sleeping_by`](TreeAcquire::sleeping_by).
#[cfg(feature = "tokio")]
impl<T, K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher> IntoFuture
    for TreeAcquire<'_, T, K, LEVELS, DIMENSIONS>
where
    T: Deref<Target = QuotaTree<K, LEVELS, DIMENSIONS, C, S>> + Clone,
{
    type Output = Result<TreeReservation<T>, TreeRefusal>;
    type IntoFuture = TreeAcquireFuture<Self, TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(TokioSleep)
    }
}

impl<T: TreeRef, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> fmt::Debug
    for TreeAcquire<'_, T, K, LEVELS, DIMENSIONS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeAcquire")
            .field("costs", &self.costs)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
