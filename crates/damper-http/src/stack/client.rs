//! The builder of a client's stack, and its order.

#[cfg(feature = "tokio")]
use super::{AttemptTimeoutLayer, HedgePart, RetryPart};
use super::{
    BoxError, BoxedClient, BreakerPart, ClientPart, HttpProtocol, LayerPart, NoPart, OfTransport, StackError,
    StackErrorService, StackPart, StackProtocol, ThrottlePart,
};
use crate::circuit_breaker::{Breakers, CircuitBreakerLayer, PerHost, Single};
use crate::concurrency::ClientConcurrencyLayer;
#[cfg(feature = "tokio")]
use crate::deadline::ClientDeadlineLayer;
#[cfg(feature = "tokio")]
use crate::hedge::HedgeLayer;
#[cfg(feature = "tokio")]
use crate::retry::RetryLayer;
use crate::throttle::{ThrottleLayer, Throttles};
use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;
#[cfg(feature = "tokio")]
use core::time::Duration;
use damper_core::breaker::BreakerConfig;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, KeyedAdaptiveLimit, KeyedBulkhead, LimitBounds};
use damper_core::limit::RateLimiter;
use damper_core::quota::Quota;
#[cfg(feature = "tokio")]
use damper_core::retry::{Hedge, Retry};
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle};
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_tower::{LimitLayer, Refusing};
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

/// Begins the stack of a client: a [`ClientStack`] without any part.
pub const fn client_stack() -> ClientStack {
    ClientStack {
        deadline: NoPart,
        breaker: NoPart,
        retry: NoPart,
        hedge: NoPart,
        throttle: NoPart,
        limit: NoPart,
        concurrency: NoPart,
        attempt_timeout: NoPart,
        protocol: HttpProtocol,
    }
}

/// The parts of a client's stack, in the right order whatever the order of the calls is.
///
/// Made by [`client_stack`].
///
/// ```text
/// call ─▶ deadline ─▶ breaker ─▶ retry (budget) ─▶ hedge ─▶ throttle ─▶ client limit ─▶ bulkhead ─▶ attempt timeout ─▶ transport
/// ```
///
/// | part | plain | a layer of its own |
/// |---|---|---|
/// | deadline of the whole call, body included | `deadline` | [`deadline_layer`](Self::deadline_layer) |
/// | circuit breaker, which sees one outcome for each call | [`breaker_per_host`](Self::breaker_per_host), [`breaker_single`](Self::breaker_single), [`breakers`](Self::breakers) | [`breaker_layer`](Self::breaker_layer) |
/// | retries | `retry` | [`retry_layer`](Self::retry_layer) |
/// | hedge | `hedge` | [`hedge_layer`](Self::hedge_layer) |
/// | throttle, which counts what the server rejects | [`throttle_per_host`](Self::throttle_per_host), [`throttle_single`](Self::throttle_single), [`throttles`](Self::throttles) | [`throttle_layer`](Self::throttle_layer) |
/// | rate limit, which sees every attempt | [`limit`](Self::limit) | [`limit_layer`](Self::limit_layer) |
/// | calls in flight | [`bulkhead`](Self::bulkhead), [`bulkhead_per_host`](Self::bulkhead_per_host), [`adaptive`](Self::adaptive), [`adaptive_per_host`](Self::adaptive_per_host) | [`concurrency_layer`](Self::concurrency_layer) |
/// | timeout of one attempt | `attempt_timeout` | [`attempt_timeout_layer`](Self::attempt_timeout_layer) |
/// | HTTP or gRPC | [`protocol`](Self::protocol) | |
///
/// Unlinked setters need the feature `tokio`: without it rustc says `private field, not a method`. Retries and hedges need a transport
/// that is `Clone`: without it rustc says that the method `ready` does not exist. For `reqwest::Client`, put it into an
/// [`HttpClient`](crate::HttpClient). Every part may be left out. Setting a part again replaces it.
///
/// **Throttle and breaker.** The verdict on a call is that on its last attempt. A call whose last attempt was refused by the throttle, the
/// limit or the bulkhead is ignored by the breaker, even if earlier attempts failed. So with a throttle, or a tight limit, inside of retries
/// the breaker rarely opens in an outage: the throttle then keeps most calls from the server, and sends one a second. If the breaker is to
/// open, leave the throttle out.
///
/// The error of a call is a [`StackError`] whichever parts there are. Inside of the stack it is the error of every service, so a
/// classifier of your own takes `Result<&ResponseHead, &StackError>`.
///
/// The stack is a `tower::Layer`. Where the type of the service has to be written down, as in the field of a struct,
/// [`boxed`](Self::boxed) makes one without the types of the parts.
///
/// # Examples
///
#[cfg_attr(all(feature = "hyper", feature = "tokio"), doc = "```")]
#[cfg_attr(not(all(feature = "hyper", feature = "tokio")), doc = "```text")]
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
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
///     Err(error) => println!("{}: {error}", error.part()), // breaker: circuit open, next probe in 28 s
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a stack does nothing until it is put around a service"]
pub struct ClientStack<
    D = NoPart,
    B = NoPart,
    R = NoPart,
    H = NoPart,
    T = NoPart,
    L = NoPart,
    C = NoPart,
    A = NoPart,
    P = HttpProtocol,
