//! A call whose end is reported.

use super::{CallObserver, Completion, PanicGuard};
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::breaker::CircuitOpen;
use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// A call of a service, whose end is reported to an observer.
    ///
    /// It is created by [`CallGuard::observe`](super::CallGuard::observe).
    ///
    /// Use it as the future of a service for your own layer, to hold a permit until a call has ended. `N` is the layer's refusal.
    ///
    /// # Cancel safety
    ///
    /// Dropping it before the response [abandons](CallObserver::abandoned) the call. A panic in the service's future, or in the
    /// completion's `verdict` and `failed`, is reported to the observer and reaches the caller.
    ///
    /// # Examples
    ///
    /// A service that counts the calls in flight, until they have ended:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::CallError;
    /// use damper::breaker::Verdict;
    /// use damper::http::{CallGuard, CallObserver, Completion, ObservedCall};
    /// use http::{Request, Response};
    /// use std::sync::Arc;
    /// use std::task::{Context, Poll};
    /// use tower::Service;
    ///
    /// /// A clone for every call in flight.
    /// #[derive(Clone)]
    /// struct InFlight(Arc<()>);
    ///
    /// impl CallObserver for InFlight {
    ///     fn ended(self, _: Verdict) {}
    /// }
    ///
    /// struct Counted<S, W> {
    ///     service: S,
    ///     completion: W, // AtHead, AtBodyEnd, AtTrailers
    ///     in_flight: InFlight,
    /// }
    ///
    /// impl<S, W, Q, R> Service<Request<Q>> for Counted<S, W>
    /// where
    ///     S: Service<Request<Q>, Response = Response<R>>,
    ///     W: Completion<R, S::Error> + Clone,
    /// {
    ///     type Response = Response<W::Body<InFlight>>;
    ///     type Error = W::Error;
    ///     type Future = ObservedCall<S::Future, InFlight, W>;
    ///
    ///     fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), W::Error>> {
    ///         self.service.poll_ready(context).map_err(|error| self.completion.not_called(CallError::Failed(error)))
    ///     }
    ///
    ///     fn call(&mut self, request: Request<Q>) -> Self::Future {
    ///         CallGuard::new(self.in_flight.clone(), self.completion.clone()).observe(self.service.call(request))
    ///     }
    /// }
    /// ```
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ObservedCall<F, O: CallObserver, W, N = CircuitOpen> {
        #[pin]
        pub(crate) future: F,
        // `Some` until the response arrives.
        pub(crate) pending: Option<(O, W)>,
        pub(crate) refusal: PhantomData<fn() -> N>,
    }

    impl<F, O: CallObserver, W, N> PinnedDrop for ObservedCall<F, O, W, N> {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            if let Some((observer, _)) = this.project().pending.take() {
                observer.abandoned();
            }
        }
    }
}

impl<F, O, W, N, R, E> Future for ObservedCall<F, O, W, N>
where
    F: Future<Output = Result<Response<R>, E>>,
    O: CallObserver,
    W: Completion<R, E, N>,
{
    type Output = Result<Response<W::Body<O>>, W::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // It was polled again after it was ready.
        if this.pending.is_none() {
            return Poll::Pending;
        }
        let guard = PanicGuard::new(this.pending);
        let polled = this.future.poll(context);
        // Judge the response in place and end the call before the response is moved, because it is large to move.
        let verdict = match (&polled, guard.pending()) {
            (Poll::Ready(Ok(response)), Some((_, completion))) => completion.verdict(response),
            _ => None,
        };
        if let Some(verdict) = verdict {
            guard.over();
            let Some((observer, completion)) = this.pending.take() else { return Poll::Pending };
            observer.ended(verdict);
            let Poll::Ready(Ok(response)) = polled else { return Poll::Pending };
            return Poll::Ready(Ok(completion.respond(response, None)));
        }
        match polled {
            Poll::Ready(Ok(response)) => {
                guard.over();
                let Some((observer, completion)) = this.pending.take() else { return Poll::Pending };
                Poll::Ready(Ok(completion.respond(response, Some(observer))))
            }
            Poll::Ready(Err(error)) => {
                let Some((_, completion)) = guard.pending() else { return Poll::Pending };
                let (verdict, error) = completion.failed(error);
                guard.over();
                if let Some((observer, _)) = this.pending.take() {
                    observer.ended(verdict);
                }
                Poll::Ready(Err(error))
            }
            Poll::Pending => {
                guard.over();
                Poll::Pending
            }
        }
    }
}

impl<F, O: CallObserver, W, N> fmt::Debug for ObservedCall<F, O, W, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedCall").field("has_ended", &self.pending.is_none()).finish_non_exhaustive()
    }
}
