//! The rate limit of a server's layer, for all requests or per key.

use crate::live::{Reload, SettingChange, set_quota};
use crate::section::Section;
use crate::settings::{LimitAlgorithm, LimitHeaders, LimitKey, ProxyHeader, RateLimitSettings};
use damper_core::gate::Forecast;
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{Algorithm, FixedWindow, KeyedAlgorithm, RateLimiter, SlidingCounter, TokenBucket};
use damper_core::time::{DefaultClock, Seed};
use damper_core::{InvalidText, OutOfRange, Quota, SetQuotaError};
use damper_http::wire::TrustedProxies;
use damper_http::{
    ByHeader, Detail, Head, Headers, KeyedLimit, Limit, LimitDecision, MarkingLayer, NoWait, PerClient, RateLimitLayer,
    Refusal,
};
use http::HeaderName;
use std::error::Error;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// A rate limit for all requests, or for each client, path or header value, as the settings say.
///
/// Clones share their state.
#[derive(Clone)]
#[cfg(feature = "http")]
pub struct ConfiguredLimit {
    limit: Arc<dyn MeasuredLimit>,
    limiter: Arc<dyn LiveQuota>,
}

/// A source of metrics, or anything without the feature `metrics`.
#[cfg(feature = "metrics")]
use damper_metrics::Source as Measured;

#[cfg(not(feature = "metrics"))]
trait Measured {}

#[cfg(not(feature = "metrics"))]
impl<L> Measured for L {}

/// A limit of a layer, without the type of its keys.
trait MeasuredLimit: Limit<Future = NoWait> + Measured + Send + Sync {}

impl<L: Limit<Future = NoWait> + Measured + Send + Sync> MeasuredLimit for L {}

/// A limiter whose quota can be changed.
trait LiveQuota: Send + Sync {
    fn quota(&self) -> Quota;

    fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError>;
}

impl<A: Algorithm + Send + Sync> LiveQuota for RateLimiter<A, DefaultClock> {
    fn quota(&self) -> Quota {
        self.quota()
    }

    fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.set_quota(quota)
    }
}

type Limits<K, A> = KeyedLimiter<K, DefaultClock, Seed, A>;

impl<K: ?Sized, A: KeyedAlgorithm> LiveQuota for Limits<K, A>
where
    Self: Send + Sync,
{
    fn quota(&self) -> Quota {
        self.quota()
    }

    fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.set_quota(quota)
    }
}

/// A limit for each path.
struct PerPath<A>(Arc<Limits<[u8], A>>);

impl<A: KeyedAlgorithm> Limit for PerPath<A> {
    type Future = NoWait;

    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        KeyedLimit::decide(&self.0, head.uri.path().as_bytes(), cost, detail)
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        KeyedLimit::forecast(&self.0, head.uri.path().as_bytes(), cost)
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        Some(head.uri.path().to_owned())
    }
}

#[cfg(feature = "metrics")]
impl<A: KeyedAlgorithm> damper_metrics::Source for PerPath<A> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.0.read(readings);
    }
}

/// The reason why a limit cannot be built from its settings.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
#[cfg(feature = "http")]
pub enum ConfiguredLimitError {
    /// Its table of keys cannot be built, or its algorithm cannot count that many requests.
    OutOfRange(OutOfRange),
    /// A trusted proxy is not a network, or is the network of all addresses.
    Proxies(InvalidText),
    /// Its algorithm works only for all requests together, not per key.
    NotKeyed {
        /// Its name in the settings.
        algorithm: String,
    },
    /// This is not a valid header name.
    Header(String),
    /// The settings mark requests, and a layer that refuses them was to be built.
    Marks {
        /// The section with `mark = true`, such as `server.http.ratelimit`.
        section: String,
    },
    /// The key `mark_header` names a header that has the class or the tenant of requests.
    MarkHeader {
        /// The group with the key, such as `server.http`.
        group: String,
        /// The name of the header.
        header: String,
    },
}

impl From<OutOfRange> for ConfiguredLimitError {
    fn from(error: OutOfRange) -> Self {
        Self::OutOfRange(error)
    }
}

impl From<InvalidText> for ConfiguredLimitError {
    fn from(error: InvalidText) -> Self {
        Self::Proxies(error)
    }
}

