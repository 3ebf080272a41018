//! The types of settings: how each is read from a value, and written.

use crate::kind::{Kind, in_words};
use crate::value::Value;
use damper_core::Quota;
use damper_core::retry::Jitter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Why a value was refused, beyond not being of its kind.
pub(crate) type Why = Option<String>;

/// A type of settings.
pub(crate) trait Setting: Sized {
    /// Reads a value of this kind.
    ///
    /// # Errors
    ///
    /// Why it is none, if there is more to say than what the kind says.
    fn read(value: &Value, kind: &Kind) -> Result<Self, Why>;

    fn write(&self) -> Written;
}

/// A value as TOML and JSON have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    Number(String),
    Text(String),
    Flag(bool),
    List(Vec<String>),
    /// The key has no value.
    Unset,
}

impl Written {
    /// Writes the value as TOML and JSON do; `None` if there is none.
    pub(crate) fn literal(&self) -> Option<String> {
        Some(match self {
            Self::Number(number) => number.clone(),
            Self::Text(text) => quoted(text),
            Self::Flag(flag) => flag.to_string(),
            Self::List(texts) => format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")),
            Self::Unset => return None,
        })
    }

    /// Writes the value for messages and tables.
    pub(crate) fn shown(&self) -> String {
        self.literal().unwrap_or_else(|| "unset".to_owned())
    }
}

/// Quotes a text so that both TOML and JSON read it.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Reads a whole number. Formats with one type of number may write it with a fraction of zero.
fn whole(value: &Value) -> Option<i128> {
    let text = number(value)?;
    if let Ok(whole) = text.parse() {
        return Some(whole);
    }
    let number: f64 = text.parse().ok()?;
    // Each whole number up to 2^53 is exact.
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i128)
}

fn number(value: &Value) -> Option<&str> {
    match value {
        Value::Number(text) => Some(text),
        Value::Untyped(text) => Some(text.trim()),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) | Value::Untyped(text) => Some(text.trim()),
        _ => None,
    }
}

impl Setting for u32 {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Why> {
        let &Kind::Count { min, max } = kind else { return Err(None) };
        let whole = whole(value).ok_or(None)?;
        Self::try_from(whole).ok().filter(|whole| (min..=max).contains(whole)).ok_or(None)
    }

    fn write(&self) -> Written {
        Written::Number(self.to_string())
    }
}

impl Setting for f64 {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Why> {
        let &Kind::Number { min, max } = kind else { return Err(None) };
        let number: f64 = number(value).and_then(|text| text.parse().ok()).ok_or(None)?;
        // Neither NaN nor the infinities are in the range.
        if number >= min && number <= max { Ok(number) } else { Err(None) }
    }

    fn write(&self) -> Written {
        Written::Number(format!("{self:?}"))
    }
}

impl Setting for Duration {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Why> {
        let &Kind::Duration { min, max } = kind else { return Err(None) };
        if number(value).is_some_and(|text| text.parse::<f64>().is_ok()) {
            return Err(Some("a number needs a unit".to_owned()));
        }
        let text = text(value).ok_or(None)?;
        // `1M` is meant as a minute, and a month or a year has no fixed length.
        if let Some(unit) = text.split(|c: char| !c.is_ascii_alphabetic()).find(|unit| is_month_or_year(unit)) {
            return Err(Some(format!("{unit} is no unit here: m is a minute, and a month is given in days")));
        }
        let duration = humantime::parse_duration(text).map_err(|error| Some(error.to_string()))?;
        if (min..=max).contains(&duration) { Ok(duration) } else { Err(None) }
    }

    fn write(&self) -> Written {
        Written::Text(in_words(*self))
    }
}

fn is_month_or_year(unit: &str) -> bool {
    ["M", "month", "months", "y", "yr", "yrs", "year", "years"].contains(&unit)
}

impl Setting for Quota {
    fn read(value: &Value, _: &Kind) -> Result<Self, Why> {
        let quota: Self = text(value).ok_or(None)?.parse().map_err(|error| Some(format!("{error}")))?;
        let window = quota.window().as_nanos();
        // In whole numbers: limit per window, and the most in the same window.
        let is_slow_enough =
            u128::from(quota.limit()) * 1_000_000_000 <= u128::from(Kind::MAX_RATE).saturating_mul(window);
        let is_limit = !quota.is_unlimited() && quota.limit() > 0 && is_slow_enough;
        if is_limit && (1..=Kind::MAX_RATE).contains(&quota.burst_size()) { Ok(quota) } else { Err(None) }
    }

