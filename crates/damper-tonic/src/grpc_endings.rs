//! How a call ended, by tonic's errors too.

use crate::transport::{ending_of, is_unprocessed};
use alloc::boxed::Box;
use core::error::Error;
use core::iter::successors;
use damper_core::gate::{Ending, Verdict};
use damper_core::internal::source_of;
use damper_http::{ClassifyResponse, EveryStatus, ResponseHead};

/// Says how a call ended as [`EveryStatus`] does, and by the errors of tonic.
///
/// | an error with one of these among its sources | ending |
/// |---|---|
/// | tonic's `TimeoutExpired`, or a `Status` of `DEADLINE_EXCEEDED` | [`TimedOut`](Ending::TimedOut) |
/// | a `Status` of `UNAVAILABLE` | [`Unavailable`](Ending::Unavailable) |
/// | another `Status`, or neither | [`Broken`](Ending::Broken), or as [`EveryStatus`] says |
///
/// A limit on the calls in flight needs it around a `Channel`: `ClientConcurrencyLayer::adaptive(bounds).classify(GrpcEndings::judge_boxed)`.
/// In a [client's stack](damper_http::client_stack) of the protocol [`Grpc`](crate::Grpc) all of its gates judge errors like this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GrpcEndings;

impl GrpcEndings {
    /// Returns the facts about a call with this response, or with the error in its place.
    #[must_use]
    pub fn judge(response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Verdict {
        let verdict = EveryStatus::judge(response);
        match response {
            Err(error) if verdict.ending == Ending::Broken => of_broken(error, verdict),
            _ => verdict,
        }
    }

    /// Returns the same as [`judge`](Self::judge), for a service whose errors are in boxes.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_tonic as tonic; }
    /// use damper::concurrency::LimitBounds;
    /// use damper::http::ClientConcurrencyLayer;
    /// use damper::tonic::GrpcEndings;
    ///
    /// let layer = ClientConcurrencyLayer::adaptive(LimitBounds::DEFAULT).classify(GrpcEndings::judge_boxed);
    /// # let _ = layer;
    /// ```
    #[must_use]
    #[expect(clippy::borrowed_box, reason = "the error of a service is the box")]
    pub fn judge_boxed(response: Result<&ResponseHead<'_>, &Box<dyn Error + Send + Sync>>) -> Verdict {
        Self::judge(response.map_err(|error| &**error as _))
    }
}

#[cold]
fn of_broken(error: &(dyn Error + 'static), verdict: Verdict) -> Verdict {
    match successors(Some(error), |&error| source_of(error)).find_map(ending_of) {
        Some(ending) if ending.is_overload() => Verdict::of(ending),
        _ if is_unprocessed(error) => verdict.unprocessed(),
        _ => verdict,
    }
}

/// As [`GrpcEndings::judge`]. For errors in boxes: [`GrpcEndings::judge_boxed`].
impl<E: Error + 'static> ClassifyResponse<E, Verdict> for GrpcEndings {
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        Self::judge(response.map_err(|error| error as _))
    }
}