impl fmt::Display for ConfiguredLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(error) => error.fmt(f),
            Self::Proxies(error) => error.fmt(f),
            Self::NotKeyed { algorithm } => write!(f, "{algorithm} is an algorithm for all requests together only"),
            Self::Header(name) => write!(f, "{name:?} is no name of a header"),
            Self::MarkHeader { group, header } => write!(
                f,
                "{group}.ratelimit.mark_header is {header:?}, it must differ from class_header and tenant_header of {group}.stack"
            ),
            Self::Marks { section } => {
                write!(
                    f,
                    "{section}.mark is true, it must be false for a layer that refuses requests, outside of a stack"
                )
            }
        }
    }
}

damper_core::internal::debug_by_display!(ConfiguredLimitError);

impl Error for ConfiguredLimitError {}

/// Returns the header of this name, which its key has checked.
pub(super) fn header_named(name: &str) -> Option<HeaderName> {
    HeaderName::from_bytes(name.as_bytes()).ok()
}

#[cfg(feature = "http")]
impl RateLimitSettings {
    /// Builds a layer for an HTTP or gRPC server.
    ///
    /// It exempts no path: pass `settings.stack.exempts(path)` to `RateLimitLayer::exempt`, as stacks do. It ignores tiers, which are for
    /// limiters of your own: see [`keyed_builder`](Self::keyed_builder). It refuses requests, so `mark = true` is an error: a limit that was to
    /// mark would refuse, and clients could send its header. Stacks mark, and [`marking`](Self::marking) builds a layer that does.
    ///
    /// To be able to reload it, build the [limit](Self::limit), and give clones of it to `RateLimitLayer::new` and to
    /// [`Reloader::bind`](crate::Reloader::bind).
    ///
    /// # Errors
    ///
    /// [`ConfiguredLimitError::Marks`] if `mark` is true, and no other with settings in their ranges.
    pub fn layer(&self) -> Result<RateLimitLayer<ConfiguredLimit>, ConfiguredLimitError> {
        if self.mark {
            return Err(ConfiguredLimitError::Marks { section: self.name().to_owned() });
        }
        let layer = RateLimitLayer::new(self.limit()?).headers(self.layer_headers());
        // The name of a section has only characters that headers can carry.
        Ok(layer.clone().named(self.name()).unwrap_or(layer))
    }

