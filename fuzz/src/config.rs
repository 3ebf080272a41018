//! Settings: any text in three formats, and values of known keys.

use arbitrary::Arbitrary;
use damper::RateLimiter;
use damper::config::{Format, Settings, Sources};
use damper::throttle::Hints;
use std::sync::LazyLock;
use std::time::Duration;

/// The input: a text, values in separate sources, or a table of values.
#[derive(Arbitrary, Debug)]
pub enum ConfigInput<'a> {
    Text {
        format: AnyFormat,
        text: &'a str,
    },
    /// Values of keys chosen by number, each in a separate source.
    Values(Vec<(u16, AnySetting<'a>)>),
    /// The same values in one text.
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
    Duration {
        count: u64,
        unit: u8,
    },
    Quota {
        limit: u32,
        window: u16,
        unit: u8,
        burst: u32,
    },
    QuotaWithDebt {
        limit: u16,
        burst: u32,
        max_debt: u32,
    },
    Flag(bool),
    /// Picks a text from a short list: keys of limits, algorithms, jitters, parts of stacks.
    Choice(u8),
    List(Vec<AnySetting<'a>>),
}

const CHOICES: [&str; 28] = [
    "global",
    "client",
    "path",
    "header:x-id",
    "token_bucket",
    "leaky_bucket",
    "fixed_window",
    "sliding_counter",
    "sliding_log",
    "full",
    "decorrelated",
    "none",
    "bulkhead",
    "adaptive_limit",
    "admission",
    "orders.create 5/s burst 9",
    "remaining_decrease",
    "gradual_decrease",
    "exponential_backoff",
    "cubic_rate",
    "utc",
    "forwarded",
    "deny_new",
    "on_all_responses_with_x",
    "50%",
    "2.5 %",
    "/healthz",
    "/health/*",
];

const DAY: Duration = Duration::from_hours(24);

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
            Self::QuotaWithDebt { limit, burst, max_debt } => format!("{limit}/s burst {burst} max_debt {max_debt}"),
            Self::Flag(flag) => flag.to_string(),
            Self::Choice(number) => CHOICES[usize::from(number) % CHOICES.len()].to_owned(),
            Self::List(ref values) => values.iter().take(20).map(Self::text).collect::<Vec<_>>().join(","),
        }
    }

    fn json(&self) -> String {
        match *self {
            Self::Whole(number) => number.to_string(),
            Self::Number(number) if number.is_finite() => format!("{number:?}"),
            Self::Flag(flag) => flag.to_string(),
            Self::List(ref values) => {
                format!("[{}]", values.iter().take(20).map(Self::json).collect::<Vec<_>>().join(","))
            }
            _ => serde_json::Value::from(self.text()).to_string(),
        }
    }
}

static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tiers = ["free", "pro.quota"].map(|tier| format!("server.http.ratelimit.tiers.{tier}"));
    Settings::keys().into_iter().map(|key| key.path).chain(tiers).collect()
});

fn key(number: u16) -> &'static str {
    &KEYS[usize::from(number) % KEYS.len()]
}

/// # Panics
///
/// If strict and normalized reading disagree, if normalized settings do not protect, or if settings cannot be written
/// and read back.
pub fn config(input: ConfigInput<'_>) {
    let says_false = match &input {
        ConfigInput::Text { .. } => true,
        ConfigInput::Values(values) | ConfigInput::Table(values) => {
            values.iter().any(|(_, value)| value.text().trim() == "false")
        }
    };
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
            .fold(Sources::new(), |sources, (number, value)| sources.value("value", key(*number), &value.text())),
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
                // Values and reasons are shortened to a number of characters.
                assert!(problem.instead().is_some() && problem.to_string().chars().count() < 1_000, "{problem}");
            }
        }
    }
    assert_protects(&settings);
    // Only an explicit setting switches a part of a stack off.
    for (server, client) in
        [(&settings.server.http, &settings.client.http), (&settings.server.grpc, &settings.client.grpc)]
    {
        let (server, client) = (&server.stack, &client.stack);
        let is_on =
            [server.deadline(), server.ratelimit(), client.deadline(), client.circuit_breaker(), client.retry()];
        assert!(says_false || is_on.into_iter().all(|is_on| is_on), "{server:?} {client:?}");
    }
    if settings != Settings::default() {
        let written = settings.to_toml();
        let again = Sources::new().toml("written", &written).load();
        assert_eq!(again.as_ref(), Ok(&settings), "{written}");
    }
}

fn assert_protects(settings: &Settings) {
    // The built parts have the settings that were read, not the defaults.
    assert_eq!(settings.buildable(), Ok(()));
    for layers in [&settings.server.http, &settings.server.grpc] {
        let quota = layers.ratelimit.effective_quota();
        assert!(
            !quota.is_unlimited() && quota.limit() > 0 && (1..=10_000_000).contains(&quota.burst_size()),
            "{quota}"
        );
        // At most ten million a second, in any window.
        assert!(u128::from(quota.limit()) * 1_000_000_000 <= 10_000_000 * quota.window().as_nanos(), "{quota}");
        let limiter = RateLimiter::new(quota);
        assert!(limiter.check_n(quota.burst_size()).is_ok() && limiter.check_n(quota.burst_size()).is_err(), "{quota}");
        let all = quota.burst_size().max(quota.limit());
        let limiter = layers.ratelimit.any_limiter().expect("the limiter can be built");
        assert!(limiter.try_acquire(all).is_err() || limiter.try_acquire(all).is_err(), "{:?}", layers.ratelimit);
        // A table for many keys takes long to build.
        if layers.ratelimit.max_keys() <= 10_000 {
            layers.ratelimit.limit().expect("a limit by this key can be built");
        }
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
        assert_eq!(breaker.cooldown(), layers.circuit_breaker.cooldown());
        assert_eq!(layers.retry.retry().max_attempts(), layers.retry.max_attempts());
        assert_eq!(layers.hedge.config().max_attempts(), layers.hedge.max_attempts());
        let pacer = layers.pacing.pacer();
        let sleep = pacer.answered(&Hints::REJECTED).expect("a rejected call is repeated");
        let longest = layers.pacing.max_sleep().unwrap_or(DAY);
        // Up to a tenth more at random, rounded up.
        assert!(sleep <= longest + longest / 10 + Duration::from_micros(1), "{sleep:?} {:?}", layers.pacing);
    }
}
