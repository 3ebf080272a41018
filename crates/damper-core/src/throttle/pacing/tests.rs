//! Tests of the strategies against slow, obvious models in floating point, and against worked numbers.

use super::{Hints, Level, Moment, NoPacing, Pacer, RemainingDecrease, Strategy};
use crate::quota::Quota;
use crate::throttle::compared::{CubicRate, ExponentialBackoff, GradualDecrease, ProportionalDecrease};
use core::time::Duration;
use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;
use std::string::ToString;
use std::vec::Vec;

const PUBLISHED: Quota = Quota::per_hour(4_500);
/// A moment without jitter.
const NOW: Moment = Moment::new(0, 0);

fn seconds(sleep: Duration) -> f64 {
    sleep.as_secs_f64()
}

fn accept(strategy: &impl Strategy, learned: &mut u64, remaining: Option<u64>) -> f64 {
    assert_eq!(strategy.answered(learned, &Hints::ACCEPTED.remaining(remaining), NOW), Duration::ZERO);
    seconds(strategy.before_call(*learned, NOW))
}

fn reject(strategy: &impl Strategy, learned: &mut u64) -> f64 {
    seconds(strategy.answered(learned, &Hints::REJECTED, NOW))
}

/// The published example: a sleep of 44 s and one of 11 s, with a divisor of 100.
#[test]
fn successes_take_a_hundredth_off_as_published() {
    for (start, expected) in [(11, &[10.89, 10.78, 10.67, 10.57][..]), (44, &[43.56][..])] {
        let strategy = ProportionalDecrease::new(PUBLISHED).start(Duration::from_secs(start)).unwrap();
        let strategy = strategy.divisor(100).unwrap();
        let mut learned = 0;
        assert_eq!(strategy.before_call(learned, NOW), Duration::from_secs(start));
        for sleep in expected {
            assert!((accept(&strategy, &mut learned, None) - sleep).abs() < 0.005, "{sleep}");
        }
    }
}

#[test]
fn rejection_adds_the_time_of_a_token_and_multiplies_after_the_sleep() {
    let strategy = GradualDecrease::new(PUBLISHED);
    let mut learned = 0;
    let sleeps = [0.8, 0.8 * 1.2 + 0.8, (0.8 * 1.2 + 0.8) * 1.2 + 0.8];
    for sleep in sleeps {
        assert!((reject(&strategy, &mut learned) - sleep).abs() < 1e-8);
    }
    let kept = sleeps[2] * 1.2;
    assert!((seconds(strategy.before_call(learned, NOW)) - kept).abs() < 1e-8);
    assert!((accept(&strategy, &mut learned, None) - (kept - 0.8)).abs() < 1e-8);
}

#[test]
fn backoff_multiplies_and_forgets_at_a_success() {
    let strategy = ExponentialBackoff::new(PUBLISHED).multiplier(2.0).unwrap();
    let mut learned = 0;
    for sleep in [0.8, 1.6, 3.2, 6.4] {
        assert!((reject(&strategy, &mut learned) - sleep).abs() < 1e-8);
        assert_eq!(strategy.before_call(learned, NOW), Duration::ZERO);
    }
    assert_eq!(accept(&strategy, &mut learned, None), 0.0);
    assert!((reject(&strategy, &mut learned) - 0.8).abs() < 1e-8);
}

#[test]
fn success_with_all_remaining_ends_the_sleep() {
    let strategy = RemainingDecrease::new(PUBLISHED).start(Duration::from_secs(10)).unwrap();
    for (remaining, left) in [(0, 10.0), (450, 9.0), (2_250, 5.0), (4_500, 0.0), (u64::MAX, 0.0)] {
        let mut learned = 0;
        assert!((accept(&strategy, &mut learned, Some(remaining)) - left).abs() < 1e-6, "{remaining}");
    }
}

