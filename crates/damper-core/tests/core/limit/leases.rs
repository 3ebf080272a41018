//! Leases and stripes, through the public API.
//!
//! Examples, properties against a plain model, and stress counted exactly.

use crate::models::cases::cases;
use damper::limit::Algorithm;
use damper::{Clock, LeasingBucket, ManualClock, Quota, RateLimiter, SetQuotaError};
use proptest::prelude::*;
use std::time::Duration;

type Leasing<'a> = RateLimiter<LeasingBucket, &'a ManualClock>;

fn leasing(quota: Quota, budget: u32, clock: &ManualClock) -> Leasing<'_> {
    RateLimiter::with_algorithm(LeasingBucket::new(quota, budget).unwrap(), clock)
}

#[test]
fn lease_takes_many_tokens_at_once_and_spends_them_locally() {
    let clock = ManualClock::new();
    let limiter = leasing(Quota::per_second(10).burst(10), 4, &clock);
    assert_eq!(limiter.peek().limit(), 6);
    let mut lease = limiter.lease(4).unwrap();
    assert_eq!((lease.held(), lease.size()), (0, 4));
    lease.check().unwrap();
    assert_eq!((lease.held(), limiter.peek().remaining()), (4, 1), "one spent, four held");
    lease.check_n(5).unwrap();
    assert_eq!((lease.held(), limiter.peek().remaining()), (0, 0));
    let denied = lease.check_n(2).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
    clock.advance(Duration::from_millis(300));
    lease.check_n(2).unwrap();
    assert_eq!((lease.held(), limiter.peek().remaining()), (1, 0), "as many as there were");
    lease.give_back();
    assert_eq!((lease.held(), limiter.peek().remaining()), (0, 1));
    lease.check_n(0).unwrap();
    lease.check().unwrap();
    assert!(limiter.check().is_err());
}

/// A lower quota takes the bucket below empty while a lease holds tokens. They still return.
#[test]
fn lease_gives_back_below_empty() {
    let clock = ManualClock::new();
    let limiter = leasing(Quota::per_second(10).burst(10), 4, &clock);
    let mut lease = limiter.lease(4).unwrap();
    lease.check().unwrap();
    assert_eq!((lease.held(), limiter.peek().remaining()), (4, 1), "five of six tokens are taken");
    limiter.set_quota(Quota::per_second(10).burst(6)).unwrap();
    assert_eq!((limiter.peek().limit(), limiter.peek().remaining()), (2, 0), "five are owed, of two");
    drop(lease);
    assert_eq!(limiter.peek().remaining(), 1, "the tokens come back, all but the one that was spent");
}

#[test]
fn full_bucket_and_full_leases_add_up_to_the_burst() {
    let clock = ManualClock::new();
    let limiter = leasing(Quota::per_second(10).burst(10), 4, &clock);
    let mut leases: Vec<_> = (0..2).map(|_| limiter.lease(2).unwrap()).collect();
    for lease in &mut leases {
        lease.check_n(0).unwrap();
        lease.check().unwrap();
        assert_eq!(lease.held(), 2);
    }
    clock.advance(Duration::from_hours(1));
    let mut taken = 0;
    for lease in &mut leases {
        taken += (0..20).filter(|_| lease.check().is_ok()).count();
    }
    taken += (0..20).filter(|_| limiter.check().is_ok()).count();
    assert_eq!(taken, 10);
}

#[test]
fn dropped_lease_gives_back_its_tokens_and_its_budget() {
    let clock = ManualClock::new();
    let limiter = leasing(Quota::per_second(10), 4, &clock);
    let mut lease = limiter.lease(4).unwrap();
    let refused = |left| format!("it must be at most {left} (the part of the budget that is not leased)");
    assert_eq!(limiter.lease(1).unwrap_err().to_string(), format!("size is 1, {}", refused(0)));
    lease.check().unwrap();
    assert_eq!(limiter.peek().used(), 5);
    drop(lease);
    assert_eq!(limiter.peek().used(), 1);
    let lease = limiter.lease(3).unwrap();
    assert_eq!(limiter.lease(2).unwrap_err().to_string(), format!("size is 2, {}", refused(1)));
    core::mem::forget(lease);
    assert!(limiter.lease(1).is_ok(), "a leaked lease keeps only its own part of the budget");
    assert_eq!(limiter.lease(0).unwrap_err().to_string(), "size is 0, it must be at least 1");
}

