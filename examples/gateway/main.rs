//! damper at work: a gateway with a limit per client and a breaker, under load, checking itself.
//!
//! ```text
//!  clients ───────────▶ gateway ────────────────────────────▶ upstream
//!  127.0.0.1 floods     RateLimit, per client address: 429     answers, fails, stalls
//!  127.0.0.2 ...        CircuitBreak: 503
//! ```
//!
//! Where to look: `gateway` is what an application would write, `live` its page with the load of `visitors`, `proxy` its
//! call to the upstream; `plan` is the load, `checks` what is promised, with `envelope` and `probes` for the arithmetic. `--help` lists the options.

mod chart;
mod checks;
mod client;
mod ending;
mod envelope;
mod figure;
mod gateway;
mod headers;
mod listen;
mod live;
mod options;
mod plan;
mod probes;
mod progress;
mod proxy;
mod report;
mod run;
mod server;
mod svg;
mod tally;
mod upstream;
mod visitors;
mod watch;

use crate::ending::Ending;
use crate::gateway::Gateway;
use crate::live::Live;
use crate::options::{Options, Task};
use crate::plan::Plan;
use crate::report::Report;
use crate::upstream::Upstream;
use damper::Monotonic;
use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    // An argument that is no Unicode is no option either, and its message shows it.
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let ending = match Task::parse(arguments) {
        Ok(Task::Run(options)) => obey(&options).await,
        Ok(Task::Help(text)) => match write!(stdout(), "{text}") {
            Ok(()) => Ending::Status(0),
            Err(error) => Ending::of_error(&error),
        },
        Err(message) => Ending::BadOptions(message),
    };
    ending.report(&mut stderr())
}

async fn obey(options: &Options) -> Ending {
    let addresses = match options.consistent().and_then(|()| options.addresses()) {
        Ok(addresses) => addresses,
        Err(message) => return Ending::BadOptions(message),
    };
    // Before anything else: bound means that the address was right and free.
    let listener = match TcpListener::bind(&addresses[..]).await {
        Ok(listener) => listener,
        Err(error) => return Ending::BadOptions(format!("cannot listen on {}: {error}", options.listen)),
    };
    match start(options, listener).await {
        Ok(true) => Ending::Passed,
        Ok(false) => Ending::ChecksFailed,
        Err(error) => Ending::of_error(&*error),
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

    if options.serve {
        let quota = options.quota();
        let (token, origin) = live::token()?;
        let live = Live::new(options, &gateway, &upstream, Options::reachable(bound), token)?;
        tokio::spawn(gateway.serve_with_page(listener, live));
        writeln!(stdout(), "http://{bound}  {quota} per client address, /healthz exempt; Ctrl-C ends")?;
        writeln!(stdout(), "http://{}/damper  shows it live; token {origin}", Options::reachable(bound))?;
        tokio::signal::ctrl_c().await?;
        return Ok(true);
    }

    tokio::spawn(Arc::clone(&gateway).serve(listener));
    let evidence = run::run(&plan, &upstream, &gateway, Options::reachable(bound)).await?;
    let picture = chart::draw(options, &plan, &evidence);
    let chart = match chart::write(Path::new(""), &picture) {
        Ok(path) => Some(path),
        // A directory that cannot be written to costs the chart, not the result.
        Err(error) => {
            _ = writeln!(stderr(), "warning: {error}");
            None
        }
    };
    let report = Report::new(options, &plan, &evidence, checks::all(options, &plan, &evidence), chart.as_deref());
    if options.json {
        writeln!(stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        writeln!(stdout(), "{report}")?;
    }
    Ok(report.passed)
}
