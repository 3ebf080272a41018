//! A body that can be sent again.

/// A request body that can be sent again.
///
/// Every body that is `Clone` is one: `Full<Bytes>`, `Empty`, `Bytes`, `String`. So a clone has to yield the same data
/// from the beginning, also after the original was sent.
///
/// A stream yields its data once. A [`BufferedBody`](super::BufferedBody) keeps its data, for a layer that is
/// [`buffering`](super::RetryLayer::buffering). Or implement this for a type of your own that is one or the other, and return
/// `None` for a stream: the layer sends it once.
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
    note = "for streams, wrap `{Self}` in a type of yours and implement `ReplayableBody` for it, with a `try_clone` that returns `None`"
)]
pub trait ReplayableBody: Sized {
    /// Returns a body with the same data from the beginning; `None` if there is no way to send it twice.
    fn try_clone(&self) -> Option<Self>;

    /// Returns the same for an attempt that replaces all others, which need no more data, if that attempt `may_start`. `None`
    /// changes nothing. Default: by [`try_clone`](Self::try_clone).
    ///
    /// `may_start` takes a retry from the budget, so it is called only where the data can be sent again.
    fn restart_if(&self, may_start: impl FnOnce() -> bool) -> Option<Self> {
        let body = self.try_clone()?;
        may_start().then_some(body)
    }

    /// Returns whether the data can still be sent from the beginning, after a part of it was. Default: `true`.
    fn is_replayable(&self) -> bool {
        true
    }
}

impl<B: Clone> ReplayableBody for B {
    fn try_clone(&self) -> Option<Self> {
        Some(self.clone())
    }
}
