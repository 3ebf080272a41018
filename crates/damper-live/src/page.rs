//! The page: what it shows, and what it lets browsers change.

use super::access::{Access, Peers, host_name};
use super::control::{Button, Controls};
use super::explain::Explainers;
use super::hot_keys::WatchedLog;
use super::primitives::{ChangeQuota, SwitchBreaker};
use super::sampler::{Sampler, Watched, WatchedLatencies};
use super::stream::{MostOpen, OpenStreams, event};
use super::{Latencies, LivePageError, LiveRecorder, LiveService, LiveToken};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;
use damper_core::OutOfRange;
use damper_core::decision_log::DecisionLog;
use damper_core::keyed::{ClientAddress, KeyedLimiter};
use damper_core::quota::Quota;
use damper_core::time::Clock;
use damper_http::internal::limits_for_each;
use damper_http::wire::TrustedProxies;
use damper_http::{Explanation, Head};
use damper_metrics::{NamedSource, Source};
use serde_json::{Value, json};

/// The intervals at which everything may be read.
const INTERVALS: core::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);

/// The times that a browser may take to read a sample.
///
/// With none, each stream would end before it is read.
const PATIENCES: core::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 3_600);

/// A page that shows limits, breakers and others live, and lets an operator change them.
///
/// Browsers of the same machine may look, unless [told otherwise](Self::open_to). Only the holder of a [token](Self::token) may change
/// anything; without a token nothing can be changed. Looking changes nothing, and adds nothing to the path of a request: each
/// [interval](Self::interval) one browser's stream reads all sources for all browsers, and nothing is read while no page is open.
///
/// The page makes no request to another origin, and has a strict `Content-Security-Policy`. It has to be served with tokio's timer.
///
/// # Examples
///
/// Beside the routes of axum. For hyper and other services of tower see [`LiveService`].
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_live as live; }
/// # #[cfg(feature = "axum")] {
/// use axum::{Router, routing::get};
/// use damper::decision_log::DecisionLog;
/// use damper::live::{Latencies, LivePage, LiveToken};
/// use damper::http::{PerClient, RateLimitLayer};
/// use damper::{CircuitBreaker, ClientAddress, KeyedLimiter, Quota};
/// use std::net::SocketAddr;
/// use std::sync::Arc;
///
/// static DECISIONS: DecisionLog = DecisionLog::new(65_536);
///
/// let clients = Arc::new(KeyedLimiter::<ClientAddress>::builder(Quota::per_second(50).burst(100)).build()?);
/// let upstream = Arc::new(CircuitBreaker::default());
/// let latencies = Latencies::new("requests");
/// let live = LivePage::new()
///     .limit("clients", Arc::clone(&clients))
///     .decision_log("clients", &DECISIONS) // without it, the page shows no rates and no hottest keys
///     .breaker("upstream", Arc::clone(&upstream))
///     .latencies(&latencies)
///     .token(LiveToken::new("from a vault, 16 bytes or more")?)
///     .build()?;
///
/// let app: Router = Router::new()
///     .route("/", get(|| async { "hello" }))
///     .layer(RateLimitLayer::new(PerClient::new(clients)).decision_log(&DECISIONS))
///     .layer(latencies)
///     .nest_service("/damper", live); // after the layers, so that they do not count its requests
///
/// let server = async {
///     let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
///     // With the peers' addresses: limit and page need them, and answer 500 without.
///     axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
/// };
/// # let _ = server;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a page is served by the service that `build` makes"]
pub struct LivePage {
    title: String,
    path: String,
    interval: Duration,
    patience: Duration,
    most_open: MostOpen,
    access: Access,
    proxies: Option<TrustedProxies>,
    token: Option<LiveToken>,
    look_token: Option<LiveToken>,
    watched: Watched,
    controls: Controls,
    explainers: Explainers,
}

impl Default for LivePage {
    fn default() -> Self {
        Self {
            title: "damper".to_owned(),
            path: "/damper".to_owned(),
            interval: Duration::from_secs(1),
            patience: Duration::from_secs(10),
            most_open: MostOpen { streams: 32, per_address: 8 },
            access: Access::default(),
            proxies: None,
            token: None,
            look_token: None,
            watched: Watched::default(),
            controls: Controls::default(),
            explainers: Explainers::default(),
        }
    }
}

