//! Processes that are killed, or stopped and continued.

use crate::{SETTLE, WORKER, leased, millis, per_check};
use damper_redis_tests::{Fleet, Load, RedisServer, Signal, exclusive, micros_now};
use std::thread::sleep;

#[test]
fn others_take_over_the_share_of_killed_processes() {
    let _machine = exclusive();
    let server = RedisServer::start();
    let loads = [leased(&server.url()), per_check(&server.url())];
    loads.iter().for_each(Load::deploy);
    let mut fleets = loads.map(|load| Fleet::start(WORKER, server.directory(), 4, &load));
    sleep(SETTLE);
    for fleet in &fleets {
        fleet.workers()[0].signal(Signal::Kill);
        fleet.workers()[1].signal(Signal::Kill);
    }
    // Their leases expire within a second, rounded up to an eighth.
    millis(1_500);
    let from = micros_now();
    millis(3_000);
    for fleet in &mut fleets {
        let figures = fleet.since(from);
        assert!(figures.used >= 0.95, "the others use the rate: {:.3}", figures.used);
        fleet.join();
        millis(1_000);
        fleet.finish_but(&[0, 1]);
        assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
    }
}

/// Two processes hold leases when they are stopped.
///
/// Once these leases have ended the bucket fills up as if they had never been, so the two must not spend them when they go on,
/// together with two others that take all there is.
#[test]
fn stopped_process_spends_no_lease_that_has_expired() {
    let _machine = exclusive();
    let server = RedisServer::start();
    let hot = Load { burst: 1_000, pace: 20_000, ..leased(&server.url()) };
    hot.deploy();
    let slow = Load { threads: 1, pace: 1_500, ..hot.clone() };
    let (slow_logs, hot_logs) = (server.directory().join("slow"), server.directory().join("hot"));
    [&slow_logs, &hot_logs].into_iter().for_each(|logs| std::fs::create_dir(logs).expect("the folder can be written"));
    let mut holders = Fleet::start(WORKER, &slow_logs, 2, &slow);
    let mut others = Fleet::start(WORKER, &hot_logs, 2, &hot);
    sleep(SETTLE);
    let all = |fleet: &Fleet, signal| fleet.workers().iter().for_each(|worker| worker.signal(signal));
    // Around the end of a lease and of its slot, and beyond.
    for stopped in [1_300, 850, 950, 1_050, 1_300, 1_300, 1_300, 1_300, 50, 50, 50, 50] {
        all(&others, Signal::Stop);
        millis(700);
        all(&holders, Signal::Stop);
        millis(stopped);
        all(&holders, Signal::Continue);
        all(&others, Signal::Continue);
        millis(300);
    }
    let from = micros_now();
    millis(1_500);
    for fleet in [&mut holders, &mut others] {
        assert_eq!(fleet.since(from).on_policy, 0, "the server decides for all");
        fleet.finish();
    }
    let admissions = [holders.admissions(), others.admissions()].concat();
    let peak = hot.envelope().peak(&admissions).expect("some were admitted");
    println!("worst: {peak}, it has {}", hot.burst);
    assert_eq!(hot.envelope().excess(&admissions), 0, "nothing beyond burst + rate · t");
}

/// All processes at once, as when a laptop sleeps: their clocks go on, and so does the server's.
#[test]
fn processes_stopped_together_find_at_most_a_full_limit() {
    let _machine = exclusive();
    let server = RedisServer::start();
    let load = Load { burst: 1_000, ..leased(&server.url()) };
    load.deploy();
    let mut fleet = Fleet::start(WORKER, server.directory(), 4, &load);
    sleep(SETTLE);
    for _ in 0..3 {
        fleet.workers().iter().for_each(|worker| worker.signal(Signal::Stop));
        millis(1_000);
        fleet.workers().iter().for_each(|worker| worker.signal(Signal::Continue));
        millis(1_000);
    }
    fleet.finish();
    assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
}
