//! The layer: its pacers, their hints, and whether rejected calls are retried.

use super::paced_requests::PacedRequests;
use super::{PaceOnly, PacingService, Repeating, Unjudged};
use crate::retry::{Budgets, Buffered, HttpRetries, RetrySettings};
use crate::stack::StackProtocol;
use crate::telemetry::{Kind, Telemetry};
use crate::{Head, Hosts, HttpProtocol, ResponseHead};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::Reads;
use damper_core::gate::PacerSource;
use damper_core::internal::split_paced_budget;
#[cfg(feature = "tokio")]
use damper_core::quota::Quota;
use damper_core::retry::{Retry, RetryBudget, RetryBudgetConfig};
#[cfg(feature = "tokio")]
use damper_core::throttle::Pacer;
use damper_core::throttle::{Hints, PacedRetry};
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_tower::GateService;

/// Returns the policy by which attempts are counted.
///
/// The pacer sets the waits, and it bounds the wait that a server can ask for.
fn retry_by(policy: PacedRetry) -> Retry {
    Retry::new(policy.max_attempts()).max_hint(Duration::MAX)
}

/// The default mode of a layer that retries rejected calls.
type Alone<Z> = Repeating<RetryBudget, HttpRetries<Unjudged>, Z>;

/// Sleeps before a client's calls, so that a rate-limited server rarely rejects one.
///
/// A [`Pacer`](damper_core::throttle::Pacer) learns the length of the sleep from the responses. The layer reads the status 429,
/// `Retry-After` and the headers of rate limits: see [`HttpProtocol`].
///
/// **Alone**, as it is created, it retries a rejected call, so that the caller need not see a 429:
///
/// | question | answer |
/// |---|---|
/// | which requests? | all that were rejected, of every method: the server has not processed them. Their body is a [`ReplayableBody`](crate::ReplayableBody), or is kept by [`buffering`](Self::buffering) |
/// | when? | after the sleep that the pacer returns, which keeps to the server's `Retry-After` |
/// | how often? | 10 attempts within 5 minutes and a [`RetryBudget`], or by another [policy](Self::retry) |
///
/// If it gives up a call after an attempt, the caller gets the last response unchanged, with the [reason](damper_core::retry::GaveUp) in
/// its extensions, or a [`RetryError`](damper_core::RetryError) with the last error.
///
/// **Inside of retries** it only paces: see [`without_retries`](Self::without_retries). `client_stack().pacing(…)` puts it there: inside of
/// the retries, so that each attempt is paced, and outside of everything else. So a sleep holds no slot of a bulkhead, does not count
/// toward the time of an attempt, and does not look like a slow server to a hedge. The extra request of a hedge is not paced.
///
/// ```text
/// request ─▶ breaker ─▶ retry ─▶ pacing ─▶ hedge ─▶ throttle ─▶ limit ─▶ bulkhead ─▶ timeout ─▶ transport
/// ```
///
/// **Deadline.** A sleep never outlasts the [`Deadline`](damper_core::Deadline) in a request's extensions. A call whose sleep would is not
/// made, and fails at once: with a [`RetryError`](damper_core::RetryError), or without retries with
/// [`CallError::Refused`](damper_core::CallError). [`PaceTooSlow::find_in`](damper_core::throttle::PaceTooSlow::find_in) finds the refusal
/// in both.
///
/// For gRPC, pass `damper::tonic::Grpc::new()` to [`protocol`](Self::protocol).
///
/// Clones, and all services that one makes, share the pacers.
///
/// # Examples
///
/// Before hyper-util's client:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "hyper", feature = "tokio"))] {
/// use damper::Quota;
/// use damper::http::PacingLayer;
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut client = ServiceBuilder::new()
///     .layer(PacingLayer::per_host(Quota::per_hour(4_500)))
///     .service(Client::builder(TokioExecutor::new()).build_http());
///
/// let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
/// let response = client.ready().await?.call(request).await?; // sleeps while the limit is near
/// println!("{}", response.status());
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone)]
pub struct PacingLayer<T, H, M> {
    pub(super) pacers: T,
    pub(super) hints: H,
    pub(super) mode: M,
    pub(super) telemetry: Telemetry,
}

#[cfg(feature = "tokio")]
impl PacingLayer<Arc<Pacer>, HttpProtocol, Alone<TokioSleep>> {
    /// Creates a layer with one pacer for all requests, to a server with this quota.
    ///
    /// It sleeps by tokio's timer. The quota is that of the whole limit, even if other clients share it: `remaining` shows their use.
    #[must_use]
    pub fn single(quota: Quota) -> Self {
        Self::new(Arc::new(Pacer::new(quota)))
    }
}

#[cfg(feature = "tokio")]
impl PacingLayer<Hosts<Pacer>, HttpProtocol, Alone<TokioSleep>> {
    /// Creates a layer with a pacer with this quota per host and port.
    ///
    /// It keeps the pacers of the 1024 most recently called hosts, and sleeps by tokio's timer.
    #[must_use]
    pub fn per_host(quota: Quota) -> Self {
        Self::new(Hosts::pacers(quota))
    }
}

