//! damper beside its peers: what a call costs, both measured by turns in one process.
//!
//! ```text
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- [--quick] [--json FILE] [NAME]...
//! ```
//!
//! A row is a [`Contest`]; there is a file per concept with a table of them, and `harness.rs` says how they are
//! measured. Every peer runs in its fastest documented configuration for the same work: on its default clock, or on
//! its own coarse clock where damper's is coarse. A ratio is damper's cost over the peer's, so that less is better, and the
//! bar is what it should not exceed. A missed bar is marked and no
//! more: on a busy machine timings are noise.

mod adaptive;
mod admission;
mod breaker;
mod bulkhead;
mod client_layer;
mod contest;
mod floor;
mod harness;
mod keyed;
mod layer;
mod layer_floor;
mod limit;
mod lru;
mod memory;
mod report;
mod retry;
mod throttle;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use contest::Contest;
use harness::Effort;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// Measures what damper and its peers cost, by turns in one process.
#[derive(Debug, Parser)]
struct Options {
    /// Measures for some seconds only
    #[arg(long)]
    quick: bool,
    /// Also writes the rows to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measures these rows only
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    names: Vec<String>,
}

fn contests() -> impl Iterator<Item = &'static Contest> {
    let groups = [
        limit::CONTESTS,
        breaker::CONTESTS,
        bulkhead::CONTESTS,
        adaptive::CONTESTS,
        admission::CONTESTS,
        throttle::CONTESTS,
        retry::CONTESTS,
        keyed::CONTESTS,
        layer::CONTESTS,
        client_layer::CONTESTS,
        lru::CONTESTS,
        floor::CONTESTS,
    ];
    groups.into_iter().flatten()
}

/// The names of all rows.
fn names() -> impl Iterator<Item = &'static str> {
    contests().map(|contest| contest.name).chain(memory::NAMES)
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let effort = if options.quick { Effort::QUICK } else { Effort::FULL };
    let asked_for = |name: &str| options.names.is_empty() || options.names.iter().any(|asked| asked == name);
    // First, so that a wrong file name is reported before the work, not after it.
    let json = options.json.map(File::create).transpose()?;

    println!("{}", report::HEADER);
    let mut rows = Vec::new();
    // First: what others free would be used again.
    rows.extend(memory::measure(asked_for));
    for row in &rows {
        println!("{row}");
    }
    for contest in contests().filter(|contest| asked_for(contest.name)) {
        let row = harness::measure(contest, effort);
        println!("{row}");
        rows.push(row);
    }
    if let Some(mut file) = json {
        serde_json::to_writer_pretty(&file, &rows)?;
        writeln!(file)?;
    }
    Ok(())
}
