//! The formats and the sources: all give the same settings, and each knows where a value stands.

use damper_config::{Format, RateLimitSettings, Settings, Sources};
use std::time::Duration;

const TOML: &str = r#"
[server.http.ratelimit]
requests_per_second = 0.5
burst = 20
key = "header:X-Api-Key"
trusted_proxies = ["10.0.0.0/8", "::1"]

[client.grpc.circuit_breaker]
failure_rate = 50
cooldown = "1m 30s"

[client.http.retry]
jitter = "equal"
"#;

const JSON: &str = r#"{
  "server.http": { "ratelimit": {
      "requests_per_second": 5e-1, "burst": 20.0, "key": "header:x-api-key",
      "trusted_proxies": ["10.0.0.0/8", "::1"]
  } },
  "client": { "grpc": { "circuit_breaker": { "failure_rate": 50, "cooldown": "90s" } }, "http.retry.jitter": "equal" }
}"#;

const YAML: &str = r#"
server:
  http:
    ratelimit:
      requests_per_second: 0.5
      burst: 20
      key: header:x-api-key
      trusted_proxies: [10.0.0.0/8, "::1"]
client:
  grpc.circuit_breaker:
    failure_rate: 50
    cooldown: 1m 30s
  http: {retry: {jitter: equal}}
"#;

const VALUES: [(&str, &str); 7] = [
    ("server.http.ratelimit.requests_per_second", "0.5"),
    ("server.http.ratelimit.burst", "20"),
    ("server.http.ratelimit.key", "header:x-api-key"),
    ("server.http.ratelimit.trusted_proxies", "10.0.0.0/8, ::1"),
    ("client.grpc.circuit_breaker.failure_rate", "50"),
    ("client.grpc.circuit_breaker.cooldown", "90s"),
    ("client.http.retry.jitter", "equal"),
];

#[test]
fn all_formats_give_the_same_settings() {
    let settings = Sources::new().toml("toml", TOML).load().unwrap();
    let limits = &settings.server.http.ratelimit;
    assert_eq!((limits.requests_per_second(), limits.burst()), (0.5, 20));
    assert_eq!(settings.value("server.http.ratelimit.key").as_deref(), Some("\"header:x-api-key\""));
    assert_eq!(limits.effective_quota().to_string(), "1/2s burst 20");
    assert_eq!(settings.client.grpc.circuit_breaker.config().cooldown(), Duration::from_secs(90));
    assert_eq!(settings.client.grpc.circuit_breaker.config().failure_rate(), Some(50));

    assert_eq!(Sources::new().text("json", Format::Json, JSON).load().unwrap(), settings);
    assert_eq!(Sources::new().text("yaml", Format::Yaml, YAML).load().unwrap(), settings);
    let values = VALUES.into_iter().fold(Sources::new(), |sources, (key, value)| sources.value("--option", key, value));
    assert_eq!(values.load().unwrap(), settings);
}

#[test]
fn each_format_knows_the_line_of_a_mistake() {
    for (format, text, expected) in [
        (
            Format::Json,
            "{\n \"server\": {\n  \"http\": {\"ratelimit\": {\"burst\": 0}}}}",
            "app:3:35: server.http.ratelimit.burst is 0,",
        ),
        (Format::Json, "{\n \"server\": {\"http\": nulll}}", "app:2:"),
        (
            Format::Json,
            "{\"server\": {}, \"server\": {\"http\": {\"ratelimit\": {\"burst\": 1, \"burst\": 2}}}}",
            "app:1:71: server.http.ratelimit.burst is given twice",
        ),
        (
            Format::Yaml,
            "server:\n  http:\n    ratelimit: {burst: 0}",
            "app:3:17: server.http.ratelimit.burst is \"0\",",
        ),
        (Format::Yaml, "server:\n  http: [1", "app:"),
        (Format::Yaml, "server: &a\n  http: *a", "app:2:9: aliases are not supported"),
        (Format::Yaml, "a: 1\n---\nb: 2", "app:3:1: expected one document, found another"),
        (Format::Yaml, "? [1]\n: 2", "app:1:3: expected a key that is a text"),
        (Format::Yaml, "server:\n  http: !!int 1", "app:"),
        (Format::Json, "{\"server\": {\"http\": {\"ratelimit\": {\"burst\": }}}}", "app:1:45: expected value"),
        (Format::Json, "[1, ]", "app:1:"),
        (
            Format::Toml,
            "server.http.ratelimit.burst = 1979-05-27",
            "app:1:23: server.http.ratelimit.burst is 1979-05-27,",
        ),
        (Format::Yaml, "- 1", "app:1:1: expected a table of settings, found ["),
        (Format::Json, "[1]", "app:1:1: expected a table of settings, found ["),
    ] {
        let error = Sources::new().text("app", format, text).load().expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}\n{error}");
    }
}

