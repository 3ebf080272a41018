//! Bulkheads: threads that take slots, wait for them, give up and change the limit.
#![cfg(shuttle)]

use damper_core::AcquireFuture;
use damper_core::concurrency::{Bulkhead, BulkheadPermit, KeyedBulkhead, RefusalCause};
use damper_core::time::{Seed, Sleep};
use damper_shuttle_tests::{Time, check, check_flawed, random, time, together};
use shuttle::thread;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Permit = BulkheadPermit<Arc<Bulkhead<Time>>>;
type Call<S> = Pin<Box<AcquireFuture<Arc<Bulkhead<Time>>, S>>>;

/// No limit of a model is higher.
const MOST: u32 = 3;

struct Pool {
    bulkhead: Arc<Bulkhead<Time>>,
    time: Time,
    /// The calls that are made, which is no step of the model.
    calls: AtomicU32,
}

impl Pool {
    fn new(newest_first: bool) -> Arc<Self> {
        let time = time();
        let bulkhead = Bulkhead::with_clock(2, Arc::clone(&time)).queue(3);
        let bulkhead = Arc::new(if newest_first { bulkhead.newest_first() } else { bulkhead });
        Arc::new(Self { bulkhead, time, calls: AtomicU32::new(0) })
    }

    /// Makes a call under its permit.
    fn work(&self, permit: Permit) {
        assert!(self.calls.fetch_add(1, Ordering::Relaxed) < MOST, "no more calls than slots");
        for _ in 0..random(3) {
            thread::yield_now();
        }
        self.calls.fetch_sub(1, Ordering::Relaxed);
        drop(permit);
    }

    /// Polls a call some times, without being woken, and may then give up.
    fn comes_and_goes<S: Sleep>(&self, mut call: Call<S>) {
        for _ in 0..random(4) {
            match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(permit)) => return self.work(permit),
                Poll::Ready(Err(_)) => return,
                Poll::Pending => thread::yield_now(),
            }
        }
    }

    fn acts(&self) {
        match random(6) {
            0 => self.bulkhead.set_limit(1 + random(MOST.into()) as u32),
            1 => self.bulkhead.try_acquire_owned().into_iter().for_each(|permit| self.work(permit)),
            2 => self.comes_and_goes(Box::pin(self.bulkhead.acquire_owned().sleeping_by(|_| ready(())))),
            3 => {
                // Its time passes while it is polled.
                let time = Arc::clone(&self.time);
                let sleep = move |wait| {
                    let time = Arc::clone(&time);
                    poll_fn(move |_| {
                        if random(2) == 0 {
                            return Poll::Pending;
                        }
                        time.advance(wait);
                        Poll::Ready(())
                    })
                };
                let acquire = self.bulkhead.acquire_owned().within(Duration::from_secs(1));
                self.comes_and_goes(Box::pin(acquire.sleeping_by(sleep)));
            }
            // Blocks until another call makes room: each thread that has a slot goes on.
            _ => match self.bulkhead.acquire_owned().wait() {
                Ok(permit) => self.work(permit),
                Err(full) => assert!(matches!(full.cause(), RefusalCause::QueueFull | RefusalCause::Displaced)),
            },
        }
    }

    fn is_as_new(&self) {
        assert_eq!((self.bulkhead.in_flight(), self.bulkhead.queued()), (0, 0), "nothing is left over");
        self.bulkhead.set_limit(3);
        let permits = [(); 3].map(|()| self.bulkhead.try_acquire().unwrap());
        assert!(self.bulkhead.try_acquire().is_err());
        drop(permits);
    }
}

/// Four threads take slots, block for them, poll, time out and give up, under limits that change.
///
/// There are never more calls than slots, every thread that blocks is woken, and in the end all slots and places are
/// free.
///
/// [A slot that is not passed on by a call that gives up; a slot that is freed past the queue.]
#[test]
fn slots_are_neither_lost_nor_doubled() {
    check(20_000, || pool(false));
}

/// The same, newest first. [A displaced call that is not woken.]
#[test]
fn slots_are_neither_lost_nor_doubled_newest_first() {
    check(20_000, || pool(true));
}

#[test]
#[should_panic]
fn slots_are_neither_lost_nor_doubled_unless_flawed() {
    check_flawed(|| pool(false));
}