> {
    deadline: D,
    breaker: B,
    retry: R,
    hedge: H,
    throttle: T,
    limit: L,
    concurrency: C,
    attempt_timeout: A,
    protocol: P,
}

#[cfg(feature = "tokio")]
#[expect(clippy::type_complexity, reason = "a stack has a parameter for each of its places")]
impl<D, B, R, H, T, L, C, A, P> ClientStack<D, B, R, H, T, L, C, A, P> {
    /// Sets the time that a call may take, with its retries, waits and the body of its response.
    ///
    /// An earlier [`Deadline`](damper_core::Deadline) in the request's extensions holds too. For gRPC, the server gets what is
    /// left; for HTTP, a header has to be named: `.deadline_layer(ClientDeadlineLayer::new(timeout).header(name, unit))`.
    pub fn deadline(
        self,
        timeout: Duration,
    ) -> ClientStack<LayerPart<ClientDeadlineLayer<TokioSleep>>, B, R, H, T, L, C, A, P> {
        self.deadline_layer(ClientDeadlineLayer::new(timeout))
    }

    /// Tries calls again by this policy, where the protocol allows it.
    ///
    /// Give the policy a [budget](Retry::budget), which the hedge takes from too: without one, three attempts for each call are
    /// three times the load on a server that fails under its load. Set a [`deadline`](Self::deadline) too: a call waits as long as
    /// a server's `Retry-After` asks for, up to the policy's [`max_hint`](Retry::max_hint).
    ///
    /// The transport has to be `Clone`, as each attempt takes its own.
    pub fn retry<K, N>(self, retry: Retry<K, N>) -> ClientStack<D, B, RetryPart<K, N, TokioSleep>, H, T, L, C, A, P> {
        self.with_retry(RetryPart(RetryLayer::new(retry)))
    }

    /// Makes a second attempt where the first takes longer than most and the protocol allows it.
    ///
    /// By a `Hedge`, or an `Arc<Hedge>` to share it.
    pub fn hedge<K, N>(
        self,
        hedge: impl Into<Arc<Hedge<K, N>>>,
    ) -> ClientStack<D, B, R, HedgePart<K, N, TokioSleep>, T, L, C, A, P> {
        self.with_hedge(HedgePart(HedgeLayer::new(hedge)))
    }

    /// Sets the time that one attempt may take until its response begins.
    ///
    /// The attempt is tried again where the protocol allows it.
    pub fn attempt_timeout(
        self,
        timeout: Duration,
    ) -> ClientStack<D, B, R, H, T, L, C, LayerPart<AttemptTimeoutLayer<TokioSleep>>, P> {
        self.attempt_timeout_layer(AttemptTimeoutLayer::new(timeout))
    }
}

#[expect(clippy::type_complexity, reason = "a stack has a parameter for each of its places")]
impl<D, B, R, H, T, L, C, A, P> ClientStack<D, B, R, H, T, L, C, A, P> {
    /// Puts a circuit breaker for each host outside of the retries: a call that used up its attempts is one failure.
    pub fn breaker_per_host(self, config: BreakerConfig) -> ClientStack<D, BreakerPart<PerHost>, R, H, T, L, C, A, P> {
        self.with_breaker(BreakerPart(CircuitBreakerLayer::per_host(config)))
    }

    /// Puts one circuit breaker for all requests outside of the retries.
    pub fn breaker_single(self, config: BreakerConfig) -> ClientStack<D, BreakerPart<Single>, R, H, T, L, C, A, P> {
        self.with_breaker(BreakerPart(CircuitBreakerLayer::single(config)))
    }

