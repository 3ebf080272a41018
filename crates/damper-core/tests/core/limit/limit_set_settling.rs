//! The bounds on what the reservations of a set give back.

use crate::models::estimates::{BURST, Settled, excess, used};
use damper::{Clock, LimitSet, LimitSetRefusal, ManualClock, Quota, SetReservation, TokenBucket};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Set = LimitSet<[TokenBucket; 1], Arc<ManualClock>>;

const MINUTE: Duration = Duration::from_secs(60);

impl Settled for Arc<Set> {
    type Call = SetReservation<Self>;

    fn new(unsettled: f64, time_to_live: u64, clock: Arc<ManualClock>) -> Self {
        let set = LimitSet::with_clock([Quota::per_minute(BURST)], clock).unsettled(unsettled).unwrap();
        Self::new(set.time_to_live(Duration::from_secs(time_to_live)).unwrap())
    }

    fn reserve(&self, n: u32) -> Option<Self::Call> {
        self.reserve_owned([n]).ok()
    }

    fn settle(call: Self::Call, used: u32) {
        call.settle([used]);
    }

    fn drain(&self) -> u32 {
        let left = self.peek()[0].remaining();
        if self.check_n(left).is_ok() { left } else { 0 }
    }
}

/// Ten reservations of a whole burst, one a minute, are settled unused at one instant.
///
/// Without a bound they allowed 11,000 tokens of a quota of 1,000 a minute.
// CLAIM: LimitSet
#[test]
fn reservations_settled_together_give_back_two_bursts() {
    let clock = ManualClock::new();
    let set = LimitSet::with_clock([Quota::per_minute(1_000)], &clock).time_to_live(10 * MINUTE).unwrap();
    let mut calls = Vec::new();
    for _ in 0..10 {
        calls.push(set.reserve([1_000]).unwrap());
        clock.advance(MINUTE);
    }
    let mut at_once = 0;
    for call in calls.into_iter().map(Some).chain([None]) {
        while set.check().is_ok() {
            at_once += 1;
        }
        if let Some(call) = call {
            call.settle([0]);
        }
    }
    assert_eq!(at_once, 3_000, "a burst, and the two that were unsettled");
}

// CLAIM: LimitSet
#[test]
fn an_adversary_gains_no_more_than_the_bound() {
    for (unsettled, held) in [(0.0, 60), (1.0, 60), (2.0, 60), (2.0, 110), (4.0, 110)] {
        let gained = excess::<Arc<Set>>(unsettled, 120, held);
        assert!(gained <= unsettled, "{gained} bursts at a bound of {unsettled}");
    }
    let gained = excess::<Arc<Set>>(4.0, 1, 60);
    assert!(gained <= 0.05, "a reservation older than its time-to-live gives nothing back: {gained}");
}

/// Estimates are twice too high, and calls are short: the whole rate is used.
#[test]
fn good_estimates_use_the_whole_rate() {
    let shares = [1.0, 2.0, 4.0].map(|unsettled| used::<Arc<Set>>(unsettled, 1..=5, 2));
    assert!(shares.iter().all(|&share| share > 0.97), "{shares:?}");
}

#[test]
fn leaked_reservations_take_up_the_bound_for_two_times_to_live() {
    let clock = ManualClock::new();
    let set = LimitSet::with_clock([Quota::per_minute(600)], &clock).unsettled(1.0).unwrap();
    let set = set.time_to_live(Duration::from_secs(10)).unwrap();
    let given_back = || {
        let call = set.reserve([100]).unwrap();
        let before = set.peek()[0].remaining();
        call.settle([0]);
        set.peek()[0].remaining() - before
    };
    std::mem::forget(set.reserve([600]).unwrap());
    clock.advance(Duration::from_secs(15));
    assert_eq!(given_back(), 0, "the bound is taken up");
    clock.advance(Duration::from_secs(5));
    assert_eq!(given_back(), 100);
}

/// A reservation that is beyond the bound is booked in full, also if it used more.
#[test]
fn reservation_beyond_the_bound_is_charged_its_excess() {
    let clock = ManualClock::new();
    let set = LimitSet::with_clock([Quota::per_minute(600)], &clock).unsettled(0.0).unwrap();
    set.reserve([100]).unwrap().settle([40]);
    assert_eq!(set.peek()[0].used(), 100, "nothing is given back");
    set.reserve([100]).unwrap().settle([150]);
    assert_eq!(set.peek()[0].used(), 250);
}

