//! A limit for each client address.

use super::prefix::{Local, Prefix, PrefixLimits};
use super::{Detail, KeyedLimit, Limit, LimitDecision, LimitedByTable, Refusal};
use crate::Head;
use crate::wire::TrustedProxies;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::hash::BuildHasher;
use core::net::IpAddr;
use core::ops::Deref;
use damper_core::decision_log::{DecisionLog, Logged};
use damper_core::gate::Forecast;
use damper_core::keyed::{ClientAddress, KeyedLimiter};
use damper_core::limit::KeyedAlgorithm;
use damper_core::time::Clock;

/// A limit for each client address: the peer's, or behind [`TrustedProxies`] the one that these report.
///
/// IPv6 addresses are grouped by their prefix.
///
/// A network has many such prefixes: one that owns a /48 has 65,536 of 64 bits. Limits of [wider
/// prefixes](Self::prefix) hold it together.
///
/// A request without a [peer](Head::peer) is an error. It shares no bucket.
#[derive(Clone, Debug)]
pub struct PerClient<T = Arc<KeyedLimiter<ClientAddress>>> {
    limits: T,
    proxies: Option<TrustedProxies>,
    ipv6_prefix: u32,
    prefixes: Option<PrefixLimits<T>>,
}

impl<T: KeyedLimit<ClientAddress>> PerClient<T> {
    /// Creates a limit from an `Arc` of a limiter, or from a [`KeyedLimit`] of your own.
    ///
    /// Keep the `Arc` to inspect the limiter or to change its quota.
    pub fn new(limits: T) -> Self {
        Self { limits, proxies: None, ipv6_prefix: ClientAddress::IPV6_PREFIX, prefixes: None }
    }
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> PerClient<Arc<KeyedLimiter<ClientAddress, C, S, A>>> {
    /// Adds a limit for each IPv6 prefix of `bits`, in a limiter that you keep; more than 128 are 128.
    ///
    /// Default: none.
    ///
    /// A request takes a token of its client's limit and of the limits of all prefixes that it is in, or of none. They
    /// are asked in their order, the client's own first and the shortest prefix last; when one refuses, those before it
    /// get back what they gave, less what has been refilled since. Headers report the limit that has the fewest tokens
    /// left, or of those that refuse the one with the longest wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::{PerClient, RateLimitLayer};
    /// use damper::{KeyedLimiter, Quota};
    /// use std::sync::Arc;
    ///
    /// let each = Arc::new(KeyedLimiter::builder(Quota::per_second(50)).capacity(100_000).build()?);
    /// let networks = Arc::new(KeyedLimiter::builder(Quota::per_second(500)).capacity(50_000).build()?);
    /// let layer = RateLimitLayer::new(PerClient::new(each).prefix(48, Arc::clone(&networks)));
    /// networks.set_quota(Quota::per_second(400))?;
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn prefix(mut self, bits: u32, limits: Arc<KeyedLimiter<ClientAddress, C, S, A>>) -> Self {
        self.add_prefix(Prefix::V6(bits), limits);
        self
    }

    /// Adds a limit for each IPv4 prefix of `bits`, as [`prefix`](Self::prefix) does for IPv6; more than 32 are 32.
    #[must_use]
    pub fn prefix_v4(mut self, bits: u32, limits: Arc<KeyedLimiter<ClientAddress, C, S, A>>) -> Self {
        self.add_prefix(Prefix::V4(bits), limits);
        self
    }

    pub(crate) fn add_prefix(&mut self, prefix: Prefix, limits: Arc<KeyedLimiter<ClientAddress, C, S, A>>) {
        self.prefixes.get_or_insert_with(PrefixLimits::new).add(prefix, limits);
    }
}

impl PerClient {
    /// Returns a limit of the same clients and prefixes with other limits.
    ///
    /// `limits` maps a limit, of the given prefix or of clients themselves.
    pub(super) fn with_limits(
        &self,
        limits: impl Fn(&KeyedLimiter<ClientAddress>, Option<Prefix>) -> Arc<KeyedLimiter<ClientAddress>>,
    ) -> Self {
        Self {
            limits: limits(&self.limits, None),
            proxies: self.proxies.clone(),
            ipv6_prefix: self.ipv6_prefix,
            prefixes: self
                .prefixes
                .as_ref()
                .map(|prefixes| prefixes.map(|of_prefix, prefix| limits(of_prefix, Some(prefix)))),
        }
    }
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> PerClient<Local<C, S, A>> {
    /// Returns the same limit, which writes the decision on each request into a log.
    pub(super) fn into_logged<D, G>(self, log: G) -> PerClient<Logged<Local<C, S, A>, G>>
    where
        D: Clock,
        G: Deref<Target = DecisionLog<D>> + Clone,
    {
        let Self { limits, proxies, ipv6_prefix, prefixes } = self;
        let prefixes = prefixes.map(|prefixes| prefixes.map(|limits, _| Logged::new(Arc::clone(limits), log.clone())));
        PerClient { limits: Logged::new(limits, log), proxies, ipv6_prefix, prefixes }
    }
}

impl<T> PerClient<T> {
    /// Trusts these proxies to report the client's address on their connections. Default: none.
    #[must_use]
    pub fn behind(self, proxies: TrustedProxies) -> Self {
        Self { proxies: Some(proxies), ..self }
    }

