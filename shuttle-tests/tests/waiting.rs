//! Waiting: queues of reservations, some of which are cancelled in the middle, and threads that a change wakes.
#![cfg(shuttle)]

use damper_core::{Clock, Quota, RateLimiter, Reservation, TokenBucket};
use damper_shuttle_tests::{History, Time, advance, check, check_flawed, random, time, together};
use shuttle::thread;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const SECOND: u64 = 1_000_000_000;

/// A caller that took tokens: between which steps, how many, and when they are ready.
#[derive(Clone, Copy, Debug)]
struct Caller {
    /// By the order of the steps.
    between: [u64; 2],
    /// By the clock; of a caller that need not wait, up to now.
    ready_at: [u64; 2],
    tokens: u32,
    /// The step from which on its tokens may be another's.
    until: u64,
}

impl Caller {
    fn waits(&self) -> bool {
        self.ready_at[0] == self.ready_at[1]
    }
}

struct Queue {
    limiter: RateLimiter<TokenBucket, Time>,
    time: Time,
    /// Counts beginnings and ends of calls, and is no step of the model.
    steps: AtomicU64,
    callers: Mutex<Vec<Caller>>,
}

impl Queue {
    fn new() -> Arc<Self> {
        let time = time();
        let limiter = RateLimiter::with_clock(QUOTA, Arc::clone(&time));
        Arc::new(Self { limiter, time, steps: AtomicU64::new(0), callers: Mutex::default() })
    }

    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// When a reservation is ready: exactly, if that is to come.
    fn ready_at(&self, reservation: &Reservation<'_, Time>, from: u64) -> [u64; 2] {
        loop {
            let before = self.time.now();
            let ready_in = reservation.ready_in().unwrap().as_nanos() as u64;
            match (self.time.now() == before, ready_in) {
                (true, 0) => return [from, before],
                (true, wait) => return [before + wait; 2],
                (false, _) => {}
            }
        }
    }

    fn reserve(&self, n: u32) -> Option<(Reservation<'_, Time>, Caller)> {
        let (from, begun) = (self.time.now(), self.step());
        let reservation = self.limiter.reserve(n).ok()?;
        let between = [begun, self.step()];
        let ready_at = self.ready_at(&reservation, from);
        Some((reservation, Caller { between, ready_at, tokens: n, until: u64::MAX }))
    }

    fn check(&self) {
        let (from, begun) = (self.time.now(), self.step());
        if self.limiter.check().is_ok() {
            let caller =
                Caller { between: [begun, self.step()], ready_at: [from, self.time.now()], tokens: 1, until: u64::MAX };
            self.took(caller);
        }
    }

    fn took(&self, caller: Caller) {
        self.callers.lock().unwrap().push(caller);
    }

    /// Comes up to three times, stays or cancels, and reads the same wait whenever it asks.
    fn comes_and_goes(&self) {
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.extend(self.reserve(1 + random(2) as u32));
            if random(3) == 0 {
                advance(&self.time);
            }
            if random(3) == 0 {
                self.check();
            }
        }
        while !waiting.is_empty() {
            let (reservation, mut caller) = waiting.swap_remove(random(waiting.len() as u64) as usize);
            let ready_at = self.ready_at(&reservation, caller.ready_at[0]);
            if caller.waits() && ready_at[0] == ready_at[1] {
                assert_eq!(ready_at, caller.ready_at, "its wait stays the same");
            } else if caller.waits() {
                assert!(ready_at[1] >= caller.ready_at[0], "it was ready early");
            }
            caller.until = self.step();
            if random(2) == 0 && reservation.cancel() {
                assert!(caller.waits(), "given back after it was ready");
                caller.tokens = 0;
            } else {
                caller.until = u64::MAX;
            }
            self.took(caller);
        }
    }

    /// A later caller is ready later, as long as the one before stays; and all together keep to the quota.
    fn is_fair(&self) {
        let callers = self.callers.lock().unwrap();
        let history = History::new(QUOTA);
        for last in callers.iter() {
            for first in callers.iter().filter(|first| first.waits() && first.between[1] < last.between[0]) {
                if first.until < last.between[1] || first.ready_at[0] <= last.ready_at[1] {
                    continue;
                }
                panic!("{last:?} before {first:?}");
            }
            if last.tokens > 0 {
                history.admitted(0, last.ready_at, last.tokens);
            }
        }
        history.keeps_to_the_envelope();
    }
}

const QUOTA: Quota = Quota::per_second(1).burst(2).max_debt(40);

/// Four threads come for one or two tokens, and cancel from anywhere in the queue: those that stay are served in order and
/// on time, and each token is served once. [A cancel that gives back whatever came after.]
#[test]
fn waiters_are_served_in_order() {
    check(6_000, queue);
}

#[test]
#[should_panic]
fn waiters_are_served_in_order_unless_flawed() {
    check_flawed(queue);
}

fn queue() {
    let queue = Queue::new();
    together(4, 1, &queue, |queue, _| queue.comes_and_goes());
    queue.is_fair();
    // Cancelled tokens are back, and all is there again.
    queue.time.advance_ticks(1_000 * SECOND);
    assert!(queue.limiter.check_n(2).is_ok() && queue.limiter.check().is_err(), "a burst, and no more");
}

/// Three threads block under a quota that refills nothing, while it is changed time and again: each is woken when there
/// is a token for it. [A change that is reported before it is made; that wakes one.]
#[test]
fn every_blocked_waiter_is_woken() {
    check(6_000, || {
        let quota = |burst| Quota::per_second(0).burst(burst).max_debt(8);
        let limiter = Arc::new(RateLimiter::with_clock(quota(1), time()));
        limiter.check().unwrap();
        let waiters = [(); 3].map(|()| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.acquire(1).wait().unwrap())
        });
        for burst in [2, 1, 3, 4] {
            limiter.set_quota(quota(burst)).unwrap();
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!((limiter.debt(), limiter.peek().remaining()), (0, 0), "four of four");
    });
}
