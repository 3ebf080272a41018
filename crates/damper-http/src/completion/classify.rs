//! How a call ended, by its response.

use http::{Extensions, HeaderMap, Response, StatusCode, Version};

/// Judges a call by the head of its response, or by the error in its place.
///
/// | judgement | for |
/// |---|---|
/// | [`Verdict`](damper_core::gate::Verdict): how the call ended | breakers, throttles and limits on the calls in flight |
/// | `Option<`[`Failure`](damper_core::retry::Failure)`>`: whether another attempt may help; `None` for a response that the caller gets | retries and hedges |
///
/// Every closure with these arguments implements it. It names the type of the service's error. Its result may be anything that converts into
/// the judgement, such as an [`Ending`](damper_core::gate::Ending) for a verdict.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge responses of a service whose error is `{E}`",
    label = "this has to return `{T}` for each response and each error",
    note = "a closure has the form `|response: Result<&damper::http::ResponseHead, &{E}>| …` and returns an `Ending` for breakers, \
    throttles and limits, or an `Option<Failure>` for retries and hedges",
    note = "the defaults take errors that implement `Error`; for those in boxes: `.classify(Statuses::judge_boxed)` and \
    `.when(Statuses::failure_boxed)`, or for all layers `.map_err(damper::BoxedError::from)` between them and the service"
)]
pub trait ClassifyResponse<E, T> {
    /// Returns the judgement.
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> T;
}

impl<E, T, V: Into<T>, F: Fn(Result<&ResponseHead<'_>, &E>) -> V> ClassifyResponse<E, T> for F {
    #[inline]
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> T {
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
