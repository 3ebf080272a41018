//! The builder of a client's stack, and its order.

use super::groups::PartGroup;
use super::{
    AttemptParts, BoxError, BoxedClient, CallParts, Explain, Explanation, GatePart, HttpProtocol, LayerPart, NoPart,
    OfStack, OfTransport, RepeatParts, StackError, StackErrorService, StackProtocol,
};
#[cfg(feature = "tokio")]
use super::{AttemptTimeoutLayer, DeadlinePart, PacingPart, RepeatPart, StackBudget};
#[cfg(feature = "tokio")]
use crate::Hosts;
use crate::circuit_breaker::{CircuitBreakerLayer, PerHost, Single};
use crate::concurrency::{AdaptiveLimitPerHost, BulkheadPerHost, ClientConcurrencyLayer};
use crate::criticality::ClientCriticalityLayer;
#[cfg(feature = "tokio")]
use crate::deadline::ClientDeadlineLayer;
#[cfg(feature = "tokio")]
use crate::hedge::HedgeLayer;
#[cfg(feature = "tokio")]
use crate::pacing::{PaceOnly, PacingLayer};
#[cfg(feature = "tokio")]
use crate::retry::{HttpRetries, RetryLayer};
use crate::throttle::{ThrottleLayer, ThrottlePerHost};
use crate::{ClientGate, Head};
use alloc::sync::Arc;
use bytes::Bytes;
#[cfg(feature = "tokio")]
use core::time::Duration;
#[cfg(feature = "tokio")]
use damper_core::Reads;
use damper_core::breaker::BreakerConfig;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, LimitBounds};
#[cfg(feature = "tokio")]
use damper_core::gate::PacerSource;
use damper_core::gate::{Ask, AtOnce};
use damper_core::limit::RateLimiter;
use damper_core::quota::Quota;
#[cfg(feature = "tokio")]
use damper_core::retry::{Budget, Hedge, Retry};
#[cfg(feature = "tokio")]
use damper_core::setting::Setting;
use damper_core::throttle::AdaptiveThrottle;
#[cfg(feature = "tokio")]
use damper_core::throttle::Pacer;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
#[cfg(doc)]
use damper_tower::GateLayer;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

/// Creates a [`ClientStack`] without any part, to which parts are added.
pub const fn client_stack() -> ClientStack {
    ClientStack {
        call: CallParts { criticality: NoPart, deadline: NoPart, breaker: NoPart },
        repeats: RepeatParts { retry: NoPart, pacing: NoPart, hedge: NoPart },
        attempt: AttemptParts { throttle: NoPart, limit: NoPart, concurrency: NoPart, timeout: NoPart },
        protocol: HttpProtocol,
    }
}

