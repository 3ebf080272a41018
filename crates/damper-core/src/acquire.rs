//! Waiting: for tokens, for the costs of a call, or for a permit.

use crate::Deadline;
use crate::limit::{Queue, TokensRequest};
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use crate::time::{Clock, Sleep};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use pin_project_lite::pin_project;

/// A reference to what a call can wait for, or an `Arc` of it.
///
/// The trait is damper's own. It is public because [`Acquire`] names it.
#[diagnostic::on_unimplemented(
    message = "no call waits for a `{Self}`",
    note = "a `RateLimiter` with the token bucket, a key of a `KeyedLimiter`, a `Bulkhead`, an `AdaptiveLimit`, an `Admission`, a `LimitSet` \
    with a queue and a `QuotaTree` are waited for, by a reference or an `Arc`"
)]
pub trait Awaited {
    /// The request of a call: for how much, and for how long.
    type Request: Wait;
}

/// The request of a call that waits: for how much, and for how long.
pub trait Wait {
    /// The result of the wait: tokens, a permit or a reservation, or a refusal.
    type Output;

    /// The wait of the call.
    type Future<S: Sleep>: Future<Output = Self::Output>;

    /// Returns the wait as a future.
    fn sleeping_by<S: Sleep>(self, sleep: S) -> Self::Future<S>;

    /// Waits by blocking the thread.
    #[cfg(feature = "std")]
    fn wait(self) -> Self::Output;
}

/// A wait whose longest time can be set.
pub trait Within: Wait {
    /// Sets the longest time.
    fn set_longest(&mut self, longest: Duration);
}

/// A wait that can end at a deadline.
pub trait By: Wait {
    /// Sets the deadline. Of several, the earliest counts.
    fn set_deadline<C: Clock>(&mut self, deadline: &Deadline<C>);
}

/// Makes the reference to a type and an `Arc` of it something to wait for.
macro_rules! awaited {
    ([$($generics:tt)*] $target:ty, $request:ident) => {
        impl<'a, $($generics)*> $crate::acquire::Awaited for &'a $target {
            type Request = $request<Self>;
        }

        #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
        impl<$($generics)*> $crate::acquire::Awaited for alloc::sync::Arc<$target> {
            type Request = $request<Self>;
        }
    };
}
pub(crate) use awaited;

/// A wait that has not begun: for what, and for how long at most.
///
/// | `acquire` of | gives | is refused with |
/// |---|---|---|
/// | a [`RateLimiter`](crate::RateLimiter), or a key of a [`KeyedLimiter`](crate::KeyedLimiter) | tokens, which are taken | [`Denied`](crate::Denied) |
/// | a [`Bulkhead`](crate::Bulkhead), an [`AdaptiveLimit`](crate::AdaptiveLimit) or a key's | a [`BulkheadPermit`](crate::concurrency::BulkheadPermit) | [`BulkheadFull`](crate::BulkheadFull) |
/// | an `Admission` | an `AdmissionPermit` | `NotAdmitted` |
/// | a [`LimitSet`](crate::LimitSet) with a queue | a [`SetReservation`](crate::SetReservation) | [`LimitSetRefusal`](crate::LimitSetRefusal) |
/// | a `QuotaTree` | a `TreeReservation` | `TreeRefusal` |
///
/// Nothing is taken before [`wait`](Self::wait) is called, or a future of it is polled. With the feature `tokio` it can be awaited as it is;
/// [`sleeping_by`](Self::sleeping_by) makes a future for any other runtime.
///
/// # Errors
///
/// A limiter refuses at once: the tokens exceed the burst, would be there later than [`within`](Self::within) says, or too many callers
/// wait already for the debt to stay within [`Quota::max_debt`](crate::Quota::max_debt). The call then takes none. Under a quota that refills
/// nothing it waits for another quota, unless `within` is set.
///
/// A bulkhead and an adaptive limit give a slot that is free, even to a call whose time is over. Otherwise the call waits in the
/// [queue](crate::Bulkhead::queue), and is refused if that is full. **Without a queue it never waits**: it is refused at once, with
/// [`RefusalCause::NoQueue`](crate::concurrency::RefusalCause::NoQueue). It is refused later if its time is over or a newer call took its place.
///
/// An admission refuses at once if the call is late or the queue is full of other calls, and later if it becomes late, gives way or has waited
/// for as long as its request says.
///
/// A set and a tree refuse at once if a cost exceeds its burst, or there is no place for one more call, and later if the time to wait is over.
/// If other calls held this one up then, the refusal is `TimedOut`. Otherwise it is that of the limit or the bulkhead. A call that would be
/// late is not refused at once, because a reservation that is settled may bring its tokens earlier.
#[must_use = "nothing waits before `wait` is called or the future is awaited"]
pub struct Acquire<H: Awaited> {
    request: H::Request,
}

impl<H: Awaited> Acquire<H> {
    pub(crate) fn new(request: H::Request) -> Self {
        Self { request }
    }

    #[cfg(feature = "alloc")]
    pub(crate) fn into_request(self) -> H::Request {
        self.request
    }

    /// Blocks the thread until the wait is over.
    ///
    /// The first wait of a thread may allocate its waker. A refund or a change of the quota wakes a thread that waits for tokens, and it then
    /// waits as long as the new state requires.
    ///
    /// # Errors
    ///
    /// The errors of [`Acquire`].
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
    pub fn wait(self) -> <H::Request as Wait>::Output {
        self.request.wait()
    }

