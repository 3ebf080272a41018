//! Counts and logs what a limit decides.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

#[cfg(feature = "tracing")]
use super::log_sampler::{LogSampler, Sample, millis};
use crate::Head;
use crate::limit::{Limit, LimitError, Limited};

use alloc::boxed::Box;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use alloc::sync::Arc;
#[cfg(feature = "tracing")]
use core::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "metrics")]
use {
    alloc::borrow::ToOwned,
    alloc::string::ToString,
    alloc::vec::Vec,
    damper_metrics::Metric,
    damper_metrics::catalogue::{LIMIT_ALLOWED, LIMIT_ERRORS, LIMIT_REFUSED},
    metrics::{Counter, Label, counter},
    std::sync::OnceLock,
};

/// The most of a key that is logged, in bytes.
#[cfg(feature = "tracing")]
const LONGEST_KEY: usize = 64;

/// Returns the longest start of a key that is logged, in whole characters.
#[cfg(feature = "tracing")]
fn shortened(key: &str) -> &str {
    let mut end = key.len().min(LONGEST_KEY);
    // `str::floor_char_boundary` needs Rust 1.91.
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    &key[..end]
}

/// Counts and logs what a limit decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitTelemetry {
    /// Looked up at their first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    counters: Arc<OnceLock<LimitCounters>>,
    #[cfg(feature = "tracing")]
    logs: Arc<LimitLogs>,
}

#[cfg(feature = "tracing")]
#[derive(Debug, Default)]
struct LimitLogs {
    refusals: LogSampler,
    candidate_refusals: LogSampler,
    errors: LogSampler,
    /// Requests without the address of their peer.
    missing_peers: AtomicUsize,
}

#[cfg(feature = "metrics")]
#[derive(Debug)]
struct LimitCounters {
    allowed: Counter,
    refused: Counter,
    missing_peers: Counter,
    other_errors: Counter,
}

/// The answer of the limit in force, beside which a candidate decides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InForce {
    Allowed,
    Refused,
}

impl InForce {
    #[cfg(feature = "tracing")]
    const fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
        }
    }
}

impl LimitTelemetry {
    #[cfg(feature = "metrics")]
    fn counters(&self, limit: &str) -> &LimitCounters {
        self.counters.get_or_init(|| {
            let of = |metric: Metric| counter!(metric.name(), "limit" => limit.to_owned());
            let errors =
                |cause: &'static str| counter!(LIMIT_ERRORS.name(), "limit" => limit.to_owned(), "cause" => cause);
            LimitCounters {
                allowed: of(LIMIT_ALLOWED),
                refused: of(LIMIT_REFUSED),
                missing_peers: errors("missing_peer"),
                other_errors: errors("other"),
            }
        })
    }

    /// Counts a refusal, with the tier, the prefix, the level, the dimension and the plan that it has.
    #[cfg(feature = "metrics")]
    fn count_refused(&self, name: &str, limit: &impl Limit, head: &Head<'_>, limited: &Limited) {
        let (tier, prefix) = (limited.tier(), limited.prefix());
        if tier.is_none() && prefix.is_none() && limited.level().is_none() {
            return self.counters(name).refused.increment(1);
        }
        let mut labels = Vec::from([Label::new("limit", name.to_owned())]);
        labels.extend(tier.map(|tier| Label::new("tier", tier.to_string())));
        labels.extend(prefix.map(|prefix| Label::new("prefix", prefix.to_string())));
        labels.extend(limited.level().map(|level| Label::new("level", level)));
        labels.extend(limited.dimension().map(|dimension| Label::new("dimension", dimension)));
        labels.extend(limit.plan(head, limited).map(|plan| Label::new("plan", plan)));
        counter!(LIMIT_REFUSED.name(), labels).increment(1);
    }

    /// Records that a request passes.
    #[inline]
    pub(crate) fn record_allowed(&self, name: &str) {
        #[cfg(feature = "metrics")]
        self.counters(name).allowed.increment(1);
    }

    /// Records that a request is over the limit.
    pub(crate) fn record_refused(&self, name: &str, limit: &impl Limit, head: &Head<'_>, limited: &Limited) {
        #[cfg(feature = "metrics")]
        self.count_refused(name, limit, head, limited);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { key, suppressed }) = self.logs.refusals.sample_key(|| limit.key(head))
        {
            let key = key.as_deref().map(shortened);
            let (method, path) = (head.method.as_str(), head.uri.path());
            let retry_after_ms = limited.retry_after().map(millis);
            let quota = limited.standing().quota;
            let (tier, prefix) = (limited.tier(), limited.prefix().map(tracing::field::display));
            let (level, dimension) = (limited.level(), limited.dimension());
            tracing::debug!(
                target: "damper", limit = name, method, path, key, tier, prefix, level, dimension, retry_after_ms,
                %quota, suppressed, "{limited}"
            );
        }
    }

    /// Records that the limit could not decide on a request.
    pub(crate) fn record_failed(&self, name: &str, error: &LimitError) {
        #[cfg(feature = "metrics")]
        match error {
            LimitError::MissingPeer(_) => self.counters(name).missing_peers.increment(1),
            LimitError::Other(_) => self.counters(name).other_errors.increment(1),
        }
        #[cfg(feature = "tracing")]
        {
            let source = core::error::Error::source(error);
            match error {
                LimitError::MissingPeer(_) => {
                    // ORDERING: Relaxed: a count, through which nothing is published.
                    let requests = self.logs.missing_peers.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
                    // All of them have the same cause: the server's configuration.
                    if requests.is_power_of_two() {
                        tracing::error!(target: "damper", limit = name, error = source, requests, "{error}");
                    }
                }
                LimitError::Other(_) => {
                    if let Some(Sample { suppressed, .. }) = self.logs.errors.sample() {
                        tracing::error!(target: "damper", limit = name, error = source, suppressed, "{error}");
                    }
                }
            }
        }
    }

    /// Logs that a candidate beside the limit would have refused a request.
    pub(crate) fn record_shadow(
        &self,
        name: &str,
        candidate: &(impl Limit + ?Sized),
        head: &Head<'_>,
        in_force: InForce,
        answer: &Result<(), Box<Limited>>,
    ) {
        #[cfg(feature = "tracing")]
        if let Err(limited) = answer
            && tracing::enabled!(target: "damper", tracing::Level::DEBUG)
            && let Some(Sample { key, suppressed }) = self.logs.candidate_refusals.sample_key(|| candidate.key(head))
        {
            let key = key.as_deref().map(shortened);
            let (method, path, in_force) = (head.method.as_str(), head.uri.path(), in_force.label());
            tracing::debug!(target: "damper", shadow = name, in_force, method, path, key, suppressed, "{limited}");
        }
    }
}
