//! A client's stack, built from settings.

use super::{ClientConcurrencyLimit, ConfiguredPacers, OptionalLayer, OptionalRetries};
use crate::live::{Reload, SettingChange, apply_changed};
use crate::settings::{ClientDeadlineSettings, ClientLayers, ClientRateLimitSettings};
use bytes::Bytes;
use damper_core::Reads;
use damper_core::gate::{PerKey, Waits};
use damper_core::limit::RateLimiter;
use damper_core::retry::{Hedge, RetryBudget, RetrySchedule};
use damper_core::throttle::{Hints, KeyedThrottle};
use damper_core::time::{DefaultClock, TokioSleep};
use damper_core::{Live, OutOfRange, Quota};
use damper_http::internal::{AttemptParts, CallParts, GatePart, LayerPart, OptionalRewrite, PaceOnly, RepeatParts};
use damper_http::{
    AttemptTimeoutLayer, BoxedClient, CircuitBreakerLayer, ClientConcurrencyLayer, ClientCriticalityLayer,
    ClientDeadlineLayer, ClientStack, HedgeLayer, HttpProtocol, PacingLayer, PerHost, RequestDeadline, ResponseHead,
    RetryLayer, StackError, StackPart, StackProtocol, TargetHost, ThrottleLayer, ThrottlePerHost, client_stack,
};
use damper_tower::{GateLayer, OkOrErr, PlainLayer};
use http::{Request, Response};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// The stack of damper-http that a [`ConfiguredClientStack`] builds.
#[cfg(all(feature = "tower", feature = "tokio"))]
pub type ConfiguredClientParts<P = HttpProtocol> = ClientStack<
    CallParts<
        LayerPart<ClientDeadlineLayer<TokioSleep>>,
        GatePart<CircuitBreakerLayer<Option<PerHost>>>,
        OptionalRewrite<ClientCriticalityLayer>,
    >,
    RepeatParts<
        LayerPart<
            RetryLayer<DefaultClock, Arc<RetryBudget>, OptionalRetries<<P as StackProtocol>::Retries>, TokioSleep>,
        >,
        LayerPart<OptionalLayer<PacingLayer<ConfiguredPacers, <P as StackProtocol>::Hints, PaceOnly<TokioSleep>>, P>>,
        LayerPart<
            HedgeLayer<DefaultClock, Arc<RetryBudget>, OptionalRetries<<P as StackProtocol>::Retries>, TokioSleep>,
        >,
    >,
    AttemptParts<
        LayerPart<ThrottleLayer<Option<ThrottlePerHost>, <P as StackProtocol>::Rejections>>,
        LayerPart<PlainLayer<Waits<Arc<RateLimiter>, TokioSleep, RequestDeadline>, OkOrErr>>,
        LayerPart<ClientConcurrencyLayer<ClientConcurrencyLimit>>,
        LayerPart<OptionalLayer<AttemptTimeoutLayer<TokioSleep>, P>>,
    >,
    P,
>;

/// The stack of a client, with the parts that the section `stack` enables.
///
/// It is created by [`ClientLayers::client_stack`]. The name of its parts in metrics and logs is that of the group, such as `client.http`.
///
/// Clones share their state. [Bind](crate::Reloader::bind) a clone to the group that it was built from. Changes of live keys then reach all
/// its services.
#[derive(Clone, Debug)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ConfiguredClientStack<P = HttpProtocol> {
    settings: ClientLayers,
    timeout: Arc<Live<Duration>>,
    /// `None` if an attempt may take as long as the call.
    attempt_timeout: Option<Arc<Live<Duration>>>,
    schedule: Arc<Live<RetrySchedule>>,
    breakers: Option<PerHost>,
    budget: Arc<RetryBudget>,
    hedge: Arc<Hedge<DefaultClock, Arc<RetryBudget>>>,
    pacers: Option<ConfiguredPacers>,
    throttles: Option<Arc<KeyedThrottle<String>>>,
    limiter: Arc<RateLimiter>,
    limit_wait: Arc<Live<Duration>>,
    concurrency: ClientConcurrencyLimit,
    protocol: P,
}

