//! The error of a setting that is out of its range.

use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;

/// The error of a setting that is out of its range: the setting, its value, and the allowed values.
///
/// Constructors, setters and builders return it. The [setting](Self::setting) has the name of the method or the parameter that
/// takes it, so a program that reads settings from a file can name the place in it.
///
/// Gates of your own can check their settings with the same functions: the range that is checked is the one that the message has.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{BreakerConfig, OutOfRange};
///
/// let error = BreakerConfig::builder().cooldown_factor(0.5).build().unwrap_err();
/// assert_eq!(error.setting(), "cooldown_factor");
/// assert_eq!(error.to_string(), "cooldown_factor is 0.5, it must be 1.0 to 10.0");
///
/// /// A gate that opens once in a period.
/// #[derive(Debug)]
/// struct Turnstile {
///     period: Duration,
/// }
///
/// impl Turnstile {
///     const fn new(period: Duration) -> Result<Self, OutOfRange> {
///         match OutOfRange::check_duration("period", period, Duration::from_millis(1)..=Duration::from_secs(60)) {
///             Ok(()) => Ok(Self { period }),
///             Err(error) => Err(error),
///         }
///     }
/// }
///
/// let error = Turnstile::new(Duration::ZERO).unwrap_err();
/// assert_eq!(error.to_string(), "period is 0 ns, it must be 1 ms to 1 min");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct OutOfRange {
    setting: &'static str,
    amounts: Amounts,
    note: &'static str,
}

/// A refused value and its range.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Amounts {
    Count { value: u64, least: u64, most: u64 },
    Ratio { value: Ratio, least: Ratio, most: Ratio },
    Duration { value: Duration, least: Duration, most: Duration },
    Unlimited { most: u64 },
    Unsupported,
}

/// An `f64`, compared by its bits, so that the error of a NaN equals itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Ratio(u64);

impl OutOfRange {
    /// Checks a count.
    ///
    /// A range from 0 has no lower bound, and one to `u64::MAX` has no upper bound.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], unless `allowed` contains the value.
    pub const fn check_count(setting: &'static str, value: u64, allowed: RangeInclusive<u64>) -> Result<(), Self> {
        let (least, most) = (*allowed.start(), *allowed.end());
        if value >= least && value <= most {
            return Ok(());
        }
        Err(Self::new(setting, Amounts::Count { value, least, most }))
    }

    /// Checks a ratio, a factor or a share.
    ///
    /// A range to `f64::INFINITY` has no upper bound.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], unless `allowed` contains the value. No range contains NaN.
    pub const fn check_ratio(setting: &'static str, value: f64, allowed: RangeInclusive<f64>) -> Result<(), Self> {
        let (least, most) = (*allowed.start(), *allowed.end());
        if value >= least && value <= most {
            return Ok(());
        }
        let amounts = Amounts::Ratio { value: Ratio::of(value), least: Ratio::of(least), most: Ratio::of(most) };
        Err(Self::new(setting, amounts))
    }

    /// Checks a duration.
    ///
    /// A range from zero has no lower bound, and one to `Duration::MAX` has no upper bound.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], unless `allowed` contains the value.
    pub const fn check_duration(
        setting: &'static str,
        value: Duration,
        allowed: RangeInclusive<Duration>,
    ) -> Result<(), Self> {
        let (least, most) = (*allowed.start(), *allowed.end());
        if value.as_nanos() >= least.as_nanos() && value.as_nanos() <= most.as_nanos() {
            return Ok(());
        }
        Err(Self::new(setting, Amounts::Duration { value, least, most }))
    }

    /// Creates the error of a limit that is [unlimited](crate::Quota::UNLIMITED), but must be at most `most`.
    #[must_use]
    pub const fn unlimited(setting: &'static str, most: u64) -> Self {
        Self::new(setting, Amounts::Unlimited { most })
    }

    /// Creates the error of a setting that has to be left out.
    pub(crate) const fn unsupported(setting: &'static str) -> Self {
        Self::new(setting, Amounts::Unsupported)
    }

    const fn new(setting: &'static str, amounts: Amounts) -> Self {
        Self { setting, amounts, note: "" }
    }

