//! The table and the charts.

use super::bars::{clearing, mean};
use super::contender::{Contender, Options};
use super::experiment::Experiment;
use super::published;
use super::record::{Figures, Record};
use super::run::run;
use crate::chart::{Chart, Line, Panel};
use crate::parallel::by_two_threads;
use crate::table::Table;
use damper::OutOfRange;
use std::time::Duration;

/// How many points a line has.
pub const POINTS: usize = 60;

/// A table, and charts with the names of their files.
#[derive(Clone, Debug)]
pub struct Report {
    /// The figures of every strategy.
    pub table: Table,
    /// One for each strategy, and one that compares them.
    pub charts: Vec<(String, Chart)>,
}

/// Runs the experiment under every strategy.
///
/// Calls `progress` with how many are done, how many there are, and the next one's name.
///
/// # Errors
///
/// [`OutOfRange`] if an option is out of range.
pub fn report(
    experiment: &Experiment,
    options: &Options,
    seeds: &[u64],
    progress: fn(usize, usize, &str),
) -> Result<Report, OutOfRange> {
    let contenders = Contender::all(experiment.told(), options)?;
    let start = Some(options.start.unwrap_or(Duration::from_secs(1)));
    let starting = Contender::all(experiment.told(), &Options { start, ..*options })?;
    let title = format!("Means of {} seeds and their deviations; in parentheses what was published", seeds.len());
    let head = ["strategy", "retries %", "longest sleep s", "deviation", "clear s", "accepted"];
    let mut table = Table::new(title, &head);
    let mut charts = Vec::new();
    let mut records = Vec::new();
    for (i, (contender, starting)) in contenders.iter().zip(&starting).enumerate() {
        progress(i, contenders.len(), contender.name());
        let mut runs = by_two_threads(seeds, |seed| run(experiment, contender, *seed));
        let figures: Vec<Figures> = runs.iter().map(Record::figures).collect();
        let clear = clearing(experiment, starting, seeds);
        table.row(row(contender.name(), &figures, &clear));
        let record = runs.swap_remove(0);
        charts.push((file(contender.name()), chart(contender.name(), &record)));
        records.push((contender.name(), record));
    }
    progress(contenders.len(), contenders.len(), "");
    charts.push(("strategies.svg".into(), comparison(&records)));
    Ok(Report { table, charts })
}

/// The name of a strategy's chart: `4-remaining.svg`.
fn file(name: &str) -> String {
    let name: String = name.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    format!("{}.svg", name.replace("--", "-"))
}

fn row(name: &str, figures: &[Figures], clear: &[f64]) -> Vec<String> {
    let column = |of: fn(&Figures) -> f64| figures.iter().map(of).collect::<Vec<f64>>();
    let columns = [column(|f| 100.0 * f.retries), column(|f| f.longest_sleep), column(|f| f.deviation), clear.to_vec()];
    let published = published::figures(name);
    let mut cells = vec![name.to_owned()];
    for (i, column) in columns.iter().enumerate() {
        let published = published.map_or(String::new(), |figures| format!(" ({:.2})", figures[i]));
        cells.push(format!("{:.2} ± {:.2}{published}", mean(column), deviation(column)));
    }
    cells.push(format!("{:.0}", mean(&column(|f| f.accepted))));
    cells
}

fn deviation(figures: &[f64]) -> f64 {
    let mean = mean(figures);
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (squares / (figures.len() as f64 - 1.0).max(1.0)).sqrt()
}

/// Values over time, at the ends of equal parts of a run. Between two events the last value holds.
fn over_time(record: &Record, events: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let mut events = events.peekable();
    let mut value = 0.0;
    (1..=POINTS)
        .map(|point| {
            let until = record.ended * point as f64 / POINTS as f64;
            while let Some((_, next)) = events.next_if(|(at, _)| *at <= until) {
                value = next;
            }
            value
        })
        .collect()
}

/// The last sleep of a client.
fn sleep(record: &Record, client: usize) -> Vec<f64> {
    over_time(
        record,
        record.sleeps.iter().filter(|slept| slept.client == client).map(|slept| (slept.at, slept.seconds)),
    )
}

/// How many of these answers there were.
fn count(record: &Record, of: impl Fn(usize, bool) -> bool) -> Vec<f64> {
    let answers = record.answers.iter().filter(|answer| of(answer.client, answer.rejected));
    over_time(record, answers.enumerate().map(|(i, answer)| (answer.at, (i + 1) as f64)))
}

fn remaining(record: &Record) -> Vec<f64> {
    over_time(record, record.answers.iter().map(|answer| (answer.at, answer.remaining as f64)))
}

/// Draws a run: sleep, requests and retries of each client, and what the server has left.
#[must_use]
pub fn chart(name: &str, record: &Record) -> Chart {
    let each = |points: &dyn Fn(usize) -> Vec<f64>| -> Vec<Line> {
        let line = |client| Line { name: format!("client {}", client + 1), points: points(client) };
        (0..record.requests.len()).map(line).collect()
    };
    let panel = |title: &str, lines| Panel { title: title.into(), lines };
    let server = vec![Line { name: "server".into(), points: remaining(record) }];
    let panels = vec![
        panel("sleep of each client, s", each(&|client| sleep(record, client))),
        panel("requests of each client", each(&|client| count(record, |of, _| of == client))),
        panel("remaining tokens", server),
        panel("retries of each client", each(&|client| count(record, |of, rejected| of == client && rejected))),
    ];
    Chart { title: name.into(), step: record.ended / POINTS as f64, panels }
}

/// Draws runs beside one another, all clients together.
fn comparison(records: &[(&str, Record)]) -> Chart {
    let each = |points: &dyn Fn(&Record) -> Vec<f64>| -> Vec<Line> {
        records.iter().map(|(name, record)| Line { name: (*name).into(), points: points(record) }).collect()
    };
    let last_sleep = |record: &Record| over_time(record, record.sleeps.iter().map(|slept| (slept.at, slept.seconds)));
    let panel = |title: &str, lines| Panel { title: title.into(), lines };
    let panels = vec![
        panel("the last sleep of any client, s", each(&last_sleep)),
        panel("requests", each(&|record| count(record, |_, _| true))),
        panel("remaining tokens", each(&|record| remaining(record))),
        panel("retries", each(&|record| count(record, |_, rejected| rejected))),
    ];
    let ended = records.iter().map(|(_, record)| record.ended).fold(0.0, f64::max);
    Chart { title: "Strategies".into(), step: ended / POINTS as f64, panels }
}