#[cfg(feature = "tokio")]
impl<T: PacerSource + for<'a> Reads<Head<'a>, <T as PacerSource>::Pacer>>
    PacingLayer<T, HttpProtocol, Alone<TokioSleep>>
{
    /// Creates a layer from existing pacers, which sleeps by tokio's timer.
    ///
    /// Pass a [`Pacer`] in a `static` or an `Arc`, [`Hosts`], or a [`SelectedPacer`](damper_core::gate::SelectedPacer), which chooses by a
    /// closure.
    ///
    /// # Examples
    ///
    /// A server that limits reads and writes apart:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Quota;
    /// use damper::gate::SelectedPacer;
    /// use damper::http::{Head, PacingLayer};
    /// use damper::throttle::Pacer;
    ///
    /// static READS: Pacer = Pacer::new(Quota::per_hour(4_500));
    /// static WRITES: Pacer = Pacer::new(Quota::per_hour(500));
    ///
    /// let apart = SelectedPacer::by(|head: &Head<'_>| if head.method.is_safe() { &READS } else { &WRITES });
    /// let layer = PacingLayer::new(apart);
    /// # let _ = layer;
    /// ```
    pub fn new(pacers: T) -> Self {
        Self::sleeping_by(pacers, TokioSleep)
    }
}

impl<T: PacerSource + for<'a> Reads<Head<'a>, <T as PacerSource>::Pacer>, Z: Sleep>
    PacingLayer<T, HttpProtocol, Alone<Z>>
{
    /// Creates a layer from existing pacers, which sleeps by the timer of any runtime.
    pub fn sleeping_by(pacers: T, sleep: Z) -> Self {
        let policy = PacedRetry::DEFAULT;
        let (protocol, budgets) = (HttpRetries::new().when(Unjudged), Arc::new(RetryBudget::default()));
        let settings = Arc::new(RetrySettings { retry: retry_by(policy), budgets, protocol, sleep });
        let mode = Repeating { settings, longest: policy.longest_time() };
        Self { pacers, hints: HttpProtocol, mode, telemetry: Telemetry::new(Kind::Pacing, "default") }
    }
}

impl<T, H, M> PacingLayer<T, H, M> {
    /// Sets the reader of a response's hints about the server's limit. Default: [`HttpProtocol`].
    ///
    /// Use it for a server with its own headers. Your function names the type of its argument: `|head: &ResponseHead<'_>|`.
    #[must_use]
    pub fn hints<N: for<'a> Reads<ResponseHead<'a>, Hints>>(self, hints: N) -> PacingLayer<T, N, M> {
        let Self { pacers, mode, telemetry, .. } = self;
        PacingLayer { pacers, hints, mode, telemetry }
    }

    /// Sets the name in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { telemetry: Telemetry::new(Kind::Pacing, name), ..self }
    }

    fn map_mode<N>(self, map: impl FnOnce(M) -> N) -> PacingLayer<T, H, N> {
        let Self { pacers, hints, mode, telemetry } = self;
        PacingLayer { pacers, hints, mode: map(mode), telemetry }
    }
}

#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source, H, M> damper_metrics::Source for PacingLayer<T, H, M> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.pacers.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source, H, M> damper_metrics::NamedSource for PacingLayer<T, H, M> {
    fn name(&self) -> &str {
        self.telemetry.name()
    }
}

impl<T, H, B, K, Z> PacingLayer<T, H, Repeating<B, K, Z>>
where
    K: Clone,
    Z: Clone,
{
    /// Sets the attempts, the time and the budget for retries of rejected calls.
    ///
    /// Default: [`PacedRetry::DEFAULT`], with its own [`RetryBudget`].
    ///
    /// No sleep outlasts the policy's maximum time of a call. That time does not interrupt an attempt, but an earlier
    /// [`Deadline`](damper_core::Deadline) in the request's extensions does.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::{Hosts, PacingLayer};
    /// use damper::throttle::PacedRetry;
    /// use damper::{Quota, RetryBudget};
    /// use std::time::Duration;
    ///
    /// static BUDGET: RetryBudget = RetryBudget::DEFAULT;
    ///
    /// # async fn sleep(_: std::time::Duration) {}
    /// let layer = PacingLayer::sleeping_by(Hosts::pacers(Quota::per_hour(4_500)), sleep)
    ///     .retry(PacedRetry::new(5).max_time(Duration::from_secs(60)).budget(&BUDGET));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn retry<N>(self, retry: PacedRetry<N>) -> PacingLayer<T, H, Repeating<N, K, Z>> {
        let (policy, budgets) = split_paced_budget(retry);
        self.map_mode(|Repeating { settings, .. }| {
            let settings = settings.with(Arc::new(budgets), settings.protocol.clone());
            let settings = Arc::new(RetrySettings { retry: retry_by(policy), ..settings });
            Repeating { settings, longest: policy.longest_time() }
        })
    }

    /// Gives each of the 1024 most recently called hosts a retry budget of this configuration.
    #[must_use]
    pub fn budget_per_host(self, config: RetryBudgetConfig) -> PacingLayer<T, H, Repeating<Hosts<RetryBudget>, K, Z>> {
        self.budgets(Hosts::budgets(config))
    }

    /// Sets the budget from which each request's retries are taken.
    #[must_use]
    pub fn budgets<N: Budgets>(self, budgets: N) -> PacingLayer<T, H, Repeating<N, K, Z>> {
        self.map_mode(|Repeating { settings, longest }| {
            let settings = Arc::new(settings.with(budgets.into(), settings.protocol.clone()));
            Repeating { settings, longest }
        })
    }

    /// Only paces, and returns rejected calls to the retries outside.
    ///
    /// The retries decide when a rejected call is retried, and the pacer's own sleep for that is left out. Each attempt still sleeps as the
    /// pacer demands before a call. With `ExponentialBackoff` it never does, unless the server
    /// asked for a time. A call whose deadline has passed is made if it need not sleep.
    ///
    /// The bodies of requests need not be replayable. A future's error is [`CallError::Refused`](damper_core::CallError::Refused) with a
    /// [`PaceTooSlow`](damper_core::throttle::PaceTooSlow), if the call was not made: its sleep would outlast its deadline or did, or the
    /// service was not ready by then. Otherwise it is [`CallError::Failed`](damper_core::CallError::Failed) with the service's error.
    #[must_use]
    pub fn without_retries(self) -> PacingLayer<T, H, PaceOnly<Z>> {
        self.map_mode(|Repeating { settings, .. }| PaceOnly { sleep: settings.sleep.clone() })
    }

    fn with_protocol<N>(self, protocol: N) -> PacingLayer<T, H, Repeating<B, N, Z>> {
        self.map_mode(|Repeating { settings, longest }| {
            let settings = Arc::new(settings.with(Arc::clone(&settings.budgets), protocol));
            Repeating { settings, longest }
        })
    }
}

