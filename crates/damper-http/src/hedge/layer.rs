//! When calls are made twice, how often, and what a failure is.

use super::Hedging;
use crate::ResponseHead;
use crate::retry::{Budgets, HttpRetries};
use alloc::sync::Arc;
use core::fmt;
use damper_core::retry::{Failure, Hedge, Unlimited};
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;

/// Makes a second attempt where a call of a client's services takes longer than most do, by a [`Hedge`].
///
/// The caller gets the response that comes first.
///
/// | question | answer |
/// |---|---|
/// | which requests? | those of idempotent methods, and those that the caller marks as [`Idempotent`](crate::Idempotent), if their body is a [`ReplayableBody`](crate::ReplayableBody). All others are passed on, and do not count |
/// | when? | once the first attempt takes longer than the [percentile](Hedge::delay) of recent latency. At once after a failure that another attempt may mend: [`Statuses::failure`](crate::Statuses::failure), or [`when`](Self::when) |
/// | how often? | as [`max_extra`](damper_core::retry::HedgeConfigBuilder::max_extra) and the [budget](Hedge::budget) allow: by default 2 % of the calls, and 10 |
/// | what is a latency? | the time to the head of the response |
///
/// That is HTTP. For another [`protocol`](Self::protocol), such as gRPC, it answers the first two questions.
///
/// The first response that is no failure wins, and the other attempts are dropped with their connections and permits. An
/// attempt that is dropped counts neither for nor against a breaker inside. A response that the protocol takes for
/// [fatal](Failure::FATAL) ends the call too, whichever attempt's it is. An error that is fatal ends it only if it is the first
/// attempt's: a hedge that damper refuses, by a limit inside say, leaves the first attempt alone.
///
/// Without a response that wins, the last failure is the call's, but an error never replaces a response. A response that failed gives up
/// its body before another attempt starts, because the unread body would keep the slot of a limit inside: if the other attempts end
/// with errors, the caller gets its head, and an empty body.
///
/// **Budget.** A hedge is a retry, too. Give [`Hedge::budget`] the budget of the retry around, or [`budgets`](HedgeLayer::budgets) its
/// budgets per host: both then take from it, and only the retry counts the calls. Without a retry around it, the hedge
/// [counts its calls](Hedge::counting_calls) itself.
///
/// **Deadline.** The layer around it ends the call and drops all attempts: [`RetryLayer`](crate::RetryLayer) at the
/// [`Deadline`](damper_core::Deadline) in the request's extensions, or
/// [`ClientDeadlineLayer`](crate::ClientDeadlineLayer). This layer drops nothing by itself. It only begins no hedge
/// after a deadline in the extensions on the hedge's clock, or after that of the protocol (gRPC's `grpc-timeout`). It
/// looks at the time left when a hedge begins, which is before the clone of the service is ready.
///
/// **Order.** Inside of the retry, so that it measures attempts and no backoff. A limit inside sees every attempt.
///
/// ```text
/// request ─▶ breaker ─▶ retry ─▶ hedge ─▶ limit ─▶ timeout ─▶ transport
/// ```
///
/// HTTP/1 closes the connection of an attempt that is dropped, HTTP/2 resets the stream.
///
/// Clones, and all services that one makes, share the hedge. Use one for each kind of call, because the latencies of all
/// are in one histogram.
///
/// # Examples
///
/// Before hyper-util's client:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(feature = "tokio")] {
/// use damper::http::{HedgeLayer, RetryLayer};
/// use damper::retry::{Hedge, HedgeConfig};
/// use damper::{Retry, RetryBudget};
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// static BUDGET: RetryBudget = RetryBudget::DEFAULT; // of retries and hedges
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let hedge = Hedge::new(HedgeConfig::DEFAULT); // at most 2 % more requests
/// let mut client = ServiceBuilder::new()
///     .layer(RetryLayer::new(Retry::new(3).budget(&BUDGET)))
///     .layer(HedgeLayer::new(hedge.budget(&BUDGET)))
///     .service(Client::builder(TokioExecutor::new()).build_http());
///
/// let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
/// let response = client.ready().await?.call(request).await?;
/// println!("{}", response.status());
/// # Ok(())
/// # }
/// # }
/// ```
pub struct HedgeLayer<C, B, P, Z, N = Unlimited> {
    settings: Arc<HedgeSettings<C, B, P, Z, N>>,
}

