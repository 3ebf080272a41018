//! A server that is killed, or stopped.

use crate::{After, Fleets, RECOVERY, SETTLE, leased, millis, per_check};
use damper_redis_tests::{Fleet, Load, Loss, RedisServer, exclusive, micros_now};
use std::thread::sleep;

/// Leases of before are expired so long after a server is gone.
const LEASES_EXPIRED: u64 = 1_300;

fn loads(url: &str) -> [Load; 2] {
    [leased(url), per_check(url)].map(|load| Load { loss: Loss::Empty, ..load })
}

#[test]
fn server_killed_for_ten_seconds_is_replaced_by_policies_and_decides_again_within_one() {
    let _machine = exclusive();
    let mut server = RedisServer::start();
    let mut fleets = Fleets::start(server.directory(), loads(&server.url()));
    sleep(SETTLE);
    let killed = micros_now();
    server.kill();
    millis(LEASES_EXPIRED);
    let from = micros_now();
    millis(10_000 - LEASES_EXPIRED);
    fleets.expect_policies(from, micros_now());
    server.restart();
    let back = micros_now();
    millis(3_000);
    fleets.expect_recovery(back, After::Loss);
    for fleet in fleets.all() {
        fleet.expect_in_time(&fleet.since(killed));
    }
    fleets.finish();
    for fleet in &fleets.closed {
        assert_eq!(fleet.excess(), 0, "an empty limit after the loss, and nothing meanwhile");
    }
    for fleet in &fleets.shared {
        // Each share is empty at first, so they add up to the rate while all processes are cut off. Those that come back late
        // spend theirs while the others already share the limit.
        expect_overlap_only(fleet);
    }
}

#[test]
fn stopped_server_is_replaced_by_policies_and_what_it_was_sent_has_no_effect() {
    let _machine = exclusive();
    let server = RedisServer::start();
    let mut fleets = Fleets::start(server.directory(), loads(&server.url()));
    sleep(SETTLE);
    for round in 0..2 {
        println!("round {round}");
        let stopped = micros_now();
        server.pause();
        millis(LEASES_EXPIRED);
        let from = micros_now();
        millis(2_000);
        fleets.expect_policies(from, micros_now());
        server.resume();
        let back = micros_now();
        millis(2_500);
        fleets.expect_recovery(back, After::Pause);
        for fleet in fleets.all() {
            fleet.expect_in_time(&fleet.since(stopped));
        }
    }
    fleets.finish();
    for fleet in &fleets.closed {
        assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
    }
}

/// Expects no more beyond burst + rate · t than the rate brings while processes come back.
fn expect_overlap_only(fleet: &Fleet) {
    let most = fleet.load().envelope().refilled(RECOVERY);
    let excess = fleet.excess();
    assert!(
        excess <= most,
        "{excess} beyond the envelope, at most {most} while some processes are back and others are not"
    );
}