/// A client's stack, whose parts are in the right order whatever the order of the calls is.
///
/// It is created by [`client_stack`].
///
/// ```text
/// call ─▶ class ─▶ deadline ─▶ breaker ─▶ retry (budget) ─▶ pacing ─▶ hedge ─▶ throttle ─▶ client limit ─▶ bulkhead ─▶ attempt timeout ─▶ transport
/// ```
///
/// | part | plain | a layer of its own |
/// |---|---|---|
/// | class and tenant of the call, which the server gets | [`criticality`](Self::criticality) | [`criticality_layer`](Self::criticality_layer) |
/// | deadline of the whole call, body included | `deadline` | [`deadline_layer`](Self::deadline_layer) |
/// | circuit breaker, which sees one outcome for each call | [`breaker_per_host`](Self::breaker_per_host), [`breaker_single`](Self::breaker_single), [`breakers`](Self::breakers) | [`breaker_layer`](Self::breaker_layer) |
/// | retries | `retry` | [`retry_layer`](Self::retry_layer) |
/// | pacing, which sleeps before each attempt | `pacing`, `pacing_per_host`, `pacers` | [`pacing_layer`](Self::pacing_layer) |
/// | hedge | `hedge` | [`hedge_layer`](Self::hedge_layer) |
/// | throttle, which counts what the server rejects | [`throttle_per_host`](Self::throttle_per_host), [`throttle_single`](Self::throttle_single), [`throttles`](Self::throttles) | [`throttle_layer`](Self::throttle_layer) |
/// | rate limit, which sees every attempt | [`limit`](Self::limit), [`limiter`](Self::limiter) | [`limit_layer`](Self::limit_layer) |
/// | calls in flight | [`bulkhead`](Self::bulkhead), [`bulkhead_per_host`](Self::bulkhead_per_host), [`adaptive`](Self::adaptive), [`adaptive_per_host`](Self::adaptive_per_host), [`concurrency`](Self::concurrency) | [`concurrency_layer`](Self::concurrency_layer) |
/// | timeout of one attempt | `attempt_timeout` | [`attempt_timeout_layer`](Self::attempt_timeout_layer) |
/// | HTTP or gRPC | [`protocol`](Self::protocol) | |
///
/// Unlinked setters need the feature `tokio`: without it rustc finds no such method. Retries and hedges need a transport that is `Clone`. A
/// client with its own request type, such as `reqwest::Client`, has to be put into an [`HttpClient`](crate::HttpClient). If rustc reports
/// only that the method `ready` does not exist, build the client by [`boxed`](Self::boxed): rustc then reports the missing bound. Every
/// part may be left out. Setting a part again replaces it.
///
/// **Gates.** The breaker, the throttle, the rate limit and the concurrency limit may be any [gate](damper_core::gate) at which no call waits, one
/// of your own too, or an `Option` of one. Gates with nothing between them are one service: a call through all four is one future. A part
/// that is set as a layer is a service of its own.
///
/// **Throttle and breaker.** The verdict on a call is the verdict on its last attempt. The breaker ignores a call whose last attempt was
/// refused by the throttle, the limit or the bulkhead, even if earlier attempts failed. So with a throttle or a tight limit inside of
/// retries, the breaker rarely opens in an outage: the throttle then keeps most calls from the server, and sends one a second. Leave the
/// throttle out if the breaker is to open.
///
/// **Waits.** Only retries, pacing, and parts that are set to wait let a call wait. Each wait ends at the call's deadline. Without a
/// deadline, a limit waits as long as its `waiting` allows, and the retries as long as their backoffs and
/// [`max_hint`](damper_core::Retry::max_hint) (5 min) allow. The pacing sleeps as long as its strategy and the server demand. A server can
/// demand at most [`Pacer::max_hint`](damper_core::throttle::Pacer::max_hint) (an hour). Only `deadline` and `attempt_timeout` bound the
/// transport itself.
///
/// **Pacing.** It is inside of the retries, so that each attempt is paced, and outside of the parts that a sleep must not disturb. A sleep
/// holds no slot of the bulkhead, takes no token of the limit before the request is sent, does not count toward the time of an attempt, and
/// is no reason for a hedge. The extra request of a hedge is not paced.
///
/// The error of a call is a [`StackError`], whatever the parts are. It is also the error of every service inside of the stack, so your own
/// classifier takes `Result<&ResponseHead, &StackError>`.
///
/// The stack is a `tower::Layer`. If the type of the service has to be written down, as in the field of a struct, [`boxed`](Self::boxed)
/// returns one without the types of the parts.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// # #[cfg(all(feature = "hyper", feature = "tokio"))] {
/// use damper::http::client_stack;
/// use damper::{BreakerConfig, Quota, Retry, RetryBudget};
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use std::time::Duration;
/// use tower::{Service, ServiceExt};
///
/// static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for 20 % of first attempts, and 10 a second
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut client = client_stack()
///     .deadline(Duration::from_secs(2))
///     .breaker_per_host(BreakerConfig::default())
///     .limit(Quota::per_second(100))
///     .bulkhead_per_host(64)
///     .retry(Retry::new(3).budget(&BUDGET))
///     .attempt_timeout(Duration::from_millis(500))
///     .service(Client::builder(TokioExecutor::new()).build_http());
///
/// let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
/// match client.ready().await?.call(request).await {
///     Ok(response) => println!("{}", response.status()),
///     Err(error) => println!("{error:#}"), // call refused by the breaker: circuit open, next probe in 28 s
/// }
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a stack does nothing until it is put around a service"]
pub struct ClientStack<C = CallParts, R = RepeatParts, A = AttemptParts, P = HttpProtocol> {
    call: C,
    repeats: R,
    attempt: A,
    protocol: P,
}