#[cfg(all(feature = "tower", feature = "tokio"))]
impl ClientLayers {
    /// Builds the stack of an HTTP client, with the parts that the section `stack` enables.
    ///
    /// For gRPC, set the [`protocol`](ConfiguredClientStack::protocol).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::{Reloader, Sources};
    /// use http_body_util::Empty;
    /// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
    ///
    /// let text = "[client.http]\ncircuit_breaker.cooldown = '10s'\nstack.concurrency = 'bulkhead_per_host'";
    /// let reloader = Reloader::new(Sources::new().toml("app.toml", text))?;
    /// let stack = reloader.settings().client.http.client_stack()?;
    /// let reloader = reloader.bind(|settings| &settings.client.http, stack.clone());
    /// let client = stack.boxed::<_, Empty<bytes::Bytes>, _>(Client::builder(TokioExecutor::new()).build_http());
    /// # let _ = (reloader, client);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client_stack(&self) -> Result<ConfiguredClientStack, OutOfRange> {
        let stack = &self.stack;
        let breakers =
            if stack.circuit_breaker() { Some(self.circuit_breaker.breakers_named(self.name())?) } else { None };
        let limiter = if stack.ratelimit() { self.ratelimit.limiter() } else { RateLimiter::new(Quota::UNLIMITED) };
        let budget = Arc::new(self.retry_budget.budget());
        let live = |duration| Arc::new(Live::new(duration));
        Ok(ConfiguredClientStack {
            timeout: live(self.deadline.timeout()),
            attempt_timeout: self.deadline.attempt_timeout().map(live),
            schedule: Arc::new(Live::new(self.retry.schedule())),
            breakers,
            hedge: Arc::new(self.hedge.hedge_beside(stack.retry()).budget(Arc::clone(&budget))),
            budget,
            pacers: if stack.pacing() { Some(self.pacing.pacers()?) } else { None },
            throttles: stack.throttle().then(|| Arc::new(self.throttle.per_host())),
            limiter: Arc::new(limiter),
            limit_wait: live(self.ratelimit.max_wait()),
            concurrency: ClientConcurrencyLimit::of(self)?,
            protocol: HttpProtocol,
            settings: self.clone(),
        })
    }
}

impl<P> ConfiguredClientStack<P> {
    /// Sets the protocol by which the parts judge a response. Default: [`HttpProtocol`].
    ///
    /// For gRPC, pass `damper::tonic::Grpc::new()`: `settings.client.grpc.client_stack()?.protocol(Grpc::new())`.
    pub fn protocol<N: StackProtocol>(self, protocol: N) -> ConfiguredClientStack<N> {
        let Self { settings, timeout, attempt_timeout, schedule, limit_wait, .. } = self;
        let Self { breakers, budget, hedge, pacers, throttles, limiter, concurrency, .. } = self;
        ConfiguredClientStack {
            settings,
            timeout,
            attempt_timeout,
            schedule,
            breakers,
            budget,
            hedge,
            pacers,
            throttles,
            limiter,
            limit_wait,
            concurrency,
            protocol,
        }
    }

    /// Returns the breakers, if the stack has any, to watch and control them.
    pub fn breakers(&self) -> Option<&PerHost> {
        self.breakers.as_ref()
    }

    /// Returns the pacers, if the stack has any, to watch them.
    pub fn pacers(&self) -> Option<&ConfiguredPacers> {
        self.pacers.as_ref()
    }
}