/// A file of comments, and one whose tables are empty, leave all defaults.
#[test]
fn files_without_values_are_the_defaults() {
    for (format, text) in [
        (Format::Yaml, "# nothing is set\n"),
        (Format::Yaml, "---\n"),
        (Format::Yaml, "server:\n  http:\n"),
        (Format::Json, "{}"),
        (Format::Json, "{\"server\": {\"http\": null}}"),
        (Format::Toml, "[server.http]\n"),
    ] {
        assert_eq!(Sources::new().text("app", format, text).load().unwrap(), Settings::default(), "{text}");
    }
}

#[test]
fn columns_count_characters_and_start_at_the_line() {
    let error = |text: &str| Sources::new().text("app", Format::Json, text).load().expect_err(text).to_string();
    let umlauts = error(r#"{"server": {"http": {"größe": 1, "ratelimit": {"burst": 0}}}}"#);
    assert!(umlauts.contains("app:1:57: server.http.ratelimit.burst is 0,"), "{umlauts}");
    // Spaces before the first brace move the first line only.
    let broken = "{\n \"server\": nulll}";
    assert_eq!(error(&format!("    {broken}")), error(broken));
}

#[test]
fn deep_nesting_is_an_error_in_each_format() {
    let deep = |open: &str, inner: &str, close: &str| open.repeat(5_000) + inner + &close.repeat(5_000);
    for (format, text) in [
        (Format::Toml, "a = ".to_owned() + &deep("[", "", "]")),
        (Format::Toml, deep("a.", "a = 1", "")),
        (Format::Json, deep("{\"a\":", "1", "}")),
        (Format::Json, "{\"a\":".to_owned() + &deep("[", "", "]") + "}"),
        (Format::Yaml, deep("{a: ", "1", "}")),
        (Format::Yaml, deep("- ", "1", "")),
    ] {
        let error = Sources::new().text("app", format, &text).load().unwrap_err().to_string();
        assert!(!error.is_empty() && error.len() < 300, "{error}");
    }
}

#[test]
fn a_later_quota_overrides_rate_and_burst_but_not_the_other_way_round() {
    let quota = Sources::new().toml("file", "server.http.ratelimit.burst = 5").value(
        "--option",
        "server.http.ratelimit.quota",
        "7/min",
    );
    assert_eq!(quota.load().unwrap().server.http.ratelimit.effective_quota().to_string(), "7/min burst 7");
    let burst = Sources::new().toml("file", "server.http.ratelimit.quota = '7/min'").value(
        "--option",
        "server.http.ratelimit.burst",
        "5",
    );
    assert!(burst.load().is_err());
}

#[test]
fn rates_become_quotas_that_are_never_faster() {
    for rate in [0.001, 0.3, 1.5, 33.3, 999.9, 1234.5, 50.0, 10_000_000.0] {
        let settings = Sources::new()
            .value("--option", "server.http.ratelimit.requests_per_second", &rate.to_string())
            .load()
            .unwrap();
        let quota = settings.server.http.ratelimit.effective_quota();
        let actual = f64::from(quota.limit()) / quota.window().as_secs_f64();
        assert!(actual <= rate * (1.0 + 1e-12) && actual >= rate * 0.999, "{rate}: {quota}");
    }
}

#[test]
fn settings_are_read_by_the_crate_config_with_the_same_checks() {
    let read = |text: &str| {
        config::Config::builder().add_source(config::File::from_str(text, config::FileFormat::Toml)).build()
    };
    let settings: Settings = read(TOML).unwrap().try_deserialize().unwrap();
    assert_eq!(settings, Sources::new().toml("toml", TOML).load().unwrap());

    // A section by itself, anywhere in the settings of a program.
    let limits: RateLimitSettings = read("app.limits.burst = 3").unwrap().get("app.limits").unwrap();
    assert_eq!(limits.burst(), 3);

    let error = read("[server.http.ratelimit]\nburst = 0").unwrap().try_deserialize::<Settings>().unwrap_err();
    let expected = "server.http.ratelimit.burst is 0, it must be a whole number from 1 to 10000000";
    assert!(error.to_string().contains(expected), "{error}");
}

/// Each crate for serde has its own kinds of numbers, and its own kinds of nothing.
#[test]
fn values_of_every_kind_are_read_from_another_crate() {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, MapDeserializer};
    use serde::{Deserialize, Deserializer};

    /// A value in the form in which a deserializer gives it.
    enum Given {
        Flag(bool),
        Small(u8),
        Signed(i64),
        Wide(u128),
        WideSigned(i128),
        Nothing,
        Unit,
        Some(Box<Given>),
        Newtype(Box<Given>),
    }

    impl<'de> Deserializer<'de> for Given {
        type Error = Error;

        fn deserialize_any<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self {
                Self::Flag(flag) => visitor.visit_bool(flag),
                Self::Small(number) => visitor.visit_u8(number),
                Self::Signed(number) => visitor.visit_i64(number),
                Self::Wide(number) => visitor.visit_u128(number),
                Self::WideSigned(number) => visitor.visit_i128(number),
                Self::Nothing => visitor.visit_none(),
                Self::Unit => visitor.visit_unit(),
                Self::Some(given) => visitor.visit_some(*given),
                Self::Newtype(given) => visitor.visit_newtype_struct(*given),
            }
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
        }
    }

    impl IntoDeserializer<'_> for Given {
        type Deserializer = Self;

        fn into_deserializer(self) -> Self {
            self
        }
    }

    let read = |key: &'static str, given: Given| {
        Settings::deserialize(MapDeserializer::new([(key, given)].into_iter())).map_err(|error| error.to_string())
    };
    assert!(!read("client.http.stack.retry", Given::Flag(false)).unwrap().client.http.stack.retry());
    let burst =
        |given| read("server.http.ratelimit.burst", given).map(|settings| settings.server.http.ratelimit.burst());
    let default = Settings::default().server.http.ratelimit.burst();
    for (given, expected) in [
        (Given::Small(7), 7),
        (Given::Signed(7), 7),
        (Given::Wide(7), 7),
        (Given::WideSigned(7), 7),
        (Given::Some(Box::new(Given::Small(7))), 7),
        (Given::Newtype(Box::new(Given::Wide(7))), 7),
    ] {
        assert_eq!(burst(given), Ok(expected));
    }
    for (given, shown) in [
        (Given::Flag(true), "true"),
        (Given::Signed(-7), "-7"),
        (Given::Wide(u128::MAX), "340282366920938463463374607431768211455"),
        (Given::WideSigned(i128::MIN), "-170141183460469231731687303715884105728"),
    ] {
        let error = burst(given).unwrap_err();
        assert!(error.contains(&format!("server.http.ratelimit.burst is {shown}, it must be")), "{error}");
    }
    for nothing in [Given::Nothing, Given::Unit] {
        match burst(nothing) {
            Ok(burst) => assert_eq!(burst, default),
            Err(error) => assert!(error.contains("burst is null"), "{error}"),
        }
    }
    let error = Settings::deserialize(Given::Flag(true)).unwrap_err().to_string();
    assert_eq!(error, "expected a table of settings, found true");
}