/// The parts that see a call once.
#[expect(clippy::type_complexity, reason = "a stack has a parameter for each of its places")]
impl<D, B, K, R, A, P> ClientStack<CallParts<D, B, K>, R, A, P> {
    /// Sends the class and the tenant of each call to the server, in these headers.
    ///
    /// They are those of the [`CallClass`](crate::CallClass) in the request's extensions. Pass the [`ClassHeaders`](crate::ClassHeaders), or a
    /// [`ClientCriticalityLayer`] with a class for calls that belong to no request. gRPC carries them as metadata.
    pub fn criticality(
        self,
        layer: impl Into<ClientCriticalityLayer>,
    ) -> ClientStack<CallParts<D, B, ClientCriticalityLayer>, R, A, P> {
        self.criticality_layer(layer.into())
    }

    /// Sets the layer that sends classes and tenants, for example one of your own.
    pub fn criticality_layer<N>(self, criticality: N) -> ClientStack<CallParts<D, B, N>, R, A, P> {
        self.map_call(|CallParts { deadline, breaker, .. }| CallParts { criticality, deadline, breaker })
    }

    /// Sets the time that a call may take, with its retries, waits and the body of its response.
    ///
    /// An earlier [`Deadline`](damper_core::Deadline) in the request's extensions applies too. For gRPC, the server gets the time left. For
    /// HTTP, name a header: `.deadline_layer(ClientDeadlineLayer::new(timeout).header(name, unit))`.
    #[cfg(feature = "tokio")]
    pub fn deadline(
        self,
        timeout: impl Into<Setting<Duration>>,
    ) -> ClientStack<CallParts<DeadlinePart<TokioSleep>, B, K>, R, A, P> {
        self.with_deadline(DeadlinePart(ClientDeadlineLayer::new(timeout)))
    }

    /// Sets the layer of the call's deadline, which keeps its own rules.
    ///
    /// For example, pass a [`ClientDeadlineLayer`](crate::ClientDeadlineLayer) that sends the time left to the server in a header. For gRPC it
    /// needs its own `protocol`.
    pub fn deadline_layer<N>(self, layer: N) -> ClientStack<CallParts<LayerPart<N>, B, K>, R, A, P> {
        self.with_deadline(LayerPart(layer))
    }

    fn with_deadline<N>(self, deadline: N) -> ClientStack<CallParts<N, B, K>, R, A, P> {
        self.map_call(|CallParts { criticality, breaker, .. }| CallParts { criticality, deadline, breaker })
    }

    /// Puts a circuit breaker for each host outside of the retries.
    ///
    /// A call that used up its attempts is one failure.
    pub fn breaker_per_host(
        self,
        config: BreakerConfig,
    ) -> ClientStack<CallParts<D, GatePart<CircuitBreakerLayer<PerHost>>, K>, R, A, P> {
        self.with_breaker(GatePart(CircuitBreakerLayer::per_host(config)))
    }

    /// Puts one circuit breaker for all requests outside of the retries.
    pub fn breaker_single(
        self,
        config: BreakerConfig,
    ) -> ClientStack<CallParts<D, GatePart<CircuitBreakerLayer<Single>>, K>, R, A, P> {
        self.with_breaker(GatePart(CircuitBreakerLayer::single(config)))
    }

    /// Puts existing breakers outside of the retries.
    ///
    /// Pass one in a `static` or an `Arc`, which you keep to watch it, or [`PerHost`] and [`Single`] with your own settings.
    pub fn breakers<N: for<'a> Ask<Head<'a>> + AtOnce>(
        self,
        breakers: N,
    ) -> ClientStack<CallParts<D, GatePart<CircuitBreakerLayer<N>>, K>, R, A, P> {
        self.with_breaker(GatePart(CircuitBreakerLayer::new(breakers)))
    }

    /// Sets the layer of the circuit breaker, which keeps its own rules.
    ///
    /// For example, pass a [`CircuitBreakerLayer`] with your own classifier, or with a [`MinBudget`](crate::MinBudget). For gRPC it needs
    /// its own `completion`. The service's error is a [`StackError`], so leave out `judge_boxed`.
    pub fn breaker_layer<N>(self, layer: N) -> ClientStack<CallParts<D, LayerPart<N>, K>, R, A, P> {
        self.with_breaker(LayerPart(layer))
    }