impl<T, H, B, V, W, Z> PacingLayer<T, H, Repeating<B, HttpRetries<V, W>, Z>>
where
    V: Clone,
    W: Clone,
    Z: Clone,
{
    /// Keeps up to `limit` bytes of a sent body, so that streams can be sent again too.
    ///
    /// Default: bodies are cloned.
    ///
    /// The service gets a [`BufferedBody`](crate::BufferedBody). A request whose body was sent beyond the limit is not retried.
    #[must_use]
    pub fn buffering(self, limit: usize) -> PacingLayer<T, H, Repeating<B, HttpRetries<V, Buffered>, Z>> {
        let protocol = self.mode.settings.protocol.buffering(limit);
        self.with_protocol(protocol)
    }
}

impl<T, H, B, K, Z> PacingLayer<T, H, Repeating<B, K, Z>>
where
    K: Clone,
    Z: Clone,
{
    /// Sets the protocol. Default: HTTP.
    ///
    /// It decides how hints are read, how requests are sent again, and which error the caller gets for a call that was given up.
    ///
    /// For gRPC, pass `damper::tonic::Grpc::new()`.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "a setter takes a value, as those of a stack do")]
    pub fn protocol<P: StackProtocol>(self, protocol: P) -> PacingLayer<T, P::Hints, Repeating<B, P::Retries, Z>> {
        let PacingLayer { pacers, mode, telemetry, .. } = self.with_protocol(protocol.retries());
        PacingLayer { pacers, hints: protocol.hints(), mode, telemetry }
    }
}

impl<T: Clone, H: Clone, B, K, Z> PacingLayer<T, H, Repeating<B, K, Z>> {
    /// Paces the calls of a service, and retries rejected ones.
    pub fn layer<S>(&self, service: S) -> PacingService<S, T, H, Repeating<B, K, Z>> {
        PacingService::new(service, self.clone())
    }
}

impl<T: Clone, H: Clone, B, K, Z, S> tower_layer::Layer<S> for PacingLayer<T, H, Repeating<B, K, Z>> {
    type Service = PacingService<S, T, H, Repeating<B, K, Z>>;

    fn layer(&self, service: S) -> Self::Service {
        self.layer(service)
    }
}

impl<T: PacerSource + Clone, H: Clone, Z: Sleep + Clone> PacingLayer<T, H, PaceOnly<Z>> {
    /// Paces the calls of a service.
    ///
    /// The service is behind a [gate at which calls sleep](damper_core::gate::Paces).
    pub fn layer<S>(&self, service: S) -> GateService<S, PacedRequests<T, H, Z>> {
        let Self { pacers, hints, mode: PaceOnly { sleep }, telemetry } = self.clone();
        GateService::new(service, PacedRequests::new(pacers, hints, sleep, telemetry))
    }
}

impl<T: PacerSource + Clone, H: Clone, Z: Sleep + Clone, S> tower_layer::Layer<S> for PacingLayer<T, H, PaceOnly<Z>> {
    type Service = GateService<S, PacedRequests<T, H, Z>>;

    fn layer(&self, service: S) -> Self::Service {
        self.layer(service)
    }
}

impl<T: fmt::Debug, H, M: fmt::Debug> fmt::Debug for PacingLayer<T, H, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacingLayer").field("pacers", &self.pacers).field("mode", &self.mode).finish_non_exhaustive()
    }
}
