//! The server's clock steps, forward and back.

use crate::{RECOVERY, SETTLE, WORKER, leased, millis, per_check};
use damper_redis_tests::{Fleet, Load, Proxy, RedisServer, ShiftedClock, exclusive, micros_now};
use std::thread::sleep;
use std::time::Duration;

/// Steps the clock, waits, and returns how soon all processes were served again, and the excess in all.
fn step(load: fn(&str) -> Load, micros: i64, wait: Duration) -> (Fleet, Duration, u64) {
    let server = RedisServer::start();
    let proxy = Proxy::new(server.address());
    let clock = ShiftedClock::new(&server, &proxy);
    let load = load(&proxy.url());
    Load { url: server.url(), ..load.clone() }.deploy();
    let mut fleet = Fleet::start(WORKER, server.directory(), 4, &load);
    sleep(SETTLE);
    let stepped = micros_now();
    clock.step_to(micros);
    sleep(wait);
    let figures = fleet.since(stepped);
    fleet.expect_in_time(&figures);
    let recovered = fleet.recovered_after(stepped).expect("the server decides again");
    let settled = micros_now();
    sleep(Duration::from_secs(2));
    let figures = fleet.since(settled);
    assert!(figures.used >= 0.9, "the limit is used as before: {:.3}", figures.used);
    assert_eq!(figures.on_policy, 0, "the server decides");
    fleet.finish();
    let excess = fleet.excess();
    (fleet, recovered, excess)
}

/// A limit that is leased and repays its deepest debt soon.
fn quick(url: &str) -> Load {
    Load { burst: 400, ..leased(url) }
}

#[test]
fn forward_step_admits_a_burst_and_what_is_held_at_most() {
    let _machine = exclusive();
    for load in [quick, per_check] {
        for seconds in [3, 3_600 * 24] {
            let (fleet, recovered, excess) = step(load, seconds * 1_000_000, Duration::from_secs(2));
            let burst = u64::from(fleet.load().burst);
            println!("a step of {seconds} s: {excess} in excess, recovered after {recovered:?}");
            assert!(excess <= burst + burst / 4, "{excess} beyond the envelope, at most a burst and what is held");
            assert!(recovered <= RECOVERY + Duration::from_millis(500), "it took {recovered:?}");
        }
    }
}

#[test]
fn short_forward_step_admits_what_the_rate_brings_in_it() {
    let _machine = exclusive();
    // 50 ms: half of what the burst takes.
    let (fleet, _, excess) = step(quick, 50_000, Duration::from_secs(1));
    let burst = u64::from(fleet.load().burst);
    let most = fleet.load().envelope().refilled(Duration::from_millis(50)) + burst / 4;
    assert!(excess <= most, "{excess} beyond the envelope, at most {most}");
}

#[test]
fn backward_step_heals_and_admits_nothing_more() {
    let _machine = exclusive();
    for load in [quick, per_check] {
        for seconds in [3, 3_600 * 24] {
            // The deepest debt takes longest to repay: eleven bursts.
            let debt = {
                let load = load("");
                load.window * (11 * load.burst) / load.tokens
            };
            let (fleet, recovered, excess) = step(load, -seconds * 1_000_000, debt + Duration::from_secs(2));
            println!(
                "a step of -{seconds} s: {excess} in excess, recovered after {recovered:?}, a deepest debt takes {debt:?}"
            );
            // Leases that were out when the clock stepped are counted as held for a while longer.
            assert!(excess <= u64::from(fleet.load().burst) / 4, "{excess} beyond the envelope, at most what is held");
            assert!(recovered <= debt + RECOVERY + Duration::from_millis(500), "it took {recovered:?}");
        }
    }
}

#[test]
fn clock_that_steps_to_and_fro_admits_one_burst_for_each_step_forward() {
    let _machine = exclusive();
    let server = RedisServer::start();
    let proxy = Proxy::new(server.address());
    let clock = ShiftedClock::new(&server, &proxy);
    quick(&server.url()).deploy();
    let load = quick(&proxy.url());
    let mut fleet = Fleet::start(WORKER, server.directory(), 4, &load);
    sleep(SETTLE);
    for _ in 0..3 {
        clock.step_to(60_000_000);
        millis(1_500);
        clock.step_to(0);
        millis(1_500);
    }
    millis(1_000);
    fleet.finish();
    let burst = u64::from(load.burst);
    let excess = fleet.excess();
    println!("{excess} in excess after three steps to and fro");
    assert!(
        excess <= 3 * (burst + burst / 4),
        "{excess} beyond the envelope, a burst and what is held for each of 3 steps"
    );
}
