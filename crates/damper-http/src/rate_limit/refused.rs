//! The mark of responses that a layer made.

use http::{Extensions, Response};

/// Marks a response that a layer of damper made in place of the service.
///
/// It is in the [extensions](Response::extensions) of the response.
///
/// The layers of a server mark their refusals: [`RateLimitLayer`](crate::RateLimitLayer), [`ConcurrencyLayer`](crate::ConcurrencyLayer),
/// [`AdmissionLayer`](crate::AdmissionLayer), and [`DeadlineLayer`](crate::DeadlineLayer) where a request arrives after its deadline. The
/// service was not called, so the response says nothing about its load, whatever the status: see [`Statuses`](crate::Statuses).
/// Extensions stay in the process, so clients never see it.
///
/// # Examples
///
/// A middleware outside that counts the errors of the service only:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::Refused;
/// use http::Response;
///
/// fn is_error_of_the_service<B>(response: &Response<B>) -> bool {
///     response.status().is_server_error() && !Refused::is_in(response.extensions())
/// }
/// # let mut response = Response::new(());
/// # *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
/// # assert!(is_error_of_the_service(&response));
/// # response.extensions_mut().insert(Refused);
/// # assert!(!is_error_of_the_service(&response));
/// ```
///
/// A layer of your own that refuses requests can insert it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refused;

impl Refused {
    /// Returns whether these extensions of a response have the mark.
    #[must_use]
    pub fn is_in(extensions: &Extensions) -> bool {
        extensions.get::<Self>().is_some()
    }

    /// Marks a response.
    pub(crate) fn mark<B>(mut response: Response<B>) -> Response<B> {
        response.extensions_mut().insert(Self);
        response
    }
}
