//! Which limit, and how its decisions are reported.

use super::costs::Settling;
use super::refusal_body::RefusalBody;
use super::settings::{LimiterOrigin, RateLimitSettings};
use super::shadow::ShadowLimit;
use super::{Headers, RateLimit};
use crate::Head;
use crate::limit::{CorrectedLimit, Limit, Limited, LoggableLimit, Refusal, ShadowCandidate};
use crate::wire::RateLimitHeaders;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::net::SocketAddr;
use damper_core::InvalidText;
use damper_core::gate::WaitsWith;
use damper_core::limit::RateLimiter;
use damper_core::quota::Quota;
use damper_core::shadow::ShadowReport;
use http::response;

/// Puts services behind a limit: a request over the limit gets `429 Too Many Requests` at once.
///
/// The refusal carries `Retry-After` (whole seconds, rounded up, at least 1; absent if no wait helps), `RateLimit` and
/// `RateLimit-Policy` (see [`headers`](Self::headers)), and a line of text or the [body](Self::body) that you choose.
/// The request's body is not read, and the service is not called. A gRPC request is answered with the
/// status `RESOURCE_EXHAUSTED`, also by a server that is not tonic's.
///
/// Around a router it limits all routes, around a handler that one, and [per client](Self::per_client) each address.
///
/// Clones of a layer and all its services share the limit. A setter changes this layer only: clones and services that
/// were made before keep their settings, and the limit stays the same one. The limit decides in `call`, never in
/// `poll_ready`: a caller may poll for readiness and go away, and its token would be lost.
///
/// # Examples
///
/// With axum:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(feature = "axum")] {
/// use axum::{Router, routing::get};
/// use damper::Quota;
/// use damper::http::RateLimitLayer;
///
/// # async fn home() {}
/// # async fn search() {}
/// let clients = RateLimitLayer::per_client(Quota::per_second(50).burst(100));
/// let app: Router = Router::new()
///     .route("/search", get(search).layer(RateLimitLayer::global(Quota::per_second(5))))
///     .route("/", get(home))
///     .layer(clients.exempt(|head| head.uri.path() == "/healthz"));
/// // Adds the address of the peer to requests: `axum::serve(listener, service)`.
/// let service = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
/// # }
/// ```
///
/// With hyper, for each connection:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(feature = "hyper")] {
/// use damper::http::RateLimitLayer;
/// use hyper::service::{HttpService, service_fn};
/// # use hyper::{Request, Response, body::Incoming};
/// # type Answer = Response<http_body_util::Empty<bytes::Bytes>>;
/// # async fn hello(_: Request<Incoming>) -> Result<Answer, std::convert::Infallible> {
/// #     Ok(Response::default())
/// # }
/// use std::net::SocketAddr;
///
/// let limits = RateLimitLayer::per_client(damper::Quota::per_second(50).burst(100));
/// let service = move |peer: SocketAddr| limits.for_peer(peer).layer(service_fn(hello));
/// # fn check<S: HttpService<Incoming>>(_: impl Fn(SocketAddr) -> S) {}
/// # check(service);
/// # }
/// ```
pub struct RateLimitLayer<L> {
    pub(crate) settings: Arc<RateLimitSettings<L>>,
    pub(crate) peer: Option<SocketAddr>,
}

impl RateLimitLayer<Arc<RateLimiter>> {
    /// Creates a layer with one limit for all requests.
    #[must_use]
    pub fn global(quota: Quota) -> Self {
        Self::new(Arc::new(RateLimiter::new(quota)))
    }
}

