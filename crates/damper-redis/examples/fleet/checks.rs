//! The promises, each held against what was seen. The bounds on what is admitted have no tolerance.

use crate::envelope::Envelope;
use crate::figure::figure;
use crate::line::{Admission, Source};
use crate::options::{Options, Policy};
use crate::plan::Phase;
use crate::run::Evidence;
use crate::tally::Tally;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) passed: bool,
    pub(crate) figures: String,
}

/// The time that leases, connections and counts of a fleet take to settle, in µs.
const SETTLED: u64 = 1_500_000;

/// The deadline of a check, in µs.
const DEADLINE: u64 = 5_000;

/// A busy machine's addition to it, beyond the lateness that was measured, in µs.
const NOISE: u64 = 50_000;

/// The commands per second that a process sends for one limit at most.
const COMMANDS: u64 = 50;

pub(crate) fn all(options: &Options, evidence: &Evidence) -> Vec<Check> {
    let mut checks = vec![shared_is_bounded(options, evidence)];
    match options.policy {
        Policy::LocalShare => checks.push(share_is_bounded(options, evidence)),
        Policy::Closed => checks.push(nothing_by_policy(evidence)),
        // It admits everything.
        Policy::Open => {}
    }
    checks.extend([
        used(options, evidence, Phase::Calm, "four processes used 98 % of the rate", 0.98),
        used(options, evidence, Phase::ProcessesLost, "the others used 95 % when two processes were lost", 0.95),
        few_commands(evidence),
        policy_decides(evidence, Phase::RedisPaused, "the policy decided within the deadline when Redis was paused"),
        policy_decides(evidence, Phase::RedisKilled, "the policy decided within the deadline when Redis was killed"),
        recovers(evidence, Phase::RedisResumed, "Redis decided again once it was resumed"),
        recovers(evidence, Phase::RedisRestarted, "Redis decided again once it was restarted"),
        recovers(evidence, Phase::Flushed, "Redis decided on when it was flushed"),
    ]);
    checks
}

fn by(evidence: &Evidence, wanted: fn(Source) -> bool) -> impl Iterator<Item = Admission> {
    evidence.records.iter().flat_map(|record| record.admissions.iter().copied()).filter(move |one| wanted(one.source))
}

fn bounded(options: &Options, evidence: &Evidence, name: &'static str, wanted: fn(Source) -> bool) -> Check {
    let envelope = Envelope { burst: options.burst().into(), rate: options.rate.into() };
    let verdict = envelope.verdict(by(evidence, wanted));
    let undated = match verdict.undated {
        0 => String::new(),
        number => format!(", {number} decisions of paused threads aside"),
    };
    let admitted = by(evidence, wanted).count();
    Check {
        name,
        passed: verdict.excess == 0,
        figures: format!("{admitted} admitted, {} too many{undated}", verdict.excess),
    }
}

fn shared_is_bounded(options: &Options, evidence: &Evidence) -> Check {
    let name = "Redis and its leases admitted at most burst + rate * t in every interval, through all losses";
    bounded(options, evidence, name, |source| source != Source::Policy)
}

fn share_is_bounded(options: &Options, evidence: &Evidence) -> Check {
    let name = "the shares of the processes together admitted at most that too";
    bounded(options, evidence, name, |source| source == Source::Policy)
}

fn nothing_by_policy(evidence: &Evidence) -> Check {
    let admitted = by(evidence, |source| source == Source::Policy).count();
    Check { name: "the policy admitted nothing", passed: admitted == 0, figures: format!("{admitted} admitted") }
}

fn used(options: &Options, evidence: &Evidence, phase: Phase, name: &'static str, least: f64) -> Check {
    let (begin, until) = evidence.span(phase);
    let from = begin + SETTLED;
    let tally = Tally::between(evidence, from, until);
    let refilled = figure(until - from) * f64::from(options.rate) / 1e6;
    let used = figure(tally.admitted()) / refilled;
    Check {
        name,
        passed: used >= least,
        figures: format!("{:.1} % of {refilled:.0}, after {:.1} s to settle", used * 100.0, figure(SETTLED) / 1e6),
    }
}

fn few_commands(evidence: &Evidence) -> Check {
    let (from, until) = evidence.span(Phase::Calm);
    let tally = Tally::between(evidence, from, until);
    let most = COMMANDS * (until - from).div_ceil(1_000_000);
    Check {
        name: "no process sent more than 50 commands a second",
        passed: tally.most_commands <= most,
        figures: format!(
            "{:.1} a second at most, {:.0} admitted per command",
            figure(tally.most_commands) * 1e6 / figure(until - from),
            figure(tally.admitted()) / figure(tally.commands.max(1))
        ),
    }
}

fn policy_decides(evidence: &Evidence, phase: Phase, name: &'static str) -> Check {
    let (from, until) = evidence.span(phase);
    let tally = Tally::between(evidence, from, until);
    let most = DEADLINE + tally.lateness + NOISE;
    Check {
        name,
        passed: tally.slowest <= most && tally.on_policy == tally.reported,
        figures: format!(
            "in force in {} of {} processes; slowest check {:.1} ms, timers late by up to {:.1} ms",
            tally.on_policy,
            tally.reported,
            figure(tally.slowest) / 1e3,
            figure(tally.lateness) / 1e3
        ),
    }
}

/// Expects that Redis decides again in every process, and more than the policy.
///
/// A process that the machine stops for longer than its deadline takes its policy once more, as it should. So
/// the policy may return, and the time of the first return to Redis is shown, not held against a bound.
fn recovers(evidence: &Evidence, phase: Phase, name: &'static str) -> Check {
    let (from, until) = evidence.span(phase);
    let tally = Tally::between(evidence, from, until);
    let returns: Vec<u64> = evidence
        .records
        .iter()
        .filter_map(|record| {
            let mut reports = record.snapshots.iter().filter(|one| (from..until).contains(&one.at));
            reports.find(|one| one.policy == 0).map(|one| one.at - from)
        })
        .collect();
    let decided = tally.by_lease + tally.by_server;
    let latest = returns.iter().max().map_or_else(String::new, |last| format!(", after {:.2} s", figure(*last) / 1e6));
    Check {
        name,
        passed: returns.len() as u64 == tally.reported && decided > tally.by_policy,
        figures: format!(
            "in {} of {} processes{latest}; {decided} admitted, by the policy {}",
            returns.len(),
            tally.reported,
            tally.by_policy
        ),
    }
}
