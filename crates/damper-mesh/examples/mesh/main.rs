//! Two services that speak Mesh over real HTTP.
//!
//! They show limits of several scopes, warnings, refusals, capabilities, deadlines that are met, exceeded and passed
//! on, and a client that slows down and backs off.
//!
//! The example prints each exchange as on the wire, checks it, and exits with 1 if a check fails. Its manual clock
//! makes every run print the same.

// | file | idea |
// |---|---|
// | `services` | the two services |
// | `wire` | sends a document, and prints the exchange |
// | `exchanges` | the requests, and the responses that they must get |

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
