//! One server at three times its capacity, with and without admission, over real sockets.
//!
//! ```text
//!  generator, 1 thread ─▶ I/O, 1 thread ─▶ [ deadline ─▶ admission ] ─▶ compute pool, 1 thread
//!  open loop              hyper            damper's layers              5 ms of CPU a request
//! ```
//!
//! Each round runs the same arrivals against three servers that differ in their layers only: [`Protection`]. The top class
//! is offered half of the capacity. Its goodput is the share of its requests that were answered within their deadline.
//!
//! # A fair comparison
//!
//! The handler is the same for all three. It computes on a pool of as many threads as the server has cores to spend,
//! because work of some milliseconds on the thread that reads the sockets would keep it from refusing anything. Where a
//! request has a deadline, the handler looks at it before it starts and ten times on the way, with and without admission.
//!
//! The generator needs some percent of a core. The server keeps one compute thread busy, so on two cores the generator has
//! one to itself and the I/O thread. How late it sent is in the report. A request's time counts from when it was due, not
//! from when it was sent, so a generator that lags lowers the goodput of all three servers.

mod client;
mod draws;
mod load;
mod machine;
mod options;
mod protection;
mod report;
mod run;
mod server;
mod tally;
mod work;

use crate::options::Options;
use crate::protection::Protection;
use crate::report::Report;
use clap::Parser;
use std::error::Error;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    let report = measured(&options).await?;
    println!("{report}");
    Ok(if report.admission_is_better() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all rounds, and shows on stderr where it is.
async fn measured(options: &Options) -> Result<Report<'_>, Box<dyn Error>> {
    let work = work::Work::calibrated(options.service_time());
    let mut report = Report::new(options);
    for round in 0..options.pairs {
        // In each round anew: on a machine that others use too it changes.
        let capacity = run::capacity(options, work).await?;
        report.add_capacity(capacity);
        for protection in Protection::in_turn(round) {
            eprintln!("round {} of {}: {}", round + 1, options.pairs, protection.name());
            report.add(round, protection, run::overload(options, work, capacity, round, protection).await?);
        }
    }
    Ok(report)
}
