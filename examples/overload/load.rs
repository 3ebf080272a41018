//! When which requests arrive.

use crate::draws::Draws;
use crate::options::Options;
use std::time::Duration;

/// Tenants of each class, all with the same demand.
const TENANTS: u32 = 8;

/// The load before the overload, as a multiple of the capacity.
const CALM: f64 = 0.5;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// After the start of the run.
    pub(crate) at: Duration,
    /// From 0, the top, to 3.
    pub(crate) class: usize,
    pub(crate) tenant: u32,
}

/// Requests at random times that do not wait for one another, as many independent clients send them.
///
/// First they are half of what the server can answer, then more than that.
#[derive(Debug)]
pub(crate) struct Arrivals {
    draws: Draws,
    /// Requests a second that the server can answer.
    capacity: f64,
    overload: f64,
    /// Seconds of the calm before the overload.
    calm: f64,
    /// The share of the top class.
    top: f64,
    at: f64,
    end: f64,
}

impl Arrivals {
    pub(crate) fn new(options: &Options, capacity: f64, round: u32) -> Self {
        Self {
            draws: Draws::new(options.seed.wrapping_add(u64::from(round) << 32)),
            capacity,
            overload: options.overload,
            calm: options.calm,
            top: options.top / options.overload,
            at: 0.0,
            end: options.length().as_secs_f64(),
        }
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let load = if self.at < self.calm { CALM } else { self.overload };
        self.at += self.draws.exponential(1.0 / (load * self.capacity));
        let is_top = self.draws.fraction() < self.top;
        let class = if is_top { 0 } else { 1 + self.draws.below(3) as usize };
        let tenant = self.draws.below(TENANTS);
        (self.at < self.end).then(|| Arrival { at: Duration::from_secs_f64(self.at), class, tenant })
    }
}

#[cfg(test)]
mod tests {
    use super::Arrivals;
    use crate::options::Options;
    use clap::Parser;

    fn options(seconds: &str) -> Options {
        Options::try_parse_from(["overload", "--seconds", seconds]).expect("they are valid")
    }

    #[test]
    fn arrivals_come_at_the_rate_that_was_asked_for() {
        let options = options("100");
        let arrivals: Vec<_> = Arrivals::new(&options, 200.0, 0).collect();
        let top = arrivals.iter().filter(|arrival| arrival.class == 0).count();
        // 200 of the calm, 60,000 of the overload, and a sixth of them: within four standard deviations.
        assert!(arrivals.len().abs_diff(60_200) < 1_000, "{}", arrivals.len());
        assert!(top.abs_diff(10_033) < 400, "{top}");
    }

    #[test]
    fn servers_of_one_round_get_the_same_arrivals() {
        let options = options("3");
        let times = |round| Arrivals::new(&options, 200.0, round).map(|arrival| arrival.at).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
