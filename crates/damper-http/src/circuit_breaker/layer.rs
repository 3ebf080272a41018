//! Which breakers, what is a failure, and when the verdict is made.

use super::{AtBodyEnd, AtHead, Breakers, CircuitBreak, PerHost, ServerErrors, Single};
use crate::ResponseHead;
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use damper_core::breaker::{BreakerConfig, StateChange, Verdict};

/// Puts a client's services behind circuit breakers: a failing service is not called, and the caller gets an error at
/// once.
///
/// Errors and answers with a status of 5xx are failures; every other answer is a success, 429 included. All reach the
/// caller unchanged, the errors as [`CallError::Failed`](damper_core::CallError). An open breaker is
/// [`CallError::Open`](damper_core::CallError), which [`CircuitOpen::find_in`](damper_core::CircuitOpen::find_in) finds
/// in whatever
/// it is wrapped; no answer is invented.
///
/// Clones, and all services that one makes, share the breakers. Permits are taken in `call`, never in `poll_ready`: a
/// caller that polls for readiness and goes away would keep others from a probe. An open breaker answers at once even
/// if the service is not ready, see [`CircuitBreak`]. A call that panics has failed.
///
/// Put it outside of what tries again, and a timeout inside: then a call that used up its tries is one failure, an open
/// breaker costs no wait, and no probe lasts for ever.
///
/// ```text
/// request ─▶ breaker ─▶ retry ─▶ timeout ─▶ transport
/// ```
///
/// # Examples
///
/// Before hyper-util's client:
///
#[cfg_attr(all(feature = "tower", feature = "hyper"), doc = "```")]
#[cfg_attr(not(all(feature = "tower", feature = "hyper")), doc = "```text")]
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::CircuitBreakerLayer;
/// use damper::{BreakerConfig, CallError};
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut client = ServiceBuilder::new()
///     .layer(CircuitBreakerLayer::per_host(BreakerConfig::default())) // 5 failures, 30 s, 1 probe
///     .service(Client::builder(TokioExecutor::new()).build_http());
///
/// let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
/// match client.ready().await?.call(request).await {
///     Ok(response) => println!("{}", response.status()),
///     Err(CallError::Open(open)) => println!("{open}"), // circuit open, next probe in 28 s
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// # Ok(())
/// # }
/// ```
pub struct CircuitBreakerLayer<B = PerHost, V = ServerErrors, W = AtHead> {
    breakers: B,
    classify: V,
    completion: PhantomData<fn() -> W>,
}

impl CircuitBreakerLayer<PerHost> {
    /// Creates a layer with a breaker per host and port, for the 1024 hosts that were called last. A failing host does
    /// not shut off healthy ones.
    ///
    /// The host is that of the target, or else of the header `Host`. However it is spelled, it has one breaker:
    /// `API.example.com.` is `api.example.com`, and `[2001:DB8::0001]` is `[2001:db8::1]`.
    #[must_use]
    pub fn per_host(config: BreakerConfig) -> Self {
        Self::new(PerHost::new(config))
    }
}

impl<V, W> CircuitBreakerLayer<PerHost, V, W> {
    /// Sets the name of the layer in logs and metrics. Default: `default`. Call it before the layer makes services.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { breakers: self.breakers.with_listener(|listener| listener.named(name)), ..self }
    }

    /// Sets how many hosts are kept at most. Default: 1024. Call it before the layer makes services.
    #[must_use]
    pub fn capacity(self, hosts: usize) -> Self {
        Self { breakers: self.breakers.with_capacity(hosts), ..self }
    }

    /// Registers a callback for state changes, which gets the host and port, such as `api.example.com:443`. Call it
    /// before the layer makes services.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::BreakerConfig;
    /// use damper::http::CircuitBreakerLayer;
    ///
    /// let layer = CircuitBreakerLayer::per_host(BreakerConfig::default())
    ///     .on_state_change(|change, host| eprintln!("{host}: {change}"));
    /// // api.example.com:443: circuit closed -> open: consecutive failures
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn on_state_change(self, hook: impl Fn(StateChange, &str) + Send + Sync + 'static) -> Self {
        Self { breakers: self.breakers.with_listener(|listener| listener.with_callback(Arc::new(hook))), ..self }
    }
}

impl CircuitBreakerLayer<Single> {
    /// Creates a layer with one breaker for all requests.
    #[must_use]
    pub fn single(config: BreakerConfig) -> Self {
        Self::new(Single::new(config))
    }
}

