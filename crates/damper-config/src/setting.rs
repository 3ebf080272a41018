//! The types of settings, and how each is read from a value and written.

use crate::kind::{Kind, exact_percentage, in_percent, in_words};
use crate::value::{Position, Value};
use damper_core::Quota;
use damper_core::retry::Jitter;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The reason why a value was refused. The kind of its key states the allowed values.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The reason, if there is more to say.
    pub(crate) why: Option<String>,
    /// The position of the refused element, if the value is a list.
    pub(crate) position: Option<Position>,
}

impl Refusal {
    /// The value is not of its kind.
    pub(crate) const OTHER_KIND: Self = Self { why: None, position: None };

    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), position: None }
    }

    pub(crate) fn at(self, position: Option<Position>) -> Self {
        Self { position, ..self }
    }
}

/// A type of settings.
pub(crate) trait Setting: Sized {
    /// Reads a value of this kind.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the value is not of this kind.
    fn read(value: &Value, kind: &Kind) -> Result<Self, Refusal>;

    /// Reads a value over this one. Default: it replaces it.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    fn update(&mut self, value: &Value, kind: &Kind) -> Result<(), Refusal> {
        *self = Self::read(value, kind)?;
        Ok(())
    }

    fn write(&self, kind: &Kind) -> Written;
}

/// A value as TOML and JSON write it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    Number(String),
    Text(String),
    Flag(bool),
    List(Vec<String>),
    /// Names with texts.
    Table(Vec<(String, String)>),
    /// The key has no value.
    Unset,
}

impl Written {
    /// Writes the value as TOML does, and JSON too except for a table; `None` if there is none.
    pub(crate) fn literal(&self) -> Option<String> {
        Some(match self {
            Self::Number(number) => number.clone(),
            Self::Text(text) => quoted(text),
            Self::Flag(flag) => flag.to_string(),
            Self::List(texts) => format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")),
            Self::Table(members) if members.is_empty() => "{}".to_owned(),
            // An inline table of TOML.
            Self::Table(members) => {
                let members: Vec<_> = members.iter().map(|(name, text)| format!("{name} = {}", quoted(text))).collect();
                format!("{{ {} }}", members.join(", "))
            }
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

/// Reads a number with the sign of percent.
fn percent(value: &Value) -> Option<f64> {
    let digits = text(value)?.strip_suffix('%')?.trim_end();
    // No exponent, no infinity.
    let is_plain = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    if is_plain { digits.parse().ok() } else { None }
}

/// Reads a whole percentage, with or without its sign.
fn whole_percent(value: &Value) -> Result<Option<i128>, Refusal> {
    if let Some(percent) = percent(value) {
        return Ok((percent.fract() == 0.0 && percent <= 9_007_199_254_740_992.0).then_some(percent as i128));
    }
    let fraction = number(value).and_then(|text| text.parse::<f64>().ok());
    match fraction.filter(|fraction| *fraction > 0.0 && *fraction < 1.0) {
        Some(fraction) => {
            Err(Refusal::because(format!("a part of {fraction} is written \"{}\"", in_percent(fraction))))
        }
        None => Ok(whole(value)),
    }
}

fn number(value: &Value) -> Option<&str> {
    match value {
        Value::Number(text) => Some(text),
        Value::Untyped(text) => Some(text.trim()),
        _ => None,
    }
}

pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) | Value::Untyped(text) => Some(text.trim()),
        _ => None,
    }
}

impl Setting for u32 {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Refusal> {
        let (min, max, whole) = match *kind {
            Kind::Count { min, max } => (min, max, whole(value)),
            Kind::Percent { min, max } => (min, max, whole_percent(value)?),
            _ => return Err(Refusal::OTHER_KIND),
        };
        let whole = whole.ok_or(Refusal::OTHER_KIND)?;
        Self::try_from(whole).ok().filter(|whole| (min..=max).contains(whole)).ok_or(Refusal::OTHER_KIND)
    }

