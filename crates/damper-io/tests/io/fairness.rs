//! Many connections on one limit, simulated on a manual clock with a timer that ticks in milliseconds.

use damper::io::BytePacer;
use damper::{ManualClock, Quota, RateLimiter};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

const RATE: u64 = 10_000_000;

/// Returns the bytes that each of some connections moves in `time`, by the sizes of their buffers.
///
/// Each asks again as soon as it has moved what it may. Timers fire at the next whole millisecond or the one after. The connections that
/// are `greedy` also ask at every millisecond while they wait.
fn simulate(limit: Quota, buffers: &[usize], greedy: usize, time: Duration) -> Vec<u64> {
    let clock = ManualClock::new();
    let limit = RateLimiter::with_clock(limit, &clock);
    limit.drain(); // the first to come would get the burst
    let mut pacers: Vec<_> = buffers.iter().map(|_| BytePacer::new(&limit)).collect();
    let mut moved = vec![0; buffers.len()];
    let mut wakes: BinaryHeap<_> = (0..buffers.len()).map(|connection| Reverse((0_u64, connection))).collect();
    let mut now = 0;
    while let Some(Reverse((at, connection))) = wakes.pop() {
        if at >= time.as_nanos() as u64 {
            break;
        }
        clock.advance(Duration::from_nanos(at - now));
        now = at;
        let wait = loop {
            match pacers[connection].ask(buffers[connection]) {
                Ok(bytes) => {
                    pacers[connection].report(bytes, bytes);
                    moved[connection] += bytes as u64;
                }
                Err(wait) => break wait,
            }
        };
        let millis = (wait.as_nanos() as u64).div_ceil(1_000_000) + u64::from(connection % 2 == 0);
        let millis = if connection < greedy { 1 } else { millis };
        wakes.push(Reverse((now / 1_000_000 * 1_000_000 + millis * 1_000_000, connection)));
    }
    moved
}

/// Asserts that each has its part of `total` within some percent.
fn assert_fair(moved: &[u64], total: u64, percent: u64) {
    let part = total / moved.len() as u64;
    for (connection, &bytes) in moved.iter().enumerate() {
        assert!(
            bytes.abs_diff(part) * 100 <= part * percent,
            "connection {connection} has {bytes} of {part}: {moved:?}"
        );
    }
}

/// Ten greedy connections, and others with small, usual and large buffers.
fn mixed(connections: usize) -> Vec<usize> {
    (0..connections).map(|n| if n < connections / 10 { 1 << 20 } else { [4_096, 16_384, 65_536][n % 3] }).collect()
}

// CLAIM: io::BytePacer
#[test]
fn connections_get_equal_parts_whatever_their_buffers() {
    let burst = 100_000;
    let moved = simulate(Quota::per_second(RATE as u32).burst(burst), &mixed(100), 10, Duration::from_secs(20));
    assert_fair(&moved, RATE * 20, 2);
    let total: u64 = moved.iter().sum();
    assert!((RATE * 20 * 999 / 1_000..=RATE * 20 + u64::from(burst)).contains(&total), "{total}");
}

#[test]
fn few_connections_get_equal_parts() {
    for connections in [1, 2, 10] {
        let quota = Quota::per_second(RATE as u32).burst(100_000);
        assert_fair(&simulate(quota, &mixed(connections), connections / 10, Duration::from_secs(10)), RATE * 10, 3);
    }
}

/// By chunks of the usual size they would wait for two seconds. They wait for less.
#[test]
fn crowd_gets_equal_parts() {
    let quota = Quota::per_second(RATE as u32).burst(100_000).max_debt(RATE as u32);
    assert_fair(&simulate(quota, &mixed(1_000), 10, Duration::from_secs(40)), RATE * 40, 5);
}

#[test]
fn slow_limits_are_fair_too() {
    for rate in [1_000, 20_000, 500_000] {
        let moved = simulate(Quota::per_second(rate).burst(rate / 10), &mixed(20), 2, Duration::from_secs(120));
        assert_fair(&moved, u64::from(rate) * 120, 4);
    }
}

/// One writes a little now and then; the others must not take its part, nor it theirs.
#[test]
fn connection_that_asks_for_little_gets_it_at_its_turn() {
    let clock = ManualClock::new();
    let limit = RateLimiter::with_clock(Quota::per_second(RATE as u32).burst(100_000), &clock);
    let mut busy: Vec<_> = (0..10).map(|_| BytePacer::new(&limit)).collect();
    let mut seldom = BytePacer::new(&limit);
    let mut waited = 0;
    for millis in 0..5_000 {
        for pacer in &mut busy {
            while let Ok(bytes) = pacer.ask(65_536) {
                pacer.report(bytes, bytes);
            }
        }
        match seldom.ask(100) {
            Ok(bytes) => {
                assert!(bytes <= 100);
                seldom.report(bytes, bytes);
                seldom.pause();
                waited = 0;
            }
            Err(_) => waited += 1,
        }
        assert!(waited <= 25, "it waits for ten chunks of 2 ms: {waited} ms at {millis}");
        clock.advance(Duration::from_millis(1));
    }
}
