//! One breaker for all requests, with telemetry.

use super::host_listener::{HostListener, LayerListener};
use crate::Head;
use alloc::sync::Arc;
use damper_core::breaker::{BreakerConfig, CircuitBreaker, CircuitOpen, Permit, SetConfigError, StateChange};
use damper_core::gate::{AnswerOf, Ask, Forecast, Gate, Never};
use damper_core::time::{DefaultClock, Monotonic};

/// One breaker for all requests, which is counted and logged under a name. Clones share it.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::BreakerConfig;
/// use damper::http::{CircuitBreakerLayer, Single};
///
/// let payments = Single::builder(BreakerConfig::default())
///     .named("payments")
///     .on_state_change(|change| eprintln!("{change}")) // circuit closed -> open: consecutive failures
///     .build();
/// let layer = CircuitBreakerLayer::new(payments);
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
pub struct Single(Arc<SingleInner>);

/// In one `Arc`, because services are cloned often.
#[derive(Debug)]
struct SingleInner {
    breaker: Arc<CircuitBreaker<DefaultClock, HostListener>>,
    listener: Arc<LayerListener>,
}

impl Single {
    /// Returns a builder for a breaker of this configuration.
    pub fn builder(config: BreakerConfig) -> SingleBuilder {
        SingleBuilder { config, listener: LayerListener::unnamed() }
    }

    /// Returns the breaker: to control it and to look at it.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
    /// use damper::BreakerConfig;
    /// use damper::http::{CircuitBreakerLayer, Single};
    /// use std::time::Duration;
    ///
    /// let payments = Single::builder(BreakerConfig::default()).named("payments").build();
    /// let layer = CircuitBreakerLayer::new(payments.clone());
    /// payments.breaker().trip_for(Duration::from_secs(600)); // its maintenance
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn breaker(&self) -> &Arc<CircuitBreaker<DefaultClock, HostListener>> {
        &self.0.breaker
    }

    /// Changes the configuration while the breaker is used.
    ///
    /// As with [`CircuitBreaker::set_config`], it keeps its state.
    ///
    /// # Errors
    ///
    /// [`SetConfigError::Busy`] if another thread is changing it.
    pub fn set_config(&self, config: &BreakerConfig) -> Result<(), SetConfigError> {
        self.0.breaker.set_config(config)
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for Single {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.0.breaker.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::NamedSource for Single {
    fn name(&self) -> &str {
        self.0.listener.telemetry.name()
    }
}

/// It is ready to refuse: an open breaker answers before the service is.
impl Gate for Single {
    type Permit = Permit<Arc<CircuitBreaker<DefaultClock, HostListener>>>;
    type Refusal = CircuitOpen;
    type Wait = Never<Self::Permit, CircuitOpen>;

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.0.breaker.refusal()
    }

    fn refused_unasked(&self, open: &CircuitOpen) {
        self.0.listener.telemetry.record_open(open);
    }
}

impl Ask<Head<'_>> for Single {
    #[inline]
    fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
        let SingleInner { breaker, listener } = &*self.0;
        let permit = breaker.try_acquire_owned();
        listener.telemetry.record_call(&permit, || breaker.state());
        permit.into()
    }

    fn forecast(&self, _: &Head<'_>) -> Forecast<CircuitOpen> {
        self.0.breaker.refusal().into()
    }
}

/// Builds a [`Single`]. Made by [`Single::builder`].
#[derive(Debug)]
#[must_use = "builders do nothing until `build`"]
pub struct SingleBuilder {
    config: BreakerConfig,
    listener: LayerListener,
}

impl SingleBuilder {
    /// Sets the name in logs and metrics. Default: `default`.
    pub fn named(self, name: &str) -> Self {
        Self { listener: self.listener.named(name), ..self }
    }

    /// Registers a callback for state changes. Default: none.
    pub fn on_state_change(self, callback: impl Fn(StateChange) + Send + Sync + 'static) -> Self {
        Self { listener: self.listener.with_callback(move |change, _| callback(change)), ..self }
    }

    /// Builds the breaker.
    #[must_use]
    pub fn build(self) -> Single {
        let listener = Arc::new(self.listener);
        let breaker = CircuitBreaker::with_clock(self.config, Monotonic);
        let breaker = Arc::new(breaker.with_listener(HostListener::new("", &listener)));
        Single(Arc::new(SingleInner { breaker, listener }))
    }
}
