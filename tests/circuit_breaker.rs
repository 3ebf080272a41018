//! The circuit breaker through its public API: examples of behaviour, and a property against a plain model.

mod models {
    pub(crate) mod breaker;
}

use damper::{BreakerConfig, BreakerConfigError, CallError, CircuitBreaker, CircuitOpen, ManualClock, State};
use models::breaker::{self, Outcome, Step};
use proptest::prelude::*;
use std::error::Error;
use std::io;
use std::time::Duration;

const COOLDOWN: Duration = Duration::from_secs(30);

fn trip(breaker: &CircuitBreaker<&ManualClock>) {
    while let Ok(permit) = breaker.try_acquire() {
        permit.failure();
    }
}

fn config(failures: u32, probes: u32, successes: u32) -> BreakerConfig {
    BreakerConfig::builder()
        .failure_threshold(failures)
        .max_probes(probes)
        .successes_to_close(successes)
        .build()
        .unwrap()
}

#[test]
fn failures_in_a_row_trip_it_and_a_success_between_them_starts_over() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), &clock);
    for _ in 0..4 {
        breaker.try_acquire().unwrap().failure();
    }
    breaker.try_acquire().unwrap().success();
    for _ in 0..4 {
        breaker.try_acquire().unwrap().failure();
        assert_eq!(breaker.state(), State::Closed);
    }
    breaker.try_acquire().unwrap().failure();
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn open_refuses_without_calling_until_the_cooldown_is_over() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_millis(1_234));
    let breaker = CircuitBreaker::with_clock(config(1, 1, 1), &clock);
    trip(&breaker);
    let refused = breaker.call(|| -> Result<(), ()> { panic!("called") }).unwrap_err();
    let CallError::Open(open) = refused else { panic!("{refused:?}") };
    assert_eq!(open.retry_after(), Some(COOLDOWN));
    assert_eq!(open.to_string(), "circuit open, next probe in 30 s");
    clock.advance(Duration::from_micros(29_999_999));
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(Duration::from_micros(1)));
    assert_eq!(breaker.state(), State::Open);
    clock.advance(Duration::from_micros(1));
    assert_eq!(breaker.state(), State::HalfOpen);
    assert_eq!(breaker.call(|| Ok::<_, ()>(7)), Ok(7));
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn a_failed_probe_opens_it_again_for_a_whole_cooldown() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config(5, 1, 1), &clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    breaker.try_acquire().unwrap().failure();
    assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(COOLDOWN));
}

#[test]
fn only_so_many_probes_at_once_and_a_dropped_one_gives_its_place_back() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config(1, 3, 3), &clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    let mut probes: Vec<_> = (0..64).filter_map(|_| breaker.try_acquire().ok()).collect();
    assert_eq!(probes.len(), 3);
    let refused = breaker.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), None);
    assert_eq!(refused.to_string(), "circuit half-open, probe in progress");
    drop(probes.pop());
    probes.push(breaker.try_acquire().unwrap());
    assert!(breaker.try_acquire().is_err());
    probes.pop().unwrap().ignore();
    for probe in probes {
        probe.success();
        assert_eq!(breaker.state(), State::HalfOpen, "two successes of three");
    }
    breaker.try_acquire().unwrap().success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn no_more_probes_than_can_still_be_needed() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config(1, 2, 3), &clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    let (first, second) = (breaker.try_acquire().unwrap(), breaker.try_acquire().unwrap());
    first.success();
    second.success();
    let _third = breaker.try_acquire().unwrap();
    assert!(breaker.try_acquire().is_err(), "one in flight and two successes are all that three take");
}

/// A failure that was permitted before the trip arrives while half-open: it must not open the breaker again.
#[test]
fn a_late_result_changes_nothing() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config(2, 1, 1), &clock);
    let late: Vec<_> = (0..3).map(|_| breaker.try_acquire().unwrap()).collect();
    trip(&breaker);
    clock.advance(COOLDOWN);
    let probe = breaker.try_acquire().unwrap();
    let mut late = late.into_iter();
    late.next().unwrap().failure();
    assert_eq!(breaker.state(), State::HalfOpen);
    late.next().unwrap().success();
    assert_eq!(breaker.state(), State::HalfOpen);
    drop(late.next());
    assert!(breaker.try_acquire().is_err(), "a late drop gives no probe back");
    probe.success();
    assert_eq!(breaker.state(), State::Closed);
}

