//! A limit that marks requests and refuses none.

use super::RateLimitLayer;
use super::settings::RateLimitSettings;
use crate::Head;
use crate::criticality::CallClass;
use crate::limit::{Detail, Limit, Limited, NoWait, Refusal};
use crate::rewrite::{Rewrite, RewriteService};
use crate::stack::{ExplainedPart, PartOutcome};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use damper_core::concurrency::Criticality;
use damper_core::gate::Forecast;
use damper_core::internal::ShadowCounts;
use damper_core::shadow::ShadowReport;
use http::{HeaderName, HeaderValue, Request};

/// Lets every request pass, and marks those that are over a limit.
///
/// [`RateLimitLayer::marking`] creates it. The limit decides as it would to refuse: it takes a token exactly when it would have let the request
/// pass. The verdict is written on the request, for whatever comes after it:
///
/// | a marked request has | for |
/// |---|---|
/// | a [`Mark`] in its extensions, which [`Marks::of`] returns | handlers, layers and predicates inside |
/// | the header that [`header`](Self::header) names | servers behind this one, and handlers in other languages |
/// | a lower class, with [`at_most`](Self::at_most) | an [`AdmissionLayer`](crate::AdmissionLayer) inside, which serves it last |
/// | its limit in the field `over_limit` of the current span, with the feature `tracing` | traces |
///
/// A request that is exempt is not marked, and neither is one on which the limit cannot decide; the latter is reported as by the other layer.
/// [`on_limited`](RateLimitLayer::on_limited) is called for each marked request. Marked requests are counted in
/// [`shadow_report`](Self::shadow_report) and logged like those that a [candidate](RateLimitLayer::shadow) would have refused, with the field
/// `in_force` = `marked`. Corrections of costs by responses do not reach the limit.
///
/// # Examples
///
/// Beyond a soft quota a client's requests are served last, beyond a hard one they are refused:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "axum", feature = "tokio"))] {
/// use axum::{Router, routing::get};
/// use damper::Quota;
/// use damper::concurrency::{Admission, Criticality, LimitBounds};
/// use damper::http::{ConcurrencyLayer, RateLimitLayer};
///
/// # async fn home() {}
/// let soft = RateLimitLayer::per_client(Quota::per_second(20)).named("soft")?.marking().at_most(Criticality::Sheddable);
/// let hard = RateLimitLayer::per_client(Quota::per_second(100)).named("hard")?;
/// let app: Router = Router::new()
///     .route("/", get(home))
///     .layer(ConcurrencyLayer::admission(Admission::new(LimitBounds::DEFAULT)))
///     .layer(soft)
///     .layer(hard); // outside
/// # let _ = app;
/// # }
/// # Ok::<(), damper::InvalidText>(())
/// ```
pub struct MarkingLayer<L> {
    settings: Arc<RateLimitSettings<L>>,
    peer: Option<SocketAddr>,
    header: Option<HeaderName>,
    lowest: Option<Criticality>,
    counts: Arc<ShadowCounts>,
}

impl<L: Limit<Future = NoWait> + Clone> RateLimitLayer<L> {
    /// Marks the requests over the limit, and refuses none.
    ///
    /// The key, the cost, the name and the exemptions stay, and the limit is the same one. See [`MarkingLayer`].
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::{Head, Marks, RateLimitLayer};
    ///
    /// let layer = RateLimitLayer::per_client(Quota::per_second(50)).marking();
    ///
    /// fn wants_captcha(head: &Head<'_>) -> bool {
    ///     !Marks::of(head).is_empty()
    /// }
    /// # let _ = (layer, wants_captcha);
    /// ```
    #[must_use]
    pub fn marking(self) -> MarkingLayer<L> {
        let Self { settings, peer } = self;
        MarkingLayer { settings, peer, header: None, lowest: None, counts: Arc::new(ShadowCounts::new()) }
    }
}

impl<L> MarkingLayer<L> {
    /// Sets the header that a marked request gets. Default: none.
    ///
    /// Its value is a list of structured fields (RFC 9651) with all marks of the request so far, each with the name of the limit and the seconds
    /// after which it would let the request pass: `"soft";t=3`. The layer removes the header from all other requests, so no client can send it.
    #[must_use]
    pub fn header(self, name: HeaderName) -> Self {
        Self { header: Some(name), ..self }
    }

    /// Lowers the [class](CallClass) of marked requests to this one. Default: the class stays.
    #[must_use]
    pub fn at_most(self, highest: Criticality) -> Self {
        Self { lowest: Some(highest), ..self }
    }

    /// Returns how many requests were marked, as those that only a candidate would have refused.
    #[must_use]
    pub fn shadow_report(&self) -> ShadowReport {
        self.counts.report()
    }

    /// Creates the same layer for requests of a connection from this address.
    #[must_use]
    pub fn for_peer(&self, address: SocketAddr) -> Self {
        Self { peer: Some(address), ..self.clone() }
    }

    /// Marks the requests of a service.
    pub fn layer<S>(&self, service: S) -> RewriteService<S, Self> {
        RewriteService::new(service, self.clone())
    }
}

