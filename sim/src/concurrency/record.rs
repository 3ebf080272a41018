//! The record of a run, second by second, and its summary.

use super::histogram::Histogram;
use super::scenario::Scenario;
use super::service_time::QUANTILES;
use super::silence::Silence;
use super::worst::{highest, lowest};

/// Seconds per point of the charts.
pub const POINT: f64 = 10.0;
/// Seconds over which throughput and latency are judged after a disturbance.
const JUDGED: usize = 5;

/// The calls of each second, and the latencies of each ten seconds.
#[derive(Clone, Debug)]
pub struct Record {
    scenario: Scenario,
    seconds: Vec<Second>,
    latencies: Vec<Histogram>,
    silence: Silence,
    /// Twice the unloaded p90.
    slow: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// The limit at the start of the second.
    limit: f64,
    /// Completions whose client was still waiting.
    good: u32,
    finished: u32,
    /// Completions that took more than twice the unloaded p90.
    slow: u32,
    /// Possible completions.
    possible: f64,
}

/// The summary of a run. Latencies are multiples of the same quantile of an unloaded server.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Completions as a share of the possible ones.
    pub throughput: f64,
    /// The p50, p90 and p99.
    pub latency: [f64; 3],
    /// The p90 of the worst ten seconds.
    pub worst: f64,
    /// The p90 of the last sixth relative to that of the first.
    pub drift: f64,
    /// The lowest, the mean and the highest limit.
    pub limit: [f64; 3],
    /// The largest deviation of the limit from its start.
    pub moved: f64,
    /// The longest time without a response to a waiting client while calls came and the server worked.
    ///
    /// In seconds.
    pub silence: f64,
    /// How long throughput and latency were bad after the start.
    pub settled: Recovery,
    /// How long throughput and latency were bad after a disturbance.
    pub recovered: Option<Recovery>,
    /// The server's performance in a minute of disturbance.
    pub in_trouble: Option<InTrouble>,
}

/// A minute of disturbance, without its first ten seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InTrouble {
    /// Completions as a share of the possible ones in that minute.
    pub throughput: f64,
    /// The p90 relative to an unloaded server at the speed of that minute.
    pub latency: f64,
}

impl InTrouble {
    /// Returns the worse of both, value by value.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self {
            throughput: lowest(&[self.throughput, other.throughput]),
            latency: highest(&[self.latency, other.latency]),
        }
    }
}

/// The seconds until the first five good seconds, taken together, or infinity if there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovery {
    /// Until throughput is 90 % of the usual, relative to the possible.
    ///
    /// The usual throughput is that before the disturbance, or that of the whole run if the start is judged.
    pub throughput: f64,
    /// Until the p90 is at most twice that of an unloaded server.
    pub latency: f64,
}

impl Recovery {
    /// Returns the longer of both, value by value.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self {
            throughput: highest(&[self.throughput, other.throughput]),
            latency: highest(&[self.latency, other.latency]),
        }
    }
}

