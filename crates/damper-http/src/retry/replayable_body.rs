//! A body that can be sent again.

/// A request body that can be sent again.
///
/// Every body that is `Clone` is one: `Full<Bytes>`, `Empty`, `Bytes`, `String`. So a clone must yield the same data from the beginning,
/// even after the original was sent.
///
/// A stream yields its data once. A [`BufferedBody`](super::BufferedBody) keeps its data, for a layer that is
/// [`buffering`](super::RetryLayer::buffering). Or implement this trait for a type of your own that may be a stream, and return `None` for
/// a stream: the layer then sends it once.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use bytes::Bytes;
/// use damper::http::ReplayableBody;
/// use http_body_util::{Full, combinators::BoxBody};
///
/// enum Upload {
///     Text(Full<Bytes>),
///     Stream(BoxBody<Bytes, std::io::Error>),
/// }
///
/// impl ReplayableBody for Upload {
///     fn try_clone(&self) -> Option<Self> {
///         match self {
///             Self::Text(text) => Some(Self::Text(text.clone())),
///             Self::Stream(_) => None,
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a request with a body of type `{Self}` cannot be sent again",
    note = "bodies that are `Clone` can be: `Full<Bytes>`, `Empty`, `Bytes`, `String`",
    note = "a stream that is `Unpin` can be kept while it is sent: `RetryLayer::new(…).buffering(64 * 1024)`, in a stack by `retry_layer`",
    note = "to send streams once, wrap `{Self}` in a type of yours and implement `ReplayableBody`, with a `try_clone` that returns `None`"
)]
pub trait ReplayableBody: Sized {
    /// Returns a body with the same data from the beginning, or `None` if it cannot be sent twice.
    fn try_clone(&self) -> Option<Self>;

    /// Returns a body for an attempt that replaces all others, if `may_start` returns `true`.
    ///
    /// The other attempts need no more data then. A result of `None` changes nothing. Default: uses [`try_clone`](Self::try_clone).
    ///
    /// `may_start` takes a retry from the budget, so it is called only if the data can be sent again.
    fn restart_if(&self, may_start: impl FnOnce() -> bool) -> Option<Self> {
        let body = self.try_clone()?;
        may_start().then_some(body)
    }

    /// Returns whether the data can be sent again after a part of it was sent. Default: `true`.
    fn is_replayable(&self) -> bool {
        true
    }
}

#[diagnostic::do_not_recommend]
impl<B: Clone> ReplayableBody for B {
    fn try_clone(&self) -> Option<Self> {
        Some(self.clone())
    }
}
