//! Durations as a person reads them.

use core::fmt;
use core::time::Duration;

/// Displays a duration, rounded up: `1.2 s`, `28 s`, `340 ms`.
///
/// Below ten of a unit it has at most two significant digits.
#[derive(Clone, Copy, Debug)]
pub struct Human(pub Duration);

/// The units below a minute, each with its length in nanoseconds.
const UNITS: [(u128, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (unit, name) = UNITS.into_iter().find(|(unit, _)| nanos >= *unit).unwrap_or((1, "ns"));
        let tenths = (nanos * 10).div_ceil(unit);
        if tenths < 100 && tenths % 10 != 0 {
            write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
        } else {
            write!(f, "{} {name}", tenths.div_ceil(10))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Human;
    use core::time::Duration;
    use std::string::ToString;

    #[test]
    fn rounds_up_to_what_a_person_reads() {
        for (duration, text) in [
            (Duration::ZERO, "0 ns"),
            (Duration::from_nanos(999), "999 ns"),
            (Duration::from_micros(1), "1 µs"),
            (Duration::from_nanos(340_000_001), "341 ms"),
            (Duration::from_millis(1_200), "1.2 s"),
            (Duration::from_nanos(1_200_000_001), "1.3 s"),
            (Duration::from_millis(27_001), "28 s"),
            (Duration::from_hours(1), "3600 s"),
        ] {
            assert_eq!(Human(duration).to_string(), text);
        }
    }
}