impl<L: Limit> RateLimitLayer<L> {
    /// Creates a layer from an existing limit.
    ///
    /// Keep the limit to inspect its level and to change its quota. It may have another algorithm or another clock, or
    /// be a [`Limit`] of your own.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::{PerClient, RateLimitLayer};
    /// use damper::{KeyedLimiter, Quota, RateLimiter};
    /// use std::sync::Arc;
    ///
    /// static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
    /// let logins = RateLimitLayer::new(&LOGINS);
    ///
    /// let limits = Arc::new(KeyedLimiter::builder(Quota::per_second(50)).capacity(100_000).build()?);
    /// let clients = RateLimitLayer::new(PerClient::new(Arc::clone(&limits)));
    /// limits.set_quota(Quota::per_second(20))?;
    /// # let _ = (logins, clients);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(limit: L) -> Self {
        Self { settings: Arc::new(RateLimitSettings::new(limit, LimiterOrigin::Caller)), peer: None }
    }
}

impl<L: Limit + Clone> RateLimitLayer<L> {
    /// Exempts the requests for which the predicate is true, such as health checks. Default: none.
    #[must_use]
    pub fn exempt(self, predicate: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.exempt = Some(Arc::new(predicate)))
    }

    /// Sets the cost of a request, in tokens. Default: 1.
    ///
    /// A request that costs 0 is always allowed. One that costs more than the burst is always refused, without a
    /// `Retry-After`. A request that waits, waits for all its tokens. With limits of wider
    /// [prefixes](RateLimitLayer::prefix) it takes the cost of each.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::per_client(Quota::per_second(50)).cost(|head| if head.uri.path() == "/search" { 10 } else { 1 });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> u32 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// Sets which responses carry rate limit headers, and which headers these are.
    ///
    /// Default: [`Headers::OnRefusals`].
    #[must_use]
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|settings| settings.headers = headers)
    }

    /// Sets the name of the limit in headers, logs and metrics. Default: `default`.
    ///
    /// # Errors
    ///
    /// [`InvalidText`] if the name has anything but printable ASCII.
    pub fn named(self, name: &str) -> Result<Self, InvalidText> {
        let headers = RateLimitHeaders::new(name)?;
        Ok(self.with(|settings| settings.rename(headers)))
    }

    /// Sets the body of the answer to requests that are over the limit: its content type, and its bytes.
    ///
    /// Default: a line of text.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::global(Quota::per_second(50))
    ///     .body(|_, limited| ("application/json", format!(r#"{{"error": "{limited}"}}"#)));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn body<T: Into<Bytes>>(
        self,
        body: impl Fn(&Head<'_>, &Limited) -> (&'static str, T) + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.body = RefusalBody::custom(body))
    }

    /// Sets the body of refusals to a problem document (RFC 9457) in JSON.
    #[must_use]
    pub fn problem_json(self) -> Self {
        self.with(|settings| settings.body = RefusalBody::Problem)
    }

    /// Calls this for every request that is over the limit, before it is answered.
    #[must_use]
    pub fn on_limited(self, hook: impl Fn(&Head<'_>, &Limited) + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.on_limited = Some(Arc::new(hook)))
    }

    /// Calls `hook` for every request that the limit cannot decide on.
    ///
    /// It is called before the request is answered `500 Internal Server Error`.
    ///
    /// The answer says nothing more. Without the feature `tracing` this is where the reason is found: it is the `source` of the refusal.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    /// use std::error::Error;
    ///
    /// let layer = RateLimitLayer::per_client(Quota::per_second(50))
    ///     .on_error(|_, error| eprintln!("{error}: {:?}", error.source().map(ToString::to_string)));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn on_error(self, hook: impl Fn(&Head<'_>, &Refusal) + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.on_error = Some(Arc::new(hook)))
    }
}

