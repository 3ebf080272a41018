//! Where the page reads what layers count.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use damper_metrics::catalogue;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SetRecorderError, SharedString, Unit,
};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The most counters that are kept.
///
/// Layers have a few each, and no client or server can choose their labels.
const MOST_COUNTERS: usize = 4096;

/// A recorder for the crate `metrics` that keeps the counters of damper's layers, for the page.
///
/// Layers count their requests anyway, as soon as a recorder is installed. This one keeps damper's counters, and passes everything on to
/// another recorder if there is [one](Self::before). Clones share the counters.
///
/// # Cost
///
/// A counter takes one atomic addition for each count, and one more if another recorder has it too. Locks are taken when a layer looks up
/// its counters, once for its life, and by pages.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_live as live; }
/// use damper::live::{LivePage, LiveRecorder};
///
/// let counts = LiveRecorder::new(); // or LiveRecorder::new().before(prometheus)
/// let page = LivePage::new().recorder(&counts);
/// counts.install()?; // before the first request
/// # let _ = page;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct LiveRecorder {
    counters: Arc<Mutex<HashMap<Key, Arc<AtomicU64>>>>,
    next: Option<Arc<dyn Recorder + Send + Sync>>,
}

impl LiveRecorder {
    /// Creates a recorder without counters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Passes all metrics on to another recorder.
    #[must_use]
    pub fn before(self, next: impl Recorder + Send + Sync + 'static) -> Self {
        Self { next: Some(Arc::new(next)), ..self }
    }

    /// Installs it for the whole program.
    ///
    /// # Errors
    ///
    /// [`SetRecorderError`] if a recorder is installed already.
    pub fn install(&self) -> Result<(), SetRecorderError<Self>> {
        metrics::set_global_recorder(self.clone())
    }

    /// Returns the totals of all counters.
    pub(super) fn totals(&self) -> Vec<(Key, u64)> {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed: counts, through which nothing is published.
        counters.iter().map(|(key, count)| (key.clone(), count.load(Ordering::Relaxed))).collect()
    }

    /// Returns the counter of this key, if it is one of damper's.
    fn kept(&self, key: &Key) -> Option<Arc<AtomicU64>> {
        if !catalogue::ALL.iter().any(|metric| metric.name() == key.name()) {
            return None;
        }
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = counters.get(key) {
            return Some(Arc::clone(counter));
        }
        (counters.len() < MOST_COUNTERS).then(|| Arc::clone(counters.entry(key.clone()).or_default()))
    }
}

/// A counter that counts into another one too.
struct Both(Arc<AtomicU64>, Counter);

impl CounterFn for Both {
    fn increment(&self, value: u64) {
        CounterFn::increment(&*self.0, value);
        self.1.increment(value);
    }

    fn absolute(&self, value: u64) {
        CounterFn::absolute(&*self.0, value);
        self.1.absolute(value);
    }
}

impl Recorder for LiveRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        if let Some(next) = &self.next {
            next.describe_counter(key, unit, description);
        }
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        if let Some(next) = &self.next {
            next.describe_gauge(key, unit, description);
        }
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        if let Some(next) = &self.next {
            next.describe_histogram(key, unit, description);
        }
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let next = self.next.as_ref().map(|next| next.register_counter(key, metadata));
        match (self.kept(key), next) {
            (Some(kept), None) => Counter::from_arc(kept),
            (Some(kept), Some(next)) => Counter::from_arc(Arc::new(Both(kept, next))),
            (None, next) => next.unwrap_or_else(Counter::noop),
        }
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.next.as_ref().map_or_else(Gauge::noop, |next| next.register_gauge(key, metadata))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.next.as_ref().map_or_else(Histogram::noop, |next| next.register_histogram(key, metadata))
    }
}

impl fmt::Debug for LiveRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRecorder").field("is_before_another", &self.next.is_some()).finish_non_exhaustive()
    }
}

/// Keeps what sources read, of one sample.
#[derive(Default)]
pub(super) struct Capture(Mutex<Vec<(Key, Captured)>>);

enum Captured {
    Total(Arc<AtomicU64>),
    Level(Arc<AtomicU64>),
}

impl Capture {
    /// Calls `read` and returns what it records.
    pub(super) fn of(read: impl FnOnce()) -> Vec<(Key, f64)> {
        let capture = Self::default();
        metrics::with_local_recorder(&capture, read);
        let captured = capture.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        captured.into_iter().map(|(key, captured)| (key, captured.value())).collect()
    }

