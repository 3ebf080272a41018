//! Which breakers, and when a call has ended and how.

use super::{PerHost, Single};
use crate::client_gate::client_layer;
use crate::completion::{AtBodyEnd, AtHead, MinBudget, ResponseHead};
use crate::{ClientGate, Head};
use core::ops::Deref;
use damper_core::breaker::{BreakerConfig, CircuitBreaker};
use damper_core::gate::{Ask, Gate, Shared, Verdict};
use damper_core::shadow::{ShadowReport, Shadowed};
use damper_tower::GateService;

/// Puts a client's services behind circuit breakers.
///
/// A failing service is not called, and the caller gets an error at once.
///
/// Errors and answers with a status of 5xx are failures; every other answer is a success, 429 included. An error that is
/// a [refusal](damper_core::is_refusal) of a layer of damper inside is ignored. A 5xx with a `Retry-After`, in seconds or as a date, keeps the
/// breaker open for that time, up to [`max_retry_after`](damper_core::breaker::BreakerConfigBuilder::max_retry_after). All reach the caller unchanged, the errors as [`CallError::Failed`](damper_core::CallError). An open breaker is
/// [`CallError::Refused`](damper_core::CallError), which [`CircuitOpen::find_in`](damper_core::CircuitOpen::find_in) finds
/// in whatever it is wrapped; no answer is invented.
///
/// | for | write |
/// |---|---|
/// | HTTP, judged by the head of the response | `CircuitBreakerLayer::per_host(config)` |
/// | other failures | [`.classify(closure)`](#method.classify) |
/// | bodies that break off | [`.when_body_ends()`](#method.when_body_ends) |
/// | gRPC: a `Channel` of tonic | `.completion(damper::tonic::AtTrailers::new())` |
/// | a name in metrics, another capacity, a callback | [`new`](Self::new), with [`PerHost::builder`] or [`Single::builder`] |
/// | a name for a breaker of yours, in a `static` or an `Arc` | [`named`](#method.named) |
///
/// **A breaker for gRPC needs [`completion`](Self::completion).** Without it the breaker sees the `200 OK` that gRPC sends
/// before the status, and counts an unavailable server as healthy. Set it where you put a `Channel` behind the layer.
///
/// Clones, and all services that one makes, share the breakers. Permits are taken in `call`, never in `poll_ready`: a
/// caller that polls for readiness and goes away would keep others from a probe. An open breaker for all requests answers at once even
/// if the service is not ready, see [`GateService`]. A call that panics has failed.
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
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// # #[cfg(feature = "hyper")] {
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
///     Err(CallError::Refused(open)) => println!("{open}"), // circuit open, next probe in 28 s
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone)]
pub struct CircuitBreakerLayer<B = PerHost, W = AtHead>(ClientGate<B, W>);

/// A client's service behind breakers. Made by [`CircuitBreakerLayer`].
pub type CircuitBreak<S, B = PerHost, W = AtHead> = GateService<S, ClientGate<B, W>>;

impl CircuitBreakerLayer<PerHost> {
    /// Creates a layer with a breaker per host and port, for the 1024 hosts that were called last.
    ///
    /// A failing host does not shut off healthy ones.
    ///
    /// The host is that of the target, or else of the header `Host`. However it is spelled, it has one breaker:
    /// `API.example.com.` is `api.example.com`, and `[2001:DB8::0001]` is `[2001:db8::1]`. Requests without a host share
    /// a breaker.
    ///
    /// For other settings, build the breakers first: [`PerHost::builder`].
    #[must_use]
    pub fn per_host(config: BreakerConfig) -> Self {
        Self::new(PerHost::with_defaults(config))
    }
}

impl CircuitBreakerLayer<Single> {
    /// Creates a layer with one breaker for all requests.
    ///
    /// For other settings, build the breaker first: [`Single::builder`].
    #[must_use]
    pub fn single(config: BreakerConfig) -> Self {
        Self::new(Single::builder(config).build())
    }
}

