//! A limit as an interceptor.

use crate::IntoStatus;
use core::fmt;
use damper_http::{Limit, NoWait, RateLimitLayer, internal};
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// A limit as an interceptor of tonic, for servers that have one for each service.
///
/// It refuses a request with the same status as the layer.
///
/// It shares the limit, the exemptions and the callbacks of the [`RateLimitLayer`] that it is made of. tonic does not
/// pass the method to an interceptor, so the path of every request is `/`. For limits and exemptions by method, use the
/// layer.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
/// use damper::Quota;
/// use damper::http::RateLimitLayer;
/// use damper::tonic::RateLimitInterceptor;
/// use tonic::{Code, Request, service::Interceptor};
///
/// let limit = RateLimitLayer::global(Quota::per_second(50).burst(1));
/// let mut interceptor = RateLimitInterceptor::new(&limit); // GreeterServer::with_interceptor(greeter, interceptor)
/// assert!(interceptor.call(Request::new(())).is_ok());
/// assert_eq!(interceptor.call(Request::new(())).unwrap_err().code(), Code::ResourceExhausted);
/// ```
pub struct RateLimitInterceptor<L> {
    layer: RateLimitLayer<L>,
}

impl<L: Limit<Future = NoWait>> RateLimitInterceptor<L> {
    /// Creates an interceptor with the limit of this layer.
    #[must_use]
    pub fn new(layer: &RateLimitLayer<L>) -> Self {
        Self { layer: layer.clone() }
    }
}

impl<L: Limit<Future = NoWait>> Interceptor for RateLimitInterceptor<L> {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let (metadata, extensions, ()) = request.into_parts();
        let mut request = http::Request::new(());
        *request.method_mut() = http::Method::POST;
        *request.headers_mut() = metadata.into_headers();
        *request.extensions_mut() = extensions;
        if let Some(refusal) = internal::ask_limit(&self.layer, &request) {
            return Err(refusal.into_status());
        }
        let (parts, ()) = request.into_parts();
        Ok(Request::from_parts(MetadataMap::from_headers(parts.headers), parts.extensions, ()))
    }
}

/// Clones share the limit.
impl<L> Clone for RateLimitInterceptor<L> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone() }
    }
}

impl<L: fmt::Debug> fmt::Debug for RateLimitInterceptor<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitInterceptor").field("layer", &self.layer).finish()
    }
}
