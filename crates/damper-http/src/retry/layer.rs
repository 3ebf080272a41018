//! The layer: which calls are retried, when, and how often.

use super::http_retries::{Buffered, HttpRetries};
use super::{Budgets, GiveUp, Retrying};
use crate::{Hosts, ResponseHead};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::internal::split_budget;
use damper_core::retry::{Failure, GaveUp, Retry, RetryBudget, RetryBudgetConfig, RetryError, Unlimited};
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;

/// Retries a client's calls where that may help, by a [`Retry`] policy.
///
/// | question | answer |
/// |---|---|
/// | which requests? | those of idempotent methods, and those that the caller marks as [`Idempotent`](super::Idempotent), if their body is a [`ReplayableBody`](super::ReplayableBody) or is kept by [`buffering`](Self::buffering). A request that provably reached no server: of every method |
/// | after which outcomes? | [`Statuses::failure`](crate::Statuses::failure), or [`when`](Self::when) |
/// | when? | after the policy's backoff, not before the server's `Retry-After`, and not after the deadline |
/// | how often? | as the policy and its budget allow. A call counts once in the budget |
///
/// These are the answers of HTTP. Another [`protocol`](Self::protocol) answers the questions itself.
///
/// If a call is given up, the caller gets the last response unchanged, or a [`RetryError`](damper_core::RetryError) with the last error.
///
/// Share one budget among all callers of a server. For several servers, use a [budget per host](Self::budget_per_host). Without a budget,
/// three attempts per call triple the load on a server that fails because of its load.
///
/// **Deadline.** A [`Deadline`](damper_core::Deadline) in a request's extensions, on the policy's clock, bounds the whole call, including
/// waits. The policy's own deadline does so too, if it passes earlier. At the deadline the attempt in flight is dropped. A policy's own
/// deadline is one instant for all calls of the layer, so for a service put one into each request.
///
/// **Connections.** A response that is not returned is dropped before the wait, with the rest of its body. HTTP/1 then reuses its
/// connection only if that rest had already arrived, and HTTP/2 resets the stream.
///
/// **Order.** A breaker belongs outside: it then sees a call that used up its attempts as one failure, and an open breaker costs no
/// backoff. A timeout inside bounds one attempt. Errors of a breaker or a limiter inside are not retried. But a
/// [`RateLimitLayer`](crate::RateLimitLayer) inside responds with a 429, which looks like the server's and is retried. Use a
/// [`RateLimiter`](damper_core::RateLimiter) there instead, whose `Denied` is an error.
///
/// ```text
/// request ─▶ breaker ─▶ retry ─▶ timeout ─▶ transport
/// ```
///
/// Clones, and all services that one makes, share the policy and its budget.
///
/// # Examples
///
/// Before hyper-util's client:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(feature = "tokio")] {
/// use core::time::Duration;
/// use damper::http::RetryLayer;
/// use damper::{Deadline, Retry, RetryBudget};
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// static BUDGET: RetryBudget = RetryBudget::DEFAULT; // for 20 % of first attempts, and 10 a second
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut client = ServiceBuilder::new()
///     .layer(RetryLayer::new(Retry::new(3).budget(&BUDGET)))
///     .service(Client::builder(TokioExecutor::new()).build_http());
///
/// let request = http::Request::get("http://localhost/")
///     .extension(Deadline::after(Duration::from_secs(2)))
///     .body(Empty::<bytes::Bytes>::new())?;
/// let response = client.ready().await?.call(request).await?; // gave up after 3 attempts in 1.2 s: …
/// println!("{}", response.status());
/// # Ok(())
/// # }
/// # }
/// ```
pub struct RetryLayer<C, B, P, Z> {
    settings: Arc<RetrySettings<C, B, P, Z>>,
}

#[cfg(feature = "tokio")]
impl<C, B> RetryLayer<C, B, HttpRetries, TokioSleep> {
    /// Creates a layer that retries [`Statuses::failure`](crate::Statuses::failure) by a policy, and sleeps by tokio's timer.
    pub fn new(retry: Retry<C, B>) -> Self {
        Self::sleeping_by(retry, TokioSleep)
    }
}

impl<C, B, Z: Sleep> RetryLayer<C, B, HttpRetries, Z> {
    /// Creates a layer that retries [`Statuses::failure`](crate::Statuses::failure) by a policy, and sleeps by the timer of any runtime.
    pub fn sleeping_by(retry: Retry<C, B>, sleep: Z) -> Self {
        let (retry, budgets) = split_budget(retry);
        let settings = RetrySettings { retry, budgets: Arc::new(budgets), protocol: HttpRetries::new(), sleep };
        Self { settings: Arc::new(settings) }
    }
}

/// Setters of budgets, for a policy without a budget.
impl<C, P, Z> RetryLayer<C, Unlimited, P, Z>
where
    C: Clone,
    P: Clone,
    Z: Clone,
{
    /// Gives each host a budget of this configuration, for the 1024 most recently called hosts.
    ///
    /// Retries to a failing host take nothing from the other hosts.
    ///
    /// For another capacity, pass [`Hosts`] to [`budgets`](Self::budgets).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Retry;
    /// use damper::http::RetryLayer;
    /// use damper::retry::RetryBudgetConfig;
    ///
    /// # async fn sleep(_: std::time::Duration) {}
    /// let layer = RetryLayer::sleeping_by(Retry::new(3), sleep).budget_per_host(RetryBudgetConfig::DEFAULT);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn budget_per_host(self, config: RetryBudgetConfig) -> RetryLayer<C, Hosts<RetryBudget>, P, Z> {
        self.budgets(Hosts::budgets(config))
    }

    /// Sets the budget from which each request's retries are taken.
    #[must_use]
    pub fn budgets<N: Budgets>(self, budgets: N) -> RetryLayer<C, N, P, Z> {
        RetryLayer { settings: Arc::new(self.settings.with(budgets.into(), self.settings.protocol.clone())) }
    }
}

