//! The live page of `--serve`: what it shows, and what it can change.

use crate::gateway::{DECISIONS, Gateway};
use crate::options::Options;
use crate::upstream::{Mood, Upstream};
use crate::visitors::{RETRIES, Visitors};
use bytes::Bytes;
use damper::concurrency::LimitBounds;
use damper::http::{ConcurrencyLayer, PerClient, RateLimitLayer};
use damper::keyed::ClientAddress;
use damper::live::{BesideBody, Latencies, LivePage, LiveRecorder, LiveService, LiveToken};
use damper::metrics::{Readings, Source};
use damper::{AdaptiveLimit, KeyedLimiter, Quota};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

/// The environment variable that has the token, where one is not to be generated.
const TOKEN: &str = "DAMPER_TOKEN";

/// The layer of the limit per client.
type LimitLayer = RateLimitLayer<Arc<Gateway>>;

/// The page, and the layers whose values it shows.
pub(crate) struct Live {
    page: LiveService,
    latencies: Latencies,
    concurrency: ConcurrencyLayer<Arc<AdaptiveLimit>>,
    limits: LimitLayer,
}

/// Returns the token, and says where it comes from.
pub(crate) fn token() -> Result<(LiveToken, String), Box<dyn Error>> {
    if let Ok(token) = std::env::var(TOKEN) {
        let token = LiveToken::new(token).map_err(|error| format!("{TOKEN}: {error}"))?;
        return Ok((token, format!("from {TOKEN}")));
    }
    let token = LiveToken::generate()?;
    let origin = format!("{}, drawn for this run ({TOKEN} sets another)", token.reveal());
    Ok((token, origin))
}

/// The refusals of the candidate beside a layer's limit.
struct Candidate(LimitLayer);

impl Source for Candidate {
    fn read(&self, readings: &Readings<'_>) {
        if let Some(report) = self.0.shadow_report() {
            readings.record_shadow(report);
        }
    }
}

impl Live {
    pub(crate) fn new(
        options: &Options,
        gateway: &Arc<Gateway>,
        upstream: &Arc<Upstream>,
        address: SocketAddr,
        token: LiveToken,
    ) -> Result<Self, Box<dyn Error>> {
        // The counters of layers. Nothing else in this program reads metrics.
        let counts = LiveRecorder::new();
        counts.install()?;
        let latencies = Latencies::new("gateway");
        let concurrency = ConcurrencyLayer::adaptive(LimitBounds::new(8, 512)?).named("gateway");
        // It decides beside the limit. Its refusals are counted, and the requests pass.
        let half = Quota::per_second(options.rate.div_ceil(2)).burst(options.burst().div_ceil(2));
        let candidate = KeyedLimiter::<ClientAddress>::builder(half).build()?;
        let limits = gateway.limit_layer().named("clients")?.shadow(PerClient::new(Arc::new(candidate)));
        let visitors = Visitors::start(address, options.rate);
        let page = LivePage::new()
            .title("damper gateway")
            .limit("clients", Arc::clone(gateway.limits()))
            .decision_log("clients", &DECISIONS)
            .source("clients at half the quota", Candidate(limits.clone()))
            .breaker("upstream", Arc::clone(gateway.breaker()))
            .latencies(&latencies)
            .layer(concurrency.clone())
            .source("visitors", &RETRIES)
            .recorder(&counts)
            .token(token);
        let page = with_controls(page, upstream, &visitors).build()?;
        Ok(Self { page, latencies, concurrency, limits })
    }

    /// Returns the service of a connection: the page, and beside it the layers around `proxy`.
    pub(crate) fn service<S, B>(
        &self,
        peer: SocketAddr,
        proxy: S,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<
            BesideBody<impl Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + use<S, B>>,
        >,
        Error = Infallible,
        Future: Send,
    > + use<S, B>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
            + Clone
            + Send
            + 'static,
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let limited = self.concurrency.layer(self.limits.for_peer(peer).layer(proxy));
        self.page.for_peer(peer).beside(self.latencies.layer(limited))
    }
}

/// Adds the buttons, and the lines that say what they did.
fn with_controls(page: LivePage, upstream: &Arc<Upstream>, visitors: &Arc<Visitors>) -> LivePage {
    let (shown, present) = (Arc::clone(upstream), Arc::clone(visitors));
    let mut page =
        page.status("Upstream", move || shown.mood().to_string()).status("Visitors", move || present.to_string());
    for (name, label, mood) in [
        ("break", "Break the upstream", Mood::Fails),
        ("slow", "Slow the upstream", Mood::Slow),
        ("heal", "Heal the upstream", Mood::Answers),
    ] {
        let (upstream, visitors) = (Arc::clone(upstream), Arc::clone(visitors));
        page = page.control(name, label, move || {
            upstream.set_mood(mood);
            // Without calls a breaker learns nothing.
            visitors.visit();
            Ok::<(), Infallible>(())
        });
    }
    let (flood, crowd) = (Arc::clone(visitors), Arc::clone(visitors));
    page.control("flood", "Flood from one client", move || {
        flood.flood();
        Ok::<(), Infallible>(())
    })
    .control("crowd", "10,000 clients at once", move || {
        crowd.crowd();
        Ok::<(), Infallible>(())
    })
}
