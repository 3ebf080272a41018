//! Limits and breakers by their settings, for layers of HTTP.

use crate::live::{Reload, check_quota, set_quota};
use crate::section::{Change, Key};
use crate::settings::{CircuitBreakerSettings, LimitKey, RateLimitSettings};
use damper_core::keyed::{ClientAddress, KeyedLimiter, KeyedLimiterError};
use damper_core::limit::RateLimiter;
use damper_core::{CapacityError, Quota};
use damper_http::wire::{TrustedProxies, TrustedProxiesError};
use damper_http::{
    Answer, ByHeader, Decision, Detail, Head, KeyedLimit, KeyedStatus, Limit, MissingPeer, PerHost, RateLimitLayer,
};
use http::HeaderName;
use std::error::Error;
use std::fmt;
use std::future::Ready;
use std::sync::Arc;

/// A limit for all requests, for each client or for each value of a header, as the settings say.
///
/// Clones share their state.
#[derive(Clone, Debug)]
pub struct ConfiguredLimit(Per);

#[derive(Clone, Debug)]
enum Per {
    Server(Arc<RateLimiter>),
    Client { limits: Arc<KeyedLimiter<ClientAddress>>, proxies: TrustedProxies, ipv6_prefix: u32 },
    Header(ByHeader, Arc<KeyedLimiter<[u8]>>),
}

/// Why a limit cannot be built of its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfiguredLimitError {
    /// Its table of keys cannot be built.
    Keys(KeyedLimiterError),
    /// A trusted proxy is no network, or the network of all addresses.
    Proxies(TrustedProxiesError),
}

impl From<KeyedLimiterError> for ConfiguredLimitError {
    fn from(error: KeyedLimiterError) -> Self {
        Self::Keys(error)
    }
}

impl From<TrustedProxiesError> for ConfiguredLimitError {
    fn from(error: TrustedProxiesError) -> Self {
        Self::Proxies(error)
    }
}

impl fmt::Display for ConfiguredLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(error) => error.fmt(f),
            Self::Proxies(error) => error.fmt(f),
        }
    }
}

impl Error for ConfiguredLimitError {}

impl RateLimitSettings {
    /// Builds a layer for a server of HTTP or gRPC. Tiers are for [limiters of yours](Self::keyed_builder): a layer has none.
    ///
    /// To reload it, build the [limit](Self::limit), and give clones of it to `RateLimitLayer::new` and to
    /// [`Reloader::bind`](crate::Reloader::bind).
    ///
    /// # Errors
    ///
    /// [`ConfiguredLimitError`], never with settings in their ranges.
    pub fn layer(&self) -> Result<RateLimitLayer<ConfiguredLimit>, ConfiguredLimitError> {
        self.limit().map(RateLimitLayer::new)
    }

    /// Builds the limit of a layer.
    ///
    /// # Errors
    ///
    /// [`ConfiguredLimitError`], never with settings in their ranges.
    pub fn limit(&self) -> Result<ConfiguredLimit, ConfiguredLimitError> {
        let header = match &self.key {
            LimitKey::Header(name) => HeaderName::from_bytes(name.as_bytes()).ok(),
            LimitKey::Global | LimitKey::Client => None,
        };
        Ok(ConfiguredLimit(match (&self.key, header) {
            (LimitKey::Client, _) => Per::Client {
                limits: Arc::new(self.keyed_builder().build()?),
                proxies: TrustedProxies::new(self.trusted_proxies.iter().map(ToString::to_string))?,
                ipv6_prefix: self.ipv6_prefix,
            },
            (LimitKey::Header(_), Some(name)) => {
                let limits = Arc::new(self.keyed_builder().build()?);
                Per::Header(ByHeader::new(name, Arc::clone(&limits)), limits)
            }
            (LimitKey::Global | LimitKey::Header(_), _) => Per::Server(Arc::new(self.limiter())),
        }))
    }
}

impl ConfiguredLimit {
    /// Returns the quota in force.
    pub fn quota(&self) -> Quota {
        match &self.0 {
            Per::Server(limiter) => limiter.quota(),
            Per::Client { limits, .. } => limits.quota(),
            Per::Header(_, limits) => limits.quota(),
        }
    }
}

impl Limit for ConfiguredLimit {
    type Future = Ready<Answer>;

    fn decide(&self, head: &Head<'_>, detail: Detail) -> Decision<Self::Future> {
        match &self.0 {
            Per::Server(limiter) => limiter.decide(head, detail),
            Per::Header(limit, _) => limit.decide(head, detail),
            Per::Client { limits, .. } => match self.client(head) {
                Some(client) => KeyedLimit::decide(limits, &client, detail),
                None => Decision::Now(Err(MissingPeer.into())),
            },
        }
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        match &self.0 {
            Per::Server(_) => None,
            Per::Header(limit, _) => limit.key(head),
            Per::Client { .. } => self.client(head).map(|client| client.to_string()),
        }
    }

    fn keyed(&self) -> Vec<KeyedStatus> {
        match &self.0 {
            Per::Server(_) => Vec::new(),
            Per::Header(limit, _) => limit.keyed(),
            Per::Client { limits, .. } => limits.status().into_iter().collect(),
        }
    }
}

impl ConfiguredLimit {
    fn client(&self, head: &Head<'_>) -> Option<ClientAddress> {
        let Per::Client { proxies, ipv6_prefix, .. } = &self.0 else { return None };
        let peer = head.peer()?.ip();
        let address = proxies.client_of(peer, head.headers);
        Some(ClientAddress::with_ipv6_prefix(address, *ipv6_prefix))
    }
}

impl Reload<RateLimitSettings> for ConfiguredLimit {
    fn takes(&self, key: &Key) -> bool {
        key.change() == Change::Live && key.name() != "tiers"
    }

    fn can_apply(&self, start: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        check_quota(start.effective_quota(), new.effective_quota())
    }

    fn apply(&self, new: &RateLimitSettings) -> Result<(), String> {
        match &self.0 {
            Per::Server(limiter) => limiter.apply(new),
            Per::Client { limits, .. } => set_quota(|| limits.set_quota(new.effective_quota())),
            Per::Header(_, limits) => set_quota(|| limits.set_quota(new.effective_quota())),
        }
    }
}

impl CircuitBreakerSettings {
    /// Builds a breaker for each host, for `CircuitBreakerLayer::new`.
    ///
    /// # Errors
    ///
    /// [`CapacityError`], never with settings in their ranges.
    pub fn breakers(&self) -> Result<PerHost, CapacityError> {
        PerHost::builder(self.config()).capacity(self.max_hosts as usize).build()
    }
}