impl<L: CorrectedLimit + Clone> RateLimitLayer<L> {
    /// Corrects the cost of a request when the head of its response is known, to so many tokens in all.
    ///
    /// The request has taken its [cost](Self::cost) before. An excess over that is charged, and tokens that the response
    /// does not cost are given back. Default: the cost stays as it was.
    ///
    /// | the request | its tokens |
    /// |---|---|
    /// | is exempt or refused | none are taken, and `cost` is not called |
    /// | costs more than it took | the excess is booked, into debt if necessary, but not beyond [`Quota::max_debt`]. Requests are refused until the debt is repaid; `Retry-After` says when |
    /// | costs less than it took | the rest is given back, as far as the bucket has room |
    /// | is dropped before its response, or fails with an error of the service | the cost that was taken stays taken |
    ///
    /// A client that keeps many responses open can save their estimates up, and spend them beyond the burst when it ends these at once.
    ///
    /// The cost of a [tree](RateLimitLayer::tree) is a number of tokens for each dimension. Its reservation bounds what is given back,
    /// as [`QuotaTreeBuilder::unsettled`](damper_core::keyed::QuotaTreeBuilder::unsettled) says.
    ///
    /// A client may have many requests in flight before the first of their responses is known, and each of them takes only
    /// its cost before. An excess beyond the deepest debt is never booked. So take an estimate before where responses are
    /// costly: a cost of 1 lets a client with a burst of 100 send 100 costly requests at once. An estimate of 50 lets it send
    /// two.
    ///
    /// Rate limit headers report the limit as it was before the response. The head of the request is kept until then, which
    /// costs a copy of its headers.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    /// use http::header::CONTENT_LENGTH;
    ///
    /// // A megabyte a second for each client. A response is estimated at 10 kB, and then costs its length.
    /// let bytes = RateLimitLayer::per_client(Quota::per_second(1_000_000))
    ///     .cost(|_| 10_000)
    ///     .charge_by_response(|_, response| {
    ///         let length = response.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    ///         length.and_then(|length| length.parse().ok()).unwrap_or(10_000)
    ///     });
    /// # let _ = bytes;
    /// ```
    #[must_use]
    pub fn charge_by_response(
        self,
        cost: impl Fn(&Head<'_>, &response::Parts) -> L::Cost + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.settling = Some(Settling::charge_by_response(settings.settling.take(), cost)))
    }

    /// Corrects the cost of a request by the body of its response, while that is sent.
    ///
    /// `count` is called when the head of a response is known, and returns a function that gets each piece of the body and the
    /// tokens that the request has used so far. Before the first piece these are the tokens that
    /// [`charge_by_response`](Self::charge_by_response) says, or else the ones that were taken. Default: the body is not read.
    ///
    /// | the body | the request is settled |
    /// |---|---|
    /// | ends, also with an error | at its end, by what was counted |
    /// | is dropped before, because the client disconnected | then, by what was counted until then |
    ///
    /// A client that keeps many bodies open can save their estimates up, and spend them beyond the burst when it ends these at once. Only
    /// a tree [bounds](damper_core::keyed::QuotaTreeBuilder::unsettled) that.
    ///
    /// The pieces are as the service sends them: an event or a number may be cut between two. [`BodyLines`](crate::BodyLines) puts lines
    /// together in bounded memory. Nothing of the body is kept or delayed otherwise. Put the layer outside of what compresses.
    ///
    /// The rules of `charge_by_response` for excess, refunds and dropped requests hold here too.
    ///
    /// # Examples
    ///
    /// Each client may read a megabyte a second, and pays for what it was sent:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    ///
    /// let bytes = RateLimitLayer::per_client(Quota::per_second(1_000_000))
    ///     .cost(|_| 10_000)
    ///     .charge_by_response(|_, _| 0)
    ///     .charge_by_body(|_, _| |piece, used| *used += piece.len() as u32);
    /// # let _ = bytes;
    /// ```
    #[must_use]
    pub fn charge_by_body<F: FnMut(&[u8], &mut L::Cost) + Send + Sync + 'static>(
        self,
        count: impl Fn(&Head<'_>, &response::Parts) -> F + Send + Sync + 'static,
    ) -> Self
    where
        L: Send + Sync + 'static,
    {
        self.with(|settings| settings.settling = Some(Settling::charge_by_body(settings.settling.take(), count)))
    }

    /// Gives back the tokens of every second request that the service refused. Default: none.
    ///
    /// Which of two is chosen by chance.
    ///
    /// A layer inside that refuses requests, such as [`ConcurrencyLayer`](crate::ConcurrencyLayer), marks its responses with
    /// [`Refused`](crate::Refused). Without this setting a client whose requests the overloaded server refused, and which retries them, has
    /// paid for all of them: once the server has recovered, it is over its own limit.
    ///
    /// A client that does not wait may so send twice its quota to a server that refuses all, and no more. With all tokens given back,
    /// nothing would bound what it sends. In a simulation (`cargo run -p damper-sim -- refunds`) a server has a sixth of its slots, and two
    /// of twenty tenants are greedy. Polite ones that need nearly all of their quota get 48 % of their jobs served, and 46 % without the
    /// setting; those that need half of theirs get 48 % either way, and 33 % if all tokens are given back. But half as many requests more
    /// reach the server, and are refused there: that is why the setting is off by default.
    ///
    /// The head of each request is kept, as [`charge_by_response`](Self::charge_by_response) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
    /// use damper::http::{ConcurrencyLayer, RateLimitLayer};
    /// use damper::Quota;
    ///
    /// let layers = tower::ServiceBuilder::new()
    ///     .layer(RateLimitLayer::per_client(Quota::per_second(50)).refund_unserved())
    ///     .layer(ConcurrencyLayer::bulkhead(100));
    /// # let _ = layers;
    /// ```
    #[must_use]
    pub fn refund_unserved(self) -> Self {
        self.with(|settings| settings.settling = Some(Settling::refund_unserved(settings.settling.take())))
    }
}

impl<L: Clone> RateLimitLayer<L> {
    /// Writes every decision of the limit into a log. Default: none is written.
    ///
    /// An entry has the time, the hash of the key, the cost and the answer. [`DecisionLog`](damper_core::decision_log::DecisionLog) says how it is read, and how to compute from it what another quota would have
    /// refused. Pass a reference to a `static` or an `Arc`. Exempt requests, answers of a
    /// [candidate](Self::shadow) and corrections by responses are not logged.
    ///
    /// The layer is of another type then: set the [capacity](RateLimitLayer::capacity), the prefixes and the candidate before.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::decision_log::DecisionLog;
    /// use damper::http::RateLimitLayer;
    ///
    /// static LOG: DecisionLog = DecisionLog::new(1 << 20); // the last million decisions, in 24 MiB
    ///
    /// let layer = RateLimitLayer::per_client(Quota::per_second(50)).capacity(100_000)?.decision_log(&LOG);
    /// # let _ = layer;
    /// # Ok::<(), damper::http::RateLimitCapacityError>(())
    /// ```
    #[must_use]
    pub fn decision_log<G>(self, log: G) -> RateLimitLayer<L::Logged>
    where
        L: LoggableLimit<G, Logged: Send + Sync + 'static>,
    {
        let settings = self.settings.map(|limit| limit.logged(log));
        RateLimitLayer { settings: Arc::new(settings), peer: self.peer }
    }