#[test]
fn jitter_adds_a_tenth_at_most() {
    let strategy = RemainingDecrease::new(PUBLISHED).start(Duration::from_secs(10)).unwrap();
    let sleep = |random| seconds(strategy.before_call(0, Moment::new(0, random)));
    assert!((sleep(0) - 10.0).abs() < 1e-8);
    assert!((sleep(u64::MAX) - 11.0).abs() < 1e-8);
    assert!((sleep(u64::MAX / 2) - 10.5).abs() < 1e-8);
}

#[test]
fn options_out_of_range_are_named() {
    let strategy = RemainingDecrease::new(PUBLISHED);
    assert_eq!(strategy.multiplier(0.9).unwrap_err().to_string(), "multiplier is 0.9, it must be 1.0 to 10.0");
    assert_eq!(strategy.multiplier(f64::NAN).unwrap_err().to_string(), "multiplier is NaN, it must be 1.0 to 10.0");
    assert_eq!(strategy.divisor(0).unwrap_err().to_string(), "divisor is 0, it must be at least 1");
    assert_eq!(strategy.cap(Duration::ZERO).unwrap_err().to_string(), "cap is 0 ns, it must be 1 µs to 1 day");
    assert_eq!(
        strategy.cap(Duration::MAX).unwrap_err().to_string(),
        "cap is 18446744073709551615.999999999 s, it must be 1 µs to 1 day"
    );
    let capped = strategy.cap(Duration::from_secs(5)).unwrap();
    let error = capped.start(Duration::from_secs(6)).unwrap_err();
    assert_eq!(error.to_string(), "start is 6 s, it must be at most 5 s (the cap)");
    let started = strategy.start(Duration::from_secs(6)).unwrap();
    assert_eq!(started.cap(Duration::from_secs(5)).unwrap_err(), error);
    assert_eq!(Level::new(PUBLISHED).cap(Duration::from_secs(5)).unwrap().start(Duration::from_secs(6)), Err(error));
}

const FIRST: f64 = 13.0 * 0.8;

/// A strategy that has seen one rejection at 0 s.
fn rejected_level(quota: Quota) -> (Level, u64) {
    let (level, mut learned) = (Level::new(quota), 0);
    reject(&level, &mut learned);
    (level, learned)
}

fn at(seconds: f64) -> Moment {
    Moment::new((seconds * 1e6) as u64, u64::MAX / 2)
}

#[test]
fn no_call_sleeps_before_the_first_rejection() {
    let (level, mut learned) = (Level::new(PUBLISHED), 0);
    assert_eq!(accept(&level, &mut learned, Some(0)), 0.0);
    assert_eq!(learned, 0);
    let sleep = |random| seconds(Level::new(PUBLISHED).answered(&mut 0, &Hints::REJECTED, Moment::new(0, random)));
    assert!((sleep(0) - 0.65 * FIRST).abs() < 1e-3 && (sleep(u64::MAX) - 0.77 * FIRST).abs() < 1e-3);
}

#[test]
fn sleep_falls_by_an_exponential_of_what_remains() {
    let (level, mut learned) = rejected_level(PUBLISHED);
    for remaining in [0, 1, 5, 20, 100, 200] {
        level.answered(&mut learned, &Hints::ACCEPTED.remaining(Some(remaining)), at(0.5));
        let expected = FIRST * (-(remaining as f64) / 20.0).exp();
        let sleep = |random| seconds(level.before_call(learned, Moment::new(0, random)));
        assert!((sleep(u64::MAX / 2) - expected).abs() < 0.001 + expected * 0.003, "{remaining}");
        assert!(sleep(0) >= 0.949 * expected - 0.001 && sleep(u64::MAX) <= 1.051 * expected + 0.001, "{remaining}");
    }
    for remaining in [320, 4_500, u64::MAX] {
        level.answered(&mut learned, &Hints::ACCEPTED.remaining(Some(remaining)), at(0.5));
        assert_eq!(level.before_call(learned, NOW), Duration::ZERO, "{remaining}");
    }
}

