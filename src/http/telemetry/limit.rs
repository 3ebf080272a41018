//! Counts and logs what a limit decides.
#![cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables, clippy::unused_self))]

use crate::http::Head;
use crate::http::limit::{Limit, LimitError, Limited};

#[cfg(feature = "metrics")]
use {
    alloc::borrow::ToOwned,
    alloc::sync::Arc,
    metrics::{Counter, counter},
    std::sync::OnceLock,
};

/// The most of a key that is logged, in bytes.
#[cfg(feature = "tracing")]
const LONGEST_KEY: usize = 64;

/// Counts and logs what a limit decides.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct LimitTelemetry {
    /// Looked up when they are first needed, for until then there may be no recorder.
    #[cfg(feature = "metrics")]
    counters: Arc<OnceLock<Counters>>,
}

#[cfg(feature = "metrics")]
#[derive(Debug)]
struct Counters {
    allowed: Counter,
    refused: Counter,
    errors: Counter,
    evictions: Counter,
}

impl LimitTelemetry {
    #[cfg(feature = "metrics")]
    fn counters(&self, limit: &str) -> &Counters {
        self.counters.get_or_init(|| {
            let of = |name: &'static str| counter!(name, "limit" => limit.to_owned());
            Counters {
                allowed: of("damper_allowed_total"),
                refused: of("damper_refused_total"),
                errors: of("damper_errors_total"),
                evictions: of("damper_evictions_total"),
            }
        })
    }

    /// A request passes.
    #[inline]
    pub(in crate::http) fn allowed(&self, name: &str, limit: &impl Limit) {
        #[cfg(feature = "metrics")]
        {
            let counters = self.counters(name);
            counters.allowed.increment(1);
            counters.evictions.absolute(limit.evictions());
        }
    }

    /// A request is over the limit.
    pub(in crate::http) fn refused(&self, name: &str, limit: &impl Limit, head: &Head<'_>, limited: &Limited) {
        #[cfg(feature = "metrics")]
        {
            let counters = self.counters(name);
            counters.refused.increment(1);
            counters.evictions.absolute(limit.evictions());
        }
        #[cfg(feature = "tracing")]
        if tracing::enabled!(target: "damper", tracing::Level::DEBUG) {
            let key = limit.key(head);
            let key = key.as_deref().map(|key| &key[..key.floor_char_boundary(LONGEST_KEY)]);
            let (method, path) = (head.method.as_str(), head.uri.path());
            tracing::debug!(target: "damper", limit = name, method, path, key, "{limited}");
        }
    }

    /// Nothing can be decided on a request.
    pub(in crate::http) fn failed(&self, name: &str, error: &LimitError) {
        #[cfg(feature = "metrics")]
        self.counters(name).errors.increment(1);
        #[cfg(feature = "tracing")]
        tracing::error!(target: "damper", limit = name, error = core::error::Error::source(error), "{error}");
    }
}