    /// Sets words that follow the range in the message: a unit, or the setting on which a bound depends.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::OutOfRange;
    ///
    /// let depth = |depth, slots| OutOfRange::check_count("depth", depth, 1..=slots).map_err(|error| error.note("(the slots)"));
    /// assert_eq!(depth(9, 8).unwrap_err().to_string(), "depth is 9, it must be 1 to 8 (the slots)");
    /// ```
    #[must_use]
    pub const fn note(mut self, words: &'static str) -> Self {
        self.note = words;
        self
    }

    /// Returns the name of the setting.
    #[must_use]
    pub const fn setting(&self) -> &'static str {
        self.setting
    }

    /// Returns the refused value: `0.5`, or `100 ms`.
    #[must_use]
    pub fn value(&self) -> impl fmt::Display + use<> {
        Value(self.amounts)
    }

    /// Returns the allowed values: `1.0 to 10.0`, or `at most 20 s (the cap)`.
    #[must_use]
    pub fn allowed(&self) -> impl fmt::Display + use<> {
        Allowed { amounts: self.amounts, note: self.note }
    }
}

/// Checks as `$check` does and returns its error, which `?` cannot do in a `const fn`.
macro_rules! check {
    ($check:ident($($argument:expr),+ $(,)?) $(, $note:expr)?) => {
        if let Err(error) = $crate::OutOfRange::$check($($argument),+) {
            return Err(error $(.note($note))?);
        }
    };
}
pub(crate) use check;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, it must be {}", self.setting, self.value(), self.allowed())
    }
}

crate::internal::debug_by_display!(OutOfRange);

impl core::error::Error for OutOfRange {}

struct Value(Amounts);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Amounts::Count { value, .. } => value.fmt(f),
            Amounts::Ratio { value, .. } => value.fmt(f),
            Amounts::Duration { value, .. } => Exact(value).fmt(f),
            Amounts::Unlimited { .. } => f.write_str("unlimited"),
            Amounts::Unsupported => f.write_str("set"),
        }
    }
}

struct Allowed {
    amounts: Amounts,
    note: &'static str,
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.amounts {
            Amounts::Count { least, most, .. } => {
                Bounds { least: (least > 0).then_some(least), most: (most < u64::MAX).then_some(most) }.fmt(f)?;
            }
            Amounts::Ratio { least, most, .. } => {
                let is_bound = |bound: &Ratio| bound.get().is_finite();
                Bounds { least: Some(least).filter(is_bound), most: Some(most).filter(is_bound) }.fmt(f)?;
            }
            Amounts::Duration { least, most, .. } => {
                let (least, most) = ((!least.is_zero()).then_some(least), (most < Duration::MAX).then_some(most));
                Bounds { least: least.map(Exact), most: most.map(Exact) }.fmt(f)?;
            }
            Amounts::Unlimited { most } => Bounds { least: None, most: Some(most) }.fmt(f)?,
            Amounts::Unsupported => f.write_str("left out")?,
        }
        if self.note.is_empty() { Ok(()) } else { write!(f, " {}", self.note) }
    }
}

/// The bounds of a range, if it has any.
struct Bounds<T> {
    least: Option<T>,
    most: Option<T>,
}

impl<T: fmt::Display> fmt::Display for Bounds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.least, &self.most) {
            (Some(least), Some(most)) => write!(f, "{least} to {most}"),
            (Some(least), None) => write!(f, "at least {least}"),
            (None, Some(most)) => write!(f, "at most {most}"),
            (None, None) => f.write_str("a number"),
        }
    }
}

impl Ratio {
    const fn of(ratio: f64) -> Self {
        Self(ratio.to_bits())
    }

