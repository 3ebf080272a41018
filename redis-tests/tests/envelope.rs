//! The checker of envelopes against a slow, obvious one, and against logs with one admission too many.

use damper_redis_tests::{Admission, Envelope};
use proptest::prelude::*;
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

fn at(micros: u64, tokens: u32) -> Admission {
    Admission { begun: micros, ended: micros, tokens }
}

/// Tries every interval.
fn burst_needed(admissions: &[Admission], tokens: u64, window: u64) -> u64 {
    let mut most = 0;
    for from in admissions.iter().map(|one| one.begun) {
        for until in admissions.iter().map(|one| one.ended).filter(|until| *until >= from) {
            let inside = admissions.iter().filter(|one| one.begun >= from && one.ended <= until);
            let admitted: u64 = inside.map(|one| u64::from(one.tokens)).sum();
            let refilled = tokens * (until - from + 1);
            most = most.max((admitted * window).saturating_sub(refilled).div_ceil(window));
        }
    }
    most
}

/// A full bucket of 5 that refills every millisecond, used up at once and then as it refills.
fn greedy() -> Vec<Admission> {
    (0..5).map(|_| at(1_000_000, 1)).chain((1..200).map(|number| at(1_000_000 + number * 1_000, 1))).collect()
}

#[test]
fn exact_log_is_within_its_envelope() {
    let envelope = Envelope::new(5, 1, MILLI);
    assert_eq!(envelope.excess(&greedy()), 0);
    assert_eq!(envelope.peak(&greedy()).map(|peak| peak.burst_needed), Some(5));
    assert_eq!(envelope.peak(&[]), None);
}

#[test]
fn one_admission_too_many_is_noticed_wherever_it_is() {
    let envelope = Envelope::new(5, 1, MILLI);
    for place in 0..199 {
        let mut log = greedy();
        log.insert(0, at(1_000_000 + place * 1_000 + 500, 1));
        assert_eq!(envelope.excess(&log), 1, "in millisecond {place}");
    }
}

#[test]
fn token_of_two_microseconds_early_is_noticed_and_of_one_is_the_tick() {
    let envelope = Envelope::new(1, 1, MILLI);
    assert_eq!(envelope.excess(&[at(10_000, 1), at(10_999, 1)]), 0);
    assert_eq!(envelope.excess(&[at(10_000, 1), at(10_998, 1)]), 1);
}

#[test]
fn decision_of_unknown_time_counts_only_where_it_is_certain() {
    let envelope = Envelope::new(1, 1, MILLI);
    let wide = Admission { begun: 10_000, ended: 10_900, tokens: 1 };
    // The second may have fallen a millisecond after the first.
    assert_eq!(envelope.excess(&[wide, Admission { begun: 10_100, ended: 11_000, tokens: 1 }]), 0);
    // These have not.
    assert_eq!(envelope.excess(&[wide, Admission { begun: 10_100, ended: 10_950, tokens: 1 }]), 1);
}

#[test]
fn refill_is_used_in_full_or_in_part() {
    let envelope = Envelope::new(5, 1, MILLI);
    let log = greedy();
    assert!((envelope.used(&log, 1_001_000, 1_101_000) - 1.0).abs() < 1e-9);
    let half: Vec<Admission> = log.into_iter().step_by(2).collect();
    assert!((envelope.used(&half, 1_010_000, 1_110_000) - 0.5).abs() < 0.02);
}

proptest! {
    #[test]
    fn every_interval_is_looked_at(
        log in prop::collection::vec((0_u64..400, 0_u64..60, 1_u32..5), 1..40),
        tokens in 1_u64..20,
        window in 1_u64..200,
        burst in 0_u64..30,
    ) {
        let log: Vec<Admission> =
            log.into_iter().map(|(begun, width, tokens)| Admission { begun, ended: begun + width, tokens }).collect();
        let envelope = Envelope::new(burst, tokens, Duration::from_micros(window));
        let needed = burst_needed(&log, tokens, window);
        prop_assert_eq!(envelope.excess(&log), needed.saturating_sub(burst));
        let peak = envelope.peak(&log).expect("it has admissions");
        let inside = log.iter().filter(|one| one.begun >= peak.from && one.ended <= peak.until);
        prop_assert_eq!(peak.admitted, inside.map(|one| u64::from(one.tokens)).sum::<u64>());
    }
}
