//! What all services of a layer share: whether a request is asked about, and what then happens.

use super::answer::{self, Body};
use crate::Head;
use crate::limit::{Answer, Decision, Limit, LimitError, Limited, Refusal, Standing};
use crate::telemetry::LimitTelemetry;
use crate::wire::{self, RateLimitHeaders};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use http::{HeaderMap, Response};

type Predicate = Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>;

type Hook<T> = Arc<dyn Fn(&Head<'_>, &T) + Send + Sync>;

/// A limit, and what is told of its decisions.
#[derive(Clone)]
pub(super) struct Policy<L> {
    pub(super) limit: L,
    pub(super) exempt: Option<Predicate>,
    pub(super) tells_allowed: bool,
    pub(super) tells_x: bool,
    headers: RateLimitHeaders,
    pub(super) body: Body,
    pub(super) on_limited: Option<Hook<Limited>>,
    pub(super) on_error: Option<Hook<LimitError>>,
    telemetry: LimitTelemetry,
}

/// What is to be done with a request.
pub(super) enum Admission<F> {
    /// It may pass.
    Pass,
    /// It may pass, and the answer tells how the limit stands.
    PassAndTell(Standing),
    /// It is answered.
    Refuse(Box<Response<Bytes>>),
    /// It waits for the decision.
    Wait(F),
}

impl<L> Policy<L> {
    pub(super) fn new(limit: L) -> Self {
        Self {
            limit,
            exempt: None,
            tells_allowed: false,
            tells_x: false,
            headers: RateLimitHeaders::default(),
            body: Body::Text,
            on_limited: None,
            on_error: None,
            telemetry: LimitTelemetry::default(),
        }
    }

    pub(super) fn rename(&mut self, headers: RateLimitHeaders) {
        self.headers = headers;
        self.telemetry = LimitTelemetry::default();
    }

    /// Writes how the limit stands.
    pub(super) fn tell(&self, headers: &mut HeaderMap, standing: Standing) {
        let Standing { quota, remaining, resets_in } = standing;
        self.headers.write(headers, quota, remaining, resets_in);
        if self.tells_x {
            wire::x_rate_limit(headers, quota, remaining, resets_in);
        }
    }
}

#[cfg(feature = "tokio")]
impl<L: Clone> Policy<L> {
    /// The same policy of another limit.
    pub(super) fn map<M>(&self, map: impl FnOnce(L) -> M) -> Policy<M> {
        let Self { limit, exempt, tells_allowed, tells_x, headers, body, on_limited, on_error, telemetry } =
            self.clone();
        Policy { limit: map(limit), exempt, tells_allowed, tells_x, headers, body, on_limited, on_error, telemetry }
    }
}

impl<L: Limit> Policy<L> {
    /// Decides on a request.
    #[inline]
    pub(super) fn admit(&self, head: &Head<'_>) -> Admission<L::Later> {
        if self.exempt.as_ref().is_some_and(|is_exempt| is_exempt(head)) {
            return Admission::Pass;
        }
        match self.limit.decide(head, self.tells_allowed) {
            // By itself, so that what is not there is not moved about.
            Decision::Now(Ok(None)) => {
                self.note_allowed();
                Admission::Pass
            }
            Decision::Now(answer) => match self.conclude(head, answer) {
                Ok(Some(standing)) => Admission::PassAndTell(standing),
                Ok(None) => Admission::Pass,
                Err(response) => Admission::Refuse(response),
            },
            Decision::Later(later) => Admission::Wait(later),
        }
    }

    /// Records what the limits per key hold and have counted.
    #[cfg(feature = "metrics")]
    pub(super) fn record_keyed(&self) {
        LimitTelemetry::keyed(self.headers.name(), self.limit.keyed());
    }

    /// What follows from a decision.
    #[inline]
    pub(super) fn conclude(&self, head: &Head<'_>, answer: Answer) -> Result<Option<Standing>, Box<Response<Bytes>>> {
        self.note(head, &answer);
        answer.map_err(|refusal| self.refuse(head, &refusal))
    }

    /// Decides on a request that is answered by somebody else: why it may not pass.
    #[cfg(feature = "tonic")]
    pub(super) fn refusal(&self, head: &Head<'_>) -> Option<Refusal>
    where
        L: Limit<Later = core::future::Ready<Answer>>,
    {
        if self.exempt.as_ref().is_some_and(|is_exempt| is_exempt(head)) {
            return None;
        }
        let answer = match self.limit.decide(head, false) {
            Decision::Now(answer) => answer,
            Decision::Later(ready) => ready.into_inner(),
        };
        self.note(head, &answer);
        answer.err()
    }

    /// Tells who wants to know of it.
    #[inline]
    fn note(&self, head: &Head<'_>, answer: &Answer) {
        match answer {
            Ok(_) => self.note_allowed(),
            Err(refusal) => self.note_refusal(head, refusal),
        }
    }

    #[inline]
    fn note_allowed(&self) {
        self.telemetry.allowed(self.headers.name());
    }

    #[cold]
    fn note_refusal(&self, head: &Head<'_>, refusal: &Refusal) {
        match refusal {
            Refusal::Limited(limited) => {
                self.telemetry.refused(self.headers.name(), &self.limit, head, limited);
                if let Some(on_limited) = &self.on_limited {
                    on_limited(head, limited);
                }
            }
            Refusal::Failed(error) => {
                self.telemetry.failed(self.headers.name(), error);
                if let Some(on_error) = &self.on_error {
                    on_error(head, error);
                }
            }
        }
    }

    #[cold]
    fn refuse(&self, head: &Head<'_>, refusal: &Refusal) -> Box<Response<Bytes>> {
        let mut response = answer::answer(&self.body, head, refusal);
        if let Refusal::Limited(limited) = refusal {
            // With a `Retry-After` beside them, both name the same moment.
            let standing = Standing { resets_in: limited.retry_after, ..limited.standing };
            self.tell(response.headers_mut(), standing);
        }
        Box::new(response)
    }
}

impl<L: fmt::Debug> fmt::Debug for Policy<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.headers.name())
            .field("limit", &self.limit)
            .field("tells_allowed", &self.tells_allowed)
            .field("tells_x", &self.tells_x)
            .finish_non_exhaustive()
    }
}
