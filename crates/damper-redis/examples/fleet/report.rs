//! The result, as a table and a chart for a person, or as JSON.

use crate::chart;
use crate::checks::Check;
use crate::figure::figure;
use crate::options::Options;
use crate::plan::Phase;
use crate::run::Evidence;
use crate::tally::Tally;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use core::fmt;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    passed: bool,
    options: &'a Options,
    burst: u32,
    phases: Vec<PhaseRow>,
    checks: Vec<Check>,
    #[serde(skip)]
    evidence: &'a Evidence,
}

/// A phase; times in milliseconds.
#[derive(Debug, Serialize)]
struct PhaseRow {
    phase: Phase,
    seconds: f64,
    checks: u64,
    admitted: u64,
    by_lease: u64,
    by_redis: u64,
    by_policy: u64,
    /// The admitted tokens as a share of what the rate brought.
    of_rate: f64,
    commands: u64,
    admitted_per_command: Option<f64>,
    policy_in_force: String,
    slowest_ms: f64,
}

impl<'a> Report<'a> {
    pub(crate) fn new(options: &'a Options, evidence: &'a Evidence, checks: Vec<Check>) -> Self {
        Self {
            passed: checks.iter().all(|check| check.passed),
            options,
            burst: options.burst(),
            phases: Phase::ALL.map(|phase| PhaseRow::new(phase, options, evidence)).into(),
            checks,
            evidence,
        }
    }

    pub(crate) fn passed(&self) -> bool {
        self.passed
    }
}

impl PhaseRow {
    fn new(phase: Phase, options: &Options, evidence: &Evidence) -> Self {
        let (from, until) = evidence.span(phase);
        let tally = Tally::between(evidence, from, until);
        let seconds = figure(until - from) / 1e6;
        Self {
            phase,
            seconds,
            checks: tally.checks,
            admitted: tally.admitted(),
            by_lease: tally.by_lease,
            by_redis: tally.by_server,
            by_policy: tally.by_policy,
            of_rate: figure(tally.admitted()) / (seconds * f64::from(options.rate)),
            commands: tally.commands,
            admitted_per_command: (phase.has_redis() && tally.commands > 0)
                .then(|| figure(tally.by_lease + tally.by_server) / figure(tally.commands)),
            policy_in_force: format!("{} of {}", tally.on_policy, tally.reported),
            slowest_ms: figure(tally.slowest) / 1e3,
        }
    }

    fn cells(&self) -> [String; 10] {
        [
            self.phase.name().to_owned(),
            self.checks.to_string(),
            self.admitted.to_string(),
            format!("{:.1} %", self.of_rate * 100.0),
            self.by_lease.to_string(),
            self.by_redis.to_string(),
            self.by_policy.to_string(),
            self.admitted_per_command.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.0}")),
            self.policy_in_force.clone(),
            format!("{:.1} ms", self.slowest_ms),
        ]
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { processes, policy, .. } = self.options;
        writeln!(
            f,
            "{processes} processes behind one limit of {}, policy {}\n",
            self.options.quota(),
            policy.when_down()
        )?;
        writeln!(f, "{}", chart::draw(self.options, self.evidence)?)?;
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY).set_header([
            "phase",
            "checks",
            "admitted",
            "of the rate",
            "by lease",
            "by Redis",
            "by policy",
            "per command",
            "policy in",
            "slowest check",
        ]);
        table.add_rows(self.phases.iter().map(PhaseRow::cells));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "per command: admitted by leases and Redis per command sent; policy in: processes that it decided for"
        )?;
        writeln!(f, "at the end of the phase\n\nThe checks")?;
        for (number, Check { name, passed, figures }) in self.checks.iter().enumerate() {
            let line_break = if number + 1 < self.checks.len() { "\n" } else { "" };
            write!(f, "  {}  {name}: {figures}{line_break}", if *passed { "ok    " } else { "FAILED" })?;
        }
        Ok(())
    }
}
