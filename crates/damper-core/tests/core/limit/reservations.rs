//! Reservations of an estimate that are settled, dropped or withdrawn, of one limiter.

use crate::models::cases::cases;
use damper::{LeasingBucket, ManualClock, Quota, RateLimiter, Reservation, TokenBucket};
use proptest::prelude::*;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

fn ten_a_second(clock: &ManualClock) -> RateLimiter<TokenBucket, &ManualClock> {
    RateLimiter::with_clock(Quota::per_second(10).burst(10), clock)
}

#[test]
fn unused_tokens_go_to_the_waiters_and_then_to_checks() {
    let clock = ManualClock::new();
    let limiter = ten_a_second(&clock);
    let call = limiter.reserve(10).unwrap();
    let waiter = limiter.reserve(4).unwrap();
    assert_eq!(waiter.ready_in(), Some(Duration::from_millis(400)));
    call.settle(3);
    assert_eq!(waiter.ready_in(), Some(Duration::ZERO));
    assert_eq!(limiter.peek().remaining(), 3);
}

#[test]
fn excess_is_booked_up_to_the_deepest_debt() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(10).max_debt(5), &clock);
    limiter.reserve(8).unwrap().settle(9);
    assert_eq!((limiter.peek().remaining(), limiter.debt()), (1, 0));
    limiter.reserve(1).unwrap().settle(4);
    assert_eq!((limiter.peek().remaining(), limiter.debt()), (0, 3));
    assert!(limiter.check().is_err(), "debt comes first");
    limiter.reserve(1).unwrap().settle(1_000);
    assert_eq!(limiter.debt(), 5, "no deeper");
}

#[test]
fn dropped_reservation_counts_as_used() {
    let clock = ManualClock::new();
    let limiter = ten_a_second(&clock);
    drop(limiter.reserve(8).unwrap());
    assert_eq!(limiter.peek().used(), 8);
    limiter.reserve(2).unwrap().settle(2);
    assert_eq!(limiter.peek().used(), 10);
}

/// Tokens that are not there yet cannot go to others now.
///
/// Given to the waiter in front, they would be tokens that were never produced.
#[test]
fn settling_before_the_tokens_are_there_keeps_others_in_place() {
    let clock = ManualClock::new();
    let limiter = ten_a_second(&clock);
    limiter.check_n(10).unwrap();
    let [first, second, third] = [4, 4, 4].map(|n| limiter.reserve(n).unwrap());
    let waits = |waiter: &Reservation<_>| waiter.ready_in().unwrap().as_millis();
    second.settle(0);
    assert_eq!([waits(&first), waits(&third)], [400, 1_200], "others stay in place");
    third.settle(1);
    assert_eq!(limiter.debt(), 9, "the last one gives back what it does not need");
    let last = limiter.reserve(1).unwrap();
    assert_eq!(waits(&last), 1_000);
    last.settle(0);
    assert_eq!(limiter.debt(), 9);
    assert_eq!(waits(&first), 400);
}

#[test]
fn reservation_can_be_awaited_and_then_settled() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(1_000).burst(10)));
    limiter.check_n(10).unwrap();
    let call = limiter.reserve_owned(10).unwrap();
    assert!(limiter.reserve_owned_within(10, Duration::from_millis(5)).is_err());
    let worker = thread::spawn(move || {
        call.wait();
        assert_eq!(call.ready_in(), Some(Duration::ZERO));
        call.settle(2);
    });
    worker.join().unwrap();
    assert!(limiter.peek().remaining() >= 8);
}

/// Settling wakes a thread that waits for the tokens.
#[test]
fn unused_tokens_wake_a_waiting_thread() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1).burst(10)));
    let call = limiter.reserve(10).unwrap();
    let waiter = limiter.reserve_owned(5).unwrap();
    let waiting = thread::spawn(move || waiter.wait());
    call.settle(5);
    waiting.join().unwrap();
}

