//! The values that a key accepts.

use std::fmt;
use std::time::Duration;

/// The type and the range of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// A whole number.
    Count {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
    /// A number, which may have a fraction.
    Number {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// A whole percentage: `"50%"`, or 50.
    Percent {
        /// The smallest, in percent.
        min: u32,
        /// The largest, in percent.
        max: u32,
    },
    /// A share: `"2%"`, or the fraction 0.02.
    Fraction {
        /// The smallest, as a fraction.
        min: f64,
        /// The largest, as a fraction.
        max: f64,
    },
    /// A length of time: `30s`, `1m 30s`, `250ms`.
    Duration {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A limit per window and a burst: `100/s burst 200`.
    Quota,
    /// Quotas by the names of tiers: `tiers.free = "100/min"`, or a list of quotas.
    Tiers {
        /// The most quotas.
        max: usize,
    },
    /// Plans by name, each a table of quotas by dimension: `plans.pro.requests = "60/min"`.
    Plans {
        /// The most plans.
        max: usize,
    },
    /// A list of names with quotas: `orders.create 100/min burst 20`.
    FunctionQuotas,
    /// `true` or `false`.
    Flag,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// The key of a limit: `global`, `client`, `path`, or `header:` and a name.
    LimitKey,
    /// The name of a header: `x-criticality`.
    HeaderName,
    /// A list of networks: `10.0.0.0/8`.
    Networks,
    /// A list of paths: `/healthz`, or `/health/*` for all below a path.
    Paths,
}

impl Kind {
    /// Returns whether the key is a table whose names the file chooses.
    pub(crate) fn has_names(self) -> bool {
        matches!(self, Self::Tiers { .. } | Self::Plans { .. })
    }

    /// The largest rate and burst of a quota: more than any server of HTTP decides in a second.
    pub(crate) const MAX_RATE: u32 = 10_000_000;

    /// Returns the name of the type, for the reference.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Count { .. } => "whole number",
            Self::Number { .. } => "number",
            Self::Duration { .. } => "duration",
            Self::Quota => "quota",
            Self::Percent { .. } | Self::Fraction { .. } => "percentage",
            Self::Tiers { .. } => "table of quotas",
            Self::Plans { .. } => "table of plans",
            Self::FunctionQuotas => "list of quotas",
            Self::Flag => "flag",
            Self::Choice(_) | Self::LimitKey | Self::HeaderName => "text",
            Self::Networks => "list of networks",
            Self::Paths => "list of paths",
        }
    }

    /// Returns the allowed values, for the reference.
    #[must_use]
    pub fn range(&self) -> String {
        match self {
            Self::Count { min, max } => format!("{min} to {max}"),
            Self::Number { min, max } => format!("{min} to {max}"),
            Self::Duration { min, max } => format!("{} to {}", in_words(*min), in_words(*max)),
            Self::Quota => format!("at most {} a second, burst 1 to {}", Self::MAX_RATE, Self::MAX_RATE),
            Self::Percent { min, max } => format!("{min}% to {max}%"),
            Self::Fraction { min, max } => format!("{} to {}", in_percent(*min), in_percent(*max)),
            Self::Tiers { max } => format!("0 to {max} quotas, by name or in a list"),
            Self::Plans { max } => format!("0 to {max} plans by name, each with quotas by dimension"),
            Self::FunctionQuotas => "each the name of a function, a space and a quota".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(choices) => choices.join(", "),
            Self::LimitKey => "global, client, path, or header:NAME".to_owned(),
            Self::HeaderName => {
                "letters, digits, and the other characters of header names; no header of HTTP itself, such as host"
                    .to_owned()
            }
            Self::Networks => "prefixes of 8 bits or more of IPv4, 7 of IPv6".to_owned(),
            Self::Paths => "each begins with /, and may end with /*".to_owned(),
        }
    }
}

/// The requirement on a value, for messages.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = self.range();
        match self {
            Self::Count { .. } => write!(f, "a whole number from {range}"),
            Self::Number { .. } => write!(f, "a number from {range}"),
            Self::Duration { .. } => write!(f, "a duration from {range}, such as \"30s\""),
            Self::Quota => write!(f, "a quota such as \"100/s burst 200\", {range}"),
            Self::Percent { .. } => write!(f, "a percentage from {range}, such as \"50%\""),
            Self::Fraction { .. } => write!(f, "a percentage from {range}, such as \"20%\", or the fraction 0.2"),
            Self::Tiers { max } => {
                write!(f, "at most {max} quotas such as \"100/s burst 200\", by the names of tiers or in a list")
            }
            Self::Plans { max } => {
                write!(
                    f,
                    "at most {max} plans by name, each a table of quotas such as \"100/s burst 200\" by dimension"
                )
            }
            Self::FunctionQuotas => {
                f.write_str("a list of functions with quotas such as \"orders.create 100/min burst 20\"")
            }
            Self::Choice(_) => write!(f, "one of {range}"),
            Self::Flag | Self::LimitKey => f.write_str(&range),
            Self::HeaderName => f.write_str("the name of a header such as \"x-name\""),
            Self::Networks => {
                f.write_str("a list of networks such as \"10.0.0.0/8\", at least 8 bits of IPv4 or 7 of IPv6")
            }
            Self::Paths => f.write_str("a list of paths such as \"/healthz\", or \"/health/*\" for all below one"),
        }
    }
}

/// Writes a fraction as the percentage that is read as the same fraction: 0.07 is `7%`.
///
/// `None` if no short percentage is.
pub(crate) fn exact_percentage(fraction: f64) -> Option<String> {
    let percent = fraction * 100.0;
    // 0.07 * 100 is 7.000000000000001, so the shortest text is searched that stands for the fraction.
    let mut texts = (0..=17).map(|places| format!("{percent:.places$}"));
    let is_exact =
        |text: &String| text.parse().is_ok_and(|percent: f64| (percent / 100.0).to_bits() == fraction.to_bits());
    texts.find(is_exact).map(|text| format!("{text}%"))
}

/// Writes a fraction as a percentage.
pub(crate) fn in_percent(fraction: f64) -> String {
    exact_percentage(fraction).unwrap_or_else(|| format!("{}%", fraction * 100.0))
}

/// Units of durations with their nanoseconds, the largest first.
const UNITS: [(&str, u128); 7] = [
    ("day", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Writes a duration as it is read: `1day 30s`. (The crate humantime would write 30.44 days as a month.)
pub(crate) fn in_words(duration: Duration) -> String {
    let mut left = duration.as_nanos();
    let mut parts = Vec::new();
    for (unit, nanos) in UNITS {
        let count = left / nanos;
        left %= nanos;
        if count > 0 {
            let plural = if unit == "day" && count > 1 { "s" } else { "" };
            parts.push(format!("{count}{unit}{plural}"));
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}