/// The contents.
impl LivePage {
    /// Creates a page that shows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a limit, whose quota may be changed.
    ///
    /// Pass a reference to a `static` or an `Arc`. The page shows its rates if a [recorder](Self::recorder) has the counters of a layer
    /// of this name, or if a [log](Self::decision_log) has its decisions. Without both, it shows the level only, and says so.
    pub fn limit<L: Source + ChangeQuota + Send + Sync + 'static>(mut self, name: &str, limit: L) -> Self {
        let limit = Arc::new(limit);
        self.controls.limits.push((name.to_owned(), Arc::<L>::clone(&limit)));
        self.watched.limits.push((name.to_owned(), Arc::<L>::clone(&limit)));
        self.source(name, limit)
    }

    /// Adds a breaker, which may be tripped and reset.
    ///
    /// The page shows each change of its state with its time and its cause, also those of before the page was opened, as far as
    /// [`CircuitBreaker::recent_changes`](damper_core::breaker::CircuitBreaker::recent_changes) has them. Of several breakers it shows the
    /// newest changes together. Refusals are shown if a [recorder](Self::recorder) has the counters of a layer whose breakers have this name.
    pub fn breaker<B: Source + SwitchBreaker + Send + Sync + 'static>(mut self, name: &str, breaker: B) -> Self {
        let breaker = Arc::new(breaker);
        self.controls.breakers.push((name.to_owned(), Arc::<B>::clone(&breaker)));
        self.watched.breakers.push((name.to_owned(), Arc::<B>::clone(&breaker)));
        self.source(name, breaker)
    }

    /// Adds a source of damper-metrics, such as a bulkhead or a limit on Redis, to be looked at only.
    pub fn source(mut self, name: &str, source: impl Source + Send + Sync + 'static) -> Self {
        self.watched.exporter = self.watched.exporter.register(name, source);
        self
    }

    /// Adds a layer under its own name, to be looked at only.
    pub fn layer(mut self, layer: impl NamedSource + Send + Sync + 'static) -> Self {
        self.watched.exporter = self.watched.exporter.layer(layer);
        self
    }

    /// Adds the log of a limit's decisions, from which the page takes its hottest keys and its refusals.
    ///
    /// Keys are shown as 48 bits of their hash. The memory for them is bounded: the 1024 hottest are known, however many there are.
    pub fn decision_log<C: Clock>(
        mut self,
        limit: &str,
        log: impl Deref<Target = DecisionLog<C>> + Send + Sync + 'static,
    ) -> Self {
        self.watched.logs.push(WatchedLog::new(limit.to_owned(), log));
        self
    }

    /// Adds latencies, of which the page shows percentiles of each interval.
    pub fn latencies(mut self, latencies: &Latencies) -> Self {
        self.watched.latencies.push(WatchedLatencies::new(latencies.clone()));
        self
    }

    /// Sets the recorder that has the counters of layers.
    pub fn recorder(mut self, recorder: &LiveRecorder) -> Self {
        self.watched.recorder = Some(recorder.clone());
        self
    }

    /// Adds a line of the application's own, which is read once in an interval.
    pub fn status(mut self, name: &str, status: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.watched.statuses.push((name.to_owned(), Box::new(status)));
        self
    }

    /// Adds a button that runs a function of the application.
    ///
    /// The function runs while the request is answered, so it should return at once. Its error is shown on the page.
    pub fn control<E: fmt::Display>(
        mut self,
        name: &str,
        label: &str,
        action: impl Fn() -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        let action = Box::new(move || action().map_err(|error| error.to_string()));
        self.controls.buttons.push(Button { name: name.to_owned(), label: label.to_owned(), action });
        self
    }
}

/// Explanations.
impl LivePage {
    /// Adds a stack that explains what would happen to a request, at `explain/NAME/PATH` below the page.
    ///
    /// The request has the method `GET`, or that in the header `damper-method`, this path, and the query and headers of the request for the
    /// explanation. Its peer is the address in `damper-client`. The answer is the [JSON](Explanation::to_json) of the explanation, or its text
    /// with `Accept: text/plain`. Whoever may look may ask. Nothing is taken, however often. Characters of the name that a path cannot have
    /// are encoded in it: `my%20api` is the stack `my api`.
    ///
    /// ```text
    /// $ curl -H 'damper-client: 203.0.113.9' -H 'Accept: text/plain' localhost:8080/damper/explain/api/search?q=1
    /// client limit "client": refuses: rate limit exceeded, retry in 20 ms (0 left of 50/s burst 50)
    /// limit "server": passes (871 left of 1000/s burst 1000)
    /// refused by the client limit, retry in 20 ms
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_live as live; }
    /// use damper::Quota;
    /// use damper::http::server_stack;
    /// use damper::live::LivePage;
    ///
    /// let stack = server_stack().limit_per_client(Quota::per_second(50)).limit(Quota::per_second(1_000));
    /// let explained = stack.clone();
    /// let live = LivePage::new().explain("api", move |head| explained.explain(head)).build()?;
    /// # let _ = (stack, live);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(mut self, name: &str, explain: impl Fn(&Head<'_>) -> Explanation + Send + Sync + 'static) -> Self {
        self.explainers.0.push((name.to_owned(), Box::new(explain)));
        self
    }
}