    fn write(&self, kind: &Kind) -> Written {
        match kind {
            Kind::Percent { .. } => Written::Text(format!("{self}%")),
            _ => Written::Number(self.to_string()),
        }
    }
}

impl Setting for f64 {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Refusal> {
        let is_fraction = matches!(kind, Kind::Fraction { .. });
        let (Kind::Number { min, max } | Kind::Fraction { min, max }) = *kind else { return Err(Refusal::OTHER_KIND) };
        let percent = if is_fraction { percent(value).map(|percent| percent / 100.0) } else { None };
        let plain = || number(value).and_then(|text| text.parse().ok());
        let number: f64 = percent.or_else(plain).ok_or(Refusal::OTHER_KIND)?;
        // Neither NaN nor the infinities are in the range.
        if number >= min && number <= max {
            return Ok(number);
        }
        if is_fraction && percent.is_none() && (min..=max).contains(&(number / 100.0)) {
            return Err(Refusal::because(format!("{number} percent are written \"{number}%\"")));
        }
        Err(Refusal::OTHER_KIND)
    }

    fn write(&self, kind: &Kind) -> Written {
        match (kind, exact_percentage(*self)) {
            (Kind::Fraction { .. }, Some(percentage)) => Written::Text(percentage),
            _ => Written::Number(format!("{self:?}")),
        }
    }
}

impl Setting for Duration {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Refusal> {
        let &Kind::Duration { min, max } = kind else { return Err(Refusal::OTHER_KIND) };
        if number(value).is_some_and(|text| text.parse::<f64>().is_ok()) {
            return Err(Refusal::because("a number needs a unit"));
        }
        let text = text(value).ok_or(Refusal::OTHER_KIND)?;
        // A user who writes `1M` may mean a minute, and months and years have no fixed length.
        if let Some(unit) = text.split(|c: char| !c.is_ascii_alphabetic()).find(|unit| is_month_or_year(unit)) {
            return Err(Refusal::because(format!(
                "{unit} is no unit here: m is a minute, and a month is given in days"
            )));
        }
        let duration = humantime::parse_duration(text).map_err(|error| Refusal::because(error.to_string()))?;
        if (min..=max).contains(&duration) { Ok(duration) } else { Err(Refusal::OTHER_KIND) }
    }

    fn write(&self, _: &Kind) -> Written {
        Written::Text(in_words(*self))
    }
}

fn is_month_or_year(unit: &str) -> bool {
    ["M", "month", "months", "y", "yr", "yrs", "year", "years"].contains(&unit)
}

impl Setting for Quota {
    fn read(value: &Value, _: &Kind) -> Result<Self, Refusal> {
        let text = text(value).ok_or(Refusal::OTHER_KIND)?;
        // Only calls of the program can allow a debt.
        if text.contains("max_debt") {
            return Err(Refusal::because("max_debt is not read from settings"));
        }
        let quota: Self = text.parse().map_err(|error| Refusal::because(format!("{error}")))?;
        let window = quota.window().as_nanos();
        // Compares whole numbers: the limit per window with the maximum for the same window.
        let is_slow_enough =
            u128::from(quota.limit()) * 1_000_000_000 <= u128::from(Kind::MAX_RATE).saturating_mul(window);
        let is_limit = !quota.is_unlimited() && quota.limit() > 0 && is_slow_enough;
        if is_limit && (1..=Kind::MAX_RATE).contains(&quota.burst_size()) {
            Ok(quota)
        } else {
            Err(Refusal::OTHER_KIND)
        }
    }

    fn write(&self, _: &Kind) -> Written {
        Written::Text(self.to_string())
    }
}

impl Setting for bool {
    fn read(value: &Value, _: &Kind) -> Result<Self, Refusal> {
        match value {
            Value::Flag(flag) => Ok(*flag),
            Value::Untyped(text) => text.trim().parse().map_err(|_| Refusal::OTHER_KIND),
            _ => Err(Refusal::OTHER_KIND),
        }
    }

