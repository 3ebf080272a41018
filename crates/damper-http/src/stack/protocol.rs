//! The differences between HTTP and gRPC that the parts need.

use super::{BoxError, StackError, StackPart};
use crate::completion::AtHead;
use crate::retry::HttpRetries;
use alloc::string::String;
use core::error::Error;
use damper_core::gate::Ending;

/// The protocol of a [client's stack](super::client_stack): [`HttpProtocol`], or `damper::tonic::Grpc`.
///
/// It completes the parts that the stack creates itself, so that breaker, throttle, retries and hedge judge by the same rules. A layer
/// passed by a `…_layer` method keeps its own rules.
///
/// Implement it for other protocols over HTTP.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the protocol of a client's stack",
    note = "`HttpProtocol` is the default; for gRPC, pass `damper::tonic::Grpc::new()`"
)]
pub trait StackProtocol {
    /// The [`Completion`](crate::Completion), which decides when a call has ended and with which verdict.
    type Completion;

    /// The [`Completion`](crate::Completion) for throttles, which decides whether the server rejected a call.
    type Rejections;

    /// The [`RetryProtocol`](crate::RetryProtocol), which decides on retries.
    type Retries;

    /// The reader of hints about the server's limit, for pacing: [`Reads`](damper_core::Reads) of [`Hints`](damper_core::throttle::Hints) from a [`ResponseHead`](crate::ResponseHead).
    type Hints;

    /// Returns the completion.
    fn completion(&self) -> Self::Completion;

    /// Returns the completion for throttles.
    fn rejections(&self) -> Self::Rejections;

    /// Returns the rules of retries and hedges.
    fn retries(&self) -> Self::Retries;

    /// Returns the reader of hints for pacing.
    fn hints(&self) -> Self::Hints;

    /// Returns the error of a call that a part ended, in the protocol's form. Default: unchanged.
    ///
    /// Clients of the protocol expect this form. The chain of the returned error's sources must contain `error`.
    #[must_use]
    fn ended(_part: StackPart, error: BoxError) -> BoxError {
        error
    }

    /// Returns the message of an error of the protocol's client. Default: none.
    ///
    /// Without one its `Display` is written. The `{:#}` of a [`StackError`] writes it, for each error in the chain of its sources.
    #[must_use]
    fn message(_error: &(dyn Error + 'static)) -> Option<String> {
        None
    }

    /// Returns how a call ended with this error of the protocol's client. Default: none.
    ///
    /// An error for which there is none says no more than that the call failed.
    /// [`Statuses`](crate::Statuses) asks it about each error in the chain of a [`StackError`].
    #[must_use]
    fn ending(_error: &(dyn Error + 'static)) -> Option<Ending> {
        None
    }

    /// Returns the error that the caller of the stack gets. Default: unchanged.
    ///
    /// gRPC puts a status into the chain of its sources if a generated client would find none there.
    #[must_use]
    fn returned(error: StackError) -> StackError {
        error
    }
}

/// HTTP, judged by the head of the response.
///
/// It judges by [`Statuses`](crate::Statuses), for breakers, throttles, retries and hedges. It reads the hints of responses for pacing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HttpProtocol;

impl StackProtocol for HttpProtocol {
    type Completion = AtHead;
    type Rejections = AtHead;
    type Retries = HttpRetries;
    type Hints = Self;

    fn completion(&self) -> AtHead {
        AtHead::new()
    }

    fn rejections(&self) -> AtHead {
        AtHead::new()
    }

    fn retries(&self) -> HttpRetries {
        HttpRetries::new()
    }

    fn hints(&self) -> Self {
        *self
    }
}
