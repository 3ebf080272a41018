//! A server's stack, built from settings.

use super::{ConfiguredLimit, ConfiguredLimitError, ServerConcurrencyLimit, ServerRateLimit};
use crate::live::{Reload, SettingChange, apply_changed};
use crate::settings::{RateLimitSettings, ServerDeadlineSettings, ServerLayers};
use damper_core::Live;
use damper_core::time::TokioSleep;
use damper_http::internal::{NoPart, OptionalRewrite};
use damper_http::{
    ConcurrencyLayer, CriticalityLayer, DeadlineLayer, Head, RateLimitLayer, STALL_LIMIT, ServerStack, server_stack,
};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;

/// The stack of damper-http that a [`ConfiguredServerStack`] builds.
#[cfg(all(feature = "tower", feature = "tokio"))]
pub type ConfiguredServerParts = ServerStack<
    DeadlineLayer<TokioSleep>,
    NoPart,
    ServerRateLimit,
    ConcurrencyLayer<ServerConcurrencyLimit>,
    OptionalRewrite<CriticalityLayer>,
>;

type Predicate = Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>;

/// The stack of a server, with the parts that the section `stack` enables.
///
/// The parts are the class of the request, its deadline, the rate limit and the concurrency limit. It is created by
/// [`ServerLayers::server_stack`]. Their name in metrics, logs and headers is that of the group, such as `server.http`.
///
/// Clones share their state. [Bind](crate::Reloader::bind) a clone to the group that it was built from. Changes of live keys then reach all
/// its services.
#[derive(Clone)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ConfiguredServerStack {
    name: Arc<str>,
    /// The server's own timeout, if the stack has a deadline.
    timeout: Option<Arc<Live<Duration>>>,
    limit: Option<ConfiguredLimit>,
    concurrency: ServerConcurrencyLimit,
    // Built once, so that the stacks of all connections share their counters and the sampling of their logs.
    deadline_layer: DeadlineLayer<TokioSleep>,
    limit_layer: RateLimitLayer<Option<ConfiguredLimit>>,
    limit_settings: RateLimitSettings,
    rate_limit: ServerRateLimit,
    concurrency_layer: ConcurrencyLayer<ServerConcurrencyLimit>,
    exempt: Option<Predicate>,
    criticality: OptionalRewrite<CriticalityLayer>,
}

#[cfg(all(feature = "tower", feature = "tokio"))]
impl ServerLayers {
    /// Builds the stack of an HTTP or gRPC server, with the parts that the section `stack` enables.
    ///
    /// # Errors
    ///
    /// [`ConfiguredLimitError::MarkHeader`] if marks have the header of classes or tenants, and no other with settings
    /// in their ranges.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::{Reloader, Sources};
    ///
    /// let text = "[server.http]\nratelimit.quota = '100/s'\nstack.concurrency = 'adaptive_limit'";
    /// let reloader = Reloader::new(Sources::new().toml("app.toml", text))?;
    /// let stack = reloader.settings().server.http.server_stack()?; // health checks are exempt
    /// let reloader = reloader.bind(|settings| &settings.server.http, stack.clone());
    /// // Router::new().route("/", get(home)).layer(stack), or stack.for_peer(address).service(service) with hyper
    /// # let _ = reloader;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn server_stack(&self) -> Result<ConfiguredServerStack, ConfiguredLimitError> {
        let name = self.name();
        if let Some(header) = &self.ratelimit.mark_header
            && [&self.stack.class_header, &self.stack.tenant_header].map(Option::as_ref).contains(&Some(header))
        {
            return Err(ConfiguredLimitError::MarkHeader { group: name.to_owned(), header: header.clone() });
        }
        let limit = if self.stack.ratelimit() { Some(self.ratelimit.limit()?) } else { None };
        let concurrency = ServerConcurrencyLimit::of(self);
        let timeout = self.stack.deadline().then(|| Arc::new(Live::new(self.deadline.timeout())));
        let deadline = timeout.clone().map_or_else(DeadlineLayer::propagating, DeadlineLayer::new);
        let limit_layer = RateLimitLayer::new(limit.clone()).headers(self.ratelimit.layer_headers());
        // The name of a group is valid.
        let limit_layer = limit_layer.clone().named(name).unwrap_or(limit_layer);
        let stack = ConfiguredServerStack {
            name: name.into(),
            timeout,
            deadline_layer: deadline.named(name),
            rate_limit: ServerRateLimit::new(limit_layer.clone(), limit.is_some(), &self.ratelimit, name),
            limit_layer,
            limit_settings: self.ratelimit.clone(),
            concurrency_layer: ConcurrencyLayer::new(concurrency.clone()).stall_limit(STALL_LIMIT).named(name),
            limit,
            concurrency,
            exempt: None,
            criticality: self.stack.criticality()?.into(),
        };
        let settings = self.stack.clone();
        let has_exempt_paths = !settings.exempt_paths().is_empty();
        Ok(if has_exempt_paths { stack.exempt(move |head| settings.exempts(head.uri.path())) } else { stack })
    }
}

