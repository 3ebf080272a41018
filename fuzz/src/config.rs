//! Settings: any text in three formats, and values of known keys.

use arbitrary::Arbitrary;
use damper::config::{Format, Settings, Sources};
use damper::{BreakerConfig, RateLimiter};
use std::sync::LazyLock;
use std::time::Duration;

/// The input: a text, values in sources of their own, or a table of values.
#[derive(Arbitrary, Debug)]
pub enum ConfigInput<'a> {
    Text {
        format: AnyFormat,
        text: &'a str,
    },
    /// Values of keys that are chosen by number, each in one source of its own.
    Values(Vec<(u16, AnySetting<'a>)>),
    /// The same in one text.
    Table(Vec<(u16, AnySetting<'a>)>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum AnyFormat {
    Toml,
    Json,
    Yaml,
}

/// A value of a setting.
#[derive(Arbitrary, Debug)]
pub enum AnySetting<'a> {
    Text(&'a str),
    Whole(i64),
    Number(f64),
    Duration { count: u64, unit: u8 },
    Quota { limit: u32, window: u16, unit: u8, burst: u32 },
    Flag(bool),
}

const UNITS: [&str; 8] = ["ns", "us", "ms", "s", "min", "h", "day", "month"];

impl AnySetting<'_> {
    fn text(&self) -> String {
        match *self {
            Self::Text(text) => text.to_owned(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => format!("{number:?}"),
            Self::Duration { count, unit } => format!("{count}{}", UNITS[usize::from(unit) % UNITS.len()]),
            Self::Quota { limit, window, unit, burst } => {
                format!("{limit}/{window}{} burst {burst}", UNITS[usize::from(unit) % UNITS.len()])
            }
            Self::Flag(flag) => flag.to_string(),
        }
    }

    fn json(&self) -> String {
        match *self {
            Self::Whole(number) => number.to_string(),
            Self::Number(number) if number.is_finite() => format!("{number:?}"),
            Self::Flag(flag) => flag.to_string(),
            _ => serde_json::Value::from(self.text()).to_string(),
        }
    }
}

static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| Settings::keys().into_iter().map(|key| key.path).collect());

fn key(number: u16) -> &'static str {
    &KEYS[usize::from(number) % KEYS.len()]
}

/// # Panics
///
/// If strict and normalized reading disagree, if normalized settings do not protect, or if they cannot be written and read back.
pub fn config(input: ConfigInput<'_>) {
    let sources = match input {
        ConfigInput::Text { format, text } => {
            let format = match format {
                AnyFormat::Toml => Format::Toml,
                AnyFormat::Json => Format::Json,
                AnyFormat::Yaml => Format::Yaml,
            };
            Sources::new().text("text", format, text)
        }
        ConfigInput::Values(values) => (values.iter().take(32))
            .fold(Sources::new(), |sources, (number, value)| sources.value(key(*number), &value.text())),
        ConfigInput::Table(values) => {
            let members = values.iter().take(32).map(|(number, value)| format!("{:?}: {}", key(*number), value.json()));
            Sources::new().text("table", Format::Json, &format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
        }
    };
    let (settings, problems) = sources.normalized();
    match sources.load() {
        Ok(strict) => {
            assert!(problems.is_empty(), "{problems:?}");
            assert_eq!(strict, settings);
        }
        Err(error) => {
            assert_eq!(error.problems().len(), problems.len(), "{error}");
            for problem in &problems {
                assert!(problem.instead().is_some() && problem.to_string().len() < 1_000, "{problem}");
            }
        }
    }
    assert_protects(&settings);
    if settings != Settings::default() {
        let written = settings.to_toml();
        let again = Sources::new().toml("written", &written).load();
        assert_eq!(again.as_ref(), Ok(&settings), "{written}");
    }
}

fn assert_protects(settings: &Settings) {
    for layers in [&settings.server.http, &settings.server.grpc] {
        let quota = layers.ratelimit.effective_quota();
        assert!(
            !quota.is_unlimited() && quota.limit() > 0 && (1..=10_000_000).contains(&quota.burst_size()),
            "{quota}"
        );
        // At most ten million a second, over any window.
        assert!(u128::from(quota.limit()) * 1_000_000_000 <= 10_000_000 * quota.window().as_nanos(), "{quota}");
        let limiter = RateLimiter::new(quota);
        assert!(limiter.check_n(quota.burst_size()).is_ok() && limiter.check_n(quota.burst_size()).is_err(), "{quota}");
        assert!((1..=1_000_000).contains(&layers.bulkhead.limit()) && layers.admission.fixed_limit() > 0);
        let bounds = layers.adaptive_limit.bounds();
        assert_eq!(
            (bounds.min(), bounds.max()),
            (layers.adaptive_limit.min_limit(), layers.adaptive_limit.max_limit())
        );
    }
    for layers in [&settings.client.http, &settings.client.grpc] {
        let breaker = layers.circuit_breaker.config();
        assert!(breaker.failure_threshold() <= 1_000 && breaker.cooldown() >= Duration::from_millis(1));
        // The builder uses the values that were read, not defaults in their place.
        assert_eq!(breaker.cooldown(), layers.circuit_breaker.cooldown());
        let has_default = layers.circuit_breaker.failure_threshold() == BreakerConfig::DEFAULT.failure_threshold();
        assert_eq!(breaker.failure_threshold() == BreakerConfig::DEFAULT.failure_threshold(), has_default);
        assert_eq!(layers.retry.retry().max_attempts(), layers.retry.max_attempts());
        assert_eq!(layers.hedge.config().max_attempts(), layers.hedge.max_attempts());
    }
}
