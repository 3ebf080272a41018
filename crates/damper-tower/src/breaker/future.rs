//! The calls of a service behind breakers.

use crate::ClassifyResult;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::breaker::{BreakerRef, CallError, CircuitOpen, Permit};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of [`BreakerService`](super::BreakerService). A refusal is ready when it is first polled.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its result, it records no verdict, and a probe gives its place back. A panic of the service's
    /// future is a failure.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct BreakerFuture<F, B: BreakerRef, V> {
        #[pin]
        call: BreakerCall<F>,
        // There until the result is.
        permit: Option<Permit<B>>,
        classify: Option<V>,
        // Set while the future is polled and its result judged, and still set when it is dropped after either panicked.
        is_polled: bool,
    }

    impl<F, B: BreakerRef, V> PinnedDrop for BreakerFuture<F, B, V> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.is_polled && let Some(permit) = this.permit.take() {
                permit.failure();
            }
        }
    }
}

pin_project! {
    #[project = BreakerCallProjection]
    enum BreakerCall<F> {
        Permitted { #[pin] future: F },
        Refused { open: CircuitOpen },
    }
}

impl<F, B: BreakerRef, V> BreakerFuture<F, B, V> {
    /// The call that a permit was acquired for.
    #[inline]
    pub(super) fn permitted(future: F, permit: Option<Permit<B>>, classify: V) -> Self {
        Self { call: BreakerCall::Permitted { future }, permit, classify: Some(classify), is_polled: false }
    }

    /// A call that is not made.
    #[cold]
    pub(super) fn refused(open: CircuitOpen) -> Self {
        Self { call: BreakerCall::Refused { open }, permit: None, classify: None, is_polled: false }
    }
}

impl<F, B, V, T, E> Future for BreakerFuture<F, B, V>
where
    F: Future<Output = Result<T, E>>,
    B: BreakerRef,
    V: ClassifyResult<T, E>,
{
    type Output = Result<T, CallError<E>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let future = match this.call.project() {
            BreakerCallProjection::Permitted { future } => future,
            BreakerCallProjection::Refused { open } => return Poll::Ready(Err(CallError::Open(*open))),
        };
        *this.is_polled = true;
        let polled = future.poll(context);
        // A classifier that panics is a failure too.
        let verdict = match &polled {
            Poll::Ready(result) => this.classify.take().map(|classify| classify.verdict(result)),
            Poll::Pending => None,
        };
        *this.is_polled = false;
        let result = ready!(polled);
        if let (Some(permit), Some(verdict)) = (this.permit.take(), verdict) {
            permit.record(verdict);
        }
        Poll::Ready(result.map_err(CallError::Failed))
    }
}

impl<F, B: BreakerRef, V> fmt::Debug for BreakerFuture<F, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_permitted = matches!(self.call, BreakerCall::Permitted { .. });
        f.debug_struct("BreakerFuture").field("is_permitted", &is_permitted).finish_non_exhaustive()
    }
}