impl ConfiguredServerStack {
    /// Exempts the requests for which the predicate is true, beside those of the key `stack.exempt_paths`.
    ///
    /// The rate limit and the concurrency limit do not apply to them.
    #[must_use]
    pub fn exempt(self, predicate: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        let exempt: Predicate = match self.exempt {
            Some(earlier) => Arc::new(move |head| earlier(head) || predicate(head)),
            None => Arc::new(predicate),
        };
        let (of_limit, of_concurrency) = (Arc::clone(&exempt), Arc::clone(&exempt));
        let limit_layer = self.limit_layer.exempt(move |head| of_limit(head));
        Self {
            rate_limit: ServerRateLimit::new(
                limit_layer.clone(),
                self.limit.is_some(),
                &self.limit_settings,
                &self.name,
            ),
            limit_layer,
            concurrency_layer: self.concurrency_layer.exempt(move |head| of_concurrency(head)),
            exempt: Some(exempt),
            ..self
        }
    }

    /// Returns the stack of damper-http, to replace a part of it, or to [explain](ServerStack::explain) a request.
    pub fn parts(&self) -> ConfiguredServerParts {
        server_stack()
            .criticality_layer(self.criticality.clone())
            .deadline_layer(self.deadline_layer.clone())
            .limit_layer(self.rate_limit.clone())
            .admission_layer(self.concurrency_layer.clone())
    }

    /// Returns the stack for the connection of a peer with this address.
    ///
    /// It is for servers that do not give the address with each request, such as hyper's.
    pub fn for_peer(&self, address: SocketAddr) -> ConfiguredServerParts {
        self.parts().for_peer(address)
    }

    /// Puts the stack around a service.
    pub fn service<S>(&self, service: S) -> <ConfiguredServerParts as Layer<S>>::Service
    where
        ConfiguredServerParts: Layer<S>,
    {
        self.parts().layer(service)
    }
}

impl<S> Layer<S> for ConfiguredServerStack
where
    ConfiguredServerParts: Layer<S>,
{
    type Service = <ConfiguredServerParts as Layer<S>>::Service;

    fn layer(&self, service: S) -> Self::Service {
        self.parts().layer(service)
    }
}

impl Reload<ServerLayers> for ConfiguredServerStack {
    fn takes(&self, change: &SettingChange) -> bool {
        let limit = self.limit.as_ref().filter(|_| change.is_in("ratelimit"));
        let timeout = self.timeout.as_ref().filter(|_| change.is_in("deadline"));
        limit.is_some_and(|limit| limit.takes(change))
            || timeout.is_some_and(|timeout| Reload::<ServerDeadlineSettings>::takes(timeout, change))
            || self.concurrency.takes(change)
    }

    fn can_apply(&self, start: &ServerLayers, new: &ServerLayers) -> Result<(), String> {
        self.limit.as_ref().map_or(Ok(()), |limit| limit.can_apply(&start.ratelimit, &new.ratelimit))
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, old: &ServerLayers, new: &ServerLayers) -> Result<(), String> {
        if let Some(limit) = &self.limit {
            apply_changed(limit, &old.ratelimit, &new.ratelimit)?;
        }
        if let Some(timeout) = &self.timeout {
            apply_changed(timeout, &old.deadline, &new.deadline)?;
        }
        self.concurrency.apply(old, new)
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for ConfiguredServerStack {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.rate_limit.read(readings);
        self.concurrency.read(&readings.with("side", "server"));
    }
}

/// Under the name of its group, as the requests that the stack counts.
#[cfg(feature = "metrics")]
impl damper_metrics::NamedSource for ConfiguredServerStack {
    fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for ConfiguredServerStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, limit, concurrency, deadline_layer, .. } = self;
        f.debug_struct("ConfiguredServerStack")
            .field("name", name)
            .field("deadline", deadline_layer)
            .field("limit", limit)
            .field("concurrency", concurrency)
            .finish_non_exhaustive()
    }
}