    /// Puts existing breakers outside of the retries.
    ///
    /// One in a `static` or an `Arc`, which you keep to watch it, or [`PerHost`] and [`Single`] with settings of your
    /// own.
    pub fn breakers<N: Breakers>(self, breakers: N) -> ClientStack<D, BreakerPart<N>, R, H, T, L, C, A, P> {
        self.with_breaker(BreakerPart(CircuitBreakerLayer::new(breakers)))
    }

    /// Puts a throttle for each host inside of the retries: it refuses calls that an overloaded server would reject.
    pub fn throttle_per_host(self) -> ClientStack<D, B, R, H, ThrottlePart<Arc<KeyedThrottle<String>>>, L, C, A, P> {
        self.with_throttle(ThrottlePart(ThrottleLayer::per_host()))
    }

    /// Puts one throttle for all requests inside of the retries.
    pub fn throttle_single(self) -> ClientStack<D, B, R, H, ThrottlePart<Arc<AdaptiveThrottle>>, L, C, A, P> {
        self.with_throttle(ThrottlePart(ThrottleLayer::single()))
    }

    /// Puts existing throttles inside of the retries.
    ///
    /// One in a `static` or an `Arc`, or a `KeyedThrottle` of hosts in an `Arc`.
    pub fn throttles<N: Throttles>(self, throttles: N) -> ClientStack<D, B, R, H, ThrottlePart<N>, L, C, A, P> {
        self.with_throttle(ThrottlePart(ThrottleLayer::new(throttles)))
    }

    /// Limits the rate of requests, retries and hedges included.
    ///
    /// A request over it is refused at once, and not tried again.
    ///
    /// To wait for tokens: `.limit_layer(LimitLayer::new(&LIMIT).waiting(longest))`.
    pub fn limit(
        self,
        quota: Quota,
    ) -> ClientStack<D, B, R, H, T, LayerPart<LimitLayer<Refusing<Arc<RateLimiter>>>>, C, A, P> {
        self.limit_layer(LimitLayer::new(Arc::new(RateLimiter::new(quota))))
    }

    /// Limits the calls in flight, until their responses have ended. A call over the limit is refused at once, and not tried again.
    ///
    /// To wait for a slot: `.concurrency_layer(ClientConcurrencyLayer::bulkhead(64).waiting(longest))`.
    pub fn bulkhead(self, limit: u32) -> ClientStack<D, B, R, H, T, L, ConcurrencyPart<Arc<Bulkhead>>, A, P> {
        self.concurrency_layer(ClientConcurrencyLayer::bulkhead(limit))
    }

    /// Limits the calls in flight to each host, as [`bulkhead`](Self::bulkhead) does: a host that hangs takes no slots from the
    /// others.
    pub fn bulkhead_per_host(
        self,
        limit: u32,
    ) -> ClientStack<D, B, R, H, T, L, ConcurrencyPart<Arc<KeyedBulkhead<String>>>, A, P> {
        self.concurrency_layer(ClientConcurrencyLayer::bulkhead_per_host(limit))
    }

    /// Limits the calls in flight as [`bulkhead`](Self::bulkhead) does, by a limit that follows the latency of responses within these
    /// bounds.
    pub fn adaptive(
        self,
        bounds: LimitBounds,
    ) -> ClientStack<D, B, R, H, T, L, ConcurrencyPart<Arc<AdaptiveLimit>>, A, P> {
        self.concurrency_layer(ClientConcurrencyLayer::adaptive(bounds))
    }

    /// Limits the calls in flight to each host as [`adaptive`](Self::adaptive) does.
    pub fn adaptive_per_host(
        self,
        bounds: LimitBounds,
    ) -> ClientStack<D, B, R, H, T, L, ConcurrencyPart<Arc<KeyedAdaptiveLimit<String>>>, A, P> {
        self.concurrency_layer(ClientConcurrencyLayer::adaptive_per_host(bounds))
    }

    /// Sets the protocol, by which the breaker, the throttle, the retries and the hedge judge. Default: [`HttpProtocol`].
    ///
    /// For gRPC, pass `damper::tonic::Grpc::new()`. `…_layer` parts keep their own rules.
    pub fn protocol<N: StackProtocol>(self, protocol: N) -> ClientStack<D, B, R, H, T, L, C, A, N> {
        let Self { deadline, breaker, retry, hedge, throttle, limit, concurrency, attempt_timeout, .. } = self;
        ClientStack { deadline, breaker, retry, hedge, throttle, limit, concurrency, attempt_timeout, protocol }
    }

