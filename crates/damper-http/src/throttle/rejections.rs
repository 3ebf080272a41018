//! Which responses are rejections of an overloaded service.

use crate::completion::{Classify, ResponseHead, Statuses};
use alloc::boxed::Box;
use core::error::Error;
use damper_core::breaker::Verdict;
use damper_core::gate::Ending;
#[cfg(doc)]
use damper_core::is_refusal;

/// Counts 502, 503, 504 and errors as rejections, and ignores 429.
///
/// All other responses are accepted calls, 500 included.
///
/// A throttle asks whether the server did the work, not whether it did it well. With 503 the server rejects the call, and
/// with 502 and 504 a gateway says that the server behind it did not answer. A 500 is an answer that cost the server its work.
///
/// A 429 is about one quota. Where the calls of several tenants go through one throttle, a tenant beyond its quota would have the
/// calls of all others refused. If all calls of the client share one quota, count it: the example of [`judge`](Self::judge) does.
///
/// Errors are those of the transport, and timeouts. One that is a [refusal](is_refusal) of damper's own is ignored: a limiter
/// or a bulkhead behind the throttle refused the call, and the server has not seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rejections;

impl Rejections {
    /// Returns the verdict on a response, or on the error in its place. For a closure of your own.
    ///
    /// # Examples
    ///
    /// A client whose calls all share one quota of the server:
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::breaker::Verdict;
    /// use damper::http::{Rejections, ResponseHead, ThrottleLayer};
    /// # type MyError = std::io::Error;
    ///
    /// let layer = ThrottleLayer::per_host().classify(|response: Result<&ResponseHead, &MyError>| match response {
    ///     Ok(head) if head.status == http::StatusCode::TOO_MANY_REQUESTS => Verdict::Failure,
    ///     other => Rejections::judge(other.map_err(|error| error as _)),
    /// });
    /// # let _ = layer;
    /// ```
    #[inline]
    #[must_use]
    pub fn judge(response: Result<&ResponseHead<'_>, &(dyn Error + 'static)>) -> Verdict {
        let ending = match response {
            // By the status alone: a look at the rest of the head would have the response copied once more.
            Ok(head) => Ending::of_status(head.status.as_u16()),
            Err(error) => Statuses::judge(Err(error)).ending,
        };
        match ending.is_accepted() {
            Some(true) => Verdict::Success,
            Some(false) if ending == Ending::TimedOut => Verdict::DeadlineExceeded,
            Some(false) => Verdict::Failure,
            None => Verdict::Ignored,
        }
    }

    /// Returns the same as [`judge`](Self::judge), for a service whose errors are in boxes.
    ///
    /// Those of tower's timeouts are. Pass it to [`classify`](crate::ThrottleLayer#method.classify).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::http::{Rejections, ThrottleLayer};
    ///
    /// let layer = ThrottleLayer::per_host().classify(Rejections::judge_boxed);
    /// # let _ = layer;
    /// ```
    #[must_use]
    #[expect(clippy::borrowed_box, reason = "the error of a service is the box")]
    pub fn judge_boxed(response: Result<&ResponseHead<'_>, &Box<dyn Error + Send + Sync>>) -> Verdict {
        Self::judge(response.map_err(|error| &**error as _))
    }
}

/// As [`Rejections::judge`]. For errors in boxes: [`Rejections::judge_boxed`].
impl<E: Error + 'static> Classify<E> for Rejections {
    #[inline]
    fn verdict(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        Self::judge(response.map_err(|error| error as _))
    }
}