    /// Lets a candidate decide beside the limit, on the same requests, and changes nothing. Default: none.
    ///
    /// No answer and no header depends on the candidate. It takes a token exactly when it would have let the request pass, from buckets of
    /// its own, and it decides on the requests that the limit in force refuses too: it shows what it would do alone.
    /// It takes the [cost](Self::cost) of a request; corrections by [responses](Self::charge_by_response) do not reach it.
    /// Its refusals are counted apart: in [`shadow_report`](Self::shadow_report), in metrics and in logs. A request takes one more decision.
    ///
    /// A candidate is a [`Quota`], for a limit by the same keys in a table of the same capacity, or any [`Limit`] that decides at once.
    /// Beside a limit per client, a quota replaces that of clients, and [prefixes](RateLimitLayer::prefix) keep theirs. A key has the
    /// candidate's quota whatever its tier. Set the candidate after the capacity, the prefixes and the proxies, which it copies.
    ///
    /// Where requests [wait](RateLimitLayer::wait) for the limit in force, the candidate decides when they arrive, and is compared when
    /// they have waited.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    ///
    /// let candidate = Quota::per_second(20).burst(50);
    /// let layer = RateLimitLayer::per_client(Quota::per_second(50).burst(100)).capacity(100_000)?.shadow(candidate);
    /// let kept = layer.clone();
    /// // A day later:
    /// if let Some(report) = kept.shadow_report() {
    ///     println!("{candidate} would have refused {} requests more", report.only_by_candidate);
    /// }
    /// # let _ = layer;
    /// # Ok::<(), damper::http::RateLimitCapacityError>(())
    /// ```
    #[must_use]
    pub fn shadow(self, candidate: impl ShadowCandidate<L>) -> Self {
        let shadow = Arc::new(ShadowLimit::new(candidate.beside(&self.settings.limit)));
        self.with(|settings| settings.shadow = Some(shadow))
    }