    /// Sets the layer of the call's deadline.
    ///
    /// Such as a [`ClientDeadlineLayer`](crate::ClientDeadlineLayer) that sends what is left to the server in a
    /// header.
    pub fn deadline_layer<N>(self, layer: N) -> ClientStack<LayerPart<N>, B, R, H, T, L, C, A, P> {
        self.with_deadline(LayerPart(layer))
    }

    fn with_deadline<N>(self, part: N) -> ClientStack<N, B, R, H, T, L, C, A, P> {
        let Self { breaker, retry, hedge, throttle, limit, concurrency, attempt_timeout, protocol, .. } = self;
        ClientStack { deadline: part, breaker, retry, hedge, throttle, limit, concurrency, attempt_timeout, protocol }
    }

    /// Sets the layer of the circuit breaker, which keeps its own rules.
    ///
    /// A [`CircuitBreakerLayer`] with a classifier of your own, say, or with `min_budget`. For gRPC it needs its own
    /// `completion`. The service's error is a [`StackError`], so leave out `judge_boxed`.
    pub fn breaker_layer<N>(self, layer: N) -> ClientStack<D, LayerPart<N>, R, H, T, L, C, A, P> {
        self.with_breaker(LayerPart(layer))
    }

    fn with_breaker<N>(self, part: N) -> ClientStack<D, N, R, H, T, L, C, A, P> {
        let Self { deadline, retry, hedge, throttle, limit, concurrency, attempt_timeout, protocol, .. } = self;
        ClientStack { deadline, breaker: part, retry, hedge, throttle, limit, concurrency, attempt_timeout, protocol }
    }

    /// Sets the layer of the retries, which keeps its own rules.
    ///
    /// A [`RetryLayer`](crate::RetryLayer) with `when`, `buffering`, or a budget per host. For gRPC it needs its own
    /// `protocol`. The service's error is a [`StackError`], so leave out `judge_boxed`.
    pub fn retry_layer<N>(self, layer: N) -> ClientStack<D, B, LayerPart<N>, H, T, L, C, A, P> {
        self.with_retry(LayerPart(layer))
    }

    fn with_retry<N>(self, part: N) -> ClientStack<D, B, N, H, T, L, C, A, P> {
        let Self { deadline, breaker, hedge, throttle, limit, concurrency, attempt_timeout, protocol, .. } = self;
        ClientStack { deadline, breaker, retry: part, hedge, throttle, limit, concurrency, attempt_timeout, protocol }
    }

    /// Sets the layer of the hedge, which keeps its own rules.
    ///
    /// A [`HedgeLayer`](crate::HedgeLayer) with `when`, say. For gRPC it needs its own `protocol`.
    pub fn hedge_layer<N>(self, layer: N) -> ClientStack<D, B, R, LayerPart<N>, T, L, C, A, P> {
        self.with_hedge(LayerPart(layer))
    }

    fn with_hedge<N>(self, part: N) -> ClientStack<D, B, R, N, T, L, C, A, P> {
        let Self { deadline, breaker, retry, throttle, limit, concurrency, attempt_timeout, protocol, .. } = self;
        ClientStack { deadline, breaker, retry, hedge: part, throttle, limit, concurrency, attempt_timeout, protocol }
    }

    /// Sets the layer of the throttle, which keeps its own rules.
    ///
    /// A [`ThrottleLayer`](crate::ThrottleLayer) with a classifier of your own, say. For gRPC it needs its own
    /// `completion`.
    pub fn throttle_layer<N>(self, layer: N) -> ClientStack<D, B, R, H, LayerPart<N>, L, C, A, P> {
        self.with_throttle(LayerPart(layer))
    }

    fn with_throttle<N>(self, part: N) -> ClientStack<D, B, R, H, N, L, C, A, P> {
        let Self { deadline, breaker, retry, hedge, limit, concurrency, attempt_timeout, protocol, .. } = self;
        ClientStack { deadline, breaker, retry, hedge, throttle: part, limit, concurrency, attempt_timeout, protocol }
    }

    /// Sets the layer of the rate limit: a [`LimitLayer`] whose calls wait for tokens, say, or any other limiter.
    pub fn limit_layer<N>(self, layer: N) -> ClientStack<D, B, R, H, T, LayerPart<N>, C, A, P> {
        self.with_limit(LayerPart(layer))
    }