/// A call that waits needs room for its debt, and tokens that come soon enough.
#[test]
fn refused_reservation_succeeds_after_its_wait() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(1), &clock);
    let _waiting: Vec<_> = (0..11).map(|_| limiter.reserve(1).unwrap()).collect();
    let reserve = || limiter.reserve_within(1, Duration::from_secs(1));
    assert_eq!(reserve().unwrap_err().retry_after(), Some(Duration::from_secs(10)));
    clock.advance(Duration::from_millis(9_999));
    assert_eq!(reserve().unwrap_err().retry_after(), Some(Duration::from_millis(1)));
    clock.advance(Duration::from_millis(1));
    assert!(reserve().is_ok());
}

/// A reservation without a limit took nothing, so it has nothing to give back under a later quota.
#[test]
fn reservation_without_a_limit_gives_nothing_back() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::UNLIMITED, &clock);
    let calls = [(); 3].map(|()| limiter.reserve(5).unwrap());
    limiter.set_quota(Quota::per_hour(1).burst(5)).unwrap();
    limiter.check_n(4).unwrap();
    let [unused, used_more, cancelled] = calls;
    unused.settle(0);
    assert!(!cancelled.cancel());
    assert_eq!(limiter.peek().remaining(), 1);
    used_more.settle(6);
    assert_eq!(limiter.peek().remaining(), 0, "the excess is charged");

    let limiter = leasing(&clock);
    let mut lease = limiter.lease(4).unwrap();
    limiter.set_quota(Quota::UNLIMITED).unwrap();
    let call = lease.reserve(5).unwrap();
    limiter.set_quota(Quota::per_hour(1).burst(20)).unwrap();
    limiter.drain();
    call.settle(0);
    assert_eq!((limiter.peek().remaining(), lease.held()), (0, 4));
}

fn leasing(clock: &ManualClock) -> RateLimiter<LeasingBucket, &ManualClock> {
    let quota = Quota::per_second(10).burst(20).max_debt(30);
    RateLimiter::with_algorithm(LeasingBucket::new(quota, 10).unwrap(), clock)
}

#[test]
fn lease_settles_its_own_tokens_first() {
    let clock = ManualClock::new();
    let limiter = leasing(&clock);
    let mut lease = limiter.lease(6).unwrap();
    lease.reserve(4).unwrap().settle(1);
    assert_eq!((lease.held(), limiter.peek().remaining()), (6, 3), "it was full, so the bucket gets the rest");
    limiter.check_n(3).unwrap();
    lease.reserve(6).unwrap().settle(0);
    assert_eq!((lease.held(), limiter.peek().remaining()), (6, 0), "what the lease has room for");
    let mut other = limiter.lease(4).unwrap();
    assert!(other.reserve(1).is_err(), "all are held");
    lease.reserve(2).unwrap().settle(5);
    let wait = || limiter.check().unwrap_err().retry_after();
    assert_eq!((lease.held(), wait()), (1, Some(Duration::from_millis(100))), "the excess is spent from the lease");
    lease.reserve(1).unwrap().settle(9);
    assert_eq!((lease.held(), wait()), (0, Some(Duration::from_millis(900))), "and then charged to the bucket");
    clock.advance(Duration::from_secs(1));
    drop(lease.reserve(2).unwrap());
    assert_eq!((lease.held(), limiter.peek().remaining()), (0, 0), "what is dropped stays spent");
    lease.reserve(1).unwrap_err();
    clock.advance(Duration::from_secs(1));
    let call = lease.reserve(9).unwrap();
    call.settle(1);
    assert_eq!((lease.held(), limiter.peek().remaining()), (6, 3), "what it has no room for is refunded");
}

const QUOTA: Quota = Quota::per_second(10).burst(10).max_debt(30);

/// The next act of one of several callers.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Nothing, for a hundredth of a second.
    Pass,
    Check(u32),
    Reserve(u32),
    /// A call ends, and used so many tokens.
    Settle(usize, u32),
    /// A call is not made, and says so before its tokens are there.
    GiveUp(usize),
    Cancel(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (1..6u32).prop_map(Act::Check),
        4 => (1..10u32).prop_map(Act::Reserve),
        3 => (any::<usize>(), 0..10u32).prop_map(|(which, used)| Act::Settle(which, used)),
        1 => any::<usize>().prop_map(Act::GiveUp),
        1 => any::<usize>().prop_map(Act::Cancel),
    ]
}

