//! The layer of each section, with the name of the section in metrics and logs.

#[cfg(feature = "tokio")]
use super::ConfiguredPacers;
use crate::settings::CircuitBreakerSettings;
#[cfg(all(feature = "tower", feature = "tokio"))]
use crate::settings::ClientRateLimitSettings;
use crate::settings::ThrottleSettings;
#[cfg(feature = "tokio")]
use crate::settings::{
    AdaptiveLimitSettings, AdmissionSettings, BulkheadSettings, ClientDeadlineSettings, HedgeSettings, PacingSettings,
    RetrySettings, ServerDeadlineSettings,
};
use damper_core::OutOfRange;
#[cfg(feature = "tokio")]
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, FixedLimit, ProbedGradient};
use damper_core::gate::PerKey;
#[cfg(feature = "tokio")]
use damper_core::gate::Waits;
#[cfg(all(feature = "tower", feature = "tokio"))]
use damper_core::limit::RateLimiter;
#[cfg(feature = "tokio")]
use damper_core::retry::Budget;
#[cfg(feature = "tokio")]
use damper_core::setting::Setting;
#[cfg(feature = "tokio")]
use damper_core::time::{DefaultClock, TokioSleep};
#[cfg(feature = "tokio")]
use damper_http::internal::{Repeating, Unjudged};
#[cfg(feature = "tokio")]
use damper_http::{
    AdmissionLayer, BulkheadPerHost, ClientConcurrencyLayer, ClientDeadlineLayer, ConcurrencyLayer, DeadlineLayer,
    HedgeLayer, HttpProtocol, HttpRetries, PacingLayer, RequestDeadline, RetryLayer,
};
use damper_http::{CircuitBreakerLayer, PerHost, TargetHost, ThrottleLayer, ThrottlePerHost};
#[cfg(all(feature = "tower", feature = "tokio"))]
use damper_tower::{GateLayer, OkOrErr, PlainLayer};
use std::sync::Arc;
#[cfg(feature = "tokio")]
use std::time::Duration;

#[cfg(feature = "http")]
impl CircuitBreakerSettings {
    /// Builds a breaker for each host, for `CircuitBreakerLayer::new` and for [`Reloader::bind`](crate::Reloader::bind).
    ///
    /// Their name in metrics and logs is that of the [section](Self::name).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    pub fn breakers(&self) -> Result<PerHost, OutOfRange> {
        self.breakers_named(self.name())
    }

    /// Builds a breaker for each host, with this name in metrics and logs.
    pub(super) fn breakers_named(&self, name: &str) -> Result<PerHost, OutOfRange> {
        PerHost::builder(self.config()).named(name).capacity(self.max_hosts as usize).build()
    }

    /// Builds a layer for an HTTP client, with a breaker for each host.
    ///
    /// To be able to reload it, build the [`breakers`](Self::breakers) instead.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    pub fn layer(&self) -> Result<CircuitBreakerLayer<PerHost>, OutOfRange> {
        self.breakers().map(CircuitBreakerLayer::new)
    }
}

#[cfg(feature = "http")]
impl ThrottleSettings {
    /// Builds a layer for an HTTP client, with a throttle for each host.
    #[must_use]
    pub fn layer(&self) -> ThrottleLayer<ThrottlePerHost> {
        ThrottleLayer::new(PerKey::new(TargetHost, Arc::new(self.per_host()))).named(self.name())
    }
}

#[cfg(feature = "tokio")]
impl ServerDeadlineSettings {
    /// Builds a layer for a server.
    ///
    /// To be able to reload it, give the [timeout](Self::timeout) in an `Arc` of a `Live` to `DeadlineLayer::new` instead.
    #[must_use]
    pub fn layer(&self) -> DeadlineLayer<TokioSleep> {
        DeadlineLayer::new(self.timeout).named(self.name())
    }
}

#[cfg(feature = "tokio")]
impl ClientDeadlineSettings {
    /// Builds a layer for the deadline of whole calls.
    ///
    /// To be able to reload it, give the [timeout](Self::timeout) in an `Arc` of a `Live` to `ClientDeadlineLayer::new` instead.
    #[must_use]
    pub fn layer(&self) -> ClientDeadlineLayer<TokioSleep> {
        ClientDeadlineLayer::new(self.timeout).named(self.name())
    }
}

#[cfg(feature = "tokio")]
impl RetrySettings {
    /// Builds a layer for an HTTP client that takes its retries from this budget: a reference, or an `Arc`.
    pub fn layer<B: Budget>(&self, budget: B) -> RetryLayer<DefaultClock, B, HttpRetries, TokioSleep> {
        RetryLayer::new(self.retry().budget(budget))
    }
}

#[cfg(feature = "tokio")]
impl HedgeSettings {
    /// Builds a layer for an HTTP client that takes its extra attempts from this budget.
    ///
    /// The budget is a reference or an `Arc`, shared with the retries.
    pub fn layer<B: Budget>(&self, budget: B) -> HedgeLayer<DefaultClock, B, HttpRetries, TokioSleep> {
        HedgeLayer::new(self.hedge().budget(budget))
    }
}

/// A pacing layer that retries rejected calls itself.
#[cfg(feature = "tokio")]
type PacingAlone<B> = PacingLayer<ConfiguredPacers, HttpProtocol, Repeating<B, HttpRetries<Unjudged>, TokioSleep>>;

