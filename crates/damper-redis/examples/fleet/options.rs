//! The command line: its options, and combinations that make no sense.

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use core::fmt;
use core::iter;
use core::time::Duration;
use damper_core::Quota;
use damper_redis::WhenDown;
use serde::Serialize;
use std::path::PathBuf;

/// The shortest and the longest run, in seconds.
///
/// A phase is an eighth of it. Recovery may take a second of a phase, and a second has to be left to measure in.
const SECONDS: (f64, f64) = (20.0, 3_600.0);

/// One limit over four processes, on a Redis that is paused, killed and emptied while they run.
///
/// The program starts redis-server and several processes of itself, which check one limit four times as often as it
/// allows. It pauses Redis and kills it, restarts it empty, kills and pauses processes, and flushes everything. Then it
/// prints what was admitted, and checks that against what is promised. Its exit code is 1 if a promise was broken.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(name = "fleet", verbatim_doc_comment)]
pub(crate) struct Options {
    /// How long to run, in seconds: eight phases of one length
    #[arg(long, value_name = "N", default_value_t = 28.0, value_parser = seconds)]
    pub(crate) seconds: f64,

    /// Tokens per second of the limit
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = value_parser!(u32).range(400..=20_000))]
    pub(crate) rate: u32,

    /// Tokens that can be saved up [default: what the rate brings in a second]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    #[serde(skip)]
    burst: Option<u32>,

    /// Processes that share the limit; the first is killed once, the second is paused
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(3..=16))]
    pub(crate) processes: u32,

    /// The policy while Redis does not answer
    #[arg(long, value_enum, default_value_t = Policy::LocalShare)]
    pub(crate) policy: Policy,

    /// The program that is started as Redis
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    pub(crate) redis: PathBuf,

    /// Print the result as JSON, and nothing else, on stdout
    #[arg(long)]
    pub(crate) json: bool,

    #[command(subcommand)]
    #[serde(skip)]
    pub(crate) command: Option<Command>,
}

/// How this program calls itself.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// One process of the fleet
    #[command(hide = true)]
    Member(Member),
}

/// The limit of one process and the load on it.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct Member {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) rate: u32,
    #[arg(long)]
    pub(crate) burst: u32,
    #[arg(long)]
    pub(crate) processes: u32,
    #[arg(long, value_enum)]
    pub(crate) policy: Policy,
}

/// The policies of `WhenDown`, by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Policy {
    /// Each process has its share of the rate
    LocalShare,
    /// Everything is allowed
    Open,
    /// Everything is denied
    Closed,
}

impl Member {
    /// The command line of this process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let policy = self.policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let (rate, burst, processes) = (self.rate.to_string(), self.burst.to_string(), self.processes.to_string());
        let options = [("--url", &self.url), ("--rate", &rate), ("--burst", &burst), ("--processes", &processes)];
        let options = options.into_iter().chain([("--policy", &policy)]);
        let words = options.flat_map(|(name, value)| [name.to_owned(), value.clone()]);
        iter::once("member".to_owned()).chain(words).collect()
    }
}

impl Policy {
    pub(crate) fn when_down(self) -> WhenDown {
        match self {
            Self::LocalShare => WhenDown::LocalShare,
            Self::Open => WhenDown::Open,
            Self::Closed => WhenDown::Closed,
        }
    }
}

/// Options that are valid one by one, but not together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionsError {
    /// Leases need a burst of 100 ms of the rate.
    BurstTooSmall { burst: u32, least: u32 },
    /// Used up and refilled within a phase, a burst shows what is promised.
    BurstTooLarge { burst: u32, most: u32 },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BurstTooSmall { burst, least } => {
                write!(f, "--burst {burst}: too small for leases, which need 100 ms of the rate; at least {least}")
            }
            Self::BurstTooLarge { burst, most } => {
                write!(f, "--burst {burst}: not used up within a phase; at most {most}, or more --seconds")
            }
        }
    }
}

impl Options {
    pub(crate) fn burst(&self) -> u32 {
        self.burst.unwrap_or(self.rate)
    }

    pub(crate) fn quota(&self) -> Quota {
        Quota::per_second(self.rate).burst(self.burst())
    }

    /// The length of a phase.
    pub(crate) fn phase(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / 8.0)
    }

    /// The limit of a process, on the server with this URL.
    pub(crate) fn member(&self, url: String) -> Member {
        Member { url, rate: self.rate, burst: self.burst(), processes: self.processes, policy: self.policy }
    }

    /// Checks the values together, which clap cannot do.
    pub(crate) fn consistent(&self) -> Result<(), OptionsError> {
        let burst = self.burst();
        let least = self.rate.div_ceil(10);
        if burst < least {
            return Err(OptionsError::BurstTooSmall { burst, least });
        }
        let most = (f64::from(self.rate) * self.seconds / 8.0 / 2.0) as u32;
        if burst > most {
            return Err(OptionsError::BurstTooLarge { burst, most });
        }
        Ok(())
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (SECONDS.0..=SECONDS.1).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("must be {} to {}", SECONDS.0, SECONDS.1))
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Options, OptionsError};
    use clap::Parser;
    use core::iter;

    fn options(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from(iter::once("fleet").chain(arguments.iter().copied()))
    }

    #[test]
    fn usual_settings_are_fine() {
        for arguments in [&[][..], &["--rate", "400", "--burst", "40"], &["--policy", "open"], &["--seconds", "60"]] {
            let options = options(arguments).expect("they are valid");
            assert_eq!(options.consistent(), Ok(()), "{arguments:?}");
        }
    }

    #[test]
    fn processes_understand_their_command_line() {
        let options = options(&["--policy", "closed", "--rate", "700"]).expect("they are valid");
        let member = options.member("redis://127.0.0.1:1/".to_owned());
        let read = Options::try_parse_from(iter::once("fleet".to_owned()).chain(member.arguments()));
        let Ok(Options { command: Some(Command::Member(read)), .. }) = read else { panic!("{read:?}") };
        assert_eq!(read, member);
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for arguments in [
            ["--rate", "399"],
            ["--rate", "20001"],
            ["--burst", "0"],
            ["--processes", "2"],
            ["--policy", "none"],
            ["--seconds", "NaN"],
            ["--seconds", "19"],
        ] {
            let error = options(&arguments).expect_err("it is not valid").to_string();
            assert!(error.contains(arguments[0]) && error.contains(arguments[1]), "{error}");
        }
    }

    #[test]
    fn bursts_that_do_not_fit_the_rate_are_refused() {
        let verdict = |burst| options(&["--rate", "1000", "--burst", burst]).expect("it is valid").consistent();
        assert_eq!(verdict("99"), Err(OptionsError::BurstTooSmall { burst: 99, least: 100 }));
        assert_eq!(verdict("1751"), Err(OptionsError::BurstTooLarge { burst: 1_751, most: 1_750 }));
        assert_eq!(verdict("1750"), Ok(()));
    }
}
