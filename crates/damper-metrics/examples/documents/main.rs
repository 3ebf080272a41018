//! Prints what is generated from the catalogue of metrics.
//!
//! ```text
//! cargo run -p damper-metrics --example documents -- reference | dashboard | alerts
//! ```

mod alerts;
mod dashboard;
mod reference;

use std::process::ExitCode;

fn main() -> ExitCode {
    let document = match std::env::args().nth(1).as_deref() {
        Some("reference") => reference::reference(),
        Some("dashboard") => dashboard::dashboard(),
        Some("alerts") => alerts::alerts(),
        _ => {
            eprintln!("usage: documents reference | dashboard | alerts");
            return ExitCode::from(2);
        }
    };
    print!("{document}");
    ExitCode::SUCCESS
}
