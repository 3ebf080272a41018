//! Processes that share one limit on a real Redis: admissions, use, and commands.

use damper_redis_tests::{Figures, Fleet, Load, RedisServer, exclusive, micros_now};
use std::thread::sleep;
use std::time::Duration;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// The commands a second that one process may send for a limit that it leases.
const COMMANDS: f64 = 50.0;

/// The extra takes a second that it may send of a limit that is asked for too much.
///
/// The limit has tokens for a moment when the system has stopped its processes.
const EXTRA: f64 = 5.0;

/// The time in which processes take their first leases and use up the burst.
const SETTLE: Duration = Duration::from_secs(2);

fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds));
}

/// Runs a fleet, and returns its figures once it has settled.
///
/// Also returns the server's own count of scripts per process and second.
fn run(processes: usize, load: impl FnOnce(&str) -> Load) -> (Figures, f64) {
    let server = RedisServer::start();
    let load = load(&server.url());
    load.deploy();
    let mut fleet = Fleet::start(WORKER, server.directory(), processes, &load);
    sleep(SETTLE);
    server.reset_calls();
    let from = micros_now();
    seconds(5);
    let scripts = server.calls().scripts();
    let until = micros_now();
    let figures = fleet.between(from, until);
    fleet.finish();
    assert_eq!(fleet.excess(), 0, "no interval has more than burst + rate · t");
    let per_process = scripts as f64 * 1e6 / (until - from) as f64 / processes as f64;
    println!(
        "scripts run: {scripts}, {per_process:.1}/s of a process; {:.0} admitted for each",
        figures.admitted as f64 / scripts.max(1) as f64
    );
    fleet.expect_in_time(&figures);
    (figures, per_process)
}

#[test]
fn four_processes_lease_one_limit_and_use_it_up() {
    let _machine = exclusive();
    let (figures, scripts) = run(4, |url| Load::new(url, 20_000, 20_000));
    assert!(figures.used >= 0.98, "{:.4} of the rate was used", figures.used);
    assert!(scripts <= COMMANDS, "{scripts:.1} scripts a second of a process");
    assert!(figures.by_lease > figures.admitted * 9 / 10, "{} by lease", figures.by_lease);
}

#[test]
fn leases_use_the_rate_at_the_smallest_burst_that_has_them() {
    let _machine = exclusive();
    // A burst of 100 ms of the rate.
    let (figures, scripts) = run(4, |url| Load::new(url, 20_000, 2_000));
    assert!(figures.used >= 0.98, "{:.4} of the rate was used", figures.used);
    assert!(scripts <= COMMANDS + EXTRA, "{scripts:.1} scripts a second of a process");
}

#[test]
fn smaller_bursts_are_decided_per_check_and_used_up() {
    let _machine = exclusive();
    // A check that times out counts as taken, which is stated and not the subject here.
    let (figures, _) = run(4, |url| Load { deadline: Duration::from_millis(250), ..Load::new(url, 1_000, 90) });
    assert!(figures.used >= 0.98, "{:.4} of the rate was used", figures.used);
    assert_eq!(figures.by_lease, 0, "it has no leases");
}

#[test]
fn hot_process_admits_thirty_for_each_command() {
    let _machine = exclusive();
    let (figures, scripts) = run(1, |url| Load { pace: 0, ..Load::new(url, 10_000, 10_000) });
    let per_command = figures.admitted as f64 / figures.commands.max(1) as f64;
    assert!(per_command >= 30.0, "{per_command:.1} admitted for each command");
    assert!(scripts <= COMMANDS, "{scripts:.1} scripts a second");
    assert!(figures.used >= 0.98, "{:.4} of the rate was used", figures.used);
}

#[test]
fn leasing_process_sends_fifty_commands_a_second_at_any_load() {
    let _machine = exclusive();
    // From a load that leases just so to one far beyond the limit, of a limit that is rarely and often exhausted.
    for (tokens, pace) in [(100_000, 60), (100_000, 2_000), (2_000, 1_100), (1_000, 10_000), (1_000, 0)] {
        let (figures, scripts) = run(1, |url| Load { pace, ..Load::new(url, tokens, tokens) });
        assert!(scripts <= COMMANDS, "{scripts:.1} scripts a second at {pace} checks a second of {tokens}");
        assert!(figures.by_lease > 0, "it leases at {pace} checks a second of {tokens}");
    }
}

#[test]
fn processes_below_the_limit_are_never_denied() {
    let _machine = exclusive();
    // Half of what the limit brings: 8 threads of 250 a second each.
    let (figures, _) = run(4, |url| Load { pace: 250, ..Load::new(url, 4_000, 4_000) });
    // None, but for a moment in which the processor is elsewhere.
    assert!(figures.denied * 200 <= figures.checks, "{} of {} checks were denied", figures.denied, figures.checks);
}

/// At 95 % of the rate, with the smallest burst that is leased, by up to 16 processes.
#[test]
fn one_percent_at_most_is_denied_at_95_percent_load() {
    let _machine = exclusive();
    for processes in [4, 8, 16] {
        let pace = 950 / processes as u32;
        let deadline = Duration::from_millis(100);
        let (figures, scripts) =
            run(processes, |url| Load { threads: 1, pace, deadline, ..Load::new(url, 1_000, 100) });
        // Checks that the generator made late, and so at once, are not below the limit.
        let late = figures.lateness.as_millis() as u64 * 950 / 1_000;
        println!("{processes} processes: {} of {} denied, {late} may be late", figures.denied, figures.checks);
        assert!(figures.denied <= figures.checks / 100 + late, "{} of {}", figures.denied, figures.checks);
        assert!(scripts <= 2.0 * COMMANDS, "{scripts:.1} scripts a second of a process");
    }
}