    fn with_breaker<N>(self, breaker: N) -> ClientStack<CallParts<D, N, K>, R, A, P> {
        self.map_call(|CallParts { criticality, deadline, .. }| CallParts { criticality, deadline, breaker })
    }
}

/// The parts that make attempts of a call.
#[expect(clippy::type_complexity, reason = "a stack has a parameter for each of its places")]
impl<C, R, G, H, A, P> ClientStack<C, RepeatParts<R, G, H>, A, P> {
    /// Retries calls by this policy, where the protocol allows it.
    ///
    /// A policy for which no [budget](Retry::budget) is set gets one of the stack's own, [`RetryBudget::DEFAULT`](damper_core::RetryBudget::DEFAULT):
    /// without one, three attempts for each call triple the load on a server that fails because of its load. Set one to share it with the
    /// hedge or with other stacks, and `budget(Unlimited)` to have none. All hosts share it: where a failing host is to take nothing from the
    /// others, pass `RetryLayer::new(retry).budget_per_host(config)` to [`retry_layer`](Self::retry_layer). Set a [`deadline`](Self::deadline) too, because a call waits as long as a server's
    /// `Retry-After` asks for, up to the policy's [`max_hint`](Retry::max_hint).
    ///
    /// The transport has to be `Clone`, because each attempt takes a clone.
    #[cfg(feature = "tokio")]
    pub fn retry<K, N: Budget>(
        self,
        retry: Retry<K, N>,
    ) -> ClientStack<C, RepeatParts<RepeatPart<RetryLayer<K, StackBudget<N>, HttpRetries, TokioSleep>>, G, H>, A, P>
    {
        self.with_retry(RepeatPart(RetryLayer::new(StackBudget::complete(retry))))
    }

    /// Sets the layer of the retries, which keeps its own rules.
    ///
    /// For example, pass a [`RetryLayer`](crate::RetryLayer) with `when`, `buffering`, or a budget per host. For gRPC it needs its own
    /// `protocol`. The service's error is a [`StackError`], so leave out `judge_boxed`.
    pub fn retry_layer<N>(self, layer: N) -> ClientStack<C, RepeatParts<LayerPart<N>, G, H>, A, P> {
        self.with_retry(LayerPart(layer))
    }

    fn with_retry<N>(self, retry: N) -> ClientStack<C, RepeatParts<N, G, H>, A, P> {
        self.map_repeats(|RepeatParts { pacing, hedge, .. }| RepeatParts { retry, pacing, hedge })
    }

    /// Sleeps before each attempt, so that a server with this quota rarely rejects one.
    ///
    /// One pacer serves all hosts. An attempt is not made if its sleep would outlast the deadline. The [`retry`](Self::retry) handles a
    /// server's 429.
    ///
    /// The transport has to be `Clone`.
    #[cfg(feature = "tokio")]
    pub fn pacing(self, quota: Quota) -> ClientStack<C, RepeatParts<R, Paced<Arc<Pacer>>, H>, A, P> {
        self.with_pacing(PacingPart(PacingLayer::single(quota).without_retries()))
    }

    /// Paces each attempt as [`pacing`](Self::pacing) does, with a pacer for each host.
    #[cfg(feature = "tokio")]
    pub fn pacing_per_host(self, quota: Quota) -> ClientStack<C, RepeatParts<R, Paced<Hosts<Pacer>>, H>, A, P> {
        self.with_pacing(PacingPart(PacingLayer::per_host(quota).without_retries()))
    }

    /// Paces each attempt by existing pacers.
    ///
    /// Pass one in a `static` or an `Arc`, [`Hosts`](crate::Hosts) of pacers with your own strategy, or a
    /// [`SelectedPacer`](damper_core::gate::SelectedPacer).
    #[cfg(feature = "tokio")]
    pub fn pacers<N>(self, pacers: N) -> ClientStack<C, RepeatParts<R, Paced<N>, H>, A, P>
    where
        N: PacerSource + for<'a> Reads<Head<'a>, <N as PacerSource>::Pacer>,
    {
        self.with_pacing(PacingPart(PacingLayer::new(pacers).without_retries()))
    }

