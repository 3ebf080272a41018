//! The events that the layer makes itself.

use alloc::vec::Vec;
use core::array;
use core::fmt;
use core::time::Duration;
use damper_core::internal::Human;
use tracing::callsite::{DefaultCallsite, Identifier};
use tracing::field::{Field, FieldSet, Value, Visit, display};
use tracing::metadata::Kind;
use tracing::{Event, Level, Metadata};

/// The events that a limit suppressed since the last report.
pub(super) struct Report<'a> {
    suppressed: u64,
    elapsed: Duration,
    /// The call site. `None` stands for those that were evicted.
    origin: Option<&'static Metadata<'static>>,
    key: &'a str,
}

impl<'a> Report<'a> {
    /// Creates the report of a call site, unless the count is 0.
    pub(super) fn new(
        suppressed: u64,
        elapsed: Duration,
        origin: &'static Metadata<'static>,
        key: &'a str,
    ) -> Option<Self> {
        (suppressed > 0).then_some(Self { suppressed, elapsed, origin: Some(origin), key })
    }

    /// Creates the report of call sites that were evicted, unless the count is 0.
    pub(super) fn of_evicted(suppressed: u64) -> Option<Self> {
        (suppressed > 0).then_some(Self { suppressed, elapsed: Duration::ZERO, origin: None, key: "" })
    }

    /// Calls `write` with the event, which has the level of the events that were suppressed and no span.
    pub(super) fn with_event(&self, write: impl FnOnce(&Event<'_>)) {
        let message = display(self);
        let elapsed_ms = self.origin.map(|_| u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX));
        let origin = self.origin.map(Metadata::target);
        let file = self.origin.and_then(Metadata::file);
        let line = self.origin.and_then(Metadata::line);
        let key = (!self.key.is_empty()).then_some(self.key);
        let metadata = report_metadata(self.origin.map_or(Level::WARN, |origin| *origin.level()));
        with_event(metadata, [&message, &self.suppressed, &elapsed_ms, &origin, &file, &line, &key], write);
    }
}

/// The message of the event: `suppressed 1204 events in 10 s`.
impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = if self.suppressed == 1 { "event" } else { "events" };
        write!(f, "suppressed {} {events}", self.suppressed)?;
        if !self.elapsed.is_zero() {
            write!(f, " in {}", Human(self.elapsed))?;
        }
        if self.origin.is_none() {
            f.write_str(" of evicted call sites")?;
        }
        Ok(())
    }
}

/// Calls `call` with the event that asks the layer of this number to report.
///
/// Only that layer sees it.
pub(super) fn with_request(layer: usize, call: impl FnOnce(&Event<'_>)) {
    with_event(request_metadata(), [&layer], call);
}

/// Returns the number of the layer that an event asks to report.
pub(super) fn requested_layer(event: &Event<'_>) -> Option<u64> {
    struct Number(Option<u64>);
    impl Visit for Number {
        fn record_u64(&mut self, _: &Field, value: u64) {
            self.0 = Some(value);
        }

        fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
    }
    if event.metadata().callsite() != request_metadata().callsite() {
        return None;
    }
    let mut number = Number(None);
    event.record(&mut number);
    number.0
}

/// Calls `call` with an event that has no span, and a value for each of its fields.
fn with_event<const N: usize>(
    metadata: &'static Metadata<'static>,
    values: [&dyn Value; N],
    call: impl FnOnce(&Event<'_>),
) {
    let fields: Vec<Field> = metadata.fields().iter().collect();
    let pairs: [_; N] = array::from_fn(|index| (&fields[index], Some(values[index])));
    call(&Event::new_child_of(None, metadata, &metadata.fields().value_set(&pairs)));
}

/// Returns the metadata of an event that this file makes.
macro_rules! metadata {
    ($name:literal, $level:expr, $fields:expr) => {{
        static METADATA: Metadata<'static> = {
            let fields = FieldSet::new($fields, Identifier(&CALLSITE));
            Metadata::new($name, "damper", $level, None, None, None, fields, Kind::EVENT)
        };
        static CALLSITE: DefaultCallsite = DefaultCallsite::new(&METADATA);
        &METADATA
    }};
}

/// Returns the metadata of reports of a level.
fn report_metadata(level: Level) -> &'static Metadata<'static> {
    const FIELDS: &[&str] = &["message", "suppressed", "elapsed_ms", "origin", "file", "line", "key"];
    match level {
        Level::ERROR => metadata!("suppressed", Level::ERROR, FIELDS),
        Level::WARN => metadata!("suppressed", Level::WARN, FIELDS),
        Level::INFO => metadata!("suppressed", Level::INFO, FIELDS),
        Level::DEBUG => metadata!("suppressed", Level::DEBUG, FIELDS),
        Level::TRACE => metadata!("suppressed", Level::TRACE, FIELDS),
    }
}

/// Returns the metadata of requests to report.
fn request_metadata() -> &'static Metadata<'static> {
    metadata!("request to report", Level::ERROR, &["layer"])
}