/// Returns the sleep at an empty limit after these responses.
///
/// Each is the time in seconds, and whether the service rejected the call.
fn longest_after(answers: &[(f64, bool)]) -> f64 {
    let (level, mut learned) = rejected_level(PUBLISHED);
    for (seconds, is_rejected) in answers {
        let hints = if *is_rejected { Hints::REJECTED } else { Hints::ACCEPTED };
        level.answered(&mut learned, &hints.remaining(Some(if *is_rejected { 0 } else { 50 })), at(*seconds));
    }
    level.answered(&mut learned, &Hints::ACCEPTED.remaining(Some(0)), at(answers.last().unwrap().0));
    seconds(level.before_call(learned, at(0.0)))
}

#[test]
fn rejections_of_a_round_raise_the_longest_sleep() {
    let close = |longest: f64, factor: f64| (longest / FIRST / factor - 1.0).abs() < 0.01;
    assert!(close(longest_after(&[(0.2, true), (0.5, true)]), 1.0), "the calls were sent before the round");
    assert!(close(longest_after(&[(5.0, true), (6.0, false)]), 1.0), "the round is not over");
    assert!(close(longest_after(&[(5.0, true), (11.0, false)]), 6.0 / 5.0));
    assert!(close(longest_after(&[(5.0, false), (6.0, true), (7.0, true), (11.0, true)]), 8.0 / 5.0));
    let many: Vec<_> = (0..60).map(|answer| (5.0 + f64::from(answer) / 10.0, true)).collect();
    assert!(close(longest_after(&many), 3.0), "at most threefold");
}

#[test]
fn calm_rounds_lower_the_longest_sleep_to_the_first_one() {
    let mut answers = [(5.0, true), (6.0, true), (11.0, true)].to_vec();
    assert!((longest_after(&answers) / FIRST - 7.0 / 4.0).abs() < 0.01);
    answers.push((11.0 + 4.0 * FIRST + 1.0, false));
    assert!((longest_after(&answers) / FIRST - 0.9 * 7.0 / 4.0).abs() < 0.02);
    answers.extend((1..30).map(|round| (60.0 * f64::from(round + 1), false)));
    assert!((longest_after(&answers) / FIRST - 1.0).abs() < 0.01);
}

#[test]
fn successes_shorten_the_sleep_of_a_service_that_says_nothing() {
    let (level, mut learned) = rejected_level(PUBLISHED);
    let sleep = |learned| seconds(level.before_call(learned, at(0.0)));
    for answer in 0..800u64 {
        level.answered(&mut learned, &Hints::ACCEPTED, Moment::new(0, answer));
    }
    assert!((sleep(learned) - FIRST * (-5.0_f64).exp()).abs() < 0.01, "100 calls more remain: {}", sleep(learned));
    level.answered(&mut learned, &Hints::REJECTED, Moment::new(0, 0));
    assert!((sleep(learned) - FIRST).abs() < 0.01);
}

#[test]
fn full_limit_needs_no_sleep_whatever_its_burst() {
    for burst in [1, 2, 5, 20, 100] {
        let quota = Quota::per_minute(60).burst(burst);
        let (level, mut learned) = rejected_level(quota);
        level.answered(&mut learned, &Hints::ACCEPTED.remaining(Some(burst.into())), at(0.5));
        let part = seconds(level.before_call(learned, at(0.0))) / 13.0;
        assert!(part <= if burst == 1 { 0.02 } else { 0.001 }, "{burst}: {part}");
    }
}

#[test]
fn retries_after_the_first_rejection_are_spread_wider_than_the_first() {
    let (level, learned) = rejected_level(PUBLISHED);
    let sleep = |random| seconds(level.answered(&mut learned.clone(), &Hints::REJECTED, Moment::new(100_000, random)));
    assert!((sleep(0) - 0.6 * FIRST).abs() < 1e-3 && (sleep(u64::MAX) - FIRST).abs() < 1e-3);
}

