//! A call that a client's layer let pass or refused.

use super::{CallGuard, CallObserver, Completion, ObservedCall};
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::CallError;
use http::Response;
use pin_project_lite::pin_project;

pin_project! {
    /// A call whose end is reported, or a refused call that is not made.
    #[project = RefusableCallProjection]
    pub(crate) enum RefusableCall<F, O: CallObserver, W, N> {
        Permitted { #[pin] call: ObservedCall<F, O, W, N> },
        Refused { refusal: N, completion: W },
    }
}

impl<F, O: CallObserver, W, N> RefusableCall<F, O, W, N> {
    /// Creates a call that has a permit, from the service's future.
    #[inline]
    pub(crate) fn permitted(future: F, guard: CallGuard<O, W>) -> Self {
        // Does not use `observe`, because each function that a future passes through copies it.
        Self::Permitted { call: ObservedCall { future, pending: guard.finish(), refusal: PhantomData } }
    }

    pub(crate) fn refused(refusal: N, completion: W) -> Self {
        Self::Refused { refusal, completion }
    }

    pub(crate) fn is_permitted(&self) -> bool {
        matches!(self, Self::Permitted { .. })
    }
}

impl<F, O, W, N, R, E> Future for RefusableCall<F, O, W, N>
where
    F: Future<Output = Result<Response<R>, E>>,
    O: CallObserver,
    W: Completion<R, E, N>,
    N: Copy,
{
    type Output = Result<Response<W::Body<O>>, W::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            RefusableCallProjection::Permitted { call } => call.poll(context),
            RefusableCallProjection::Refused { refusal, completion } => {
                Poll::Ready(Err(completion.not_called(CallError::Refused(*refusal))))
            }
        }
    }
}
