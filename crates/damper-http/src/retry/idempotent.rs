//! The caller's mark that a request may be sent again.

/// Marks a request as safe to be sent twice, although its method is not idempotent.
///
/// Put it into the request's extensions.
///
/// GET, HEAD, OPTIONS, TRACE, PUT and DELETE need no mark. Mark a POST if it only reads, or if the server recognizes a duplicate, for
/// example by an idempotency key.
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
