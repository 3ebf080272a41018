//! The protocol of a client's stack that speaks gRPC.

use crate::status::{code_of, gave_up_message, status, unknown_status, usual_wait};
use crate::transport::ending_of;
use crate::verdict::retry_after;
use crate::{AtTrailers, GrpcRetries};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;
use core::iter::successors;
use damper_core::gate::Ending;
use damper_core::internal::{refusal_in, source_of};
use damper_core::retry::{GaveUp, RetryError};
use damper_http::internal::{PartErrors, reason_of, stack_error};
use damper_http::{StackError, StackPart, StackProtocol};
use tonic::{Code, Status, TimeoutExpired};

type BoxError = Box<dyn Error + Send + Sync>;

/// The protocol gRPC, for a [client's stack](damper_http::client_stack).
///
/// Breakers and throttles judge by [`AtTrailers`], retries and hedges by [`GrpcRetries`], pacing reads the hints of statuses and headers, and a refusal is a
/// status.
///
/// | the call was ended by | the status, whose source is the refusal |
/// |---|---|
/// | the deadline, also that of the retries | `DEADLINE_EXCEEDED` |
/// | the pacing, whose sleep the deadline does not leave | `DEADLINE_EXCEEDED`, with the sleep as a `RetryInfo` |
/// | a rate limit | `RESOURCE_EXHAUSTED`, with the wait as a `RetryInfo` |
/// | the timeout of one attempt, which is therefore tried again by default | `UNAVAILABLE` |
/// | a breaker, a throttle, a limit of calls in flight | `UNAVAILABLE`, with the wait as a `RetryInfo` |
/// | another gate, in any place | by the kind of its refusal, with the wait as a `RetryInfo` |
/// | the transport, or retries that were used up | as tonic makes it of the last error; `UNKNOWN` with the sentences of the error if tonic does not know it |
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
/// use damper::http::{StackError, client_stack};
/// use damper::tonic::{Grpc, GrpcRetries};
/// use damper::{BreakerConfig, Retry};
/// use std::time::Duration;
/// use tonic::Code;
/// use tonic::transport::Channel;
/// # struct GreeterClient<T>(T);
/// # impl<T: tonic::client::GrpcService<tonic::body::Body>> GreeterClient<T> {
/// #     fn new(channel: T) -> Self { Self(channel) }
/// #     async fn say_hello(&mut self, name: &str) -> Result<String, tonic::Status> { Ok(name.to_owned()) }
/// # }
///
/// # async fn sleep(_: Duration) {}
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = Channel::from_static("http://greeter.example.com:50051").connect_lazy();
/// let stack = client_stack()
///     .breaker_single(BreakerConfig::default())
///     .protocol(Grpc::new().retries(GrpcRetries::on([Code::Unavailable, Code::Aborted])));
/// let mut client = GreeterClient::new(stack.service(channel));
///
/// if let Err(status) = client.say_hello("me").await {
///     let part = StackError::find_in(&status).map(StackError::part);
///     println!("{part:?}: {}", status.message()); // Some(Breaker): circuit open, next probe in 28 s
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Grpc<V = fn(Code) -> Ending> {
    completion: AtTrailers<V>,
    retries: GrpcRetries,
}

impl Grpc {
    /// Creates the protocol with [`AtTrailers::new`] and [`GrpcRetries::new`].
    #[must_use]
    pub const fn new() -> Self {
        Self { completion: AtTrailers::new(), retries: GrpcRetries::new() }
    }
}

impl<V> Grpc<V> {
    /// Sets what a status says about its server. Default: [`AtTrailers::new`].
    #[must_use]
    pub fn completion<N>(self, completion: AtTrailers<N>) -> Grpc<N> {
        Grpc { completion, retries: self.retries }
    }

    /// Sets which calls retries and hedges repeat. Default: [`GrpcRetries::new`].
    #[must_use]
    pub fn retries(self, retries: GrpcRetries) -> Self {
        Self { retries, ..self }
    }
}

impl<V: Clone> StackProtocol for Grpc<V> {
    type Completion = AtTrailers<V>;
    type Rejections = AtTrailers;
    type Retries = GrpcRetries;
    type Hints = Self;

    fn completion(&self) -> AtTrailers<V> {
        self.completion.clone()
    }

    fn rejections(&self) -> AtTrailers {
        AtTrailers::rejections()
    }

    fn retries(&self) -> GrpcRetries {
        self.retries
    }

    fn hints(&self) -> Self {
        self.clone()
    }

    fn ended(part: StackPart, error: BoxError) -> BoxError {
        let gave_up = error.downcast_ref::<RetryError<StackError>>();
        let is_out_of_time = gave_up.is_some_and(|gave_up| matches!(gave_up.reason(), GaveUp::Deadline { .. }));
        let refusal = refusal_in(&*error);
        let code = match part {
            StackPart::Retry if is_out_of_time => Code::DeadlineExceeded,
            // tonic makes a status of it.
            StackPart::Transport | StackPart::Retry => return error,
            StackPart::Deadline | StackPart::Pacing => Code::DeadlineExceeded,
            _ => refusal.map_or(Code::Unavailable, |(kind, _)| code_of(kind)),
        };
        // Once the deadline has passed, the status of an earlier attempt is not the call's.
        if !is_out_of_time && find_status(&*error).is_some() {
            return error;
        }
        let message = match gave_up {
            Some(gave_up) => gave_up_message(gave_up),
            None => error.to_string(),
        };
        let wait = refusal.and_then(|(kind, wait)| wait.or_else(|| usual_wait(kind)));
        let mut status = status(code, &message, wait);
        status.set_source(Arc::from(error));
        Box::new(status)
    }

    /// Returns the message of a status, whose `Display` adds the description of its code.
    fn message(error: &(dyn Error + 'static)) -> Option<String> {
        let status = error.downcast_ref::<Status>().filter(|status| !status.message().is_empty())?;
        Some(String::from(status.message()))
    }

    fn ending(error: &(dyn Error + 'static)) -> Option<Ending> {
        ending_of(error)
    }

    fn returned(error: StackError) -> StackError {
        if find_status(&error).is_some() {
            return error;
        }
        let message = reason_of(&error);
        error.map_source(|source| {
            Box::new(Status::try_from_error(source).unwrap_or_else(|source| unknown_status(source, message)))
        })
    }
}

/// Serves breakers and retries of gRPC.
impl<V: Clone> PartErrors<Status> for Grpc<V> {
    fn part_error(part: StackPart, status: Status) -> StackError {
        let wait = retry_after(&status);
        stack_error::<Self>(part, Box::new(status), wait)
    }
}

/// Returns the first status in the chain of an error's sources, as a generated client does.
pub(crate) fn find_status<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    successors(Some(error), |&error| source_of(error)).find_map(|error| error.downcast_ref())
}

/// Returns whether a layer made this status from an error of the transport.
///
/// Its code says less than that error: a lost connection is `UNKNOWN` there, and a timeout `CANCELLED`.
pub(crate) fn is_of_transport(status: &Status) -> bool {
    let sources = || successors(status.source(), |&error| source_of(error));
    match status.code() {
        Code::Unknown => status.source().is_some(),
        _ => {
            sources().any(|error| error.is::<hyper::Error>() || error.is::<h2::Error>() || error.is::<TimeoutExpired>())
        }
    }
}

/// As [`Grpc::new`].
impl Default for Grpc {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> fmt::Debug for Grpc<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc").field("retries", &self.retries).finish_non_exhaustive()
    }
}