fn pool(newest_first: bool) {
    let pool = Pool::new(newest_first);
    together(4, 4, &pool, |pool, _| pool.acts());
    pool.is_as_new();
}

/// A call, by the order of the steps.
#[derive(Clone, Copy, Debug)]
struct Served {
    /// Before it came, and when it was known to be in the queue.
    came: [u64; 2],
    /// When it had its slot.
    at: u64,
}

struct Line {
    bulkhead: Arc<Bulkhead<Time>>,
    steps: AtomicU64,
    served: Mutex<Vec<Served>>,
}

/// Four threads queue for one slot, and some calls give up.
///
/// Those that stay are served in the order of arrival.
///
/// [The last one first.]
#[test]
fn calls_are_served_in_order() {
    check(20_000, || {
        let bulkhead = Arc::new(Bulkhead::with_clock(1, time()).queue(8));
        let line = Arc::new(Line { bulkhead, steps: AtomicU64::new(0), served: Mutex::default() });
        together(4, 3, &line, |line, _| line.queues_up());
        let served = line.served.lock().unwrap();
        for last in served.iter() {
            for first in served.iter().filter(|first| first.came[1] < last.came[0]) {
                assert!(first.at < last.at, "{last:?} before {first:?}");
            }
        }
    });
}

impl Line {
    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    fn queues_up(&self) {
        let mut call = Box::pin(self.bulkhead.acquire_owned().sleeping_by(|_| ready(())));
        let mut came = [self.step(), 0];
        let mut polls = if random(4) == 0 { 1 + random(2) } else { u64::MAX };
        let permit = shuttle::future::block_on(poll_fn(|context| {
            let poll = call.as_mut().poll(context);
            if came[1] == 0 {
                came[1] = self.step();
            }
            polls -= 1;
            match poll {
                Poll::Pending if polls == 0 => Poll::Ready(None),
                poll => poll.map(|permit| Some(permit.unwrap())),
            }
        }));
        if let Some(_permit) = permit {
            self.served.lock().unwrap().push(Served { came, at: self.step() });
        }
    }
}

/// There is room for two of these keys.
const KEYS: usize = 3;

struct Tenants {
    bulkheads: KeyedBulkhead<usize, Time>,
    /// The calls of each key that are made, which is no step of the model.
    calls: [AtomicU32; KEYS],
}

/// A key never has more calls than slots, with more keys than there is room for.
///
/// Four threads wait for slots and keep `Weak`s, while dashboards read all counts. A key never has more calls than
/// slots, and in the end all slots are free. [A bulkhead evicted while it is held.]
#[test]
fn keys_never_exceed_their_limit() {
    check(20_000, || {
        let bulkheads = KeyedBulkhead::with_clock_and_hasher(1, 2, time(), Seed::new(1, 2)).unwrap().queue(1);
        let tenants = Arc::new(Tenants { bulkheads, calls: Default::default() });
        together(4, 4, &tenants, |tenants, _| tenants.acts());
        assert!(
            tenants.bulkheads.iter().all(|(_, status)| (status.in_flight(), status.queued()) == (0, 0)),
            "nothing is left over"
        );
        assert!((0..KEYS).all(|key| tenants.bulkheads.try_acquire(&key).is_ok()), "no key is held");
    });
}

impl Tenants {
    fn acts(&self) {
        let key = random(KEYS as u64) as usize;
        let permit = match random(6) {
            0 => return self.bulkheads.iter().for_each(|(_, status)| assert!(status.in_flight() <= 1)),
            1 => {
                let _seen = self.bulkheads.status(&key);
                return;
            }
            2 => {
                let weak = self.bulkheads.get_or_create(&key).map(|bulkhead| Arc::downgrade(&bulkhead));
                thread::yield_now();
                let Some(revived) = weak.ok().and_then(|weak| weak.upgrade()) else { return };
                revived.try_acquire_owned()
            }
            3 => self.bulkheads.acquire(&key).wait(),
            _ => self.bulkheads.try_acquire(&key),
        };
        if let Ok(_permit) = permit {
            assert!(self.calls[key].fetch_add(1, Ordering::Relaxed) < 1, "no more calls of a key than slots");
            for _ in 0..random(3) {
                thread::yield_now();
            }
            self.calls[key].fetch_sub(1, Ordering::Relaxed);
        }
    }
}