    /// Sets the layer of the pacing, which keeps its own rules.
    ///
    /// For example, pass a [`PacingLayer`](crate::PacingLayer) with [`without_retries`](crate::PacingLayer::without_retries) and your own
    /// hints. A layer with its own retries would repeat each attempt of the stack's [retries](Self::retry).
    pub fn pacing_layer<N>(self, layer: N) -> ClientStack<C, RepeatParts<R, LayerPart<N>, H>, A, P> {
        self.with_pacing(LayerPart(layer))
    }

    fn with_pacing<N>(self, pacing: N) -> ClientStack<C, RepeatParts<R, N, H>, A, P> {
        self.map_repeats(|RepeatParts { retry, hedge, .. }| RepeatParts { retry, pacing, hedge })
    }

    /// Makes a second attempt if the first takes longer than most and the protocol allows it.
    ///
    /// Pass a `Hedge`, or an `Arc<Hedge>` to share it. Where the stack has retries, they repeat failures, and the hedge only slow calls.
    #[cfg(feature = "tokio")]
    pub fn hedge<K, N>(
        self,
        hedge: impl Into<Arc<Hedge<K, N>>>,
    ) -> ClientStack<C, RepeatParts<R, G, RepeatPart<HedgeLayer<K, N, HttpRetries, TokioSleep>>>, A, P> {
        self.with_hedge(RepeatPart(HedgeLayer::new(hedge)))
    }

    /// Sets the layer of the hedge, which keeps its own rules.
    ///
    /// For example, pass a [`HedgeLayer`](crate::HedgeLayer) with `when`. For gRPC it needs its own `protocol`.
    pub fn hedge_layer<N>(self, layer: N) -> ClientStack<C, RepeatParts<R, G, LayerPart<N>>, A, P> {
        self.with_hedge(LayerPart(layer))
    }

    fn with_hedge<N>(self, hedge: N) -> ClientStack<C, RepeatParts<R, G, N>, A, P> {
        self.map_repeats(|RepeatParts { retry, pacing, .. }| RepeatParts { retry, pacing, hedge })
    }
}

/// The parts that see each attempt.
#[expect(clippy::type_complexity, reason = "a stack has a parameter for each of its places")]
impl<C, R, T, L, N, A, P> ClientStack<C, R, AttemptParts<T, L, N, A>, P> {
    /// Puts a throttle for each host inside of the retries.
    ///
    /// It refuses calls that an overloaded server would reject.
    pub fn throttle_per_host(
        self,
    ) -> ClientStack<C, R, AttemptParts<GatePart<ThrottleLayer<ThrottlePerHost>>, L, N, A>, P> {
        self.with_throttle(GatePart(ThrottleLayer::per_host()))
    }

    /// Puts one throttle for all requests inside of the retries.
    pub fn throttle_single(
        self,
    ) -> ClientStack<C, R, AttemptParts<GatePart<ThrottleLayer<Arc<AdaptiveThrottle>>>, L, N, A>, P> {
        self.with_throttle(GatePart(ThrottleLayer::single()))
    }

    /// Puts existing throttles inside of the retries.
    ///
    /// Pass one in a `static` or an `Arc`, or another [gate](damper_core::gate), such as a `PerKey` by [`TargetHost`](crate::TargetHost).
    pub fn throttles<X: for<'a> Ask<Head<'a>> + AtOnce>(
        self,
        throttles: X,
    ) -> ClientStack<C, R, AttemptParts<GatePart<ThrottleLayer<X>>, L, N, A>, P> {
        self.with_throttle(GatePart(ThrottleLayer::new(throttles)))
    }

    /// Sets the layer of the throttle, which keeps its own rules.
    ///
    /// For example, pass a [`ThrottleLayer`](crate::ThrottleLayer) with your own classifier. For gRPC it needs its own `completion`.
    pub fn throttle_layer<X>(self, layer: X) -> ClientStack<C, R, AttemptParts<LayerPart<X>, L, N, A>, P> {
        self.with_throttle(LayerPart(layer))
    }

