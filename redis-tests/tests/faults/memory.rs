//! A server that loses its keys, its scripts, or hands over to a replica.

use crate::{RECOVERY, SETTLE, WORKER, leased, millis, per_check};
use damper_redis_tests::{Fleet, Load, Loss, Proxy, RedisServer, exclusive, micros_now};
use std::thread::sleep;
use std::time::Duration;

/// Flushes the server several times; returns the fleets, which have ended, and the number of flushes.
fn flushed(loss: Loss) -> ([Fleet; 2], u64) {
    const FLUSHES: u64 = 4;
    let server = RedisServer::start();
    let loads = [leased(&server.url()), per_check(&server.url())].map(|load| Load { loss, ..load });
    loads.iter().for_each(Load::deploy);
    let mut fleets = loads.map(|load| Fleet::start(WORKER, server.directory(), 4, &load));
    sleep(SETTLE);
    let from = micros_now();
    for _ in 0..FLUSHES {
        server.flush_all();
        millis(1_500);
    }
    for fleet in &mut fleets {
        let figures = fleet.since(from);
        fleet.expect_in_time(&figures);
        assert_eq!(figures.on_policy, 0, "the server decides");
        assert!(figures.used > 0.3, "the limit is used after a loss: {:.3}", figures.used);
        fleet.finish();
        let losses = fleet.workers().iter().map(|worker| worker.latest().losses).sum::<u64>();
        println!("losses noticed by the processes: {losses}");
        assert!(losses > 0, "a loss is noticed");
    }
    (fleets, FLUSHES)
}

#[test]
fn flushed_server_with_empty_limits_admits_nothing_more() {
    let _machine = exclusive();
    for fleet in flushed(Loss::Empty).0 {
        assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
    }
}

#[test]
fn flushed_server_with_limits_empty_for_a_time_admits_the_rest_of_a_burst_at_most() {
    let _machine = exclusive();
    let time = Duration::from_millis(60_000);
    for fleet in flushed(Loss::EmptyFor(time)).0 {
        // The time is longer than a burst takes to refill, so the excess is nothing at all.
        assert_eq!(fleet.excess(), 0, "burst - rate · d is below zero");
    }
}

/// Expects that nearly all is used of the second after a loss.
///
/// `most_away` is how long processes may need to connect again.
fn expect_use(fleet: &Fleet, lost: u64, most_away: Duration) {
    let figures = fleet.between(lost, lost + 1_000_000);
    let away = most_away + 2 * figures.lateness;
    let least = 0.8 - away.as_secs_f64();
    assert!(figures.used >= least, "{:.3} of the rate was used in the first second, at least {least:.3}", figures.used);
    fleet.expect_in_time(&figures);
    println!("90 % of the rate are used again after {:?}", fleet.used_again_after(lost));
}

#[test]
fn limit_is_leased_again_at_once_after_the_server_lost_its_memory() {
    let _machine = exclusive();
    let mut server = RedisServer::start();
    let load = Load { loss: Loss::Empty, ..leased(&server.url()) };
    load.deploy();
    let mut fleet = Fleet::start(WORKER, server.directory(), 4, &load);
    sleep(SETTLE);
    let flushed = micros_now();
    server.flush_all();
    millis(2_500);
    expect_use(&fleet, flushed, Duration::ZERO);
    server.kill();
    millis(10_000);
    server.restart();
    let back = micros_now();
    millis(2_500);
    expect_use(&fleet, back, Duration::from_millis(300));
    fleet.finish();
    assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
}

#[test]
fn smallest_limit_that_is_leased_is_leased_again_at_once_too() {
    let _machine = exclusive();
    let server = RedisServer::start();
    // After a loss its leases last 50 ms.
    let load = Load { loss: Loss::Empty, burst: 400, ..leased(&server.url()) };
    load.deploy();
    let mut fleet = Fleet::start(WORKER, server.directory(), 4, &load);
    sleep(SETTLE);
    for _ in 0..3 {
        let flushed = micros_now();
        server.flush_all();
        millis(2_000);
        // A busy machine wakes processes later than such a burst can wait for them.
        expect_use(&fleet, flushed, Duration::from_millis(400));
    }
    fleet.finish();
    assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
}

#[test]
fn flushed_server_with_full_limits_admits_a_burst_more_for_each_flush() {
    let _machine = exclusive();
    let (fleets, flushes) = flushed(Loss::Full);
    for fleet in fleets {
        let most = flushes * u64::from(fleet.load().burst);
        let excess = fleet.excess();
        println!("{excess} in excess of at most {most}");
        assert!(excess <= most, "{excess} beyond the envelope, at most a burst for each of {flushes} flushes");
    }
}

#[test]
fn flushed_scripts_change_nothing() {
    let _machine = exclusive();
    let server = RedisServer::start();
    let loads = [leased(&server.url()), per_check(&server.url())];
    loads.iter().for_each(Load::deploy);
    let mut fleets = loads.map(|load| Fleet::start(WORKER, server.directory(), 4, &load));
    sleep(SETTLE);
    let from = micros_now();
    for _ in 0..40 {
        server.flush_scripts();
        millis(50);
    }
    for fleet in &mut fleets {
        let figures = fleet.since(from);
        fleet.expect_in_time(&figures);
        assert!(figures.used > 0.9, "{:.3} of the rate was used", figures.used);
        assert!(figures.policy_share < 0.1, "the server decides: {:.3}", figures.policy_share);
        fleet.finish();
        assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
    }
}

#[test]
fn promoted_replica_admits_what_was_held_and_its_lag_more() {
    let _machine = exclusive();
    let mut server = RedisServer::start();
    let proxy = Proxy::new(server.address());
    [leased(&server.url()), per_check(&server.url())].iter().for_each(Load::deploy);
    let loads = [leased(&proxy.url()), per_check(&proxy.url())];
    let replica = server.replica();
    let mut fleets = loads.map(|load| Fleet::start(WORKER, server.directory(), 4, &load));
    sleep(SETTLE);
    server.kill();
    replica.promote();
    proxy.redirect(replica.address());
    let promoted = micros_now();
    millis(2_500);
    for fleet in &mut fleets {
        let figures = fleet.since(promoted);
        fleet.expect_in_time(&figures);
        let recovered = fleet.recovered_after(promoted).expect("the server decides again");
        let most = RECOVERY + 2 * figures.lateness + Duration::from_millis(250);
        assert!(recovered <= most, "it took {recovered:?}, at most {most:?} are allowed");
        fleet.finish();
        // A quarter of the burst is held in leases; replicas on one machine lag by milliseconds, on a busy one by more.
        let lag = Duration::from_millis(200);
        let most = u64::from(fleet.load().burst) / 4 + fleet.load().envelope().refilled(lag);
        let excess = fleet.excess();
        println!("{excess} in excess of at most {most}");
        assert!(excess <= most, "{excess} beyond the envelope, at most {most}: what is held, and the rate for {lag:?}");
    }
}
