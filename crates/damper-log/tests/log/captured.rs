//! A layer that keeps events in memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// An event as a subscriber gets it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) target: String,
    pub(crate) is_root: bool,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Line {
    pub(crate) fn message(&self) -> &str {
        self.field("message").unwrap_or_default()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Returns the number of suppressed events that the line has, or 0.
    pub(crate) fn suppressed(&self) -> u64 {
        self.field("suppressed").map_or(0, |count| count.parse().expect("it is a number"))
    }

    pub(crate) fn is_report(&self) -> bool {
        self.target == "damper"
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// Keeps all events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<Line>>>);

impl Captured {
    /// Takes the events that came since the last time.
    pub(crate) fn take(&self) -> Vec<Line> {
        std::mem::take(&mut *self.0.lock().expect("no test fails under it"))
    }

    pub(crate) fn take_messages(&self) -> Vec<String> {
        self.take().iter().map(|line| line.message().to_owned()).collect()
    }
}

impl<S: Subscriber> Layer<S> for Captured {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Line {
            level: *metadata.level(),
            target: metadata.target().to_owned(),
            is_root: event.is_root(),
            fields: BTreeMap::new(),
        };
        event.record(&mut line);
        self.0.lock().expect("no test fails under it").push(line);
    }
}
