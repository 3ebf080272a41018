//! The command line: its options, and combinations that make no sense.

use crate::listen::Listen;
use clap::{Parser, value_parser};
use damper::Quota;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The shortest and the longest run, in seconds.
///
/// A phase is a quarter of it, and the breaker needs a second to show itself.
const SECONDS: (f64, f64) = (4.0, 3_600.0);

/// The highest limit that this program can flood at four times its rate.
///
/// It serves on the same machine.
const MAX_RATE_UNDER_LOAD: u32 = 2_500;

/// A gateway with a rate limit per client and a circuit breaker, under load from real sockets.
///
/// Everything is in this one process: an upstream that is made to fail and to stall, the gateway in front of it, and
/// clients that call it from addresses of their own. The run has four equal phases: calm, flood (one client sends four
/// times what it may), outage (the upstream answers 503, then not at all) and recovery. It checks itself, and its exit
/// code is 1 if a promise was broken.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(name = "gateway", verbatim_doc_comment)]
pub(crate) struct Options {
    /// How long to run, in seconds
    #[arg(long, value_name = "N", default_value_t = 12.0, value_parser = seconds)]
    pub(crate) seconds: f64,

    /// Requests per second that every client address may send
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..))]
    pub(crate) rate: u32,

    /// Requests that a client can save up and send at once [default: twice the rate]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    // The report has the burst in force.
    #[serde(skip)]
    burst: Option<u32>,

    /// Client addresses, 127.0.0.1 and up; the first is the one that floods.
    ///
    /// More join if the rate is so low that these could not trip a breaker within the outage
    #[arg(long, verbatim_doc_comment, value_name = "N", default_value_t = 4, value_parser = value_parser!(u16).range(2..=200))]
    pub(crate) clients: u16,

    /// Where the gateway listens, a name or an address; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: Listen,

    /// Serve until Ctrl-C, for curl or wrk, with a page at /damper whose buttons bring load
    #[arg(long, conflicts_with_all = ["seconds", "clients", "json"])]
    pub(crate) serve: bool,

    /// Print the result as JSON, and nothing else, on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    pub(crate) fn quota(&self) -> Quota {
        Quota::per_second(self.rate).burst(self.burst())
    }

    pub(crate) fn burst(&self) -> u32 {
        self.burst.unwrap_or(self.rate.saturating_mul(2))
    }

    /// Checks the values together, which clap cannot do.
    ///
    /// `--serve` accepts every valid quota.
    pub(crate) fn consistent(&self) -> Result<(), String> {
        if self.serve {
            return Ok(());
        }
        if self.rate > MAX_RATE_UNDER_LOAD {
            return Err(format!(
                "--rate {}: cannot be flooded from this machine; at most {MAX_RATE_UNDER_LOAD}, or any with --serve",
                self.rate
            ));
        }
        // The flood's tokens are compared with the quota to 2 %. A token that comes while the bucket is full is lost,
        // and it is full after (burst - 1) / rate seconds without a request: give a busy machine 100 ms.
        let least = 1 + self.rate / 10;
        if self.burst() < least {
            return Err(format!(
                "--burst {}: refilled too fast at {}/s to be measured; at least {least}, or any with --serve",
                self.burst(),
                self.rate
            ));
        }
        // The flood sends four times the rate for a quarter of the run: it must use up the burst and what drips in.
        let most = (f64::from(self.rate) * self.seconds / 2.0) as u32;
        if self.burst() > most {
            return Err(format!(
                "--burst {}: not used up by a flood at {}/s in {} s; at most {most}, or any with --serve",
                self.burst(),
                self.rate,
                self.seconds
            ));
        }
        Ok(())
    }

    /// The addresses to bind to; the first that is free will do.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let mut addresses = self.listen.resolve().map_err(|error| format!("--listen {}: {error}", self.listen))?;
        if !self.serve {
            let found = addresses[0].ip();
            addresses.retain(|address| match address.ip() {
                IpAddr::V4(ip) => ip.is_loopback() || ip.is_unspecified(),
                IpAddr::V6(_) => false,
            });
            if addresses.is_empty() {
                return Err(format!(
                    "--listen {}: the clients call from 127.0.0.1 and up and cannot reach {found}; only with --serve",
                    self.listen
                ));
            }
        }
        Ok(addresses)
    }

    /// The address that clients of this machine call, given the one that the gateway is bound to.
    pub(crate) fn reachable(bound: SocketAddr) -> SocketAddr {
        let ip = if bound.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bound.ip() };
        SocketAddr::new(ip, bound.port())
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
    use super::Options;
    use clap::Parser;

    fn verdict(arguments: &[&str]) -> Result<(), String> {
        let command_line = std::iter::once("gateway").chain(arguments.iter().copied());
        let options = Options::try_parse_from(command_line).map_err(|error| error.to_string())?;
        options.consistent()?;
        options.addresses().map(drop)
    }

    #[test]
    fn odd_settings_are_fine() {
        for arguments in [
            &["--rate", "1", "--burst", "1"][..],
            &["--rate", "2000"],
            &["--seconds", "4.5"],
            &["--listen", "localhost:0"],
        ] {
            assert_eq!(verdict(arguments), Ok(()), "{arguments:?}");
        }
        assert_eq!(verdict(&["--serve", "--rate", "4000000000", "--burst", "1", "--listen", "[::1]:0"]), Ok(()));
    }

    #[test]
    fn nonsense_is_refused() {
        for arguments in [
            &["--rate", "0"][..],
            &["--burst", "0"],
            &["--rate", "50", "--burst", "5"],
            &["--rate", "50", "--burst", "301"],
            &["--rate", "100000"],
            &["--seconds", "1"],
            &["--seconds", "NaN"],
            &["--clients", "1"],
            &["--listen", "nowhere"],
            &["--listen", "nowhere.invalid:80"],
            &["--listen", "[::1]:0"],
            &["--serve", "--json"],
        ] {
            assert!(verdict(arguments).is_err(), "{arguments:?}");
        }
    }
}
