//! Layers with a limit for each client, header value or key.

use super::RateLimitLayer;
use super::settings::{LimiterOrigin, RateLimitSettings};
use crate::Head;
use crate::limit::{
    ByHeader, ByKey, LimitedByTable, PerClient, Prefix, RateLimitCapacityError, limits_for_each, resize,
};
use crate::wire::TrustedProxies;
use alloc::sync::Arc;
use core::hash::Hash;
use damper_core::keyed::KeyedLimiter;
use damper_core::quota::Quota;
use http::HeaderName;

impl RateLimitLayer<PerClient> {
    /// Creates a layer with a limit for each client address.
    ///
    /// It knows the 8192 busiest of them unless a [capacity](Self::capacity) is set.
    ///
    /// The address is the peer's; IPv6 addresses are grouped by their first 64 bits. Behind proxies, set
    /// [which](Self::behind).
    ///
    /// The server has to add the peer's address, see [`Head::peer`]. A request without one gets `500 Internal Server
    /// Error`. The source of [`Refusal::MissingPeer`](crate::Refusal::MissingPeer) says what the server has to add: it is
    /// logged with the feature `tracing`, counted with `metrics`, and passed to [`on_error`](Self::on_error).
    #[must_use]
    pub fn per_client(quota: Quota) -> Self {
        Self::with_table(PerClient::new(limits_for_each(quota)))
    }

    /// Adds a limit for each IPv6 prefix of `bits`, of which the 8192 busiest are known.
    ///
    /// More than 128 are 128. Default: none.
    ///
    /// One network may own many prefixes of 64 bits: 65,536 in a /48. A request takes a token of its client's limit and
    /// of the limits of all prefixes that it is in, or of none. When one refuses, the narrower ones get back what they
    /// gave. Headers report the limit that has the fewest tokens left, or of those that refuse the one with the longest
    /// wait. For a limiter that you keep, or of another capacity, see [`PerClient::prefix`].
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::per_client(Quota::per_second(50).burst(100))
    ///     .prefix(48, Quota::per_second(500))
    ///     .prefix_v4(24, Quota::per_second(500));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn prefix(self, bits: u32, quota: Quota) -> Self {
        self.with(|settings| settings.limit.add_prefix(Prefix::V6(bits), limits_for_each(quota)))
    }

    /// Adds a limit for each IPv4 prefix of `bits`, as [`prefix`](Self::prefix) does for IPv6; more than 32 are 32.
    #[must_use]
    pub fn prefix_v4(self, bits: u32, quota: Quota) -> Self {
        self.with(|settings| settings.limit.add_prefix(Prefix::V4(bits), limits_for_each(quota)))
    }
}

impl<F: Fn(&Head<'_>) -> K, K: Hash> RateLimitLayer<ByKey<F, Arc<KeyedLimiter<K>>>> {
    /// Creates a layer with a limit for each key that a closure returns.
    ///
    /// It knows the 8192 busiest keys unless a [capacity](Self::capacity) is set.
    ///
    /// A key is anything that can be hashed. All requests for which an `Option` is `None` share a bucket.
    ///
    /// # Examples
    ///
    /// Each user on each path:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    ///
    /// #[derive(Clone, Hash)]
    /// struct User(u64);
    ///
    /// let layer = RateLimitLayer::by(
    ///     |head| (head.extensions.get::<User>().cloned(), head.uri.path().to_owned()),
    ///     Quota::per_minute(30),
    /// );
    /// # let _ = layer;
    /// ```
    pub fn by(key: F, quota: Quota) -> Self {
        Self::with_table(ByKey::new(key, limits_for_each(quota)))
    }
}

impl RateLimitLayer<ByHeader> {
    /// Creates a layer with a limit for each value of a header, such as an API key.
    ///
    /// It knows the 8192 busiest values unless a [capacity](Self::capacity) is set.
    ///
    /// Requests without the header share a bucket. A client that controls the header can evade the limit, so use one
    /// that is verified before or that a proxy writes.
    ///
    /// With the feature `tracing`, the log of a refusal has the value in clear, at the level debug. If the header holds a secret, such as
    /// `Authorization`, mark its value as [sensitive](http::HeaderValue::set_sensitive) before. Then the log leaves it out.
    #[must_use]
    pub fn by_header(name: HeaderName, quota: Quota) -> Self {
        Self::with_table(ByHeader::new(name, limits_for_each(quota)))
    }
}

impl<L: LimitedByTable> RateLimitLayer<L> {
    /// Creates a layer with a limit that it has built.
    fn with_table(limit: L) -> Self {
        Self { settings: Arc::new(RateLimitSettings::new(limit, LimiterOrigin::Layer)), peer: None }
    }

    /// Sets for how many busy clients, header values or keys there is room; 1 to 2^28. Default: 8192.
    ///
    /// This is [`KeyedLimiterBuilder::capacity`](damper_core::keyed::KeyedLimiterBuilder::capacity), which says how much
    /// memory it takes. Limits of wider [prefixes](RateLimitLayer::prefix) keep theirs.
    ///
    /// # Errors
    ///
    /// [`RateLimitCapacityError`] if the capacity is out of range, if the layer was cloned or has made services, which
    /// share its limiter, or if the limiter was passed to [`new`](RateLimitLayer::new).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::per_client(Quota::per_second(50).burst(100)).capacity(100_000)?;
    /// # let _ = layer;
    /// # Ok::<(), damper::http::RateLimitCapacityError>(())
    /// ```
    pub fn capacity(mut self, keys: usize) -> Result<Self, RateLimitCapacityError> {
        let settings = Arc::get_mut(&mut self.settings).ok_or(RateLimitCapacityError::Shared)?;
        match settings.origin {
            LimiterOrigin::Layer => resize(settings.limit.limits_mut(), keys)?,
            LimiterOrigin::Caller => return Err(RateLimitCapacityError::Given),
        }
        Ok(self)
    }
}

impl<T: Clone> RateLimitLayer<PerClient<T>> {
    /// Trusts these proxies to report the client's address on their connections.
    ///
    /// Default: no proxy is trusted.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::http::RateLimitLayer;
    /// use damper::wire::TrustedProxies;
    ///
    /// let layer = RateLimitLayer::per_client(Quota::per_second(50)).behind(TrustedProxies::new(["10.0.0.0/8"])?);
    /// # let _ = layer;
    /// # Ok::<(), damper::InvalidText>(())
    /// ```
    #[must_use]
    pub fn behind(self, proxies: TrustedProxies) -> Self {
        self.with(|settings| settings.limit = settings.limit.clone().behind(proxies))
    }

    /// Sets by how many bits IPv6 addresses are grouped; more than 128 are 128.
    ///
    /// Default: 64, what a home or a host is given.
    #[must_use]
    pub fn ipv6_prefix(self, bits: u32) -> Self {
        self.with(|settings| settings.limit = settings.limit.clone().ipv6_prefix(bits))
    }
}
