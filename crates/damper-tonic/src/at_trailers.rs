//! A gRPC call ends with its trailers.

use crate::IntoStatus;
use crate::grpc::{find_status, is_of_transport};
use crate::status::status_of;
use crate::verdict::{rejection, unavailability, verdict_in, verdict_on, verdict_on_head};
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::ops::ControlFlow;
use damper_core::gate::{Ending, Permit, Verdict, is_refusal};
use damper_core::{CallError, Reads};
use damper_http::internal::is_fault_of_request;
use damper_http::{BodyEnd, Completion, HeldPermit, ObservedBody};
use http::Response;
use http_body::Body;
use tonic::{Code, Status};

/// Ends a gRPC call at its status.
///
/// A response without messages has the status in its head, any other in its trailers.
///
/// It puts the clients of gRPC behind a [`CircuitBreakerLayer`](damper_http::CircuitBreakerLayer):
/// `CircuitBreakerLayer::single(config).completion(AtTrailers::new())`. `UNAVAILABLE`, `DEADLINE_EXCEEDED` and
/// `RESOURCE_EXHAUSTED` are failures, and so are errors of the transport; other codes are successes. A
/// [refusal](is_refusal) by a layer of damper behind the breaker is ignored.
///
/// | the answer | verdict |
/// |---|---|
/// | has a status, in its headers or its trailers | by its code |
/// | is a limiter's refusal: `RESOURCE_EXHAUSTED` with a `google.rpc.RetryInfo`, or a 429 with `Retry-After` | a success |
/// | has none, and a status of HTTP that gRPC maps to a code, such as 503 | by that code |
/// | has none, and is `UNKNOWN` by that mapping: a stream that was cut off, a page of HTML, a 500 | a failure |
/// | does not come, because the call's own messages failed | none; a probe gives its place back |
/// | is a stream that the caller drops | none; a probe gives its place back |
/// | does not come, because the call panics | a failure; the panic goes on to the caller |
///
/// A limiter that refuses is alive and says when to come back: to count that as a failure would stop the calls that it
/// would let pass. Any other failure with a `google.rpc.RetryInfo` keeps the breaker open for as long as that says: see
/// [`max_retry_after`](damper_core::breaker::BreakerConfigBuilder::max_retry_after).
///
/// The service's error is a [`Status`]: the one that a generated client would have made of the error, or `UNAVAILABLE`
/// (`RESOURCE_EXHAUSTED` by a rate limit) where this layer or one inside refused the call, in whose sources [`CircuitOpen::find_in`](damper_core::CircuitOpen::find_in) finds the
/// refusal.
///
/// For a throttle, take [`rejections`](Self::rejections).
///
/// With [a breaker per host](damper_http::CircuitBreakerLayer::per_host), a generated client names the host only if it
/// has an origin: `GreeterClient::with_origin(layer.layer(channel), uri)`.
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
/// use damper::http::CircuitBreakerLayer;
/// use damper::tonic::AtTrailers;
/// use damper::{BreakerConfig, CircuitOpen};
/// use tonic::transport::Channel;
/// # struct GreeterClient<T>(T);
/// # impl<T: tonic::client::GrpcService<tonic::body::Body>> GreeterClient<T> {
/// #     fn new(channel: T) -> Self { Self(channel) }
/// #     async fn say_hello(&mut self, name: &str) -> Result<String, tonic::Status> { Ok(name.to_owned()) }
/// # }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = Channel::from_static("http://greeter.example.com:50051").connect_lazy();
/// let breaker = CircuitBreakerLayer::single(BreakerConfig::default()).completion(AtTrailers::new());
/// let mut client = GreeterClient::new(breaker.layer(channel)); // 5 failures, 30 s, 1 probe
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
#[derive(Clone, Copy)]
pub struct AtTrailers<V = fn(Code) -> Ending> {
    classify: V,
}

impl AtTrailers {
    /// Creates a completion that judges by [`unavailability`].
    #[must_use]
    pub const fn new() -> Self {
        Self { classify: unavailability }
    }

