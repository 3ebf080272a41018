//! The limit of a layer before a server.

use super::costs::{Taken, Unsettled};
use super::gate::{ComparedRefusal, Decided, Passage};
use super::settings::RateLimitSettings;
use super::{Body, RateLimitLayer};
use crate::Head;
use crate::deadline::SentTimeout;
use crate::limit::{Limit, Standing};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use damper_core::gate::{AnswerOf, Ask, Gate, Permit};
use damper_tower::internal::{Side, Stand};
use http::{Request, Response};

/// The consequence of a decision for the response, if there is one.
///
/// In a box, because its size is copied with the future of every call, and by default no response of the service gets headers.
pub struct AfterResponse<L>(Option<Box<Report<L>>>);

enum Report<L> {
    /// Headers are written on the response.
    Headers(Standing, Arc<RateLimitSettings<L>>),
    /// The cost is corrected by the response.
    Settle(Box<Unsettled<L>>),
}

impl<L> Permit for AfterResponse<L> {
    const LEARNS: bool = false;
    const HOLDS: bool = false;
}

impl<L: Limit> Stand for RateLimitLayer<L> {
    type Gate = RateLimitSettings<L>;

    #[inline]
    fn gate(&self) -> &RateLimitSettings<L> {
        &self.settings
    }
}

impl<L: Limit, B, R, E> Side<Request<B>, Response<R>, E> for RateLimitLayer<L> {
    type Held = AfterResponse<L>;
    type Refused = Box<Response<Bytes>>;
    type Response = Response<Body<R>>;
    type Error = E;

    #[inline]
    fn ask(&self, request: &Request<B>) -> AnswerOf<RateLimitSettings<L>> {
        self.settings.ask(&self.head(request))
    }

    /// Tells the server how much time is left, if the layer is before a client.
    fn waited(&self, _: &<RateLimitSettings<L> as Gate>::Wait, request: &mut Request<B>) {
        SentTimeout::update(request);
    }

    #[inline]
    fn hold(&self, permit: Option<Decided>, request: &Request<B>) -> AfterResponse<L> {
        let Some(Decided { decision, cost, candidate }) = permit else { return AfterResponse(None) };
        // Most requests need no head any more.
        let head = || self.head(request);
        self.settings.record_allowed(head, &candidate);
        let report = match decision {
            Passage::Taken(None) => return AfterResponse(None),
            Passage::Taken(Some(standing)) if self.settings.settling.is_none() => {
                Report::Headers(standing, Arc::clone(&self.settings))
            }
            Passage::Taken(Some(standing)) => {
                Report::Settle(Unsettled::new(&head(), Taken::Tokens(cost), Some(standing), &self.settings))
            }
            Passage::Reserved(reservation) => {
                let standing = reservation.standing();
                Report::Settle(Unsettled::new(&head(), Taken::Reserved(reservation), standing, &self.settings))
            }
        };
        AfterResponse(Some(Box::new(report)))
    }

    #[cold]
    fn refuse(&self, refusal: ComparedRefusal, request: &Request<B>) -> Box<Response<Bytes>> {
        let head = self.head(request);
        self.settings.record_refused(&head, refusal.refusal(), refusal.candidate());
        self.settings.response(&head, refusal.refusal())
    }

    fn refused(refused: Box<Response<Bytes>>) -> Result<Response<Body<R>>, E> {
        Ok(refused.map(Body::refusal))
    }

    #[inline]
    fn judge(_: &mut Option<AfterResponse<L>>, _: &Result<Response<R>, E>) {}

    #[inline]
    fn respond(after: &mut Option<AfterResponse<L>>, result: Result<Response<R>, E>) -> Result<Response<Body<R>>, E> {
        match after.take() {
            // Apart, so that the response is not moved on its way to the caller.
            None | Some(AfterResponse(None)) => result.map(|response| response.map(Body::service)),
            Some(AfterResponse(Some(report))) => result.map(|response| report.on(response)),
        }
    }

    fn failed(error: E) -> E {
        error
    }
}

impl<L> RateLimitLayer<L> {
    #[inline]
    pub(super) fn head<'a, B>(&'a self, request: &'a Request<B>) -> Head<'a> {
        Head::of(request).with_peer(self.peer.as_ref())
    }
}

impl<L> Report<L> {
    /// Writes headers, or corrects the cost.
    fn on<R>(self, mut response: Response<R>) -> Response<Body<R>> {
        match self {
            Self::Headers(standing, settings) => {
                settings.write_headers(response.headers_mut(), standing);
                response.map(Body::service)
            }
            Self::Settle(unsettled) => {
                let (mut parts, body) = response.into_parts();
                let body = match unsettled.settle_by(&mut parts) {
                    Some(counter) => Body::counted(body, counter),
                    None => Body::service(body),
                };
                Response::from_parts(parts, body)
            }
        }
    }
}

impl<L> fmt::Debug for AfterResponse<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AfterResponse").field("is_reported", &self.0.is_some()).finish_non_exhaustive()
    }
}
