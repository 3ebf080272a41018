//! The run as a picture in text: a bar for each slice of time, beside the rate.

use crate::figure::figure;
use crate::options::Options;
use crate::plan::Phase;
use crate::run::Evidence;
use crate::tally::Tally;
use core::fmt::{self, Write};

/// Columns up to the mark of the rate.
const RATE: u64 = 30;
/// Columns in all; longer bars are cut off with a `>`.
const WIDTH: u64 = 60;
/// Slices of a phase.
const SLICES: u64 = 7;

/// Draws one line for each slice of each phase.
pub(crate) fn draw(options: &Options, evidence: &Evidence) -> Result<String, fmt::Error> {
    let mut chart = String::new();
    let start = evidence.events[0];
    for phase in Phase::ALL {
        let (from, until) = evidence.span(phase);
        for slice in 0..SLICES {
            let at = |slice| from + (until - from) * slice / SLICES;
            let tally = Tally::between(evidence, at(slice), at(slice + 1));
            let refilled = figure(at(slice + 1) - at(slice)) / 1e6 * f64::from(options.rate);
            let seconds = figure(at(slice) - start) / 1e6;
            let event = if slice == 0 { phase.name() } else { "" };
            writeln!(chart, "{seconds:5.1} s  {event:15} {} {}", bar(&tally, refilled), policy(&tally))?;
        }
    }
    writeln!(chart, "         {:15} █ by lease  ▒ by Redis  ░ by policy  │ what the rate brings", "")?;
    Ok(chart)
}

fn policy(tally: &Tally) -> String {
    match tally.on_policy {
        0 => String::new(),
        number => format!("policy in {number} of {}", tally.reported),
    }
}

/// A bar of [`WIDTH`] columns.
fn bar(tally: &Tally, refilled: f64) -> String {
    let column = |tokens: u64| (figure(tokens) / refilled * figure(RATE)).round() as u64;
    let by_lease = column(tally.by_lease);
    let by_server = column(tally.by_lease + tally.by_server);
    let by_policy = column(tally.admitted());
    let cell = |at: u64| match at {
        at if at + 1 == WIDTH && by_policy > WIDTH => '>',
        at if at < by_lease => '█',
        at if at < by_server => '▒',
        at if at < by_policy => '░',
        RATE => '│',
        _ => ' ',
    };
    (0..WIDTH).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::bar;
    use crate::tally::Tally;

    #[test]
    fn bars_are_stacked_and_cut_off() {
        let tally = Tally { by_lease: 10, by_server: 10, by_policy: 5, ..Tally::default() };
        assert_eq!(
            bar(&tally, 30.0).trim_end(),
            format!("{}{}{}     │", "█".repeat(10), "▒".repeat(10), "░".repeat(5))
        );
        let flood = Tally { by_policy: 1_000, ..Tally::default() };
        assert_eq!(bar(&flood, 30.0), format!("{}>", "░".repeat(59)));
    }
}