#[test]
fn variables_override_files_and_their_mistakes_are_named() {
    const CHILD: &str = "DAMPER_CONFIG_TEST_CHILD";
    let name = "variables_override_files_and_their_mistakes_are_named";
    let sources = Sources::new().toml("file", "server.http.ratelimit.burst = 7").environment("APP");
    if std::env::var_os(CHILD).is_some() {
        match sources.load() {
            Ok(settings) => println!("burst {}", settings.server.http.ratelimit.burst()),
            Err(error) => println!("{error}"),
        }
        return;
    }
    // The environment of this process is shared by all tests, so another process has the variables.
    let output = |variables: &[(&str, &str)]| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", &format!("formats::{name}"), "--nocapture"])
            .env(CHILD, "1")
            .envs(variables.iter().copied());
        String::from_utf8(child.output().unwrap().stdout).unwrap()
    };
    let good = output(&[("APP__SERVER__HTTP__RATELIMIT__BURST", "9"), ("APP_HOME", "/srv"), ("OTHER__SERVER", "1")]);
    assert!(good.contains("burst 9\n"), "{good}");
    let bad = output(&[
        ("APP__SERVER__HTTP__RATELIMIT__BURST", "many"),
        ("APP__SERVER__HTTP__RATELIMITS__BURST", "9"),
        ("APP_CLIENT_HTTP_CIRCUIT_BREAKER_COOLDOWN", "1s"),
    ]);
    for expected in [
        "environment variable APP__SERVER__HTTP__RATELIMIT__BURST: server.http.ratelimit.burst is \"many\", it must be a whole number from 1 to 10000000\n",
        "environment variable APP__SERVER__HTTP__RATELIMITS__BURST: server.http.ratelimits.burst is no known key, did you mean server.http.ratelimit.burst?\n",
        "environment variable APP_CLIENT_HTTP_CIRCUIT_BREAKER_COOLDOWN: client_http_circuit_breaker_cooldown is no known key, did you mean client.http.circuit_breaker.cooldown?\n",
    ] {
        assert!(bad.contains(expected), "{bad}");
    }
}

