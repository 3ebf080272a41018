//! The retries of gRPC.

use crate::IntoStatus;
use crate::grpc::is_of_transport;
use crate::transport::{is_unprocessed, is_unseen};
use crate::verdict::{PUSHBACK, code_of, retry_after, retry_after_in};
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::iter::successors;
use core::str;
use core::time::Duration;
use damper_core::internal::source_of;
use damper_core::retry::{EveryErr, Failure, RetryError};
use damper_http::internal::is_error_of_user;
use damper_http::wire::{self, GRPC_TIMEOUT};
use damper_http::{BufferedBody, ClassifyResponse, GiveUp, Head, ResponseHead, RetryProtocol};
use h2::Reason;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status, TimeoutExpired};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

/// How much of a call's messages is kept, by default.
const BUFFER: usize = 64 * 1024;

/// The retries of gRPC, by the rules of its proposal A6.
///
/// It is the [protocol](damper_http::RetryLayer::protocol) of a [`RetryLayer`](damper_http::RetryLayer) around a
/// `Channel`, and [that](damper_http::HedgeLayer::protocol) of a [`HedgeLayer`](damper_http::HedgeLayer).
///
/// | question | answer |
/// |---|---|
/// | which calls? | all, unary calls and streams. A client says by the codes which failures may be repeated |
/// | after which outcomes? | a response without messages (Trailers-Only) whose code is one of [these](Self::on), `UNAVAILABLE` by default, and an error of the transport that gRPC maps to one of them. Also a limiter's refusal, whatever the codes are: `RESOURCE_EXHAUSTED` with a `google.rpc.RetryInfo`, as HTTP's 429 with `Retry-After` |
/// | never | once a response has begun, whatever its trailers say; after an error of damper's own, such as an open breaker |
/// | when? | after the backoff; exactly after `grpc-retry-pushback-ms` if the server sent it; else not before the `google.rpc.RetryInfo` of the status. A limiter's refusal is retried not before its `RetryInfo` and its pushback, with jitter added, so that refused clients do not return together |
/// | the server refuses retries | a pushback that is negative, unreadable or repeated ends the call |
/// | transparent retries | once per call, at once, outside of the policy's attempts and of the budget, whatever the codes are: after `REFUSED_STREAM`, a `GOAWAY` that came before the call, or a connection that had closed before the call was written |
/// | other calls that no server processed | no connection could be made, or a transparent retry was refused too: after the backoff, as one of the policy's attempts, whatever the codes are. The first one takes nothing from the budget |
/// | the deadline | the request's `grpc-timeout`, or a [`Deadline`](damper_core::Deadline) in its extensions. Each attempt sends what is left of it as `grpc-timeout` |
/// | messages | are kept as they are sent, up to a [limit](Self::buffer); a call that has sent more is not retried |
/// | headers | `grpc-previous-rpc-attempts`, from the second attempt on that a server may have processed. It counts on from that of the request |
///
/// `UNAVAILABLE` is the default because gRPC defines it so: "most likely a transient condition, which can be corrected by
/// retrying with a backoff". With `RESOURCE_EXHAUSTED` among the codes, calls that are over a limit which does not say how long
/// to wait are retried too, with the longer backoff for [throttled](damper_core::Retry::throttled_base) calls.
///
/// Only errors of HTTP/2 say what the application of a server has seen. A connection that ends without a `GOAWAY` may have
/// carried the call to it, and a proxy that answers `UNAVAILABLE` for a call which it did not pass on does not say so: both are retried by
/// the policy. gRPC's own clients retry a call that never left the client as often as they must; here it is once, so that a server which closes
/// every connection gets no more than one further request for each call. Around a [`HedgeLayer`](damper_http::HedgeLayer), a
/// refused attempt starts the next one at once, and counts as one of the hedge's.
///
/// The service's error is a [`Status`]: the one that a generated client would have made of the last error, or
/// `DEADLINE_EXCEEDED`. A response that is not retried is returned as it is.
///
/// It judges by the head of a response, so for a budget a call has succeeded when its first message may come. A
/// [breaker](crate::AtTrailers) outside judges by the trailers.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
/// use damper::http::RetryLayer;
/// use damper::retry::{Jitter, RetryThrottle};
/// use damper::tonic::GrpcRetries;
/// use damper::{Backoff, Retry};
/// use std::time::Duration;
/// use tonic::Code;
/// use tonic::transport::Channel;
/// # async fn sleep(_: Duration) {}
/// # struct GreeterClient<T>(T);
/// # impl<T: tonic::client::GrpcService<tonic::body::Body>> GreeterClient<T> {
/// #     fn new(channel: T) -> Self { Self(channel) }
/// #     async fn say_hello(&mut self, name: &str) -> Result<String, tonic::Status> { Ok(name.to_owned()) }
/// # }
///
/// static THROTTLE: RetryThrottle = match RetryThrottle::new(10, 0.1) {
///     Ok(throttle) => throttle,
///     Err(_) => panic!("out of range"),
/// };
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let retry = Retry::new(4)
///     .backoff(Backoff::exponential(Duration::from_millis(100)).jitter(Jitter::PROPORTIONAL))
///     .budget(&THROTTLE);
/// let retries = RetryLayer::sleeping_by(retry, sleep).protocol(GrpcRetries::on([Code::Unavailable, Code::Aborted]));
///
/// let channel = Channel::from_static("http://greeter.example.com:50051").connect_lazy();
/// let mut client = GreeterClient::new(retries.layer(channel));
/// println!("{}", client.say_hello("me").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct GrpcRetries {
    /// A bit for each code.
    codes: u32,
    buffer: usize,
}