    fn with_throttle<X>(self, throttle: X) -> ClientStack<C, R, AttemptParts<X, L, N, A>, P> {
        self.map_attempt(|AttemptParts { limit, concurrency, timeout, .. }| AttemptParts {
            throttle,
            limit,
            concurrency,
            timeout,
        })
    }

    /// Limits the rate of requests, retries and hedges included.
    ///
    /// A request over the limit is refused at once, and not retried.
    ///
    /// To wait for tokens: `.limit_layer(GateLayer::limit(&LIMIT).waiting(longest))`.
    pub fn limit(
        self,
        quota: Quota,
    ) -> ClientStack<C, R, AttemptParts<T, GatePart<ClientGate<Arc<RateLimiter>>>, N, A>, P> {
        self.limiter(Arc::new(RateLimiter::new(quota)))
    }

    /// Limits the rate of requests by an existing limiter.
    ///
    /// Pass one in a `static` or an `Arc`, or another [gate](damper_core::gate) at which no call waits, such as a `PerKey` by
    /// [`TargetHost`](crate::TargetHost).
    pub fn limiter<X: for<'a> Ask<Head<'a>> + AtOnce>(
        self,
        limiter: X,
    ) -> ClientStack<C, R, AttemptParts<T, GatePart<ClientGate<X>>, N, A>, P> {
        self.with_limit(GatePart(ClientGate::new(limiter)))
    }

    /// Sets the layer of the rate limit.
    ///
    /// For example, pass a [`GateLayer`] whose calls wait for tokens, or any other limiter.
    ///
    /// With `.time_left(RequestDeadline)` on the layer, a call whose tokens come after its deadline is refused at once. Otherwise it
    /// waits until the deadline.
    pub fn limit_layer<X>(self, layer: X) -> ClientStack<C, R, AttemptParts<T, LayerPart<X>, N, A>, P> {
        self.with_limit(LayerPart(layer))
    }

    fn with_limit<X>(self, limit: X) -> ClientStack<C, R, AttemptParts<T, X, N, A>, P> {
        self.map_attempt(|AttemptParts { throttle, concurrency, timeout, .. }| AttemptParts {
            throttle,
            limit,
            concurrency,
            timeout,
        })
    }

    /// Limits the calls in flight, until their responses have ended.
    ///
    /// A call over the limit is refused at once, and not retried.
    ///
    /// To wait for a slot: `.concurrency_layer(ClientConcurrencyLayer::bulkhead(64).waiting(longest))`.
    pub fn bulkhead(
        self,
        limit: u32,
    ) -> ClientStack<C, R, AttemptParts<T, L, GatePart<ClientConcurrencyLayer<Arc<Bulkhead>>>, A>, P> {
        self.with_concurrency(GatePart(ClientConcurrencyLayer::bulkhead(limit)))
    }

    /// Limits the calls in flight to each host, as [`bulkhead`](Self::bulkhead) does for all.
    ///
    /// A host that hangs takes no slots from the others.
    pub fn bulkhead_per_host(
        self,
        limit: u32,
    ) -> ClientStack<C, R, AttemptParts<T, L, GatePart<ClientConcurrencyLayer<BulkheadPerHost>>, A>, P> {
        self.with_concurrency(GatePart(ClientConcurrencyLayer::bulkhead_per_host(limit)))
    }

    /// Limits the calls in flight by a limit within these bounds that follows the latency of responses.
    ///
    /// Apart from that it does the same as [`bulkhead`](Self::bulkhead).
    pub fn adaptive(
        self,
        bounds: LimitBounds,
    ) -> ClientStack<C, R, AttemptParts<T, L, GatePart<ClientConcurrencyLayer<Arc<AdaptiveLimit>>>, A>, P> {
        self.with_concurrency(GatePart(ClientConcurrencyLayer::adaptive(bounds)))
    }

    /// Limits the calls in flight to each host as [`adaptive`](Self::adaptive) does.
    pub fn adaptive_per_host(
        self,
        bounds: LimitBounds,
    ) -> ClientStack<C, R, AttemptParts<T, L, GatePart<ClientConcurrencyLayer<AdaptiveLimitPerHost>>, A>, P> {
        self.with_concurrency(GatePart(ClientConcurrencyLayer::adaptive_per_host(bounds)))
    }