    /// Changes a setting of this layer. Earlier clones keep theirs, and all share the limit.
    pub(super) fn with(mut self, set: impl FnOnce(&mut RateLimitSettings<L>)) -> Self {
        let settings = Arc::make_mut(&mut self.settings);
        set(settings);
        settings.update();
        self
    }
}

#[cfg(feature = "tokio")]
impl<C: damper_core::Clock + Send + Sync + 'static> RateLimitLayer<Arc<RateLimiter<damper_core::TokenBucket, C>>> {
    /// Makes requests wait for a token for at most `longest`, first come, first served.
    ///
    /// Use it before a client, to keep to a server's limit.
    ///
    /// A request that would have to wait longer, or past the [`Deadline`](damper_core::Deadline) in its extensions, is refused
    /// at once and takes no token. At a client, the wait ends before the margin of a `ClientDeadlineLayer`. Requests
    /// wait in their future, by tokio's timer. [`Quota::max_debt`] bounds how many can wait. A future
    /// that is dropped gives its place back unless another request waits behind it.
    #[must_use]
    pub fn wait(self, longest: core::time::Duration) -> RateLimitLayer<crate::limit::WaitingLimit<C>> {
        let settings = self.settings.map(|limiter| crate::limit::WaitingLimit::new(limiter, longest));
        RateLimitLayer { settings: Arc::new(settings), peer: self.peer }
    }
}

/// The limit that the layer asks. The metrics of requests are counted as they come.
#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source> damper_metrics::Source for RateLimitLayer<L> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.settings.limit.read(readings);
        if let Some(report) = self.shadow_report() {
            readings.record_shadow(report);
        }
    }
}

#[cfg(feature = "metrics")]
impl<L: damper_metrics::Source> damper_metrics::NamedSource for RateLimitLayer<L> {
    fn name(&self) -> &str {
        self.settings.name()
    }
}

impl<L> RateLimitLayer<L> {
    /// Returns the refusals of the limit and of the [candidate](Self::shadow) beside it; `None` without a candidate.
    #[must_use]
    pub fn shadow_report(&self) -> Option<ShadowReport> {
        self.settings.shadow.as_ref().map(|shadow| shadow.report())
    }

    /// Creates the same layer for requests of a connection from this address.
    ///
    /// It is for servers that make a service for each connection.
    #[must_use]
    pub fn for_peer(&self, address: SocketAddr) -> Self {
        Self { peer: Some(address), ..self.clone() }
    }

    /// Puts a service behind the limit.
    pub fn layer<S>(&self, service: S) -> RateLimit<S, L>
    where
        L: Limit,
    {
        RateLimit::new(service, self.clone())
    }
}

impl<L: Limit<Future: WaitsWith<S>>, S> tower_layer::Layer<S> for RateLimitLayer<L> {
    type Service = RateLimit<S, L>;

    fn layer(&self, service: S) -> RateLimit<S, L> {
        self.layer(service)
    }
}

/// Clones share the limit.
impl<L> Clone for RateLimitLayer<L> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings), peer: self.peer }
    }
}

impl<L: fmt::Debug> fmt::Debug for RateLimitLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("settings", &self.settings).field("peer", &self.peer).finish()
    }
}
