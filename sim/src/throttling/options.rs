//! The arguments of the command.

use super::contender::Options;
use super::experiment::{End, Experiment};
use super::server::{Algorithm, Level};
use std::time::Duration;

/// The task of the command.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The clients and their server.
    pub experiment: Experiment,
    /// Options of the strategies.
    pub options: Options,
    /// The seeds, from 1 to this.
    pub seeds: u64,
    /// The folder of the charts.
    pub charts: String,
}

/// The options, which are printed after a mistake.
pub const USAGE: &str = "\
throttling [OPTION VALUE]...
  --clients N          threads that call (10)
  --processes N        throttles, shared by the clients of a process (as many as clients)
  --quota QUOTA        of all clients together (4500/1h)
  --told QUOTA         what the clients are told the quota is (that quota)
  --server KIND        token-bucket, sliding-log, sliding-counter or fixed-window (token-bucket)
  --level LEVEL        empty or full at the start (empty)
  --hints yes|no       answers carry Retry-After and the time until the reset (no)
  --bare SHARE         of answers without hints and without what remains, from 0 to 1 (0)
  --latency SECONDS    of a call, on average (0.165)
  --minutes N          simulated time (30)
  --refill yes|no      the server gains tokens while clients clear a full quota (no)
  --outage FROM-UNTIL  minutes in which every call is refused (none)
  --join-gap SECONDS   between the first calls of two clients (0)
  --multiplier X       of a sleep at a refusal (1.2, and 2.0 for the first row)
  --cap SECONDS        the longest sleep (the quota's window)
  --divisor N          of strategies 3 and 4 (the limit)
  --start SECONDS      the sleep to begin with (0, and 1 for the time to clear)
  --seeds N            runs of each strategy (20)
  --charts FOLDER      for the SVG files (target/throttling)";

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} {value}: must be a number"))
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    let seconds = number::<f64>(name, value)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{name} {value}: must be 0 or more seconds"))
}

fn one_of<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let found = choices.iter().find(|(choice, _)| *choice == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| format!("{name} {value}: must be one of {}", names.join(", ")))
}

impl Arguments {
    /// Reads the arguments that follow the name of the subcommand.
    ///
    /// # Errors
    ///
    /// A message that names the wrong argument and the allowed values.
    pub fn parse(arguments: &[&str]) -> Result<Self, String> {
        let (mut experiment, mut options) = (Experiment::default(), Options::default());
        let (mut seeds, mut charts, mut processes) = (20, "target/throttling".to_owned(), None);
        for pair in arguments.chunks(2) {
            let [name, value] = *pair else { return Err(format!("{} has no value\n\n{USAGE}", pair[0])) };
            match name {
                "--clients" => experiment.clients = number(name, value)?,
                "--processes" => processes = Some(number(name, value)?),
                "--quota" => experiment.quota = value.parse().map_err(|error| format!("{name} {value}: {error}"))?,
                "--told" => {
                    experiment.told = Some(value.parse().map_err(|error| format!("{name} {value}: {error}"))?);
                }
                "--server" => {
                    experiment.algorithm = one_of(
                        name,
                        value,
                        &[
                            ("token-bucket", Algorithm::TokenBucket),
                            ("sliding-log", Algorithm::SlidingLog),
                            ("sliding-counter", Algorithm::SlidingCounter),
                            ("fixed-window", Algorithm::FixedWindow),
                        ],
                    )?;
                }
                "--level" => {
                    experiment.level = one_of(name, value, &[("empty", Level::Empty), ("full", Level::Full)])?;
                }
                "--hints" => experiment.hints = one_of(name, value, &[("yes", true), ("no", false)])?,
                "--refill" => experiment.refilled = one_of(name, value, &[("yes", true), ("no", false)])?,
                "--bare" => experiment.bare = number(name, value)?,
                "--latency" => experiment.latency = seconds(name, value)?.as_secs_f64(),
                "--minutes" => experiment.end = End::After(60.0 * number::<f64>(name, value)?),
                "--outage" => {
                    let (from, until) = value
                        .split_once('-')
                        .ok_or_else(|| format!("{name} {value}: must be two minutes, as 10-15"))?;
                    experiment.outage = Some((60.0 * number::<f64>(name, from)?, 60.0 * number::<f64>(name, until)?));
                }
                "--join-gap" => experiment.join_gap = seconds(name, value)?.as_secs_f64(),
                "--multiplier" => options.multiplier = Some(number(name, value)?),
                "--cap" => options.cap = Some(seconds(name, value)?),
                "--divisor" => options.divisor = Some(number(name, value)?),
                "--start" => options.start = Some(seconds(name, value)?),
                "--seeds" => seeds = number(name, value)?,
                "--charts" => value.clone_into(&mut charts),
                _ => return Err(format!("{name} is not an option\n\n{USAGE}")),
            }
        }
        experiment.processes = processes.unwrap_or(experiment.clients);
        let Experiment { clients, processes, .. } = experiment;
        if clients == 0 || clients > 10_000 {
            return Err(format!("--clients {clients}: must be from 1 to 10000"));
        }
        if processes == 0 || processes > clients {
            return Err(format!("--processes {processes}: must be from 1 to {clients}, the clients"));
        }
        if !(0.0..=1.0).contains(&experiment.bare) {
            return Err(format!("--bare {}: must be from 0 to 1", experiment.bare));
        }
        if experiment.latency <= 0.0 {
            return Err("--latency 0: must be more than 0, or a client without a throttle calls without end".into());
        }
        if !(1..=1_000).contains(&seeds) {
            return Err(format!("--seeds {seeds}: must be from 1 to 1000"));
        }
        Ok(Self { experiment, options, seeds, charts })
    }
}