impl<B: for<'a> Ask<Head<'a>>> CircuitBreakerLayer<B> {
    /// Creates a layer from existing breakers.
    ///
    /// They are [`PerHost`] or [`Single`] with settings of your own, or a breaker in a `static` or an `Arc`, which you
    /// keep to inspect and to control it and which may have another clock, or another [gate](damper_core::gate), such as a `PerKey`.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::gate::PerKey;
    /// use damper::http::{CircuitBreakerLayer, TargetHost};
    /// use damper::{BreakerConfig, CircuitBreaker, KeyedCircuitBreaker};
    /// use std::sync::Arc;
    ///
    /// static PAYMENTS: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    /// let payments = CircuitBreakerLayer::new(&PAYMENTS);
    ///
    /// let hosts = Arc::new(KeyedCircuitBreaker::<String>::new(BreakerConfig::DEFAULT, 100)?);
    /// let layer = CircuitBreakerLayer::new(PerKey::new(TargetHost, Arc::clone(&hosts)));
    /// hosts.get_or_create("sick.example.com:443").force_open();
    /// # let _ = (payments, layer);
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn new(breakers: B) -> Self {
        Self(ClientGate::new(breakers))
    }
}

impl<B, V> CircuitBreakerLayer<B, AtHead<V>> {
    /// Sets how a call ended, by its response, or by the error in its place. Default: [`Statuses`](crate::Statuses).
    ///
    /// The closure returns an [`Ending`](damper_core::gate::Ending), whose table says what is a failure for a breaker, or a [`Verdict`].
    /// The closure is cloned for every call, which costs nothing if it captures nothing. It names the service's error,
    /// `hyper_util::client::legacy::Error` for instance.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::BreakerConfig;
    /// use damper::gate::Ending;
    /// use damper::http::{CircuitBreakerLayer, ResponseHead};
    /// use http::StatusCode;
    /// # type MyError = std::io::Error;
    ///
    /// let layer = CircuitBreakerLayer::per_host(BreakerConfig::default()).classify(
    ///     |answer: Result<&ResponseHead, &MyError>| match answer {
    ///         Ok(head) if head.status == StatusCode::SERVICE_UNAVAILABLE => Ending::Unavailable,
    ///         Ok(_) => Ending::Success,
    ///         Err(_) => Ending::Broken,
    ///     },
    /// );
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn classify<E, T, F>(self, classify: F) -> CircuitBreakerLayer<B, AtHead<F>>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> T,
        T: Into<Verdict>,
    {
        CircuitBreakerLayer(self.0.map_completion(|completion| completion.classify(classify)))
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
    pub fn when_body_ends(self) -> CircuitBreakerLayer<B, AtBodyEnd<V>> {
        CircuitBreakerLayer(self.0.map_completion(Into::into))
    }
}

impl<B, V> CircuitBreakerLayer<B, AtBodyEnd<V>> {
    /// Sets how a call ended, as it does [before `when_body_ends`](Self::when_body_ends).
    #[must_use]
    pub fn classify<E, T, F>(self, classify: F) -> CircuitBreakerLayer<B, AtBodyEnd<F>>
    where
        F: Fn(Result<&ResponseHead<'_>, &E>) -> T,
        T: Into<Verdict>,
    {
        CircuitBreakerLayer(self.0.map_completion(|completion| completion.classify(classify)))
    }
}

impl<B, W, C, L> CircuitBreakerLayer<B, W>
where
    B: Deref<Target = CircuitBreaker<C, L>>,
{
    /// Counts and logs the calls of a breaker of yours under this name. Default: it does neither.
    ///
    /// Changes of its state are not: for these the breaker has a [listener](damper_core::breaker::OnStateChange) of its own, such as the
    /// `TransitionCounter` of `damper::metrics`. [`PerHost`] and [`Single`] have a name already.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::CircuitBreakerLayer;
    /// use damper::{BreakerConfig, CircuitBreaker};
    ///
    /// static PAYMENTS: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    ///
    /// let layer = CircuitBreakerLayer::new(&PAYMENTS).named("payments");
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn named(self, name: &str) -> CircuitBreakerLayer<Single<B>, W> {
        CircuitBreakerLayer(self.0.map_gate(|breaker| Single::of(breaker, name)))
    }
}

impl<B, W> CircuitBreakerLayer<B, W> {
    /// Sets when a call has ended, and with which verdict: a [`Completion`](crate::Completion). Default: [`AtHead`].
    ///
    /// For gRPC, pass `damper::tonic::AtTrailers::new()`.
    #[must_use]
    pub fn completion<X>(self, completion: X) -> CircuitBreakerLayer<B, X> {
        CircuitBreakerLayer(self.0.completion(completion))
    }