impl<L: Limit<Future = NoWait>> MarkingLayer<L> {
    /// Asks the limit about a request. Returns its refusal, if it is over the limit.
    fn refusal(&self, head: &Head<'_>) -> Option<Limited> {
        let cost = self.settings.cost_of(head)?;
        let answer = self.settings.limit.decide(head, cost, Detail::None).into_result();
        match answer {
            Ok(_) => None,
            Err(Refusal::Limited(limited)) => {
                self.counts.record(&Ok::<_, ()>(()), &Err::<(), _>(()));
                self.settings.record_marked(head, &limited);
                Some(limited)
            }
            Err(failed) => {
                self.settings.record_undecided(head, &failed);
                None
            }
        }
    }
}

impl<L> MarkingLayer<L> {
    /// Writes the verdict on a request.
    fn mark<B>(&self, request: &mut Request<B>, refusal: Option<Limited>) {
        if let Some(limited) = refusal {
            let lowered = self.lowest.map(|lowest| CallClass::of(&Head::of(request)).at_most(lowest));
            let extensions = request.extensions_mut();
            if let Some(class) = lowered {
                extensions.insert(class);
            }
            let mark = Mark { item: self.settings.marked_item(&limited), name: self.settings.name().into(), limited };
            extensions.get_or_insert_default::<Marks>().0.push(mark);
        }
        if let Some(header) = &self.header {
            match list(Marks::of(&Head::of(request))) {
                Some(list) => request.headers_mut().insert(header.clone(), list),
                None => request.headers_mut().remove(header),
            };
        }
    }
}

impl<L: Limit<Future = NoWait>> Rewrite for MarkingLayer<L> {
    fn rewrite<B>(&self, request: &mut Request<B>) {
        let refusal = self.refusal(&Head::of(request).with_peer(self.peer.as_ref()));
        #[cfg(feature = "tracing")]
        if refusal.is_some() {
            tracing::Span::current().record("over_limit", self.settings.name());
        }
        self.mark(request, refusal);
    }
}

impl<L: Limit<Future = NoWait>> MarkingLayer<L> {
    /// Marks a request as it would be marked now. Takes and counts nothing.
    pub(crate) fn forecast_and_mark(&self, request: &mut Request<()>) -> ExplainedPart {
        let forecast = self.settings.forecast(&Head::of(request).with_peer(self.peer.as_ref()));
        let part = ExplainedPart::by_gate(&forecast).named(self.settings.name());
        match forecast {
            Forecast::Refuse(Refusal::Limited(limited)) => {
                self.mark(request, Some(limited));
                part.with_outcome(PartOutcome::Marks)
            }
            // A request that the limit cannot decide on passes without a mark.
            Forecast::Refuse(Refusal::MissingPeer | Refusal::Failed(_)) => {
                self.mark(request, None);
                part.with_outcome(PartOutcome::Passes)
            }
            _ => {
                self.mark(request, None);
                part
            }
        }
    }
}

impl<L, S> tower_layer::Layer<S> for MarkingLayer<L> {
    type Service = RewriteService<S, Self>;

    fn layer(&self, service: S) -> Self::Service {
        self.layer(service)
    }
}

/// The limit, and the requests that it has marked.
#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source> damper_metrics::Source for MarkingLayer<L> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.settings.limit.read(readings);
        readings.record_shadow(self.shadow_report());
    }
}

#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source> damper_metrics::NamedSource for MarkingLayer<L> {
    fn name(&self) -> &str {
        self.settings.name()
    }
}

/// Clones share the limit and the counts.
impl<L> Clone for MarkingLayer<L> {
    fn clone(&self) -> Self {
        Self {
            settings: Arc::clone(&self.settings),
            peer: self.peer,
            header: self.header.clone(),
            lowest: self.lowest,
            counts: Arc::clone(&self.counts),
        }
    }
}

impl<L: fmt::Debug> fmt::Debug for MarkingLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MarkingLayer")
            .field("settings", &self.settings)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// The marks of a request that is over limits and was let pass, in its extensions.
///
/// The outermost layer's mark is the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Vec<Mark>);

impl Marks {
    /// Returns the marks of a request: none, for most.
    #[must_use]
    pub fn of<'a>(head: &Head<'a>) -> &'a [Mark] {
        head.extensions.get::<Self>().map_or(&[], |marks| &marks.0)
    }
}

/// A limit that a request is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    name: String,
    limited: Limited,
    /// The mark as a header has it.
    item: String,
}

impl Mark {
    /// Returns the [name](RateLimitLayer::named) of the limit.
    #[must_use]
    pub fn limit(&self) -> &str {
        &self.name
    }

    /// Returns why the limit would have refused the request, and until when.
    #[must_use]
    pub const fn limited(&self) -> &Limited {
        &self.limited
    }
}

/// Returns the value of a header that lists these marks; `None` if there are none.
fn list(marks: &[Mark]) -> Option<HeaderValue> {
    let items: Vec<_> = marks.iter().map(|mark| &*mark.item).collect();
    // Names are printable ASCII, so the value is valid.
    if items.is_empty() { None } else { HeaderValue::try_from(items.join(", ")).ok() }
}