impl GrpcRetries {
    /// Retries calls that end with `UNAVAILABLE`.
    #[must_use]
    pub const fn new() -> Self {
        Self::on([Code::Unavailable])
    }

    /// Retries calls that end with one of these codes.
    #[must_use]
    pub const fn on<const N: usize>(codes: [Code; N]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < N {
            bits |= bit(codes[index]);
            index += 1;
        }
        Self { codes: bits, buffer: BUFFER }
    }

    /// Sets how many bytes of a call's messages are kept for another attempt. Default: 64 KiB.
    ///
    /// A call that has sent more is not retried. Each call in flight may need this much memory until its response begins.
    #[must_use]
    pub const fn buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes;
        self
    }

    /// Returns the failure that a response or an error is.
    ///
    /// `None` for a response that has begun, or that ends with `OK`.
    #[must_use]
    pub fn judge(&self, response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Option<Failure> {
        match response {
            Ok(head) => {
                let code = code_in(head)?;
                let pushback = head.headers.get_all(PUSHBACK).into_iter().map(HeaderValue::as_bytes);
                Some(self.failure_with_hints(code, pushback, || retry_after_in(head.headers)))
            }
            Err(error) => Some(self.judge_error(error)),
        }
    }

    fn failure_of(&self, code: Code) -> Failure {
        match code {
            _ if self.codes & bit(code) == 0 => Failure::FATAL,
            Code::ResourceExhausted => Failure::THROTTLED,
            _ => Failure::TRANSIENT,
        }
    }

    /// Returns the failure of a status, with the wait that the server asks for.
    #[cold]
    fn failure_with_hints<'a>(
        &self,
        code: Code,
        mut pushback: impl Iterator<Item = &'a [u8]>,
        retry_after: impl FnOnce() -> Option<Duration>,
    ) -> Failure {
        let failure = self.failure_of(code);
        let pushback = pushback.next().map(|value| {
            let millis = str::from_utf8(value).ok().and_then(|value| value.parse::<i32>().ok());
            // A repeated one refuses retries, as a negative one does.
            let millis = millis.filter(|_| pushback.next().is_none()).and_then(|millis| u64::try_from(millis).ok());
            millis.map(Duration::from_millis)
        });
        match pushback {
            Some(None) => failure.declined(),
            // A limiter's refusal, as HTTP's 429 with `Retry-After` is. Its pushback is the same wait for clients that
            // do not read the details; an exact one would let all refused clients return at once.
            pushback if code == Code::ResourceExhausted => match (retry_after(), pushback.flatten()) {
                (Some(wait), pushback) => Failure::THROTTLED.retry_after(Some(wait.max(pushback.unwrap_or_default()))),
                (None, Some(pushback)) => failure.pushback(pushback),
                (None, None) => failure,
            },
            Some(Some(pushback)) => failure.pushback(pushback),
            None if failure.may_retry() => failure.retry_after(retry_after()),
            None => failure,
        }
    }

    #[cold]
    fn judge_error(&self, error: &(dyn Error + 'static)) -> Failure {
        if !EveryErr::judge(error).may_retry() {
            return Failure::FATAL;
        }
        if is_unseen(error) {
            return Failure::TRANSIENT.transparent();
        }
        if is_unprocessed(error) {
            return Failure::TRANSIENT.unprocessed();
        }
        for error in successors(Some(error), |&error| source_of(error)) {
            if let Some(status) = error.downcast_ref::<Status>().filter(|status| !is_of_transport(status)) {
                let values = status.metadata().get_all(PUSHBACK.as_str());
                let pushback = values.iter().map(MetadataValue::as_encoded_bytes);
                return self.failure_with_hints(status.code(), pushback, || retry_after(status));
            }
            if error.is::<TimeoutExpired>() {
                return self.failure_of(Code::DeadlineExceeded);
            }
            // The caller's own messages failed.
            if is_error_of_user(error) {
                return Failure::FATAL;
            }
            if let Some(reason) =
                error.downcast_ref::<h2::Error>().filter(|error| error.is_reset()).and_then(h2::Error::reason)
            {
                return self.failure_of(code_of_reset(reason));
            }
        }
        // The connection was lost.
        self.failure_of(Code::Unavailable)
    }
}

