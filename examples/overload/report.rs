//! The result, as tables.

use crate::machine;
use crate::options::Options;
use crate::protection::Protection;
use crate::run::Outcome;
use crate::tally::CLASSES;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use std::fmt;

#[derive(Debug)]
pub(crate) struct Report<'a> {
    options: &'a Options,
    /// Of each round, in requests a second.
    capacities: Vec<f64>,
    outcomes: Vec<(u32, Protection, Outcome)>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        Self { options, capacities: Vec::new(), outcomes: Vec::new() }
    }

    pub(crate) fn add_capacity(&mut self, capacity: f64) {
        self.capacities.push(capacity);
    }

    pub(crate) fn add(&mut self, round: u32, protection: Protection, outcome: Outcome) {
        self.outcomes.push((round, protection, outcome));
    }

    /// Whether admission raised the goodput of the top class above that of both others.
    ///
    /// The medians of the rounds count. The difference has to be at least a tenth of the requests offered, because less
    /// might be chance.
    pub(crate) fn admission_is_better(&self) -> bool {
        const LEAST: f64 = 0.1;
        let top = |protection| self.median(protection, |outcome| outcome.tally.classes[0].goodput());
        top(Protection::Admission) > top(Protection::Deadlines).max(top(Protection::Nothing)) + LEAST
    }

    /// The median of a figure over the rounds of one server.
    fn median(&self, protection: Protection, figure: impl Fn(&Outcome) -> f64) -> f64 {
        let of_server = self.outcomes.iter().filter(|(_, of, _)| *of == protection);
        median(of_server.map(|(_, _, outcome)| figure(outcome)).collect())
    }

    fn medians(&self, figure: impl Fn(&Outcome) -> f64) -> [f64; 3] {
        Protection::ALL.map(|protection| self.median(protection, &figure))
    }

    fn rounds(&self) -> Table {
        let mut table = table("goodput of the top class");
        for round in 0..self.options.pairs {
            let goodput = |protection| {
                let found = self.outcomes.iter().find(|(of, by, _)| (*of, *by) == (round, protection));
                found.map_or(f64::NAN, |(_, _, outcome)| outcome.tally.classes[0].goodput())
            };
            table.add_row(row(&format!("round {}", round + 1), Protection::ALL.map(goodput), percent));
        }
        let medians = self.medians(|outcome| outcome.tally.classes[0].goodput());
        table.add_row(row("median", medians, percent));
        table
    }

    fn details(&self) -> Table {
        let mut table = table("medians of the rounds");
        for class in 0..CLASSES {
            let goodput = self.medians(|outcome| outcome.tally.classes[class].goodput());
            table.add_row(row(&format!("class {class}: goodput"), goodput, percent));
        }
        for class in 0..CLASSES {
            for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
                let latency = |outcome: &Outcome| outcome.tally.classes[class].latency(quantile).unwrap_or(f64::NAN);
                table.add_row(row(&format!("class {class}: {name}"), self.medians(latency), milliseconds));
            }
        }
        let share = |part| self.medians(|outcome| outcome.tally.share(part));
        table.add_row(row("all: answered in time", share(|class| class.in_time), percent));
        table.add_row(row("all: refused at once, 503", share(|class| class.refused), percent));
        table.add_row(row("all: no answer in time", share(|class| class.missed), percent));
        table.add_row(row("all: failed otherwise", share(|class| class.failed), percent));
        table.add_row(row("work finished late", self.medians(|outcome| outcome.late), percent));
        table.add_row(row("work ended at its deadline", self.medians(|outcome| outcome.ended), percent));
        table.add_row(row("generator: lag, p99", self.medians(|outcome| outcome.tally.lag()), milliseconds));
        table
    }
}

/// The mean of the two in the middle of an even number.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().saturating_sub(1);
    figures.get(last / 2).zip(figures.get(last.div_ceil(2))).map_or(f64::NAN, |(low, high)| low.midpoint(*high))
}

fn table(title: &str) -> Table {
    let mut table = Table::new();
    let names = Protection::ALL.map(Protection::name);
    table.load_style(UTF8_BORDERS_ONLY).set_header([title, names[0], names[1], names[2]]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(name: &str, figures: [f64; 3], shown: fn(f64) -> String) -> [String; 4] {
    let [nothing, deadlines, admission] =
        figures.map(|figure| if figure.is_nan() { "-".to_owned() } else { shown(figure) });
    [name.to_owned(), nothing, deadlines, admission]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn milliseconds(time: f64) -> String {
    format!("{time:.1} ms")
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { workers, service, timeout, overload, top, pairs, seconds, calm, .. } = self.options;
        let capacity = median(self.capacities.clone());
        let offered = overload * capacity;
        let (top, others) = (top * capacity, (overload - top) * capacity);
        writeln!(f, "Machine: {}", machine::description())?;
        writeln!(
            f,
            "Server:  hyper, 1 thread for sockets, {workers} to compute; {service} ms of CPU a request; capacity {capacity:.0}/s, the median of the rounds"
        )?;
        writeln!(
            f,
            "Load:    {offered:.0}/s from 1 thread, open loop: class 0 {top:.0}/s, classes 1 to 3 {others:.0}/s together; deadline {timeout} ms"
        )?;
        writeln!(
            f,
            "Runs:    {pairs} rounds of 3 servers by turns, {seconds} s of overload each, after {calm} s of half the capacity\n"
        )?;
        writeln!(f, "{}\n", self.rounds())?;
        writeln!(f, "{}\n", self.details())?;
        writeln!(
            f,
            "nothing: no layer; deadlines: a deadline layer; admission: the same deadline layer, and admission."
        )?;
        writeln!(
            f,
            "Goodput: answered within the deadline, of those offered. Latency: of answers in time, from when the request was due."
        )?;
        write!(f, "Work finished late: of all finished. Work ended at its deadline: of all begun.")
    }
}
