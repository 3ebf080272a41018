//! The limit and the settings of a layer's services, and what follows from a decision.

use super::costs::{ONE_TOKEN, RequestCost, Settling};
use super::refusal_body::{RefusalBody, plain_text};
use super::shadow::{CandidateAnswer, ShadowLimit};
use super::{Headers, Refused, grpc};
use crate::Head;
use crate::limit::{Correction, Detail, Limit, Limited, Refusal, Settle, Standing};
use crate::telemetry::{Event, Kind, Telemetry};
use crate::wire::{self, RateLimitHeaders};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::time::Duration;
use damper_core::gate::Forecast;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};

type RequestPredicate = Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>;

type RequestCallback<T> = Arc<dyn Fn(&Head<'_>, &T) + Send + Sync>;

/// The origin of a layer's limiter.
#[derive(Clone, Copy)]
pub(super) enum LimiterOrigin {
    /// The layer, which may build it anew.
    Layer,
    /// The caller, which may share it with other code.
    Caller,
}

/// Returns the telemetry of a limit and of a candidate beside it, by the name in these headers.
fn telemetry_of(headers: &RateLimitHeaders) -> [Telemetry; 2] {
    [Kind::Limit, Kind::Candidate].map(|kind| Telemetry::new(kind, headers.name()))
}

/// The limit and the settings of a layer.
#[derive(Clone)]
pub struct RateLimitSettings<L> {
    pub(super) limit: L,
    pub(super) origin: LimiterOrigin,
    pub(super) exempt: Option<RequestPredicate>,
    pub(super) cost: Option<RequestCost>,
    pub(super) settling: Option<Settling<L>>,
    /// A candidate that decides beside the limit.
    pub(super) shadow: Option<Arc<ShadowLimit>>,
    /// Whether the limit decides on every request, and about one token.
    ///
    /// No request is exempt, has a cost of its own, or reserves its cost.
    pub(super) is_plain: bool,
    /// The detail of an answer that headers or corrections need.
    pub(super) detail: Detail,
    pub(super) headers: Headers,
    rate_limit_headers: RateLimitHeaders,
    pub(super) body: RefusalBody<Limited>,
    pub(super) on_limited: Option<RequestCallback<Limited>>,
    pub(super) on_error: Option<RequestCallback<Refusal>>,
    telemetry: Telemetry,
    /// The telemetry of the candidate.
    shadow_telemetry: Telemetry,
}

impl<L> RateLimitSettings<L> {
    pub(super) fn new(limit: L, origin: LimiterOrigin) -> Self {
        let rate_limit_headers = RateLimitHeaders::default();
        let [telemetry, shadow_telemetry] = telemetry_of(&rate_limit_headers);
        Self {
            limit,
            origin,
            exempt: None,
            cost: None,
            settling: None,
            is_plain: true,
            detail: Headers::default().detail(),
            headers: Headers::default(),
            rate_limit_headers,
            body: RefusalBody::Text,
            on_limited: None,
            on_error: None,
            shadow: None,
            telemetry,
            shadow_telemetry,
        }
    }

    /// Sets the name of the limit, which these headers carry.
    pub(super) fn rename(&mut self, headers: RateLimitHeaders) {
        [self.telemetry, self.shadow_telemetry] = telemetry_of(&headers);
        self.rate_limit_headers = headers;
    }

    /// Returns the item of a list that names the limit and says how long a request would have to wait.
    pub(super) fn marked_item(&self, limited: &Limited) -> String {
        self.rate_limit_headers.item_with_wait(limited.retry_after())
    }

    /// Returns the name of the limit.
    pub(crate) fn name(&self) -> &str {
        self.rate_limit_headers.name()
    }

    /// Returns the cost of a request, in tokens; `None` if it is exempt.
    pub(super) fn cost_of(&self, head: &Head<'_>) -> Option<u32> {
        let is_exempt = self.exempt.as_ref().is_some_and(|is_exempt| is_exempt(head));
        (!is_exempt).then(|| self.cost.as_ref().map_or(ONE_TOKEN, |cost| cost(head)))
    }

    /// Updates the settings that follow from others.
    pub(super) fn update(&mut self) {
        let reserves =
            self.settling.as_ref().is_some_and(|settling| matches!(settling.correction(), Correction::Reserve(_)));
        self.is_plain = self.exempt.is_none() && self.cost.is_none() && !reserves;
        let detail = self.headers.detail();
        self.detail = if self.settling.is_some() { Detail::Standing } else { detail };
    }

    /// Writes the headers that report this standing.
    pub(super) fn write_headers(&self, headers: &mut HeaderMap, standing: Standing) {
        self.write_headers_with_wait(headers, standing, standing.resets_in);
    }

    /// Writes the headers that report this standing. `RateLimit` names this `wait`.
    fn write_headers_with_wait(&self, headers: &mut HeaderMap, standing: Standing, wait: Option<Duration>) {
        let Standing { quota, remaining, resets_in, .. } = standing;
        self.rate_limit_headers.write(headers, quota, remaining, wait);
        if self.headers.include_x() {
            wire::x_rate_limit(headers, quota, remaining, resets_in);
        }
    }
}

impl<L: Clone> RateLimitSettings<L> {
    /// Returns the same settings with another limit.
    pub(super) fn map<M: Limit + for<'a> Settle<Head<'a>> + Send + Sync + 'static>(
        &self,
        map: impl FnOnce(L) -> M,
    ) -> RateLimitSettings<M> {
        let settings = self.clone();
        RateLimitSettings {
            limit: map(settings.limit),
            origin: settings.origin,
            exempt: settings.exempt,
            cost: settings.cost,
            settling: settings.settling.map(Settling::of_limit),
            is_plain: settings.is_plain,
            detail: settings.detail,
            headers: settings.headers,
            rate_limit_headers: settings.rate_limit_headers,
            body: settings.body,
            on_limited: settings.on_limited,
            on_error: settings.on_error,
            shadow: settings.shadow,
            telemetry: settings.telemetry,
            shadow_telemetry: settings.shadow_telemetry,
        }
    }
}

