//! A future behind a breaker.

use super::{BreakerRef, CallError, Permit, Verdict};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use pin_project_lite::pin_project;

/// A verdict on what a call returned, as a function pointer, so that the future's type can be named.
pub(crate) type ClassifyFn<T, E> = fn(&Result<T, E>) -> Verdict;

pin_project! {
    /// A future behind a breaker, made by [`CircuitBreaker::run`](super::CircuitBreaker::run).
    ///
    /// # Cancel safety
    ///
    /// If it is dropped before it ended, it records no verdict, and a probe's place becomes free.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Run<B: BreakerRef, F, V> {
        breaker: B,
        #[pin]
        future: F,
        classify: Option<V>,
        permit: Option<Permit<B>>,
        // Set while the future is polled and classified, and still set when it is dropped after either panicked.
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
            *this.permit = Some(Permit::admitted_by(this.breaker.clone())?);
        }
        *this.is_polled = true;
        let result = this.future.poll(context);
        // A panic of the classifier is a failure too.
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

impl<B: BreakerRef, F, T, E> Run<B, F, ClassifyFn<T, E>> {
    pub(crate) fn of_result(breaker: B, future: F) -> Self {
        Self::new(breaker, future, Verdict::of)
    }
}

impl<B: BreakerRef, F, V> fmt::Debug for Run<B, F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("is_permitted", &self.permit.is_some()).finish_non_exhaustive()
    }
}