#[cfg(feature = "tokio")]
impl<C, B> HedgeLayer<C, B, HttpRetries, TokioSleep> {
    /// Creates a layer with this hedge, which sleeps by tokio's timer.
    ///
    /// Pass a `Hedge`, or an `Arc<Hedge>` to share it with other layers or to watch its [delay](Hedge::delay).
    pub fn new(hedge: impl Into<Arc<Hedge<C, B>>>) -> Self {
        Self::sleeping_by(hedge, TokioSleep)
    }
}

impl<C, B, Z: Sleep> HedgeLayer<C, B, HttpRetries, Z> {
    /// Creates a layer with this hedge, which sleeps by the timer of any runtime.
    pub fn sleeping_by(hedge: impl Into<Arc<Hedge<C, B>>>, sleep: Z) -> Self {
        let (hedge, budgets) = (hedge.into(), Arc::new(Unlimited));
        let protocol = HttpRetries::new();
        Self { settings: Arc::new(HedgeSettings { hedge, budgets, protocol, sleep, inside_of_retries: false }) }
    }
}

/// Of a hedge without a budget of retries.
impl<C, P: Clone, Z: Clone> HedgeLayer<C, Unlimited, P, Z> {
    /// Sets which budget of retries each request's hedges are taken from.
    ///
    /// Default: none but that of the [hedge](Hedge::budget).
    ///
    /// Give it the budgets of the [`Hosts`](crate::Hosts) of the [`RetryLayer`](crate::RetryLayer) around: the retries and hedges of a host
    /// then take from one budget, and a host that fails leaves the others theirs. Only the retries count the calls.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::Retry;
    /// use damper::http::{HedgeLayer, Hosts, RetryLayer};
    /// use damper::retry::{Hedge, HedgeConfig, RetryBudgetConfig};
    ///
    /// # async fn sleep(_: std::time::Duration) {}
    /// let budgets = Hosts::budgets(RetryBudgetConfig::DEFAULT);
    /// let retries = RetryLayer::sleeping_by(Retry::new(3), sleep).budgets(budgets.clone());
    /// let hedges = HedgeLayer::sleeping_by(Hedge::new(HedgeConfig::DEFAULT), sleep).budgets(budgets);
    /// # let _ = (retries, hedges);
    /// ```
    #[must_use]
    pub fn budgets<N: Budgets>(self, budgets: N) -> HedgeLayer<C, Unlimited, P, Z, N> {
        HedgeLayer { settings: Arc::new(self.settings.with(budgets.into(), self.settings.protocol.clone())) }
    }
}

impl<C, B, V, K: Copy, Z: Clone, N> HedgeLayer<C, B, HttpRetries<V, K>, Z, N> {
    /// Sets which responses and errors may be overtaken by another attempt.
    ///
    /// They do not end the call while another attempt may do better. Default:
    /// [`Statuses::failure`](crate::Statuses::failure).
    ///
    /// The closure names the service's error, as that of [`RetryLayer::when`](crate::RetryLayer::when) does. Give both
    /// layers the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::{HedgeLayer, ResponseHead};
    /// use damper::retry::{Failure, Hedge, HedgeConfig};
    /// # type MyError = std::io::Error;
    ///
    /// # async fn sleep(_: std::time::Duration) {}
    /// // Hedges slow calls only: a failure is the call's.
    /// let layer = HedgeLayer::sleeping_by(Hedge::new(HedgeConfig::DEFAULT), sleep)
    ///     .when(|response: Result<&ResponseHead, &MyError>| response.is_err().then_some(Failure::FATAL));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn when<E, F>(self, failures: F) -> HedgeLayer<C, B, HttpRetries<F, K>, Z, N>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> Option<Failure>,
    {
        let protocol = self.settings.protocol.when(failures);
        self.protocol(protocol)
    }
}

