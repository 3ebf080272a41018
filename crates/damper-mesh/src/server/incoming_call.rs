//! The argument of a function.

use crate::deadline::ReceivedDeadline;
use crate::document::Request;
use damper_core::time::{Clock, DefaultClock};
use damper_http::Head;
use serde_json::Value;
use std::fmt;

/// A call that a Mesh service serves: the envelope, the HTTP request's head, and the deadline.
pub struct IncomingCall<C = DefaultClock> {
    pub(super) request: Request,
    pub(super) http: http::Request<()>,
    pub(super) deadline: Option<ReceivedDeadline<C>>,
}

impl<C: Clock + Clone> IncomingCall<C> {
    /// Returns the envelope.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the name of the function.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.request.call.function
    }

    /// Returns the arguments.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.request.call.arguments
    }

    /// Returns the HTTP request's head.
    #[must_use]
    pub fn head(&self) -> Head<'_> {
        Head::of(&self.http)
    }

    /// Returns the deadline of the call, if there is one.
    ///
    /// Pass it to downstream calls with [`Client::call_within`](crate::Client::call_within).
    #[must_use]
    pub fn deadline(&self) -> Option<&ReceivedDeadline<C>> {
        self.deadline.as_ref()
    }
}

impl<C: Clock> fmt::Debug for IncomingCall<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingCall")
            .field("request", &self.request)
            .field("http", &self.http)
            .field("deadline", &self.deadline)
            .finish()
    }
}