/// Asserts that in no stretch of time calls take more than their envelope.
///
/// That is the burst, the refilled tokens, and those that others gave back in that time. Of each call the time is that at
/// which it begins. Tokens that are given back are negative.
fn assert_within(events: &[(u64, i64)]) {
    for (first, &(begin, _)) in events.iter().enumerate() {
        if first > 0 && events[first - 1].0 == begin {
            continue;
        }
        let mut taken = 0;
        for &(at, n) in &events[first..] {
            taken += n;
            assert!((taken - 10) * 10 <= (at - begin + 1) as i64, "{begin} to {at}: {events:?}");
        }
    }
}

/// The callers of one limiter, and what they took of it.
struct Callers<'a> {
    limiter: &'a RateLimiter<TokenBucket, &'a ManualClock>,
    now: u64,
    waiting: Vec<(u32, Reservation<&'a RateLimiter<TokenBucket, &'a ManualClock>>)>,
    calling: Vec<Reservation<&'a RateLimiter<TokenBucket, &'a ManualClock>>>,
    events: Vec<(u64, i64)>,
}

impl Callers<'_> {
    fn used(&self) -> i64 {
        i64::from(self.limiter.peek().used()) + i64::from(self.limiter.debt())
    }

    /// Begins the calls whose tokens are there.
    fn begin_calls(&mut self) {
        for (n, slot) in std::mem::take(&mut self.waiting) {
            if slot.ready_in() == Some(Duration::ZERO) {
                self.events.push((self.now, i64::from(n)));
                self.calling.push(slot);
            } else {
                self.waiting.push((n, slot));
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Pass => self.now += 1,
            Act::Check(n) if self.limiter.check_n(n).is_ok() => self.events.push((self.now, i64::from(n))),
            Act::Reserve(n) => {
                if let Ok(slot) = self.limiter.reserve(n) {
                    self.waiting.push((n, slot));
                }
            }
            Act::Settle(which, used) if !self.calling.is_empty() => {
                let before = self.used();
                self.calling.swap_remove(which % self.calling.len()).settle(used);
                // An excess is booked after the fact, and makes the others wait.
                self.events.push((self.now, (self.used() - before).min(0)));
            }
            Act::GiveUp(which) if !self.waiting.is_empty() => {
                self.waiting.swap_remove(which % self.waiting.len()).1.settle(0);
            }
            Act::Cancel(which) if !self.waiting.is_empty() => {
                self.waiting.swap_remove(which % self.waiting.len()).1.cancel();
            }
            _ => {}
        }
        self.begin_calls();
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn calls_stay_in_the_envelope(acts in proptest::collection::vec((act(), 0..40u32), 1..60)) {
        let clock = ManualClock::with_frequency(100);
        let limiter = RateLimiter::with_clock(QUOTA, &clock);
        let (waiting, calling, events) = (Vec::new(), Vec::new(), Vec::new());
        let mut callers = Callers { limiter: &limiter, now: 0, waiting, calling, events };
        for (act, ticks) in acts {
            callers.act(act);
            for _ in 0..ticks {
                clock.advance_ticks(1);
                callers.act(Act::Pass);
            }
        }
        assert_within(&callers.events);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// Two leases settle their reservations.
    ///
    /// Together they stay in the envelope, and neither holds more than its size.
    #[test]
    fn settled_leases_stay_in_the_envelope(
        acts in proptest::collection::vec((any::<bool>(), 1..9u32, 0..12u32, 0..60u64), 1..60),
    ) {
        let clock = ManualClock::with_frequency(100);
        let quota = Quota::per_second(10).burst(10).max_debt(30);
        let limiter = RateLimiter::with_algorithm(LeasingBucket::new(quota, 6).unwrap(), &clock);
        let mut leases = [limiter.lease(2).unwrap(), limiter.lease(4).unwrap()];
        let (mut now, mut events) = (0, Vec::new());
        for (which, n, used, ticks) in acts {
            let lease = &mut leases[usize::from(which)];
            if let Ok(call) = lease.reserve(n) {
                events.push((now, i64::from(n)));
                call.settle(used);
                events.push((now, -i64::from(n.saturating_sub(used))));
            }
            prop_assert!(lease.held() <= lease.size());
            now += ticks;
            clock.advance_ticks(ticks);
        }
        assert_within(&events);
    }
}