    /// Creates a completion that judges by [`rejection`], for a [`ThrottleLayer`](damper_http::ThrottleLayer).
    ///
    /// `ThrottleLayer::single().completion(AtTrailers::rejections())`
    ///
    /// The first message of a stream shows that the server accepted the call, whatever its trailers say.
    ///
    /// It is not for a breaker, which would count `RESOURCE_EXHAUSTED` as a failure: use [`new`](Self::new) there.
    ///
    /// `UNAVAILABLE` and `DEADLINE_EXCEEDED` are rejections. `RESOURCE_EXHAUSTED` is ignored: it is about one quota or one message.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
    /// use damper::http::ThrottleLayer;
    /// use damper::throttle::Throttled;
    /// use damper::tonic::AtTrailers;
    /// use tonic::transport::Channel;
    /// # struct GreeterClient<T>(T);
    /// # impl<T: tonic::client::GrpcService<tonic::body::Body>> GreeterClient<T> {
    /// #     fn new(channel: T) -> Self { Self(channel) }
    /// #     async fn say_hello(&mut self, name: &str) -> Result<String, tonic::Status> { Ok(name.to_owned()) }
    /// # }
    ///
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let channel = Channel::from_static("http://greeter.example.com:50051").connect_lazy();
    /// let throttle = ThrottleLayer::single().completion(AtTrailers::rejections());
    /// let mut client = GreeterClient::new(throttle.layer(channel));
    ///
    /// match client.say_hello("me").await {
    ///     Ok(greeting) => println!("{greeting}"),
    ///     Err(status) => match Throttled::find_in(&status) {
    ///         Some(throttled) => println!("{throttled}"), // throttled, 87 % of the calls are not sent
    ///         None => println!("{status}"),
    ///     },
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn rejections() -> Self {
        Self { classify: rejection }
    }
}

impl<V> AtTrailers<V> {
    /// Sets what a code says about its server. Default: [`unavailability`].
    ///
    /// The closure returns an [`Ending`] or a [`Verdict`]. It is cloned for every call, which costs nothing if it captures nothing. It is not asked
    /// where there is no status. An ending that is a failure, of `RESOURCE_EXHAUSTED`, becomes [`Ending::Limited`] if the status has a
    /// `google.rpc.RetryInfo`; to count such refusals, return a verdict with a `retry_after`, the time to stay open.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
    /// use damper::BreakerConfig;
    /// use damper::gate::Ending;
    /// use damper::http::CircuitBreakerLayer;
    /// use damper::tonic::AtTrailers;
    /// use tonic::Code;
    ///
    /// let at_trailers = AtTrailers::new().classify(|code| match code {
    ///     Code::Unavailable | Code::Internal | Code::DataLoss => Ending::Failed,
    ///     Code::Cancelled => Ending::NotSent, // which a breaker ignores
    ///     _ => Ending::Success,
    /// });
    /// let layer = CircuitBreakerLayer::single(BreakerConfig::default()).completion(at_trailers);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn classify<T: Into<Verdict>, F: Fn(Code) -> T>(self, classify: F) -> AtTrailers<F> {
        AtTrailers { classify }
    }
}

impl<R, E, V, T, N> Completion<R, E, N> for AtTrailers<V>
where
    R: Body,
    E: Into<Box<dyn Error + Send + Sync>>,
    V: Fn(Code) -> T,
    T: Into<Verdict>,
    N: IntoStatus,
{
    const FOLLOWS_BODY: bool = true;
    type Body<P: Permit> = ObservedBody<R, P, Self>;
    type Error = Status;

    #[inline]
    fn head(&mut self, response: &Response<R>) -> ControlFlow<Verdict, Verdict> {
        match verdict_on_head(response, &self.classify) {
            Some(verdict) => ControlFlow::Break(verdict),
            None => ControlFlow::Continue(Verdict::of(Ending::Success)),
        }
    }

    /// Judges an error: by the status in its chain, else as a broken connection, or a timeout.
    ///
    /// A request whose own messages failed says nothing about the server. It ends as not sent.
    ///
    /// An error with a status comes from another layer, and one that such a layer made of an error of the transport is that error. A
    /// refusal by a layer of damper is ignored.
    fn failed(&self, error: E) -> (Verdict, Status) {
        let error = error.into();
        let verdict = match find_status(&*error) {
            _ if is_fault_of_request(&*error) => Verdict::of(Ending::NotSent),
            Some(status) if !is_refusal(&*error) && !is_of_transport(status) => verdict_on(status, &self.classify),
            _ => Verdict::of(Ending::of_error(&*error)),
        };
        (verdict, status_of(error))
    }

    #[inline]
    fn respond<P: Permit>(
        response: Response<R>,
        pending: Option<(HeldPermit<P>, Self)>,
    ) -> Response<ObservedBody<R, P, Self>> {
        response.map(|body| ObservedBody::new(body, pending))
    }

    fn not_called(error: CallError<E, N>) -> Status {
        match error {
            CallError::Refused(refusal) => refusal.into_status(),
            CallError::Failed(error) => status_of(error.into()),
        }
    }
}

/// The verdict on the status in the trailers. Without one the connection broke.
impl<V: Fn(Code) -> T, T: Into<Verdict>> Reads<BodyEnd<'_>, Verdict> for AtTrailers<V> {
    fn read_from(&self, end: &BodyEnd<'_>) -> Verdict {
        let told = match end {
            BodyEnd::Trailers(trailers) => verdict_in(trailers, &self.classify),
            BodyEnd::Plain | BodyEnd::Error => None,
        };
        told.unwrap_or(Verdict::of(Ending::Broken))
    }
}

/// Judges by [`unavailability`].
impl Default for AtTrailers {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> fmt::Debug for AtTrailers<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtTrailers").finish_non_exhaustive()
    }
}