/// A rejection by a service for 60 calls a minute that reports its reset and when to retry.
fn rejection(retry_after: u64, resets_in: u64) -> Hints {
    let seconds = |time| Some(Duration::from_secs(time));
    Hints::REJECTED.retry_after(seconds(retry_after)).resets_in(seconds(resets_in))
}

#[test]
fn reset_alone_is_a_pause_unless_it_is_that_of_a_bucket() {
    let (level, pause) = (Level::new(Quota::per_minute(60)), |reset| Some(Duration::from_secs(reset)));
    let rejected = |reset| Hints::REJECTED.resets_in(pause(reset));
    assert_eq!((level.pause(0, &rejected(30)), level.pause(0, &rejected(60))), (pause(30), None));
    assert_eq!(level.pause(0, &rejected(60).retry_after(pause(1))), pause(1));
    assert_eq!((level.pause(0, &Hints::REJECTED), level.pause(0, &Hints::ACCEPTED.resets_in(pause(30)))), (None, None));
}

/// The rejections of a minute's fixed window and of its bucket.
const FIXED: (u64, u64) = (40, 40);
const BUCKET: (u64, u64) = (1, 60);

/// An accepted call with `remaining` calls left, and `resets_in` seconds until the reset.
fn accepted(remaining: u64, resets_in: u64) -> Hints {
    Hints::ACCEPTED.remaining(Some(remaining)).resets_in(Some(Duration::from_secs(resets_in)))
}

/// Returns for how many seconds the last of these responses stops all calls.
fn stop_after(answers: &[Hints]) -> Option<u64> {
    let (level, mut learned, mut stop) = (Level::new(Quota::per_hour(5_000)), 0, None);
    for hints in answers {
        stop = level.pause(learned, hints).as_ref().map(Duration::as_secs);
        level.answered(&mut learned, hints, NOW);
    }
    stop
}

#[test]
fn used_up_fixed_window_stops_calls_until_its_reset() {
    let fixed = rejection(FIXED.0, FIXED.1);
    assert_eq!(stop_after(&[fixed]), Some(40));
    assert_eq!(stop_after(&[fixed, accepted(0, 30)]), Some(30));
    assert_eq!(stop_after(&[fixed, accepted(1, 30)]), None, "nothing shows another client");
    assert_eq!(stop_after(&[accepted(0, 30)]), None, "no rejection has shown a fixed window");
}

#[test]
fn fixed_window_counts_as_used_up_if_others_will_take_what_remains() {
    let fixed = rejection(FIXED.0, FIXED.1);
    // All clients made five calls between two responses.
    assert_eq!(stop_after(&[fixed, accepted(10, 30), accepted(5, 29)]), None);
    assert_eq!(stop_after(&[fixed, accepted(10, 30), accepted(5, 29), accepted(0, 28)]), Some(28));
    assert_eq!(stop_after(&[fixed, accepted(9, 30), accepted(4, 29)]), Some(29));
    // After a long silence the drop says nothing about the next call.
    assert_eq!(stop_after(&[fixed, accepted(900, 30), accepted(12, 29)]), None);
    assert_eq!(stop_after(&[fixed, accepted(900, 30), accepted(11, 29)]), Some(29));
}

/// A window of a minute says nothing about a bucket of an hour beside it.
#[test]
fn stop_is_not_much_longer_than_one_that_a_rejection_asked_for() {
    for (wait, longest) in
        [(5, 16), (16, 16), (17, 64), (64, 64), (65, 256), (300, 1_024), (2_000, 4_096), (50_000, 4_096)]
    {
        let shown = rejection(wait, wait);
        assert_eq!(stop_after(&[shown, accepted(0, longest)]), Some(longest), "{wait}");
        assert_eq!(stop_after(&[shown, accepted(0, longest + 1)]), None, "{wait}");
        assert_eq!(
            stop_after(&[shown, rejection(5, 5), accepted(0, longest)]),
            Some(longest),
            "the longest one counts"
        );
    }
}