impl Record {
    /// Creates an empty record of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let latencies = vec![Histogram::new(); (scenario.length / POINT).ceil() as usize];
        let slow = 2.0 * scenario.service.quantiles()[1];
        Self { scenario: scenario.clone(), seconds: Vec::new(), latencies, silence: Silence::default(), slow }
    }

    /// Advances to `now`. The limit was `limit` since the last event.
    pub fn time_passes(&mut self, now: f64, limit: f64) {
        while (self.seconds.len() as f64) <= now && (self.seconds.len() as f64) < self.scenario.length {
            self.seconds.push(Second { limit, ..Second::default() });
        }
    }

    /// Returns the record of the time without a response.
    pub const fn silence(&mut self) -> &mut Silence {
        &mut self.silence
    }

    /// Records a finished call.
    pub fn finished(&mut self, now: f64, latency: f64, awaited: bool) {
        let latency = latency / self.scenario.stretch(now);
        if let Some(second) = self.seconds.last_mut() {
            second.finished += 1;
            second.good += u32::from(awaited);
            second.slow += u32::from(latency > self.slow);
        }
        self.latencies[(now / POINT) as usize].add(latency / self.scenario.service.mean);
    }

    /// Computes the possible completions: the minimum of demand and the server's capacity.
    fn fill_possible(&mut self) {
        let changes = self.scenario.changes();
        let mean = self.scenario.service.mean;
        for (i, second) in self.seconds.iter_mut().enumerate() {
            let from = i as f64;
            let power: f64 = (0..changes.len())
                .map(|j| {
                    let until = changes.get(j + 1).map_or(f64::INFINITY, |next| next.at);
                    let part = (until.min(from + 1.0) - changes[j].at.max(from)).max(0.0);
                    part * changes[j].power.size * changes[j].power.speed / mean
                })
                .sum();
            second.possible = power.min(self.scenario.offered(from + 0.5));
        }
    }

    /// Returns completions as a share of the possible ones.
    fn throughput(seconds: &[Second]) -> f64 {
        let (good, possible) =
            seconds.iter().fold((0.0, 0.0), |(a, b), second| (a + f64::from(second.good), b + second.possible));
        good / possible
    }

    /// Returns how long throughput and latency were bad from `from` on.
    ///
    /// `usual` is the throughput to compare with.
    fn recovery(&self, from: f64, usual: f64) -> Recovery {
        let first = |good: &dyn Fn(&[Second]) -> bool| {
            let position = self.seconds[from.ceil() as usize..].windows(JUDGED).position(good);
            position.map_or(f64::INFINITY, |after| after as f64)
        };
        let throughput = first(&|seconds| {
            let throughput = Self::throughput(seconds);
            // Zero throughput is no recovery, whatever was usual.
            throughput > 0.0 && throughput >= 0.9 * usual
        });
        let latency = first(&|seconds| {
            let sum = |of: fn(&Second) -> u32| seconds.iter().map(of).sum::<u32>();
            let (slow, finished) = (sum(|second| second.slow), sum(|second| second.finished));
            finished > 0 && f64::from(slow) <= 0.1 * f64::from(finished)
        });
        Recovery { throughput, latency }
    }

    /// Returns the latencies of the points in this interval, in means of the service time.
    fn between(&self, from: f64, until: f64) -> Histogram {
        let mut all = Histogram::new();
        for (i, histogram) in self.latencies.iter().enumerate() {
            if i as f64 * POINT >= from && (i + 1) as f64 * POINT <= until {
                all.merge(histogram);
            }
        }
        all
    }

    /// Returns the summary of the run.
    #[must_use]
    pub fn summary(&mut self) -> Summary {
        self.fill_possible();
        let (length, warm_up) = (self.scenario.length, self.scenario.warm_up());
        let unloaded = self.scenario.service.quantiles().map(|quantile| quantile / self.scenario.service.mean);
        // A disturbance, and ten seconds after it, count for the recovery only.
        let calm = self.scenario.disturbance().map_or((length, length), |(from, until)| (from, until + POINT));
        let mut latencies = self.between(warm_up, calm.0);
        latencies.merge(&self.between(calm.1, length));
        let p90 = |histogram: &Histogram| histogram.quantile(QUANTILES[1]) / unloaded[1];
        let worst = (0..self.latencies.len()).filter(|&i| {
            let (from, until) = (i as f64 * POINT, (i + 1) as f64 * POINT);
            from >= warm_up && (until <= calm.0 || from >= calm.1) && self.latencies[i].count() >= 50
        });
        let worst = highest(&worst.map(|i| p90(&self.latencies[i])).collect::<Vec<_>>());
        let sixth = (length - warm_up) / 6.0;
        let first = p90(&self.between(warm_up, warm_up + sixth));
        let last = p90(&self.between(length - sixth, length));
        let counted = &self.seconds[warm_up as usize..];
        let throughput = Self::throughput(counted);
        let limits: Vec<f64> = counted.iter().map(|second| second.limit).collect();
        let moved = self.seconds.iter().map(|second| (second.limit - self.seconds[0].limit).abs()).collect::<Vec<_>>();
        Summary {
            throughput,
            latency: [0, 1, 2].map(|i| latencies.quantile(QUANTILES[i]) / unloaded[i]),
            worst,
            drift: last / first,
            limit: [lowest(&limits), limits.iter().sum::<f64>() / limits.len() as f64, highest(&limits)],
            moved: highest(&moved),
            silence: self.silence.longest(length),
            settled: self.recovery(0.0, throughput),
            recovered: self.scenario.disturbance().map(|(from, until)| {
                let usual = Self::throughput(&self.seconds[warm_up as usize..from as usize]);
                self.recovery(until, usual)
            }),
            in_trouble: self.scenario.minute().map(|(from, until)| {
                let from = from + POINT;
                InTrouble {
                    throughput: Self::throughput(&self.seconds[from as usize..until as usize]),
                    latency: p90(&self.between(from, until)),
                }
            }),
        }
    }

    /// Returns the mean limit of each point.
    #[must_use]
    pub fn limits(&self) -> Vec<f64> {
        let points = self.seconds.chunks(POINT as usize);
        points.map(|point| point.iter().map(|second| second.limit).sum::<f64>() / point.len() as f64).collect()
    }

    /// Returns the p90 of each point, in seconds.
    #[must_use]
    pub fn p90s(&self) -> Vec<f64> {
        let mean = self.scenario.service.mean;
        let stretch = |i: usize| self.scenario.stretch((i as f64 + 0.5) * POINT);
        let p90 = |(i, histogram): (usize, &Histogram)| histogram.quantile(QUANTILES[1]) * mean * stretch(i);
        self.latencies.iter().enumerate().map(p90).collect()
    }
}