impl<P> ConfiguredClientStack<P>
where
    P: StackProtocol<Hints: for<'a> Reads<ResponseHead<'a>, Hints>> + Clone,
{
    /// Returns the stack of damper-http, to replace a part of it.
    pub fn parts(&self) -> ConfiguredClientParts<P> {
        let Self { settings, timeout, attempt_timeout, schedule, limit_wait, .. } = self;
        let Self { breakers, budget, hedge, pacers, throttles, limiter, concurrency, protocol, .. } = self;
        let stack = &settings.stack;
        let name = settings.name();
        let deadline = if stack.deadline() {
            ClientDeadlineLayer::new(Arc::clone(timeout))
        } else {
            ClientDeadlineLayer::propagating()
        };
        let throttles = throttles.clone().map(|throttles| PerKey::new(TargetHost, throttles));
        let pacing =
            pacers.clone().map(|pacers| PacingLayer::new(pacers).named(name).without_retries().hints(protocol.hints()));
        let repeating = |is_on| OptionalRetries { rules: protocol.retries(), is_on };
        let policy = settings.retry.retry().schedule(Arc::clone(schedule));
        let retry = RetryLayer::new(policy.budget(Arc::clone(budget))).protocol(repeating(stack.retry()));
        let hedge = HedgeLayer::new(Arc::clone(hedge)).protocol(repeating(stack.hedge()));
        let limit = GateLayer::limit(Arc::clone(limiter)).waiting(Arc::clone(limit_wait)).time_left(RequestDeadline);
        let attempt = attempt_timeout.clone().map(AttemptTimeoutLayer::new);
        client_stack()
            .protocol(protocol.clone())
            .criticality_layer(OptionalRewrite::from(stack.criticality()))
            .deadline_layer(deadline.named(name).protocol(protocol.clone()))
            .breakers(breakers.clone())
            .retry_layer(retry)
            .pacing_layer(OptionalLayer::new(pacing, StackPart::Pacing))
            .hedge_layer(hedge)
            .throttle_layer(ThrottleLayer::new(throttles).completion(protocol.rejections()).named(name))
            .limit_layer(limit)
            .concurrency_layer(ClientConcurrencyLayer::new(concurrency.clone()).named(name))
            .attempt_timeout_layer(OptionalLayer::new(attempt, StackPart::AttemptTimeout))
    }

    /// Puts the stack around a client, which has to be `Clone`.
    ///
    /// It can be hyper-util's client, a `Channel` of tonic, or any service of `http::Request`.
    pub fn service<S>(&self, service: S) -> <ConfiguredClientParts<P> as Layer<S>>::Service
    where
        ConfiguredClientParts<P>: Layer<S>,
    {
        self.parts().layer(service)
    }

    /// Puts the stack around a client, and hides the types of all parts. `Q` is the request body.
    ///
    /// A call allocates its future and the body of its response.
    pub fn boxed<S, Q, X>(&self, service: S) -> BoxedClient<Q>
    where
        ConfiguredClientParts<P>: Layer<S>,
        <ConfiguredClientParts<P> as Layer<S>>::Service: Service<Request<Q>, Response = Response<X>, Error = StackError, Future: Send + 'static>
            + Clone
            + Send
            + Sync
            + 'static,
        X: http_body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.parts().boxed(service)
    }
}

impl<S, P> Layer<S> for ConfiguredClientStack<P>
where
    P: StackProtocol<Hints: for<'a> Reads<ResponseHead<'a>, Hints>> + Clone,
    ConfiguredClientParts<P>: Layer<S>,
{
    type Service = <ConfiguredClientParts<P> as Layer<S>>::Service;

    fn layer(&self, service: S) -> Self::Service {
        self.parts().layer(service)
    }
}

impl<P> ConfiguredClientStack<P> {
    /// Returns whether retries or hedges use the budget.
    fn uses_budget(&self) -> bool {
        self.settings.stack.retry() || self.settings.stack.hedge()
    }
}

