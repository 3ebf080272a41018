//! The builder of a client's stack, and its order.

#[cfg(feature = "tokio")]
use super::{AttemptTimeoutLayer, HedgePart, PacingPart, RetryPart};
use super::{
    BoxError, BoxedClient, BreakerPart, ClientPart, HttpProtocol, LayerPart, NoPart, OfStack, OfTransport, StackError,
    StackErrorService, StackPart, StackProtocol, ThrottlePart,
};
use crate::Head;
use crate::circuit_breaker::{CircuitBreakerLayer, PerHost, Single};
use crate::concurrency::{AdaptiveLimitPerHost, BulkheadPerHost, ClientConcurrencyLayer};
#[cfg(feature = "tokio")]
use crate::deadline::ClientDeadlineLayer;
#[cfg(feature = "tokio")]
use crate::hedge::HedgeLayer;
#[cfg(feature = "tokio")]
use crate::pacing::{HostPacers, Pacers, PacingLayer};
#[cfg(feature = "tokio")]
use crate::retry::RetryLayer;
use crate::throttle::{ThrottleLayer, ThrottlePerHost};
use alloc::sync::Arc;
use bytes::Bytes;
#[cfg(feature = "tokio")]
use core::time::Duration;
use damper_core::breaker::BreakerConfig;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, LimitBounds};
use damper_core::gate::Ask;
use damper_core::limit::RateLimiter;
use damper_core::quota::Quota;
#[cfg(feature = "tokio")]
use damper_core::retry::{Hedge, Retry};
use damper_core::throttle::AdaptiveThrottle;
#[cfg(feature = "tokio")]
use damper_core::throttle::Pacer;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_tower::{LimitLayer, OkOrErr, PlainLayer};
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

/// Creates a [`ClientStack`] without any part, to which parts are added.
#[cfg(feature = "tower")]
pub const fn client_stack() -> ClientStack {
    ClientStack(Parts {
        deadline: NoPart,
        breaker: NoPart,
        retry: NoPart,
        pacing: NoPart,
        hedge: NoPart,
        throttle: NoPart,
        limit: NoPart,
        concurrency: NoPart,
        attempt_timeout: NoPart,
        protocol: HttpProtocol,
    })
}

/// A client's stack, whose parts are in the right order whatever the order of the calls is.
///
/// It is created by [`client_stack`].
///
/// ```text
/// call ─▶ deadline ─▶ breaker ─▶ retry (budget) ─▶ pacing ─▶ hedge ─▶ throttle ─▶ client limit ─▶ bulkhead ─▶ attempt timeout ─▶ transport
/// ```
///
/// | part | plain | a layer of its own |
/// |---|---|---|
/// | deadline of the whole call, body included | `deadline` | [`deadline_layer`](Self::deadline_layer) |
/// | circuit breaker, which sees one outcome for each call | [`breaker_per_host`](Self::breaker_per_host), [`breaker_single`](Self::breaker_single), [`breakers`](Self::breakers) | [`breaker_layer`](Self::breaker_layer) |
/// | retries | `retry` | [`retry_layer`](Self::retry_layer) |
/// | pacing, which sleeps before each attempt | `pacing`, `pacing_per_host`, `pacers` | [`pacing_layer`](Self::pacing_layer) |
/// | hedge | `hedge` | [`hedge_layer`](Self::hedge_layer) |
/// | throttle, which counts what the server rejects | [`throttle_per_host`](Self::throttle_per_host), [`throttle_single`](Self::throttle_single), [`throttles`](Self::throttles) | [`throttle_layer`](Self::throttle_layer) |
/// | rate limit, which sees every attempt | [`limit`](Self::limit) | [`limit_layer`](Self::limit_layer) |
/// | calls in flight | [`bulkhead`](Self::bulkhead), [`bulkhead_per_host`](Self::bulkhead_per_host), [`adaptive`](Self::adaptive), [`adaptive_per_host`](Self::adaptive_per_host) | [`concurrency_layer`](Self::concurrency_layer) |
/// | timeout of one attempt | `attempt_timeout` | [`attempt_timeout_layer`](Self::attempt_timeout_layer) |
/// | HTTP or gRPC | [`protocol`](Self::protocol) | |
///
/// Unlinked setters need the feature `tokio`: without it rustc finds no such method. Retries and hedges need a transport that is `Clone`. A
/// client with its own request type, such as `reqwest::Client`, has to be put into an [`HttpClient`](crate::HttpClient). If rustc reports
/// only that the method `ready` does not exist, build the client by [`boxed`](Self::boxed): rustc then reports the missing bound. Every
/// part may be left out. Setting a part again replaces it.
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
#[cfg(feature = "tower")]
pub struct ClientStack<
    D = NoPart,
    B = NoPart,
    R = NoPart,
    G = NoPart,
    H = NoPart,
    T = NoPart,
    L = NoPart,
    C = NoPart,
    A = NoPart,
    P = HttpProtocol,
