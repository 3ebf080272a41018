//! The bars that damper's limits are held to: `cargo run --release -p damper-sim -- concurrency --bars`.
// limit.rs      the adaptive limit
// admission.rs  classes, tenants and deadlines
// throttle.rs   the adaptive throttle

mod admission;
mod limit;
mod throttle;

pub use admission::admission;

use crate::table::Table;

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

/// One bar in one scenario, with the worst figure of all seeds.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The simulated service or client.
    pub scenario: String,
    /// The name of the figure.
    pub what: &'static str,
    /// The worst one.
    pub figure: f64,
    /// Its bound.
    pub bound: Bound,
}

impl Bar {
    fn at_least(scenario: impl Into<String>, what: &'static str, least: f64, figures: &[f64]) -> Self {
        let figure = figures.iter().copied().fold(f64::INFINITY, f64::min);
        Self { scenario: scenario.into(), what, figure, bound: Bound::AtLeast(least) }
    }

    fn at_most(scenario: impl Into<String>, what: &'static str, most: f64, figures: &[f64]) -> Self {
        let figure = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { scenario: scenario.into(), what, figure, bound: Bound::AtMost(most) }
    }

    /// Whether the figure is what it has to be. One that is not a number never is.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.figure >= least,
            Bound::AtMost(most) => self.figure <= most,
        }
    }
}

/// Measures every bar at these seeds, calling `progress` with the name of each part.
///
/// # Panics
///
/// Without a seed.
#[must_use]
pub fn measure(seeds: &[u64], progress: fn(&str)) -> Vec<Bar> {
    progress("the adaptive limit, 30 minutes");
    let mut bars = limit::half_hours(seeds);
    progress("the adaptive limit, four hours");
    bars.extend(limit::four_hours(seeds));
    progress("the adaptive limit beside the best fixed one");
    bars.extend(limit::beside_fixed(seeds[0]));
    progress("admission, 30 minutes");
    bars.extend(admission(seeds, 1_800.0));
    progress("the adaptive throttle");
    bars.extend(throttle::bars(seeds));
    bars
}

/// Returns the bars as a table.
#[must_use]
pub fn table(bars: &[Bar]) -> Table {
    let mut table = Table::new("Bars, at the worst seed", &["scenario", "figure", "is", "to be", "met"]);
    for bar in bars {
        let bound = match bar.bound {
            Bound::AtLeast(least) => format!(">= {least:.3}"),
            Bound::AtMost(most) => format!("<= {most:.3}"),
        };
        let met = if bar.is_met() { "yes" } else { "NO" };
        table.row(vec![bar.scenario.clone(), bar.what.into(), format!("{:.3}", bar.figure), bound, met.into()]);
    }
    table
}
