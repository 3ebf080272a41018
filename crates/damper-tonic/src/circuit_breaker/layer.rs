//! Which breakers, and what is a failure.

use super::{CircuitBreak, unavailability};
use core::fmt;
use damper_core::breaker::{BreakerConfig, StateChange, Verdict};
use damper_http::{self as http, Breakers, PerHost, Single, internal};
use tonic::Code;
use tower_layer::Layer;

/// Puts gRPC clients behind circuit breakers: a failing service is not called, and the caller gets an error at once.
///
/// The verdict falls where gRPC puts the status: in the headers of an answer without messages, else in the trailers, so
/// that a stream counts when it ends. Only a probe, which asks whether the service is back, counts as a success with
/// its first message, see [below](#streams-as-probes). `UNAVAILABLE`, `DEADLINE_EXCEEDED` and `RESOURCE_EXHAUSTED` are
/// failures, and so are errors of the transport; other codes are successes.
///
/// | the answer | verdict |
/// |---|---|
/// | has a status, in its headers or its trailers | by its code |
/// | is a limiter's refusal: `RESOURCE_EXHAUSTED` with a `google.rpc.RetryInfo`, or a 429 with `Retry-After` | a success |
/// | has none, and a status of HTTP that gRPC maps to a code, such as 503 | by that code |
/// | has none, and is `UNKNOWN` by that mapping: a stream that was cut off, a page of HTML, a 500 | a failure |
/// | is a stream that the caller drops | none; a probe gives its place back |
/// | does not come, because the call panics | a failure; the panic goes on to the caller |
///
/// A limiter that refuses is alive and says when to come back: to count that as a failure would stop the calls that it
/// would let pass. Any other failure with a `google.rpc.RetryInfo` keeps the breaker open for as long as that says: see
/// [`max_retry_after`](damper_core::breaker::BreakerConfigBuilder::max_retry_after).
///
/// The service's error is a [`Status`](tonic::Status): the one that a generated client would have made of the error, or
/// `UNAVAILABLE` where the call was refused, in whose sources
/// [`CircuitOpen::find_in`](damper_core::CircuitOpen::find_in)
/// finds the refusal.
///
/// Clones, and all services that one makes, share the breakers. Put it outside of what tries again: then a call that
/// used up its tries is one failure, and an open breaker costs no wait.
///
/// # Streams as probes
///
/// A watch that is opened as the probe may last for hours, and must not keep other calls out for so long. So a probe
/// counts as a success when its first message arrives. If that closes the breaker, the stream goes on as a call of the
/// closed state: a failure in its trailers counts as one failure. If more probes are needed, its end counts for
/// nothing.
///
/// Until its first message a probe keeps its place. For streams that may be silent for long, set
/// [`max_half_open`](damper_core::breaker::BreakerConfigBuilder::max_half_open).
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
/// use damper::tonic::CircuitBreakerLayer;
/// use damper::{BreakerConfig, CircuitOpen};
/// use tonic::transport::Channel;
/// use tower::Layer;
/// # struct GreeterClient<T>(T);
/// # impl<T: tonic::client::GrpcService<tonic::body::Body>> GreeterClient<T> {
/// #     fn new(channel: T) -> Self { Self(channel) }
/// #     async fn say_hello(&mut self, name: &str) -> Result<String, tonic::Status> { Ok(name.to_owned()) }
/// # }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = Channel::from_static("http://greeter.example.com:50051").connect_lazy();
/// let breaker = CircuitBreakerLayer::single(BreakerConfig::default()); // 5 failures, 30 s, 1 probe
/// let mut client = GreeterClient::new(breaker.layer(channel));
///
/// match client.say_hello("me").await {
///     Ok(greeting) => println!("{greeting}"),
///     Err(status) => match CircuitOpen::find_in(&status) {
///         Some(open) => println!("{open}"), // circuit open, next probe in 28 s
///         None => println!("{status}"),
///     },
/// }
/// # Ok(())
/// # }
/// ```
pub struct CircuitBreakerLayer<B = Single, V = fn(Code) -> Verdict> {
    http: http::CircuitBreakerLayer<B>,
    classify: V,
}

impl CircuitBreakerLayer<Single> {
    /// Creates a layer with one breaker for all requests of all its services: for one channel.
    #[must_use]
    pub fn single(config: BreakerConfig) -> Self {
        Self::of(http::CircuitBreakerLayer::single(config))
    }
}