>(Parts<D, B, R, G, H, T, L, C, A, P>);

/// The parts, from the outside in.
///
/// They are in a struct of their own, so that rustc does not take a field for a setter that needs a feature.
#[derive(Clone, Copy, Debug)]
struct Parts<D, B, R, G, H, T, L, C, A, P> {
    deadline: D,
    breaker: B,
    retry: R,
    pacing: G,
    hedge: H,
    throttle: T,
    limit: L,
    concurrency: C,
    attempt_timeout: A,
    protocol: P,
}

#[cfg(feature = "tokio")]
#[expect(clippy::type_complexity, reason = "a stack has a parameter for each of its places")]
impl<D, B, R, G, H, T, L, C, A, P> ClientStack<D, B, R, G, H, T, L, C, A, P> {
    /// Sets the time that a call may take, with its retries, waits and the body of its response.
    ///
    /// An earlier [`Deadline`](damper_core::Deadline) in the request's extensions applies too. For gRPC, the server gets the time left. For
    /// HTTP, name a header: `.deadline_layer(ClientDeadlineLayer::new(timeout).header(name, unit))`.
    pub fn deadline(
        self,
        timeout: Duration,
    ) -> ClientStack<LayerPart<ClientDeadlineLayer<TokioSleep>>, B, R, G, H, T, L, C, A, P> {
        self.deadline_layer(ClientDeadlineLayer::new(timeout))
    }

    /// Retries calls by this policy, where the protocol allows it.
    ///
    /// Give the policy a [budget](Retry::budget), which it shares with the hedge. Without one, three attempts for each call triple the load
    /// on a server that fails because of its load. Set a [`deadline`](Self::deadline) too, because a call waits as long as a server's
    /// `Retry-After` asks for, up to the policy's [`max_hint`](Retry::max_hint).
    ///
    /// The transport has to be `Clone`, because each attempt takes a clone.
    pub fn retry<K, N>(
        self,
        retry: Retry<K, N>,
    ) -> ClientStack<D, B, RetryPart<K, N, TokioSleep>, G, H, T, L, C, A, P> {
        self.with_retry(RetryPart(RetryLayer::new(retry)))
    }

    /// Sleeps before each attempt, so that a server with this quota rarely rejects one.
    ///
    /// One pacer serves all hosts. An attempt is not made if its sleep would outlast the deadline. The [`retry`](Self::retry) handles a
    /// server's 429.
    ///
    /// The transport has to be `Clone`.
    pub fn pacing(self, quota: Quota) -> ClientStack<D, B, R, PacingPart<Arc<Pacer>, TokioSleep>, H, T, L, C, A, P> {
        self.with_pacing(PacingPart(PacingLayer::single(quota).without_retries()))
    }

    /// Paces each attempt as [`pacing`](Self::pacing) does, with a pacer for each host.
    pub fn pacing_per_host(
        self,
        quota: Quota,
    ) -> ClientStack<D, B, R, PacingPart<HostPacers, TokioSleep>, H, T, L, C, A, P> {
        self.with_pacing(PacingPart(PacingLayer::per_host(quota).without_retries()))
    }

    /// Paces each attempt by existing pacers.
    ///
    /// Pass one in a `static` or an `Arc`, or [`HostPacers`](crate::HostPacers) with your own strategy.
    pub fn pacers<N: Pacers>(self, pacers: N) -> ClientStack<D, B, R, PacingPart<N, TokioSleep>, H, T, L, C, A, P> {
        self.with_pacing(PacingPart(PacingLayer::new(pacers).without_retries()))
    }