    /// Sets by how many bits IPv6 addresses are grouped; more than 128 are 128. Default: 64.
    #[must_use]
    pub fn ipv6_prefix(self, bits: u32) -> Self {
        Self { ipv6_prefix: bits, ..self }
    }

    #[inline]
    fn address(&self, head: &Head<'_>) -> Option<IpAddr> {
        let peer = head.peer_ip()?;
        Some(match &self.proxies {
            Some(proxies) => proxies.client_of(peer, head.headers),
            None => peer,
        })
    }

    /// Calls this for the limit of each group that a request's client is in, with the group.
    pub(super) fn for_each_limit(&self, head: &Head<'_>, call: impl Fn(&T, ClientAddress)) {
        let Some(address) = self.address(head) else { return };
        call(&self.limits, self.client(address));
        if let Some(prefixes) = &self.prefixes {
            prefixes.for_each_limit(address, call);
        }
    }

    #[inline]
    fn client(&self, address: IpAddr) -> ClientAddress {
        ClientAddress::with_ipv6_prefix(address, self.ipv6_prefix)
    }
}

impl<T: KeyedLimit<ClientAddress>> Limit for PerClient<T> {
    type Future = T::Future;

    #[inline]
    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        match (self.address(head), &self.prefixes) {
            (Some(address), None) => self.limits.decide(&self.client(address), cost, detail),
            (Some(address), Some(prefixes)) => {
                LimitDecision::from(prefixes.decide(&self.limits, self.client(address), address, cost, detail))
            }
            (None, _) => LimitDecision::Refuse(Refusal::MissingPeer),
        }
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        match (self.address(head), &self.prefixes) {
            (Some(address), None) => self.limits.forecast(&self.client(address), cost),
            (Some(address), Some(prefixes)) => prefixes.forecast(&self.limits, self.client(address), address, cost),
            (None, _) => Forecast::Refuse(Refusal::MissingPeer),
        }
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        self.address(head).map(|address| self.client(address).to_string())
    }
}

/// The limits of wider prefixes have the label `prefix`.
#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source> damper_metrics::Source for PerClient<T> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.limits.read(readings);
        if let Some(prefixes) = &self.prefixes {
            prefixes.read(readings);
        }
    }
}

impl LimitedByTable for PerClient {
    type Key = ClientAddress;

    fn limits_mut(&mut self) -> &mut Arc<KeyedLimiter<ClientAddress>> {
        &mut self.limits
    }
}
