//! The time that a call must be given for its passed deadline to count as a failure of the server.

use super::TimeGiven;
use crate::Head;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::breaker;
use damper_core::deadline::{Deadline, UsualLatency};
use damper_core::gate::Verdict;
use damper_core::store::BoundedStore;
use std::sync::OnceLock;
use std::time::Instant;

/// The shortest time given to a call whose passed deadline counts as a failure of its server.
///
/// | the time | write |
/// |---|---|
/// | a fixed one | a [`Duration`] |
/// | the usual latency of each host, the default | [`MinBudget::usual_per_host()`](Self::usual_per_host) |
/// | the usual latency of all hosts together | [`UsualLatency::new()`](UsualLatency::new), or an `Arc` of it |
/// | the usual latency of hosts, which you keep or set | an `Arc<BoundedStore<String, UsualLatency>>` |
///
/// The usual latency is the [90th percentile](UsualLatency) of a server's successes, taken before its failures began. A call is measured
/// until it has [ended](crate::Completion). The measurement starts anew with each process. While it is unknown, the longest success so far
/// is [enough](UsualLatency::enough_time), and before the first one 0.9 s: a host that hangs from the start of the process counts as failing
/// only for calls with more time, unless you set a fixed time. A call with a deadline, and one that is measured, allocates a small box, and
/// the measurement reads the clock twice.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// use damper::BreakerConfig;
/// use damper::deadline::UsualLatency;
/// use damper::http::{CircuitBreakerLayer, MinBudget};
/// use damper::store::BoundedStore;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let all = CircuitBreakerLayer::per_host(BreakerConfig::default()).min_budget(MinBudget::from(UsualLatency::new()));
/// # let _ = all;
///
/// let layer = CircuitBreakerLayer::per_host(BreakerConfig::default());
/// // One host was measured before a restart. The key is the host and port.
/// let hosts = Arc::new(BoundedStore::new(100)?);
/// let measured = || UsualLatency::new().starting_with(Duration::from_millis(80));
/// hosts.get_or_insert_with("api.example.com:443", measured);
/// let layer = layer.min_budget(Arc::clone(&hosts));
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone)]
pub struct MinBudget(Rule);

#[derive(Clone)]
enum Rule {
    /// That which the gate knows itself.
    OfGate,
    Fixed(Duration),
    OfAll(Arc<UsualLatency>),
    PerHost(Arc<BoundedStore<String, UsualLatency>>),
    /// The store is made for the first call with a deadline.
    FromFirstDeadline(Arc<OnceLock<BoundedStore<String, UsualLatency>>>),
}

impl MinBudget {
    /// Measures the usual latency of each host, for the 1024 most recently called hosts.
    ///
    /// A host has one latency however it is spelled, as it has one breaker in [`PerHost`](crate::PerHost). Clones share their measurements.
    ///
    /// The measurement begins with the first call that has a deadline. A client without deadlines pays nothing for it.
    #[must_use]
    pub fn usual_per_host() -> Self {
        Self(Rule::FromFirstDeadline(Arc::default()))
    }

    /// Takes the latency that the gate of a call [knows](damper_core::gate::Permit::usual_latency), and else 0.9 s.
    pub(crate) const fn of_gate() -> Self {
        Self(Rule::OfGate)
    }

    /// Returns the time that a call is given, which begins now, if it has a deadline or is measured.
    #[inline]
    pub(super) fn given(&self, head: &Head<'_>) -> Option<Box<TimeGiven>> {
        let deadline = head.extensions.get::<Deadline>();
        if deadline.is_none() && !self.is_measuring() { None } else { self.begun(head, deadline) }
    }

    /// Whether calls without a deadline are measured.
    #[inline]
    fn is_measuring(&self) -> bool {
        match &self.0 {
            Rule::OfGate | Rule::Fixed(_) => false,
            Rule::OfAll(_) | Rule::PerHost(_) => true,
            Rule::FromFirstDeadline(hosts) => hosts.get().is_some(),
        }
    }

    /// Begins to measure a call.
    ///
    /// It is not inlined, so that a call without a deadline that nothing measures pays one branch.
    #[cold]
    #[inline(never)]
    fn begun(&self, head: &Head<'_>, deadline: Option<&Deadline>) -> Option<Box<TimeGiven>> {
        let usual = match &self.0 {
            Rule::OfGate => return Some(Box::new(TimeGiven::until(deadline?, None))),
            Rule::Fixed(min_budget) => return Some(Box::new(TimeGiven::until(deadline?, Some(*min_budget)))),
            Rule::OfAll(usual) => Arc::clone(usual),
            Rule::PerHost(hosts) => usual_of(hosts, head),
            Rule::FromFirstDeadline(hosts) => usual_of(hosts.get_or_init(BoundedStore::default), head),
        };
        Some(Box::new(TimeGiven::measured(deadline, MeasuredCall { usual, began: Instant::now() })))
    }
}

fn usual_of(hosts: &BoundedStore<String, UsualLatency>, head: &Head<'_>) -> Arc<UsualLatency> {
    head.with_host(|host| hosts.get_or_insert_with(host, UsualLatency::new))
}

impl From<Duration> for MinBudget {
    fn from(min_budget: Duration) -> Self {
        Self(Rule::Fixed(min_budget))
    }
}

impl From<UsualLatency> for MinBudget {
    fn from(usual: UsualLatency) -> Self {
        Arc::new(usual).into()
    }
}

/// Keep a clone of the `Arc` to inspect the measurement.
impl From<Arc<UsualLatency>> for MinBudget {
    fn from(usual: Arc<UsualLatency>) -> Self {
        Self(Rule::OfAll(usual))
    }
}

/// The keys are hosts in lower case and with their ports, such as `api.example.com:443`.
impl From<Arc<BoundedStore<String, UsualLatency>>> for MinBudget {
    fn from(hosts: Arc<BoundedStore<String, UsualLatency>>) -> Self {
        Self(Rule::PerHost(hosts))
    }
}

impl fmt::Debug for MinBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("MinBudget");
        match &self.0 {
            Rule::Fixed(min_budget) => tuple.field(min_budget).finish(),
            Rule::OfAll(usual) => tuple.field(usual).finish(),
            Rule::OfGate | Rule::PerHost(_) | Rule::FromFirstDeadline(_) => tuple.finish_non_exhaustive(),
        }
    }
}

/// A call whose latency is measured.
#[derive(Debug)]
pub(super) struct MeasuredCall {
    usual: Arc<UsualLatency>,
    began: Instant,
}

impl MeasuredCall {
    /// Returns the time that is enough for the call.
    pub(super) fn enough_time(&self) -> Duration {
        self.usual.enough_time()
    }

    /// Records the end of the call by the verdict on its server.
    pub(super) fn ended(self, verdict: &Verdict) {
        match verdict.into() {
            breaker::Verdict::Success => self.usual.record_success(self.began.elapsed()),
            breaker::Verdict::Ignored => {}
            _ => self.usual.record_failure(),
        }
    }
}
