//! Which rate limit headers a layer writes.

use crate::limit::Detail;

/// Which responses of a [`RateLimitLayer`](super::RateLimitLayer) carry rate limit headers, and which headers these
/// are.
///
/// | variant | refusals carry | responses to allowed requests carry |
/// |---|---|---|
/// | `OnRefusals` | `RateLimit`, `RateLimit-Policy` | none |
/// | `OnAllResponses` | `RateLimit`, `RateLimit-Policy` | the same |
/// | `OnRefusalsWithX` | these and `X-RateLimit-Limit`, `-Remaining`, `-Reset` | none |
/// | `OnAllResponsesWithX` | these and `X-RateLimit-Limit`, `-Remaining`, `-Reset` | the same |
///
/// To write headers on a response to an allowed request allocates.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::Quota;
/// use damper::http::{Headers, RateLimitLayer};
///
/// let layer = RateLimitLayer::per_client(Quota::per_second(50)).headers(Headers::OnAllResponses);
/// # let _ = layer;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Headers {
    /// Refusals carry `RateLimit` and `RateLimit-Policy`. The default.
    #[default]
    OnRefusals,
    /// All responses carry `RateLimit` and `RateLimit-Policy`.
    OnAllResponses,
    /// Refusals carry `RateLimit`, `RateLimit-Policy` and the `X-RateLimit` headers.
    OnRefusalsWithX,
    /// All responses carry `RateLimit`, `RateLimit-Policy` and the `X-RateLimit` headers.
    OnAllResponsesWithX,
}

impl Headers {
    /// The detail of an allowed request that they need.
    #[inline]
    pub(super) fn detail(self) -> Detail {
        match self {
            Self::OnRefusals | Self::OnRefusalsWithX => Detail::None,
            Self::OnAllResponses | Self::OnAllResponsesWithX => Detail::Standing,
        }
    }

    pub(super) fn include_x(self) -> bool {
        matches!(self, Self::OnRefusalsWithX | Self::OnAllResponsesWithX)
    }
}