/// Each limit has a bound of its own; a dropped reservation frees what it took up.
#[test]
fn bounds_are_those_of_each_limit() {
    let clock = ManualClock::new();
    let quotas = [Quota::per_minute(16), Quota::per_minute(128)].map(TokenBucket::new);
    let set = LimitSet::boxed(quotas, &clock).unwrap().unsettled(0.5).unwrap();
    let used = || set.peek().iter().map(damper::Usage::used).collect::<Vec<_>>();
    let first = set.reserve(&[8, 24]).unwrap();
    set.reserve(&[1, 50]).unwrap().settle(&[0, 0]);
    assert_eq!(
        used(),
        [9, 34],
        "40 of the 50 were within the bound of the second limit, none within that of the first"
    );
    drop(first);
    set.reserve(&[4, 50]).unwrap().settle(&[0, 0]);
    assert_eq!(used(), [9, 34]);
}

/// The bursts of the bound are those of the quota in force at the reservation.
#[test]
fn bound_follows_the_quota() {
    let clock = ManualClock::new();
    let set = LimitSet::with_clock([Quota::per_minute(100)], &clock).unsettled(0.5).unwrap();
    set.set_quota(0, Quota::per_minute(1_000)).unwrap();
    clock.advance(MINUTE);
    set.reserve([1_000]).unwrap().settle([0]);
    assert_eq!(set.peek()[0].used(), 500);
    set.set_quota(0, Quota::UNLIMITED).unwrap();
    let call = set.reserve([50_000]).unwrap();
    set.set_quota(0, Quota::per_minute(1_000)).unwrap();
    let before = set.peek()[0].used();
    call.settle([0]);
    assert_eq!(set.peek()[0].used(), before, "nothing was taken under the quota without a limit");
}

/// The bound stays with a set that gets a bulkhead and a queue after it.
#[test]
fn bound_applies_to_calls_that_waited() {
    let clock = ManualClock::new();
    let set = LimitSet::with_clock([Quota::per_minute(100)], &clock).unsettled(0.5).unwrap().queue(4);
    let call = set.acquire([100]).sleeping_by(|wait| {
        clock.advance(wait);
        std::future::ready(())
    });
    let mut call = std::pin::pin!(call);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(call) = Future::poll(call.as_mut(), &mut context) else { panic!("the bucket is full") };
    call.unwrap().settle([0]);
    assert_eq!(set.peek()[0].used(), 50);
    assert!(matches!(set.reserve([51]), Err(LimitSetRefusal::Limit(_))));
}

/// A clock that calls `hook` once, at the reading after `left` others.
#[derive(Default)]
struct Hooked {
    left: AtomicUsize,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Hooked {
    fn now(&self) -> u64 {
        let is_due = self.left.fetch_sub(1, Relaxed) == 0;
        let hook = if is_due { self.hook.lock().unwrap().take() } else { None };
        if let Some(hook) = hook {
            hook();
        }
        0
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

/// A quota without a limit takes no tokens, so it gets none back.
///
/// The limit may have another quota before the call has taken all its costs.
#[test]
fn quota_that_comes_during_a_call_gets_nothing_back_that_it_did_not_give() {
    let mut uncounted = 0;
    for left in 0..12 {
        let clock = Arc::new(Hooked::default());
        let set = Arc::new(LimitSet::with_clock([Quota::UNLIMITED; 2], Arc::clone(&clock)));
        let reload = {
            let set = Arc::clone(&set);
            move || set.set_quotas([Quota::per_hour(10); 2]).unwrap()
        };
        *clock.hook.lock().unwrap() = Some(Box::new(reload.clone()));
        clock.left.store(left, Relaxed);
        let call = set.reserve([5, 5]).unwrap();
        if clock.hook.lock().unwrap().take().is_some() {
            reload();
        }
        let taken = set.peek().map(|usage| usage.used());
        uncounted += usize::from(taken.contains(&0));
        for (index, taken) in taken.into_iter().enumerate() {
            let mut rest = [0; 2];
            rest[index] = 10 - taken;
            drop(set.reserve(rest).unwrap());
        }
        call.settle([0, 0]);
        assert_eq!(set.peek().map(|usage| usage.remaining()), taken, "{left} readings before");
    }
    assert!(uncounted > 0);
}
