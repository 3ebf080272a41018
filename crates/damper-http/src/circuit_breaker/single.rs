//! One breaker for all requests, with telemetry.

use super::layer_listener::LayerListener;
use crate::telemetry::{Kind, Telemetry};
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use damper_core::breaker::{
    BreakerConfig, CircuitBreaker, CircuitOpen, KeyListener, OnStateChange, SetConfigError, StateChange,
};
use damper_core::gate::{AnswerOf, Ask, AtOnce, Forecast, Gate};
use damper_core::time::{Clock, DefaultClock, Monotonic};

/// One breaker for all requests, whose calls are counted and logged under a name. Clones share it.
///
/// It is built as below, or made of a breaker in a `static` or an `Arc` by
/// [`CircuitBreakerLayer::named`](super::CircuitBreakerLayer::named).
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
#[derive(Clone)]
pub struct Single<B = Arc<CircuitBreaker<DefaultClock, KeyListener<String>>>> {
    breaker: B,
    telemetry: Telemetry,
}

impl<B> Single<B> {
    pub(super) fn of(breaker: B, name: &str) -> Self {
        Self { breaker, telemetry: Telemetry::new(Kind::Breaker, name) }
    }
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
    pub fn breaker(&self) -> &Arc<CircuitBreaker<DefaultClock, KeyListener<String>>> {
        &self.breaker
    }

    /// Changes the configuration while the breaker is used.
    ///
    /// As with [`CircuitBreaker::set_config`], it keeps its state.
    ///
    /// # Errors
    ///
    /// [`SetConfigError::Busy`] if another thread is changing it.
    pub fn set_config(&self, config: &BreakerConfig) -> Result<(), SetConfigError> {
        self.breaker.set_config(config)
    }
}

#[cfg(feature = "metrics")]
impl<B: damper_metrics::Source> damper_metrics::Source for Single<B> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.breaker.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl<B: damper_metrics::Source> damper_metrics::NamedSource for Single<B> {
    fn name(&self) -> &str {
        self.telemetry.name()
    }
}

/// It is ready to refuse: an open breaker answers before the service is.
impl<B: AtOnce + Gate<Refusal = CircuitOpen>> Gate for Single<B> {
    type Permit = B::Permit;
    type Refusal = CircuitOpen;
    type Wait = B::Wait;

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.breaker.refusal()
    }

    fn refused_unasked(&self, open: &CircuitOpen) {
        self.telemetry.record_open(open);
    }
}

impl<Q, B, C, L> Ask<Q> for Single<B>
where
    Q: ?Sized,
    B: Ask<Q> + AtOnce + Gate<Refusal = CircuitOpen> + Deref<Target = CircuitBreaker<C, L>>,
    C: Clock,
    L: OnStateChange,
{
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let permit = self.breaker.ask(call).into_result();
        self.telemetry.record_call(&permit, || self.breaker.state());
        permit.into()
    }

    fn forecast(&self, call: &Q) -> Forecast<CircuitOpen> {
        self.breaker.forecast(call)
    }
}

impl<B: fmt::Debug> fmt::Debug for Single<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single").field("breaker", &self.breaker).finish_non_exhaustive()
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
        let Self { config, listener } = self;
        let telemetry = listener.telemetry.clone();
        // One breaker for all hosts has no key.
        let listener = KeyListener::new(String::new(), move |change, host: &String| listener.report(change, host));
        Single { breaker: Arc::new(CircuitBreaker::with_clock(config, Monotonic).with_listener(listener)), telemetry }
    }
}