#[test]
fn rejection_that_allows_a_call_before_the_reset_shows_no_fixed_window() {
    let (fixed, bucket) = (rejection(FIXED.0, FIXED.1), rejection(BUCKET.0, BUCKET.1));
    assert_eq!(stop_after(&[bucket, accepted(0, 60)]), None);
    assert_eq!(stop_after(&[fixed, bucket, accepted(0, 30)]), None, "it ends the rule");
    assert_eq!(stop_after(&[fixed, bucket, fixed, accepted(0, 30)]), None, "for good");
    for unclear in [rejection(59, 60), rejection(4, 4), Hints::REJECTED, rejection(40, 40).retry_after(None)] {
        assert_eq!(stop_after(&[unclear, accepted(0, 16)]), None, "{unclear:?}");
        assert_eq!(stop_after(&[fixed, unclear, accepted(0, 16)]), Some(16), "{unclear:?}");
    }
}

/// Calls in flight at a reset may get their responses after those of the new window.
#[test]
fn late_answers_and_answers_without_hints_leave_what_is_known_of_a_fixed_window() {
    let fixed = rejection(FIXED.0, FIXED.1);
    assert_eq!(stop_after(&[fixed, accepted(50, 60), accepted(0, 1)]), Some(1), "no longer than the last window");
    assert_eq!(stop_after(&[fixed, accepted(50, 60), accepted(0, 1), accepted(49, 60)]), None);
    for bare in [Hints::ACCEPTED, Hints::REJECTED, Hints::ACCEPTED.remaining(Some(0))] {
        assert_eq!(stop_after(&[fixed, accepted(50, 60), bare]), None);
        assert_eq!(stop_after(&[fixed, accepted(50, 60), bare, accepted(0, 20)]), Some(20));
    }
}

#[test]
fn pacer_stops_all_calls_until_the_reset_of_a_used_up_fixed_window() {
    let clock = crate::ManualClock::new();
    let pacer = Pacer::with_clock(Level::new(Quota::per_hour(5_000)), &clock, 7);
    let sleep_after = |hints: Hints, wait: u64| {
        pacer.answered(&hints);
        let sleep = pacer.before_call();
        clock.advance(Duration::from_secs(wait));
        seconds(sleep)
    };
    let spread = 13.0 * 0.72;
    assert!((40.0..=40.0 + spread).contains(&sleep_after(rejection(40, 40), 60)));
    assert!(sleep_after(accepted(59, 55), 1) < 1.0, "of the next window");
    assert!((54.0..=54.0 + spread).contains(&sleep_after(accepted(0, 54), 60)));
    assert!(sleep_after(accepted(59, 54), 1) < 1.0);
}

#[test]
fn start_is_slept_as_it_is_and_begins_a_round_at_the_first_answer() {
    for (quota, start) in
        [(Quota::per_second(1_000), 3_600_000_000), (Quota::per_hour(4_500), 100), (PUBLISHED, 60_000_000)]
    {
        let start = Duration::from_micros(start);
        let level = Level::new(quota).cap(Duration::from_secs(86_400)).unwrap().start(start).unwrap();
        assert!(level.before_call(0, at(0.0)).abs_diff(start) < start / 1_000, "{start:?}");
        let mut learned = 0;
        level.answered(&mut learned, &Hints::ACCEPTED.remaining(Some(0)), at(0.0));
        assert!(level.before_call(learned, at(0.0)) > Duration::ZERO, "{start:?}");
    }
    let level = Level::new(PUBLISHED).start(Duration::from_secs(60)).unwrap();
    let mut learned = 0;
    // The first responses come long after the clock began.
    for hundredths in [0, 1] {
        level.answered(&mut learned, &Hints::ACCEPTED.remaining(Some(12)), at(5_000.0 + f64::from(hundredths) / 100.0));
    }
    level.answered(&mut learned, &Hints::ACCEPTED.remaining(Some(0)), at(5_000.1));
    assert!((seconds(level.before_call(learned, at(0.0))) - 60.0).abs() < 0.1, "the round is not over");
}