    /// Returns the layer as one that marks requests; `None` unless `mark` is true.
    ///
    /// It marks them as `mark_header` and `mark_class` say. Stacks do this themselves.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub extern crate damper_config as config; pub extern crate damper_http as http; }
    /// use damper::config::Sources;
    /// use damper::http::RateLimitLayer;
    ///
    /// let settings = Sources::new().toml("app.toml", "server.http.ratelimit = { quota = '20/s', mark = true }").load()?;
    /// let ratelimit = &settings.server.http.ratelimit;
    /// let limit = RateLimitLayer::new(ratelimit.limit()?).named("pages")?; // the name in the marks
    /// let marking = ratelimit.marking(limit); // in a router: `.layer(marking.unwrap())`
    /// assert!(marking.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn marking<L: Limit<Future = NoWait> + Clone>(&self, layer: RateLimitLayer<L>) -> Option<MarkingLayer<L>> {
        let layer = self.mark.then(|| layer.marking())?;
        let layer = match self.mark_header.as_deref().and_then(header_named) {
            Some(header) => layer.header(header),
            None => layer,
        };
        Some(match self.mark_class {
            Some(class) => layer.at_most(class),
            None => layer,
        })
    }

    /// Returns which responses carry headers, for `RateLimitLayer::headers` of a layer of your own.
    #[must_use]
    pub fn layer_headers(&self) -> Headers {
        match self.headers {
            LimitHeaders::OnRefusals => Headers::OnRefusals,
            LimitHeaders::OnAllResponses => Headers::OnAllResponses,
            LimitHeaders::OnRefusalsWithX => Headers::OnRefusalsWithX,
            LimitHeaders::OnAllResponsesWithX => Headers::OnAllResponsesWithX,
        }
    }

    /// Builds the limit of a layer.
    ///
    /// # Errors
    ///
    /// [`ConfiguredLimitError`], never with settings in their ranges.
    pub fn limit(&self) -> Result<ConfiguredLimit, ConfiguredLimitError> {
        if self.key == LimitKey::Global {
            return Ok(match self.algorithm {
                LimitAlgorithm::TokenBucket => ConfiguredLimit::of_all(self.limiter()),
                LimitAlgorithm::LeakyBucket => ConfiguredLimit::of_all(self.leaky_bucket()),
                LimitAlgorithm::FixedWindow => ConfiguredLimit::of_all(self.fixed_window()),
                LimitAlgorithm::SlidingCounter => ConfiguredLimit::of_all(self.sliding_counter()?),
                LimitAlgorithm::SlidingLog => ConfiguredLimit::of_all(self.sliding_log()?),
            });
        }
        match self.algorithm {
            LimitAlgorithm::TokenBucket => self.limit_per_key::<TokenBucket>(),
            LimitAlgorithm::FixedWindow => self.limit_per_key::<FixedWindow>(),
            LimitAlgorithm::SlidingCounter => self.limit_per_key::<SlidingCounter>(),
            _ => Err(ConfiguredLimitError::NotKeyed { algorithm: self.written("algorithm").shown() }),
        }
    }

    fn limit_per_key<A: KeyedAlgorithm + Send + Sync + 'static>(
        &self,
    ) -> Result<ConfiguredLimit, ConfiguredLimitError> {
        match &self.key {
            LimitKey::Global | LimitKey::Client => {
                let proxies = TrustedProxies::new(self.trusted_proxies.iter().map(ToString::to_string))?;
                let proxies = match self.proxy_header {
                    ProxyHeader::XForwardedFor => proxies,
                    ProxyHeader::Forwarded => proxies.forwarded(),
                };
                let of = |limits| PerClient::new(limits).behind(proxies).ipv6_prefix(self.ipv6_prefix);
                Ok(ConfiguredLimit::of_each(self.limits::<_, A>()?, of))
            }
            LimitKey::Path => Ok(ConfiguredLimit::of_each(self.limits::<_, A>()?, PerPath)),
            LimitKey::Header(name) => {
                let header = header_named(name).ok_or_else(|| ConfiguredLimitError::Header(name.clone()))?;
                Ok(ConfiguredLimit::of_each(self.limits::<_, A>()?, |limits| ByHeader::new(header, limits)))
            }
        }
    }

    fn limits<K: Hash + ?Sized, A: KeyedAlgorithm>(&self) -> Result<Arc<Limits<K, A>>, OutOfRange> {
        self.keyed_builder::<K>().algorithm::<A>().build().map(Arc::new)
    }
}

impl ConfiguredLimit {
    /// Creates one limit for all requests.
    fn of_all<A: Algorithm + Send + Sync + 'static>(limiter: RateLimiter<A, DefaultClock>) -> Self {
        let limiter = Arc::new(limiter);
        Self { limit: Arc::clone(&limiter) as _, limiter }
    }

    /// Creates a limit that asks this limiter by the keys of requests.
    fn of_each<K, A, L>(limiter: Arc<Limits<K, A>>, limit: impl FnOnce(Arc<Limits<K, A>>) -> L) -> Self
    where
        K: ?Sized + 'static,
        A: KeyedAlgorithm + 'static,
        Limits<K, A>: Send + Sync,
        L: MeasuredLimit + 'static,
    {
        Self { limit: Arc::new(limit(Arc::clone(&limiter))), limiter }
    }

    /// Returns the quota in force.
    pub fn quota(&self) -> Quota {
        self.limiter.quota()
    }
}

impl Limit for ConfiguredLimit {
    type Future = NoWait;

    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        self.limit.decide(head, cost, detail)
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        self.limit.forecast(head, cost)
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        self.limit.key(head)
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for ConfiguredLimit {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.limit.read(readings);
    }
}

impl fmt::Debug for ConfiguredLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfiguredLimit").field("quota", &self.quota()).finish_non_exhaustive()
    }
}

impl Reload<RateLimitSettings> for ConfiguredLimit {
    fn takes(&self, change: &SettingChange) -> bool {
        change.is_live() && change.key() != "tiers"
    }

    fn can_apply(&self, start: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        // Whether a quota is valid does not depend on the number of keys.
        let probe = RateLimitSettings { max_keys: 1, ..start.clone() }.limit().map_err(|error| error.to_string())?;
        probe.limiter.set_quota(new.effective_quota()).map_err(|error| error.to_string())
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        set_quota(|| self.limiter.set_quota(new.effective_quota()))
    }
}
