//! The caller's mark that a request may be sent again.

/// Marks a request as safe to be sent twice, although its method is not idempotent: put it into the request's extensions.
///
/// GET, HEAD, OPTIONS, TRACE, PUT and DELETE need no mark. Mark a POST if the server recognizes the second one, by an
/// idempotency key say, or if it only reads.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::Idempotent;
/// use http::Request;
///
/// let request = Request::post("http://localhost/search").extension(Idempotent).body("a query")?;
/// # let _ = request;
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Idempotent;