impl<P> Reload<ClientLayers> for ConfiguredClientStack<P> {
    fn takes(&self, change: &SettingChange) -> bool {
        let stack = &self.settings.stack;
        let breakers = self.breakers.as_ref().filter(|_| change.is_in("circuit_breaker"));
        breakers.is_some_and(|breakers| breakers.takes(change))
            || change.is_in("ratelimit")
                && stack.ratelimit()
                && (Reload::<ClientRateLimitSettings>::takes(&self.limiter, change)
                    || Reload::<ClientRateLimitSettings>::takes(&self.limit_wait, change))
            || change.is_in("deadline")
                && match change.key() {
                    "attempt_timeout" => self.attempt_timeout.is_some(),
                    _ => stack.deadline() && Reload::<ClientDeadlineSettings>::takes(&self.timeout, change),
                }
            || change.is_in("retry") && stack.retry() && self.schedule.takes(change)
            || change.is_in("throttle") && self.throttles.as_ref().is_some_and(|throttles| throttles.takes(change))
            || change.is_in("hedge") && stack.hedge() && change.is_live()
            || change.is_in("retry_budget") && self.uses_budget() && self.budget.takes(change)
            || self.concurrency.takes(change)
    }

    fn can_apply(&self, start: &ClientLayers, new: &ClientLayers) -> Result<(), String> {
        if self.attempt_timeout.is_some() && new.deadline.attempt_timeout().is_none() {
            return Err("to unset attempt_timeout needs a restart".to_owned());
        }
        if self.uses_budget() {
            self.budget.can_apply(&start.retry_budget, &new.retry_budget)?;
        }
        if let Some(breakers) = &self.breakers {
            breakers.can_apply(&start.circuit_breaker, &new.circuit_breaker)?;
        }
        if self.settings.stack.ratelimit() { self.limiter.can_apply(&start.ratelimit, &new.ratelimit) } else { Ok(()) }
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, old: &ClientLayers, new: &ClientLayers) -> Result<(), String> {
        if let Some(breakers) = &self.breakers {
            apply_changed(breakers, &old.circuit_breaker, &new.circuit_breaker)?;
        }
        if self.settings.stack.ratelimit() {
            apply_changed(&self.limiter, &old.ratelimit, &new.ratelimit)?;
            apply_changed(&self.limit_wait, &old.ratelimit, &new.ratelimit)?;
        }
        if let Some(throttles) = &self.throttles {
            apply_changed(throttles, &old.throttle, &new.throttle)?;
        }
        self.hedge.set_config(&new.hedge.config_beside(self.settings.stack.retry()));
        apply_changed(&self.budget, &old.retry_budget, &new.retry_budget)?;
        apply_changed(&self.schedule, &old.retry, &new.retry)?;
        apply_changed(&self.timeout, &old.deadline, &new.deadline)?;
        if let (Some(live), Some(timeout)) = (&self.attempt_timeout, new.deadline.attempt_timeout()) {
            live.set(timeout);
        }
        self.concurrency.apply(old, new)
    }
}

/// The parts that the settings enable.
#[cfg(feature = "metrics")]
impl<P> damper_metrics::Source for ConfiguredClientStack<P> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        let Self { settings, breakers, budget, hedge, pacers, throttles, limiter, concurrency, .. } = self;
        if let Some(breakers) = breakers {
            breakers.read(readings);
        }
        if self.uses_budget() {
            budget.read(readings);
        }
        if settings.stack.hedge() {
            hedge.read(readings);
        }
        if let Some(pacers) = pacers {
            pacers.read(readings);
        }
        if let Some(throttles) = throttles {
            throttles.read(readings);
        }
        if settings.stack.ratelimit() {
            limiter.read(readings);
        }
        concurrency.read(&readings.with("side", "client"));
    }
}

/// Under the name of its group, as the calls that the stack counts.
#[cfg(feature = "metrics")]
impl<P> damper_metrics::NamedSource for ConfiguredClientStack<P> {
    fn name(&self) -> &str {
        self.settings.name()
    }
}