    /// Makes a second attempt if the first takes longer than most and the protocol allows it.
    ///
    /// Pass a `Hedge`, or an `Arc<Hedge>` to share it. Where the stack has retries, they repeat failures, and the hedge only slow calls.
    pub fn hedge<K, N>(
        self,
        hedge: impl Into<Arc<Hedge<K, N>>>,
    ) -> ClientStack<D, B, R, G, HedgePart<K, N, TokioSleep>, T, L, C, A, P> {
        self.with_hedge(HedgePart(HedgeLayer::new(hedge)))
    }

    /// Sets the time that one attempt may take until its response begins.
    ///
    /// The attempt is retried where the protocol allows it.
    pub fn attempt_timeout(
        self,
        timeout: Duration,
    ) -> ClientStack<D, B, R, G, H, T, L, C, LayerPart<AttemptTimeoutLayer<TokioSleep>>, P> {
        self.attempt_timeout_layer(AttemptTimeoutLayer::new(timeout))
    }
}

#[expect(clippy::type_complexity, reason = "a stack has a parameter for each of its places")]
impl<D, B, R, G, H, T, L, C, A, P> ClientStack<D, B, R, G, H, T, L, C, A, P> {
    /// Puts a circuit breaker for each host outside of the retries.
    ///
    /// A call that used up its attempts is one failure.
    pub fn breaker_per_host(
        self,
        config: BreakerConfig,
    ) -> ClientStack<D, BreakerPart<PerHost>, R, G, H, T, L, C, A, P> {
        self.with_breaker(BreakerPart(CircuitBreakerLayer::per_host(config)))
    }

    /// Puts one circuit breaker for all requests outside of the retries.
    pub fn breaker_single(self, config: BreakerConfig) -> ClientStack<D, BreakerPart<Single>, R, G, H, T, L, C, A, P> {
        self.with_breaker(BreakerPart(CircuitBreakerLayer::single(config)))
    }

    /// Puts existing breakers outside of the retries.
    ///
    /// Pass one in a `static` or an `Arc`, which you keep to watch it, or [`PerHost`] and [`Single`] with your own settings.
    pub fn breakers<N: for<'a> Ask<Head<'a>>>(
        self,
        breakers: N,
    ) -> ClientStack<D, BreakerPart<N>, R, G, H, T, L, C, A, P> {
        self.with_breaker(BreakerPart(CircuitBreakerLayer::new(breakers)))
    }

    /// Puts a throttle for each host inside of the retries.
    ///
    /// It refuses calls that an overloaded server would reject.
    pub fn throttle_per_host(self) -> ClientStack<D, B, R, G, H, ThrottlePart<ThrottlePerHost>, L, C, A, P> {
        self.with_throttle(ThrottlePart(ThrottleLayer::per_host()))
    }

    /// Puts one throttle for all requests inside of the retries.
    pub fn throttle_single(self) -> ClientStack<D, B, R, G, H, ThrottlePart<Arc<AdaptiveThrottle>>, L, C, A, P> {
        self.with_throttle(ThrottlePart(ThrottleLayer::single()))
    }

    /// Puts existing throttles inside of the retries.
    ///
    /// Pass one in a `static` or an `Arc`, or another [gate](damper_core::gate), such as a `PerKey` by [`TargetHost`](crate::TargetHost).
    pub fn throttles<N: for<'a> Ask<Head<'a>>>(
        self,
        throttles: N,
    ) -> ClientStack<D, B, R, G, H, ThrottlePart<N>, L, C, A, P> {
        self.with_throttle(ThrottlePart(ThrottleLayer::new(throttles)))
    }

    /// Limits the rate of requests, retries and hedges included.
    ///
    /// A request over the limit is refused at once, and not retried.
    ///
    /// To wait for tokens: `.limit_layer(LimitLayer::new(&LIMIT).waiting(longest))`.
    pub fn limit(
        self,
        quota: Quota,
    ) -> ClientStack<D, B, R, G, H, T, LayerPart<PlainLayer<Arc<RateLimiter>, OkOrErr>>, C, A, P> {
        self.limit_layer(LimitLayer::new(Arc::new(RateLimiter::new(quota))))
    }

