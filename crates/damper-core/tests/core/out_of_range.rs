//! Settings at the bounds of their ranges, and just beyond them.

use damper::breaker::{BreakerConfigBuilder, Window};
use damper::concurrency::LimitBounds;
#[cfg(feature = "alloc")]
use damper::retry::{HedgeConfig, HedgeConfigBuilder};
use damper::retry::{RetryBudgetConfig, RetryBudgetConfigBuilder, RetryThrottle};
#[cfg(feature = "compared")]
use damper::throttle::compared::{ExponentialBackoff, GradualDecrease, ProportionalDecrease};
use damper::throttle::{AdaptiveThrottle, Level, RemainingDecrease};
use damper::{
    Backoff, BreakerConfig, LeasingBucket, LimitSet, ManualClock, OutOfRange, Quota, RateLimiter, SlidingCounter,
    TokenBucket,
};
use proptest::prelude::*;
use std::time::Duration;

type Checked = Result<(), OutOfRange>;

/// A setting: its name, a function that sets it, and the bounds of its range.
struct Setting<T>(&'static str, fn(T) -> Checked, T, T);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const NANO: Duration = Duration::from_nanos(1);
const QUOTA: Quota = Quota::per_second(10);

fn breaker(set: impl FnOnce(BreakerConfigBuilder) -> BreakerConfigBuilder) -> Checked {
    set(BreakerConfig::builder()).build().map(drop)
}

fn budget(set: impl FnOnce(RetryBudgetConfigBuilder) -> RetryBudgetConfigBuilder) -> Checked {
    set(RetryBudgetConfig::builder()).build().map(drop)
}

#[cfg(feature = "alloc")]
fn hedge(set: impl FnOnce(HedgeConfigBuilder) -> HedgeConfigBuilder) -> Checked {
    set(HedgeConfig::builder()).build().map(drop)
}

fn throttle() -> AdaptiveThrottle<ManualClock> {
    AdaptiveThrottle::with_clock(ManualClock::new(), 7)
}

fn set() -> LimitSet<[TokenBucket; 1], ManualClock> {
    LimitSet::with_clock([QUOTA], ManualClock::new())
}

const COUNTS: &[Setting<u32>] = &[
    Setting("failure_threshold", |n| breaker(|config| config.failure_threshold(n)), 1, u32::MAX),
    Setting("failure_rate", |n| breaker(|config| config.failure_rate(n)), 1, 100),
    Setting("slow_rate", |n| breaker(|config| config.slow_rate(n, NANO)), 1, 100),
    Setting("minimum_calls", |n| breaker(|config| config.minimum_calls(n)), 1, u32::MAX),
    Setting("cooldown_jitter", |n| breaker(|config| config.cooldown_jitter(n)), 0, 100),
    Setting("max_probes", |n| breaker(|config| config.max_probes(n)), 1, 1_023),
    Setting("successes_to_close", |n| breaker(|config| config.successes_to_close(n)), 1, 1_023),
    Setting("probe_failure_rate", |n| breaker(|config| config.probe_failure_rate(n)), 1, 100),
    Setting("window", |n| breaker(|config| config.window(Window::last_calls(n))), 1, MOST_CALLS),
    Setting("min", |n| LimitBounds::new(n, LimitBounds::HIGHEST).map(drop), 1, 1_000_000),
    Setting("max", |n| LimitBounds::new(7, n).map(drop), 7, 1_000_000),
    Setting("start", |n| LimitBounds::new(7, 90).and_then(|bounds| bounds.starting_at(n)).map(drop), 7, 90),
    Setting("limit", |n| SlidingCounter::new(Quota::per_second(n)).map(drop), 0, (1 << 24) - 1),
    Setting("budget", |n| LeasingBucket::new(QUOTA, n).map(drop), 1, 9),
    Setting("size", lease, 1, 9),
    Setting("reserve", |n| budget(|config| config.floor(1).reserve(n)), 1, u32::MAX),
    Setting("max_tokens", |n| RetryThrottle::new(n, 0.1).map(drop), 1, 1_000),
    #[cfg(feature = "compared")]
    Setting("divisor", |n| ProportionalDecrease::new(QUOTA).divisor(n).map(drop), 1, u32::MAX),
    Setting("divisor", |n| RemainingDecrease::new(QUOTA).divisor(n).map(drop), 1, u32::MAX),
    #[cfg(feature = "alloc")]
    Setting("max_attempts", |n| hedge(|config| config.max_attempts(n)), 1, 5),
];

const MOST_CALLS: u32 = if cfg!(feature = "alloc") { 4_096 } else { 48 };

fn lease(size: u32) -> Checked {
    RateLimiter::with_algorithm(LeasingBucket::new(QUOTA, 9)?, ManualClock::new()).lease(size).map(drop)
}

const RATIOS: &[Setting<f64>] = &[
    Setting("cooldown_factor", |x| breaker(|config| config.cooldown_factor(x)), 1.0, 10.0),
    Setting("factor", |x| Backoff::DEFAULT.factor(x).map(drop), 1.0, 1_000.0),
    Setting("ratio", |x| budget(|config| config.ratio(x)), 0.0, 100.0),
    Setting("ratio", |x| RetryThrottle::new(10, x).map(drop), 0.0, 100.0),
    Setting("multiplier", |x| throttle().multiplier(x).map(drop), 1.0, 10.0),
    Setting("unsettled", |x| set().unsettled(x).map(drop), 0.0, 255.0),
    Setting("max_refused", |x| throttle().max_refused(x).map(drop), 0.0, 0.99),
    #[cfg(feature = "compared")]
    Setting("multiplier", |x| ExponentialBackoff::new(QUOTA).multiplier(x).map(drop), 1.0, 10.0),
    #[cfg(feature = "compared")]
    Setting("multiplier", |x| GradualDecrease::new(QUOTA).multiplier(x).map(drop), 1.0, 10.0),
    #[cfg(feature = "compared")]
    Setting("multiplier", |x| ProportionalDecrease::new(QUOTA).multiplier(x).map(drop), 1.0, 10.0),
    Setting("multiplier", |x| RemainingDecrease::new(QUOTA).multiplier(x).map(drop), 1.0, 10.0),
    #[cfg(feature = "alloc")]
    Setting("max_extra", |x| hedge(|config| config.max_extra(x)), 0.001, 1.0),
    #[cfg(feature = "alloc")]
    Setting("percentile", |x| hedge(|config| config.percentile(x)), 0.25, 0.999),
];

const THIRTY_DAYS: Duration = Duration::from_secs(30 * DAY.as_secs());
const HUNDRED_DAYS: Duration = Duration::from_secs(100 * DAY.as_secs());
const LONGEST: Duration = Duration::from_nanos(u64::MAX);
const CAP: Duration = Duration::from_secs(1);

const DURATIONS: &[Setting<Duration>] = &[
    Setting("slow_rate", |time| breaker(|config| config.slow_rate(1, time)), NANO, Duration::MAX),
    Setting("cooldown", |time| breaker(|config| config.cooldown(time)), NANO, HUNDRED_DAYS),
    Setting("max_cooldown", |time| breaker(|config| config.max_cooldown(time)), Duration::from_secs(30), HUNDRED_DAYS),
    Setting("max_retry_after", |time| breaker(|config| config.max_retry_after(time)), Duration::ZERO, HUNDRED_DAYS),
    Setting("max_half_open", |time| breaker(|config| config.max_half_open(time)), NANO, HUNDRED_DAYS),
    Setting("time_to_live", |time| set().time_to_live(time).map(drop), Duration::from_millis(1), THIRTY_DAYS),
    Setting("window", |time| Quota::per(5, time).map(drop), NANO, LONGEST),
    Setting("interval", |time| Quota::every(time).map(drop), NANO, LONGEST),
    Setting("ttl", |time| budget(|config| config.ttl(time)), Duration::from_millis(1), DAY),
    #[cfg(feature = "compared")]
    Setting("cap", |time| ExponentialBackoff::new(QUOTA).cap(time).map(drop), Duration::from_micros(1), DAY),
    #[cfg(feature = "compared")]
    Setting("cap", |time| GradualDecrease::new(QUOTA).cap(time).map(drop), Duration::from_micros(1), DAY),
    #[cfg(feature = "compared")]
    Setting("cap", |time| ProportionalDecrease::new(QUOTA).cap(time).map(drop), Duration::from_micros(1), DAY),
    Setting("cap", |time| RemainingDecrease::new(QUOTA).cap(time).map(drop), Duration::from_micros(1), DAY),
    Setting("cap", |time| Level::new(QUOTA).cap(time).map(drop), Duration::from_micros(1), DAY),
    #[cfg(feature = "compared")]
    Setting("start", |time| GradualDecrease::new(QUOTA).start(time).map(drop), Duration::ZERO, CAP),
    #[cfg(feature = "compared")]
    Setting("start", |time| ProportionalDecrease::new(QUOTA).start(time).map(drop), Duration::ZERO, CAP),
    Setting("start", |time| RemainingDecrease::new(QUOTA).start(time).map(drop), Duration::ZERO, CAP),
    Setting("start", |time| Level::new(QUOTA).start(time).map(drop), Duration::ZERO, CAP),
    #[cfg(feature = "alloc")]
    Setting(
        "window",
        |time| breaker(|config| config.window(Window::last(time))),
        Duration::from_micros(10),
        HUNDRED_DAYS,
    ),
    #[cfg(feature = "alloc")]
    Setting(
        "window",
        |time| breaker(|config| config.window(Window::interval(time))),
        Duration::from_micros(1),
        HUNDRED_DAYS,
    ),
];

impl<T: Copy + PartialOrd + std::fmt::Debug> Setting<T> {
    /// Checks that the value is accepted if it is in the range, and otherwise named by the error.
    #[track_caller]
    fn check(&self, value: T, shown: &str) {
        let Self(name, set, least, most) = self;
        let checked = set(value);
        assert_eq!(checked.is_ok(), (least..=most).contains(&&value), "{name} {value:?}: {checked:?}");
        if let Err(error) = checked {
            assert_eq!((error.setting(), error.value().to_string().as_str()), (*name, shown));
            let message = format!("{name} is {shown}, it must be {}", error.allowed());
            assert_eq!(error.to_string(), message);
        }
    }
}

/// Returns the text of a duration in an error, by an empty range.
fn shown(time: Duration) -> String {
    OutOfRange::check_duration("time", time, Duration::MAX..=Duration::ZERO).unwrap_err().value().to_string()
}

#[test]
fn bounds_are_accepted_and_their_neighbours_refused() {
    for setting @ Setting(_, _, least, most) in COUNTS {
        for value in [least.saturating_sub(1), *least, *most, most.saturating_add(1), u32::MAX] {
            setting.check(value, &value.to_string());
        }
    }
    for setting @ Setting(_, _, least, most) in RATIOS {
        for value in [least.next_down(), *least, *most, most.next_up(), f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            setting.check(value, &format!("{value:?}"));
        }
    }
    for setting @ Setting(_, _, least, most) in DURATIONS {
        for value in [least.saturating_sub(NANO), *least, *most, most.saturating_add(NANO), Duration::MAX] {
            setting.check(value, &shown(value));
        }
    }
}

/// An error has both bounds, but for one that refuses nothing.
#[test]
fn messages_have_the_bounds() {
    for Setting(name, set, least, most) in COUNTS {
        for value in [least.saturating_sub(1), most.saturating_add(1)] {
            if let Err(error) = set(value) {
                let allowed = error.allowed().to_string();
                let has = |bound: &u32| allowed.split(' ').any(|word| word == bound.to_string());
                assert!(has(least) || *least == 0 || *name == "budget" || *name == "size", "{error}");
                assert!(has(most) || *most == u32::MAX || value < *least, "{error}");
            }
        }
    }
    for Setting(_, set, least, most) in RATIOS {
        let error = set(f64::NAN).unwrap_err();
        // A unit may follow.
        assert!(error.allowed().to_string().starts_with(&format!("{least:?} to {most:?}")), "{error}");
    }
    for Setting(_, set, least, most) in DURATIONS {
        for value in [least.saturating_sub(NANO), most.saturating_add(NANO)] {
            if let Err(error) = set(value) {
                let allowed = error.allowed().to_string();
                assert!(allowed.contains(&shown(*least)) || least.is_zero(), "{error}");
                assert!(allowed.contains(&shown(*most)) || *most == Duration::MAX, "{error}");
            }
        }
    }
}

proptest! {
    #[test]
    fn exactly_the_values_of_the_range_are_accepted(
        count in prop_oneof![0..3u32, 0..2_000u32, any::<u32>()],
        ratio in prop_oneof![-1.0..2.0, 0.0..200.0, any::<f64>()],
        nanos in prop_oneof![0..100u64, any::<u64>()],
        secs in prop_oneof![0..200u64, any::<u64>()],
    ) {
        for setting in COUNTS {
            setting.check(count, &count.to_string());
        }
        for setting in RATIOS {
            setting.check(ratio, &format!("{ratio:?}"));
        }
        for time in [Duration::from_nanos(nanos), Duration::from_secs(secs)] {
            for setting in DURATIONS {
                setting.check(time, &shown(time));
            }
        }
    }
}
