//! damper at work: a gateway with a limit per client and a breaker before its upstream, under load, checking itself.
//!
//! ```text
//!  clients ───────────▶ gateway ────────────────────────────▶ upstream
//!  127.0.0.1 floods     RateLimit, per client address: 429     answers, fails, stalls
//!  127.0.0.2 ...        CircuitBreak: 503
//! ```
//!
//! Where to look: `gateway` is what an application would write, `proxy` its call to the upstream; `plan` is the load,
//! `checks` what is promised, with `envelope` and `probes` for the arithmetic. `--help` tells the options.

mod chart;
mod checks;
mod client;
mod envelope;
mod figure;
mod gateway;
mod headers;
mod options;
mod plan;
mod probes;
mod progress;
mod proxy;
mod report;
mod run;
mod server;
mod tally;
mod upstream;
mod watch;

use crate::gateway::Gateway;
use crate::options::Options;
use crate::plan::Plan;
use crate::report::Report;
use crate::upstream::Upstream;
use damper::Monotonic;
use std::error::Error;
use std::io::{Write, stdout};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The code for options that cannot be met, as clap has it.
const BAD_OPTIONS: u8 = 2;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let options = Options::from_command_line();
    // Before anything else: bound means that the address was right and free.
    let listener = match TcpListener::bind(options.listen).await {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("error: cannot listen on {}: {error}", options.listen);
            return ExitCode::from(BAD_OPTIONS);
        }
    };
    match start(&options, listener).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the servers, then serves or runs; whether all checks passed.
async fn start(options: &Options, listener: TcpListener) -> Result<bool, Box<dyn Error>> {
    // The first use of the clock calibrates it, which should delay no request.
    Monotonic::calibrate();
    let plan = Plan::new(options);
    let upstream_listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let upstream_address = upstream_listener.local_addr()?;
    let upstream = Arc::new(Upstream::new());
    tokio::spawn(Arc::clone(&upstream).serve(upstream_listener));

    let bound = listener.local_addr()?;
    let gateway = Gateway::new(options.quota(), plan.cooldown(), plan.upstream_timeout(), upstream_address)?;
    let gateway = Arc::new(gateway);
    tokio::spawn(Arc::clone(&gateway).serve(listener));

    if options.serve {
        let quota = options.quota();
        writeln!(stdout(), "http://{bound}  {quota} per client address, /healthz exempt; Ctrl-C ends")?;
        tokio::signal::ctrl_c().await?;
        return Ok(true);
    }

    let evidence = run::run(&plan, &upstream, &gateway, Options::reachable(bound)).await?;
    let chart = chart::path();
    chart::draw(&chart, options, &plan, &evidence).map_err(|error| format!("{}: {error}", chart.display()))?;
    let report = Report::new(options, &plan, &evidence, checks::all(options, &plan, &evidence), &chart);
    if options.json {
        writeln!(stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        writeln!(stdout(), "{report}")?;
    }
    Ok(report.passed)
}
