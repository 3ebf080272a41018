//! How to wait for several limits.

use super::sealed::QueuedSet;
#[cfg(feature = "std")]
use super::stay::{Stay, Step};
use super::{QueuedSetRef, SetAcquireFuture};
use crate::Deadline;
use crate::concurrency::LimitSetRefusal;
use crate::concurrency::bulkhead::Patience;
#[cfg(feature = "std")]
use crate::limit::SetReservation;
#[cfg(feature = "std")]
use crate::sync::Parker;
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use crate::time::{Clock, Sleep};
use core::fmt;
use core::time::Duration;

/// A wait for the costs of a call, with its longest time. Made by [`LimitSet::acquire`](crate::LimitSet::acquire).
///
/// Nothing is taken before [`wait`](Self::wait) is called, or a future of it is polled. With the feature `tokio` it can be
/// awaited directly; [`sleeping_by`](Self::sleeping_by) makes a future for any other runtime.
///
/// # Errors
///
/// [`LimitSetRefusal`]. At once: a cost exceeds its burst, or the queue is full. Later: the time to wait is over. The refusal is
/// then that of the limit or the bulkhead if the call was the first of the queue, and else
/// [`SetQueueRefusal::TimedOut`](super::SetQueueRefusal::TimedOut). Unlike
/// [`RateLimiter::acquire`](crate::RateLimiter::acquire), a call that would be late is not refused at once, because a
/// reservation that is settled may bring its tokens earlier. Under a quota that refills nothing it waits for another one.
#[must_use = "nothing waits before `wait` is called or the future is awaited"]
pub struct SetAcquire<S: QueuedSetRef> {
    pub(super) set: S,
    /// The refusal is that of a call with more or fewer costs than limits.
    pub(super) costs: Result<<S::Target as QueuedSet>::Costs, LimitSetRefusal>,
    pub(super) patience: Patience,
}

impl<S: QueuedSetRef> SetAcquire<S> {
    pub(super) fn new(set: S, costs: &[u32]) -> Self {
        let costs = set.copy_of(costs);
        Self { set, costs, patience: Patience::default() }
    }

    /// Sets the longest wait. Default: for ever.
    ///
    /// It begins when the call joins the queue. With [`by`](Self::by) too, the earlier end counts.
    pub fn within(mut self, longest: Duration) -> Self {
        self.patience.longest = Some(longest);
        self
    }

    /// Sets the deadline by which to be served. Default: none.
    ///
    /// The time until the deadline is read now. Of several deadlines the earliest counts.
    pub fn by<C: Clock>(mut self, deadline: &Deadline<C>) -> Self {
        if !deadline.is_never() {
            let until = self.set.expiry_after(deadline.remaining());
            self.patience.wait_until(until);
        }
        self
    }

    /// Blocks the thread until the costs and the slot are there and taken.
    ///
    /// The first wait of a thread allocates its waker.
    ///
    /// # Errors
    ///
    /// The errors of [`SetAcquire`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{LimitSet, Quota};
    ///
    /// let set = LimitSet::new([Quota::per_second(1_000), Quota::per_second(10_000)]).queue(16);
    /// let large = set.acquire([1, 10_000]).wait()?;
    /// let small = set.acquire([1, 10]).within(Duration::from_secs(5)).wait()?; // after a millisecond
    /// # drop((large, small));
    /// # Ok::<(), damper::LimitSetRefusal>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn wait(self) -> Result<SetReservation<S>, LimitSetRefusal> {
        let parker = Parker::of_this_thread();
        let waker = parker.waker();
        let mut stay = Stay::new(self);
        loop {
            // The wake-ups are counted before each look, so that none is lost between a look and the wait.
            let seen = parker.wake_ups();
            match stay.step(&waker) {
                Step::Over(result) => return result,
                Step::Wait(longest) => parker.wait(seen, longest),
            }
        }
    }

    /// Returns a future that waits for the costs and the slot, on any runtime.
    ///
    /// A sleep that is ready whenever it is polled, like `|_| ready(())`, keeps its task busy: each poll returns, and wakes
    /// the task at once.
    pub fn sleeping_by<T: Sleep>(self, sleep: T) -> SetAcquireFuture<S, T> {
        SetAcquireFuture::new(self, sleep)
    }
}

/// Waits in a future that sleeps by tokio's timer.
///
/// # Panics
///
/// If polled outside of a tokio runtime whose timer is enabled, once it has to wait. Elsewhere:
/// [`sleeping_by`](SetAcquire::sleeping_by).
#[cfg(feature = "tokio")]
impl<S: QueuedSetRef> IntoFuture for SetAcquire<S> {
    type Output = Result<SetReservation<S>, LimitSetRefusal>;
    type IntoFuture = SetAcquireFuture<S, TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(TokioSleep)
    }
}

impl<S: QueuedSetRef> fmt::Debug for SetAcquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetAcquire").field("patience", &self.patience).finish_non_exhaustive()
    }
}