#[test]
fn budgets_are_validated() {
    let of = |burst, budget| LeasingBucket::new(Quota::per_second(10).burst(burst), budget).map(|_| ());
    let refused = |burst, budget| of(burst, budget).unwrap_err().to_string();
    assert_eq!(refused(10, 0), "budget is 0, it must be at least 1");
    assert_eq!(refused(10, 10), "budget is 10, it must be at most 9 (less than the burst)");
    assert_eq!(refused(10, u32::MAX), "budget is 4294967295, it must be at most 9 (less than the burst)");
    assert_eq!(refused(1, 1), "budget is 1, it must be at most 0 (less than the burst)");
    assert_eq!(refused(0, 1), "budget is 1, it must be at most 0 (less than the burst)");
    assert_eq!(of(10, 9), Ok(()));
    let clock = ManualClock::new();
    let limiter = leasing(Quota::per_second(10), 9, &clock);
    assert!(limiter.check_n(2).unwrap_err().exceeds_burst());
    assert!(limiter.lease(2).unwrap().check_n(u32::MAX).unwrap_err().exceeds_burst());
}

#[test]
fn budget_of_leases_survives_quota_changes() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(10).burst(20).max_debt(7);
    let limiter = leasing(quota, 8, &clock);
    assert_eq!(limiter.quota(), quota);
    assert_eq!(limiter.set_quota(Quota::per_second(100).burst(8)), Err(SetQuotaError::BurstWithinBudget));
    assert_eq!(limiter.quota(), quota);
    let mut lease = limiter.lease(8).unwrap();
    lease.check().unwrap();
    let slow = Quota::per_second(1).burst(9);
    limiter.set_quota(slow).unwrap();
    assert_eq!(limiter.quota(), slow);
    assert_eq!((0..100).filter(|_| lease.check().is_ok()).count(), 8, "the tokens in the lease stay");
    limiter.set_quota(Quota::UNLIMITED).unwrap();
    assert!(lease.check_n(1_000_000).is_ok());
    limiter.set_quota(slow).unwrap();
    assert!(lease.held() <= 8);
}

#[cfg(feature = "alloc")]
#[test]
fn lease_can_own_its_limiter() {
    let clock = std::sync::Arc::new(ManualClock::new());
    let bucket = LeasingBucket::new(Quota::per_second(10), 5).unwrap();
    let limiter = std::sync::Arc::new(RateLimiter::with_algorithm(bucket, clock));
    let mut lease = limiter.lease_owned(5).unwrap();
    let spent = std::thread::spawn(move || (0..10).filter(|_| lease.check().is_ok()).count()).join().unwrap();
    assert_eq!(spent, 5);
    assert!(limiter.lease(5).is_ok(), "the thread's lease was given back");
}

/// The operations of a thread or of the model.
#[derive(Clone, Copy, Debug)]
enum Op {
    Check(u32),
    Lease(u32),
    Spend(usize, u32),
    GiveBack(usize),
    Drop(usize),
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        2 => (0..6u32).prop_map(Op::Check),
        2 => (0..6u32).prop_map(Op::Lease),
        8 => (0..4usize, 0..6u32).prop_map(|(lease, n)| Op::Spend(lease, n)),
        1 => (0..4usize).prop_map(Op::GiveBack),
        2 => (0..4usize).prop_map(Op::Drop),
        4 => (0..40u64).prop_map(Op::Pass)
    ];
    proptest::collection::vec(op, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(100) })]

    /// Matches a bucket of ten ticks a token, in plain numbers, beside the tokens in leases.
    ///
    /// After each operation the admissions since every earlier one are within the envelope.
    #[test]
    fn leases_match_their_model(burst in 2..20u32, budget in 1..20u32, ops in ops()) {
        prop_assume!(budget < burst);
        let clock = ManualClock::with_frequency(100);
        let limiter = leasing(Quota::per_second(10).burst(burst), budget, &clock);
        let full = u64::from(burst - budget) * 10;
        let (mut level, mut unleased, mut now) = (full, budget, 0);
        let mut leases = Vec::new();
        let mut spent: Vec<(u64, u32)> = Vec::new();
        limiter.check_n(0).unwrap();
        for op in ops {
            match op {
                Op::Check(n) => {
                    let fits = u64::from(n) * 10 <= level;
                    prop_assert_eq!(limiter.check_n(n).is_ok(), fits);
                    if fits {
                        level -= u64::from(n) * 10;
                        spent.push((now, n));
                    }
                }
                Op::Lease(size) => {
                    let fits = size > 0 && size <= unleased;
                    let lease = limiter.lease(size);
                    prop_assert_eq!(lease.is_ok(), fits);
                    if let Ok(lease) = lease {
                        unleased -= size;
                        leases.push((lease, 0u32));
                    }
                }
                Op::Spend(lease, n) => if let Some((lease, held)) = leases.get_mut(lease) {
                    let missing = u64::from(n.saturating_sub(*held)) * 10;
                    let fits = missing <= level;
                    prop_assert_eq!(lease.check_n(n).is_ok(), fits);
                    if fits && missing > 0 {
                        let more = ((level - missing) / 10).min(lease.size().into());
                        level -= missing + more * 10;
                        *held = more as u32;
                        spent.push((now, n));
                    } else if fits {
                        *held -= n;
                        spent.push((now, n));
                    }
                    prop_assert_eq!(lease.held(), *held);
                    prop_assert!(*held <= lease.size());
                },
                Op::GiveBack(lease) => if let Some((lease, held)) = leases.get_mut(lease) {
                    lease.give_back();
                    level = (level + u64::from(*held) * 10).min(full);
                    *held = 0;
                },
                Op::Drop(lease) => if lease < leases.len() {
                    let (lease, held) = leases.swap_remove(lease);
                    unleased += lease.size();
                    level = (level + u64::from(held) * 10).min(full);
                },
                Op::Pass(ticks) => {
                    clock.advance_ticks(ticks);
                    now += ticks;
                    level = (level + ticks).min(full);
                }
            }
            prop_assert_eq!(u64::from(limiter.peek().remaining()), level / 10);
            // Every interval that ends now.
            let mut taken = 0;
            for &(since, n) in spent.iter().rev() {
                taken += u64::from(n);
                prop_assert!(taken * 10 <= u64::from(burst) * 10 + now - since, "{taken} since {since}");
            }
        }
    }
}

