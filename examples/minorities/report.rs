//! The table that the program prints.

use crate::row::{Guard, rows};
use crate::traffic::Served;
use comfy_table::Table;
use std::collections::BTreeMap;
use std::fmt;

/// The results by row, behind the layer that is tried and behind a fixed limit.
#[derive(Debug, Default)]
pub(crate) struct Report(BTreeMap<usize, [Option<Served>; 2]>);

impl Report {
    pub(crate) fn add(&mut self, row: usize, guard: Guard, served: Served) {
        self.0.entry(row).or_default()[usize::from(guard == Guard::Fixed)] = Some(served);
    }

    /// Whether every row ran and meets the bar.
    pub(crate) fn is_met(&self) -> bool {
        let rows = rows();
        let is_met = |(&row, runs): (&usize, &[Option<Served>; 2])| {
            ratio(runs).zip(rows.get(row)).is_some_and(|(ratio, row)| ratio >= row.bar)
        };
        !self.0.is_empty() && self.0.iter().all(is_met)
    }
}

fn ratio(runs: &[Option<Served>; 2]) -> Option<f64> {
    Some(runs[0]?.share() / runs[1]?.share())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut table, rows) = (Table::new(), rows());
        table.set_header(["a minority does", "polite work served", "behind a fixed limit", "ratio", "bar"]);
        for (&row, runs) in &self.0 {
            let share = |run: Option<Served>| run.map_or_else(String::new, |run| format!("{:.3}", run.share()));
            let ratio = ratio(runs).unwrap_or(0.0);
            let (name, bar) = rows.get(row).map_or(("", f64::INFINITY), |row| (row.name, row.bar));
            let verdict = if ratio >= bar { "met" } else { "MISSED" };
            table.add_row([name.to_owned(), share(runs[0]), share(runs[1]), format!("{ratio:.2}"), verdict.to_owned()]);
        }
        let latest = self.0.values().flatten().flatten().map(|served| served.latest).max().unwrap_or_default();
        writeln!(f, "{table}")?;
        write!(f, "The latest call was sent {latest:.0?} after its time.")
    }
}