impl<C, B, V, K, Z> RetryLayer<C, B, HttpRetries<V, K>, Z>
where
    C: Clone,
    Z: Clone,
{
    /// Sets the outcomes after which another attempt may help.
    ///
    /// Default: [`Statuses::failure`](crate::Statuses::failure).
    ///
    /// The closure names the service's error. It is called for every outcome, but only requests that may be sent again are retried.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Retry;
    /// use damper::http::{ResponseHead, RetryLayer};
    /// use damper::retry::Failure;
    /// use http::StatusCode;
    /// # type MyError = std::io::Error;
    ///
    /// # async fn sleep(_: std::time::Duration) {}
    /// let layer = RetryLayer::sleeping_by(Retry::new(3), sleep)
    ///     .when(|response: Result<&ResponseHead, &MyError>| match response {
    ///         Ok(head) if head.status == StatusCode::CONFLICT => Some(Failure::TRANSIENT),
    ///         Ok(_) => None,
    ///         Err(_) => Some(Failure::FATAL),
    ///     });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn when<E, F>(self, failures: F) -> RetryLayer<C, B, HttpRetries<F, K>, Z>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> Option<Failure>,
        K: Copy,
    {
        let protocol = self.settings.protocol.when(failures);
        self.protocol(protocol)
    }

    /// Keeps up to `limit` bytes of a sent body, so that streams can be sent again too.
    ///
    /// Default: bodies are cloned.
    ///
    /// The service gets a [`BufferedBody`](super::BufferedBody). A request whose body was sent beyond the limit is not retried.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use bytes::Bytes;
    /// use damper::Retry;
    /// use damper::http::{BufferedBody, RetryLayer};
    /// use http_body_util::combinators::BoxBody;
    /// use hyper_util::client::legacy::Client;
    /// use hyper_util::rt::TokioExecutor;
    ///
    /// # async fn sleep(_: std::time::Duration) {}
    /// type Upload = BoxBody<Bytes, std::io::Error>;
    ///
    /// let client = Client::builder(TokioExecutor::new()).build_http::<BufferedBody<Upload>>();
    /// let client = RetryLayer::sleeping_by(Retry::new(3), sleep).buffering(64 * 1024).layer(client);
    /// # let _ = client;
    /// ```
    #[must_use]
    pub fn buffering(self, limit: usize) -> RetryLayer<C, B, HttpRetries<V, Buffered>, Z>
    where
        V: Clone,
    {
        let protocol = self.settings.protocol.buffering(limit);
        self.protocol(protocol)
    }
}

impl<C, B, P, Z> RetryLayer<C, B, P, Z>
where
    C: Clone,
    Z: Clone,
{
    /// Sets the protocol, such as `damper::tonic::GrpcRetries`. Default: [`HttpRetries`].
    ///
    /// A [`RetryProtocol`](super::RetryProtocol) decides which requests are sent again, with which bodies and headers, and after which
    /// outcomes.
    #[must_use]
    pub fn protocol<N>(self, protocol: N) -> RetryLayer<C, B, N, Z> {
        RetryLayer { settings: Arc::new(self.settings.with(Arc::clone(&self.settings.budgets), protocol)) }
    }
}

impl<C, B, P, Z> RetryLayer<C, B, P, Z> {
    /// Retries the calls of a service.
    pub fn layer<S>(&self, service: S) -> Retrying<S, C, B, P, Z> {
        Retrying::new(service, Arc::clone(&self.settings))
    }
}

impl<S, C, B, P, Z> tower_layer::Layer<S> for RetryLayer<C, B, P, Z> {
    type Service = Retrying<S, C, B, P, Z>;

    fn layer(&self, service: S) -> Retrying<S, C, B, P, Z> {
        self.layer(service)
    }
}

/// Clones share the policy.
impl<C, B, P, Z> Clone for RetryLayer<C, B, P, Z> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings) }
    }
}

impl<C, B: fmt::Debug, P, Z> fmt::Debug for RetryLayer<C, B, P, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryLayer").field(&self.settings).finish()
    }
}

/// The settings that all calls of a layer share.
pub struct RetrySettings<C, B, P, Z> {
    /// The policy without its budget, which is in `budgets`.
    pub(crate) retry: Retry<C>,
    /// Shared, because budgets need not be `Clone`, and the other settings are replaced one by one.
    pub(crate) budgets: Arc<B>,
    pub(crate) protocol: P,
    pub(crate) sleep: Z,
}

impl<C, B: fmt::Debug, P, Z> fmt::Debug for RetrySettings<C, B, P, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { retry, budgets, .. } = self;
        f.debug_struct("RetrySettings").field("retry", retry).field("budgets", budgets).finish_non_exhaustive()
    }
}

impl<C: Clone, B, P, Z: Clone> RetrySettings<C, B, P, Z> {
    /// Returns these settings with other budgets and another protocol.
    pub(crate) fn with<N, Q>(&self, budgets: Arc<N>, protocol: Q) -> RetrySettings<C, N, Q, Z> {
        RetrySettings { retry: self.retry.clone(), budgets, protocol, sleep: self.sleep.clone() }
    }
}

impl<C, B, P, Z> RetrySettings<C, B, P, Z> {
    /// Returns the caller's error of a call without an attempt.
    #[cold]
    pub(crate) fn not_begun<E>(&self, reason: GaveUp, error: Option<E>) -> P::Error
    where
        P: GiveUp<E>,
    {
        self.protocol.give_up(RetryError::new(reason, 0, Duration::ZERO, error))
    }
}