#[test]
fn order_of_caps_does_not_matter() {
    let [short, long] = [Duration::from_millis(1), Duration::from_secs(3_600)];
    let both = GradualDecrease::new(PUBLISHED).cap(short).unwrap().cap(long).unwrap();
    assert_eq!(both, GradualDecrease::new(PUBLISHED).cap(long).unwrap());
    assert!((reject(&both, &mut 0) - 0.8).abs() < 1e-8);
}

/// Gateways and caches respond without headers, and late responses are of the last window.
#[test]
fn accepted_answers_are_no_reason_to_sleep_before_the_first_rejection() {
    let (level, mut learned) = (Level::new(Quota::per_hour(5_000)), 0);
    for hints in [accepted(4_499, 3_600), Hints::ACCEPTED, accepted(0, 1), accepted(59, 3_600), accepted(10, 1 << 40)] {
        level.answered(&mut learned, &hints, NOW);
        assert_eq!((learned, level.before_call(learned, NOW)), (0, Duration::ZERO), "{hints:?}");
    }
}

#[test]
fn rejection_without_hints_sleeps_whatever_earlier_answers_said() {
    let (level, mut learned) = (Level::new(PUBLISHED), 0);
    let accepted = Hints::ACCEPTED.remaining(Some(4_000)).resets_in(Some(Duration::from_secs(3_600)));
    level.answered(&mut learned, &accepted, NOW);
    for now in [1.0, 4_000.0] {
        assert!(seconds(level.answered(&mut learned, &Hints::REJECTED, at(now))) > 0.5 * FIRST);
        assert!(seconds(level.before_call(learned, at(now))) > 0.9 * FIRST);
    }
}

#[test]
fn remaining_calls_count_one_by_one_where_a_limit_is_spent_in_bursts() {
    let (level, mut learned) = (Level::new(Quota::per_minute(600)), 0);
    let mut sleep_after = |hints: &Hints| {
        level.answered(&mut learned, hints, at(0.0));
        seconds(level.before_call(learned, at(0.0)))
    };
    sleep_after(&rejection(1, 60));
    let accepted = Hints::ACCEPTED.remaining(Some(300));
    assert!(sleep_after(&accepted) < 0.01, "a pause shorter than the longest sleep");
    sleep_after(&rejection(40, 60));
    for success in 1..10 {
        let expected = 1.3 * (-f64::from(success) / 20.0).exp();
        assert!((sleep_after(&accepted) - expected).abs() < 0.01, "{success}");
    }
    let few = sleep_after(&Hints::ACCEPTED.remaining(Some(1)));
    assert!((few - 1.3 * (-1.0_f64 / 20.0).exp()).abs() < 0.01, "fewer count at once");
}

/// The options and the state of a model. Sleeps are in seconds.
#[derive(Clone, Copy, Debug)]
struct Model {
    min_sleep: f64,
    multiplier: f64,
    divisor: f64,
    cap: f64,
    sleep: f64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Backoff,
    Gradual,
    Proportional,
    Remaining,
}

impl Model {
    fn rejected(&mut self, kind: Kind) -> f64 {
        if let Kind::Backoff = kind {
            self.sleep = if self.sleep == 0.0 { self.min_sleep } else { (self.sleep * self.multiplier).min(self.cap) };
            return self.sleep;
        }
        let slept = (self.sleep + self.min_sleep).min(self.cap);
        self.sleep = (slept * self.multiplier).min(self.cap);
        slept
    }

    fn accepted(&mut self, kind: Kind, remaining: Option<u64>) {
        let decrease = match kind {
            Kind::Backoff => self.sleep,
            Kind::Gradual => self.min_sleep,
            Kind::Proportional => self.sleep / self.divisor,
            Kind::Remaining => self.sleep * remaining.unwrap_or(1) as f64 / self.divisor,
        };
        self.sleep = (self.sleep - decrease).max(0.0);
    }

    fn before_call(&self, kind: Kind) -> f64 {
        if let Kind::Backoff = kind { 0.0 } else { self.sleep }
    }
}