const FAST: Quota = Quota::per_second(1_000).burst(100);
const SLOW: Quota = Quota::per_second(100).burst(40);

/// Eight threads lease, spend, give back, drop and check while the quota alternates.
///
/// The tokens taken, counted exactly, stay within the larger quota.
#[test]
fn racing_leases_stay_in_the_envelope() {
    let clock = ManualClock::new();
    let limiter = leasing(FAST, 32, &clock);
    let work = |thread: u32| {
        let (mut taken, mut lease) = (0u64, None);
        for step in 0..40_000u32 {
            match step.wrapping_mul(2_654_435_761).wrapping_add(thread) >> 27 {
                0 => lease = limiter.lease(1 + thread).ok(),
                1 => lease = None,
                2 => taken += u64::from(limiter.check().is_ok()),
                3 => clock.advance(Duration::from_micros(50)),
                4 => lease.iter_mut().for_each(damper::Lease::give_back),
                5 => taken += 3 * u64::from(lease.as_mut().is_some_and(|lease| lease.check_n(3).is_ok())),
                _ => taken += u64::from(lease.as_mut().is_some_and(|lease| lease.check().is_ok())),
            }
        }
        taken
    };
    let change = |step| _ = limiter.set_quota(if step % 2 == 0 { SLOW } else { FAST });
    let taken = stress(work, change);
    let millis = clock.now() / 1_000_000;
    assert!(taken <= 100 + millis + 1, "{taken} in {millis} ms");
    assert!(taken >= 40 + millis / 10, "{taken} in {millis} ms");
    assert!(limiter.lease(32).is_ok(), "the budget is whole again");
}

fn stress(work: impl Fn(u32) -> u64 + Sync, change: impl Fn(u32) + Send) -> u64 {
    let work = &work;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8).map(|thread| scope.spawn(move || work(thread))).collect();
        scope.spawn(move || (0..20_000).for_each(change));
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

#[cfg(feature = "std")]
mod stripes {
    use super::*;
    use damper::Striped;

    #[test]
    fn check_searches_all_stripes_before_it_refuses() {
        let clock = ManualClock::new();
        let limiter = Striped::with_stripes(Quota::per_second(10).burst(20), 12, 4, &clock).unwrap();
        assert_eq!((limiter.peek().limit(), limiter.peek().remaining()), (8, 8));
        // Several threads leave tokens on their stripes.
        let taken: usize = (0..6)
            .map(|_| std::thread::scope(|scope| scope.spawn(|| usize::from(limiter.check().is_ok())).join().unwrap()))
            .sum();
        assert_eq!(taken, 6);
        assert_eq!(limiter.peek().remaining(), 2);
        assert!(limiter.check_n(2).is_ok(), "whichever stripe they are on");
        let denied = limiter.check().unwrap_err();
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
        assert!(limiter.check_n(9).unwrap_err().exceeds_burst());
        assert!(limiter.check_n(0).is_ok());
        clock.advance(Duration::from_millis(250));
        assert_eq!(limiter.check_n(3).unwrap_err().retry_after(), Some(Duration::from_millis(50)));
        assert!(limiter.check_n(2).is_ok());
        assert!(limiter.check().is_err());
    }

    #[test]
    fn refusal_gives_the_wait_for_tokens_that_the_stripes_lack() {
        let clock = ManualClock::new();
        let limiter = Striped::with_stripes(Quota::per_second(10).burst(10), 4, 1, &clock).unwrap();
        assert!(limiter.check().is_ok());
        // Four on the stripe, one in the bucket.
        assert_eq!(limiter.check_n(6).unwrap_err().retry_after(), Some(Duration::from_millis(100)));
        clock.advance(Duration::from_millis(100));
        assert!(limiter.check_n(6).is_ok());
        assert!(limiter.check().is_err());
    }