impl<V, W> CircuitBreakerLayer<Single, V, W> {
    /// Sets the name of the layer in logs and metrics. Default: `default`. Call it before the layer makes services.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { breakers: self.breakers.with_listener(|listener| listener.named(name)), ..self }
    }

    /// Registers a callback for state changes. Call it before the layer makes services.
    #[must_use]
    pub fn on_state_change(self, hook: impl Fn(StateChange) + Send + Sync + 'static) -> Self {
        let hook = Arc::new(move |change, _: &str| hook(change));
        Self { breakers: self.breakers.with_listener(|listener| listener.with_callback(hook)), ..self }
    }
}

impl<B: Breakers> CircuitBreakerLayer<B> {
    /// Creates a layer from existing breakers.
    ///
    /// Keep the breakers to inspect and to control them. They may have another clock, or be [`Breakers`] of your own.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::CircuitBreakerLayer;
    /// use damper::{BreakerConfig, CircuitBreaker, KeyedCircuitBreaker};
    /// use std::sync::Arc;
    ///
    /// static PAYMENTS: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    /// let payments = CircuitBreakerLayer::new(&PAYMENTS);
    ///
    /// let hosts = Arc::new(KeyedCircuitBreaker::new(BreakerConfig::DEFAULT, 100)?);
    /// let layer = CircuitBreakerLayer::new(Arc::clone(&hosts));
    /// hosts.get_or_create("sick.example.com:443").force_open();
    /// # let _ = (payments, layer);
    /// # Ok::<(), damper::CapacityError>(())
    /// ```
    pub fn new(breakers: B) -> Self {
        Self { breakers, classify: ServerErrors, completion: PhantomData }
    }
}

impl<B, V, W> CircuitBreakerLayer<B, V, W> {
    /// Sets what an answer, or the error in its place, says about its server. Default: [`ServerErrors`].
    ///
    /// The closure is cloned for every call. It names the service's error, `hyper_util::client::legacy::Error` for
    /// instance.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::{CircuitBreakerLayer, ResponseHead};
    /// use damper::{BreakerConfig, Verdict};
    /// use http::StatusCode;
    /// # type MyError = std::io::Error;
    ///
    /// let layer = CircuitBreakerLayer::per_host(BreakerConfig::default()).classify(
    ///     |answer: Result<&ResponseHead, &MyError>| match answer {
    ///         Ok(head) => Verdict::failure_if(head.status == StatusCode::SERVICE_UNAVAILABLE),
    ///         Err(_) => Verdict::Failure,
    ///     },
    /// );
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn classify<E, F>(self, classify: F) -> CircuitBreakerLayer<B, F, W>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> Verdict,
    {
        CircuitBreakerLayer { breakers: self.breakers, classify, completion: PhantomData }
    }

    /// Makes the verdict on a success at the end of the body. Default: at the head of the response.
    ///
    /// A body that fails after a 200 is then a failure, and one that is dropped before its end records no verdict.
    ///
    /// A probe counts as a success when the first data of its body arrives, so that a stream that lasts for hours keeps
    /// no other call out. If that closes the breaker, the stream goes on as a call of the closed state: a failure at
    /// its end counts as one failure. The next failures then trip the breaker by its usual threshold, and a cooldown
    /// that had grown starts over. For streams that may be silent for long, set
    /// [`max_half_open`](damper_core::breaker::BreakerConfigBuilder::max_half_open): until its first data, a probe
    /// keeps its place.
    #[must_use]
    pub fn when_body_ends(self) -> CircuitBreakerLayer<B, V, AtBodyEnd> {
        CircuitBreakerLayer { breakers: self.breakers, classify: self.classify, completion: PhantomData }
    }
}

#[cfg(feature = "tonic")]
impl<B, V, W> CircuitBreakerLayer<B, V, W> {
    /// The breakers, for another protocol.
    pub(crate) fn breakers(&self) -> &B {
        &self.breakers
    }
}

impl<B: Clone, V: Clone, W> CircuitBreakerLayer<B, V, W> {
    /// Puts a service behind the breakers.
    pub fn layer<S>(&self, service: S) -> CircuitBreak<S, B, V, W> {
        CircuitBreak::new(service, self.breakers.clone(), self.classify.clone())
    }
}

#[cfg(feature = "tower")]
impl<B: Clone, V: Clone, W, S> tower_layer::Layer<S> for CircuitBreakerLayer<B, V, W> {
    type Service = CircuitBreak<S, B, V, W>;

    fn layer(&self, service: S) -> CircuitBreak<S, B, V, W> {
        self.layer(service)
    }
}

/// Clones share the breakers.
impl<B: Clone, V: Clone, W> Clone for CircuitBreakerLayer<B, V, W> {
    fn clone(&self) -> Self {
        Self { breakers: self.breakers.clone(), classify: self.classify.clone(), completion: PhantomData }
    }
}

impl<B: fmt::Debug, V, W> fmt::Debug for CircuitBreakerLayer<B, V, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakerLayer").field("breakers", &self.breakers).finish_non_exhaustive()
    }
}
