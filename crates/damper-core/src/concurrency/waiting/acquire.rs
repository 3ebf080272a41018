//! How to wait for the costs of a call.

#[cfg(feature = "std")]
use super::stay::{Outcome, Stay, Step};
use super::{AcquireCostsFuture, Waitable, WaitableRef};
use crate::Deadline;
use crate::concurrency::{Expiry, Patience};
#[cfg(feature = "std")]
use crate::sync::Parker;
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use crate::time::{Clock, Sleep};
use core::fmt;
use core::time::Duration;

/// A wait for the costs of a call, with its longest time.
///
/// [`LimitSet::acquire`](crate::LimitSet::acquire) and [`QuotaTree::acquire`](crate::QuotaTree::acquire) return it, around a
/// reference to the limits or an `Arc` of them.
///
/// Nothing is taken before [`wait`](Self::wait) is called, or a future of it is polled. With the feature `tokio` it can be
/// awaited directly; [`sleeping_by`](Self::sleeping_by) makes a future for any other runtime. A set returns a
/// [`SetReservation`](crate::SetReservation), a tree a [`TreeReservation`](crate::TreeReservation).
///
/// # Errors
///
/// [`LimitSetRefusal`](crate::LimitSetRefusal) of a set, [`TreeRefusal`](crate::TreeRefusal) of a tree. At once: a cost exceeds
/// its burst, or there is no place for one more call. Later: the time to wait is over. If other calls held this one up then,
/// the refusal is [`LimitSetRefusal::TimedOut`](crate::LimitSetRefusal::TimedOut) or
/// [`TreeRefusal::TimedOut`](crate::TreeRefusal::TimedOut). Otherwise it is that of the limit or the bulkhead.
///
/// Unlike [`RateLimiter::acquire`](crate::RateLimiter::acquire), a call that would be late is not refused at once, because a
/// reservation that is settled may bring its tokens earlier. Under a quota that refills nothing it waits for another one.
#[must_use = "nothing waits before `wait` is called or the future is awaited"]
pub struct AcquireCosts<T: WaitableRef> {
    pub(super) limits: T,
    /// The refusal is that of a call whose costs do not fit the limits.
    pub(super) demand: Result<<T::Target as Waitable>::Demand, <T::Target as Waitable>::Refusal>,
    pub(super) patience: Patience,
}

impl<T: WaitableRef> AcquireCosts<T> {
    pub(crate) fn new(
        limits: T,
        demand: Result<<T::Target as Waitable>::Demand, <T::Target as Waitable>::Refusal>,
    ) -> Self {
        Self { limits, demand, patience: Patience::default() }
    }

    /// Sets the longest wait. Default: for ever.
    ///
    /// It begins when the call joins a line. With [`by`](Self::by) too, the earlier end counts.
    pub fn within(mut self, longest: Duration) -> Self {
        self.patience.longest = Some(longest);
        self
    }

    /// Sets the deadline by which to be served. Default: none.
    ///
    /// The time until the deadline is read now. Of several deadlines the earliest counts.
    pub fn by<C: Clock>(mut self, deadline: &Deadline<C>) -> Self {
        if !deadline.is_never() {
            self.patience.wait_until(Expiry::after(deadline.remaining(), self.limits.clock()));
        }
        self
    }

    /// Blocks the thread until the costs are there and taken.
    ///
    /// The first wait of a thread allocates its waker.
    ///
    /// # Errors
    ///
    /// The errors of [`AcquireCosts`].
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{LimitSet, Plan, Quota, QuotaTree};
    ///
    /// let set = LimitSet::new([Quota::per_second(1_000), Quota::per_second(10_000)]).queue(16);
    /// let large = set.acquire([1, 10_000]).wait()?;
    /// let small = set.acquire([1, 10]).within(Duration::from_secs(5)).wait()?; // after a millisecond
    /// # drop((large, small));
    ///
    /// let tree = QuotaTree::<str, 1, 1>::builder(["user"], ["calls"]).build()?;
    /// let plan = Plan::new(Quota::per_second(100).burst(1))?;
    /// for _ in 0..3 {
    ///     drop(tree.acquire(&[("alice", [&plan])], [1]).within(Duration::from_secs(5)).wait()?);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn wait(self) -> Outcome<T> {
        let parker = Parker::of_this_thread();
        let waker = parker.waker();
        let mut stay = Stay::new(self);
        loop {
            // The wake-ups are counted before each look, so that none is lost between a look and the wait.
            let seen = parker.wake_ups();
            match stay.step(&waker) {
                Step::Over(outcome) => return outcome,
                Step::Wait(longest) => parker.wait(seen, longest),
            }
        }
    }

    /// Returns a future that waits for the costs, on any runtime.
    ///
    /// A sleep that is ready whenever it is polled, like `|_| ready(())`, keeps its task busy: each poll returns, and wakes
    /// the task at once.
    pub fn sleeping_by<S: Sleep>(self, sleep: S) -> AcquireCostsFuture<T, S> {
        AcquireCostsFuture::new(self, sleep)
    }
}

/// Waits in a future that sleeps by tokio's timer.
///
/// # Panics
///
/// If polled outside of a tokio runtime whose timer is enabled, once it has to wait. Elsewhere:
/// [`sleeping_by`](AcquireCosts::sleeping_by).
#[cfg(feature = "tokio")]
impl<T: WaitableRef> IntoFuture for AcquireCosts<T> {
    type Output = Outcome<T>;
    type IntoFuture = AcquireCostsFuture<T, TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(TokioSleep)
    }
}

impl<T: WaitableRef> fmt::Debug for AcquireCosts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireCosts").field("patience", &self.patience).finish_non_exhaustive()
    }
}
