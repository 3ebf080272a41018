//! The text by which the events of a call site are told apart.

use alloc::string::String;
use core::fmt::{self, Write};
use core::hash::Hasher;
use tracing::Event;
use tracing::field::{Field, Visit};

/// The name of events that `tracing-log` makes of records of the facade `log`.
///
/// They share a call site for each level.
const LOG_RECORD: &str = "log record";

/// The fields that say where such a record comes from.
const LOG_ORIGIN: [&str; 2] = ["log.target", "log.line"];

/// Writes the values of an event that choose its limit.
///
/// These are the value of the field that the user named, and the origin of a record of the facade `log`. It writes nothing if
/// the event has none of them.
pub(super) fn write_key(event: &Event<'_>, key_field: Option<&'static str>, text: impl Write) {
    let is_log_record = event.metadata().name() == LOG_RECORD;
    if is_log_record || key_field.is_some() {
        event.record(&mut KeyVisitor { is_log_record, key_field, separator: "", text });
    }
}

/// The most bytes that are kept of the text, for reports.
const LONGEST: usize = 128;

/// Returns the beginning of the text that [`write_key`] writes, which ends with `…` if it is cut.
pub(super) fn key_text(event: &Event<'_>, key_field: Option<&'static str>) -> String {
    let mut text = Beginning(String::new());
    write_key(event, key_field, &mut text);
    text.0
}

/// Keeps the beginning of a text.
///
/// A client that chooses a value must not choose how much memory it takes.
struct Beginning(String);

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = LONGEST.saturating_sub(self.0.len());
        if text.len() <= left {
            self.0.push_str(text);
            return Ok(());
        }
        if left > 0 {
            let end = (0..=left).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            self.0.push_str(&text[..end]);
        }
        if !self.0.ends_with('…') {
            self.0.push('…');
        }
        // Nothing further is formatted.
        Err(fmt::Error)
    }
}

struct KeyVisitor<W> {
    is_log_record: bool,
    key_field: Option<&'static str>,
    /// Stands before the next value.
    separator: &'static str,
    text: W,
}

impl<W: Write> KeyVisitor<W> {
    fn write(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let name = field.name();
        if self.key_field == Some(name) || self.is_log_record && LOG_ORIGIN.contains(&name) {
            // A value whose `Debug` fails has the text up to there.
            _ = write!(self.text, "{}{name}={value}", self.separator);
            self.separator = " ";
        }
    }
}

impl<W: Write> Visit for KeyVisitor<W> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, format_args!("{value:?}"));
    }
}

/// Hashes a text as it is written.
pub(super) struct HashText<H>(pub(super) H);

impl<H: Hasher> Write for HashText<H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
