//! How a call ended, by its response.

use damper_core::gate::Verdict;
use http::{Extensions, HeaderMap, Response, StatusCode, Version};

/// Says how a call ended, by the head of its response, or by the error in its place.
///
/// Every closure with these arguments does, which returns an [`Ending`](damper_core::gate::Ending) or a [`Verdict`]. It names the type of the
/// service's error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge responses of a service whose error is `{E}`",
    note = "a closure has the form `|response: Result<&damper::http::ResponseHead, &{E}>| -> damper::gate::Ending`",
    note = "`Statuses` takes errors that implement `Error`; for those in boxes: `.classify(Statuses::judge_boxed)`, or for all layers \
    `.map_err(damper::BoxedError::from)` between them and the service"
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

/// A response without its body, as [`ClassifyResponse`] judges it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The values that services added to the response.
    pub extensions: &'a Extensions,
}

impl<'a> ResponseHead<'a> {
    /// Borrows the head of a response.
    pub fn of<B>(response: &'a Response<B>) -> Self {
        Self {
            status: response.status(),
            version: response.version(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }
}
