//! A Mesh duration.

use super::object::Object;
use super::object::name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A Mesh duration: a whole number of a unit, which keeps its original form.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use core::time::Duration;
/// use damper::mesh::{MeshDuration, TimeUnit};
///
/// let wait = MeshDuration::wait(Duration::from_millis(44_100));
/// assert_eq!((wait.value(), wait.unit()), (45, TimeUnit::Second));
/// assert_eq!(wait.duration(), Duration::from_secs(45));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Object<Parts>")]
pub struct MeshDuration {
    value: u64,
    unit: TimeUnit,
}

/// The units of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// A thousandth of a second.
    Millisecond,
    /// A second.
    Second,
    /// 60 seconds.
    Minute,
    /// 3,600 seconds.
    Hour,
}

impl TimeUnit {
    /// All units, from the largest to the smallest.
    pub(crate) const ALL: [Self; 4] = [Self::Hour, Self::Minute, Self::Second, Self::Millisecond];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Millisecond => "millisecond",
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }

    const fn millis(self) -> u64 {
        match self {
            Self::Millisecond => 1,
            Self::Second => 1_000,
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
        }
    }

    /// The largest value whose milliseconds fit 64 bits.
    pub(crate) const fn largest_value(self) -> u64 {
        u64::MAX / self.millis()
    }
}

/// A duration before its check.
#[derive(Deserialize)]
struct Parts {
    value: u64,
    #[serde(deserialize_with = "name")]
    unit: TimeUnit,
}

impl TryFrom<Object<Parts>> for MeshDuration {
    type Error = TooLong;

    fn try_from(Object(Parts { value, unit }): Object<Parts>) -> Result<Self, TooLong> {
        Self::new(value, unit).ok_or(TooLong { value, unit })
    }
}

/// A duration beyond 584 million years.
struct TooLong {
    value: u64,
    unit: TimeUnit,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, unit } = self;
        write!(f, "value {value} exceeds the maximum {} {}", unit.largest_value(), unit.name())
    }
}

impl MeshDuration {
    /// A million hours, which stands for a time that never comes.
    pub const NEVER: Self = Self { value: 1_000_000, unit: TimeUnit::Hour };

    /// Creates a duration, or returns `None` if its milliseconds do not fit 64 bits.
    #[must_use]
    pub const fn new(value: u64, unit: TimeUnit) -> Option<Self> {
        if value > unit.largest_value() { None } else { Some(Self { value, unit }) }
    }

    /// Creates a duration in milliseconds, however many they are.
    #[must_use]
    pub const fn millis(value: u64) -> Self {
        Self { value, unit: TimeUnit::Millisecond }
    }

    /// Creates a duration rounded down to milliseconds, in the largest exact unit.
    #[must_use]
    pub fn rounded_down(duration: Duration) -> Self {
        Self::in_largest_unit(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// Creates a duration rounded up to milliseconds, in the largest exact unit.
    #[must_use]
    pub fn rounded_up(duration: Duration) -> Self {
        Self::in_largest_unit(u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// Creates a duration for a client to wait, which is rounded up.
    ///
    /// It is rounded to milliseconds below a second, and to seconds above.
    #[must_use]
    pub fn wait(duration: Duration) -> Self {
        if duration < Duration::from_secs(1) {
            return Self::rounded_up(duration);
        }
        let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
        let most = TimeUnit::Second.largest_value();
        Self::in_largest_unit(seconds.min(most) * 1_000)
    }

    fn in_largest_unit(millis: u64) -> Self {
        // Zero would be a whole number of hours.
        if millis == 0 {
            return Self::millis(0);
        }
        let unit = TimeUnit::ALL.into_iter().find(|unit| millis.is_multiple_of(unit.millis()));
        let unit = unit.unwrap_or(TimeUnit::Millisecond);
        Self { value: millis / unit.millis(), unit }
    }

    /// Returns the number of units.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.value
    }

    /// Returns the unit.
    #[must_use]
    pub const fn unit(&self) -> TimeUnit {
        self.unit
    }

    /// Returns the duration.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        // Every value was checked, so this does not saturate.
        Duration::from_millis(self.value.saturating_mul(self.unit.millis()))
    }
}

impl fmt::Display for MeshDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.unit.name())
    }
}