impl<L: Limit> RateLimitSettings<L> {
    /// Asks the candidate, if there is one, about a request of this cost.
    #[inline]
    pub(super) fn ask_candidate(&self, head: &Head<'_>, cost: u32) -> CandidateAnswer {
        if self.shadow.is_some() { self.ask_present_candidate(head, cost) } else { None }
    }

    /// Apart, so that layers without a candidate do not grow.
    #[cold]
    fn ask_present_candidate(&self, head: &Head<'_>, cost: u32) -> CandidateAnswer {
        self.shadow.as_ref()?.ask(head, cost)
    }

    /// Returns what the limit would answer to a request now, and takes nothing. An exempt request passes.
    pub(crate) fn forecast(&self, head: &Head<'_>) -> Forecast<Refusal> {
        self.cost_of(head).map_or(Forecast::Pass(None), |cost| self.limit.forecast(head, cost))
    }

    /// Records a request that may pass, beside which the candidate gave this answer.
    #[inline]
    pub(super) fn record_allowed<'a>(&self, head: impl FnOnce() -> Head<'a>, candidate: &CandidateAnswer) {
        self.telemetry.count(Event::Allowed);
        if candidate.is_some() {
            self.compare(&head(), Ok(()), candidate);
        }
    }

    /// Records a request that may not pass, and calls the callback for it.
    #[cold]
    pub(super) fn record_refused(&self, head: &Head<'_>, refusal: &Refusal, candidate: &CandidateAnswer) {
        self.record_refusal(head, refusal);
        self.compare(head, Err(refusal), candidate);
    }

    #[cold]
    fn compare(&self, head: &Head<'_>, in_force: Result<(), &Refusal>, candidate: &CandidateAnswer) {
        if let Some(shadow) = &self.shadow {
            shadow.compare(&self.shadow_telemetry, head, in_force, candidate);
        }
    }

    #[cold]
    fn record_refusal(&self, head: &Head<'_>, refusal: &Refusal) {
        match refusal {
            Refusal::Limited(limited) => {
                self.telemetry.record_limited(&self.limit, head, limited);
                self.call_on_limited(head, limited);
            }
            Refusal::MissingPeer | Refusal::Failed(_) => self.record_undecided(head, refusal),
        }
    }

    /// Records a request over the limit that was let pass, and calls the callback for it.
    #[cold]
    pub(super) fn record_marked(&self, head: &Head<'_>, limited: &Limited) {
        self.shadow_telemetry.record_candidate(&self.limit, head, limited, "marked");
        self.call_on_limited(head, limited);
    }

    fn call_on_limited(&self, head: &Head<'_>, limited: &Limited) {
        if let Some(on_limited) = &self.on_limited {
            on_limited(head, limited);
        }
    }

    /// Records a request on which the limit cannot decide, and calls the callback for it.
    #[cold]
    pub(super) fn record_undecided(&self, head: &Head<'_>, failed: &Refusal) {
        self.telemetry.record_undecided(failed);
        if let Some(on_error) = &self.on_error {
            on_error(head, failed);
        }
    }

    #[cold]
    pub(super) fn response(&self, head: &Head<'_>, refusal: &Refusal) -> Box<Response<Bytes>> {
        let mut response = Refused::mark(self.response_in_protocol(head, refusal));
        if let Refusal::Limited(limited) = refusal {
            // `RateLimit` and a `Retry-After` beside it name the same time.
            self.write_headers_with_wait(response.headers_mut(), limited.standing(), limited.retry_after());
        }
        Box::new(response)
    }

    /// Returns the response in the request's protocol, without rate limit headers.
    fn response_in_protocol(&self, head: &Head<'_>, refusal: &Refusal) -> Response<Bytes> {
        if let Some(content_type) = grpc::grpc_type(head) {
            return grpc::response(content_type, refusal);
        }
        match refusal {
            Refusal::Limited(limited) => {
                let mut response = self.body.response(head, StatusCode::TOO_MANY_REQUESTS, limited);
                if let Some(wait) = limited.retry_after() {
                    response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait));
                }
                response
            }
            // The body leaves out the error's source, which is for callbacks and logs and not for clients.
            Refusal::MissingPeer | Refusal::Failed(_) => {
                plain_text(StatusCode::INTERNAL_SERVER_ERROR, refusal).map(Bytes::from)
            }
        }
    }
}

impl<L: fmt::Debug> fmt::Debug for RateLimitSettings<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitSettings")
            .field("name", &self.rate_limit_headers.name())
            .field("limit", &self.limit)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