impl CircuitBreakerLayer<PerHost> {
    /// Creates a layer with a breaker per host and port, for the 1024 hosts that were called last. A failing host does
    /// not shut off healthy ones.
    ///
    /// A generated client names the host only if it has an origin: `GreeterClient::with_origin(layer.layer(channel),
    /// uri)`. Requests without a host share a breaker.
    #[must_use]
    pub fn per_host(config: BreakerConfig) -> Self {
        Self::of(http::CircuitBreakerLayer::per_host(config))
    }
}

impl<V> CircuitBreakerLayer<Single, V> {
    /// Sets the name of the layer in logs and metrics. Default: `default`. Call it before the layer makes services.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { http: self.http.named(name), ..self }
    }

    /// Registers a callback for state changes. Call it before the layer makes services.
    #[must_use]
    pub fn on_state_change(self, hook: impl Fn(StateChange) + Send + Sync + 'static) -> Self {
        Self { http: self.http.on_state_change(hook), ..self }
    }
}

impl<V> CircuitBreakerLayer<PerHost, V> {
    /// Sets the name of the layer in logs and metrics. Default: `default`. Call it before the layer makes services.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { http: self.http.named(name), ..self }
    }

    /// Sets how many hosts are kept at most. Default: 1024. Call it before the layer makes services.
    #[must_use]
    pub fn capacity(self, hosts: usize) -> Self {
        Self { http: self.http.capacity(hosts), ..self }
    }

    /// Registers a callback for state changes, which gets the host and port, such as `api.example.com:443`. Call it
    /// before the layer makes services.
    #[must_use]
    pub fn on_state_change(self, hook: impl Fn(StateChange, &str) + Send + Sync + 'static) -> Self {
        Self { http: self.http.on_state_change(hook), ..self }
    }
}

impl<B: Breakers> CircuitBreakerLayer<B> {
    /// Creates a layer from existing breakers, as [the layer of HTTP](damper_http::CircuitBreakerLayer::new) does.
    ///
    /// They are a `&'static` or an `Arc` of a [`CircuitBreaker`](damper_core::CircuitBreaker), an `Arc` of a
    /// [`KeyedCircuitBreaker`](damper_core::KeyedCircuitBreaker) with one per host, or [`Breakers`] of your own.
    pub fn new(breakers: B) -> Self {
        Self::of(http::CircuitBreakerLayer::new(breakers))
    }

    fn of(http: http::CircuitBreakerLayer<B>) -> Self {
        Self { http, classify: unavailability }
    }
}

impl<B, V> CircuitBreakerLayer<B, V> {
    /// Sets what a code says about its server. Default: [`unavailability`].
    ///
    /// The closure is cloned for every call. It is not asked where there is no status. A `Verdict::Failure` for
    /// `RESOURCE_EXHAUSTED` becomes a success if the status has a `google.rpc.RetryInfo`; to count such refusals,
    /// return `Verdict::RetryAfter`, with the time to stay open.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
    /// use damper::tonic::CircuitBreakerLayer;
    /// use damper::{BreakerConfig, Verdict};
    /// use tonic::Code;
    ///
    /// let layer = CircuitBreakerLayer::single(BreakerConfig::default()).classify(|code| match code {
    ///     Code::Unavailable | Code::Internal | Code::DataLoss => Verdict::Failure,
    ///     Code::Cancelled => Verdict::Ignored,
    ///     _ => Verdict::Success,
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn classify<F: Fn(Code) -> Verdict>(self, classify: F) -> CircuitBreakerLayer<B, F> {
        CircuitBreakerLayer { http: self.http, classify }
    }
}

impl<B: Clone, V: Clone> CircuitBreakerLayer<B, V> {
    /// Puts a client's service, such as a `Channel`, behind the breakers.
    pub fn layer<S>(&self, service: S) -> CircuitBreak<S, B, V> {
        CircuitBreak::new(service, internal::breakers(&self.http).clone(), self.classify.clone())
    }
}

impl<B: Clone, V: Clone, S> Layer<S> for CircuitBreakerLayer<B, V> {
    type Service = CircuitBreak<S, B, V>;

    fn layer(&self, service: S) -> CircuitBreak<S, B, V> {
        self.layer(service)
    }
}

/// Clones share the breakers.
impl<B: Clone, V: Clone> Clone for CircuitBreakerLayer<B, V> {
    fn clone(&self) -> Self {
        Self { http: self.http.clone(), classify: self.classify.clone() }
    }
}

impl<B: fmt::Debug, V> fmt::Debug for CircuitBreakerLayer<B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakerLayer")
            .field("breakers", internal::breakers::<B, _, _>(&self.http))
            .finish_non_exhaustive()
    }
}
