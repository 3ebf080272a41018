//! The things that an exporter reads.

use crate::readings::Readings;
use std::sync::Arc;

/// Something that an [`Exporter`](crate::Exporter) reads: the primitives of damper, and sources of your own.
///
/// References, `Box`es and `Arc`s of sources are sources.
///
/// # Implementing
///
/// `read` must not change what the source decides. It should take microseconds, because it runs in every scrape.
///
/// ```
/// use damper_metrics::{Exporter, Kind, Metric, Readings, Source};
/// use metrics::Unit;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// const HITS: Metric = Metric::new("app_hits_total", Kind::Counter, Unit::Count, &["cache"], "Hits of a cache.");
///
/// struct Cache {
///     hits: AtomicU64,
/// }
///
/// impl Source for Cache {
///     fn read(&self, readings: &Readings<'_>) {
///         readings.record_number(&HITS, self.hits.load(Ordering::Relaxed));
///     }
/// }
///
/// let exporter = Exporter::new().register("pages", Cache { hits: AtomicU64::new(7) });
/// exporter.record();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no metrics",
    note = "the primitives of damper have, and references and `Arc`s of them",
    note = "a limiter of your own needs an implementation of `Source`, which may delegate to the limiter inside"
)]
pub trait Source {
    /// Reads the present values.
    fn read(&self, readings: &Readings<'_>);
}

/// A source that has its name already, such as a layer.
pub trait NamedSource: Source {
    /// Returns the name, which the first label of its metrics holds.
    fn name(&self) -> &str;
}

/// Implements [`Source`] for a pointer to one.
macro_rules! source_behind {
    ($($pointer:ty),*) => {$(
        impl<S: Source + ?Sized> Source for $pointer {
            fn read(&self, readings: &Readings<'_>) {
                (**self).read(readings);
            }
        }
    )*};
}

source_behind!(&S, Arc<S>, Box<S>);
