//! The command line: its options, and combinations that make no sense.

use crate::listen::Listen;
use damper::Quota;
use serde::Serialize;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The shortest and the longest run, in seconds.
///
/// A phase is a quarter of it, and the breaker needs a second to show itself.
const SECONDS: RangeInclusive<f64> = 4.0..=3_600.0;

/// The client addresses of a run: one floods, and at least one other is spared.
const CLIENTS: RangeInclusive<u16> = 2..=200;

/// The highest limit that this program can flood at four times its rate.
///
/// It serves on the same machine.
const MAX_RATE_UNDER_LOAD: u32 = 2_500;

/// The text of `--help`.
const HELP: &str = "\
A gateway with a rate limit per client and a circuit breaker, under load from real sockets.

Everything is in this one process: an upstream that is made to fail and to stall, the gateway in front of it, and
clients that call it from addresses of their own. The run has four equal phases: calm, flood (one client sends four
times what it may), outage (the upstream answers 503, then not at all) and recovery. It checks itself, and its exit
code is 1 if a promise was broken.

Usage: gateway [OPTIONS]

  --seconds N         How long to run, in seconds [default: 12]
  --rate N            Requests per second that every client address may send [default: 50]
  --burst N           Requests that a client can save up and send at once [default: twice the rate]
  --clients N         Client addresses, 127.0.0.1 and up; the first is the one that floods. More join if the
                      rate is so low that these could not trip a breaker within the outage [default: 4]
  --listen HOST:PORT  Where the gateway listens, a name or an address; port 0 takes a free one
                      [default: 127.0.0.1:0]
  --serve             Serve until Ctrl-C, for curl or wrk, with a page at /damper whose buttons bring load
  --json              Print the result as JSON, and nothing else, on stdout
  --help              Print this text
";

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Options {
    pub(crate) seconds: f64,
    pub(crate) rate: u32,
    // The report has the burst in force.
    #[serde(skip)]
    burst: Option<u32>,
    pub(crate) clients: u16,
    pub(crate) listen: Listen,
    pub(crate) serve: bool,
    pub(crate) json: bool,
}

/// The task that a command line gives.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Run(Options),
    /// Print this text.
    Help(&'static str),
}

impl Task {
    /// Reads the arguments after the program's name. A value follows its option, or an `=`.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Options::default();
        let mut arguments = arguments.into_iter();
        let mut only_of_runs = None;
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (&*argument, None),
            };
            if let (Some(value), "--serve" | "--json" | "--help") = (&value, name) {
                return Err(format!("{name} takes no value, such as {value:?}"));
            }
            let value = || value.or_else(|| arguments.next()).ok_or_else(|| format!("{name}: its value is missing"));
            match name {
                "--seconds" => options.seconds = seconds(&value()?)?,
                "--rate" => options.rate = whole(name, &value()?, 1..=u32::MAX)?,
                "--burst" => options.burst = Some(whole(name, &value()?, 1..=u32::MAX)?),
                "--clients" => options.clients = whole(name, &value()?, CLIENTS)?,
                "--listen" => options.listen = value()?.parse().map_err(|error| format!("--listen: {error}"))?,
                "--serve" => options.serve = true,
                "--json" => options.json = true,
                "--help" | "-h" => return Ok(Self::Help(HELP)),
                _ => return Err(format!("unexpected argument {argument:?}; --help lists the options")),
            }
            if matches!(name, "--seconds" | "--clients" | "--json") {
                only_of_runs = Some(name.to_owned());
            }
        }
        match only_of_runs {
            Some(name) if options.serve => Err(format!("{name} cannot be used with --serve")),
            _ => Ok(Self::Run(options)),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        let listen = Listen::any_loopback_port();
        Self { seconds: 12.0, rate: 50, burst: None, clients: 4, listen, serve: false, json: false }
    }
}

impl Options {
    pub(crate) fn quota(&self) -> Quota {
        Quota::per_second(self.rate).burst(self.burst())
    }

    pub(crate) fn burst(&self) -> u32 {
        self.burst.unwrap_or(self.rate.saturating_mul(2))
    }

    /// Checks the values together.
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
    within("--seconds", text, "a number", &SECONDS)
}

fn whole<N: FromStr + PartialOrd + Display>(name: &str, text: &str, range: RangeInclusive<N>) -> Result<N, String> {
    within(name, text, "a whole number", &range)
}

fn within<N: FromStr + PartialOrd + Display>(
    name: &str,
    text: &str,
    kind: &str,
    range: &RangeInclusive<N>,
) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{name} {text}: not {kind} from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
impl Options {
    /// The options of a command line that asks for no help.
    pub(crate) fn of(arguments: &[&str]) -> Result<Self, String> {
        match Task::parse(arguments.iter().map(|argument| (*argument).to_owned()))? {
            Task::Run(options) => Ok(options),
            Task::Help(text) => Err(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, Task};

    fn verdict(arguments: &[&str]) -> Result<(), String> {
        let options = Options::of(arguments)?;
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
            &["--clients=4", "--serve"],
            &["--json=yes"],
            &["--rate"],
            &["--rates", "1"],
            &["50"],
        ] {
            assert!(verdict(arguments).is_err(), "{arguments:?}");
        }
        assert_eq!(verdict(&["--clients", "1"]), Err("--clients 1: not a whole number from 2 to 200".to_owned()));
    }

    #[test]
    fn values_follow_their_option_or_an_equals_sign() {
        let options = Options::of(&["--rate=7", "--burst", "9", "--json"]).expect("is right");
        assert_eq!((options.rate, options.burst(), options.json, options.serve), (7, 9, true, false));
    }

    #[test]
    fn help_has_every_option_and_its_default() {
        let Ok(Task::Help(text)) = Task::parse(["--help".to_owned()]) else { panic!("asks for help") };
        let defaults = Options::default();
        for (name, default) in [
            ("seconds", defaults.seconds.to_string()),
            ("rate", defaults.rate.to_string()),
            ("clients", defaults.clients.to_string()),
            ("listen", defaults.listen.to_string()),
        ] {
            let entry = text.split_once(&format!("--{name} ")).expect("is listed").1;
            let stated =
                entry.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']')).expect("has a default");
            assert_eq!(stated.0, default, "{name}");
        }
    }
}
