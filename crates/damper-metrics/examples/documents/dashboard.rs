//! A dashboard of Grafana with a panel for every metric.

use damper_metrics::catalogue as of;
use damper_metrics::{Kind, Metric};
use metrics::Unit;
use serde_json::{Value, json};

/// How the series of several machines are put together.
#[derive(Clone, Copy)]
enum Together {
    /// Added up: numbers of things.
    Sum,
    /// The highest: times, shares, and settings that all machines have.
    Max,
}

use Together::{Max, Sum};

struct Panel {
    title: &'static str,
    metrics: &'static [&'static Metric],
    together: Together,
}

struct Row {
    title: &'static str,
    panels: &'static [Panel],
}

const fn panel(title: &'static str, metrics: &'static [&'static Metric], together: Together) -> Panel {
    Panel { title, metrics, together }
}

/// The rows of the dashboard, which have every metric of the catalogue once.
const ROWS: &[Row] = &[
    Row {
        title: "Rate limits",
        panels: &[
            panel("Requests", &[&of::LIMIT_ALLOWED, &of::LIMIT_REFUSED, &of::LIMIT_ERRORS], Sum),
            panel("Quotas in force", &[&of::LIMIT_RATE], Max),
            panel("Bursts in force", &[&of::LIMIT_BURST], Max),
            panel("Tokens left and in advance", &[&of::LIMIT_REMAINING, &of::LIMIT_DEBT], Sum),
            panel("Pauses", &[&of::LIMIT_PAUSE], Max),
            panel(
                "Keys",
                &[&of::LIMIT_KEYS, &of::LIMIT_KEYS_OWING, &of::LIMIT_KEYS_EXHAUSTED, &of::LIMIT_KEYS_CAPACITY],
                Sum,
            ),
            panel("Full tables", &[&of::LIMIT_EVICTIONS, &of::LIMIT_OVERFLOWS, &of::LIMIT_REFUSED_NEWCOMERS], Sum),
            panel("Crowded tables", &[&of::LIMIT_SHARED_WORDS_SEEN, &of::LIMIT_SHARED_WORDS_BUSY], Sum),
        ],
    },
    Row {
        title: "Limits across machines",
        panels: &[
            panel("Decisions", &[&of::REDIS_DECISIONS, &of::REDIS_TOKENS_BY_LEASE], Sum),
            panel("Policy in force", &[&of::REDIS_POLICY], Sum),
            panel("Commands", &[&of::REDIS_COMMANDS, &of::REDIS_FAILURES, &of::REDIS_CONNECTIONS], Sum),
            panel("Grants", &[&of::REDIS_GRANTS, &of::REDIS_TOKENS_GRANTED], Sum),
            panel("Leased tokens", &[&of::REDIS_LEASED], Sum),
            panel("Processes", &[&of::REDIS_PROCESSES], Max),
            panel("Keys kept", &[&of::REDIS_KEYS], Sum),
            panel("Losses of the server's memory", &[&of::REDIS_LOSSES], Max),
        ],
    },
    Row {
        title: "Circuit breakers",
        panels: &[
            panel("States", &[&of::BREAKER_STATE], Sum),
            panel("State changes", &[&of::BREAKER_TRANSITIONS], Sum),
            panel("Calls", &[&of::BREAKER_ALLOWED, &of::BREAKER_REFUSED, &of::BREAKER_PROBES], Sum),
            panel(
                "Windows of outcomes",
                &[&of::BREAKER_WINDOW_CALLS, &of::BREAKER_WINDOW_FAILURES, &of::BREAKER_WINDOW_SLOW_CALLS],
                Sum,
            ),
            panel("Consecutive failures", &[&of::BREAKER_CONSECUTIVE_FAILURES], Max),
            panel("Probes in flight", &[&of::BREAKER_PROBES_IN_FLIGHT], Sum),
            panel("Keys with a breaker", &[&of::BREAKER_KEYS, &of::BREAKER_KEYS_CAPACITY], Sum),
            panel("Evicted breakers", &[&of::BREAKER_EVICTIONS, &of::BREAKER_KEPT_EVICTIONS], Sum),
        ],
    },
    Row {
        title: "Concurrency limits",
        panels: &[
            panel(
                "Calls in flight and queued",
                &[&of::CONCURRENCY_IN_FLIGHT, &of::CONCURRENCY_QUEUED, &of::CONCURRENCY_LIMIT],
                Sum,
            ),
            panel("Calls", &[&of::CONCURRENCY_ALLOWED, &of::CONCURRENCY_REFUSED, &of::CONCURRENCY_WAITS], Sum),
            panel("Latencies", &[&of::CONCURRENCY_BASELINE, &of::CONCURRENCY_SERVICE_TIME], Max),
            panel(
                "Keys with a limit",
                &[&of::CONCURRENCY_KEYS, &of::CONCURRENCY_KEYS_FULL, &of::CONCURRENCY_KEYS_CAPACITY],
                Sum,
            ),
            panel("Evicted limits", &[&of::CONCURRENCY_EVICTIONS], Sum),
        ],
    },
    Row {
        title: "Throttles and pacing",
        panels: &[
            panel("Calls of throttles", &[&of::THROTTLE_ALLOWED, &of::THROTTLE_REFUSED], Sum),
            panel("Share refused by throttles", &[&of::THROTTLE_REFUSED_RATIO], Max),
            panel("Recent calls of throttles", &[&of::THROTTLE_RECENT_CALLS, &of::THROTTLE_RECENT_ACCEPTED], Sum),
            panel("Keys with a throttle", &[&of::THROTTLE_KEYS, &of::THROTTLE_KEYS_CAPACITY], Sum),
            panel("Evicted throttles", &[&of::THROTTLE_EVICTIONS], Sum),
            panel("Paced calls", &[&of::PACING_CALLS, &of::PACING_REFUSED, &of::PACING_REJECTED], Sum),
            panel("Mean sleep before a call", &[&of::PACING_SLEEP], Sum),
            panel("Next sleep", &[&of::PACING_NEXT_SLEEP], Max),
        ],
    },
    Row {
        title: "Retries, hedges, deadlines, candidates and stores",
        panels: &[
            panel("Retries", &[&of::RETRY_REQUESTS, &of::RETRY_NOT_MADE], Sum),
            panel("Retries left", &[&of::RETRY_BUDGET_LEFT], Sum),
            panel("Hedges", &[&of::HEDGE_REQUESTS, &of::HEDGE_NOT_MADE], Sum),
            panel("Delays of hedges, and median latencies", &[&of::HEDGE_DELAY, &of::HEDGE_MEDIAN_LATENCY], Max),
            panel("Calls ended by a deadline", &[&of::DEADLINE_EXCEEDED, &of::DEADLINE_SKEWED], Sum),
            panel("Usual latencies", &[&of::LATENCY_P90], Max),
            panel("Refusals of candidates and in force", &[&of::SHADOW_REFUSALS], Sum),
            panel("Stores", &[&of::STORE_ENTRIES, &of::STORE_CAPACITY], Sum),
            panel("Evictions of stores", &[&of::STORE_EVICTIONS, &of::STORE_KEPT_EVICTIONS], Sum),
        ],
    },
];

/// The columns of Grafana's grid, and the size of a panel.
const GRID_COLUMNS: u64 = 24;
const WIDTH: u64 = 8;
const HEIGHT: u64 = 7;

/// Returns the dashboard, as Grafana imports it.
pub(crate) fn dashboard() -> String {
    let mut panels = Vec::new();
    let mut top = 0;
    for row in ROWS {
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": row.title,
            "collapsed": false,
            "gridPos": { "x": 0, "y": top, "w": GRID_COLUMNS, "h": 1 },
            "panels": [],
        }));
        top += 1;
        for (index, panel) in (0_u64..).zip(row.panels) {
            let columns = GRID_COLUMNS / WIDTH;
            let (x, y) = (index % columns * WIDTH, top + index / columns * HEIGHT);
            panels.push(graph(panel, panels.len() + 1, x, y));
        }
        top += (row.panels.len() as u64).div_ceil(GRID_COLUMNS / WIDTH) * HEIGHT;
    }
    let dashboard = json!({
        "title": "damper",
        "uid": "damper",
        "description": "Limiters, breakers, concurrency limits, throttles and retry budgets of damper.",
        "tags": ["damper"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-1h", "to": "now" },
        "timezone": "browser",
        "templating": { "list": variables() },
        "panels": panels,
    });
    // A value of strings, numbers and lists can always be written.
    serde_json::to_string_pretty(&dashboard).unwrap_or_default() + "\n"
}

