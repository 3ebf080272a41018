//! The plan of a run: the phases and every request's moment, worked out before.
//!
//! The load is an open loop: a request goes out at its moment, whether or not the ones before it were answered.

use crate::figure::figure;
use crate::options::Options;
use serde::Serialize;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Clients under the limit send this share of it: late requests that catch up still find tokens.
const STEADY_SHARE: f64 = 0.4;

/// All of them together send no more than this many requests a second, whatever the limit.
const MAX_STEADY_RATE: f64 = 4_000.0;

/// The requests that a phase needs for the breaker to judge: 5 failures, and a call to probe with.
const REQUESTS_PER_PHASE: f64 = 20.0;

/// The flood, as a multiple of the limit.
const FLOOD_FACTOR: f64 = 4.0;

/// The flood at a burst of 1.
///
/// Nothing is saved up while no request is there, so a token must not wait for long.
const FINE_FLOOD_RATE: f64 = 400.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    Calm,
    Flood,
    Outage,
    Recovery,
}

impl Phase {
    pub(crate) const ALL: [Self; 4] = [Self::Calm, Self::Flood, Self::Outage, Self::Recovery];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Flood => "flood",
            Self::Outage => "outage",
            Self::Recovery => "recovery",
        }
    }

    /// The phase of this name, as a header carries it.
    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name().as_bytes() == name)
    }
}

/// One request to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shot {
    /// Since the start of the run.
    pub(crate) at: Duration,
    pub(crate) phase: Phase,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    phase_length: Duration,
    /// The limit, per second.
    rate: f64,
    addresses: u8,
    steady_rate: f64,
    flood_rate: f64,
}

impl Plan {
    pub(crate) fn new(options: &Options) -> Self {
        let phase_length = Duration::from_secs_f64(options.seconds / 4.0);
        let rate = f64::from(options.rate);
        let wanted = f64::from(options.clients);
        let steady_rate = (STEADY_SHARE * rate).min(MAX_STEADY_RATE / wanted);
        // The flooder is silent for a while, so it is not counted on.
        let needed = (REQUESTS_PER_PHASE / (steady_rate * phase_length.as_secs_f64())).ceil() + 1.0;
        let flood_rate = FLOOD_FACTOR * rate;
        Self {
            phase_length,
            rate,
            // 51 are needed at the lowest rate in the shortest phase.
            addresses: wanted.max(needed).min(200.0) as u8,
            steady_rate,
            flood_rate: if options.burst() == 1 { flood_rate.max(FINE_FLOOD_RATE) } else { flood_rate },
        }
    }

    pub(crate) fn length(&self) -> Duration {
        self.phase_length * 4
    }

    pub(crate) fn start_of(&self, phase: Phase) -> Duration {
        self.phase_length * phase as u32
    }

    pub(crate) fn end_of(&self, phase: Phase) -> Duration {
        self.start_of(phase) + self.phase_length
    }

    pub(crate) fn phase_at(&self, at: Duration) -> Phase {
        Phase::ALL.into_iter().find(|phase| at < self.end_of(*phase)).unwrap_or(Phase::Recovery)
    }

    /// When the upstream stops answering 503 and starts to answer nothing.
    pub(crate) fn stall_at(&self) -> Duration {
        self.start_of(Phase::Outage) + self.phase_length / 2
    }

    /// The breaker's cooldown: a second, or less where the phases are short.
    ///
    /// The outage has to see more than one probe.
    pub(crate) fn cooldown(&self) -> Duration {
        Duration::from_secs(1).min(self.phase_length / 3)
    }

    /// How long the upstream may take to answer.
    pub(crate) fn upstream_timeout(&self) -> Duration {
        Duration::from_millis(250).min(self.phase_length / 4)
    }

    /// The flood as a multiple of the limit.
    pub(crate) fn flood_factor(&self) -> f64 {
        self.flood_rate / self.rate
    }

    /// The clients' addresses; the first one floods.
    pub(crate) fn addresses(&self) -> impl ExactSizeIterator<Item = Ipv4Addr> + use<> {
        (0..self.addresses).map(|client| Ipv4Addr::new(127, 0, 0, 1 + client))
    }

    /// How many connections a client keeps open.
    ///
    /// They are few enough for 200 clients to fit the usual 1,024 descriptors.
    pub(crate) fn connections(&self, client: usize) -> usize {
        match (client, self.addresses) {
            (0, _) => 16,
            (_, ..=16) => 8,
            (_, 17..=64) => 2,
            _ => 1,
        }
    }