    fn write(&self, _: &Kind) -> Written {
        Written::Flag(*self)
    }
}

/// Reads the name of a header, in lower case.
pub(crate) fn header_name(text: &str) -> Result<String, Refusal> {
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if let Some(c) = text.chars().find(|&c| !u8::try_from(c).is_ok_and(is_token)) {
        return Err(Refusal::because(format!("{c:?} is no character of header names")));
    }
    if !(1..=256).contains(&text.len()) {
        return Err(Refusal::because(format!("a name has 1 to 256 characters, this has {}", text.len())));
    }
    Ok(text.to_ascii_lowercase())
}

/// Headers without which HTTP cannot deliver or read a message, and those with credentials.
///
/// A stack must not own them.
const STANDARD_HEADERS: [&str; 16] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "grpc-status",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The name of a header that a stack owns.
///
/// The stack writes it, and removes it from messages of callers that are not trusted.
impl Setting for String {
    fn read(value: &Value, _: &Kind) -> Result<Self, Refusal> {
        let name = header_name(text(value).ok_or(Refusal::OTHER_KIND)?)?;
        if STANDARD_HEADERS.contains(&name.as_str()) {
            return Err(Refusal::because(format!("{name} is a header of HTTP itself")));
        }
        Ok(name)
    }

    fn write(&self, _: &Kind) -> Written {
        Written::Text(self.clone())
    }
}

/// A key that may be absent.
impl<T: Setting> Setting for Option<T> {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Refusal> {
        T::read(value, kind).map(Some)
    }

    fn write(&self, kind: &Kind) -> Written {
        self.as_ref().map_or(Written::Unset, |value| value.write(kind))
    }
}

/// A type with a few named values.
pub(crate) trait Choice {
    /// The kind of a key with such a value.
    const KIND: Kind;
}

/// Implements `Choice` with the names of the values, in the order of the reference.
macro_rules! choice {
    ($type:ty { $($name:literal => $value:expr,)+ }) => {
        impl $crate::setting::Choice for $type {
            const KIND: $crate::kind::Kind = $crate::kind::Kind::Choice(&[$($name),+]);
        }

        impl $crate::setting::Setting for $type {
            fn read(value: &$crate::value::Value, _: &$crate::kind::Kind) -> Result<Self, $crate::setting::Refusal> {
                match $crate::setting::text(value).ok_or($crate::setting::Refusal::OTHER_KIND)? {
                    $($name => Ok($value),)+
                    _ => Err($crate::setting::Refusal::OTHER_KIND),
                }
            }

            fn write(&self, _: &$crate::kind::Kind) -> $crate::setting::Written {
                let name = [$(($name, $value)),+].into_iter().find_map(|(name, value)| (value == *self).then_some(name));
                $crate::setting::Written::Text(name.unwrap_or_default().to_owned())
            }
        }
    };
}

pub(crate) use choice;

choice! { Jitter {
    "full" => Jitter::Full,
    "equal" => Jitter::Equal,
    "decorrelated" => Jitter::Decorrelated,
    "proportional" => Jitter::PROPORTIONAL,
    "none" => Jitter::None,
} }

/// Returns the texts of a list with their positions. A variable separates them with commas.
pub(crate) fn texts(value: &Value) -> Result<Vec<(&str, Option<Position>)>, Refusal> {
    match value {
        Value::List(elements) => {
            let texts = elements.iter().map(|element| {
                let text = text(&element.value).ok_or(Refusal::OTHER_KIND.at(element.position))?;
                Ok((text, element.position))
            });
            texts.collect()
        }
        Value::Untyped(all) => {
            Ok(all.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| (part, None)).collect())
        }
        _ => Err(Refusal::OTHER_KIND),
    }
}

/// Reads the quota of an element. The refusal shows the element.
pub(crate) fn quota_in(element: &str, quota: &str) -> Result<Quota, Refusal> {
    Quota::read(&Value::Text(quota.to_owned()), &Kind::Quota).map_err(|Refusal { why, .. }| {
        let why = why.unwrap_or_else(|| Kind::Quota.range());
        Refusal::because(format!("{element:?}: {why}"))
    })
}

/// Reads a name, a space, and a quota.
fn named_quota(text: &str) -> Result<(&str, Quota), Refusal> {
    let (name, quota) = text
        .split_once(char::is_whitespace)
        .ok_or_else(|| Refusal::because(format!("{text:?} is no name with a quota")))?;
    Ok((name, quota_in(text, quota)?))
}