/// The source of data, and one variable for each label that names a source.
fn variables() -> Vec<Value> {
    let mut variables =
        vec![json!({ "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source" })];
    let mut names: Vec<&str> = Vec::new();
    for metric in of::ALL {
        let name = metric.labels()[0];
        if names.contains(&name) {
            continue;
        }
        names.push(name);
        let query = format!("label_values({{__name__=~\"damper_.+\"}}, {name})");
        variables.push(json!({
            "name": name,
            "type": "query",
            "datasource": { "type": "prometheus", "uid": "${datasource}" },
            "query": { "query": query, "refId": name },
            "includeAll": true,
            "multi": true,
            "allValue": ".*",
            "current": { "text": "All", "value": "$__all" },
            "refresh": 2,
        }));
    }
    variables
}

fn graph(panel: &Panel, id: usize, x: u64, y: u64) -> Value {
    let refs = ["A", "B", "C", "D"];
    let targets: Vec<_> = panel
        .metrics
        .iter()
        .zip(refs)
        .map(|(metric, reference)| {
            json!({ "refId": reference, "expr": expression(metric, panel.together), "legendFormat": legend(metric) })
        })
        .collect();
    let help: Vec<_> = panel.metrics.iter().map(|metric| format!("`{}`: {}", metric.name(), metric.help())).collect();
    json!({
        "id": id,
        "type": "timeseries",
        "title": panel.title,
        "description": help.join("\n\n"),
        "datasource": { "type": "prometheus", "uid": "${datasource}" },
        "gridPos": { "x": x, "y": y, "w": WIDTH, "h": HEIGHT },
        "fieldConfig": { "defaults": { "unit": unit(panel.metrics[0]), "min": 0 }, "overrides": [] },
        "targets": targets,
    })
}

