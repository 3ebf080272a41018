//! A future behind a breaker.

use super::{BreakerRef, CallError, CircuitBreaker, OnStateChange, Permit, Verdict};
use crate::time::Clock;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use pin_project_lite::pin_project;

/// A verdict on what a call returned, as a function, so that the future's type can be named.
pub(crate) type OfResult<T, E> = fn(&Result<T, E>) -> Verdict;

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// Awaits a future if the breaker lets it pass, which is asked when it is first polled; `Err` is a failure, and
    /// so is unwinding out of it. Dropped before it ended, it tells no verdict: put a timeout *into* the future,
    /// and make it an error there. A future that works before it is polled, such as a spawned task, is not held
    /// back; give an `async` block. To spawn it, move an `Arc` of the breaker into an `async` block.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let breaker = damper::CircuitBreaker::default();
    /// let answer = breaker.run(async { "42".parse::<u32>() }).await;
    /// assert_eq!(answer, Ok(42));
    /// # }
    /// ```
    pub fn run<T, E, F: Future<Output = Result<T, E>>>(&self, future: F) -> Run<&Self, F, OfResult<T, E>> {
        Run::of_result(self, future)
    }

    /// As [`run`](Self::run), with a verdict of your own on what the future returned.
    pub fn run_with<T, E, F: Future<Output = Result<T, E>>, V: FnOnce(&Result<T, E>) -> Verdict>(
        &self,
        future: F,
        classify: V,
    ) -> Run<&Self, F, V> {
        Run::new(self, future, classify)
    }
}

pin_project! {
    /// A future behind a breaker. Made by [`CircuitBreaker::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropped before it ended, it tells no verdict: a probe gives its place back.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Run<B: BreakerRef, F, V> {
        breaker: B,
        #[pin]
        future: F,
        classify: Option<V>,
        permit: Option<Permit<B>>,
        // While the future is polled and judged: still so when it is dropped after either unwound.
        is_polled: bool,
    }

    impl<B: BreakerRef, F, V> PinnedDrop for Run<B, F, V> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.is_polled && let Some(permit) = this.permit.take() {
                permit.failure();
            }
        }
    }
}

impl<B: BreakerRef, F, V> Run<B, F, V> {
    pub(super) fn new(breaker: B, future: F, classify: V) -> Self {
        Self { breaker, future, classify: Some(classify), permit: None, is_polled: false }
    }
}

impl<B, F, V, T, E> Future for Run<B, F, V>
where
    B: BreakerRef + Clone,
    F: Future<Output = Result<T, E>>,
    V: FnOnce(&Result<T, E>) -> Verdict,
{
    type Output = Result<T, CallError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.permit.is_none() && this.classify.is_some() {
            let admitted = this.breaker.breaker().admit()?;
            *this.permit = Some(Permit::new(this.breaker.clone(), admitted));
        }
        *this.is_polled = true;
        let result = this.future.poll(context);
        // A verdict that unwinds is a failure too.
        let verdict = match &result {
            Poll::Ready(result) => this.classify.take().map(|classify| classify(result)),
            Poll::Pending => None,
        };
        *this.is_polled = false;
        let result = ready!(result);
        if let (Some(permit), Some(verdict)) = (this.permit.take(), verdict) {
            permit.record(verdict);
        }
        Poll::Ready(result.map_err(CallError::Failed))
    }
}

impl<B: BreakerRef, F, T, E> Run<B, F, OfResult<T, E>> {
    pub(crate) fn of_result(breaker: B, future: F) -> Self {
        Self::new(breaker, future, Verdict::of)
    }
}

impl<B: BreakerRef, F, V> fmt::Debug for Run<B, F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("is_permitted", &self.permit.is_some()).finish_non_exhaustive()
    }
}