/// The quotas of functions.
impl Setting for BTreeMap<String, Quota> {
    fn read(value: &Value, _: &Kind) -> Result<Self, Refusal> {
        let mut quotas = Self::new();
        for (text, at) in texts(value)? {
            let (name, quota) = named_quota(text).map_err(|refusal| refusal.at(at))?;
            if quotas.insert(name.to_owned(), quota).is_some() {
                return Err(Refusal::because(format!("{name:?} is given twice")).at(at));
            }
        }
        Ok(quotas)
    }

    fn write(&self, _: &Kind) -> Written {
        Written::List(self.iter().map(|(name, quota)| format!("{name} {quota}")).collect())
    }
}

/// Reads a network with the parser of damper-http.
///
/// The standard library refuses leading zeros, which other parsers take for octal numbers.
fn network(text: &str) -> Option<ipnet::IpNet> {
    match text.split_once('/') {
        Some((address, prefix)) => ipnet::IpNet::new(address.parse().ok()?, prefix.parse().ok()?).ok(),
        None => text.parse::<IpAddr>().ok().map(Into::into),
    }
}

/// Returns the prefix length of the largest private network: `10.0.0.0/8` or `fc00::/7`.
///
/// A larger network contains addresses of clients.
fn shortest_prefix(network: &ipnet::IpNet) -> u8 {
    const MAPPED: Ipv6Addr = Ipv4Addr::UNSPECIFIED.to_ipv6_mapped();
    match network {
        ipnet::IpNet::V4(_) => 8,
        // A network of IPv4-mapped addresses, or one that contains all of them.
        ipnet::IpNet::V6(v6) if v6.contains(&MAPPED) || v6.addr().to_ipv4_mapped().is_some() => 96 + 8,
        ipnet::IpNet::V6(_) => 7,
    }
}

/// Reads a network that is small enough for all its addresses to be trusted.
fn trusted_network(text: &str) -> Result<ipnet::IpNet, Refusal> {
    let network = network(text).ok_or_else(|| Refusal::because(format!("{text:?} is no network")))?;
    let shortest = shortest_prefix(&network);
    // A client in a trusted network can choose its address by its headers.
    if network.prefix_len() < shortest {
        let why = format!("{text} would trust too many clients, the shortest prefix is {shortest} bits");
        return Err(Refusal::because(why));
    }
    Ok(network)
}

/// Networks of trusted proxies.
impl Setting for Vec<ipnet::IpNet> {
    fn read(value: &Value, _: &Kind) -> Result<Self, Refusal> {
        let networks = texts(value)?.into_iter();
        networks.map(|(text, at)| trusted_network(text).map_err(|refusal| refusal.at(at))).collect()
    }

    fn write(&self, _: &Kind) -> Written {
        Written::List(self.iter().map(ToString::to_string).collect())
    }
}

/// Reads a path, or one that ends with `/*`.
fn path_pattern(text: &str) -> Result<String, Refusal> {
    let refusal = |why| Err(Refusal::because(format!("{text:?} {why}")));
    let exact = text.strip_suffix('*').unwrap_or(text);
    if !text.starts_with('/') {
        refusal("does not begin with /")
    } else if text == "/*" {
        refusal("would exempt every request")
    } else if exact.len() < text.len() && !exact.ends_with('/') || exact.contains('*') {
        refusal("has a * elsewhere than at the end, after a /")
    } else if exact.contains(|c: char| c.is_whitespace() || c.is_control() || c == '?' || c == '#') {
        refusal("is no path: it has a space, a query or a fragment")
    } else {
        Ok(text.to_owned())
    }
}

/// Paths.
impl Setting for Vec<String> {
    fn read(value: &Value, _: &Kind) -> Result<Self, Refusal> {
        let texts = texts(value)?.into_iter();
        texts.map(|(text, at)| path_pattern(text).map_err(|refusal| refusal.at(at))).collect()
    }

    fn write(&self, _: &Kind) -> Written {
        Written::List(self.clone())
    }
}