    /// Limits the calls in flight, until their responses have ended.
    ///
    /// A call over the limit is refused at once, and not retried.
    ///
    /// To wait for a slot: `.concurrency_layer(ClientConcurrencyLayer::bulkhead(64).waiting(longest))`.
    pub fn bulkhead(self, limit: u32) -> ClientStack<D, B, R, G, H, T, L, ConcurrencyPart<Arc<Bulkhead>>, A, P> {
        self.concurrency_layer(ClientConcurrencyLayer::bulkhead(limit))
    }

    /// Limits the calls in flight to each host, as [`bulkhead`](Self::bulkhead) does for all.
    ///
    /// A host that hangs takes no slots from the others.
    pub fn bulkhead_per_host(
        self,
        limit: u32,
    ) -> ClientStack<D, B, R, G, H, T, L, ConcurrencyPart<BulkheadPerHost>, A, P> {
        self.concurrency_layer(ClientConcurrencyLayer::bulkhead_per_host(limit))
    }

    /// Limits the calls in flight by a limit within these bounds that follows the latency of responses.
    ///
    /// Apart from that it does the same as [`bulkhead`](Self::bulkhead).
    pub fn adaptive(
        self,
        bounds: LimitBounds,
    ) -> ClientStack<D, B, R, G, H, T, L, ConcurrencyPart<Arc<AdaptiveLimit>>, A, P> {
        self.concurrency_layer(ClientConcurrencyLayer::adaptive(bounds))
    }

    /// Limits the calls in flight to each host as [`adaptive`](Self::adaptive) does.
    pub fn adaptive_per_host(
        self,
        bounds: LimitBounds,
    ) -> ClientStack<D, B, R, G, H, T, L, ConcurrencyPart<AdaptiveLimitPerHost>, A, P> {
        self.concurrency_layer(ClientConcurrencyLayer::adaptive_per_host(bounds))
    }

