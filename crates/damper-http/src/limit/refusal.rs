//! Why a request may not pass.

use super::{Prefix, Standing};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;
use core::time::Duration;
use damper_core::gate::{self, NotSent, RefusalKind};
use damper_core::internal::Human;
use damper_core::keyed::TreeDenied;
use damper_core::limit::Denied;
use damper_core::quota::Quota;

/// Why a request may not pass.
#[derive(Clone)]
#[non_exhaustive]
pub enum Refusal {
    /// The request is over the limit.
    Limited(Limited),
    /// The limit is per client address, and the request does not tell its peer's: see [`Head::peer`](crate::Head::peer).
    ///
    /// The request gets `500 Internal Server Error`. The [source](Error::source) of this refusal is a sentence that says what the server has
    /// to add. It goes where the reason of [`Failed`](Self::Failed) goes, and the client does not see it.
    MissingPeer,
    /// The limit could not decide, for this reason. The request gets `500 Internal Server Error`.
    ///
    /// The client learns no more than that. The reason goes to the layer's [`on_error`](crate::RateLimitLayer::on_error), and to metrics
    /// and logs as the docs of [`damper::http`](crate) say.
    Failed(Arc<dyn Error + Send + Sync>),
}

impl Refusal {
    /// Creates the refusal of a limit that could not decide, for this reason.
    pub fn failed(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(reason.into().into())
    }
}

impl From<Limited> for Refusal {
    fn from(limited: Limited) -> Self {
        Self::Limited(limited)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(limited) => limited.fmt(f),
            Self::MissingPeer | Self::Failed(_) => f.write_str("the rate limit could not decide"),
        }
    }
}

damper_core::internal::debug_by_display!(Refusal, with sources);

/// Its source is [`NotSent`], or why the limit could not decide.
impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Limited(_) => Some(&NotSent),
            Self::MissingPeer => Some(&WithoutPeer),
            Self::Failed(reason) => Some(&**reason),
        }
    }
}

/// The source of [`Refusal::MissingPeer`].
struct WithoutPeer;

impl fmt::Display for WithoutPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a limit per client address, and the request does not tell its peer's: with axum, serve \
             into_make_service_with_connect_info::<SocketAddr>() (and have damper's feature axum); with hyper, make \
             the service with for_peer(address); with tonic, serve TCP (and have damper's feature tonic); else, add \
             damper::http::PeerAddress to the request's extensions",
        )
    }
}

damper_core::internal::debug_by_display!(WithoutPeer);

impl Error for WithoutPeer {}

impl gate::Refusal for Refusal {
    fn kind(&self) -> RefusalKind {
        match self {
            Self::Limited(_) => RefusalKind::OverLimit,
            Self::MissingPeer | Self::Failed(_) => RefusalKind::Failed,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limited(limited) => limited.retry_after,
            Self::MissingPeer | Self::Failed(_) => None,
        }
    }

    fn standing(&self) -> Option<Standing> {
        match self {
            Self::Limited(limited) => Some(limited.standing),
            Self::MissingPeer | Self::Failed(_) => None,
        }
    }
}

/// The refusal of a request over the limit. Displayed as `rate limit exceeded, retry in 1.2 s`.
///
/// The limit of a tree is named before: `tokens of this user: rate limit exceeded, retry in 1.2 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    retry_after: Option<Duration>,
    standing: Standing,
    // There are at most sixteen.
    tier: Option<u8>,
    part: Option<u8>,
    prefix: Option<Prefix>,
    /// The names of the level and of the dimension.
    of_tree: Option<[&'static str; 2]>,
}

impl Limited {
    /// Creates a refusal with this wait; `None` if no wait helps.
    #[must_use]
    pub fn new(retry_after: Option<Duration>, standing: Standing) -> Self {
        Self { retry_after, standing, tier: None, part: None, prefix: None, of_tree: None }
    }

    /// Returns the shortest wait after which the request could pass; `None` if no wait helps.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the standing of the limit.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns the number of the key's tier; `None` if the limit has no tiers.
    ///
    /// Logs and the counter of refusals have this number. Gauges of an exporter have the tier's name, if it was given names.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.tier.map(usize::from)
    }

    /// Returns the number of the limit that refused, in the order of its set; `None` if the limit is no set.
    ///
    /// Logs, the counter of refusals and gauges have this number.
    #[must_use]
    pub fn part(&self) -> Option<usize> {
        self.part.map(usize::from)
    }

    /// Returns the prefix whose limit refused, displayed as `ipv6/48`; `None` if it was the client's own limit.
    #[must_use]
    pub fn prefix(&self) -> Option<impl fmt::Display + use<>> {
        self.prefix
    }

    /// Returns the name of the level that refused; `None` if the limit is no tree.
    #[must_use]
    pub const fn level(&self) -> Option<&'static str> {
        match self.of_tree {
            Some([level, _]) => Some(level),
            None => None,
        }
    }

    /// Returns the name of the dimension that refused; `None` if the limit is no tree.
    #[must_use]
    pub const fn dimension(&self) -> Option<&'static str> {
        match self.of_tree {
            Some([_, dimension]) => Some(dimension),
            None => None,
        }
    }

    pub(super) fn in_tier(self, tier: usize) -> Self {
        Self { tier: u8::try_from(tier).ok(), ..self }
    }

    pub(super) fn of_part(self, part: usize) -> Self {
        Self { part: u8::try_from(part).ok(), ..self }
    }

    pub(super) fn of_prefix(self, prefix: Option<Prefix>) -> Self {
        Self { prefix, ..self }
    }

    /// Creates the refusal of a limiter with this quota.
    #[must_use]
    pub fn by(denied: Denied, quota: Quota) -> Self {
        Self::new(denied.retry_after(), Standing::new(quota, denied.remaining(), denied.resets_in()))
    }

    /// Creates the refusal of a tree, by the level and the dimension with the longest wait.
    #[must_use]
    pub fn by_tree(denied: &TreeDenied) -> Self {
        let of_tree = Some([denied.level_name(), denied.dimension_name()]);
        Self { of_tree, ..Self::by(denied.denied(), denied.quota()) }
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some([level, dimension]) = self.of_tree {
            write!(f, "{dimension} of this {level}: ")?;
        }
        match self.retry_after {
            Some(wait) => write!(f, "rate limit exceeded, retry in {}", Human(wait)),
            None => f.write_str("rate limit exceeded, and no wait helps"),
        }
    }
}