#[cfg(feature = "tokio")]
impl PacingSettings {
    /// Builds a layer for an HTTP client that paces calls and retries rejected ones.
    ///
    /// It takes its retries from this budget: a reference, or an `Arc`. Inside another retry layer, add `without_retries()`. For gRPC, add
    /// `protocol(Grpc::new())`.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::Sources;
    /// use std::sync::Arc;
    ///
    /// let text = "[client.http]\npacing = { quota = '4500/h', max_time = '30s' }";
    /// let client = Sources::new().toml("app.toml", text).load()?.client.http;
    /// let layer = client.pacing.layer(Arc::new(client.retry_budget.budget()))?;
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn layer<B: Budget>(&self, budget: B) -> Result<PacingAlone<B>, OutOfRange> {
        Ok(PacingLayer::new(self.pacers()?).retry(self.retry(budget)).named(self.name()))
    }
}

#[cfg(all(feature = "tower", feature = "tokio"))]
impl ClientRateLimitSettings {
    /// Builds a layer for a client, with one limit for all calls.
    ///
    /// Calls wait for [`max_wait`](Self::max_wait) at most. To be able to reload it, give the [limiter](Self::limiter) in an `Arc` to
    /// `GateLayer::limit(..).waiting(settings.max_wait())` instead.
    #[must_use]
    pub fn layer(&self) -> PlainLayer<Waits<Arc<RateLimiter>, TokioSleep>, OkOrErr> {
        GateLayer::limit(Arc::new(self.limiter())).waiting(self.max_wait())
    }
}

/// A gate at which requests wait until their deadlines at most.
#[cfg(feature = "tokio")]
type Waiting<G> = Waits<G, TokioSleep, RequestDeadline>;

/// Lets requests wait at a gate for at most `longest`.
#[cfg(feature = "tokio")]
pub(super) fn waiting<G>(gate: G, longest: impl Into<Setting<Duration>>) -> Waiting<G> {
    Waits::new(gate, longest, TokioSleep).time_left(RequestDeadline)
}

#[cfg(feature = "tokio")]
impl BulkheadSettings {
    /// Lets requests wait at a gate that has been built from these settings.
    fn waiting<G>(&self, gate: G) -> Waiting<G> {
        waiting(gate, self.max_wait)
    }

    /// Builds a layer for a server.
    ///
    /// Requests wait for [`max_wait`](Self::max_wait) at most. To be able to reload it, give the [bulkhead](Self::bulkhead) in an `Arc` to
    /// `ConcurrencyLayer::new(..).waiting(max_wait)` instead, with the longest wait in an `Arc` of a `Live`. Bind both, in a tuple.
    #[must_use]
    pub fn layer(&self) -> ConcurrencyLayer<Waiting<Arc<Bulkhead>>> {
        ConcurrencyLayer::new(self.waiting(Arc::new(self.bulkhead()))).named(self.name())
    }

    /// Builds a layer for a client, with one bulkhead for all calls.
    ///
    /// Calls wait for [`max_wait`](Self::max_wait) at most.
    #[must_use]
    pub fn client_layer(&self) -> ClientConcurrencyLayer<Waiting<Arc<Bulkhead>>> {
        ClientConcurrencyLayer::new(self.waiting(Arc::new(self.bulkhead()))).named(self.name())
    }

    /// Builds a layer for a client, with a bulkhead for each host.
    ///
    /// Calls wait for [`max_wait`](Self::max_wait) at most.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    pub fn client_layer_per_host(&self) -> Result<ClientConcurrencyLayer<Waiting<BulkheadPerHost>>, OutOfRange> {
        let limit = self.waiting(PerKey::new(TargetHost, Arc::new(self.per_key()?)));
        Ok(ClientConcurrencyLayer::new(limit).named(self.name()))
    }
}

#[cfg(feature = "tokio")]
impl AdaptiveLimitSettings {
    /// Builds a layer for a server.
    ///
    /// To be able to reload it, give the [limit](Self::limit) in an `Arc` to `ConcurrencyLayer::new` instead.
    #[must_use]
    pub fn layer(&self) -> ConcurrencyLayer<Arc<AdaptiveLimit>> {
        ConcurrencyLayer::new(Arc::new(self.limit())).named(self.name())
    }

    /// Builds a layer for a client, with one limit for all calls.
    #[must_use]
    pub fn client_layer(&self) -> ClientConcurrencyLayer<Arc<AdaptiveLimit>> {
        ClientConcurrencyLayer::new(Arc::new(self.limit())).named(self.name())
    }
}

#[cfg(feature = "tokio")]
impl AdmissionSettings {
    /// Builds a layer for a server, with an [adaptive](Self::adaptive) gate.
    ///
    /// Requests without a deadline wait for [`max_wait`](Self::max_wait) at most. The program sets the class and the tenant of each
    /// request.
    #[must_use]
    pub fn layer(&self) -> AdmissionLayer<TokioSleep, ProbedGradient> {
        ConcurrencyLayer::admission(self.adaptive()).longest_wait(self.max_wait).named(self.name())
    }

    /// Builds a layer for a server, with a [fixed](Self::fixed) gate.
    ///
    /// Requests without a deadline wait for [`max_wait`](Self::max_wait) at most.
    #[must_use]
    pub fn fixed_layer(&self) -> AdmissionLayer<TokioSleep, FixedLimit> {
        ConcurrencyLayer::admission(self.fixed()).longest_wait(self.max_wait).named(self.name())
    }
}
