//! A limit for each client address.

use super::{Answer, Decision, Limit, by_key};
use crate::clock::{Clock, DefaultClock};
use crate::http::{Head, MissingPeer};
use crate::keyed::{ClientAddress, KeyedLimiter, Seed};
use crate::limit::{KeyedAlgorithm, TokenBucket};
use crate::wire::TrustedProxies;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::future::Ready;
use core::hash::BuildHasher;

/// A limit for each client address: the peer's, or behind [`TrustedProxies`] that which these tell. IPv6 addresses are
/// grouped by their prefix.
///
/// A request that does not tell its [peer](Head::peer) is an error, and not limited together with others.
pub struct PerClient<C = DefaultClock, S = Seed, A = TokenBucket> {
    limits: Arc<KeyedLimiter<ClientAddress, C, S, A>>,
    proxies: Option<TrustedProxies>,
    ipv6_prefix: u32,
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> PerClient<C, S, A> {
    /// In a limiter that you keep to look at it, or to change its quota.
    pub fn new(limits: Arc<KeyedLimiter<ClientAddress, C, S, A>>) -> Self {
        Self { limits, proxies: None, ipv6_prefix: ClientAddress::IPV6_PREFIX }
    }

    pub(in crate::http) fn behind(&mut self, proxies: TrustedProxies) {
        self.proxies = Some(proxies);
    }

    pub(in crate::http) fn ipv6_prefix(&mut self, bits: u32) {
        self.ipv6_prefix = bits;
    }

    #[inline]
    fn client(&self, head: &Head<'_>) -> Result<ClientAddress, MissingPeer> {
        let peer = head.peer_ip().ok_or(MissingPeer)?;
        let address = match &self.proxies {
            Some(proxies) => proxies.client_of(peer, head.headers),
            None => peer,
        };
        Ok(ClientAddress::with_ipv6_prefix(address, self.ipv6_prefix))
    }
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> Limit for PerClient<C, S, A> {
    type Later = Ready<Answer>;

    #[inline]
    fn decide(&self, head: &Head<'_>, tell: bool) -> Decision<Self::Later> {
        match self.client(head) {
            Ok(client) => by_key::decide(&self.limits, &client, tell),
            Err(missing) => Decision::Now(Err(missing.into())),
        }
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        self.client(head).ok().map(|client| client.to_string())
    }

    fn evictions(&self) -> u64 {
        self.limits.evictions()
    }
}

/// Clones share the limits.
impl<C, S, A> Clone for PerClient<C, S, A> {
    fn clone(&self) -> Self {
        Self { limits: Arc::clone(&self.limits), proxies: self.proxies.clone(), ipv6_prefix: self.ipv6_prefix }
    }
}

impl<C: fmt::Debug, S, A> fmt::Debug for PerClient<C, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerClient")
            .field("limits", &self.limits)
            .field("proxies", &self.proxies)
            .field("ipv6_prefix", &self.ipv6_prefix)
            .finish()
    }
}
