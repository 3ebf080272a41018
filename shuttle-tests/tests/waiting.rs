//! Waiting: queues of reservations, some cancelled in the middle, and threads that a change wakes.
#![cfg(shuttle)]

use damper_core::keyed::KeyedReservation;
use damper_core::{Clock, KeyedLimiter, Quota, RateLimiter, Reservation, TokenBucket};
use damper_shuttle_tests::{History, Time, advance, check, check_flawed, random, time, together};
use shuttle::thread;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// A place in a queue.
trait Place {
    fn ready_in(&self) -> Option<Duration>;
    fn cancel(self) -> bool;
}

impl Place for Reservation<&RateLimiter<TokenBucket, Time>> {
    fn ready_in(&self) -> Option<Duration> {
        self.ready_in()
    }
    fn cancel(self) -> bool {
        self.cancel()
    }
}

impl Place for KeyedReservation<'_, Time> {
    fn ready_in(&self) -> Option<Duration> {
        self.ready_in()
    }
    fn cancel(self) -> bool {
        self.cancel()
    }
}

/// A limiter under test: its waiters, and the changes that disturb them.
trait Waited: Send + Sync + 'static {
    type Place<'a>: Place;

    fn on(time: &Time) -> Self;
    fn reserve(&self, n: u32) -> Option<Self::Place<'_>>;
    fn check_n(&self, n: u32) -> bool;
    fn disturb(&self) {}
}

impl Waited for RateLimiter<TokenBucket, Time> {
    type Place<'a> = Reservation<&'a Self>;

    fn on(time: &Time) -> Self {
        RateLimiter::with_clock(QUOTA, Arc::clone(time))
    }
    fn reserve(&self, n: u32) -> Option<Reservation<&RateLimiter<TokenBucket, Time>>> {
        self.reserve(n).ok()
    }
    fn check_n(&self, n: u32) -> bool {
        self.check_n(n).is_ok()
    }
}

/// Hashes a `u64` to itself: a schedule is replayed with the same slots.
#[derive(Clone, Copy, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64 here")
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A table of four slots, of which one key has waiters.
///
/// It loses its slot when it owes nothing, and waits in a shared bucket until it has another.
struct OneOfManyKeys(KeyedLimiter<u64, Time, BuildHasherDefault<Identity>>);

const KEY: u64 = 1;

impl Waited for OneOfManyKeys {
    type Place<'a> = KeyedReservation<'a, Time>;

    fn on(time: &Time) -> Self {
        let limits = KeyedLimiter::<u64>::builder(QUOTA)
            .capacity(1)
            .clock(Arc::clone(time))
            .hasher(BuildHasherDefault::default())
            .build()
            .unwrap();
        // The first use runs alone.
        _ = limits.peek(&KEY);
        Self(limits)
    }
    fn reserve(&self, n: u32) -> Option<KeyedReservation<'_, Time>> {
        self.0.reserve(&KEY, n).ok()
    }
    fn check_n(&self, n: u32) -> bool {
        self.0.check_n(&KEY, n).is_ok()
    }
    fn disturb(&self) {
        _ = self.0.check_n(&(2 + random(8)), 2);
    }
}

struct Queue<L> {
    limiter: L,
    time: Time,
    /// Counts beginnings and ends of calls, and is no step of the model.
    steps: AtomicU64,
    callers: Mutex<Vec<Caller>>,
}

impl<L: Waited> Queue<L> {
    fn new() -> Arc<Self> {
        let time = time();
        let limiter = L::on(&time);
        Arc::new(Self { limiter, time, steps: AtomicU64::new(0), callers: Mutex::default() })
    }

    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// When a reservation is ready: exactly, if that is to come.
    fn ready_at(&self, reservation: &L::Place<'_>, from: u64) -> [u64; 2] {
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

    fn reserve(&self, n: u32) -> Option<(L::Place<'_>, Caller)> {
        let (from, begun) = (self.time.now(), self.step());
        let reservation = self.limiter.reserve(n)?;
        let between = [begun, self.step()];
        let ready_at = self.ready_at(&reservation, from);
        Some((reservation, Caller { between, ready_at, tokens: n, until: u64::MAX }))
    }

    fn check(&self) {
        let (from, begun) = (self.time.now(), self.step());
        if self.limiter.check_n(1) {
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
            self.limiter.disturb();
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

/// Four threads come for one or two tokens, and cancel from anywhere in the queue.
///
/// Those that stay are served in order and on time, and each token is served once.
///
/// [A cancel that gives back whatever came after.]
#[test]
fn waiters_are_served_in_order() {
    check(6_000, queue::<RateLimiter<TokenBucket, Time>>);
}

#[test]
#[should_panic]
fn waiters_are_served_in_order_unless_flawed() {
    check_flawed(queue::<RateLimiter<TokenBucket, Time>>);
}

/// The same for one key of a keyed limiter, whose other keys take its slot whenever it owes nothing.
///
/// [A cancel that gives back whatever came after.]
#[test]
fn waiters_of_a_key_are_served_in_order() {
    check(6_000, queue::<OneOfManyKeys>);
}

#[test]
#[should_panic]
fn waiters_of_a_key_are_served_in_order_unless_flawed() {
    check_flawed(queue::<OneOfManyKeys>);
}

fn queue<L: Waited>() {
    let queue = Queue::<L>::new();
    together(4, 1, &queue, |queue, _| queue.comes_and_goes());
    queue.is_fair();
    // Cancelled tokens are back, and all is there again.
    queue.time.advance_ticks(1_000 * SECOND);
    assert!(queue.limiter.check_n(2) && !queue.limiter.check_n(1), "a burst, and no more");
}

/// Three threads block under a quota that refills nothing, while it is changed time and again.
///
/// Each is woken when there is a token for it.
///
/// [A change that is reported before it is made; that wakes one.]
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

/// Three threads block for tokens of a key that never drip in, while three are given back one by one.
///
/// All are woken.
///
/// [A refund that notifies no thread.]
#[test]
fn every_blocked_waiter_of_a_key_is_woken() {
    check(6_000, || {
        let limits = KeyedLimiter::<u64>::builder(Quota::per_second(0).burst(1).max_debt(8))
            .capacity(1)
            .clock(time())
            .hasher(BuildHasherDefault::<Identity>::default())
            .build()
            .unwrap();
        limits.check(&KEY).unwrap();
        let limits = Arc::new(limits);
        let waiters = [(); 3].map(|()| {
            let limits = Arc::clone(&limits);
            thread::spawn(move || limits.acquire(&KEY, 1).wait().unwrap())
        });
        let mut given = 0;
        while given < 3 {
            // A full bucket has no room for more, until one of them has come.
            given += limits.refund(&KEY, 1);
            thread::yield_now();
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!((limits.peek(&KEY).remaining(), limits.refund(&KEY, 2)), (0, 1), "three of three");
    });
}
