//! An HTTP server of four worker processes, with one limit per client and one bulkhead for all.

mod check;
mod layout;
mod limits;
mod listen;
mod supervisor;
mod worker;

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;

const USAGE: &str = "usage: prefork [--listen ADDRESS:PORT]
       prefork check [--kills N] [--seed N] [--level PROGRAM] [--break reclaim]

Serves with four worker processes, or checks that killing them breaks no limit.
  --listen ADDRESS:PORT  where to serve, 127.0.0.1:8080 unless given
  --kills N              how many workers to kill, 500 unless given
  --seed N               chooses the moments and the victims, 1 unless given
  --level PROGRAM        the program of level.c, whose figure has to agree
  --break reclaim        leaves the slots of dead workers taken, to see the check fail";

/// The mode that the command line chooses.
enum Mode {
    Serve(SocketAddr),
    Worker(SocketAddr),
    Check(check::Options),
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Mode, Box<dyn Error>> {
    let Some(first) = arguments.next() else { return Ok(Mode::Serve(SocketAddr::from(([127, 0, 0, 1], 8080)))) };
    let mut value = |name: &str| arguments.next().ok_or(format!("{name} needs a value\n{USAGE}"));
    match first.as_str() {
        "--listen" => Ok(Mode::Serve(value("--listen")?.parse()?)),
        supervisor::WORKER => Ok(Mode::Worker(value("worker")?.parse()?)),
        "check" => {
            let mut options = check::Options::default();
            while let Ok(name) = value("") {
                match name.as_str() {
                    "--kills" => options.kills = value("--kills")?.parse()?,
                    "--seed" => options.seed = value("--seed")?.parse()?,
                    "--level" => options.level = Some(value("--level")?.into()),
                    "--break" if value("--break")? == "reclaim" => options.reclaims = false,
                    _ => return Err(USAGE.into()),
                }
            }
            Ok(Mode::Check(options))
        }
        _ => Err(USAGE.into()),
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match parse(env::args().skip(1))? {
        Mode::Serve(address) => supervisor::serve(&runtime, address),
        Mode::Worker(address) => runtime.block_on(worker::serve(address)).map(|never| match never {}),
        Mode::Check(options) => check::run(&runtime, &options),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prefork: {error}");
            ExitCode::FAILURE
        }
    }
}
