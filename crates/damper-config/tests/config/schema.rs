//! The JSON Schema against the loader: both accept the same documents.

use boon::{Compiler, SchemaIndex, Schemas};
use damper_config::{Format, Kind, Settings, Sources, json_schema, sample};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use std::time::Duration;

static SCHEMA: LazyLock<(Schemas, SchemaIndex)> = LazyLock::new(|| {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("schema.json", serde_json::from_str(&json_schema()).unwrap()).unwrap();
    let index = compiler.compile("schema.json", &mut schemas).unwrap();
    (schemas, index)
});

fn is_valid(document: &Value) -> bool {
    SCHEMA.0.validate(document, SCHEMA.1).is_ok()
}

/// Writes a value of a key in nested tables.
fn nested(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, name| {
        let mut table = Map::new();
        table.insert(name.to_owned(), value);
        Value::Object(table)
    })
}

fn is_loaded(document: &Value) -> bool {
    Sources::new().text("app", Format::Json, &document.to_string()).load().is_ok()
}

/// Values of a kind, and whether each is one by itself.
fn values(kind: Kind) -> Vec<(Value, bool)> {
    let words = |duration: Duration| json!(format!("{}s {}ns", duration.as_secs(), duration.subsec_nanos()));
    let mut values = match kind {
        Kind::Count { min, max } => vec![
            (json!(min), true),
            (json!(max), true),
            (json!(i64::from(min) - 1), false),
            (json!(i64::from(max) + 1), false),
            (json!(0.5), false),
        ],
        Kind::Number { min, max } => {
            vec![(json!(min), true), (json!(max), true), (json!(min - 1e-4), false), (json!(max + 1e-4), false)]
        }
        Kind::Duration { min, max } => vec![
            (words(min), true),
            (words(max), true),
            (json!("1.5s"), true),
            (json!("1s 5ms"), true),
            (json!(""), false),
            (json!("5 parsecs"), false),
            (json!("30"), false),
            (json!("1M"), false),
            (json!("soon"), false),
        ],
        Kind::Quota => vec![
            (json!("100/s burst 200"), true),
            (json!("5000/h"), true),
            (json!("1/2.5s burst 3"), true),
            (json!("100/s max_debt 5"), false),
            (json!("unlimited"), false),
            (json!("fast"), false),
        ],
        Kind::Percent { min, max } => vec![
            (json!(min), true),
            (json!(format!("{max}%")), true),
            (json!("50.0 %"), true),
            (json!(i64::from(max) + 1), false),
            (json!(0.5), false),
            (json!("50"), false),
        ],
        Kind::Fraction { min, max } => vec![
            (json!(min), true),
            (json!(max), true),
            (json!("2.5%"), true),
            (json!(min - 1e-4), false),
            (json!(max + 1e-4), false),
            (json!("0.2"), false),
        ],
        Kind::Tiers { max } => vec![
            (json!([]), true),
            (json!(["1/s"]), true),
            (json!({ "free": "1/s", "pro": { "quota": "5/minute" } }), true),
            (json!({}), true),
            (json!(vec!["1/s"; max + 1]), false),
            (json!((0..=max).map(|tier| (tier.to_string(), json!("1/s"))).collect::<Map<_, _>>()), false),
            (json!(["x"]), false),
            (json!({ "free": 5 }), false),
            (json!({ "free": { "rate": "1/s" } }), false),
            (json!({ "two words": "1/s" }), false),
        ],
        Kind::Plans { max } => vec![
            (json!({}), true),
            (json!({ "default": { "requests": "1/s" }, "pro": { "requests": "5/minute", "tokens": "9/s" } }), true),
            (json!({ "default": { "requests": "1/s", "two words": "1/s" } }), false),
            (json!({ "default": { "requests": "1/s" }, "two words": { "requests": "1/s" } }), false),
            (json!({ "default": "1/s" }), false),
            (json!({ "default": {} }), false),
            (json!({ "default": { "requests": 5 } }), false),
            (json!({ "default": { "requests": { "quota": "1/s" } } }), false),
            (
                json!((0..=max).map(|plan| (plan.to_string(), json!({ "requests": "1/s" }))).collect::<Map<_, _>>()),
                false,
            ),
            (json!(["1/s"]), false),
        ],
        Kind::FunctionQuotas => {
            vec![(json!(["orders.create 1/s burst 5"]), true), (json!(["orders.create"]), false), (json!([5]), false)]
        }
        Kind::Flag => vec![(json!(true), true), (json!(0), false)],
        Kind::Choice(choices) => choices.iter().map(|choice| (json!(choice), true)).collect(),
        Kind::LimitKey => vec![
            (json!("global"), true),
            (json!("client"), true),
            (json!("path"), true),
            (json!("header:x-id"), true),
            (json!("ip"), false),
            (json!("header:"), false),
        ],
        Kind::HeaderName => vec![(json!("X-Tenant"), true), (json!(""), false), (json!("two\nlines"), false)],
        Kind::Networks => vec![(json!(["10.0.0.0/8"]), true), (json!([5]), false)],
        Kind::Paths => vec![
            (json!([]), true),
            (json!(["/", "/healthz", "/health/*"]), true),
            (json!(["healthz"]), false),
            (json!(["/*"]), false),
            (json!(["/a*"]), false),
            (json!(["/a?b"]), false),
        ],
        other => panic!("no values of {other:?}"),
    };
    if !matches!(kind, Kind::Tiers { .. } | Kind::Plans { .. }) {
        values.push((json!({}), false));
    }
    values.push((json!("no such value"), false));
    values
}

#[test]
fn the_schema_and_the_loader_agree_on_each_key() {
    for key in Settings::keys() {
        for (value, expected) in values(key.kind) {
            let document = nested(&key.path, value);
            assert_eq!(is_valid(&document), expected, "schema: {document}");
            // It may contradict the default of another key, or need another one.
            let loaded = Sources::new().text("app", Format::Json, &document.to_string()).load();
            let is_conflict = loaded.as_ref().is_err_and(|error| {
                let error = error.to_string();
                [" by default", "class_header must be set too", "ramp_shape needs a ramp"]
                    .iter()
                    .any(|part| error.contains(part))
            });
            assert_eq!(loaded.is_ok() || is_conflict, expected, "loader: {document}: {loaded:?}");
        }
    }
}

#[test]
fn the_sample_and_each_default_fit_the_schema() {
    let sample = config::File::from_str(&sample(), config::FileFormat::Toml);
    let document: Value = config::Config::builder().add_source(sample).build().unwrap().try_deserialize().unwrap();
    assert!(is_valid(&document) && is_loaded(&document));
    for key in Settings::keys() {
        if let Some(default) = key.default {
            let document = nested(&key.path, serde_json::from_str(&default).unwrap());
            assert!(is_valid(&document) && is_loaded(&document), "{document}");
        }
    }
    let document = json!({ "$schema": "https://example.com/schema.json" });
    assert!(is_valid(&document) && is_loaded(&document));
}

#[test]
fn both_refuse_what_is_no_key() {
    for document in [
        json!({ "ratelimit": {} }),
        json!({ "server": 5 }),
        json!({ "server": { "http": { "ratelimits": {} } } }),
        json!({ "server": { "http": { "ratelimit": { "brust": 1 } } } }),
        json!({ "server": { "$schema": "x" } }),
    ] {
        assert!(!is_valid(&document) && !is_loaded(&document), "{document}");
    }
}