    /// Limits the calls in flight by an existing limit.
    ///
    /// Pass one in a `static` or an `Arc`, or another [gate](damper_core::gate) at which no call waits.
    pub fn concurrency<X: for<'a> Ask<Head<'a>> + AtOnce>(
        self,
        limit: X,
    ) -> ClientStack<C, R, AttemptParts<T, L, GatePart<ClientConcurrencyLayer<X>>, A>, P> {
        self.with_concurrency(GatePart(ClientConcurrencyLayer::new(limit)))
    }

    /// Sets the layer of the concurrency limit.
    ///
    /// For example, pass a [`ClientConcurrencyLayer`] whose calls wait, or with a limit that you keep.
    ///
    /// `damper::tower::GateLayer::limit` releases its permit as soon as the response begins.
    pub fn concurrency_layer<X>(self, layer: X) -> ClientStack<C, R, AttemptParts<T, L, LayerPart<X>, A>, P> {
        self.with_concurrency(LayerPart(layer))
    }

    fn with_concurrency<X>(self, concurrency: X) -> ClientStack<C, R, AttemptParts<T, L, X, A>, P> {
        self.map_attempt(|AttemptParts { throttle, limit, timeout, .. }| AttemptParts {
            throttle,
            limit,
            concurrency,
            timeout,
        })
    }

    /// Sets the time that one attempt may take until its response begins.
    ///
    /// The attempt is retried where the protocol allows it.
    #[cfg(feature = "tokio")]
    pub fn attempt_timeout(
        self,
        timeout: impl Into<Setting<Duration>>,
    ) -> ClientStack<C, R, AttemptParts<T, L, N, LayerPart<AttemptTimeoutLayer<TokioSleep>>>, P> {
        self.attempt_timeout_layer(AttemptTimeoutLayer::new(timeout))
    }

    /// Sets the layer of the timeout of one attempt.
    ///
    /// For example, pass an [`AttemptTimeoutLayer`](super::AttemptTimeoutLayer) with another timer, or tower's `TimeoutLayer`.
    pub fn attempt_timeout_layer<X>(self, layer: X) -> ClientStack<C, R, AttemptParts<T, L, N, LayerPart<X>>, P> {
        self.map_attempt(|AttemptParts { throttle, limit, concurrency, .. }| AttemptParts {
            throttle,
            limit,
            concurrency,
            timeout: LayerPart(layer),
        })
    }
}

