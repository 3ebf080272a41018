//! The promises, each held against what was seen. The exact ones have no tolerance.

use crate::envelope::Envelope;
use crate::figure::figure;
use crate::options::Options;
use crate::plan::{Phase, Plan};
use crate::probes::Stretch;
use crate::run::Evidence;
use damper::breaker::State;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) passed: bool,
    pub(crate) figures: String,
}

pub(crate) fn all(options: &Options, plan: &Plan, evidence: &Evidence) -> Vec<Check> {
    vec![
        flood_is_bounded(options, evidence),
        flood_gets_its_share(options, evidence),
        others_are_spared(evidence),
        breaker_trips(plan, evidence),
        only_probes_pass(plan, evidence),
        breaker_closes(plan, evidence),
        everyone_is_answered(evidence),
    ]
}

fn flood_is_bounded(options: &Options, evidence: &Evidence) -> Check {
    let flood = evidence.flood;
    let most = Envelope::new(&options.quota(), evidence.epoch.frequency()).most(flood.at_most());
    let seconds = evidence.epoch.seconds(flood.at_most());
    Check {
        name: "the flooding client got no more than burst + rate * t",
        passed: flood.allowed <= most,
        figures: format!("{} allowed, at most {most} in {seconds:.6} s", flood.allowed),
    }
}

fn flood_gets_its_share(options: &Options, evidence: &Evidence) -> Check {
    let flood = evidence.flood;
    let least = Envelope::new(&options.quota(), evidence.epoch.frequency()).least(flood.at_least()).max(1);
    let offered = figure(flood.checks) / (evidence.epoch.seconds(flood.at_least()) * f64::from(options.rate));
    Check {
        name: "the flooding client got 98 % of it",
        passed: flood.allowed >= least,
        figures: format!(
            "{} allowed, at least {least}; {} checked, {offered:.1} times the rate",
            flood.allowed, flood.checks
        ),
    }
}

fn others_are_spared(evidence: &Evidence) -> Check {
    let flood = &evidence.totals.phases[Phase::Flood as usize];
    Check {
        name: "no other client was refused during the flood",
        passed: flood.limited_others == 0,
        figures: format!("{} of them refused, {} of the flooding client", flood.limited_others, {
            flood.counts.limited - flood.limited_others
        }),
    }
}

fn breaker_trips(plan: &Plan, evidence: &Evidence) -> Check {
    let (from, until) = (plan.start_of(Phase::Outage).as_secs_f64(), plan.end_of(Phase::Outage).as_secs_f64());
    let trips = evidence.transitions.iter().filter(|transition| transition.from == State::Closed);
    let trip = trips.map(|trip| evidence.epoch.seconds_at(trip.seen)).find(|seconds| (from..until).contains(seconds));
    Check {
        name: "the breaker tripped in the outage",
        passed: trip.is_some(),
        figures: trip
            .map_or_else(|| "it did not".to_owned(), |seconds| format!("after {:.0} ms", (seconds - from) * 1_000.0)),
    }
}

fn only_probes_pass(plan: &Plan, evidence: &Evidence) -> Check {
    let frequency = evidence.epoch.frequency();
    // The breaker counts whole microseconds, rounded down: a cooldown may be one short.
    let micros = plan.cooldown().as_micros() - 1;
    let cooldown = (micros * u128::from(frequency) / 1_000_000) as u64;
    let stretches = Stretch::all_of(&evidence.transitions, evidence.end);
    let sum = |count: &dyn Fn(&Stretch) -> usize| stretches.iter().map(count).sum::<usize>();
    let passed = sum(&|stretch| stretch.passed(&evidence.hits).len());
    let too_early = sum(&|stretch| stretch.too_early(&evidence.hits, cooldown));
    let in_flight = sum(&|stretch| stretch.in_flight(&evidence.hits));
    let ticks = stretches.iter().map(Stretch::ticks).sum();
    Check {
        name: "the upstream saw only probes while the breaker was open",
        passed: too_early == 0,
        figures: format!(
            "{passed} in {:.3} s, one per cooldown of {:.0} ms at most; {too_early} too early, {in_flight} in flight at a trip",
            evidence.epoch.seconds(ticks),
            plan.cooldown().as_secs_f64() * 1_000.0,
        ),
    }
}

fn breaker_closes(plan: &Plan, evidence: &Evidence) -> Check {
    let from = plan.start_of(Phase::Recovery).as_secs_f64();
    let last = evidence.transitions.last().map(|last| (last.to, evidence.epoch.seconds_at(last.seen)));
    let (passed, figures) = match last {
        Some((State::Closed, at)) if at >= from => (true, format!("after {:.0} ms", (at - from) * 1_000.0)),
        Some((State::Closed, at)) => (false, format!("it closed at {at:.3} s, before the upstream was back")),
        Some((state, at)) => (false, format!("it is {state:?} since {at:.3} s")),
        None => (false, "it never opened".to_owned()),
    };
    Check { name: "the breaker closed after the recovery", passed, figures }
}

fn everyone_is_answered(evidence: &Evidence) -> Check {
    let totals = &evidence.totals;
    let sent: u64 = totals.phases.iter().map(|phase| phase.sent).sum();
    let answered: u64 = totals.phases.iter().map(|phase| phase.counts.answered()).sum();
    let reason = totals.first_broken.as_ref().map_or_else(String::new, |reason| format!(", the first: {reason}"));
    Check {
        name: "every request was answered, without a transport error",
        passed: sent == answered && totals.broken == 0,
        figures: format!("{answered} of {sent}, {} errors{reason}", totals.broken),
    }
}
