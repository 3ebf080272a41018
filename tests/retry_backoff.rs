//! Backoff and jitter, against a slow model in 128 bits.

use damper::Backoff;
use damper::retry::Jitter;
use proptest::prelude::*;
use std::time::Duration;

/// No wait is longer than this: 292 years.
const LONGEST: u128 = u64::MAX as u128 >> 1;

#[derive(Clone, Copy, Debug)]
enum Growth {
    Constant,
    Exponential(u32),
    Fibonacci,
}

fn backoff(growth: Growth, base: Duration, longest: Duration, jitter: Jitter) -> Backoff {
    let backoff = match growth {
        Growth::Constant => Backoff::constant(base),
        Growth::Exponential(thousandths) => {
            Backoff::exponential(base).factor(f64::from(thousandths) / 1_000.0).expect("in range")
        }
        Growth::Fibonacci => Backoff::fibonacci(base),
    };
    backoff.max_delay(longest).jitter(jitter)
}

/// The delay before a retry, step by step from the first.
fn delay(growth: Growth, base: Duration, longest: Duration, retry: u32) -> u128 {
    let (mut previous, mut delay) = (0, base.as_nanos().min(LONGEST));
    for _ in 1..retry {
        let next = match growth {
            Growth::Constant => delay,
            Growth::Exponential(thousandths) => (delay * u128::from(thousandths)).div_ceil(1_000),
            Growth::Fibonacci => delay + previous,
        };
        (previous, delay) = (delay, next.min(LONGEST));
    }
    delay.min(longest.as_nanos())
}

fn growths() -> impl Strategy<Value = Growth> {
    prop_oneof![Just(Growth::Constant), (1_000..=1_000_000u32).prop_map(Growth::Exponential), Just(Growth::Fibonacci)]
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
    prop::sample::select(vec![Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated, Jitter::Proportional])
}

proptest! {
    #[test]
    fn delays_are_those_of_the_model(
        growth in growths(), base in durations(), longest in durations(), retry in 1..200u32,
    ) {
        let backoff = backoff(growth, base, longest, Jitter::None);
        prop_assert_eq!(backoff.delay(retry).as_nanos(), delay(growth, base, longest, retry).min(LONGEST));
    }

    /// Up to the last retry that can be counted.
    #[test]
    fn delays_never_shrink(growth in growths(), base in durations(), longest in durations(), retry: u32) {
        let backoff = backoff(growth, base, longest, Jitter::None);
        prop_assert!(backoff.delay(retry) <= backoff.delay(retry.saturating_add(1)));
        prop_assert!(backoff.delay(u32::MAX) <= longest);
    }

    #[test]
    fn every_wait_is_within_the_bounds_of_its_jitter(
        growth in growths(), base in durations(), longest in durations(), jitter in jitters(), seed: u64,
    ) {
        let backoff = backoff(growth, base, longest, jitter);
        let base = base.as_nanos().min(LONGEST);
        let mut previous = base;
        for (retry, wait) in (1..).zip(backoff.delays(seed).take(40)) {
            let (delay, wait) = (backoff.delay(retry).as_nanos(), wait.as_nanos());
            let (least, most) = match jitter {
                Jitter::Full => (0, delay),
                Jitter::Equal => (delay / 2, delay),
                Jitter::Decorrelated => (base, previous * 3),
                Jitter::Proportional => (delay - delay / 5, delay + delay / 5),
                _ => (delay, delay),
            };
            let longest = longest.as_nanos().min(LONGEST);
            prop_assert!(least.min(longest) <= wait && wait <= most.min(longest), "{least} {wait} {most} of {longest}");
            previous = wait;
        }
    }

    #[test]
    fn same_seed_draws_the_same_waits(jitter in jitters(), seed: u64) {
        let backoff = Backoff::DEFAULT.jitter(jitter);
        prop_assert!(backoff.delays(seed).take(20).eq(backoff.delays(seed).take(20)));
    }

    #[test]
    fn factor_out_of_range_is_refused(factor: f64) {
        let is_allowed = (1.0..=1_000.0).contains(&factor);
        prop_assert_eq!(Backoff::DEFAULT.factor(factor).is_ok(), is_allowed);
    }
}

/// A thousand callers who failed together come back spread over the whole delay, also at the longest one.
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

#[cfg(feature = "std")]
#[test]
fn instances_draw_different_waits() {
    let first: Vec<_> = Backoff::DEFAULT.into_iter().take(5).collect();
    let second: Vec<_> = Backoff::DEFAULT.into_iter().take(5).collect();
    assert_ne!(first, second);
}

/// gRPC's proposal A6: `min(initial · multiplier^(n - 1), max) · U(0.8, 1.2)`.
#[test]
fn proportional_jitter_is_within_the_bounds_of_grpc() {
    let backoff =
        Backoff::exponential(Duration::from_millis(100)).max_delay(Duration::from_secs(1)).jitter(Jitter::Proportional);
    for (retry, least, most) in
        [(1, 80, 120), (2, 160, 240), (3, 320, 480), (4, 640, 960), (5, 800, 1_200), (50, 800, 1_200)]
    {
        for seed in 0..1_000 {
            let wait = backoff.delays(seed).nth(retry - 1).expect("there is no end").as_millis();
            assert!((least..=most).contains(&wait), "retry {retry}: {wait} ms");
        }
    }
}

#[test]
fn error_names_the_factor_and_the_range() {
    let error = Backoff::DEFAULT.factor(0.5).unwrap_err();
    assert_eq!(error.to_string(), "factor is 0.5, it must be 1.0 to 1000.0");
    assert!(Backoff::DEFAULT.factor(f64::NAN).is_err());
}
