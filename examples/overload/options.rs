//! The options of the command line.

use clap::{Parser, value_parser};
use std::time::Duration;

/// A server at three times its capacity, with and without admission, over real sockets.
///
/// Prints what came of each class, and exits with 1 unless admission raised the median goodput of the top class.
#[derive(Clone, Debug, Parser)]
#[command(name = "overload")]
pub(crate) struct Options {
    /// Rounds, each of which runs every server once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
    pub(crate) pairs: u32,

    /// Seconds of overload in each run
    #[arg(long, value_name = "N", default_value_t = 3.0, value_parser = positive)]
    pub(crate) seconds: f64,

    /// Seconds of half the capacity before that, which do not count
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = positive)]
    pub(crate) calm: f64,

    /// The load, as a multiple of the measured capacity
    #[arg(long, value_name = "X", default_value_t = 3.0, value_parser = positive)]
    pub(crate) overload: f64,

    /// The load of the top class, as a multiple of the measured capacity
    #[arg(long, value_name = "X", default_value_t = 0.5, value_parser = positive)]
    pub(crate) top: f64,

    /// Threads of the server that compute; leave a core to the generator
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..))]
    pub(crate) workers: u16,

    /// Milliseconds of CPU that a request takes
    #[arg(long, value_name = "MS", default_value_t = 5.0, value_parser = positive)]
    pub(crate) service: f64,

    /// Milliseconds within which each request must be answered
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = value_parser!(u32).range(1..))]
    pub(crate) timeout: u32,

    /// The seed of the arrivals; the same for all servers of a round
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Options {
    pub(crate) fn service_time(&self) -> Duration {
        Duration::from_secs_f64(self.service / 1_000.0)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.into())
    }

    /// How long it takes until the overload begins.
    pub(crate) fn calm(&self) -> Duration {
        Duration::from_secs_f64(self.calm)
    }

    /// How long requests are sent in one run.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs_f64(self.calm + self.seconds)
    }
}

fn positive(text: &str) -> Result<f64, String> {
    const MOST: f64 = 86_400.0;
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number > 0.0 && number <= MOST { Ok(number) } else { Err(format!("must be above 0 and at most {MOST}")) }
}

#[cfg(test)]
mod tests {
    use super::Options;
    use clap::Parser;

    #[test]
    fn values_without_meaning_are_refused() {
        for arguments in [["--pairs", "0"], ["--seconds", "-1"], ["--overload", "NaN"], ["--workers", "0"]] {
            assert!(Options::try_parse_from(["overload"].iter().chain(&arguments)).is_err(), "{arguments:?}");
        }
    }
}
