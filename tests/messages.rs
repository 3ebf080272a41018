//! The messages of errors: the value, then the constraint, in lower case without a full stop.

use damper::limit::{BudgetError, LeaseError};
use damper::time::Seed;
use damper::word32::Word32Error;
#[cfg(feature = "alloc")]
use damper::{KeyedLimiterError, SlidingLog};
use damper::{
    LeasingBucket, LimitSet, ManualClock, Quota, QuotaError, SetQuotaError, SlidingCounter, TierError, TokenBucket,
};
use std::error::Error;
use std::time::Duration;

#[track_caller]
fn says(error: &dyn Error, message: &str) {
    assert_eq!(error.to_string(), message);
    assert!(!message.ends_with('.') && !message.starts_with(char::is_uppercase));
    assert!(error.source().is_none());
}

#[test]
fn quota_errors() {
    let error = Quota::every(Duration::MAX).unwrap_err();
    assert_eq!(error, QuotaError::WindowTooLong);
    says(&error, "the window of a quota is too long, it must be at most 2^64 - 1 ns (584 years)");
    for (error, message) in [
        (SetQuotaError::Busy, "another thread is changing the quota"),
        (
            SetQuotaError::TooFast { quota: Quota::per_minute(5_000).burst(1), most: 17 },
            "5000/min exceeds the maximum 17/min that the limiter was built for",
        ),
        (
            SetQuotaError::WindowTooShort { window: Duration::from_nanos(7), least: Duration::from_micros(2) },
            "a window of 7ns is below the minimum 2µs that the limiter was built for",
        ),
        (
            SetQuotaError::TooLarge { tokens: 9_000, most: 8_191 },
            "burst and max_debt are 9000 tokens, which exceeds the maximum 8191 that the limiter was built for",
        ),
        (
            SetQuotaError::LimitTooLarge { limit: 70_000, most: 65_535 },
            "limit 70000 exceeds the maximum 65535 that the limiter can count",
        ),
        (
            SetQuotaError::FixedLimit,
            "the limit of this limiter is fixed by what it was built with, only its window can be changed",
        ),
        (
            SetQuotaError::BurstWithinBudget,
            "the burst must be more than the budget of leases or stripes that the limiter was built with",
        ),
    ] {
        says(&error, message);
    }
}

#[test]
fn budget_and_lease_errors() {
    let error = LeasingBucket::new(Quota::per_second(10), 0).unwrap_err();
    assert_eq!(error, BudgetError::Empty);
    says(&error, "the budget is 0 tokens, it must be at least 1");
    let error = LeasingBucket::new(Quota::per_second(10), 10).unwrap_err();
    says(&error, "a budget of 10 tokens leaves nothing of a burst of 10, it must be less");
    says(
        &BudgetError::Stripes { budget: 3, stripes: 4 },
        "4 stripes cannot share a budget of 3 tokens, 1 to 64 can, with at least 1 token each",
    );
    says(&LeaseError::Empty, "a lease of 0 tokens holds nothing, it must be at least 1");
    says(&LeaseError::OverBudget { size: 3, left: 2 }, "no lease of 3 tokens: 2 are left of the budget");
}

#[test]
fn window_and_limit_set_errors() {
    #[cfg(feature = "alloc")]
    says(
        &SlidingLog::new(Quota::per_second(1 << 25)).unwrap_err(),
        "the limit is too large for a sliding log, it must be at most 16777216 (2^24)",
    );
    says(
        &SlidingCounter::new(Quota::per_second(1 << 24)).unwrap_err(),
        "the limit is too large for a sliding counter, it must be at most 16777215 (2^24 - 1)",
    );
    let both = LimitSet::with_algorithms(
        [Quota::per_second(5), Quota::per_minute(3)].map(TokenBucket::new),
        ManualClock::new(),
    );
    both.check_n(3).unwrap();
    says(&both.check().unwrap_err(), "limit 2 (3/min burst 3): rate limit exceeded, retry in 20 s");
    says(
        &both.check_n(4).unwrap_err(),
        "limit 2 (3/min burst 3): rate limit exceeded: more tokens asked for than the burst",
    );
}

#[test]
fn keyed_limiter_errors() {
    #[cfg(feature = "alloc")]
    for (error, message) in [
        (KeyedLimiterError::Tiers(16), "there are 16 tiers, there must be 1 to 15"),
        (KeyedLimiterError::Limit(9), "the limit is 9, which is more than the algorithm can count for a key"),
    ] {
        says(&error, message);
    }
    says(&TierError::Missing { tier: 3, tiers: 2 }, "tier 3 does not exist, there are 2");
    says(&TierError::Missing { tier: 1, tiers: 1 }, "tier 1 does not exist, there is 1");
    says(&TierError::Quota { tier: 2, error: SetQuotaError::Busy }, "tier 2: another thread is changing the quota");
    says(&TierError::TooMany, "there are 15 tiers, which is the maximum");
    says(&TierError::OneQuota, "the limiter has one quota for all keys, it was built without tiers");
}

#[test]
fn word32_errors() {
    for (error, message) in [
        (Word32Error::Burst(1 << 28), "the burst is 268435456, of 32 bits it must be at most 268435455"),
        (
            Word32Error::FailureThreshold(1 << 21),
            "the failure threshold is 2097152, of 32 bits it must be at most 2097151",
        ),
        (Word32Error::Probes(32), "there are 32 probes or successes, of 32 bits there must be at most 31"),
        (
            Word32Error::ClockTooFast { hertz: u64::MAX, longest: Duration::from_hours(1) },
            "the clock has 18446744073709551615 ticks a second, its 64 bits must not wrap within four times 3600s",
        ),
        (Word32Error::Unsupported("slow_rate"), "a breaker of 32 bits has no slow_rate"),
    ] {
        says(&error, message);
    }
}

#[test]
fn quota_display() {
    for (quota, text) in [
        (Quota::per_second(50).burst(100), "50/s burst 100"),
        (Quota::per_minute(30), "30/min burst 30"),
        (Quota::per_hour(1_000).burst(1), "1000/h burst 1"),
        (Quota::per(10, Duration::from_millis(250)).unwrap(), "10/250ms burst 10"),
        (Quota::UNLIMITED, "unlimited"),
    ] {
        assert_eq!(quota.to_string(), text);
    }
}

#[test]
fn debug_output_hides_the_seed() {
    assert_eq!(format!("{:?}", Seed::new(1, 2)), "Seed(..)");
}
