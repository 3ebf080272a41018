//! Keys whose quota comes with the call.

use damper::{Clock, KeyedLimiter, ManualClock, OutOfRange, Plan, Quota, WhenFull};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).unwrap()
}

fn limiter(
    capacity: usize,
) -> (KeyedLimiter<u64, Arc<ManualClock>, damper::time::Seed, damper::limit::ByPlan>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let limiter = KeyedLimiter::<u64>::by_plan().capacity(capacity).clock(Arc::clone(&clock)).build().unwrap();
    (limiter, clock)
}

#[test]
fn each_key_has_the_quota_of_its_calls() {
    let (users, clock) = limiter(100);
    let plans = [Quota::per_second(10), Quota::per_minute(60).burst(5), Quota::per_hour(2)].map(plan);
    for (key, plan) in (0..).zip(&plans) {
        let burst = plan.quota().burst_size();
        for left in (0..burst).rev() {
            assert_eq!(users.check_with(&key, plan, 1).unwrap().remaining(), left);
        }
        let denied = users.check_with(&key, plan, 1).unwrap_err();
        let token = plan.quota().window() / plan.quota().limit();
        assert_eq!(denied.retry_after(), Some(token), "{plan:?}");
    }
    assert_eq!(users.len(), 3);
    clock.advance(SECOND);
    assert_eq!(users.check_with(&0, &plans[0], 10).unwrap().remaining(), 0);
    assert_eq!(users.check_with(&1, &plans[1], 1).unwrap().remaining(), 0);
    assert!(users.check_with(&2, &plans[2], 1).is_err());
}

#[test]
fn ranges_are_named() {
    let message = |quota| Plan::new(quota).unwrap_err().to_string();
    assert_eq!(message(Quota::per_second(0)), "limit is 0, it must be 1 to 7812500 (a token takes 128 ns or more)");
    assert_eq!(
        message(Quota::every(Duration::from_secs(30 * 86_400)).unwrap().burst(2)),
        "burst is 2, it must be at most 1 (a refill takes 52 days or less)"
    );
    assert_eq!(
        message(Quota::every(Duration::from_secs(86_400)).unwrap().burst(2).max_debt(51)),
        "max_debt is 51, it must be at most 50 (a refill takes 52 days or less)"
    );
    let short = Quota::per(1, Duration::from_nanos(127)).unwrap();
    assert_eq!(message(short), "window is 127 ns, it must be 128 ns to 288230376.151711744 s (of a plan)");
    let _: OutOfRange = KeyedLimiter::<str>::by_plan().capacity(0).build().unwrap_err();
}

#[test]
fn unlimited_plans_write_nothing() {
    let (users, _clock) = limiter(10);
    for _ in 0..100 {
        assert_eq!(users.check_with(&1, &Plan::UNLIMITED, u32::MAX).unwrap().remaining(), u32::MAX);
    }
    assert!(users.is_empty());
    assert_eq!(users.refund_with(&1, &Plan::UNLIMITED, 3), 0);
    assert_eq!(users.charge_with(&1, &Plan::UNLIMITED, 3), 3);
}

#[test]
fn charges_go_into_debt_and_refunds_repay_it() {
    let (users, clock) = limiter(10);
    let plan = plan(Quota::per_second(10).burst(10).max_debt(20));
    users.check_with(&1, &plan, 10).unwrap();
    assert_eq!(users.charge_with(&1, &plan, 50), 20);
    assert_eq!(users.peek_with(&1, &plan).debt(), 20);
    assert_eq!(users.check_with(&1, &plan, 1).unwrap_err().retry_after(), Some(Duration::from_millis(2_100)));
    assert_eq!(users.refund_with(&1, &plan, 25), 25);
    assert_eq!(users.peek_with(&1, &plan).remaining(), 5);
    clock.advance(SECOND);
    assert_eq!(users.peek_with(&1, &plan).remaining(), 10);
    users.check_with(&1, &plan, 10).unwrap();
    users.reset(&1);
    assert_eq!(users.peek_with(&1, &plan).used(), 0);
}

#[test]
fn replan_keeps_the_tokens_and_happens_once() {
    let (users, _clock) = limiter(10);
    let daily = plan(Quota::every(Duration::from_secs(86_400)).unwrap().burst(10));
    let fast = plan(Quota::per_second(10).burst(100));
    users.check_with(&1, &daily, 4).unwrap();
    // Without it the key would be shut out until its four days are over.
    assert!(users.check_with(&1, &fast, 1).is_err());
    assert!(users.replan(&1, &daily, &fast));
    assert_eq!(users.peek_with(&1, &fast).used(), 4);
    users.check_with(&1, &fast, 50).unwrap();
    assert!(!users.replan(&1, &daily, &fast), "only once");
    assert_eq!(users.peek_with(&1, &fast).used(), 54);
    assert!(!users.replan(&2, &daily, &fast), "it owes nothing");
    // A debt of two plans is that of neither.
    users.check_with(&3, &daily, 1).unwrap();
    users.check_with(&3, &plan(Quota::per_hour(1).burst(1_000)), 1).unwrap();
    assert!(!users.replan(&3, &daily, &fast));
    // Plans with the same tag are one plan.
    let same = NonZeroU8::new(7).unwrap();
    users.check_with(&4, &daily.tagged(same), 1).unwrap();
    assert!(!users.replan(&4, &daily.tagged(same), &fast.tagged(same)));
}

