//! Tests of commands per second, admitted tokens per command, and the use of a limit that is saturated.

use super::fleet::{Fleet, SECOND, Tally, Traffic, random, terms};

fn saturated(per_second: u32, burst: u32, processes: usize, demand: f64) -> (f64, Vec<Tally>) {
    let terms = terms(per_second, burst);
    let traffic: Vec<Traffic> = (0..processes).map(|_| random(demand / processes as f64)).collect();
    let mut fleet = Fleet::new(terms, traffic);
    // Run until the burst is used up and the processes know their rates.
    fleet.run_until(3 * SECOND);
    fleet.tallies();
    fleet.run_until(8 * SECOND);
    let tallies = fleet.tallies();
    fleet.assert_envelope(&terms);
    let allowed: u64 = tallies.iter().map(|tally| tally.allowed).sum();
    (allowed as f64 / (5.0 * f64::from(per_second)), tallies)
}

#[test]
fn four_processes_use_the_rate_where_the_burst_is_100_ms_of_it() {
    for (per_second, burst) in
        [(10_000, 1_000), (10_000, 10_000), (1_000, 100), (1_000, 1_000), (1_000, 5_000), (400, 40), (30_000, 3_000)]
    {
        for factor in [1.2, 3.0] {
            let (used, tallies) = saturated(per_second, burst, 4, factor * f64::from(per_second));
            assert!(used >= 0.98, "{per_second}/s burst {burst}, demand {factor}: {used}");
            let leases = burst >= 100;
            assert!(!leases || tallies.iter().all(|tally| tally.commands <= 5 * 50 + 20), "{tallies:?}");
            let all: u64 = tallies.iter().map(|tally| tally.allowed).sum();
            assert!(
                tallies.iter().all(|tally| tally.allowed * 4 > all / 3),
                "each has a third of its share: {tallies:?}"
            );
        }
    }
}

#[test]
fn hot_process_admits_30_per_command_with_a_burst_of_a_second() {
    for per_second in [400, 1_000, 10_000] {
        for factor in [0.3, 0.6, 0.95, 1.2, 5.0] {
            let (_, tallies) = saturated(per_second, per_second, 1, factor * f64::from(per_second));
            let Tally { allowed, commands, .. } = tallies[0];
            assert!(allowed >= 30 * commands, "{per_second}/s, demand {factor}: {allowed} by {commands} commands");
        }
    }
}

/// A process may also send up to 20 commands more, which it has saved.
///
/// While the limit has tokens, it may send as many extra takes as commands.
#[test]
fn leasing_process_sends_50_commands_a_second_at_any_load_and_50_extra_below_the_limit() {
    for (per_second, burst) in [(1_000, 100), (1_000, 1_000), (10_000, 1_000), (50_000, 5_000)] {
        for (processes, factor) in [(1, 0.2), (1, 0.9), (1, 20.0), (3, 0.8), (3, 1.1), (12, 0.9), (12, 1.0), (12, 2.0)]
        {
            let (_, tallies) = saturated(per_second, burst, processes, factor * f64::from(per_second));
            let sent = tallies.iter().map(|tally| tally.commands).max();
            let name = format!("{per_second}/s burst {burst}, {processes} processes, demand {factor}");
            let extra = if factor <= 1.0 { 5 * 50 + 20 } else { 0 };
            assert!(sent <= Some(5 * 50 + 20 + extra), "{name}: {sent:?} in 5 s");
        }
    }
}

/// Three processes that each ask for a tenth of the limit get four fifths of what they ask for.
///
/// The greedy process asks for five times the limit.
#[test]
fn modest_processes_get_tokens_beside_a_greedy_one() {
    for (per_second, burst) in [(2_000, 200), (2_000, 2_000), (10_000, 1_000)] {
        let terms = terms(per_second, burst);
        let mut traffic: Vec<Traffic> = (0..3).map(|_| random(f64::from(per_second) / 10.0)).collect();
        traffic.push(random(5.0 * f64::from(per_second)));
        let mut fleet = Fleet::new(terms, traffic);
        fleet.run_until(3 * SECOND);
        fleet.tallies();
        fleet.run_until(8 * SECOND);
        let tallies = fleet.tallies();
        for Tally { allowed, denied, overdue, .. } in &tallies[..3] {
            assert!(*allowed > 4 * (denied + overdue), "{per_second}/s burst {burst}: {tallies:?}");
        }
    }
}