    #[test]
    fn full_stripes_and_a_full_bucket_add_up_to_the_burst() {
        let clock = ManualClock::new();
        let limiter = Striped::with_stripes(Quota::per_second(10).burst(100), 50, 1, &clock).unwrap();
        assert!(limiter.check_n(40).is_ok());
        clock.advance(Duration::from_hours(1));
        // Refilled and spent several times.
        for _ in 0..3 {
            let at_once = (0..1_000).filter(|_| limiter.check().is_ok()).count();
            assert!((50..=100).contains(&at_once), "{at_once}");
            clock.advance(Duration::from_hours(1));
        }
    }

    #[test]
    fn sizes_are_validated() {
        let of = |budget, stripes| {
            Striped::with_stripes(Quota::per_second(100), budget, stripes, ManualClock::new()).map(|_| ())
        };
        let refused = |budget, stripes| of(budget, stripes).unwrap_err().to_string();
        assert_eq!(refused(8, 9), "stripes is 9, it must be 1 to 8 (each with a token of the budget)");
        assert_eq!(refused(8, 0), "stripes is 0, it must be 1 to 8 (each with a token of the budget)");
        assert_eq!(refused(99, 65), "stripes is 65, it must be 1 to 64 (each with a token of the budget)");
        assert_eq!(refused(100, 4), "budget is 100, it must be at most 99 (less than the burst)");
        assert_eq!(refused(0, 1), "budget is 0, it must be at least 1");
        assert_eq!(of(64, 64), Ok(()));
        let limiter = Striped::new(Quota::per_second(1_000), 200).unwrap();
        // Stripes share equally, and the bucket gets the rest.
        assert_eq!(limiter.quota(), Quota::per_second(1_000));
        assert_eq!(limiter.set_quota(Quota::per_second(1)), Err(SetQuotaError::BurstWithinBudget));
        assert_eq!(limiter.set_quota(Quota::per_second(2_000)), Ok(()));
        assert_eq!(limiter.quota(), Quota::per_second(2_000));
    }

    #[test]
    fn racing_stripes_stay_in_the_envelope() {
        for stripes in [1, 2, 5] {
            let clock = ManualClock::new();
            let limiter = Striped::with_stripes(FAST, 32, stripes, &clock).unwrap();
            let work = |thread: u32| {
                let mut taken = 0;
                for step in 0..20_000u32 {
                    match step.wrapping_mul(2_654_435_761).wrapping_add(thread) >> 29 {
                        0 => clock.advance(Duration::from_micros(50)),
                        1 => taken += 3 * u64::from(limiter.check_n(3).is_ok()),
                        2 => taken += 7 * u64::from(limiter.check_n(7).is_ok()),
                        _ => taken += u64::from(limiter.check().is_ok()),
                    }
                }
                taken
            };
            let taken = stress(work, |step| _ = limiter.set_quota(if step % 2 == 0 { SLOW } else { FAST }));
            let millis = clock.now() / 1_000_000;
            assert!(taken <= 100 + millis + 1, "{taken} in {millis} ms");
            assert!(taken >= 8 + millis / 10, "{taken} in {millis} ms");
            // No token was lost, so all that remain can be taken.
            limiter.set_quota(FAST).unwrap();
            clock.advance(Duration::from_secs(1));
            let at_once = (0..1_000).filter(|_| limiter.check().is_ok()).count();
            assert!((68..=100).contains(&at_once), "{at_once}");
        }
    }

    /// Under saturation the stripes deliver exactly the rate.
    #[test]
    fn stripes_deliver_the_whole_rate() {
        let clock = ManualClock::new();
        let limiter = Striped::with_stripes(Quota::per_second(1_000).burst(100), 40, 3, &clock).unwrap();
        assert_eq!(limiter.peek().remaining(), 61, "3 stripes of 13 tokens each are reserved");
        let mut taken = 0;
        for _ in 0..10_000 {
            clock.advance(Duration::from_millis(1));
            taken += std::iter::from_fn(|| limiter.check().ok()).count();
        }
        // The bucket was full at the first step, so that step's tokens were lost.
        assert_eq!(taken, 9_999 + 61);
    }
}

/// Like the bucket of leases, it implements `Algorithm`.
#[test]
fn leasing_bucket_serves_as_an_algorithm() {
    fn check<A: Algorithm>(algorithm: A) -> bool {
        RateLimiter::with_algorithm(algorithm, ManualClock::new()).check().is_ok()
    }
    assert!(check(LeasingBucket::new(Quota::per_second(10), 5).unwrap()));
}