/// A flood of keys with a plan of one a day fills all slots and shared words.
///
/// The others have ten a second. A class of plans has words of its own, so a debt of a day shuts out no other key.
#[test]
fn a_full_table_keeps_classes_of_plans_apart() {
    let (users, clock) = limiter(1_000);
    let daily = plan(Quota::every(Duration::from_secs(86_400)).unwrap());
    let fast = plan(Quota::per_second(10));
    for key in 0..10_000 {
        _ = users.check_with(&key, &daily, 1);
    }
    let mut served = 0;
    for round in 0..100 {
        for key in 0..100 {
            served += u32::from(users.check_with(&(10_000 + key), &fast, 1).is_ok());
        }
        _ = users.check_with(&(20_000 + round), &daily, 1);
        clock.advance(Duration::from_millis(500));
    }
    // Each asks for a fifth of its plan.
    assert!(served > 9_500, "{served} of 10,000 served");
    assert!(users.overflows() > 5_000, "the table was full");
}

#[test]
fn new_keys_are_refused_where_the_table_says_so() {
    let clock = ManualClock::new();
    let builder = KeyedLimiter::<u64>::by_plan().capacity(4).when_full(WhenFull::DenyNew).clock(&clock);
    let users = builder.build().unwrap();
    let plan = plan(Quota::per_minute(1));
    let admitted = (0..100).filter(|key| users.check_with(key, &plan, 1).is_ok()).count();
    assert_eq!(admitted, users.len());
    let denied = users.check_with(&1_000, &plan, 1).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(60)));
}

/// A clock that a test sets, also back.
#[derive(Default)]
struct Settable(AtomicU64);

impl Clock for Settable {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

#[test]
fn a_step_back_of_the_clock_shuts_no_key_out() {
    let clock = Settable(AtomicU64::new(1 << 50));
    let users = KeyedLimiter::<u64>::by_plan().clock(&clock).build().unwrap();
    let plan = plan(Quota::per_second(10).max_debt(0));
    users.check_with(&1, &plan, 10).unwrap();
    assert!(users.check_with(&1, &plan, 1).is_err());
    clock.0.store(1 << 49, Ordering::Relaxed);
    assert!(users.check_with(&1, &plan, 1).is_ok(), "seven days ahead is no debt of a plan of a second");
    // A debt that is legal under a deeper plan is kept.
    let daily = Plan::new(Quota::every(Duration::from_secs(86_400)).unwrap().max_debt(0)).unwrap();
    users.check_with(&2, &daily, 1).unwrap();
    assert!(users.check_with(&2, &plan, 1).is_err());
    clock.0.fetch_add(86_400_000_000_000, Ordering::Relaxed);
    assert!(users.check_with(&2, &plan, 1).is_ok());
}

/// Clocks of other frequencies, and plans that are constants.
#[test]
fn plans_fit_every_clock() {
    const PLAN: Plan = match Plan::new(Quota::per_second(4)) {
        Ok(plan) => plan,
        Err(_) => panic!("in range"),
    };
    for frequency in [1_000, 32_768, 1_000_000, 3_187_200_000] {
        let clock = ManualClock::with_frequency(frequency);
        let users = KeyedLimiter::<u64>::by_plan().clock(&clock).build().unwrap();
        let mut served = 0;
        for _ in 0..4_000 {
            served += u32::from(users.check_with(&1, &PLAN, 1).is_ok());
            clock.advance(Duration::from_millis(25));
        }
        assert!((403..=405).contains(&served), "{served} in 100 s at {frequency} Hz");
    }
}

/// Many threads on one key: never more than the burst and what the line brings.
#[test]
fn threads_stay_in_the_envelope() {
    let users = KeyedLimiter::<u64>::by_plan().build().unwrap();
    let plan = plan(Quota::per_second(1_000).burst(100));
    let began = std::time::Instant::now();
    let admitted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..50_000).filter(|_| users.check_with(&1, &plan, 1).is_ok()).count() as u64))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let most = 100 + began.elapsed().as_micros() as u64 / 1_000 + 1;
    assert!(admitted >= 100 && admitted <= most, "{admitted} of {most}");
}
