//! The place of an HTTP request's deadline.

use super::SentTimeout;
use crate::Head;
use core::time::Duration;
use damper_core::Reads;
use damper_core::deadline::Deadline;
use http::{Extensions, Request};

/// Finds the deadline of a request in its extensions, where [`ClientDeadlineLayer`](crate::ClientDeadlineLayer) puts it.
///
/// With it, a layer of [`tower`](damper_tower) knows how long a request may wait. The margin of a client's layer is
/// not a part of that time.
///
/// # Examples
///
/// A call whose token comes after its deadline is refused at once:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_tower as tower; }
/// # #[cfg(feature = "tokio")] {
/// use damper::http::{RequestDeadline, client_stack};
/// use damper::tower::GateLayer;
/// use damper::{Quota, RateLimiter};
/// use std::time::Duration;
///
/// static LIMIT: RateLimiter = RateLimiter::new(Quota::per_second(100));
///
/// let limit = GateLayer::limit(&LIMIT).waiting(Duration::from_secs(10)).time_left(RequestDeadline);
/// let stack = client_stack().deadline(Duration::from_secs(2)).limit_layer(limit);
/// # let _ = stack;
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestDeadline;

impl<B> Reads<Request<B>, Option<Duration>> for RequestDeadline {
    #[inline]
    fn read_from(&self, request: &Request<B>) -> Option<Duration> {
        time_left(request.extensions())
    }
}

impl Reads<Head<'_>, Option<Duration>> for RequestDeadline {
    #[inline]
    fn read_from(&self, head: &Head<'_>) -> Option<Duration> {
        time_left(head.extensions)
    }
}

/// Returns the time left of a request. At a client, the margin is not a part of it.
#[inline]
fn time_left(extensions: &Extensions) -> Option<Duration> {
    let deadline = extensions.get::<Deadline>()?;
    Some(deadline.remaining().min(SentTimeout::left_in(extensions)))
}