#[test]
fn unwinding_out_of_a_call_is_a_failure() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config(1, 1, 1), &clock);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        breaker.call(|| -> Result<(), ()> { panic!("on purpose") })
    }));
    assert!(unwound.is_err());
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn the_refusal_is_found_through_a_chain_of_sources() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config(1, 1, 1), &clock);
    let failed = breaker.call(|| Err::<(), _>(io::Error::other("down"))).unwrap_err();
    assert_eq!((failed.to_string(), failed.source().unwrap().to_string()), ("call failed".into(), "down".into()));
    let refused = breaker.call(|| Err::<(), _>(io::Error::other("down"))).unwrap_err();
    let wrapped = io::Error::other(refused);
    let mut source: Option<&(dyn Error + 'static)> = Some(&wrapped);
    let open = std::iter::from_fn(|| {
        let error = source?;
        // `io::Error` hides what it wraps from `source`, and shows it here.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        source = inner.map_or_else(|| error.source(), |inner| Some(inner as _));
        Some(error)
    })
    .find_map(|error| error.downcast_ref::<CircuitOpen>());
    assert_eq!(open.unwrap().retry_after(), Some(COOLDOWN));
}

#[cfg(feature = "alloc")]
#[test]
fn an_owned_permit_outlives_the_borrow() {
    let breaker = std::sync::Arc::new(CircuitBreaker::with_clock(BreakerConfig::default(), ManualClock::new()));
    let permit = breaker.try_acquire_owned().unwrap();
    std::thread::spawn(move || permit.record(&Err::<(), ()>(()))).join().unwrap();
    assert_eq!(breaker.state(), State::Closed, "one failure of five");
}

#[test]
fn settings_out_of_range_are_named() {
    let build = BreakerConfig::builder;
    let days = Duration::from_hours(24 * 100);
    assert_eq!(build().failure_threshold(0).build(), Err(BreakerConfigError::FailureThreshold));
    assert_eq!(build().cooldown(Duration::ZERO).build(), Err(BreakerConfigError::Cooldown(Duration::ZERO)));
    assert_eq!(
        build().cooldown(days + Duration::from_nanos(1)).build(),
        Err(BreakerConfigError::Cooldown(days + Duration::from_nanos(1)))
    );
    assert!(build().cooldown(days).build().is_ok());
    assert_eq!(build().max_probes(0).build(), Err(BreakerConfigError::MaxProbes(0)));
    assert_eq!(build().max_probes(1_024).build(), Err(BreakerConfigError::MaxProbes(1_024)));
    assert_eq!(build().successes_to_close(1_024).build(), Err(BreakerConfigError::SuccessesToClose(1_024)));
    let error = build().cooldown(Duration::ZERO).build().unwrap_err();
    assert_eq!(error.to_string(), "cooldown is 0ns, it must be more than zero and at most 100 days");
}

/// A cooldown of the longest kind on a clock that has run for years, and the circle of the word's microseconds.
#[test]
fn moments_far_apart_are_not_mistaken() {
    let clock = ManualClock::new();
    let longest =
        BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_hours(24 * 100)).build().unwrap();
    let breaker = CircuitBreaker::with_clock(longest, &clock);
    for _ in 0..50 {
        trip(&breaker);
        clock.advance(Duration::from_hours(24 * 100) - Duration::from_micros(1));
        assert_eq!(breaker.state(), State::Open);
        clock.advance(Duration::from_micros(1));
        breaker.try_acquire().unwrap().success();
    }
    trip(&breaker);
    clock.advance(Duration::from_hours(24 * 150));
    assert_eq!(breaker.state(), State::HalfOpen, "though the moments have circled");
}

/// However threads race, at most `max_probes` are out in half-open.
#[test]
fn racing_threads_share_the_probes() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(config(1, 4, 1_000), &clock);
    trip(&breaker);
    clock.advance(COOLDOWN);
    let out = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for round in 0..20_000 {
                    if let Ok(probe) = breaker.try_acquire() {
                        let now = 1 + out.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert!(now <= 4, "{now} probes");
                        if round % 64 == 0 {
                            std::thread::yield_now();
                        }
                        out.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(probe);
                    }
                }
            });
        }
    });
    assert_eq!(breaker.state(), State::HalfOpen);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![4 => Just(Outcome::Failure), 3 => Just(Outcome::Success), 1 => Just(Outcome::NoVerdict)];
    let step = prop_oneof![
        6 => Just(Step::Ask),
        6 => (any::<bool>(), outcome).prop_map(|(oldest, outcome)| Step::Tell(oldest, outcome)),
        1 => (0..2_000_000_000u32).prop_map(Step::Pass),
        2 => (-1..=1i8).prop_map(Step::PassCooldown),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn it_does_what_the_diagram_says(
        failures in 1..4u32,
        probes in 1..4u32,
        successes in 1..5u32,
        cooldown in 1..1_000_000u64,
        steps in steps(),
    ) {
        let config = BreakerConfig::builder()
            .failure_threshold(failures)
            .max_probes(probes)
            .successes_to_close(successes)
            .cooldown(Duration::from_micros(cooldown))
            .build()
            .unwrap();
        breaker::compare(config, steps);
    }
}