const fn bit(code: Code) -> u32 {
    1 << code as u32
}

/// Returns the code of a response without messages, unless it is `OK`; `None` if the response has begun.
fn code_in(head: &ResponseHead<'_>) -> Option<Code> {
    let code = match (head.headers.get(STATUS), head.status) {
        (Some(status), _) => Code::from_bytes(status.as_bytes()),
        (None, StatusCode::OK) => return None,
        (None, status) => code_of(status).unwrap_or(Code::Unknown),
    };
    (code != Code::Ok).then_some(code)
}

/// Returns the code that gRPC gives a stream which was reset for this reason.
fn code_of_reset(reason: Reason) -> Code {
    match reason {
        Reason::REFUSED_STREAM => Code::Unavailable,
        Reason::CANCEL => Code::Cancelled,
        Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
        Reason::STREAM_CLOSED => Code::Unknown,
        _ => Code::Internal,
    }
}

impl<Q> RetryProtocol<Q> for GrpcRetries
where
    Q: http_body::Body<Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    type Kept = BufferedBody<Q>;
    type Body = tonic::body::Body;

    fn may_repeat(&self, _: &Head<'_>) -> bool {
        true
    }

    fn keep(&self, body: Q) -> BufferedBody<Q> {
        BufferedBody::new(body, self.buffer)
    }

    fn send(&self, body: BufferedBody<Q>) -> tonic::body::Body {
        tonic::body::Body::new(body)
    }

    fn has_transparent_retries(&self) -> bool {
        true
    }

    fn timeout(&self, head: &Head<'_>) -> Option<Duration> {
        wire::grpc_timeout_in(head.headers)
    }

    fn prepare(&self, headers: &mut HeaderMap, previous_attempts: u32, time_left: Option<Duration>) {
        if previous_attempts > 0 {
            // Those of a retry around a hedge, or of the client for which this one calls.
            let earlier = headers.get(PREVIOUS_ATTEMPTS).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
            headers.insert(PREVIOUS_ATTEMPTS, previous_attempts.saturating_add(earlier.unwrap_or(0)).into());
        }
        if let Some(time_left) = time_left {
            headers.insert(GRPC_TIMEOUT, wire::grpc_timeout(time_left));
        }
    }
}

/// An error in a box has to become a status first, by `map_err(Status::from_error)`.
impl<E: Error + 'static> ClassifyResponse<E, Option<Failure>> for GrpcRetries {
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        self.judge(response.map_err(|error| error as _))
    }
}

impl<E> GiveUp<E> for GrpcRetries
where
    E: Error + Into<Box<dyn Error + Send + Sync>> + 'static,
{
    type Error = Status;

    fn give_up(&self, error: RetryError<E>) -> Status {
        error.into_status()
    }
}

/// Retries calls that end with `UNAVAILABLE`.
impl Default for GrpcRetries {
    fn default() -> Self {
        Self::new()
    }
}

/// Formats the codes whose bits are set.
struct CodeSet(u32);

impl fmt::Debug for CodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codes = (0..u32::BITS).filter(|code| self.0 & (1 << code) != 0);
        f.debug_set().entries(codes.map(|code| Code::from_i32(code as i32))).finish()
    }
}

impl fmt::Debug for GrpcRetries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcRetries").field("codes", &CodeSet(self.codes)).field("buffer", &self.buffer).finish()
    }
}
