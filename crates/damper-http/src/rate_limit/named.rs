//! The name of a service behind a limit, by which tonic finds it.

use crate::RateLimit;
use tonic::server::NamedService;

/// That of the service.
impl<S: NamedService, L> NamedService for RateLimit<S, L> {
    const NAME: &'static str = S::NAME;
}