/// The quotas of the specification, and the extremes: a call a day, a million a second, none at all.
fn quotas() -> impl Generator<Value = Quota> {
    prop_oneof![
        Just(PUBLISHED),
        Just(Quota::per_minute(100)),
        Just(Quota::per(1_000_000, Duration::from_secs(86_400)).unwrap()),
        Just(Quota::per(1, Duration::from_secs(86_400)).unwrap()),
        Just(Quota::per_second(1_000_000)),
        Just(Quota::per_second(0)),
        (1..10_000u32, 1..1_000_000u64)
            .prop_map(|(limit, millis)| Quota::per(limit, Duration::from_millis(millis)).unwrap()),
    ]
}

/// Responses: rejected ones, and accepted ones with the remaining calls.
fn answers() -> impl Generator<Value = Vec<Hints>> {
    let answer = prop_oneof![
        Just(Hints::REJECTED),
        Just(Hints::ACCEPTED),
        (0..5_000u64).prop_map(|calls| Hints::ACCEPTED.remaining(Some(calls))),
        any::<u64>().prop_map(|calls| Hints::ACCEPTED.remaining(Some(calls))),
        (0..3u64).prop_map(|calls| Hints::REJECTED.remaining(Some(calls))),
    ];
    proptest::collection::vec(answer, 1..200)
}

/// Responses with all hints that a service may give, in any order, as of calls in flight together.
///
/// Each comes some microseconds after the previous one; one in eight before it.
fn answers_with_hints() -> impl Generator<Value = Vec<(Hints, u64)>> {
    let verdict =
        prop_oneof![Just(Hints::REJECTED), Just(Hints::ACCEPTED), Just(Hints::ACCEPTED), Just(Hints::UNKNOWN)];
    let calls = || proptest::option::of(prop_oneof![0..3u64, 0..200u64, any::<u64>()]);
    let time = || {
        let seconds = prop_oneof![0..3u64, 0..100u64, 0..100_000u64, any::<u64>()];
        proptest::option::of(seconds.prop_map(Duration::from_secs))
    };
    let later = prop_oneof![7 => 0..60_000_000u64, 1 => (0..5_000_000u64).prop_map(u64::wrapping_neg)];
    let answer = (verdict, calls(), calls(), time(), time(), any::<bool>(), later).prop_map(
        |(verdict, remaining, limit, resets_in, retry_after, is_fixed, later)| {
            let retry_after = if is_fixed { resets_in } else { retry_after };
            (verdict.remaining(remaining).limit(limit).resets_in(resets_in).retry_after(retry_after), later)
        },
    );
    proptest::collection::vec(answer, 1..200)
}

/// Allows a nanosecond of rounding up, a millionth of the sleep, and the accumulated steps of 2^-16 ns.
fn close(sleep: Duration, model: f64) -> bool {
    (seconds(sleep) - model).abs() <= 3e-9 + model * 1e-6
}

fn agrees(kind: Kind, strategy: &impl Strategy, mut model: Model, answers: &[Hints]) -> Result<(), TestCaseError> {
    let mut learned = 0;
    for hints in answers {
        let sleep = strategy.answered(&mut learned, hints, NOW);
        if hints.is_rejected() {
            let slept = model.rejected(kind);
            prop_assert!(close(sleep, slept), "{kind:?} slept {sleep:?}, not {slept} s");
        } else {
            model.accepted(kind, hints.remaining);
        }
        let (sleep, expected) = (strategy.before_call(learned, NOW), model.before_call(kind));
        prop_assert!(close(sleep, expected), "{kind:?} sleeps {sleep:?}, not {expected} s");
    }
    Ok(())
}

