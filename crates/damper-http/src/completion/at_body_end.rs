//! A call ends with the body of its response.

use super::{AtHead, BodyEnd, ClassifyResponse, Completion, HeldPermit, ObservedBody, ResponseHead, Statuses};
use core::fmt;
use core::ops::ControlFlow;
use damper_core::gate::{Ending, Permit, Verdict};
use damper_core::{CallError, Reads, breaker};
use http::Response;
use http_body::Body;

/// Ends a call with the body of its response, unless the head already shows a failure or a limit.
///
/// The verdict of the head holds if the body is whole. A body that fails after a 200 is a failure. A body that is dropped before its end has
/// no verdict.
///
/// Whatever its error is, a body that fails counts. That includes a response that fails because the body of its request did. A proxy
/// whose client breaks an upload off usually drops the response first, and the call then has no verdict.
///
/// Like [`AtHead`], it is not for gRPC: use `damper::tonic::AtTrailers`.
#[derive(Clone, Copy, Default)]
pub struct AtBodyEnd<V = Statuses> {
    head: AtHead<V>,
    /// The verdict of the head, once it is known.
    told: Option<Verdict>,
}

impl AtBodyEnd {
    /// Creates a completion that judges heads by [`Statuses`].
    #[must_use]
    pub const fn new() -> Self {
        Self { head: AtHead::new(), told: None }
    }
}

impl<V> AtBodyEnd<V> {
    /// Sets how a call ended, by its response, or by the error in its place. Default: [`Statuses`].
    ///
    /// The closure names the service's error. The body decides only after a success.
    #[must_use]
    pub fn classify<E, T, F>(self, classify: F) -> AtBodyEnd<F>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> T,
        T: Into<Verdict>,
    {
        AtBodyEnd { head: AtHead { classify }, told: None }
    }
}

/// Keeps the verdicts on heads, and moves the end of the call to the end of the body.
impl<V> From<AtHead<V>> for AtBodyEnd<V> {
    fn from(head: AtHead<V>) -> Self {
        Self { head, told: None }
    }
}

impl<R: Body, E, V: ClassifyResponse<E, Verdict>, N> Completion<R, E, N> for AtBodyEnd<V> {
    const FOLLOWS_BODY: bool = true;
    type Body<P: Permit> = ObservedBody<R, P>;
    type Error = CallError<E, N>;

    fn head(&mut self, response: &Response<R>) -> ControlFlow<Verdict, Verdict> {
        match Completion::<R, E, N>::head(&mut self.head, response) {
            // A body cannot turn a failure into a success, nor a refusal by the server's limit into its work.
            ControlFlow::Break(verdict)
                if verdict.ending != Ending::Limited
                    && breaker::Verdict::from(&verdict) == breaker::Verdict::Success =>
            {
                self.told = Some(verdict);
                ControlFlow::Continue(verdict)
            }
            over => over,
        }
    }

    fn failed(&self, error: E) -> (Verdict, CallError<E, N>) {
        Completion::<R, E, N>::failed(&self.head, error)
    }

    fn respond<P: Permit>(
        response: Response<R>,
        pending: Option<(HeldPermit<P>, Self)>,
    ) -> Response<ObservedBody<R, P>> {
        response.map(|body| {
            let pending = pending.map(|(permit, Self { told, .. })| {
                (permit, BodyErrors { head: told.unwrap_or(Verdict::of(Ending::Success)) })
            });
            ObservedBody::new(body, pending)
        })
    }

    fn not_called(error: CallError<E, N>) -> CallError<E, N> {
        error
    }
}

impl<V> fmt::Debug for AtBodyEnd<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtBodyEnd").finish_non_exhaustive()
    }
}

/// Takes a body that ends with an error as [broken](Ending::Broken). Otherwise the head decides.
#[derive(Clone, Copy, Debug)]
pub struct BodyErrors {
    head: Verdict,
}

impl Reads<BodyEnd<'_>, Verdict> for BodyErrors {
    fn read_from(&self, end: &BodyEnd<'_>) -> Verdict {
        if matches!(end, BodyEnd::Error) { Verdict::of(Ending::Broken) } else { self.head }
    }
}
