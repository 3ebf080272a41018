//! The files generated from the catalogue are checked in, and up to date. `DAMPER_WRITE=1` writes them.

#[path = "../../examples/documents/alerts.rs"]
mod alerts;
#[path = "../../examples/documents/dashboard.rs"]
mod dashboard;
#[path = "../../examples/documents/reference.rs"]
mod reference;

use damper_metrics::catalogue::ALL;
use damper_metrics::{Kind, Metric};
use promql_parser::label::Matchers;
use promql_parser::parser::{self, Expr, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::{env, fs};

/// Returns the checked in file, after it was written if that is asked for.
fn checked_in(name: &str, generated: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if env::var_os("DAMPER_WRITE").is_some() {
        fs::write(&path, generated).unwrap();
    }
    fs::read_to_string(&path).unwrap()
}

#[test]
fn reference_is_what_the_catalogue_says() {
    assert_eq!(checked_in("reference.md", &reference::reference()), reference::reference(), "run with DAMPER_WRITE=1");
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    let mut names = HashSet::new();
    for metric in ALL {
        let name = metric.name();
        assert!(names.insert(name), "{name} is there once");
        assert!(name.starts_with("damper_") && name.bytes().all(|c| matches!(c, b'_' | b'a'..=b'z' | b'0'..=b'9')));
        assert_eq!(name.ends_with("_total"), metric.kind() == Kind::Counter, "{name}");
        assert_eq!(name.ends_with("_seconds"), metric.unit() == metrics::Unit::Seconds, "{name}");
        assert!(!metric.labels().is_empty(), "{name} has the name of its source");
        assert!(metric.help().ends_with('.'), "{name}");
    }
}

/// The series that an expression selects.
#[derive(Default)]
struct Selected(Vec<(String, Matchers)>);

impl ExprVisitor for Selected {
    type Error = ();

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, ()> {
        let mut add = |selector: &VectorSelector| {
            self.0.push((selector.name.clone().expect("a metric is named"), selector.matchers.clone()));
        };
        match expression {
            Expr::VectorSelector(selector) => add(selector),
            Expr::MatrixSelector(matrix) => add(&matrix.vs),
            _ => {}
        }
        Ok(true)
    }
}

/// Parses an expression as Prometheus does, and returns the metrics in it. Their labels exist.
fn metrics_in(expression: &str) -> Vec<&'static Metric> {
    // Grafana fills these in.
    let text = expression.replace("$__rate_interval", "5m");
    let parsed = parser::parse(&text).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let mut selected = Selected::default();
    walk_expr(&mut selected, &parsed).unwrap();
    let find = |(name, matchers): (String, Matchers)| {
        let is_named = |metric: &&Metric| {
            let of_histogram = ["_sum", "_count"].iter().any(|suffix| name == format!("{}{suffix}", metric.name()));
            name == metric.name() || metric.kind() == Kind::Histogram && of_histogram
        };
        let metric = ALL.iter().find(is_named).unwrap_or_else(|| panic!("{name} is no metric: {expression}"));
        for matcher in matchers.matchers {
            assert!(metric.labels().contains(&&*matcher.name), "{name} has no label {}", matcher.name);
        }
        metric
    };
    selected.0.into_iter().map(find).collect()
}

#[test]
fn dashboard_is_what_the_catalogue_says_and_shows_every_metric() {
    let read = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    // Members may come in another order, by a feature of serde_json.
    let dashboard = read(&dashboard::dashboard());
    assert_eq!(read(&checked_in("dashboard.json", &dashboard::dashboard())), dashboard, "run with DAMPER_WRITE=1");
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = HashSet::new();
    let mut shown = Vec::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "identifiers are unique");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let mut metrics = metrics_in(target["expr"].as_str().unwrap());
            metrics.dedup();
            shown.extend(metrics.into_iter().map(Metric::name));
        }
    }
    for metric in ALL {
        let times = shown.iter().filter(|name| **name == metric.name()).count();
        assert_eq!(times, 1, "{} is on the dashboard once", metric.name());
    }
    assert_panels_do_not_overlap(panels);
}

fn assert_panels_do_not_overlap(panels: &[Value]) {
    let mut taken = HashSet::new();
    for panel in panels {
        let of = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        let cells = (of("x")..of("x") + of("w")).flat_map(|x| (of("y")..of("y") + of("h")).map(move |y| (x, y)));
        for cell in cells {
            assert!(cell.0 < 24 && taken.insert(cell), "{} has its place", panel["title"]);
        }
    }
}

#[test]
fn alerts_are_what_the_catalogue_says_and_name_existing_metrics() {
    let text = checked_in("alerts.yaml", &alerts::alerts());
    assert_eq!(text, alerts::alerts(), "run with DAMPER_WRITE=1");
    let documents = Yaml::load_from_str(&text).unwrap();
    let rules = documents[0]["groups"][0]["rules"].as_vec().unwrap();
    assert!(rules.len() >= 10);
    let mut names = HashSet::new();
    for rule in rules {
        let of = |key: &str| rule[key].as_str().unwrap_or_else(|| panic!("{key} is missing"));
        assert!(names.insert(of("alert")), "{} is there once", of("alert"));
        assert!(!metrics_in(of("expr")).is_empty());
        assert!(of("for").ends_with(['m', 'h']));
        assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()));
        for annotation in ["summary", "description"] {
            assert!(rule["annotations"][annotation].as_str().unwrap().ends_with('.'));
        }
    }
}
