//! Which throttle, and when a call has ended and how.

use super::{Rejections, ThrottleService, Throttles};
use crate::completion::{AtHead, MinBudget, ResponseHead};
use crate::telemetry::ThrottleTelemetry;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use damper_core::breaker::Verdict;
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle};

/// Puts a client's services behind adaptive throttles.
///
/// The layer refuses most calls that an overloaded server would reject.
///
/// With 502, 503, 504 and errors a server rejects a call; 429 is ignored, and every other answer is that of a server that did the work,
/// 500 included: see [`Rejections`]. An error that is a [refusal](damper_core::is_refusal) of a layer of damper inside is not
/// counted. All reach the caller unchanged, the errors as [`CallError::Failed`](damper_core::CallError).
/// A call that is not sent is [`CallError::Refused`](damper_core::CallError), which
/// [`Throttled::find_in`](damper_core::throttle::Throttled::find_in) finds in whatever it is wrapped; no answer is invented.
///
/// | for | write |
/// |---|---|
/// | HTTP, judged by the head of the response | `ThrottleLayer::per_host()` |
/// | other rejections | [`.classify(closure)`](#method.classify) |
/// | gRPC: a `Channel` of tonic | `.completion(damper::tonic::AtTrailers::rejections())` |
/// | another multiplier or capacity, a clock | [`new`](Self::new), with an [`AdaptiveThrottle`] or a [`KeyedThrottle`] |
///
/// **A throttle for gRPC needs [`completion`](Self::completion).** Without it the throttle sees the `200 OK` that gRPC sends
/// before the status, and refuses nothing.
///
/// Clones, and all services that one makes, share the throttles. A throttle decides in `call`, never in `poll_ready`.
///
/// Put it inside of what tries again, so that it counts every attempt. A call in flight is not counted yet, so put a timeout inside
/// of it, or a [`ClientDeadlineLayer`](crate::ClientDeadlineLayer) outside: a call that is dropped at its deadline is a rejection.
/// Where a [completion](Self::completion) follows the body, the first data of the body show that the server accepted the call: a stream that
/// is dropped later, or lasts until its deadline, is no rejection.
///
/// ```text
/// request ─▶ breaker ─▶ retry ─▶ throttle ─▶ timeout ─▶ transport
/// ```
///
/// # Examples
///
/// Before hyper-util's client:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(all(feature = "tower", feature = "hyper"))] {
/// use damper::http::ThrottleLayer;
/// use damper::CallError;
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use tower::{Service, ServiceBuilder, ServiceExt};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut client = ServiceBuilder::new()
///     .layer(ThrottleLayer::per_host())
///     .service(Client::builder(TokioExecutor::new()).build_http());
///
/// let request = http::Request::get("http://localhost/").body(Empty::<bytes::Bytes>::new())?;
/// match client.ready().await?.call(request).await {
///     Ok(response) => println!("{}", response.status()),
///     Err(CallError::Refused(throttled)) => println!("{throttled}"), // throttled, 87 % of the calls are not sent
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone)]
pub struct ThrottleLayer<T, W = AtHead<Rejections>> {
    pub(super) throttles: T,
    pub(super) completion: W,
    /// The time that a call has to be given before its deadline counts as a rejection.
    pub(super) min_budget: MinBudget,
    pub(super) telemetry: ThrottleTelemetry,
}

impl ThrottleLayer<Arc<KeyedThrottle<String>>> {
    /// Creates a layer with a throttle per host and port, for the 1024 hosts that were called last.
    ///
    /// A host that rejects calls does not keep calls from others.
    ///
    /// The host is that of the target, or else of the header `Host`. However it is spelled, it has one throttle:
    /// `API.example.com.` is `api.example.com`, and `[2001:DB8::0001]` is `[2001:db8::1]`. Requests without a host share
    /// a throttle.
    #[must_use]
    pub fn per_host() -> Self {
        Self::new(Arc::new(KeyedThrottle::default()))
    }
}

impl ThrottleLayer<Arc<AdaptiveThrottle>> {
    /// Creates a layer with one throttle for all requests.
    #[must_use]
    pub fn single() -> Self {
        Self::new(Arc::new(AdaptiveThrottle::new()))
    }
}