/// The rate of a counter, the value of a gauge, or the mean of a histogram.
fn expression(metric: &Metric, together: Together) -> String {
    let (name, labels) = (metric.name(), metric.labels());
    let (by, filter) = (labels.join(", "), format!("{label}=~\"${label}\"", label = labels[0]));
    let function = match together {
        Sum => "sum",
        Max => "max",
    };
    let rate = |name: &str| format!("sum by ({by}) (rate({name}{{{filter}}}[$__rate_interval]))");
    match metric.kind() {
        Kind::Counter => rate(name),
        Kind::Gauge => format!("{function} by ({by}) ({name}{{{filter}}})"),
        Kind::Histogram => format!("{} / {}", rate(&format!("{name}_sum")), rate(&format!("{name}_count"))),
    }
}

/// The part of the name that differs within a panel, and the labels.
fn legend(metric: &Metric) -> String {
    let name = metric.name().trim_start_matches("damper_").trim_end_matches("_total").replace('_', " ");
    let labels: Vec<_> = metric.labels().iter().map(|label| format!("{{{{{label}}}}}")).collect();
    format!("{} {name}", labels.join(" "))
}

/// The unit, by Grafana's name for it.
fn unit(metric: &Metric) -> &'static str {
    match (metric.kind(), metric.unit()) {
        (Kind::Counter, _) | (_, Unit::CountPerSecond) => "ops",
        (_, Unit::Seconds) => "s",
        _ if metric.name().ends_with("_ratio") => "percentunit",
        _ => "short",
    }
}
