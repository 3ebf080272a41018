//! How a call ended, by its response.

use super::{ResponseHead, Statuses};
use alloc::boxed::Box;
use core::error::Error;
use damper_core::gate::Verdict;

/// Says how a call ended, by the head of its response, or by the error in its place.
///
/// Every closure with these arguments does, which returns an [`Ending`](damper_core::gate::Ending) or a [`Verdict`]. It names the type of the
/// service's error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge responses of a service whose error is `{E}`",
    note = "a closure has the form `|response: Result<&damper::http::ResponseHead, &{E}>| -> damper::gate::Ending`",
    note = "`Statuses` takes errors that implement `Error`; for those in boxes: `.classify(Statuses::judge_boxed)`"
)]
pub trait ClassifyResponse<E> {
    /// Returns the verdict.
    fn verdict(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict;
}

impl<E, V: Into<Verdict>, F: Fn(Result<&ResponseHead<'_>, &E>) -> V> ClassifyResponse<E> for F {
    #[inline]
    fn verdict(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        self(response).into()
    }
}

/// As [`Statuses::judge_with_grpc`]. For errors in boxes: [`Statuses::judge_boxed`].
impl<E: Error + 'static> ClassifyResponse<E> for Statuses {
    #[inline]
    fn verdict(&self, response: Result<&ResponseHead<'_>, &E>) -> Verdict {
        Self::judge_with_grpc(response.map_err(|error| error as _))
    }
}

impl Statuses {
    /// Returns the same as [`judge_with_grpc`](Self::judge_with_grpc), for a service whose errors are in boxes.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
    /// use damper::concurrency::LimitBounds;
    /// use damper::http::{ConcurrencyLayer, Statuses};
    ///
    /// let layer = ConcurrencyLayer::adaptive(LimitBounds::DEFAULT).classify(Statuses::judge_boxed);
    /// # let _ = layer;
    /// ```
    #[must_use]
    #[expect(clippy::borrowed_box, reason = "the error of a service is the box")]
    pub fn judge_boxed(response: Result<&ResponseHead<'_>, &Box<dyn Error + Send + Sync>>) -> Verdict {
        Self::judge_with_grpc(response.map_err(|error| &**error as _))
    }
}
