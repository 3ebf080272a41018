//! Admission: threads that take slots, wait in classes, give way, give up and change the limit.
#![cfg(shuttle)]

use damper_core::AcquireFuture;
use damper_core::Deadline;
use damper_core::concurrency::{Admission, AdmissionPermit, AdmissionRequest, Criticality, FixedLimit, RefusalCause};
use damper_core::time::{Seed, Sleep};
use damper_shuttle_tests::{Time, check, check_flawed, random, time, together};
use shuttle::thread;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Gate = Admission<FixedLimit, Time>;
type Permit = AdmissionPermit<Arc<Gate>>;
type Call<S> = Pin<Box<AcquireFuture<Arc<Gate>, S>>>;

/// No limit of a model is higher.
const MOST: u32 = 3;

struct Pool {
    gate: Arc<Gate>,
    time: Time,
    /// The calls that are made, which is no step of the model.
    calls: AtomicU32,
}

/// A class, a tenant.
fn request() -> AdmissionRequest {
    AdmissionRequest::new().criticality(Criticality::ALL[random(4) as usize]).tenant(&random(3))
}

impl Pool {
    fn new() -> Arc<Self> {
        let time = time();
        let gate = Admission::fixed_with_clock(2, Arc::clone(&time)).queue(3).seed(Seed::new(1, 2));
        Arc::new(Self { gate: Arc::new(gate), time, calls: AtomicU32::new(0) })
    }

    /// Makes a call under its permit.
    fn work(&self, permit: Permit) {
        assert!(self.calls.fetch_add(1, Ordering::Relaxed) < MOST, "no more calls than slots");
        for _ in 0..random(3) {
            thread::yield_now();
        }
        self.calls.fetch_sub(1, Ordering::Relaxed);
        match random(3) {
            0 => permit.success(),
            1 => permit.overloaded(),
            _ => drop(permit),
        }
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
            0 => self.gate.set_limit(1 + random(MOST.into()) as u32),
            1 => self.gate.try_acquire_owned(request()).into_iter().for_each(|permit| self.work(permit)),
            2 => self.comes_and_goes(Box::pin(self.gate.acquire_owned(request()).sleeping_by(|_| ready(())))),
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
                let request = request().by(&Deadline::with_clock(Duration::from_secs(1), &self.time));
                self.comes_and_goes(Box::pin(self.gate.acquire_owned(request).sleeping_by(sleep)));
            }
            // Blocks until it is admitted or gives way: all those that have a slot go on.
            _ => match self.gate.acquire_owned(request()).wait() {
                Ok(permit) => self.work(permit),
                Err(refused) => {
                    assert!(matches!(refused.cause(), RefusalCause::QueueFull | RefusalCause::Displaced));
                }
            },
        }
    }

    fn is_as_new(&self) {
        assert_eq!((self.gate.in_flight(), self.gate.queued()), (0, 0), "nothing is left over");
        assert!(Criticality::ALL.into_iter().all(|class| self.gate.queued_of(class) == 0), "no class has calls");
        self.gate.set_limit(3);
        let permits = [(); 3].map(|()| self.gate.try_acquire(AdmissionRequest::new()).unwrap());
        assert!(self.gate.try_acquire(AdmissionRequest::new()).is_err());
        drop(permits);
    }
}

/// There are never more calls than slots, and none is lost.
///
/// Four threads take slots, block for them, poll, become late, give way and give up, under limits that change. There
/// are never more calls than slots, every thread that blocks is woken, and in the end all slots and places are free. [A
/// slot that is not passed on by a call that gives up; a slot that is freed past the queue.]
#[test]
fn slots_are_neither_lost_nor_doubled() {
    check(20_000, pool);
}

#[test]
#[should_panic]
fn slots_are_neither_lost_nor_doubled_unless_flawed() {
    check_flawed(pool);
}

fn pool() {
    let pool = Pool::new();
    together(4, 4, &pool, |pool, _| pool.acts());
    pool.is_as_new();
}
