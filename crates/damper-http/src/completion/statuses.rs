//! The facts that a response tells about its call.

use super::{ClassifyResponse, ResponseHead};
use crate::rate_limit::Refused;
use crate::retry::classify::{is_fault_of_request, is_unprocessed};
use crate::wire::{self, GRPC_STATUS};
use alloc::boxed::Box;
use core::error::Error;
use damper_core::gate::{Ending, Verdict};
#[cfg(doc)]
use damper_core::{deadline::DeadlineExceeded, is_refusal};
use http::{HeaderMap, HeaderValue};

/// Says how a call ended by its status or its error.
///
/// Breakers and throttles judge by it, and limits on the calls in flight by [`EveryStatus`]. The table of [`Ending`] has what each makes of an
/// ending. Retries and hedges judge by [`failure`](Self::failure), which takes heads by their status alone.
///
/// | the response | ending |
/// |---|---|
/// | a head | that of its [status](Ending::of_status) |
/// | one of 4xx or 5xx that a layer of damper made in this process: it has a [`Refused`] in its extensions | [`NotSent`](Ending::NotSent) |
/// | an error that is a [refusal](is_refusal) of damper's own, or a request that could not be made | [`NotSent`](Ending::NotSent) |
/// | with the feature `hyper`, and over HTTP/2 with `http2`, an error of the request itself, before a head: its own body failed, as when the client of a proxy breaks off an upload | [`NotSent`](Ending::NotSent) |
/// | an error with a [`DeadlineExceeded`], an `AttemptTimedOut` or, with the feature `tokio`, the error of tokio's or tower's timeout among its sources | [`TimedOut`](Ending::TimedOut) |
/// | an error in a [stack](crate::client_stack) whose protocol [knows](crate::StackProtocol::ending) it, as gRPC knows a status | that ending |
/// | any other error | [`Broken`](Ending::Broken) |
///
/// The `Retry-After` of a 429 or a 5xx is the verdict's [`retry_after`](Verdict::retry_after).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Statuses;

impl Statuses {
    /// Returns the facts about a call with this response, or with the error in its place.
    #[inline]
    #[must_use]
    pub fn judge(response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Verdict {
        match response {
            Ok(head) => match Ending::of_status(head.status.as_u16()) {
                Ending::Success => Verdict::of(Ending::Success),
                ending => Self::of_failed_head(head, ending),
            },
            Err(error) => Self::of_error(error),
        }
    }

    /// Returns the same as [`judge`](Self::judge), for a service whose errors are in boxes.
    ///
    /// The services of tower's timeouts have such errors.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::BreakerConfig;
    /// use damper::http::{CircuitBreakerLayer, Statuses};
    ///
    /// let layer = CircuitBreakerLayer::per_host(BreakerConfig::default()).classify(Statuses::judge_boxed);
    /// # let _ = layer;
    /// ```
    #[must_use]
    #[expect(clippy::borrowed_box, reason = "the error of a service is the box")]
    pub fn judge_boxed(response: Result<&ResponseHead<'_>, &Box<dyn Error + Send + Sync>>) -> Verdict {
        Self::judge(response.map_err(|error| &**error as _))
    }

    #[cold]
    fn of_failed_head(head: &ResponseHead<'_>, ending: Ending) -> Verdict {
        if Refused::is_in(head.extensions) {
            return Verdict::of(Ending::NotSent);
        }
        match ending {
            Ending::Declined => Verdict::of(ending),
            ending => Verdict::of(ending).with_retry_after(wire::retry_after_in(head.headers)),
        }
    }

    #[cold]
    fn of_error(error: &(dyn Error + 'static)) -> Verdict {
        let ending = ending_of_error(error);
        let verdict = Verdict::of(ending);
        if ending == Ending::Broken && is_unprocessed(error) { verdict.unprocessed() } else { verdict }
    }
}

/// As [`Statuses::judge`]. For errors in boxes: [`Statuses::judge_boxed`].
impl<E: Error + 'static> ClassifyResponse<E, Verdict> for Statuses {
    #[inline]
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        Self::judge(response.map_err(|error| error as _))
    }
}

/// Says how a call ended as [`Statuses`] does, and by the status of gRPC.
///
/// That is in the head of a response without messages. It is read by [`Ending::of_grpc_code`], unless the status of HTTP says more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EveryStatus;

impl EveryStatus {
    /// Returns the facts about a call with this response, or with the error in its place.
    #[inline]
    #[must_use]
    pub fn judge(response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Verdict {
        match response {
            Ok(head) => match grpc_status(head.headers) {
                None | Some(b"0") => Statuses::judge(response),
                Some(code) => Self::of_grpc_status(head, code),
            },
            Err(error) => Statuses::of_error(error),
        }
    }

    /// Returns the same as [`judge`](Self::judge), for a service whose errors are in boxes.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::concurrency::LimitBounds;
    /// use damper::http::{ConcurrencyLayer, EveryStatus};
    ///
    /// let layer = ConcurrencyLayer::adaptive(LimitBounds::DEFAULT).classify(EveryStatus::judge_boxed);
    /// # let _ = layer;
    /// ```
    #[must_use]
    #[expect(clippy::borrowed_box, reason = "the error of a service is the box")]
    pub fn judge_boxed(response: Result<&ResponseHead<'_>, &Box<dyn Error + Send + Sync>>) -> Verdict {
        Self::judge(response.map_err(|error| &**error as _))
    }

    /// Returns the ending by the status of gRPC, unless that of HTTP says more.
    #[cold]
    fn of_grpc_status(head: &ResponseHead<'_>, code: &[u8]) -> Verdict {
        if Refused::is_in(head.extensions) {
            return Verdict::of(Ending::NotSent);
        }
        let by_http = Ending::of_status(head.status.as_u16());
        let by_grpc = ending_of_grpc_status(code);
        Verdict::of(if by_grpc.is_overload() || by_http == Ending::Success { by_grpc } else { by_http })
    }
}

/// As [`EveryStatus::judge`]. For errors in boxes: [`EveryStatus::judge_boxed`].
impl<E: Error + 'static> ClassifyResponse<E, Verdict> for EveryStatus {
    #[inline]
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        Self::judge(response.map_err(|error| error as _))
    }
}

fn ending_of_error(error: &(dyn Error + 'static)) -> Ending {
    if is_fault_of_request(error) {
        return Ending::NotSent;
    }
    let ending = damper_tower::internal::ending_of_error(error);
    if ending == Ending::NotSent {
        return ending;
    }
    if crate::AttemptTimedOut::find_in(error).is_some() {
        return Ending::TimedOut;
    }
    // A protocol over HTTP has errors of its own.
    if let Some(ending) = crate::StackError::find_in(error).and_then(crate::StackError::ending) {
        return ending;
    }
    ending
}

/// Returns the ending by the status of gRPC in these headers or trailers, if there is one.
#[inline]
pub(super) fn grpc_ending(headers: &HeaderMap) -> Option<Ending> {
    grpc_status(headers).map(ending_of_grpc_status)
}

#[inline]
fn grpc_status(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(&GRPC_STATUS).map(HeaderValue::as_bytes)
}

/// An unreadable status is `UNKNOWN`.
fn ending_of_grpc_status(status: &[u8]) -> Ending {
    const UNKNOWN: u32 = 2;
    let code = core::str::from_utf8(status).ok().and_then(|digits| digits.parse().ok());
    Ending::of_grpc_code(code.unwrap_or(UNKNOWN))
}
