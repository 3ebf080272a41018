//! The exporter.

use crate::catalogue;
use crate::readings::Readings;
use crate::source::{NamedSource, Source};
use std::fmt;
use std::sync::Once;

/// Reads registered limiters, breakers and others, for the recorder of the crate `metrics`.
///
/// Nothing is read until [`record`](Self::record) is called: on a scrape, or at an interval. No decision of a limiter or breaker
/// depends on it.
///
/// Sources of one kind with the same name overwrite one another's values.
///
/// # Examples
///
/// ```
/// use damper_core::{CircuitBreaker, KeyedLimiter, Quota, RateLimiter, RetryBudget};
/// use damper_metrics::Exporter;
/// use std::sync::{Arc, LazyLock};
///
/// static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
/// static PAYMENTS: LazyLock<CircuitBreaker> = LazyLock::new(CircuitBreaker::default);
/// static BUDGET: RetryBudget = RetryBudget::DEFAULT;
///
/// let users = KeyedLimiter::<str>::builder(Quota::per_second(5)).tiers([Quota::per_second(50)], |user| {
///     usize::from(user.starts_with("paying:"))
/// });
/// let users = Arc::new(users.build()?);
/// let exporter = Exporter::new()
///     .register("logins", &LOGINS)
///     .register("payments", &*PAYMENTS)
///     .register("payments", &BUDGET)
///     .register("users", Arc::clone(&users))
///     .tiers(["free", "paying"]);
///
/// exporter.record(); // then render what the recorder has
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
#[must_use = "an exporter does nothing until `record` is called"]
pub struct Exporter {
    sources: Vec<Registered>,
    described: DescribeOnce,
}

struct Registered {
    source: Box<dyn ReadNamed + Send + Sync>,
    /// The names of its tiers.
    tiers: Vec<String>,
}

/// A source and its name.
trait ReadNamed {
    fn read_named(&self, tiers: &[String]);
}

/// A source that was given a name.
struct Given<S> {
    name: String,
    source: S,
}

impl<S: Source> ReadNamed for Given<S> {
    fn read_named(&self, tiers: &[String]) {
        self.source.read(&Readings::new(&self.name, tiers));
    }
}

/// A source with a name of its own.
struct Own<S>(S);

impl<S: NamedSource> ReadNamed for Own<S> {
    fn read_named(&self, tiers: &[String]) {
        self.0.read(&Readings::new(self.0.name(), tiers));
    }
}

#[derive(Debug)]
struct DescribeOnce(Once);

impl Default for DescribeOnce {
    fn default() -> Self {
        Self(Once::new())
    }
}

impl Exporter {
    /// Creates an exporter without sources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source under a name, which the first label of its metrics holds.
    pub fn register(self, name: &str, source: impl Source + Send + Sync + 'static) -> Self {
        self.with(Given { name: name.to_owned(), source })
    }

    /// Adds a source under its own name, such as a layer that has been named.
    ///
    /// The values are then under the same name as the requests that the layer counts.
    pub fn layer(self, layer: impl NamedSource + Send + Sync + 'static) -> Self {
        self.with(Own(layer))
    }

    fn with(mut self, source: impl ReadNamed + Send + Sync + 'static) -> Self {
        self.sources.push(Registered { source: Box::new(source), tiers: Vec::new() });
        self
    }

    /// Names the tiers of the source that was added last, for the label `tier`. Default: their numbers.
    ///
    /// The first name is that of the limiter's own quota.
    pub fn tiers<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        if let Some(last) = self.sources.last_mut() {
            last.tiers = names.into_iter().map(Into::into).collect();
        }
        self
    }

    /// Reads all sources, and passes their values to the recorder.
    ///
    /// Call it before each scrape, or at an interval. The first call describes the metrics, so install the recorder before it.
    ///
    /// It takes the locks that count the keys of tables and stores, one after another and each for some nanoseconds. It looks at each slot
    /// of a [`KeyedLimiter`](damper_core::KeyedLimiter), some 85 instructions a key, so a table with a million keys takes tens of
    /// milliseconds.
    pub fn record(&self) {
        self.described.0.call_once(catalogue::describe);
        for Registered { source, tiers } in &self.sources {
            source.read_named(tiers);
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}