/// The settings of the service.
impl LivePage {
    /// Sets the title. Default: `damper`.
    pub fn title(mut self, title: &str) -> Self {
        title.clone_into(&mut self.title);
        self
    }

    /// Sets the path of the requests that are for the page. Default: `/damper`.
    ///
    /// A router such as axum's `nest_service`, which takes its own path away before it passes a request on, may mount the page anywhere, and so
    /// may a proxy: the page finds its files beside itself.
    pub fn path(mut self, path: &str) -> Self {
        path.trim_end_matches('/').clone_into(&mut self.path);
        self
    }

    /// Sets how often everything is read while a page is open; 100 ms to one minute. Default: one second.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets how long a browser may take to read a sample, before its stream is closed.
    ///
    /// 1 ms to one day. Default: 10 seconds.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how many streams may be open at once. Default: 32. Further ones get `503 Service Unavailable`.
    ///
    /// Browsers open at most six connections to one host over HTTP/1.1, and each stream holds one of them. So a page that is hidden, such as
    /// a tab in the background, closes its stream, and opens another when it is shown again. Six windows that are seen at once would still
    /// take all connections of that browser. Over HTTP/2 streams share one.
    ///
    /// The place of a browser that is gone is free when the server drops the body of its response. hyper does so at once, also while nothing
    /// is written. Behind a proxy it is when the proxy closes its own connection. A browser that vanished without a word, such as a laptop
    /// that sleeps, keeps its place for the [patience](Self::patience) at least, as the notes on [cost](super#cost) say. A client that reads
    /// nothing on purpose does too, so one address has only [some](Self::most_open_per_address) of the places.
    pub fn most_open(mut self, streams: usize) -> Self {
        self.most_open.streams = streams;
        self
    }

    /// Sets how many streams one address may have open at once. Default: 8.
    ///
    /// Further ones get `429 Too Many Requests`. IPv6 addresses are grouped by their first 64 bits. Behind a proxy all browsers have its address, unless
    /// [`behind`](Self::behind) names it.
    pub fn most_open_per_address(mut self, streams: usize) -> Self {
        self.most_open.per_address = streams;
        self
    }

    /// Names the proxies that write the addresses of browsers into a header. Default: none.
    ///
    /// Then streams and wrong tokens are counted for the address of the browser, not for that of the proxy. It lets no request pass that would
    /// be refused without it: see [`open_to`](Self::open_to).
    pub fn behind(mut self, proxies: TrustedProxies) -> Self {
        self.proxies = Some(proxies);
        self
    }

    /// Sets the token that controls ask for. Default: none, and nothing can be changed.
    ///
    /// An address that sends ten wrong tokens waits: it gets `429 Too Many Requests`, whatever it sends, and has one more attempt every six
    /// seconds.
    pub fn token(mut self, token: LiveToken) -> Self {
        self.token = Some(token);
        self
    }

