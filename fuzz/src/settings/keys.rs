//! Limits and breakers per key, with any settings.

use super::limits::AlignmentInput;
use super::{AnyDuration, AnyQuota, MOST_CALLS, Pass, names};
use arbitrary::Arbitrary;
use damper::breaker::Window;
use damper::limit::KeyedAlgorithm;
use damper::time::Seed;
use damper::{
    BreakerConfig, FixedWindow, KeyedCircuitBreaker, KeyedLimiter, ManualClock, Quota, SlidingCounter, TierError,
    TokenBucket, WhenFull,
};
use std::time::Duration;

/// The largest table, in keys. Larger ones would use too much memory.
const LARGEST_TABLE: usize = 2_048;

/// More tiers than allowed, by a few.
const MOST_TIERS: usize = 20;

#[derive(Arbitrary, Debug)]
pub(super) struct KeysInput {
    capacity: Capacity,
    algorithm: Which,
    when_full: WhenFullInput,
    alignment: AlignmentInput,
    quota: AnyQuota,
    tiers: Vec<AnyQuota>,
    calls: Vec<(Pass, u8, Call)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Capacity {
    Few(u8),
    Any(usize),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Which {
    Bucket,
    Fixed,
    Counter,
    /// Breakers with this cooldown.
    Breakers(AnyDuration),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum WhenFullInput {
    Shared,
    Deny,
    Evict,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Call {
    Check(u32),
    Charge(u32),
    Refund(u32),
    Reset,
    SetTier(usize),
    ClearTier,
    Retier,
    Drain,
    AddTier(AnyQuota),
    SetQuota(usize, AnyQuota),
    Clear,
}

impl KeysInput {
    pub(super) fn run(&self, clock: &ManualClock) {
        match self.algorithm {
            Which::Bucket => self.limits::<TokenBucket>(u32::MAX, clock),
            Which::Fixed => self.limits::<FixedWindow>(u32::MAX - 1, clock),
            Which::Counter => self.limits::<SlidingCounter>((1 << 20) - 2, clock),
            Which::Breakers(cooldown) => self.breakers(cooldown.duration(), clock),
        }
    }

    fn capacity(&self) -> usize {
        match self.capacity {
            Capacity::Few(keys) => keys.into(),
            Capacity::Any(keys) if keys > 1 << 28 => keys,
            Capacity::Any(keys) => keys % LARGEST_TABLE,
        }
    }

    fn limits<A: KeyedAlgorithm>(&self, largest_limit: u32, clock: &ManualClock) {
        let Some(quota) = self.quota.quota() else { return };
        let tiers: Vec<_> = self.tiers.iter().take(MOST_TIERS).filter_map(|tier| tier.quota()).collect();
        let mut count = tiers.len() + 1;
        let all: Vec<_> = [quota].into_iter().chain(tiers.iter().copied()).collect();
        let is_too_large = |quota: &Quota| quota.limit() > largest_limit && !quota.is_unlimited();
        let when_full = match self.when_full {
            WhenFullInput::Shared => WhenFull::SharedOverflow,
            WhenFullInput::Deny => WhenFull::DenyNew,
            WhenFullInput::Evict => WhenFull::EvictLeastIndebted,
        };
        let builder = KeyedLimiter::<u8>::builder(quota)
            .tiers(tiers, move |key| usize::from(*key))
            .capacity(self.capacity())
            .when_full(when_full)
            .aligned_to(self.alignment.into())
            .clock(clock)
            .hasher(Seed::new(9, 10))
            .algorithm::<A>();
        let limits = match builder.build() {
            Ok(limits) => limits,
            Err(error) => {
                let value = error.value().to_string();
                match error.setting() {
                    "capacity" => {
                        assert!(value == self.capacity().to_string() && !(1..=1 << 28).contains(&self.capacity()));
                        names(&error, &[&(1 << 28).to_string()]);
                    }
                    "tiers" => assert!(value == count.to_string() && count > 15),
                    "limit" => {
                        let is_refused = |quota: &Quota| quota.limit().to_string() == value && is_too_large(quota);
                        assert!(all.iter().any(is_refused));
                        names(&error, &[&largest_limit.to_string()]);
                    }
                    _ => panic!("{error}"),
                }
                return;
            }
        };
        assert!((1..=1 << 28).contains(&self.capacity()) && count <= 16 && !all.iter().any(is_too_large));
        for &(pass, key, call) in self.calls.iter().take(MOST_CALLS) {
            pass.on(clock);
            match call {
                Call::Check(n) => {
                    if let Err(denied) = limits.check_n(&key, n) {
                        assert!(!denied.exceeds_burst() || denied.retry_after().is_none());
                        assert_ne!(denied.retry_after(), Some(Duration::ZERO), "{denied:?}");
                    }
                }
                Call::Charge(n) => assert!(limits.charge(&key, n) <= n),
                Call::Refund(n) => assert!(limits.refund(&key, n) <= n),
                Call::Reset => limits.reset(&key),
                Call::SetTier(tier) => match limits.set_tier(&key, tier) {
                    Ok(()) => assert!(tier < count),
                    Err(error) => {
                        assert!(tier >= count && error == TierError::Missing { tier, tiers: count });
                        names(&error, &["tier", &tier.to_string()]);
                    }
                },
                Call::ClearTier => limits.clear_tier(&key),
                Call::Retier => limits.retier(&key),
                Call::Drain => {
                    let left = limits.peek(&key).remaining();
                    assert_eq!(limits.drain(&key), left);
                }
                Call::AddTier(other) => {
                    let Some(other) = other.quota() else { continue };
                    match limits.add_tier(other) {
                        Ok(tier) => {
                            assert!(tier == count && limits.tier_quota(tier) == Some(other));
                            count += 1;
                        }
                        Err(TierError::TooMany) => assert_eq!(count, 15),
                        Err(TierError::Quota { tier, error }) => {
                            assert!(tier == count && is_too_large(&other), "{error}");
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                Call::SetQuota(tier, other) => {
                    let (Some(other), before) = (other.quota(), limits.tier_quota(tier)) else { continue };
                    assert_eq!(before.is_some(), tier < count);
                    let is_set = limits.set_tier_quota(tier, other).is_ok();
                    assert_eq!(limits.tier_quota(tier), if is_set { Some(other) } else { before });
                }
                Call::Clear => limits.clear(),
            }
            let usage = limits.peek(&key);
            assert_eq!(usage.used() + usage.remaining(), usage.limit());
            assert!(limits.len() <= (2 * self.capacity()).next_multiple_of(4));
        }
    }

    fn breakers(&self, cooldown: Duration, clock: &ManualClock) {
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(cooldown).window(Window::last_calls(9));
        let Ok(config) = config.build() else { return };
        let capacity = self.capacity() % LARGEST_TABLE;
        let breakers =
            KeyedCircuitBreaker::<u8, _, _>::with_clock_and_hasher(config, capacity, clock, Seed::new(11, 12));
        let breakers = match breakers {
            Ok(breakers) => breakers,
            Err(error) => {
                assert_eq!((capacity, error.setting()), (0, "capacity"));
                return;
            }
        };
        for &(pass, key, call) in self.calls.iter().take(MOST_CALLS) {
            pass.on(clock);
            match call {
                Call::Check(_) => _ = breakers.call(&key, || Ok::<_, ()>(())),
                Call::Charge(_) => _ = breakers.call(&key, || Err::<(), _>(())),
                Call::Reset => breakers.get_or_create(&key).reset(),
                Call::Clear => breakers.store().clear(),
                _ => _ = breakers.store().remove(&key),
            }
            assert!(breakers.store().len() <= capacity.max(1));
        }
    }
}
