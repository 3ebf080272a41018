//! Services behind throttles: which throttle, and when a call has ended and how.

use crate::client_gate::client_layer;
use crate::completion::{AtHead, MinBudget, ResponseHead};
use crate::telemetry::{Kind, Telemetry};
use crate::{ClientGate, Head, TargetHost};
use alloc::string::String;
use alloc::sync::Arc;
use damper_core::gate::{Ask, Gate, PerKey, Verdict};
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle};
use damper_tower::GateService;

/// Puts a client's services behind adaptive throttles.
///
/// The layer refuses most calls that an overloaded server would reject.
///
/// With 502, 503, 504 and errors a server rejects a call; 429 is ignored, and every other answer is that of a server that did the work,
/// 500 included: see [`Ending`](damper_core::gate::Ending). A throttle asks whether the server did the work, not whether it did it well. A 429 is
/// about one quota: where the calls of several tenants go through one throttle, a tenant beyond its quota would have the calls of all others
/// refused. An error that is a [refusal](damper_core::is_refusal) of a layer of damper inside is not
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
/// # #[cfg(feature = "hyper")] {
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
pub struct ThrottleLayer<T, W = AtHead>(ClientGate<T, W, Telemetry>);

/// A client's service behind throttles. Made by [`ThrottleLayer`].
pub type ThrottleService<S, T, W = AtHead> = GateService<S, ClientGate<T, W, Telemetry>>;

/// A throttle for each host.
pub type ThrottlePerHost = PerKey<TargetHost, Arc<KeyedThrottle<String>>>;

impl ThrottleLayer<ThrottlePerHost> {
    /// Creates a layer with a throttle per host and port, for the 1024 hosts that were called last.
    ///
    /// A host that rejects calls does not keep calls from others.
    ///
    /// The host is that of the target, or else of the header `Host`. However it is spelled, it has one throttle:
    /// `API.example.com.` is `api.example.com`, and `[2001:DB8::0001]` is `[2001:db8::1]`. Requests without a host share
    /// a throttle.
    #[must_use]
    pub fn per_host() -> Self {
        Self::new(PerKey::new(TargetHost, Arc::new(KeyedThrottle::default())))
    }
}

impl ThrottleLayer<Arc<AdaptiveThrottle>> {
    /// Creates a layer with one throttle for all requests.
    #[must_use]
    pub fn single() -> Self {
        Self::new(Arc::new(AdaptiveThrottle::new()))
    }
}

impl<T: for<'a> Ask<Head<'a>>> ThrottleLayer<T> {
    /// Creates a layer from existing throttles.
    ///
    /// One in a `static` or an `Arc`, or another [gate](damper_core::gate), such as a [`PerKey`] by [`TargetHost`].
    ///
    /// You keep them, to look at what they have seen, and they may have other settings.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::gate::PerKey;
    /// use damper::http::{TargetHost, ThrottleLayer};
    /// use damper::throttle::{AdaptiveThrottle, KeyedThrottle};
    /// use std::sync::Arc;
    ///
    /// static SEARCH: AdaptiveThrottle = AdaptiveThrottle::new();
    /// let search = ThrottleLayer::new(&SEARCH).named("search");
    ///
    /// let hosts = Arc::new(KeyedThrottle::<String>::new(100)?.multiplier(1.5)?);
    /// let layer = ThrottleLayer::new(PerKey::new(TargetHost, Arc::clone(&hosts)));
    /// for (host, throttle) in hosts.store().iter() {
    ///     println!("{host}: {} of the calls are not sent", throttle.status().share_refused());
    /// }
    /// # let _ = (search, layer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(throttles: T) -> Self {
        let telemetry = Telemetry::new(Kind::Throttle, "default");
        Self(ClientGate::observed_by(telemetry, throttles, AtHead::new(), MinBudget::usual_per_host()))
    }
}

impl<T, V> ThrottleLayer<T, AtHead<V>> {
    /// Sets how a call ended, by its response, or by the error in its place. Default: [`Statuses`](crate::Statuses).
    ///
    /// The closure returns an [`Ending`](damper_core::gate::Ending), whose table says what is a rejection for a throttle, or a [`Verdict`]. It is
    /// cloned for every call, which costs nothing if it captures nothing. It names the service's error,
    /// `hyper_util::client::legacy::Error` for instance.
    ///
    /// # Examples
    ///
    /// A client whose calls all share one quota of the server:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::gate::{Ending, Verdict};
    /// use damper::http::{ResponseHead, Statuses, ThrottleLayer};
    /// use http::StatusCode;
    /// # type MyError = std::io::Error;
    ///
    /// let layer = ThrottleLayer::single().classify(|response: Result<&ResponseHead, &MyError>| match response {
    ///     Ok(head) if head.status == StatusCode::TOO_MANY_REQUESTS => Verdict::of(Ending::Unavailable),
    ///     other => Statuses::judge(other.map_err(|error| error as _)),
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn classify<E, O, F>(self, classify: F) -> ThrottleLayer<T, AtHead<F>>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> O,
        O: Into<Verdict>,
    {
        ThrottleLayer(self.0.map_completion(|completion| completion.classify(classify)))
    }
}

impl<T, W> ThrottleLayer<T, W> {
    /// Sets when a call has ended, and with which verdict: a [`Completion`](crate::Completion). Default: [`AtHead`].
    ///
    /// For gRPC, pass `damper::tonic::AtTrailers::rejections()`.
    #[must_use]
    pub fn completion<X>(self, completion: X) -> ThrottleLayer<T, X> {
        ThrottleLayer(self.0.completion(completion))
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
        Self(self.0.min_budget(min_budget))
    }

    /// Sets the name in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self(ClientGate { observer: Telemetry::new(Kind::Throttle, name), ..self.0 })
    }
}

#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source, W> damper_metrics::Source for ThrottleLayer<T, W> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.0.gate.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source, W> damper_metrics::NamedSource for ThrottleLayer<T, W> {
    fn name(&self) -> &str {
        self.0.observer.name()
    }
}

client_layer!(ThrottleLayer<T, W>, W, Telemetry, ThrottleService, "throttles");
