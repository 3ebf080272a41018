//! The bars for damper's limits: `cargo run --release -p damper-sim -- concurrency --bars`.
// limit.rs      the adaptive limit
// admission.rs  classes, tenants and deadlines
// throttle.rs   the adaptive throttle

mod admission;
mod limit;
mod throttle;

pub use admission::admission;
pub use limit::{beside_fixed, limit};
pub use throttle::{lasting_recovery, throttle};

use super::rules::Contender;
use super::scenarios;
use super::worst::{highest, lowest};
use crate::table::Table;

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Any number, which is only reported.
    Any,
}

/// One bar in one scenario, with the worst figure of all seeds.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The simulated service or client.
    pub scenario: String,
    /// The name of the figure.
    pub what: &'static str,
    /// The worst figure.
    pub figure: f64,
    /// The bound of the figure.
    pub bound: Bound,
}

impl Bar {
    /// Creates a bar for the lowest of these figures.
    #[must_use]
    pub fn at_least(scenario: impl Into<String>, what: &'static str, least: f64, figures: &[f64]) -> Self {
        Self { scenario: scenario.into(), what, figure: lowest(figures), bound: Bound::AtLeast(least) }
    }

    /// Creates a bar for the highest of these figures.
    #[must_use]
    pub fn at_most(scenario: impl Into<String>, what: &'static str, most: f64, figures: &[f64]) -> Self {
        Self { scenario: scenario.into(), what, figure: highest(figures), bound: Bound::AtMost(most) }
    }

    /// Creates a row for a figure without a bound.
    #[must_use]
    pub fn any(scenario: impl Into<String>, what: &'static str, figure: f64) -> Self {
        Self { scenario: scenario.into(), what, figure, bound: Bound::Any }
    }

    /// Returns whether the figure is within its bound. NaN never is.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.figure >= least,
            Bound::AtMost(most) => self.figure <= most,
            Bound::Any => !self.figure.is_nan(),
        }
    }
}

/// Measures every bar with these seeds, calling `progress` with the name of each part.
#[must_use]
pub fn measure(seeds: &[u64], progress: fn(&str)) -> Vec<Bar> {
    progress("the adaptive limit, 30 minutes");
    let mut bars = limit(Contender::Damper, &scenarios::all(), seeds);
    progress("the adaptive limit, four hours");
    bars.extend(limit(Contender::Damper, &scenarios::four_hours(), seeds));
    progress("the adaptive limit beside the best fixed one");
    bars.extend(beside_fixed(Contender::Damper, seeds, 1_800.0));
    progress("admission, 30 minutes");
    bars.extend(admission(seeds, 1_800.0));
    progress("the adaptive throttle");
    bars.extend(throttle(seeds));
    bars
}

/// Returns the bars as a table with this title.
#[must_use]
pub fn table(title: &str, bars: &[Bar]) -> Table {
    let mut table = Table::new(title, &["scenario", "figure", "is", "to be", "met"]);
    for bar in bars {
        let bound = match bar.bound {
            Bound::AtLeast(least) => format!(">= {least:.3}"),
            Bound::AtMost(most) => format!("<= {most:.3}"),
            Bound::Any => "any".into(),
        };
        let met = if bar.is_met() { "yes" } else { "NO" };
        table.row(vec![bar.scenario.clone(), bar.what.into(), format!("{:.3}", bar.figure), bound, met.into()]);
    }
    table
}
