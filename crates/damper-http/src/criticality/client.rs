//! The client's layer of classes: passes on the class and the tenant of a request.

use super::{CallClass, ClassHeaders};
use crate::rewrite::{Rewrite, RewriteService};
use http::{Extensions, Request};

/// Sends the class and the tenant of each call to the server.
///
/// They are those of the [`CallClass`] in the request's extensions, where a server's handler puts the one of the request that it serves. They
/// replace headers of these names. Every attempt of a retry and of a hedge has them.
///
/// A request without a [`CallClass`] is sent as it is, or with the [default](Self::default_class).
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// # #[cfg(all(feature = "hyper", feature = "tokio"))] {
/// use damper::Deadline;
/// use damper::http::{CallClass, ClassHeaders, client_stack};
/// use http::{HeaderName, Request};
/// use http_body_util::Empty;
/// use hyper_util::{client::legacy::Client, rt::TokioExecutor};
/// use std::time::Duration;
/// use tower::{Service, ServiceExt};
///
/// const CLASS: HeaderName = HeaderName::from_static("x-criticality");
///
/// # async fn run(deadline: Deadline, class: CallClass) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut client = client_stack()
///     .criticality(ClassHeaders::new(CLASS))
///     .deadline(Duration::from_secs(2))
///     .service(Client::builder(TokioExecutor::new()).build_http());
///
/// // The deadline and the class of the request that is being served.
/// let request = Request::get("http://localhost/").extension(deadline).extension(class).body(Empty::<bytes::Bytes>::new())?;
/// let response = client.ready().await?.call(request).await?;
/// # let _ = response;
/// # Ok(())
/// # }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClientCriticalityLayer {
    headers: ClassHeaders,
    default_class: Option<CallClass>,
}

impl ClientCriticalityLayer {
    /// Creates a layer that passes on the classes of requests.
    #[must_use]
    pub const fn new(headers: ClassHeaders) -> Self {
        Self { headers, default_class: None }
    }

    /// Sets the class of calls that belong to no request, such as those of a batch. Default: none is sent.
    #[must_use]
    pub fn default_class(self, class: CallClass) -> Self {
        Self { default_class: Some(class), ..self }
    }

    /// Sends classes with the calls of a service.
    pub fn layer<T>(&self, service: T) -> RewriteService<T, Self> {
        RewriteService::new(service, self.clone())
    }
}

impl From<ClassHeaders> for ClientCriticalityLayer {
    fn from(headers: ClassHeaders) -> Self {
        Self::new(headers)
    }
}

impl ClientCriticalityLayer {
    /// Returns the class that a call is sent with, if any.
    pub(crate) fn class_of(&self, extensions: &Extensions) -> Option<CallClass> {
        extensions.get().or(self.default_class.as_ref()).cloned()
    }
}

impl Rewrite for ClientCriticalityLayer {
    fn rewrite<B>(&self, request: &mut Request<B>) {
        if let Some(class) = self.class_of(request.extensions()) {
            self.headers.write(request.headers_mut(), &class);
        }
    }
}

impl<T> tower_layer::Layer<T> for ClientCriticalityLayer {
    type Service = RewriteService<T, Self>;

    fn layer(&self, service: T) -> Self::Service {
        self.layer(service)
    }
}