    fn with_limit<N>(self, part: N) -> ClientStack<D, B, R, H, T, N, C, A, P> {
        let Self { deadline, breaker, retry, hedge, throttle, concurrency, attempt_timeout, protocol, .. } = self;
        ClientStack { deadline, breaker, retry, hedge, throttle, limit: part, concurrency, attempt_timeout, protocol }
    }

    /// Sets the layer of the limit of calls in flight: a [`ClientConcurrencyLayer`] whose calls wait, say, or with a limit that you keep.
    ///
    /// `damper::tower::BulkheadLayer` frees its permit when the response begins.
    pub fn concurrency_layer<N>(self, layer: N) -> ClientStack<D, B, R, H, T, L, LayerPart<N>, A, P> {
        self.with_concurrency(LayerPart(layer))
    }

    fn with_concurrency<N>(self, part: N) -> ClientStack<D, B, R, H, T, L, N, A, P> {
        let Self { deadline, breaker, retry, hedge, throttle, limit, attempt_timeout, protocol, .. } = self;
        ClientStack { deadline, breaker, retry, hedge, throttle, limit, concurrency: part, attempt_timeout, protocol }
    }

    /// Sets the layer of the timeout of one attempt.
    ///
    /// An [`AttemptTimeoutLayer`](super::AttemptTimeoutLayer) by another timer, or tower's `TimeoutLayer`.
    pub fn attempt_timeout_layer<N>(self, layer: N) -> ClientStack<D, B, R, H, T, L, C, LayerPart<N>, P> {
        self.with_attempt_timeout(LayerPart(layer))
    }

    fn with_attempt_timeout<N>(self, part: N) -> ClientStack<D, B, R, H, T, L, C, N, P> {
        let Self { deadline, breaker, retry, hedge, throttle, limit, concurrency, protocol, .. } = self;
        ClientStack { deadline, breaker, retry, hedge, throttle, limit, concurrency, attempt_timeout: part, protocol }
    }

    /// Puts the stack around a client: hyper-util's, a `Channel` of tonic, any service of `http::Request`.
    ///
    /// With retries, with a hedge, and with a [`ClientConcurrencyLayer`](crate::ClientConcurrencyLayer), the client has to be `Clone`.
    pub fn service<S>(&self, service: S) -> <Self as Layer<S>>::Service
    where
        Self: Layer<S>,
    {
        self.layer(service)
    }

    /// Puts the stack around a client, and hides the types of all parts. `Q` is the body of requests.
    ///
    /// A call allocates its future and the body of its response.
    ///
    /// # Examples
    ///
    #[cfg_attr(all(feature = "hyper", feature = "tokio"), doc = "```")]
    #[cfg_attr(not(all(feature = "hyper", feature = "tokio")), doc = "```text")]
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
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

/// A limit of calls in flight.
type ConcurrencyPart<L> = LayerPart<ClientConcurrencyLayer<L>>;

/// The parts behind a part, from the inside out.
type Inside<S> = StackErrorService<S, OfTransport>;

impl<S, D, B, R, H, T, L, C, A, P> Layer<S> for ClientStack<D, B, R, H, T, L, C, A, P>
where
    A: ClientPart<Inside<S>, P>,
    C: ClientPart<A::Service, P>,
    L: ClientPart<C::Service, P>,
    T: ClientPart<L::Service, P>,
    H: ClientPart<T::Service, P>,
    R: ClientPart<H::Service, P>,
    B: ClientPart<R::Service, P>,
    D: ClientPart<B::Service, P>,
{
    type Service = D::Service;

    fn layer(&self, service: S) -> D::Service {
        let Self { deadline, breaker, retry, hedge, throttle, limit, concurrency, attempt_timeout, protocol } = self;
        let service = StackErrorService::new(service, OfTransport);
        let service = attempt_timeout.put_around(service, StackPart::AttemptTimeout, protocol);
        let service = concurrency.put_around(service, StackPart::Concurrency, protocol);
        let service = limit.put_around(service, StackPart::Limit, protocol);
        let service = throttle.put_around(service, StackPart::Throttle, protocol);
        let service = hedge.put_around(service, StackPart::Hedge, protocol);
        let service = retry.put_around(service, StackPart::Retry, protocol);
        let service = breaker.put_around(service, StackPart::Breaker, protocol);
        deadline.put_around(service, StackPart::Deadline, protocol)
    }
}