    /// The requests of a client, in order.
    pub(crate) fn shots(&self, client: usize) -> Box<dyn Iterator<Item = Shot> + Send> {
        if client == 0 { Box::new(self.flooder()) } else { Box::new(self.steady(client)) }
    }

    fn steady(&self, client: usize) -> impl Iterator<Item = Shot> + Send + use<> {
        let interval = 1.0 / self.steady_rate;
        // Clients take turns.
        let first = interval * figure(client as u64) / f64::from(self.addresses);
        self.evenly(Duration::from_secs_f64(first), self.length(), self.steady_rate)
    }

    fn flooder(&self) -> impl Iterator<Item = Shot> + Send + use<> {
        let (flood, outage) = (self.start_of(Phase::Flood), self.start_of(Phase::Outage));
        // Silent for longer than a token takes: the bucket is full when the flood begins.
        let silence = Duration::from_secs_f64((1.5 / self.rate).max(0.2));
        // And empty when it ends: wait for the first tokens.
        let rest = Duration::from_secs_f64(1.0 / self.steady_rate).max(silence);
        self.evenly(Duration::ZERO, flood.saturating_sub(silence), self.steady_rate)
            .chain(self.evenly(flood, outage, self.flood_rate))
            .chain(self.evenly(outage + rest, self.length(), self.steady_rate))
    }

    fn evenly(&self, from: Duration, until: Duration, rate: f64) -> impl Iterator<Item = Shot> + Send + use<> {
        let plan = self.clone();
        let moments = (0..).map(move |n: u32| from + Duration::from_secs_f64(f64::from(n) / rate));
        moments.take_while(move |at| *at < until).map(move |at| Shot { at, phase: plan.phase_at(at) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, Plan};
    use crate::options::Options;
    use std::time::Duration;

    fn plan(arguments: &[&str]) -> Plan {
        Plan::new(&Options::of(arguments).expect("are right"))
    }

    #[test]
    fn phases_are_equal_parts() {
        let plan = plan(&["--seconds", "10"]);
        assert_eq!(plan.start_of(Phase::Outage), Duration::from_secs(5));
        assert_eq!(plan.phase_at(Duration::from_millis(2_499)), Phase::Calm);
        assert_eq!(plan.phase_at(Duration::from_millis(2_500)), Phase::Flood);
        assert_eq!(plan.phase_at(Duration::from_secs(60)), Phase::Recovery);
    }

    #[test]
    fn the_flood_is_four_times_the_limit_and_finds_a_full_bucket() {
        let plan = plan(&["--rate", "50"]);
        let shots: Vec<_> = plan.shots(0).collect();
        let flood: Vec<_> = shots.iter().filter(|shot| shot.phase == Phase::Flood).collect();
        assert_eq!(flood.len(), 600);
        assert_eq!(flood[0].at, Duration::from_secs(3));
        let last_calm = shots.iter().rfind(|shot| shot.phase == Phase::Calm).expect("some are sent");
        assert!(last_calm.at <= Duration::from_millis(2_800));
        assert!(shots.windows(2).all(|pair| pair[0].at < pair[1].at));
    }

    #[test]
    fn steady_clients_stay_under_the_limit_in_every_phase() {
        let plan = plan(&["--rate", "50"]);
        for phase in Phase::ALL {
            assert_eq!(plan.shots(1).filter(|shot| shot.phase == phase).count(), 60);
        }
    }

    #[test]
    fn slow_clients_are_joined_by_others() {
        for arguments in [&["--rate", "1", "--burst", "1", "--seconds", "4"][..], &["--rate", "3", "--clients", "2"]] {
            let plan = plan(arguments);
            let clients = plan.addresses().len();
            for phase in Phase::ALL {
                let sent: usize =
                    (1..clients).map(|client| plan.shots(client).filter(|shot| shot.phase == phase).count()).sum();
                assert!(sent >= 19, "{sent} in {phase:?} with {arguments:?}");
            }
        }
    }

    #[test]
    fn many_fast_clients_do_not_overload_the_machine() {
        let plan = plan(&["--rate", "2000", "--clients", "200", "--seconds", "4"]);
        let sent: usize = (1..200).map(|client| plan.shots(client).count()).sum();
        assert!(sent <= 16_000, "{sent}");
    }
}