    /// Sets the shortest time given to a call whose passed deadline counts as a failure.
    ///
    /// Default: [`MinBudget::usual_per_host()`], which measures what each host takes for most of its successes. With
    /// [`Duration::ZERO`](core::time::Duration::ZERO) each passed deadline counts.
    ///
    /// A caller with 5 ms left cannot blame a server that takes 50 ms. Where the [`Deadline`](damper_core::Deadline) in a
    /// request's extensions leaves less than `min_budget`, two things say nothing about the server: `504 Gateway Timeout`
    /// (in gRPC `DEADLINE_EXCEEDED`), and a failure that comes once that deadline has passed. Otherwise a few callers with
    /// deadlines of a millisecond would open the breaker for all others.
    ///
    /// A [`ClientDeadlineLayer`](crate::ClientDeadlineLayer) outside puts the deadline there, and drops the call when it
    /// passes. That is a failure of a server that was given enough time, so a host that hangs opens its breaker. A caller
    /// that goes away earlier says nothing about the server.
    ///
    /// A classifier of your own returns [`Ending::TimedOut`](damper_core::gate::Ending::TimedOut) for responses that say so.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::BreakerConfig;
    /// use damper::http::CircuitBreakerLayer;
    /// use std::time::Duration;
    ///
    /// // It takes 50 ms in most cases, so nothing has to be measured.
    /// let layer = CircuitBreakerLayer::per_host(BreakerConfig::default()).min_budget(Duration::from_millis(50));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn min_budget(self, min_budget: impl Into<MinBudget>) -> Self {
        Self(self.0.min_budget(min_budget))
    }

    /// Lets candidates decide beside the breakers, on the same calls, and changes nothing. Default: none.
    ///
    /// Candidates record the outcomes of the calls that were made, with the same verdicts, and learn nothing of calls that were refused.
    /// They are breakers like others: give them a name of their own for metrics and logs. Besides,
    /// [`shadow_report`](CircuitBreakerLayer::shadow_report) counts where the two disagree.
    ///
    /// A call that an open breaker for all requests refuses in `poll_ready` is refused by the candidate too, if that is open.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::BreakerConfig;
    /// use damper::http::{CircuitBreakerLayer, PerHost};
    ///
    /// let nervous = BreakerConfig::builder().failure_threshold(2).build()?;
    /// let candidates = PerHost::builder(nervous).named("nervous").build()?;
    /// let layer = CircuitBreakerLayer::per_host(BreakerConfig::DEFAULT).shadow(candidates);
    /// // A day later:
    /// println!("{} calls more would have been refused", layer.shadow_report().only_by_candidate);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shadow<S: Gate>(self, candidates: S) -> CircuitBreakerLayer<Shared<Shadowed<B, S>>, W> {
        CircuitBreakerLayer(self.0.map_gate(|breakers| Shared::new(Shadowed::new(breakers, candidates))))
    }
}

impl<B, S, W> CircuitBreakerLayer<Shared<Shadowed<B, S>>, W> {
    /// Returns the refusals of the breakers and of the [candidates](CircuitBreakerLayer::shadow) beside them.
    #[must_use]
    pub fn shadow_report(&self) -> ShadowReport {
        self.0.gate.report()
    }
}

#[cfg(feature = "metrics")]
impl<B: damper_metrics::NamedSource, W> damper_metrics::Source for CircuitBreakerLayer<B, W> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.0.gate.read(readings);
    }
}

#[cfg(feature = "metrics")]
impl<B: damper_metrics::NamedSource, W> damper_metrics::NamedSource for CircuitBreakerLayer<B, W> {
    fn name(&self) -> &str {
        self.0.gate.name()
    }
}

client_layer!(CircuitBreakerLayer<B, W>, W, (), CircuitBreak, "breakers");