impl<T: Throttles> ThrottleLayer<T> {
    /// Creates a layer from existing throttles.
    ///
    /// One in a `static` or an `Arc`, a [`KeyedThrottle`] of hosts in an `Arc`, or [`Throttles`] of your own.
    ///
    /// You keep them, to look at what they have seen, and they may have other settings.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::ThrottleLayer;
    /// use damper::throttle::{AdaptiveThrottle, KeyedThrottle};
    /// use std::sync::Arc;
    ///
    /// static SEARCH: AdaptiveThrottle = AdaptiveThrottle::new();
    /// let search = ThrottleLayer::new(&SEARCH).named("search");
    ///
    /// let hosts = Arc::new(KeyedThrottle::new(100)?.multiplier(1.5)?);
    /// let layer = ThrottleLayer::new(Arc::clone(&hosts));
    /// for (host, throttle) in hosts.store().iter() {
    ///     println!("{host}: {} of the calls are not sent", throttle.status().share_refused());
    /// }
    /// # let _ = (search, layer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(throttles: T) -> Self {
        Self {
            throttles,
            completion: AtHead::rejections(),
            min_budget: MinBudget::usual_per_host(),
            telemetry: ThrottleTelemetry::new("default"),
        }
    }
}

impl<T, V> ThrottleLayer<T, AtHead<V>> {
    /// Sets the verdict on a response or error. Default: [`Rejections`].
    ///
    /// A [failure](Verdict::Failure) is a rejection, and a success is a call that the server accepted.
    ///
    /// The closure is cloned for every call, which costs nothing if it captures nothing. It names the service's error,
    /// `hyper_util::client::legacy::Error` for instance. [`Rejections::judge`] has an example.
    #[must_use]
    pub fn classify<E, F>(self, classify: F) -> ThrottleLayer<T, AtHead<F>>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> Verdict,
    {
        self.map_completion(|completion| completion.classify(classify))
    }
}

impl<T, W> ThrottleLayer<T, W> {
    /// Sets when a call has ended, and with which verdict: a [`Completion`](crate::Completion). Default: [`AtHead`], by
    /// [`Rejections`].
    ///
    /// For gRPC, pass `damper::tonic::AtTrailers::rejections()`.
    #[must_use]
    pub fn completion<X>(self, completion: X) -> ThrottleLayer<T, X> {
        self.map_completion(|_| completion)
    }

    /// Sets the time that a call must have been given for its passed deadline to count as a rejection.
    ///
    /// Default: [`MinBudget::usual_per_host()`].
    ///
    /// Where the [`Deadline`](damper_core::Deadline) in a request's extensions leaves less, a 504 and a failure that comes
    /// once that deadline has passed are not counted: see
    /// [`CircuitBreakerLayer::min_budget`](crate::CircuitBreakerLayer::min_budget).
    #[must_use]
    pub fn min_budget(self, min_budget: impl Into<MinBudget>) -> Self {
        Self { min_budget: min_budget.into(), ..self }
    }

    /// Sets the name in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { telemetry: ThrottleTelemetry::new(name), ..self }
    }

    fn map_completion<X>(self, map: impl FnOnce(W) -> X) -> ThrottleLayer<T, X> {
        let Self { throttles, completion, min_budget, telemetry } = self;
        ThrottleLayer { throttles, completion: map(completion), min_budget, telemetry }
    }
}

#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source, W> damper_metrics::Source for ThrottleLayer<T, W> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.throttles.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source, W> damper_metrics::NamedSource for ThrottleLayer<T, W> {
    fn name(&self) -> &str {
        self.telemetry.name()
    }
}

impl<T: Clone, W: Clone> ThrottleLayer<T, W> {
    /// Puts a service behind the throttles.
    pub fn layer<S>(&self, service: S) -> ThrottleService<S, T, W> {
        ThrottleService::new(service, self.clone())
    }
}

#[cfg(feature = "tower")]
impl<T: Clone, W: Clone, S> tower_layer::Layer<S> for ThrottleLayer<T, W> {
    type Service = ThrottleService<S, T, W>;

    fn layer(&self, service: S) -> ThrottleService<S, T, W> {
        self.layer(service)
    }
}

impl<T: fmt::Debug, W> fmt::Debug for ThrottleLayer<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleLayer").field("throttles", &self.throttles).finish_non_exhaustive()
    }
}
