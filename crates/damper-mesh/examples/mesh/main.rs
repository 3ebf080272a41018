//! Two services that speak Mesh over real HTTP: limits of several scopes, warnings, refusals, capabilities, deadlines that are met,
//! exceeded and passed on, and a client that slows down and backs off.
//!
//! It prints each exchange as it is on the wire, checks it, and exits with 1 if something is off. Its clock is moved by hand, so that
//! every run prints the same.

// | file | idea |
// |---|---|
// | `services` | the two services |
// | `wire` | sends a document, and prints the exchange |
// | `exchanges` | what is sent, and what has to come back |

mod exchanges;
mod services;
mod wire;

use std::error::Error;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let checks = exchanges::run().await?;
    println!("== checks");
    for check in &checks {
        println!("{} {}", if check.passed { "ok    " } else { "FAILED" }, check.what);
    }
    let failed = checks.iter().filter(|check| !check.passed).count();
    println!("{} of {} checks passed", checks.len() - failed, checks.len());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