    /// Sets the protocol by which the parts judge. Default: [`HttpProtocol`].
    ///
    /// The breaker, the throttle, the retries and the hedge judge by it. For gRPC, pass `damper::tonic::Grpc::new()`. Parts set by a
    /// `…_layer` method keep their own rules.
    pub fn protocol<N: StackProtocol>(self, protocol: N) -> ClientStack<D, B, R, G, H, T, L, C, A, N> {
        let Parts { deadline, breaker, retry, pacing, hedge, throttle, limit, concurrency, attempt_timeout, .. } =
            self.0;
        ClientStack(Parts {
            deadline,
            breaker,
            retry,
            pacing,
            hedge,
            throttle,
            limit,
            concurrency,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the call's deadline.
    ///
    /// For example, pass a [`ClientDeadlineLayer`](crate::ClientDeadlineLayer) that sends the time left to the server in a header.
    pub fn deadline_layer<N>(self, layer: N) -> ClientStack<LayerPart<N>, B, R, G, H, T, L, C, A, P> {
        self.with_deadline(LayerPart(layer))
    }

    fn with_deadline<N>(self, part: N) -> ClientStack<N, B, R, G, H, T, L, C, A, P> {
        let Parts { breaker, retry, pacing, hedge, throttle, limit, concurrency, attempt_timeout, protocol, .. } =
            self.0;
        ClientStack(Parts {
            deadline: part,
            breaker,
            retry,
            pacing,
            hedge,
            throttle,
            limit,
            concurrency,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the circuit breaker, which keeps its own rules.
    ///
    /// For example, pass a [`CircuitBreakerLayer`] with your own classifier, or with a [`MinBudget`](crate::MinBudget). For gRPC it needs
    /// its own `completion`. The service's error is a [`StackError`], so leave out `judge_boxed`.
    pub fn breaker_layer<N>(self, layer: N) -> ClientStack<D, LayerPart<N>, R, G, H, T, L, C, A, P> {
        self.with_breaker(LayerPart(layer))
    }

    fn with_breaker<N>(self, part: N) -> ClientStack<D, N, R, G, H, T, L, C, A, P> {
        let Parts { deadline, retry, pacing, hedge, throttle, limit, concurrency, attempt_timeout, protocol, .. } =
            self.0;
        ClientStack(Parts {
            deadline,
            breaker: part,
            retry,
            pacing,
            hedge,
            throttle,
            limit,
            concurrency,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the retries, which keeps its own rules.
    ///
    /// For example, pass a [`RetryLayer`](crate::RetryLayer) with `when`, `buffering`, or a budget per host. For gRPC it needs its own
    /// `protocol`. The service's error is a [`StackError`], so leave out `judge_boxed`.
    pub fn retry_layer<N>(self, layer: N) -> ClientStack<D, B, LayerPart<N>, G, H, T, L, C, A, P> {
        self.with_retry(LayerPart(layer))
    }

    fn with_retry<N>(self, part: N) -> ClientStack<D, B, N, G, H, T, L, C, A, P> {
        let Parts { deadline, breaker, pacing, hedge, throttle, limit, concurrency, attempt_timeout, protocol, .. } =
            self.0;
        ClientStack(Parts {
            deadline,
            breaker,
            retry: part,
            pacing,
            hedge,
            throttle,
            limit,
            concurrency,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the pacing, which keeps its own rules.
    ///
    /// For example, pass a [`PacingLayer`](crate::PacingLayer) with [`without_retries`](crate::PacingLayer::without_retries) and your own
    /// hints. A layer with its own retries would repeat each attempt of the stack's [retries](Self::retry).
    pub fn pacing_layer<N>(self, layer: N) -> ClientStack<D, B, R, LayerPart<N>, H, T, L, C, A, P> {
        self.with_pacing(LayerPart(layer))
    }

    fn with_pacing<N>(self, part: N) -> ClientStack<D, B, R, N, H, T, L, C, A, P> {
        let Parts { deadline, breaker, retry, hedge, throttle, limit, concurrency, attempt_timeout, protocol, .. } =
            self.0;
        ClientStack(Parts {
            deadline,
            breaker,
            retry,
            pacing: part,
            hedge,
            throttle,
            limit,
            concurrency,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the hedge, which keeps its own rules.
    ///
    /// For example, pass a [`HedgeLayer`](crate::HedgeLayer) with `when`. For gRPC it needs its own `protocol`.
    pub fn hedge_layer<N>(self, layer: N) -> ClientStack<D, B, R, G, LayerPart<N>, T, L, C, A, P> {
        self.with_hedge(LayerPart(layer))
    }

    fn with_hedge<N>(self, part: N) -> ClientStack<D, B, R, G, N, T, L, C, A, P> {
        let Parts { deadline, breaker, retry, pacing, throttle, limit, concurrency, attempt_timeout, protocol, .. } =
            self.0;
        ClientStack(Parts {
            deadline,
            breaker,
            retry,
            pacing,
            hedge: part,
            throttle,
            limit,
            concurrency,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the throttle, which keeps its own rules.
    ///
    /// For example, pass a [`ThrottleLayer`](crate::ThrottleLayer) with your own classifier. For gRPC it needs its own `completion`.
    pub fn throttle_layer<N>(self, layer: N) -> ClientStack<D, B, R, G, H, LayerPart<N>, L, C, A, P> {
        self.with_throttle(LayerPart(layer))
    }

    fn with_throttle<N>(self, part: N) -> ClientStack<D, B, R, G, H, N, L, C, A, P> {
        let Parts { deadline, breaker, retry, pacing, hedge, limit, concurrency, attempt_timeout, protocol, .. } =
            self.0;
        ClientStack(Parts {
            deadline,
            breaker,
            retry,
            pacing,
            hedge,
            throttle: part,
            limit,
            concurrency,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the rate limit.
    ///
    /// For example, pass a [`LimitLayer`] whose calls wait for tokens, or any other limiter.
    ///
    /// With `.deadline_by(RequestDeadline)` on the layer, a call whose tokens come after its deadline is refused at once. Otherwise it
    /// waits until the deadline.
    pub fn limit_layer<N>(self, layer: N) -> ClientStack<D, B, R, G, H, T, LayerPart<N>, C, A, P> {
        self.with_limit(LayerPart(layer))
    }

    fn with_limit<N>(self, part: N) -> ClientStack<D, B, R, G, H, T, N, C, A, P> {
        let Parts { deadline, breaker, retry, pacing, hedge, throttle, concurrency, attempt_timeout, protocol, .. } =
            self.0;
        ClientStack(Parts {
            deadline,
            breaker,
            retry,
            pacing,
            hedge,
            throttle,
            limit: part,
            concurrency,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the concurrency limit.
    ///
    /// For example, pass a [`ClientConcurrencyLayer`] whose calls wait, or with a limit that you keep.
    ///
    /// `damper::tower::BulkheadLayer` releases its permit as soon as the response begins.
    pub fn concurrency_layer<N>(self, layer: N) -> ClientStack<D, B, R, G, H, T, L, LayerPart<N>, A, P> {
        self.with_concurrency(LayerPart(layer))
    }

    fn with_concurrency<N>(self, part: N) -> ClientStack<D, B, R, G, H, T, L, N, A, P> {
        let Parts { deadline, breaker, retry, pacing, hedge, throttle, limit, attempt_timeout, protocol, .. } = self.0;
        ClientStack(Parts {
            deadline,
            breaker,
            retry,
            pacing,
            hedge,
            throttle,
            limit,
            concurrency: part,
            attempt_timeout,
            protocol,
        })
    }

    /// Sets the layer of the timeout of one attempt.
    ///
    /// For example, pass an [`AttemptTimeoutLayer`](super::AttemptTimeoutLayer) with another timer, or tower's `TimeoutLayer`.
    pub fn attempt_timeout_layer<N>(self, layer: N) -> ClientStack<D, B, R, G, H, T, L, C, LayerPart<N>, P> {
        self.with_attempt_timeout(LayerPart(layer))
    }

    fn with_attempt_timeout<N>(self, part: N) -> ClientStack<D, B, R, G, H, T, L, C, N, P> {
        let Parts { deadline, breaker, retry, pacing, hedge, throttle, limit, concurrency, protocol, .. } = self.0;
        ClientStack(Parts {
            deadline,
            breaker,
            retry,
            pacing,
            hedge,
            throttle,
            limit,
            concurrency,
            attempt_timeout: part,
            protocol,
        })
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
}

/// The concurrency limit.
type ConcurrencyPart<L> = LayerPart<ClientConcurrencyLayer<L>>;

/// The service inside of a part, from the inside out.
type Inside<S> = StackErrorService<S, OfTransport>;

impl<S, D, B, R, G, H, T, L, C, A, P> Layer<S> for ClientStack<D, B, R, G, H, T, L, C, A, P>
where
    A: ClientPart<Inside<S>, P>,
    C: ClientPart<A::Service, P>,
    L: ClientPart<C::Service, P>,
    T: ClientPart<L::Service, P>,
    H: ClientPart<T::Service, P>,
    G: ClientPart<H::Service, P>,
    R: ClientPart<G::Service, P>,
    B: ClientPart<R::Service, P>,
    D: ClientPart<B::Service, P>,
{
    type Service = StackErrorService<D::Service, OfStack<P>>;

    fn layer(&self, service: S) -> Self::Service {
        let Parts { deadline, breaker, retry, pacing, hedge, throttle, limit, concurrency, attempt_timeout, protocol } =
            &self.0;
        let service = StackErrorService::new(service, OfTransport);
        let service = attempt_timeout.put_around(service, StackPart::AttemptTimeout, protocol);
        let service = concurrency.put_around(service, StackPart::Concurrency, protocol);
        let service = limit.put_around(service, StackPart::Limit, protocol);
        let service = throttle.put_around(service, StackPart::Throttle, protocol);
        let service = if R::IS_PRESENT {
            hedge.put_inside_of_retries(service, StackPart::Hedge, protocol)
        } else {
            hedge.put_around(service, StackPart::Hedge, protocol)
        };
        let service = pacing.put_around(service, StackPart::Pacing, protocol);
        let service = retry.put_around(service, StackPart::Retry, protocol);
        let service = breaker.put_around(service, StackPart::Breaker, protocol);
        let service = deadline.put_around(service, StackPart::Deadline, protocol);
        StackErrorService::new(service, OfStack::new())
    }
}