    const fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Shows `1.0`, not `1`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Ratio {
    fn format(&self, f: defmt::Formatter<'_>) {
        self.get().format(f);
    }
}

/// Shows a duration to the nanosecond, in the largest unit that suits: `100 days`, `1 min`, `90 s`, `1.5 ms`.
struct Exact(Duration);

/// The units for their multiples, each with its length in seconds and its name.
const LONG_UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "h"), (60, "min")];

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if (secs, nanos) == (86_400, 0) {
            return f.write_str("1 day");
        }
        if secs > 0
            && nanos == 0
            && let Some((unit, name)) = LONG_UNITS.into_iter().find(|(unit, _)| secs.is_multiple_of(*unit))
        {
            return write!(f, "{} {name}", secs / unit);
        }
        let (whole, rest, digits, name) = match (secs, nanos) {
            (0, 0..1_000) => (nanos.into(), 0, 0, "ns"),
            (0, 1_000..1_000_000) => ((nanos / 1_000).into(), nanos % 1_000, 3, "µs"),
            (0, _) => ((nanos / 1_000_000).into(), nanos % 1_000_000, 6, "ms"),
            _ => (secs, nanos, 9, "s"),
        };
        write!(f, "{whole}")?;
        if rest > 0 {
            let (mut rest, mut digits) = (rest, digits);
            while rest % 10 == 0 {
                rest /= 10;
                digits -= 1;
            }
            write!(f, ".{rest:0digits$}")?;
        }
        write!(f, " {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Exact, OutOfRange};
    use core::time::Duration;
    use std::string::ToString;

    #[test]
    fn bounds_belong_to_the_range() {
        for (value, is_in) in [(0, false), (1, true), (5, true), (1_023, true), (1_024, false), (u64::MAX, false)] {
            assert_eq!(OutOfRange::check_count("probes", value, 1..=1_023).is_ok(), is_in, "{value}");
        }
        for (value, is_in) in [(0.999, false), (1.0, true), (10.0, true), (10.001, false), (f64::NAN, false)] {
            assert_eq!(OutOfRange::check_ratio("factor", value, 1.0..=10.0).is_ok(), is_in, "{value}");
        }
        let range = || Duration::from_nanos(1)..=Duration::from_hours(1);
        let over = Duration::from_hours(1) + Duration::from_nanos(1);
        for (value, is_in) in [(Duration::ZERO, false), (*range().start(), true), (*range().end(), true), (over, false)]
        {
            assert_eq!(OutOfRange::check_duration("wait", value, range()).is_ok(), is_in, "{value:?}");
        }
    }

    #[test]
    fn a_bound_that_refuses_nothing_is_not_named() {
        let count = |value, allowed| OutOfRange::check_count("n", value, allowed).unwrap_err().allowed().to_string();
        assert_eq!(count(0, 1..=u64::MAX), "at least 1");
        assert_eq!(count(11, 0..=10), "at most 10");
        assert_eq!(count(11, 2..=10), "2 to 10");
        let ratio = |allowed| OutOfRange::check_ratio("n", f64::NAN, allowed).unwrap_err().allowed().to_string();
        assert_eq!(ratio(0.5..=f64::INFINITY), "at least 0.5");
        assert_eq!(ratio(f64::NEG_INFINITY..=0.5), "at most 0.5");
        assert_eq!(ratio(0.0..=0.99), "0.0 to 0.99");
        assert_eq!(ratio(f64::NEG_INFINITY..=f64::INFINITY), "a number");
        let second = Duration::from_secs(1);
        let time = |value, allowed| OutOfRange::check_duration("n", value, allowed).unwrap_err().to_string();
        assert_eq!(time(Duration::ZERO, second..=Duration::MAX), "n is 0 ns, it must be at least 1 s");
        assert_eq!(time(2 * second, Duration::ZERO..=second), "n is 2 s, it must be at most 1 s");
        let unlimited = OutOfRange::unlimited("limit", 10).note("(the window)");
        assert_eq!(unlimited.to_string(), "limit is unlimited, it must be at most 10 (the window)");
    }

    #[test]
    fn the_error_of_a_nan_equals_itself() {
        let error = || OutOfRange::check_ratio("factor", f64::NAN, 1.0..=2.0).unwrap_err();
        assert_eq!(error(), error());
        assert_eq!(error().to_string(), "factor is NaN, it must be 1.0 to 2.0");
    }

    #[test]
    fn durations_are_exact_in_the_largest_unit_that_suits() {
        for (duration, text) in [
            (Duration::ZERO, "0 ns"),
            (Duration::from_nanos(999), "999 ns"),
            (Duration::from_nanos(1_050), "1.05 µs"),
            (Duration::from_micros(10), "10 µs"),
            (Duration::from_nanos(340_000_001), "340.000001 ms"),
            (Duration::from_millis(1_200), "1.2 s"),
            (Duration::from_secs(60), "1 min"),
            (Duration::from_secs(90), "90 s"),
            (Duration::from_hours(1), "1 h"),
            (Duration::from_hours(24), "1 day"),
            (Duration::from_hours(2_400), "100 days"),
            (Duration::from_nanos(u64::MAX), "18446744073.709551615 s"),
            (Duration::MAX, "18446744073709551615.999999999 s"),
        ] {
            assert_eq!(Exact(duration).to_string(), text);
        }
    }
}