proptest! {
    #[test]
    fn sleeps_are_those_of_the_models(
        quota in quotas(),
        multiplier in prop_oneof![Just(1.2), Just(2.0), Just(3.0), Just(1.0)],
        divisor in 1..10_000u32,
        cap in 10..100_000u64,
        start in 0..10u64,
        answers in answers(),
    ) {
        let (cap, start) = (Duration::from_secs(cap).min(Duration::from_secs(86_400)), Duration::from_secs(start));
        let token = quota.window().as_secs_f64() / f64::from(quota.limit());
        let model = Model {
            min_sleep: token.min(86_400.0).min(seconds(cap)).min(quota.window().as_secs_f64().max(1.0)),
            multiplier,
            divisor: divisor.into(),
            cap: seconds(cap),
            sleep: seconds(start),
        };
        macro_rules! options {
            ($strategy:ident $($setter:ident)*) => {
                $strategy::new(quota).cap(cap).unwrap().multiplier(multiplier).unwrap()$(.$setter($setter).unwrap())*
            };
        }
        agrees(Kind::Backoff, &options!(ExponentialBackoff), Model { sleep: 0.0, ..model }, &answers)?;
        agrees(Kind::Gradual, &options!(GradualDecrease start), model, &answers)?;
        agrees(Kind::Proportional, &options!(ProportionalDecrease start divisor), model, &answers)?;
        agrees(Kind::Remaining, &options!(RemainingDecrease start divisor), model, &answers)?;
    }

    /// For any quota, state and responses, a sleep is at most a day and its jitter, and there is no panic.
    #[test]
    fn no_sleep_is_longer_than_a_day(
        quota in prop_oneof![quotas(), Just(Quota::per_second(u32::MAX)), Just(Quota::UNLIMITED)],
        mut learned in any::<u64>(),
        mut schedule in any::<u64>(),
        answers in answers_with_hints(),
        micros in any::<u64>(),
        random in any::<u64>(),
    ) {
        let longest = Duration::from_secs(86_400 * 11 / 10 + 1);
        let strategies: [&dyn Strategy; 5] = [
            &NoPacing,
            &Level::new(quota),
            &CubicRate::new(quota),
            &ExponentialBackoff::new(quota),
            &RemainingDecrease::new(quota),
        ];
        for strategy in strategies {
            let mut micros = micros;
            for (hints, later) in &answers {
                micros = micros.wrapping_add(*later);
                let moment = Moment::new(micros, random);
                let sleep = strategy.before_call(learned, moment).max(strategy.answered(&mut learned, hints, moment));
                prop_assert!(strategy.schedule(&mut schedule, learned, sleep, moment) <= longest);
                prop_assert!(strategy.spread(learned, sleep) <= longest);
            }
        }
    }

    #[test]
    fn level_sleeps_only_after_rejections_and_stops_only_as_they_have_asked(
        quota in quotas(),
        answers in answers_with_hints(),
        random in any::<u64>(),
    ) {
        let (level, mut learned, mut micros) = (Level::new(quota), 0, 0u64);
        let (mut is_rejected, mut is_sliding, mut asked) = (false, false, Duration::ZERO);
        for (hints, later) in answers {
            micros = micros.wrapping_add(later);
            let stop = level.pause(learned, &hints);
            level.answered(&mut learned, &hints, Moment::new(micros, random));
            if hints.is_rejected() {
                is_rejected = true;
                if let (Some(wait), Some(reset)) = (hints.retry_after, hints.resets_in) {
                    is_sliding |= wait.saturating_add(Duration::from_secs(2)) < reset;
                    asked = asked.max(if wait >= reset { wait } else { Duration::ZERO });
                }
            } else if let Some(stop) = stop {
                prop_assert_eq!(hints.resets_in, Some(stop));
                prop_assert!(hints.remaining < Some(12), "many calls are left");
                prop_assert!(!is_sliding && asked > Duration::from_secs(4), "no rejection has shown a fixed window");
                prop_assert!(stop <= Duration::from_secs(16).max(asked.saturating_mul(4)), "{stop:?} after {asked:?}");
            }
            let sleep = level.before_call(learned, Moment::new(micros, random));
            prop_assert!(is_rejected || sleep.is_zero(), "{sleep:?} before the first rejection");
        }
    }
}
