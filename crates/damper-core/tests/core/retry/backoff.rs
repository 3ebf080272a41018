//! Backoff and jitter, against a slow model in 128 bits.

use crate::models::backoff::{Growth, LONGEST, SlowBackoff};
use damper::Backoff;
use damper::retry::Jitter;
use proptest::prelude::*;
use std::time::Duration;

fn growths() -> impl Strategy<Value = Growth> {
    prop_oneof![
        Just(Growth::Constant),
        (1_000..=1_000_000u32).prop_map(Growth::Exponential),
        Just(Growth::Fibonacci),
        Just(Growth::Linear),
    ]
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (0..=2_000_000_000u64).prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_nanos),
        Just(Duration::MAX),
    ]
}

fn jitters() -> impl Strategy<Value = Jitter> {
    let named = vec![Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated, Jitter::PROPORTIONAL];
    let spread = (0..=1_000u32).prop_map(|part| Jitter::spread(f64::from(part) / 1_000.0).expect("in range"));
    prop_oneof![4 => prop::sample::select(named), 1 => spread]
}

fn backoffs() -> impl Strategy<Value = SlowBackoff> {
    (growths(), durations(), durations(), jitters()).prop_map(|(growth, base, longest, jitter)| SlowBackoff {
        growth,
        base,
        longest,
        jitter,
    })
}

/// The first retries, in which the delay grows, and any later ones.
fn retries() -> impl Strategy<Value = u32> {
    prop_oneof![1..200u32, any::<u32>(), u32::MAX - 10..=u32::MAX]
}

proptest! {
    #[test]
    fn delays_match_the_model(model in backoffs(), retry in retries()) {
        let delay = model.backoff().delay(retry);
        prop_assert_eq!(delay.as_nanos(), model.delay(retry).min(LONGEST));
        prop_assert!(delay <= model.longest);
    }

    #[test]
    fn delays_never_shrink(model in backoffs(), retry in retries()) {
        let backoff = model.backoff();
        prop_assert!(backoff.delay(retry) <= backoff.delay(retry.saturating_add(1)));
    }

    #[test]
    fn every_wait_is_within_the_bounds_of_its_jitter(model in backoffs(), seed: u64) {
        let mut previous = model.base_nanos();
        for (retry, wait) in (1..).zip(model.backoff().delays(seed).take(300)) {
            let ((least, most), wait) = (model.bounds(retry, previous), wait.as_nanos());
            prop_assert!(least <= wait && wait <= most, "{least} {wait} {most} before retry {retry}");
            previous = wait;
        }
    }

    #[test]
    fn same_seed_draws_the_same_waits(jitter in jitters(), seed: u64) {
        let backoff = Backoff::DEFAULT.jitter(jitter);
        prop_assert!(backoff.delays(seed).take(20).eq(backoff.delays(seed).take(20)));
    }

    #[test]
    fn spread_out_of_range_is_refused(part: f64) {
        prop_assert_eq!(Jitter::spread(part).is_ok(), (0.0..=1.0).contains(&part));
    }

    #[test]
    fn factor_out_of_range_is_refused(factor: f64) {
        let is_allowed = (1.0..=1_000.0).contains(&factor);
        prop_assert_eq!(Backoff::DEFAULT.factor(factor).is_ok(), is_allowed);
    }
}

/// A thousand callers that fail together return spread over the whole delay, also at the longest one.
#[test]
fn full_jitter_does_not_pile_up_at_the_longest_delay() {
    let longest = Duration::from_secs(20);
    let waits: Vec<_> = (0..1_000).filter_map(|seed| Backoff::DEFAULT.delays(seed).nth(30)).collect();
    let mut tenths = [0; 10];
    for wait in &waits {
        tenths[(wait.as_millis() * 10 / (longest.as_millis() + 1)) as usize] += 1;
    }
    assert!(tenths.iter().all(|count| (60..150).contains(count)), "{tenths:?}");
    assert!(waits.iter().filter(|wait| **wait == longest).count() <= 1);
}

#[test]
fn spread_reaches_a_part_of_the_delay_to_both_sides() {
    let delay = Duration::from_secs(10);
    let backoff = Backoff::constant(delay).jitter(Jitter::spread(0.3).unwrap());
    let waits: Vec<_> = backoff.delays(1).take(200).collect();
    let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(
        (7.0..7.3).contains(&least.as_secs_f64()) && (12.7..=13.0).contains(&most.as_secs_f64()),
        "{least:?} {most:?}"
    );
}

#[cfg(feature = "std")]
#[test]
fn instances_draw_different_waits() {
    let first: Vec<_> = Backoff::DEFAULT.into_iter().take(5).collect();
    let second: Vec<_> = Backoff::DEFAULT.into_iter().take(5).collect();
    assert_ne!(first, second);
}

#[test]
fn error_names_the_factor_and_the_range() {
    let error = Backoff::DEFAULT.factor(0.5).unwrap_err();
    assert_eq!(error.to_string(), "factor is 0.5, it must be 1.0 to 1000.0");
    assert!(Backoff::DEFAULT.factor(f64::NAN).is_err());
}