    /// Sets a token that is needed to look. Default: none.
    ///
    /// Without one, every browser that reaches the page may look. A browser asks its user for a name and a password: the password is the token, and any name will do. Other clients may send
    /// `Authorization: Bearer TOKEN`. The token of [controls](Self::token) is enough too. Wrong ones are counted as those of controls are.
    ///
    /// Set it for each page that a proxy might reach. A proxy on the same machine makes all its requests look local. The page refuses those in
    /// which the proxy shows: by a header such as `Via`, `X-Forwarded-For`, `X-Real-IP` or `CF-Ray`, or by HTTP/1.0, which nginx's plain
    /// `proxy_pass` speaks by default. A proxy that adds no header and speaks HTTP/1.1 does not show, and publishes a page without this token.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; pub extern crate damper_live as live; }
    /// use damper::live::{LivePage, LiveToken};
    /// use damper::wire::TrustedProxies;
    ///
    /// let page = LivePage::new()
    ///     .open_to(["ops.example.com"])
    ///     .look_token(LiveToken::generate()?) // print what it reveals
    ///     .behind(TrustedProxies::new(["127.0.0.1"])?) // nginx, which writes X-Forwarded-For
    ///     .build()?;
    /// # let _ = page;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn look_token(mut self, token: LiveToken) -> Self {
        self.look_token = Some(token);
        self
    }

    /// Lets browsers of other machines look, under these names of the server. Default: none.
    ///
    /// A name has no scheme, no port and no path: `ops.example.com`. [`build`](Self::build) refuses others. Requests for other hosts are refused, so that no page whose name is bound to the server's
    /// address can read from it. Serve it over TLS, because the token is sent with each control.
    ///
    /// Everyone who reaches the server under such a name may look then, unless there is a [`look_token`](Self::look_token).
    pub fn open_to<H: AsRef<str>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.access.peers = Peers::Anywhere;
        self.access.hosts.extend(hosts.into_iter().map(|host| host.as_ref().to_owned()));
        self
    }

    /// Makes the service.
    ///
    /// # Errors
    ///
    /// [`LivePageError`] if a setting is out of range, or if two things that can be changed have the same name.
    pub fn build(mut self) -> Result<LiveService, LivePageError> {
        self.check()?;
        for host in &mut self.access.hosts {
            *host = host_name(host).ok_or_else(|| LivePageError::Host { host: host.clone() })?;
        }
        let Self {
            title,
            path,
            interval,
            patience,
            most_open,
            access,
            proxies,
            token,
            look_token,
            watched,
            controls,
            explainers,
        } = self;
        let page = include_str!("assets/page.html").replace("{title}", &escaped(&title));
        Ok(LiveService::new(Arc::new(Shared {
            page: page.into(),
            title,
            path,
            patience,
            most_open,
            open: Arc::default(),
            access,
            proxies,
            attempts: (token.is_some() || look_token.is_some()).then(|| limits_for_each(ATTEMPTS)),
            token,
            look_token,
            has_recorder: watched.recorder.is_some(),
            sampler: Sampler::new(interval, watched),
            controls,
            explainers,
        })))
    }

    fn check(&self) -> Result<(), LivePageError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
        if !self.path.starts_with('/') || !self.path.bytes().all(is_plain) {
            return Err(LivePageError::Path { path: self.path.clone() });
        }
        OutOfRange::check_duration("interval", self.interval, INTERVALS).map_err(LivePageError::OutOfRange)?;
        OutOfRange::check_duration("patience", self.patience, PATIENCES).map_err(LivePageError::OutOfRange)?;
        let Controls { limits, breakers, buttons } = &self.controls;
        let names: [Vec<&String>; 4] = [
            limits.iter().map(|(name, _)| name).collect(),
            breakers.iter().map(|(name, _)| name).collect(),
            buttons.iter().map(|button| &button.name).collect(),
            self.explainers.0.iter().map(|(name, _)| name).collect(),
        ];
        for of_kind in names {
            if let Some(name) = of_kind.iter().enumerate().find(|(at, name)| of_kind[..*at].contains(name)) {
                return Err(LivePageError::Repeated { name: (*name.1).clone() });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for LivePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LivePage").field("path", &self.path).field("interval", &self.interval).finish_non_exhaustive()
    }
}

/// The wrong tokens of an address: ten at once, and one every six seconds.
const ATTEMPTS: Quota = Quota::per_minute(10);

/// The page as it is served, shared by all its services.
pub(super) struct Shared {
    pub(super) page: Bytes,
    title: String,
    pub(super) path: String,
    pub(super) patience: Duration,
    pub(super) most_open: MostOpen,
    pub(super) open: Arc<OpenStreams>,
    pub(super) access: Access,
    pub(super) proxies: Option<TrustedProxies>,
    pub(super) token: Option<LiveToken>,
    pub(super) look_token: Option<LiveToken>,
    /// The wrong tokens that each address may send, if there is a token.
    pub(super) attempts: Option<Arc<KeyedLimiter<ClientAddress>>>,
    has_recorder: bool,
    pub(super) sampler: Sampler,
    pub(super) controls: Controls,
    pub(super) explainers: Explainers,
}

impl Shared {
    /// Returns the first event of a stream: what can be changed, and whether a recorder counts.
    pub(super) fn hello(&self) -> Bytes {
        let Controls { limits, breakers, buttons } = &self.controls;
        let limits: Vec<&String> = limits.iter().map(|(name, _)| name).collect();
        let breakers: Vec<&String> = breakers.iter().map(|(name, _)| name).collect();
        let buttons: Vec<Value> =
            buttons.iter().map(|button| json!({ "name": button.name, "label": button.label })).collect();
        event(
            "hello",
            &json!({
                "title": self.title,
                "interval": self.sampler.interval().as_secs_f64(),
                "changeable": self.token.is_some(),
                "recorder": self.has_recorder,
                "limits": limits,
                "breakers": breakers,
                "controls": buttons,
            }),
        )
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.path).field("sampler", &self.sampler).finish_non_exhaustive()
    }
}

/// Returns a text as it stands in HTML.
fn escaped(text: impl fmt::Display) -> String {
    let mut escaped = String::new();
    for character in text.to_string().chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_cannot_write_html() {
        assert_eq!(escaped("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
    }
}