#[test]
fn a_table_of_a_shared_file_is_read_in_each_format() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, text) in [
        ("shared.toml", "name = 'x'\n[app]\nport = 80\n[app.damper.server.http.ratelimit]\nburst = 7\n"),
        ("shared.json", "{\"name\": 1, \"app.damper\": {\"server.http\": {\"ratelimit\": {\"burst\": 7}}}}"),
        ("shared2.json", "{\"app\": {\"damper.server.http\": {\"ratelimit\": {\"burst\": 7}}, \"x\": null}}"),
        ("shared.yaml", "name: x\napp:\n  damper:\n    server: {http: {ratelimit: {burst: 7}}}\n"),
    ] {
        let path = folder.join(format!("formats_{name}"));
        std::fs::write(&path, text).unwrap();
        let settings = Sources::new().file_at(&path, "app.damper").load().unwrap();
        assert_eq!(settings.server.http.ratelimit.burst(), 7, "{name}");
        let error = Sources::new().file_at(&path, "app.dampr").load().unwrap_err().to_string();
        assert!(error.ends_with(": the file has no table app.dampr"), "{error}");
        assert!(Sources::new().file(&path).load().is_err(), "{name}");
    }
}

#[test]
fn foreign_names_are_left_alone_and_damper_keeps_its_own() {
    let text =
        "database.url = 'x'\n[server.http]\nport = 80\nratelimit.burst = 0\nratelimit.color = 1\n[tracing.x]\ny = 1";
    let sources = Sources::new().toml("app", text).foreign(["database", "server", "server.http.port", "tracing"]);
    let error = sources.load().unwrap_err().to_string();
    // `server` as a whole cannot be given away: what is known of it is damper's.
    let expected = "app:4:11: server.http.ratelimit.burst is 0, it must be a whole number from 1 to 10000000";
    assert_eq!(error, expected);
    assert!(Sources::new().toml("app", "databases.url = 'x'").foreign(["database"]).load().is_err());
}

#[test]
fn a_file_may_name_its_schema() {
    let text = "{\"$schema\": \"./schema.json\", \"server\": {\"http\": {\"ratelimit\": {\"burst\": 7}}}}";
    assert_eq!(Sources::new().text("app", Format::Json, text).load().unwrap().server.http.ratelimit.burst(), 7);
    let text = "{\"server\": {\"$schema\": \"./schema.json\"}}";
    assert!(Sources::new().text("app", Format::Json, text).load().is_err());
}
