//! One limit, four processes, and a Redis that is paused, killed and emptied while they run.
//!
//! ```text
//!  process 0 ─┐
//!  process 1 ─┼─ leases, decisions ──▶ redis-server     paused, killed, restarted empty, flushed
//!  process 2 ─┤
//!  process 3 ─┘                                         killed, paused, started again
//! ```
//!
//! Where to look: `member` is what an application would write; `plan` says what happens when, and `checks` what is promised,
//! with `envelope` for the arithmetic. `--help` lists the options.

mod chart;
mod checks;
#[path = "../../../../examples/gateway/ending.rs"]
mod ending;
mod envelope;
mod figure;
mod fleet;
mod line;
mod member;
mod options;
mod plan;
mod redis_server;
mod report;
mod run;
mod signal;
mod tally;

use crate::ending::Ending;
use crate::options::{Command, Options};
use crate::report::Report;
use clap::Parser;
use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ending = match Options::try_parse() {
        Ok(options) => obey(options).await,
        // `--help` is one of these, and goes to stdout.
        Err(message) => match message.print() {
            Ok(()) => Ending::Status(message.exit_code() as u8),
            Err(error) => Ending::of_error(&error),
        },
    };
    ending.report(&mut stderr())
}

async fn obey(mut options: Options) -> Ending {
    let outcome = match options.command.take() {
        Some(Command::Member(member)) => member::run(&member).await.map(|()| true),
        None => match options.consistent() {
            Ok(()) => orchestrate(&options).await,
            Err(error) => return Ending::BadOptions(error.to_string()),
        },
    };
    match outcome {
        Ok(true) => Ending::Passed,
        Ok(false) => Ending::ChecksFailed,
        Err(error) => Ending::of_error(&*error),
    }
}

/// Runs the plan and prints the report; whether all checks passed.
async fn orchestrate(options: &Options) -> Result<bool, Box<dyn Error>> {
    let evidence = run::run(options).await?;
    let report = Report::new(options, &evidence, checks::all(options, &evidence));
    if options.json {
        writeln!(stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        writeln!(stdout(), "{report}")?;
    }
    Ok(report.passed())
}
