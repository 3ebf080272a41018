//! The result, as tables for a person or as JSON.

use crate::checks::Check;
use crate::figure::figure;
use crate::options::Options;
use crate::plan::{Phase, Plan};
use crate::run::Evidence;
use crate::tally::PhaseTally;
use serde::Serialize;
use std::fmt;
use std::path::Path;

#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) passed: bool,
    options: &'a Options,
    burst: u32,
    addresses: usize,
    phases: Vec<PhaseRow>,
    transitions: Vec<TransitionRow>,
    checks: Vec<Check>,
    /// Where it was written; `None` if it could not be.
    chart: Option<&'a Path>,
}

/// A phase; times in milliseconds.
#[derive(Debug, Serialize)]
struct PhaseRow {
    phase: Phase,
    requests: u64,
    allowed: u64,
    limited: u64,
    refused_by_breaker: u64,
    failed: u64,
    upstream_hits: usize,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// A change of the breaker's state; seconds since the start.
#[derive(Debug, Serialize)]
struct TransitionRow {
    from: String,
    to: String,
    at: f64,
}

impl<'a> Report<'a> {
    pub(crate) fn new(
        options: &'a Options,
        plan: &Plan,
        evidence: &Evidence,
        checks: Vec<Check>,
        chart: Option<&'a Path>,
    ) -> Self {
        let transitions = evidence.transitions.iter().map(|transition| TransitionRow {
            from: transition.from.to_string(),
            to: transition.to.to_string(),
            at: evidence.epoch.seconds_at(transition.seen),
        });
        Self {
            passed: checks.iter().all(|check| check.passed),
            options,
            burst: options.burst(),
            addresses: plan.addresses().len(),
            phases: Phase::ALL.map(|phase| PhaseRow::new(phase, evidence)).into(),
            transitions: transitions.collect(),
            checks,
            chart,
        }
    }
}

impl PhaseRow {
    fn new(phase: Phase, evidence: &Evidence) -> Self {
        let tally: &PhaseTally = &evidence.totals.phases[phase as usize];
        let latency = |quantile| {
            let found = tally.latency.quantile(quantile).ok()??;
            let (_, bucket) = found.entries().first_key_value()?;
            Some(figure(bucket.end()) / 1_000.0)
        };
        Self {
            phase,
            requests: tally.sent,
            allowed: tally.counts.allowed,
            limited: tally.counts.limited,
            refused_by_breaker: tally.counts.refused,
            failed: tally.counts.failed,
            upstream_hits: evidence.hits.iter().filter(|hit| hit.phase == phase).count(),
            p50_ms: latency(0.50),
            p95_ms: latency(0.95),
            p99_ms: latency(0.99),
        }
    }

    const HEAD: [&str; 10] =
        ["phase", "requests", "allowed", "429", "breaker", "failed", "upstream hits", "p50", "p95", "p99"];

    fn cells(&self) -> [String; 10] {
        let latency = |millis: Option<f64>| millis.map_or_else(|| "-".to_owned(), |millis| format!("{millis:.2} ms"));
        [
            self.phase.name().to_owned(),
            self.requests.to_string(),
            self.allowed.to_string(),
            self.limited.to_string(),
            self.refused_by_breaker.to_string(),
            self.failed.to_string(),
            self.upstream_hits.to_string(),
            latency(self.p50_ms),
            latency(self.p95_ms),
            latency(self.p99_ms),
        ]
    }
}

/// Writes the phases in columns: names to the left, figures to the right.
fn table(f: &mut fmt::Formatter<'_>, rows: &[[String; 10]]) -> fmt::Result {
    let widths: [usize; 10] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.fold(PhaseRow::HEAD[column].len(), usize::max)
    });
    for row in [PhaseRow::HEAD].into_iter().chain(rows.iter().map(|row| row.each_ref().map(String::as_str))) {
        for (column, (cell, width)) in row.into_iter().zip(widths).enumerate() {
            if column == 0 { write!(f, "  {cell:width$}")? } else { write!(f, "   {cell:>width$}")? }
        }
        writeln!(f)?;
    }
    writeln!(f)
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = self.options.quota();
        writeln!(f, "{} clients, {quota} each; the first one floods", self.addresses)?;
        if self.addresses > self.options.clients.into() {
            writeln!(f, "({} were asked for, too few at this rate to trip a breaker in time)", self.options.clients)?;
        }
        writeln!(f)?;
        table(f, &self.phases.iter().map(PhaseRow::cells).collect::<Vec<_>>())?;
        writeln!(f, "429: refused by the limit; breaker: refused by the breaker (503); failed: 502 or 504;")?;
        writeln!(f, "p50, p95, p99: latency of the allowed requests at the client\n")?;

        writeln!(f, "The breaker")?;
        for TransitionRow { from, to, at } in &self.transitions {
            writeln!(f, "  {at:7.3} s  {from} -> {to}")?;
        }
        writeln!(f, "\nThe checks")?;
        for Check { name, passed, figures } in &self.checks {
            writeln!(f, "  {}  {name}: {figures}", if *passed { "ok    " } else { "FAILED" })?;
        }
        match self.chart {
            Some(path) => write!(f, "\nThe chart: {}", path.display()),
            None => write!(f, "\nThe chart: not written"),
        }
    }
}
