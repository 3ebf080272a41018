//! Minorities: a few callers beside all others, over real sockets and through the real layers.
//!
//! ```text
//!  polite callers   ─┐
//!                    ├─▶ client's layers ─▶ hyper ─▶ server's layers ─▶ pool of workers
//!  a few others     ─┘   (open loop)                                    (first come, first served)
//! ```
//!
//! Each row of [`rows`](row::rows) is a minority that is greedy, broken or hostile beside callers that are not. It runs twice at the
//! same time, each time with a server and a client of its own: behind the layer with its default settings, and behind a fixed limit
//! that somebody chose who knows the pool. A polite call is served if it gets a 200. The program prints which share of the polite work
//! was served, and exits with 1 if the default serves less than 0.85 of what the fixed limit does, or than the bar of the row.
//!
//! The workers sleep instead of computing, so that two rows fit on two cores at once. How late the generators sent is in the report.

mod client;
mod report;
mod row;
mod server;
mod traffic;

use crate::report::Report;
use crate::row::{Guard, Row, rows};
use clap::Parser;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Runs minorities beside polite callers, and prints what the others get.
#[derive(Clone, Debug, Parser)]
#[command(name = "minorities")]
struct Options {
    /// Seconds of each run that count; five seconds before them do not
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,

    /// The seed of the arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How many rows run at the same time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    at_once: u8,

    /// Runs only the rows whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let options = Options::parse();
    let mut runs = JoinSet::new();
    let places = Arc::new(Semaphore::new(options.at_once.into()));
    for (place, row) in rows().into_iter().enumerate().filter(|(_, row)| row.name.contains(&options.only)) {
        let (length, seed, places) = (Duration::from_secs(options.seconds.into()), options.seed, Arc::clone(&places));
        runs.spawn(async move {
            let _place = places.acquire_owned().await?;
            let [tried, fixed] = [row.guard, Guard::Fixed].map(|guard| run(&row, guard, length, seed));
            Ok::<_, Box<dyn Error + Send + Sync>>((place, row.guard, tokio::try_join!(tried, fixed)?))
        });
    }
    let mut report = Report::default();
    while let Some(ended) = runs.join_next().await {
        let (place, guard, (tried, fixed)) = ended??;
        report.add(place, guard, tried);
        report.add(place, Guard::Fixed, fixed);
    }
    println!("{report}");
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one row behind one guard.
async fn run(
    row: &Row,
    guard: Guard,
    length: Duration,
    seed: u64,
) -> Result<traffic::Served, Box<dyn Error + Send + Sync>> {
    let address = server::start(row, guard).await?;
    let client = client::client(guard);
    traffic::send(row, &client, address, length, seed).await
}
