//! A breaker per host, with telemetry.

use super::layer_listener::LayerListener;
use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use damper_core::OutOfRange;
use damper_core::breaker::{
    BreakerConfig, CircuitBreaker, CircuitOpen, KeyListener, KeyedCircuitBreaker, Permit, SetConfigError, StateChange,
};
use damper_core::gate::{AnswerOf, Ask, Forecast, Gate, Never};
use damper_core::internal::keyed_breakers;
use damper_core::store::BoundedStore;
use damper_core::time::{DefaultClock, Seed};

/// A breaker per host and port, for the hosts that were called last.
///
/// All are counted and logged under one name. Clones share them.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::BreakerConfig;
/// use damper::http::{CircuitBreakerLayer, PerHost};
///
/// let hosts = PerHost::builder(BreakerConfig::default())
///     .named("upstreams")
///     .capacity(64)
///     .on_state_change(|change, host| eprintln!("{host}: {change}"))
///     .build()?;
/// // api.example.com:443: circuit closed -> open: consecutive failures
/// let layer = CircuitBreakerLayer::new(hosts);
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Debug)]
pub struct PerHost(Arc<PerHostInner>);

/// In one `Arc`, because services are cloned often.
#[derive(Debug)]
struct PerHostInner {
    hosts: KeyedCircuitBreaker<String, DefaultClock, Seed, KeyListener<String>>,
    listener: Arc<LayerListener>,
}

impl PerHost {
    /// Returns a builder for breakers of this configuration.
    pub fn builder(config: BreakerConfig) -> PerHostBuilder {
        PerHostBuilder { config, capacity: None, listener: LayerListener::unnamed() }
    }

    /// Creates breakers with the defaults of the builder, for a layer.
    pub(super) fn with_defaults(config: BreakerConfig) -> Self {
        Self::of(BoundedStore::default(), config, LayerListener::unnamed())
    }

    fn of(store: BoundedStore<String, CircuitBreaker>, config: BreakerConfig, listener: LayerListener) -> Self {
        let listener = Arc::new(listener);
        let of_layer = Arc::clone(&listener);
        let hosts = keyed_breakers(store, config).on_state_change(move |change, host| of_layer.report(change, host));
        Self(Arc::new(PerHostInner { hosts, listener }))
    }

    /// Returns the breaker of a host, which is created if there is none: to control it and to look at it.
    ///
    /// The host is in lower case and has its port, as in logs and callbacks: `api.example.com:443`. A breaker that was evicted is
    /// forgotten, so do not keep it.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
    /// use damper::BreakerConfig;
    /// use damper::http::{CircuitBreakerLayer, PerHost};
    /// use std::time::Duration;
    ///
    /// let hosts = PerHost::builder(BreakerConfig::default()).build()?;
    /// let layer = CircuitBreakerLayer::new(hosts.clone());
    /// hosts.breaker("api.example.com:443").trip_for(Duration::from_secs(600)); // its maintenance
    /// # let _ = layer;
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    #[must_use]
    pub fn breaker(&self, host: &str) -> Arc<CircuitBreaker<DefaultClock, KeyListener<String>>> {
        self.0.hosts.get_or_create(host)
    }

    /// Returns the breakers of all hosts: to control them and to look at them.
    #[must_use]
    pub fn breakers(&self) -> &KeyedCircuitBreaker<String, DefaultClock, Seed, KeyListener<String>> {
        &self.0.hosts
    }

    /// Changes the configuration of all breakers, also of those that come later, while they are used.
    ///
    /// As [`KeyedCircuitBreaker::set_config`]: each keeps its state.
    ///
    /// # Errors
    ///
    /// [`SetConfigError::Busy`] if another thread is changing it.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
    /// use damper::BreakerConfig;
    /// use damper::http::{CircuitBreakerLayer, PerHost};
    ///
    /// let hosts = PerHost::builder(BreakerConfig::default()).build()?;
    /// let layer = CircuitBreakerLayer::new(hosts.clone());
    /// hosts.set_config(&BreakerConfig::builder().failure_threshold(10).build()?)?;
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_config(&self, config: &BreakerConfig) -> Result<(), SetConfigError> {
        self.0.hosts.set_config(config)
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for PerHost {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.0.hosts.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::NamedSource for PerHost {
    fn name(&self) -> &str {
        self.0.listener.telemetry.name()
    }
}

impl Gate for PerHost {
    type Permit = Permit<Arc<CircuitBreaker<DefaultClock, KeyListener<String>>>>;
    type Refusal = CircuitOpen;
    type Wait = Never<Self::Permit, CircuitOpen>;
}

impl Ask<Head<'_>> for PerHost {
    fn ask(&self, head: &Head<'_>) -> AnswerOf<Self> {
        let breaker = head.with_host(|host| self.breaker(host));
        let permit = breaker.try_acquire_owned();
        self.0.listener.telemetry.record_call(&permit, || breaker.state());
        permit.into()
    }

    /// The first call to a host passes, because its breaker is closed.
    fn forecast(&self, head: &Head<'_>) -> Forecast<CircuitOpen> {
        head.with_host(|host| self.0.hosts.inspect(host, CircuitBreaker::refusal)).flatten().into()
    }
}

/// Builds [`PerHost`] breakers. Made by [`PerHost::builder`].
#[derive(Debug)]
#[must_use = "builders do nothing until `build`"]
pub struct PerHostBuilder {
    config: BreakerConfig,
    capacity: Option<usize>,
    listener: LayerListener,
}

impl PerHostBuilder {
    /// Sets the name in logs and metrics. Default: `default`.
    pub fn named(self, name: &str) -> Self {
        Self { listener: self.listener.named(name), ..self }
    }

    /// Sets how many hosts are kept at most. Default: 1024.
    pub fn capacity(self, hosts: usize) -> Self {
        Self { capacity: Some(hosts), ..self }
    }

    /// Registers a callback for state changes, which gets the host and port, such as `api.example.com:443`.
    ///
    /// Default: none.
    pub fn on_state_change(self, callback: impl Fn(StateChange, &str) + Send + Sync + 'static) -> Self {
        Self { listener: self.listener.with_callback(callback), ..self }
    }

    /// Builds the breakers.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the capacity is not 1 to 2^28.
    pub fn build(self) -> Result<PerHost, OutOfRange> {
        let hosts = self.capacity.map_or_else(|| Ok(BoundedStore::default()), BoundedStore::new)?;
        Ok(PerHost::of(hosts, self.config, self.listener))
    }
}