    /// Returns a future that waits and sleeps by `sleep`, on any runtime.
    ///
    /// A sleep that is ready whenever it is polled, like `|_| ready(())`, keeps its task busy until the time is over: each poll returns, and
    /// wakes the task at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use core::time::Duration;
    /// use damper::{Bulkhead, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(1_000).burst(1));
    /// let pool = Bulkhead::new(1).queue(16);
    /// for _ in 0..3 {
    ///     limiter.acquire(1).within(Duration::from_secs(1)).sleeping_by(tokio::time::sleep).await?;
    ///     let _permit = pool.acquire().within(Duration::from_secs(1)).sleeping_by(tokio::time::sleep).await?;
    /// }
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn sleeping_by<S: Sleep>(self, sleep: S) -> AcquireFuture<H, S> {
        AcquireFuture { future: self.request.sleeping_by(sleep) }
    }
}

impl<H: Awaited<Request: Within>> Acquire<H> {
    /// Sets for how long to wait at most. Default: for ever.
    ///
    /// A limiter whose tokens come later than that refuses the call at once, and takes none. In a queue the time begins when the call
    /// joins it. With [`by`](Self::by) too, the earlier end counts.
    pub fn within(mut self, longest: Duration) -> Self {
        self.request.set_longest(longest);
        self
    }
}

impl<H: Awaited<Request: By>> Acquire<H> {
    /// Sets the deadline by which to be served. Default: none.
    ///
    /// The time until the deadline is read now. Of several deadlines the earliest counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::{Bulkhead, BulkheadFull, Deadline};
    ///
    /// let pool = Bulkhead::new(1).queue(16);
    /// let deadline = Deadline::after(Duration::from_millis(5));
    /// let permit = pool.acquire().by(&deadline).wait()?;
    /// assert!(pool.acquire().by(&deadline).wait().is_err());
    /// # drop(permit);
    /// # }
    /// # Ok::<(), damper::BulkheadFull>(())
    /// ```
    pub fn by<C: Clock>(mut self, deadline: &Deadline<C>) -> Self {
        if !deadline.is_never() {
            self.request.set_deadline(deadline);
        }
        self
    }
}

impl<Q: Queue + Awaited<Request = TokensRequest<Q>>> Acquire<Q> {
    /// Adds up to `most` to the wait once the tokens are there. The default is none.
    ///
    /// The jitter spreads callers that were given the same moment. It differs from call to call and from process to
    /// process, and does not count towards [`within`](Self::within).
    #[cfg(feature = "std")]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.request.set_jitter(most);
        self
    }

    pub(crate) fn reserve(&self) -> Result<Q::Place, crate::Denied> {
        self.request.reserve()
    }
}

/// Waits in a future that sleeps by tokio's timer, if it has to sleep.
///
/// # Panics
///
/// The future panics if it has to sleep and is polled outside of a tokio runtime with an enabled timer. On other
/// runtimes use [`sleeping_by`](Acquire::sleeping_by).
#[cfg(feature = "tokio")]
impl<H: Awaited> IntoFuture for Acquire<H> {
    type Output = <H::Request as Wait>::Output;
    type IntoFuture = AcquireFuture<H, TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(TokioSleep)
    }
}

impl<H: Awaited<Request: Clone>> Clone for Acquire<H> {
    fn clone(&self) -> Self {
        Self { request: self.request.clone() }
    }
}

impl<H: Awaited<Request: Copy>> Copy for Acquire<H> {}

impl<H: Awaited<Request: fmt::Debug>> fmt::Debug for Acquire<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acquire").field(&self.request).finish()
    }
}

pin_project! {
    /// Waits for tokens, for the costs of a call, or for a permit. Made by [`Acquire::sleeping_by`].
    ///
    /// It takes its place in the order when it is first polled.
    ///
    /// A wait for tokens sleeps until they are there, but for at most a second at a time. So a refund or a change of the quota reaches it
    /// within a second, even if its tokens were due later. A clock that steps back by more than it should makes it wait for as much
    /// longer: checks are healed after such a step, but the moment that a waiter was given is not. All other waits are woken.
    ///
    /// # Errors
    ///
    /// The errors of [`Acquire`]. A limiter refuses when the future is first polled, and never later.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before it was polled takes nothing.
    ///
    /// **Tokens** of a wait that is dropped are given back if it is the last in the order. Otherwise they count as used, because the waiters
    /// behind it already have their moments. They also count as used once its own moment has come. So no token is handed out twice, but
    /// many futures dropped with others behind them waste the rate. To limit the time, wait [`within`](Acquire::within) it instead of
    /// dropping the future. One that is polled again after it was ready waits for further tokens.
    ///
    /// **A permit** or **costs** are taken when the future is ready and not before, or go to the next call if it is dropped then. The other
    /// calls keep their order, and the next one is woken. The first of a line holds up those behind it, and a future that is neither
    /// polled nor dropped may hold a permit, so poll it whenever it is woken. Polled again after it was ready, it is pending for ever.
    ///
    /// In a loop of `select!`, create the future once and pin it outside.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct AcquireFuture<H: Awaited, S: Sleep> {
        #[pin]
        future: <H::Request as Wait>::Future<S>,
    }
}

impl<H: Awaited, S: Sleep> Future for AcquireFuture<H, S> {
    type Output = <H::Request as Wait>::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(context)
    }
}

impl<H: Awaited, S: Sleep> fmt::Debug for AcquireFuture<H, S>
where
    <H::Request as Wait>::Future<S>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AcquireFuture").field(&self.future).finish()
    }
}
