//! A call that has its permit, and has no response yet.

use super::{Completion, HeldPermit};
use core::fmt;
use core::ops::ControlFlow;
use damper_core::CallError;
use damper_core::gate::{Ending, Permit, Verdict};
use damper_tower::internal::Unwinding;
use http::Response;

/// A call that has its permit, until its response is there, and the completion that judges it.
pub struct HeldCall<P, W>(pub(super) HeldPermit<P>, pub(super) W);

/// A call that goes on until its head ends it.
pub(crate) type Pending<P, W> = Option<HeldCall<P, W>>;

impl<P: Permit, W> HeldCall<P, W> {
    #[inline]
    pub(crate) const fn new(permit: HeldPermit<P>, completion: W) -> Self {
        Self(permit, completion)
    }

    pub(crate) const fn permit(&self) -> &HeldPermit<P> {
        &self.0
    }

    /// Tells the permit what the head of the response says, which may end the call.
    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    pub(crate) fn judge<R, E, N>(pending: &mut Pending<P, W>, response: &Response<R>)
    where
        W: Completion<R, E, N>,
    {
        let Some(Self(permit, completion)) = pending.as_mut() else { return };
        if !P::LEARNS {
            if !(W::FOLLOWS_BODY && P::HOLDS)
                && let Some(Self(permit, _)) = pending.take()
            {
                permit.end(&Verdict::of(Ending::Success));
            }
            return;
        }
        match completion.head(response) {
            ControlFlow::Break(verdict) => {
                if let Some(Self(permit, _)) = pending.take() {
                    permit.end(&verdict);
                }
            }
            ControlFlow::Continue(verdict) => permit.answered(&verdict),
        }
    }

    /// Returns the response that the caller gets. A permit that holds on goes into its body.
    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    pub(crate) fn respond<R, E, N>(pending: Pending<P, W>, response: Response<R>) -> Response<W::Body<P>>
    where
        W: Completion<R, E, N>,
    {
        W::respond(response, pending.map(|Self(permit, completion)| (permit, completion)))
    }

    /// Returns what the caller gets. A permit that holds on goes into the response's body.
    ///
    /// # Errors
    ///
    /// The service's own, as the completion passes it on.
    #[expect(clippy::inline_always, reason = "a response that another function looks at is copied once more")]
    #[inline(always)]
    pub(crate) fn finish<R, E, N>(
        pending: &mut Pending<P, W>,
        result: Result<Response<R>, E>,
    ) -> Result<Response<W::Body<P>>, W::Error>
    where
        W: Completion<R, E, N>,
    {
        match result {
            Ok(response) => {
                Ok(W::respond(response, pending.take().map(|Self(permit, completion)| (permit, completion))))
            }
            Err(error) => Err(Self::fail(pending, error)),
        }
    }

    /// Returns the error that the caller gets, and tells the permit of it.
    pub(crate) fn fail<R, E, N>(pending: &mut Pending<P, W>, error: E) -> W::Error
    where
        W: Completion<R, E, N>,
    {
        let Some(Self(permit, completion)) = pending.take() else { return W::not_called(CallError::Failed(error)) };
        let mut watched = Some(permit);
        let watch = Unwinding::watch(&mut watched);
        let (verdict, error) = completion.failed(error);
        watch.over();
        if let Some(permit) = watched {
            permit.end(&verdict);
        }
        error
    }

    /// Ends a call that was given up before its response.
    ///
    /// If its deadline has passed, and it was given enough time, the server took too long.
    #[inline]
    pub(crate) fn abandoned(self) {
        self.0.abandoned();
    }
}

impl<P: Permit, W> Permit for HeldCall<P, W> {
    const LEARNS: bool = P::LEARNS;
    const HOLDS: bool = P::HOLDS;

    #[inline]
    fn end(self, verdict: &Verdict) {
        self.0.end(verdict);
    }

    #[inline]
    fn panicked(self) {
        self.0.panicked();
    }
}

impl<P, W> fmt::Debug for HeldCall<P, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldCall").field("permit", &self.0).finish_non_exhaustive()
    }
}
