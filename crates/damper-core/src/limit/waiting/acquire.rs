//! The settings of a wait.

#[cfg(feature = "std")]
use super::Place;
use super::{AcquireFuture, Queue};
use crate::limit::Denied;
use crate::time::Sleep;
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
#[cfg(feature = "std")]
use crate::time::random;
use core::time::Duration;

/// A wait for tokens that has not begun: how many, for how long at most, and with what jitter.
///
/// [`RateLimiter::acquire`](crate::RateLimiter::acquire) and [`KeyedLimiter::acquire`](crate::KeyedLimiter::acquire)
/// return it.
///
/// Nothing is taken before [`wait`](Acquire::wait) is called, or a future of it is polled. With the feature `tokio` it can be
/// awaited as it is; [`sleeping_by`](Acquire::sleeping_by) makes a future for any other runtime.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing waits before `wait` is called or the future is awaited"]
pub struct Acquire<Q> {
    queue: Q,
    n: u32,
    longest: Option<Duration>,
    jitter: Duration,
}

impl<Q: Queue> Acquire<Q> {
    pub(crate) fn new(queue: Q, n: u32) -> Self {
        Self { queue, n, longest: None, jitter: Duration::ZERO }
    }

    /// Sets for how long to wait at most.
    ///
    /// If the tokens come later than that, the call is refused at once and takes none.
    pub fn within(self, longest: Duration) -> Self {
        Self { longest: Some(longest), ..self }
    }

    /// Adds up to `most` to the wait once the tokens are there. The default is none.
    ///
    /// The jitter spreads callers that were given the same moment. It differs from call to call and from process to
    /// process, and does not count towards [`within`](Self::within).
    #[cfg(feature = "std")]
    pub fn jitter(self, most: Duration) -> Self {
        Self { jitter: most, ..self }
    }

    /// Blocks the thread until the tokens are there and taken.
    ///
    /// A refund or a change of the quota wakes it, and it then waits as long as the new state requires.
    ///
    /// # Errors
    ///
    /// [`Denied`], at once: the tokens exceed the burst, would be there later than [`within`](Self::within) says, or
    /// too many callers wait already for the debt to stay within [`Quota::max_debt`](crate::Quota::max_debt). The
    /// call then takes none. Under a quota that refills nothing it waits for another quota, unless `within` is set.
    #[cfg(feature = "std")]
    pub fn wait(self) -> Result<(), Denied> {
        self.reserve()?.wait();
        std::thread::sleep(self.draw_jitter());
        Ok(())
    }

    /// Returns a future that waits for the tokens and sleeps by `sleep`, on any runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), damper::Denied> {
    /// use core::time::Duration;
    /// use damper::{Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(1_000).burst(1));
    /// for _ in 0..3 {
    ///     limiter.acquire(1).within(Duration::from_secs(1)).sleeping_by(tokio::time::sleep).await?;
    /// }
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn sleeping_by<S: Sleep>(self, sleep: S) -> AcquireFuture<Q, S> {
        AcquireFuture::new(self, sleep)
    }

    pub(crate) fn reserve(&self) -> Result<Q::Place, Denied> {
        self.queue.reserve(self.n, self.longest)
    }

    /// Draws a duration from zero to the jitter, inclusive.
    pub(super) fn draw_jitter(&self) -> Duration {
        #[cfg(feature = "std")]
        if !self.jitter.is_zero() {
            // Jitter above 2^63 - 1 ns is cut off there.
            let most = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX >> 1).min(u64::MAX >> 1);
            return Duration::from_nanos(random::below(most + 1, random::draw()));
        }
        self.jitter
    }
}

/// Waits in a future that sleeps by tokio's timer.
///
/// # Panics
///
/// The future panics if it has to wait and is polled outside of a tokio runtime with an enabled timer. On other
/// runtimes use [`sleeping_by`](Acquire::sleeping_by).
#[cfg(feature = "tokio")]
impl<Q: Queue> IntoFuture for Acquire<Q> {
    type Output = Result<(), Denied>;
    type IntoFuture = AcquireFuture<Q, TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(TokioSleep)
    }
}
