//! Counts and logs what a limit decides.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

use crate::Head;
use crate::limit::{Limit, LimitError, Limited};

#[cfg(any(feature = "metrics", feature = "tracing"))]
use alloc::sync::Arc;
#[cfg(feature = "tracing")]
use core::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "metrics")]
use {
    crate::limit::KeyedStatus,
    alloc::borrow::ToOwned,
    alloc::vec::Vec,
    core::iter,
    metrics::{Counter, Label, counter, gauge},
    std::sync::OnceLock,
};

/// The most of a key that is logged, in bytes.
#[cfg(feature = "tracing")]
const LONGEST_KEY: usize = 64;

/// Counts and logs what a limit decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitTelemetry {
    /// Looked up at their first use, because until then no recorder may be installed.
    #[cfg(feature = "metrics")]
    counters: Arc<OnceLock<LimitCounters>>,
    /// Requests without the address of their peer.
    #[cfg(feature = "tracing")]
    missing_peers: Arc<AtomicUsize>,
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
    #[cfg(any(feature = "metrics", feature = "tracing"))]
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
            let of = |name: &'static str| counter!(name, "limit" => limit.to_owned());
            let errors =
                |cause: &'static str| counter!("damper_errors_total", "limit" => limit.to_owned(), "cause" => cause);
            LimitCounters {
                allowed: of("damper_allowed_total"),
                refused: of("damper_refused_total"),
                missing_peers: errors("missing_peer"),
                other_errors: errors("other"),
            }
        })
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
        self.counters(name).refused.increment(1);
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG) {
            let key = limit.key(head);
            let key = key.as_deref().map(|key| &key[..key.floor_char_boundary(LONGEST_KEY)]);
            let (method, path) = (head.method.as_str(), head.uri.path());
            tracing::debug!(target: "damper", limit = name, method, path, key, "{limited}");
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
                    let requests = self.missing_peers.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
                    // All of them have the same cause: the server's configuration.
                    if requests.is_power_of_two() {
                        tracing::error!(target: "damper", limit = name, error = source, requests, "{error}");
                    }
                }
                LimitError::Other(_) => tracing::error!(target: "damper", limit = name, error = source, "{error}"),
            }
        }
    }

    /// Records the answers of the limit in force and of a candidate beside it, where either refused.
    pub(crate) fn record_shadow(
        name: &str,
        candidate: &(impl Limit + ?Sized),
        head: &Head<'_>,
        in_force: InForce,
        answer: &Result<(), Limited>,
    ) {
        #[cfg(feature = "metrics")]
        {
            let metric = match (in_force, answer) {
                (InForce::Allowed, Ok(())) => return,
                (InForce::Refused, Ok(())) => "damper_shadow_allowed_total",
                (_, Err(_)) => "damper_shadow_refused_total",
            };
            counter!(metric, "limit" => name.to_owned(), "in_force" => in_force.label()).increment(1);
        }
        #[cfg(feature = "tracing")]
        if let Err(limited) = answer
            && tracing::enabled!(target: "damper", tracing::Level::DEBUG)
        {
            let key = candidate.key(head);
            let key = key.as_deref().map(|key| &key[..key.floor_char_boundary(LONGEST_KEY)]);
            let (method, path, in_force) = (head.method.as_str(), head.uri.path(), in_force.label());
            tracing::debug!(target: "damper", shadow = name, in_force, method, path, key, "{limited}");
        }
    }

    /// Records what the limits per key of the layer of this name hold and have counted.
    #[cfg(feature = "metrics")]
    #[expect(clippy::cast_precision_loss, reason = "a table has at most 2^28 keys")]
    pub(crate) fn record_keyed(name: &str, limits: Vec<KeyedStatus>) {
        for KeyedStatus { prefix, keys, capacity, evictions, overflows, refused_newcomers } in limits {
            let labels = || {
                let prefix = prefix.iter().map(|prefix| Label::new("prefix", prefix.clone()));
                iter::once(Label::new("limit", name.to_owned())).chain(prefix).collect::<Vec<_>>()
            };
            gauge!("damper_keys", labels()).set(keys as f64);
            gauge!("damper_keys_capacity", labels()).set(capacity as f64);
            counter!("damper_evictions_total", labels()).absolute(evictions);
            counter!("damper_overflows_total", labels()).absolute(overflows);
            counter!("damper_refused_newcomers_total", labels()).absolute(refused_newcomers);
        }
    }
}
