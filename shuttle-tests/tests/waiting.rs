//! Waiting: queues of reservations, some of which are cancelled in the middle, and threads that a change wakes.
#![cfg(shuttle)]

use damper_core::{Clock, Quota, RateLimiter, Reservation, TokenBucket};
use damper_shuttle_tests::{History, Time, advance, check, check_flawed, random, time, together};
use shuttle::thread;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const SECOND: u64 = 1_000_000_000;

/// One who came: between which steps, for how many, and when it is its turn.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// By the order of the steps.
    between: [u64; 2],
    /// By the clock; of one who need not wait, up to now.
    turn: [u64; 2],
    tokens: u32,
    /// The step from which on its tokens may be another's.
    until: u64,
}

impl Place {
    fn waits(&self) -> bool {
        self.turn[0] == self.turn[1]
    }
}

struct Queue {
    limiter: RateLimiter<TokenBucket, Time>,
    time: Time,
    /// Counts beginnings and ends of calls, and is no step of the model.
    steps: AtomicU64,
    places: Mutex<Vec<Place>>,
}

impl Queue {
    fn new() -> Arc<Self> {
        let time = time();
        let limiter = RateLimiter::with_clock(QUOTA, Arc::clone(&time));
        Arc::new(Self { limiter, time, steps: AtomicU64::new(0), places: Mutex::default() })
    }

    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// When its turn is: exactly, if that is to come.
    fn turn(&self, reservation: &Reservation<'_, Time>, from: u64) -> [u64; 2] {
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

    fn reserve(&self, n: u32) -> Option<(Reservation<'_, Time>, Place)> {
        let (from, begun) = (self.time.now(), self.step());
        let reservation = self.limiter.reserve(n).ok()?;
        let between = [begun, self.step()];
        let turn = self.turn(&reservation, from);
        Some((reservation, Place { between, turn, tokens: n, until: u64::MAX }))
    }

    fn check(&self) {
        let (from, begun) = (self.time.now(), self.step());
        if self.limiter.check().is_ok() {
            let place =
                Place { between: [begun, self.step()], turn: [from, self.time.now()], tokens: 1, until: u64::MAX };
            self.took(place);
        }
    }

    fn took(&self, place: Place) {
        self.places.lock().unwrap().push(place);
    }

    /// Comes up to three times, stays or goes again, and is told the same whenever it asks.
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
            let (reservation, mut place) = waiting.swap_remove(random(waiting.len() as u64) as usize);
            let turn = self.turn(&reservation, place.turn[0]);
            if place.waits() && turn[0] == turn[1] {
                assert_eq!(turn, place.turn, "its turn is when it was told");
            } else if place.waits() {
                assert!(turn[1] >= place.turn[0], "its turn came early");
            }
            place.until = self.step();
            if random(2) == 0 && reservation.cancel() {
                assert!(place.waits(), "given back after its turn");
                place.tokens = 0;
            } else {
                place.until = u64::MAX;
            }
            self.took(place);
        }
    }

    /// Who came later has its turn later, as long as the one before stays; and all together keep to the quota.
    fn is_fair(&self) {
        let places = self.places.lock().unwrap();
        let history = History::new(QUOTA);
        for last in places.iter() {
            for first in places.iter().filter(|first| first.waits() && first.between[1] < last.between[0]) {
                if first.until < last.between[1] || first.turn[0] <= last.turn[1] {
                    continue;
                }
                panic!("{last:?} before {first:?}");
            }
            if last.tokens > 0 {
                history.admitted(0, last.turn, last.tokens);
            }
        }
        history.keeps_to_the_envelope();
    }
}

const QUOTA: Quota = Quota::per_second(1).burst(2).max_debt(40);

/// Four threads come for one or two tokens, and go again from anywhere in the queue: who stays is served in order, when
/// it was told, and nobody is served what another was. [A cancel that gives back whatever came after.]
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
    // What was given up is nobody's, and all is there again.
    queue.time.advance_ticks(1_000 * SECOND);
    assert!(queue.limiter.check_n(2).is_ok() && queue.limiter.check().is_err(), "a burst, and no more");
}

/// Three threads block under a quota that refills nothing, while it is changed time and again: each is woken when there
/// is a token for it. [A change that is told before it is made; that wakes one.]
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
