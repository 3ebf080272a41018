//! The bars that damper's limits are held to, at three seeds: `cargo run --release -p damper-sim -- concurrency --bars`.
// limit.rs     the adaptive limit
// throttle.rs  the adaptive throttle

mod limit;
mod throttle;

use crate::table::Table;
use std::thread;

/// What a figure has to be.
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
    /// Who is held to it, and where.
    pub scenario: String,
    /// What the figure is.
    pub what: &'static str,
    /// The worst one.
    pub figure: f64,
    /// What it has to be.
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

/// Measures every bar, calling `progress` with the name of each part.
#[must_use]
pub fn measure(progress: fn(&str)) -> Vec<Bar> {
    progress("the adaptive limit, 30 minutes");
    let mut bars = limit::half_hours();
    progress("the adaptive limit, four hours");
    bars.extend(limit::four_hours());
    progress("the adaptive limit beside the best fixed one");
    bars.extend(limit::beside_fixed());
    progress("the adaptive throttle");
    bars.extend(throttle::bars());
    bars
}

/// Returns the bars as a table.
#[must_use]
pub fn table(bars: &[Bar]) -> Table {
    let mut table = Table::new("Bars, the worst of three seeds", &["scenario", "figure", "is", "to be", "met"]);
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

/// Returns the results of `work`, in the order of the items. Two threads work.
fn by_two_threads<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let every_other = |first| -> Vec<(usize, T)> {
        items.iter().enumerate().skip(first).step_by(2).map(|(i, item)| (i, work(item))).collect()
    };
    let mut results = thread::scope(|scope| {
        let other = scope.spawn(|| every_other(1));
        let mut results = every_other(0);
        results.extend(other.join().expect("the thread's panic is printed"));
        results
    });
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}