impl<D, B, K, R, G, H, T, L, N, A, P>
    ClientStack<CallParts<D, B, K>, RepeatParts<R, G, H>, AttemptParts<T, L, N, A>, P>
{
    /// Returns what would happen to the first attempt of a call of this head now, and changes nothing.
    ///
    /// It does what [`ServerStack::explain`](crate::ServerStack::explain) does, for a client. Retries and hedges are not asked, because they
    /// refuse no first attempt. The pacing says that it does not know. A throttle answers by the number that it will draw next, so the next
    /// call gets that answer, and the one after it perhaps another.
    ///
    /// A part that is set as a layer of another crate has no [`Explain`], and rustc says so.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
    /// use damper::breaker::CircuitBreaker;
    /// use damper::http::{Head, client_stack};
    /// use damper::{BreakerConfig, Quota};
    /// use http::Request;
    ///
    /// static PAYMENTS: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    ///
    /// let stack = client_stack().breakers(&PAYMENTS).limit(Quota::per_second(10)).bulkhead_per_host(64);
    /// PAYMENTS.force_open();
    /// let request = Request::get("http://payments/refunds").body(())?;
    /// assert_eq!(
    ///     stack.explain(&Head::of(&request)).to_string(),
    ///     "breaker: refuses: circuit forced open\n\
    ///      limit: passes\n\
    ///      concurrency: passes\n\
    ///      refused by the breaker"
    /// );
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn explain(&self, head: &Head<'_>) -> Explanation
    where
        K: Explain,
        D: Explain,
        B: Explain,
        G: Explain,
        T: Explain,
        L: Explain,
        N: Explain,
        A: Explain,
    {
        let Self { call, repeats, attempt, .. } = self;
        let parts: [(&dyn Explain, _); 8] = [
            (&call.criticality, "class"),
            (&call.deadline, "deadline"),
            (&call.breaker, "breaker"),
            (&repeats.pacing, "pacing"),
            (&attempt.throttle, "throttle"),
            (&attempt.limit, "limit"),
            (&attempt.concurrency, "concurrency"),
            (&attempt.timeout, "attempt timeout"),
        ];
        Explanation::of(head, &parts)
    }
}

impl<C, R, A, P> ClientStack<C, R, A, P> {
    /// Sets the protocol by which the parts judge. Default: [`HttpProtocol`].
    ///
    /// The breaker, the throttle, the retries and the hedge judge by it. For gRPC, pass `damper::tonic::Grpc::new()`. Parts set by a
    /// `…_layer` method keep their own rules.
    pub fn protocol<N: StackProtocol>(self, protocol: N) -> ClientStack<C, R, A, N> {
        let Self { call, repeats, attempt, .. } = self;
        ClientStack { call, repeats, attempt, protocol }
    }

    /// Puts the stack around a client.
    ///
    /// It can be hyper-util's client, a `Channel` of tonic, or any service of `http::Request`.
    ///
    /// With retries, a hedge, or a [`ClientConcurrencyLayer`](crate::ClientConcurrencyLayer), the client has to be `Clone`.
    pub fn service<S>(&self, service: S) -> <Self as Layer<S>>::Service
    where
        Self: Layer<S>,
    {
        self.layer(service)
    }

    /// Puts the stack around a client, and hides the types of all parts. `Q` is the request body.
    ///
    /// A call allocates its future and the body of its response.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
    /// # #[cfg(all(feature = "hyper", feature = "tokio"))] {
    /// use damper::Retry;
    /// use damper::http::{BoxedClient, client_stack};
    /// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
    ///
    /// struct Payments {
    ///     client: BoxedClient<String>,
    /// }
    ///
    /// let transport = Client::builder(TokioExecutor::new()).build_http();
    /// let payments = Payments { client: client_stack().retry(Retry::new(3)).boxed(transport) };
    /// # let _ = payments.client;
    /// # }
    /// ```
    pub fn boxed<S, Q, X>(&self, service: S) -> BoxedClient<Q>
    where
        Self: Layer<S>,
        <Self as Layer<S>>::Service: Service<Request<Q>, Response = Response<X>, Error = StackError, Future: Send + 'static>
            + Clone
            + Send
            + Sync
            + 'static,
        X: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        BoxedClient::new(self.layer(service))
    }
    fn map_call<X>(self, change: impl FnOnce(C) -> X) -> ClientStack<X, R, A, P> {
        let Self { call, repeats, attempt, protocol } = self;
        ClientStack { call: change(call), repeats, attempt, protocol }
    }

    fn map_repeats<X>(self, change: impl FnOnce(R) -> X) -> ClientStack<C, X, A, P> {
        let Self { call, repeats, attempt, protocol } = self;
        ClientStack { call, repeats: change(repeats), attempt, protocol }
    }

    fn map_attempt<X>(self, change: impl FnOnce(A) -> X) -> ClientStack<C, R, X, P> {
        let Self { call, repeats, attempt, protocol } = self;
        ClientStack { call, repeats, attempt: change(attempt), protocol }
    }
}

/// Pacing by tokio's timer.
#[cfg(feature = "tokio")]
type Paced<N> = PacingPart<PacingLayer<N, HttpProtocol, PaceOnly<TokioSleep>>>;

/// The service inside of the parts.
type Inside<S, P> = StackErrorService<S, OfTransport<P>>;

impl<S, C, R, A, P> Layer<S> for ClientStack<C, R, A, P>
where
    A: PartGroup<Inside<S, P>, P>,
    R: PartGroup<A::Service, P>,
    C: PartGroup<R::Service, P>,
{
    type Service = StackErrorService<C::Service, OfStack<P>>;

    fn layer(&self, service: S) -> Self::Service {
        let service = self.attempt.put_around(StackErrorService::new(service, OfTransport::new()), &self.protocol);
        let service = self.repeats.put_around(service, &self.protocol);
        StackErrorService::new(self.call.put_around(service, &self.protocol), OfStack::new())
    }
}