    fn keep(&self, key: &Key, captured: Captured) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((key.clone(), captured));
    }
}

impl Captured {
    #[expect(clippy::cast_precision_loss, reason = "a page shows fewer digits than an f64 has")]
    fn value(&self) -> f64 {
        match self {
            // ORDERING: Relaxed, here and below: this thread wrote it.
            Self::Total(total) => total.load(Ordering::Relaxed) as f64,
            Self::Level(level) => f64::from_bits(level.load(Ordering::Relaxed)),
        }
    }
}

impl Recorder for Capture {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let total = Arc::new(AtomicU64::new(0));
        self.keep(key, Captured::Total(Arc::clone(&total)));
        Counter::from_arc(total)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let level = Arc::new(AtomicU64::new(0));
        self.keep(key, Captured::Level(Arc::clone(&level)));
        Gauge::from_arc(level)
    }

    /// Sources have no histograms.
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    const METADATA: Metadata<'static> = Metadata::new("damper", metrics::Level::INFO, None);

    #[test]
    fn counters_are_kept_and_passed_on() {
        let behind = LiveRecorder::new();
        let before = LiveRecorder::new().before(behind.clone());
        let key = Key::from_parts("damper_limit_refused_total", &[("limit", "clients")]);
        before.register_counter(&key, &METADATA).increment(2);
        before.register_counter(&key, &METADATA).increment(3);
        assert_eq!(before.totals(), [(key.clone(), 5)]);
        assert_eq!(behind.totals(), [(key.clone(), 5)]);
        // An exporter writes a whole count.
        before.register_counter(&key, &METADATA).absolute(9);
        assert_eq!(before.totals(), [(key.clone(), 9)]);
        assert_eq!(behind.totals(), [(key, 9)]);
    }

    /// Writes down what it hears.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<String>>>);

    impl Heard {
        fn push(&self, event: String) {
            self.0.lock().unwrap().push(event);
        }
    }

    impl metrics::GaugeFn for Heard {
        fn increment(&self, _: f64) {}

        fn decrement(&self, _: f64) {}

        fn set(&self, value: f64) {
            self.push(format!("level {value}"));
        }
    }

    impl metrics::HistogramFn for Heard {
        fn record(&self, value: f64) {
            self.push(format!("sample {value}"));
        }
    }

    impl Recorder for Heard {
        fn describe_counter(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
            self.push(format!("counter {}: {description}", key.as_str()));
        }

        fn describe_gauge(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
            self.push(format!("gauge {}: {description}", key.as_str()));
        }

        fn describe_histogram(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
            self.push(format!("histogram {}: {description}", key.as_str()));
        }

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Arc::new(self.clone()))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(Arc::new(self.clone()))
        }
    }

    /// A program that has another recorder loses none of its metrics by the page.
    #[test]
    fn levels_samples_and_descriptions_reach_the_recorder_behind() {
        let heard = Heard::default();
        let recorder = LiveRecorder::new().before(heard.clone());
        recorder.describe_counter("a".into(), None, "one".into());
        recorder.describe_gauge("b".into(), None, "two".into());
        recorder.describe_histogram("c".into(), None, "three".into());
        recorder.register_gauge(&Key::from_name("b"), &METADATA).set(7.0);
        recorder.register_histogram(&Key::from_name("c"), &METADATA).record(0.5);
        let heard = heard.0.lock().unwrap().clone();
        assert_eq!(heard, ["counter a: one", "gauge b: two", "histogram c: three", "level 7", "sample 0.5"]);

        // Without one, they go nowhere.
        let alone = LiveRecorder::new();
        alone.describe_gauge("b".into(), None, "two".into());
        alone.register_gauge(&Key::from_name("b"), &METADATA).set(7.0);
        alone.register_histogram(&Key::from_name("c"), &METADATA).record(0.5);
        assert_eq!(alone.totals(), []);
    }

    #[test]
    fn counters_of_others_and_of_a_flood_are_not_kept() {
        let recorder = LiveRecorder::new();
        recorder.register_counter(&Key::from_name("app_hits_total"), &METADATA).increment(1);
        assert_eq!(recorder.totals(), []);
        for number in 0..2 * MOST_COUNTERS {
            let key = Key::from_parts("damper_limit_refused_total", &[("limit", format!("{number}"))]);
            recorder.register_counter(&key, &METADATA).increment(1);
        }
        assert_eq!(recorder.totals().len(), MOST_COUNTERS);
    }
}