    fn write(&self) -> Written {
        Written::Text(self.to_string())
    }
}

impl Setting for bool {
    fn read(value: &Value, _: &Kind) -> Result<Self, Why> {
        match value {
            Value::Flag(flag) => Ok(*flag),
            Value::Untyped(text) => text.trim().parse().map_err(|_| None),
            _ => Err(None),
        }
    }

    fn write(&self) -> Written {
        Written::Flag(*self)
    }
}

/// A key that may be absent.
impl<T: Setting> Setting for Option<T> {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Why> {
        T::read(value, kind).map(Some)
    }

    fn write(&self) -> Written {
        self.as_ref().map_or(Written::Unset, T::write)
    }
}

/// The names of jitters, in the order of the reference.
pub(crate) const JITTERS: [(&str, Jitter); 5] = [
    ("full", Jitter::Full),
    ("equal", Jitter::Equal),
    ("decorrelated", Jitter::Decorrelated),
    ("proportional", Jitter::Proportional),
    ("none", Jitter::None),
];

impl Setting for Jitter {
    fn read(value: &Value, _: &Kind) -> Result<Self, Why> {
        let text = text(value).ok_or(None)?;
        JITTERS.into_iter().find_map(|(name, jitter)| (name == text).then_some(jitter)).ok_or(None)
    }

    fn write(&self) -> Written {
        let name = JITTERS.into_iter().find_map(|(name, jitter)| (jitter == *self).then_some(name));
        Written::Text(name.unwrap_or_default().to_owned())
    }
}

/// Returns the texts of a list; a variable has them between commas.
fn texts(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::List(values) => values.iter().map(text).collect(),
        Value::Untyped(all) => Some(all.split(',').map(str::trim).filter(|part| !part.is_empty()).collect()),
        _ => None,
    }
}

impl Setting for Vec<Quota> {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Why> {
        let &Kind::Quotas { max } = kind else { return Err(None) };
        let texts = texts(value).filter(|texts| texts.len() <= max).ok_or(None)?;
        texts
            .into_iter()
            .map(|text| {
                let problem = |why: Why| {
                    let why = why.unwrap_or_else(|| Kind::Quota.range());
                    Some(format!("{text:?}: {why}"))
                };
                Quota::read(&Value::Text(text.to_owned()), &Kind::Quota).map_err(problem)
            })
            .collect()
    }

    fn write(&self) -> Written {
        Written::List(self.iter().map(Quota::to_string).collect())
    }
}

/// Reads a network as damper-http does: the standard library refuses leading zeros, which others take for octal numbers.
fn network(text: &str) -> Option<ipnet::IpNet> {
    match text.split_once('/') {
        Some((address, prefix)) => ipnet::IpNet::new(address.parse().ok()?, prefix.parse().ok()?).ok(),
        None => text.parse::<IpAddr>().ok().map(Into::into),
    }
}

/// The largest private networks: `10.0.0.0/8` and `fc00::/7`. One that is larger has addresses of clients.
fn shortest_prefix(network: &ipnet::IpNet) -> u8 {
    const MAPPED: Ipv6Addr = Ipv4Addr::UNSPECIFIED.to_ipv6_mapped();
    match network {
        ipnet::IpNet::V4(_) => 8,
        // IPv4 in IPv6, or a network that has all of it.
        ipnet::IpNet::V6(v6) if v6.contains(&MAPPED) || v6.addr().to_ipv4_mapped().is_some() => 96 + 8,
        ipnet::IpNet::V6(_) => 7,
    }
}

/// Networks of trusted proxies.
impl Setting for Vec<ipnet::IpNet> {
    fn read(value: &Value, _: &Kind) -> Result<Self, Why> {
        let networks = texts(value).ok_or(None)?.into_iter().map(|text| {
            let network = network(text).ok_or_else(|| Some(format!("{text:?} is no network")))?;
            let shortest = shortest_prefix(&network);
            // A client in it chooses its address by its headers.
            if network.prefix_len() < shortest {
                return Err(Some(format!(
                    "{text} would trust too many clients, the shortest prefix is {shortest} bits"
                )));
            }
            Ok(network)
        });
        networks.collect()
    }

    fn write(&self) -> Written {
        Written::List(self.iter().map(ToString::to_string).collect())
    }
}
