//! The errors of building a limiter, and of asking the server.

use core::error::Error;
use core::fmt;
use core::time::Duration;
use damper_core::{OutOfRange, Quota};
use std::sync::Arc;

/// The error of building a limiter.
#[derive(Clone)]
#[non_exhaustive]
pub enum RedisLimiterError {
    /// An address is not a URL of Redis.
    Url {
        /// The address, without anything that can be a password.
        url: String,
        /// The reason, if more is known than that the URL is invalid.
        reason: Option<String>,
    },
    /// An address asks for TLS, and the feature `tls` is not enabled.
    Tls {
        /// The address, without anything that can be a password.
        url: String,
    },
    /// An address ends with `#insecure`, which would accept any certificate.
    Insecure {
        /// The address, without anything that can be a password.
        url: String,
    },
    /// Certificates were set, and an address does not ask for TLS.
    ///
    /// Such a connection would not be encrypted.
    WithoutTls {
        /// The address, without anything that can be a password.
        url: String,
    },
    /// A certificate or a key cannot be used.
    Certificate {
        /// The setting's name, as the builder has it.
        setting: &'static str,
        /// The reason, without a part of the certificate or the key.
        reason: String,
    },
    /// A cluster has no address.
    NoAddress,
    /// The name is empty, or longer than 64 bytes.
    Name {
        /// The name.
        name: String,
    },
    /// No quota was given.
    NoQuota,
    /// More than eight quotas were given.
    TooManyQuotas {
        /// How many were given.
        quotas: usize,
    },
    /// Quotas were set for limits whose quota comes with each call, as a plan.
    QuotaWithPlans {
        /// How many were set.
        quotas: usize,
    },
    /// Two levels or two dimensions of a tree have the same name.
    SameName {
        /// The name.
        name: &'static str,
    },
    /// The server cannot compute a quota exactly.
    Quota {
        /// The number of the quota, from 0.
        index: usize,
        /// The quota.
        quota: Quota,
        /// The reason.
        source: OutOfRange,
    },
    /// A setting is out of its range.
    OutOfRange(OutOfRange),
    /// The server evicts keys under this policy, so that limits would be forgotten.
    ///
    /// [`accept_eviction`](crate::RedisLimiterBuilder::accept_eviction) accepts it.
    Eviction {
        /// The value of `maxmemory-policy`.
        policy: String,
    },
    /// A server answered with an error that another attempt would meet again.
    ///
    /// It does not accept the password, it has no such database, or the user lacks a permission, for example to run scripts or for
    /// the keys that begin with `damper:`.
    Refused {
        /// The address of the server, or those of a cluster.
        server: String,
        /// The error.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A server and this program do not agree on an encrypted connection.
    ///
    /// One does not accept the other's certificate, or the server does not speak TLS. Another attempt would meet the same error.
    Handshake {
        /// The address of the server, or those of a cluster.
        server: String,
        /// The error.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// No attempt to connect succeeded in time.
    Unreachable {
        /// The address of the server, or those of a cluster.
        server: String,
        /// The time spent on attempts.
        within: Duration,
        /// The error of the last attempt.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// There is no runtime of tokio to connect on.
    NoRuntime,
}

impl fmt::Display for RedisLimiterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, reason } => {
                write!(f, "{url:?} is no URL of Redis, such as redis://host:6379/0 or unix:/path")?;
                reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
            }
            Self::Tls { url } => {
                write!(f, "{url:?} needs TLS: enable the feature tls of damper-redis, or redis-tls of damper")
            }
            Self::Insecure { url } => write!(
                f,
                "{url:?} would accept any certificate: \
                 set the root of the server's with root_certificates() instead of #insecure"
            ),
            Self::WithoutTls { url } => {
                write!(f, "{url:?} connects without TLS, and certificates are set: use rediss:// or valkeys://")
            }
            Self::Certificate { setting, reason } => write!(f, "{setting}: {reason}"),
            Self::NoAddress => f.write_str("a cluster needs at least one address"),
            Self::Name { name } => write!(f, "name {name:?} must have 1 to 64 bytes"),
            Self::NoQuota => f.write_str("a limiter needs a quota"),
            Self::TooManyQuotas { quotas } => write!(f, "{quotas} quotas exceed the maximum 8"),
            Self::QuotaWithPlans { quotas } => {
                write!(
                    f,
                    "{quotas} quotas are set for limits by plan, whose quotas come with the calls; leave out quota()"
                )
            }
            Self::SameName { name } => write!(f, "name {name:?} occurs twice, each level and dimension needs its own"),
            Self::Quota { index, quota, source } => write!(f, "quota {index}, {quota}, does not fit: {source}"),
            Self::OutOfRange(error) => error.fmt(f),
            Self::Eviction { policy } => {
                write!(
                    f,
                    "maxmemory-policy {policy} evicts limits; set noeviction, or accept it with accept_eviction()"
                )
            }
            Self::Refused { server, source }
            | Self::Handshake { server, source }
            | Self::Unreachable { server, source, .. } => {
                write!(f, "cannot connect to {server}: {source}")
            }
            Self::NoRuntime => f.write_str("a limiter connects on a runtime of tokio, and there is none"),
        }
    }
}

impl From<OutOfRange> for RedisLimiterError {
    fn from(error: OutOfRange) -> Self {
        Self::OutOfRange(error)
    }
}

damper_core::internal::debug_by_display!(RedisLimiterError);

impl Error for RedisLimiterError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Quota { source, .. } => Some(source),
            Self::Refused { source, .. } | Self::Handshake { source, .. } | Self::Unreachable { source, .. } => {
                Some(&**source)
            }
            _ => None,
        }
    }
}

/// The error of a call that the server did not answer.
///
/// Checks never return it: the [policy](crate::WhenDown) decides them.
#[derive(Clone)]
#[non_exhaustive]
pub enum Unavailable {
    /// There is no connection yet.
    NotConnected,
    /// Calls have failed, so no call is made until the next probe.
    BreakerOpen,
    /// No answer came before the deadline.
    TimedOut {
        /// The deadline of a call.
        deadline: Duration,
    },
    /// The server, or the connection to it, reported an error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// There is no runtime of tokio.
    NoRuntime,
}

impl Unavailable {
    /// Returns whether the server may have executed the command.
    pub(crate) fn was_sent(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Failed(_) => true,
            Self::NotConnected | Self::BreakerOpen | Self::NoRuntime => false,
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected => f.write_str("not connected to the server"),
            Self::BreakerOpen => f.write_str("the server has failed, and is not asked until the next probe"),
            Self::TimedOut { deadline } => write!(f, "the server did not answer within {deadline:?}"),
            Self::Failed(error) => write!(f, "the server failed: {error}"),
            Self::NoRuntime => f.write_str("a call needs a runtime of tokio, and there is none"),
        }
    }
}

damper_core::internal::debug_by_display!(Unavailable);

impl Error for Unavailable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(error) => Some(&**error),
            _ => None,
        }
    }
}