impl<C, B, P, Z: Clone, N> HedgeLayer<C, B, P, Z, N> {
    /// Sets which requests are sent twice, with which bodies and headers, and which results end no call.
    ///
    /// A [`RetryProtocol`](crate::RetryProtocol) says so, such as `damper::tonic::GrpcRetries`. Default:
    /// [`HttpRetries`].
    ///
    /// Give the [`RetryLayer`](crate::RetryLayer) around it the same.
    #[must_use]
    pub fn protocol<Q>(self, protocol: Q) -> HedgeLayer<C, B, Q, Z, N> {
        HedgeLayer { settings: Arc::new(self.settings.with(Arc::clone(&self.settings.budgets), protocol)) }
    }

    /// Leaves failures to the retry around the layer, whatever the hedge's own
    /// [`repeat_failures`](damper_core::retry::HedgeConfigBuilder::repeat_failures) says.
    ///
    /// A [client's stack](crate::client_stack) with retries does so by itself. Otherwise failures use up the extra requests that slow calls
    /// need. The hedge does not [count calls](Hedge::counting_calls) then, because the retry does.
    #[must_use]
    pub fn inside_of_retries(self) -> Self
    where
        P: Clone,
    {
        let settings = self.settings.with(Arc::clone(&self.settings.budgets), self.settings.protocol.clone());
        Self { settings: Arc::new(HedgeSettings { inside_of_retries: true, ..settings }) }
    }
}

impl<C, B, P, Z, N> HedgeLayer<C, B, P, Z, N> {
    /// Hedges the calls of a service.
    pub fn layer<S>(&self, service: S) -> Hedging<S, C, B, P, Z, N> {
        Hedging::new(service, Arc::clone(&self.settings))
    }
}

impl<S, C, B, P, Z, N> tower_layer::Layer<S> for HedgeLayer<C, B, P, Z, N> {
    type Service = Hedging<S, C, B, P, Z, N>;

    fn layer(&self, service: S) -> Hedging<S, C, B, P, Z, N> {
        self.layer(service)
    }
}

/// Clones share the hedge.
impl<C, B, P, Z, N> Clone for HedgeLayer<C, B, P, Z, N> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings) }
    }
}

impl<C, B: fmt::Debug, P, Z, N> fmt::Debug for HedgeLayer<C, B, P, Z, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HedgeLayer").field(&self.settings).finish()
    }
}

/// The settings that all calls of a layer share.
pub struct HedgeSettings<C, B, P, Z, N> {
    pub(super) hedge: Arc<Hedge<C, B>>,
    /// Shared, because budgets need not be `Clone`, and the protocol is replaced alone.
    pub(super) budgets: Arc<N>,
    pub(super) protocol: P,
    pub(super) sleep: Z,
    /// Whether a retry around the layer repeats failures.
    pub(super) inside_of_retries: bool,
}

impl<C, B, P, Z: Clone, N> HedgeSettings<C, B, P, Z, N> {
    /// Returns these settings with other budgets and another protocol.
    fn with<M, Q>(&self, budgets: Arc<M>, protocol: Q) -> HedgeSettings<C, B, Q, Z, M> {
        let Self { hedge, sleep, inside_of_retries, .. } = self;
        HedgeSettings {
            hedge: Arc::clone(hedge),
            budgets,
            protocol,
            sleep: sleep.clone(),
            inside_of_retries: *inside_of_retries,
        }
    }
}

impl<C, B: fmt::Debug, P, Z, N> fmt::Debug for HedgeSettings<C, B, P, Z, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeSettings").field("hedge", &self.hedge).finish_non_exhaustive()
    }
}
