//! A deadline as written in a request.

use crate::document::{MeshDuration, ReadError, TimeUnit, shortened};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::fmt;
use std::time::{Duration, SystemTime};

/// A deadline as written: a duration of at least 1 of its unit, or an instant.
///
/// It keeps its original form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpecifiedDeadline(Form);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form {
    /// The duration after the receipt of the request. It is not zero, which no reader accepts.
    After(MeshDuration),
    At(Iso8601),
}

/// An instant, and its original ISO 8601 text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Iso8601 {
    text: String,
    instant: Timestamp,
}

/// The unit of instants.
const ISO8601: &str = "iso8601";

impl Iso8601 {
    /// Parses a date and a time, such as `2024-03-15T15:30:00.5+01:00`.
    ///
    /// It returns `None` for any other text. The offset from UTC is `Z` or hours and minutes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { text: text.to_owned(), instant: text.parse().ok()? })
    }

    /// Writes an instant in UTC, rounded down to milliseconds.
    ///
    /// It returns `None` if the year does not have four digits.
    #[must_use]
    pub fn at(instant: SystemTime) -> Option<Self> {
        let instant = Timestamp::try_from(instant).ok()?;
        let instant =
            Timestamp::from_millisecond(instant.as_nanosecond().div_euclid(1_000_000).try_into().ok()?).ok()?;
        Some(Self { text: instant.to_string(), instant })
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the time from `now` to the instant, or zero if it is in the past.
    #[must_use]
    pub fn time_left(&self, now: SystemTime) -> Duration {
        // A machine's clock may show a year that cannot be written.
        let Ok(now) = Timestamp::try_from(now) else { return Duration::ZERO };
        self.instant.duration_since(now).try_into().unwrap_or(Duration::ZERO)
    }
}

impl SpecifiedDeadline {
    /// Creates a deadline this long after the receipt.
    ///
    /// The time is rounded down to milliseconds, but is at least 1.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self(Form::After(MeshDuration::rounded_down(duration.max(Duration::from_millis(1)))))
    }

    /// Creates a deadline this long after the receipt, keeping the unit.
    ///
    /// It returns `None` for a duration of zero.
    #[must_use]
    pub fn lasting(duration: MeshDuration) -> Option<Self> {
        (duration.value() > 0).then_some(Self(Form::After(duration)))
    }

    /// Creates the deadline at an instant.
    #[must_use]
    pub const fn at(instant: Iso8601) -> Self {
        Self(Form::At(instant))
    }

    /// Returns the duration, or `None` for an instant.
    #[must_use]
    pub const fn duration(&self) -> Option<MeshDuration> {
        match &self.0 {
            Form::After(duration) => Some(*duration),
            Form::At(_) => None,
        }
    }

    /// Returns the instant, or `None` for a duration.
    #[must_use]
    pub const fn instant(&self) -> Option<&Iso8601> {
        match &self.0 {
            Form::After(_) => None,
            Form::At(instant) => Some(instant),
        }
    }

    /// Returns the time left for a request received at this date.
    pub(super) fn budget(&self, received: SystemTime) -> Duration {
        match &self.0 {
            Form::After(duration) => duration.duration(),
            Form::At(instant) => instant.time_left(received),
        }
    }

    /// Reads the options of the extension.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn from_value(options: &Value) -> Result<Self, ReadError> {
        let member = |member| options.get(member).ok_or_else(|| malformed(format_args!("{member} is missing")));
        let (value, unit) = (member("value")?, member("unit")?);
        if unit == ISO8601 {
            let instant = value.as_str().and_then(Iso8601::parse);
            return instant.map(Self::at).ok_or_else(|| {
                let value = shown(value);
                malformed(format_args!(
                    "value is {value}, it must be an instant of ISO 8601, such as 2024-03-15T14:30:00Z"
                ))
            });
        }
        let unit = TimeUnit::ALL.into_iter().find(|known| unit == known.name());
        let unit = unit.ok_or_else(|| {
            let unit = shown(&options["unit"]);
            malformed(format_args!("unit is {unit}, it must be millisecond, second, minute, hour or iso8601"))
        })?;
        let number = value.as_u64().filter(|number| *number > 0);
        let number = number.ok_or_else(|| {
            malformed(format_args!("value is {}, it must be a whole number of at least 1", shown(value)))
        })?;
        MeshDuration::new(number, unit).and_then(Self::lasting).ok_or_else(|| {
            malformed(format_args!("value {number} exceeds the maximum {} of its unit", unit.largest_value()))
        })
    }

    /// Returns the deadline as the options of the extension.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.0 {
            Form::After(duration) => json!(duration),
            Form::At(instant) => json!({ "value": instant.text, "unit": ISO8601 }),
        }
    }
}

/// Returns the error of a malformed deadline.
pub(crate) fn malformed(mistake: fmt::Arguments<'_>) -> ReadError {
    ReadError::Document { member: "deadline".to_owned(), reason: mistake.to_string() }
}

/// Formats a value for an error.
fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}

impl Serialize for SpecifiedDeadline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SpecifiedDeadline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Formats `30 second`, or the text of the instant.
impl fmt::Display for SpecifiedDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::After(duration) => duration.fmt(f),
            Form::At(instant) => f.write_str(&instant.text),
        }
    }
}
