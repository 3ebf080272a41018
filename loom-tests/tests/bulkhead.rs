//! Bulkheads: slots that threads race for, and a queue in which calls wait, time out and give up.
//!
//! In brackets: the weakening of the code under which each model was seen to fail, all of them in
//! `weakenings/bulkhead`.
#![cfg(loom)]

use damper_core::AcquireFuture;
use damper_core::concurrency::{Bulkhead, BulkheadFull, BulkheadPermit, KeyedBulkhead, RefusalCause};
use damper_core::time::Seed;
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Notify;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::future::{Pending, pending};
// loom's own panics a second time, in its drop, where a model deadlocks.
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

type Shared = Arc<Bulkhead<Stopped>>;
type Permit<C> = BulkheadPermit<Arc<Bulkhead<C>>>;
type Call<C> = Pin<Box<AcquireFuture<Arc<Bulkhead<C>>, fn(Duration) -> Pending<()>>>>;

fn bulkhead(limit: u32, places: u16) -> Shared {
    Arc::new(Bulkhead::with_clock(limit, Stopped(7)).queue(places))
}

fn newest_first(limit: u32, places: u16) -> Shared {
    Arc::new(Bulkhead::with_clock(limit, Stopped(7)).queue(places).newest_first())
}

/// A call that nothing wakes: it learns its fate when it is polled.
fn call<C: damper_core::Clock>(bulkhead: &Arc<Bulkhead<C>>) -> Call<C> {
    Box::pin(bulkhead.acquire_owned().sleeping_by(|_| pending()))
}

fn poll<C: damper_core::Clock>(call: &mut Call<C>) -> Poll<Result<Permit<C>, BulkheadFull>> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A call that is in the queue.
fn queued<C: damper_core::Clock>(bulkhead: &Arc<Bulkhead<C>>) -> Call<C> {
    let mut call = call(bulkhead);
    assert!(poll(&mut call).is_pending());
    call
}

/// Wakes a thread.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Blocks until a call has learnt its fate.
fn block_on(mut call: Call<Stopped>) -> Result<Permit<Stopped>, BulkheadFull> {
    let bell = Arc::new(Bell(Notify::new()));
    let waker = Waker::from(Arc::clone(&bell));
    loop {
        match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(fate) => return fate,
            Poll::Pending => bell.0.wait(),
        }
    }
}

#[track_caller]
fn granted<C: damper_core::Clock>(mut call: Call<C>) -> Permit<C> {
    match poll(&mut call) {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("a slot was free for the call, and it is {other:?}"),
    }
}

#[track_caller]
fn is_as_new<C>(bulkhead: &Bulkhead<C>, limit: u32) {
    assert_eq!((bulkhead.limit(), bulkhead.in_flight(), bulkhead.queued()), (limit, 0, 0), "nothing is left over");
}

/// Counts the calls that are made at the same time.
#[derive(Debug)]
struct Pool(AtomicU32);

impl Pool {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU32::new(0)))
    }

    fn work(&self, most: u32) {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < most, "no more calls than slots");
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Three threads race for one slot. [Taken without another look after a failed swap.]
// WORD: The slots of a bulkhead or an admission
// CLAIM: Bulkhead
#[test]
fn never_more_calls_than_slots() {
    check(limited_model);
}

#[test]
#[should_panic(expected = "nothing is left over")]
fn never_more_calls_than_slots_unless_flawed() {
    check_flawed(Flaw::BlindExchange, limited_model);
}

fn limited_model() {
    let bulkhead = bulkhead(1, 0);
    let pool = Pool::new();
    let make = |bulkhead: &Shared, pool: &Pool| {
        if let Ok(_permit) = bulkhead.try_acquire() {
            pool.work(1);
        }
    };
    let rivals = [(); 2].map(|()| {
        let (bulkhead, pool) = (Arc::clone(&bulkhead), Arc::clone(&pool));
        thread::spawn(move || make(&bulkhead, &pool))
    });
    make(&bulkhead, &pool);
    for rival in rivals {
        rival.join().unwrap();
    }
    is_as_new(&bulkhead, 1);
}

/// A thread blocks for the slot of a call that ends: it is woken, whatever it was about to do.
///
/// [A call that queues without another look at the word; a slot freed past the queue; a grant without a wake-up;
/// wake-ups counted after the look.]
#[test]
fn end_of_a_call_wakes_a_waiter() {
    check(|| {
        let bulkhead = bulkhead(1, 1);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let waiter = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || drop(bulkhead.acquire().wait().unwrap()))
        };
        drop(permit);
        waiter.join().unwrap();
        is_as_new(&bulkhead, 1);
    });
}

/// The same for a call in a future, whose waker changes while it is granted. [An earlier waker kept.]
#[test]
fn end_of_a_call_wakes_the_newest_waker() {
    check(|| {
        let bulkhead = bulkhead(1, 1);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let call = queued(&bulkhead);
        let waiter = thread::spawn(move || drop(block_on(call).unwrap()));
        drop(permit);
        waiter.join().unwrap();
        is_as_new(&bulkhead, 1);
    });
}

/// The limit is raised while a thread blocks: it is woken. [A change that grants nothing.]
#[test]
fn higher_limit_wakes_a_waiter() {
    check(|| {
        let bulkhead = bulkhead(1, 1);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let waiter = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || drop(bulkhead.acquire().wait().unwrap()))
        };
        bulkhead.set_limit(2);
        waiter.join().unwrap();
        drop(permit);
        is_as_new(&bulkhead, 2);
    });
}

/// The limit goes from two to one while another thread takes and frees slots.
///
/// No call is forgotten, none is counted twice.
///
/// [A limit stored in place of the swap.]
#[test]
fn change_of_the_limit_loses_no_call() {
    check(|| {
        let bulkhead = bulkhead(2, 1);
        let rival = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || {
                drop(bulkhead.try_acquire());
                bulkhead.try_acquire_owned()
            })
        };
        bulkhead.set_limit(1);
        let mine = bulkhead.try_acquire_owned();
        let theirs = rival.join().unwrap();
        let held = u32::from(mine.is_ok()) + u32::from(theirs.is_ok());
        assert_eq!(bulkhead.in_flight(), held, "each permit is counted once");
        assert_eq!(bulkhead.try_acquire().is_ok(), held == 0, "the lower limit is in force");
        drop((mine, theirs));
        is_as_new(&bulkhead, 1);
    });
}

/// A slot is freed for a queued call while a newcomer comes for it: the queued call has it.
///
/// [A slot freed in one swap, and granted in another.]
// CLAIM: Bulkhead
#[test]
fn newcomers_never_overtake_queued_calls() {
    check(|| {
        let bulkhead = bulkhead(1, 2);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let call = queued(&bulkhead);
        let newcomer = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || bulkhead.try_acquire_owned().is_ok())
        };
        drop(permit);
        assert!(!newcomer.join().unwrap(), "the slot is that of the queued call");
        drop(granted(call));
        is_as_new(&bulkhead, 1);
    });
}

/// Of two queued calls the first one gets the slot that is freed, while a third call joins.
///
/// [The last one first.]
// CLAIM: Bulkhead
#[test]
fn queued_calls_are_served_in_order() {
    check(|| {
        let bulkhead = bulkhead(1, 3);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let (first, mut second) = (queued(&bulkhead), queued(&bulkhead));
        let third = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || {
                let mut call = call(&bulkhead);
                assert!(poll(&mut call).is_pending(), "others are in flight and queued");
                call
            })
        };
        drop(permit);
        let permit = granted(first);
        assert!(poll(&mut second).is_pending(), "one slot was free");
        let third = third.join().unwrap();
        drop(permit);
        drop(granted(second));
        drop(granted(third));
        is_as_new(&bulkhead, 1);
    });
}

/// Two permits are dropped by two threads, while two calls wait: both get a slot.
///
/// [Granted by a word that was read before the lock.]
#[test]
fn permits_dropped_in_any_order_serve_all_waiters() {
    check(|| {
        let bulkhead = bulkhead(2, 2);
        let permits = [(); 2].map(|()| bulkhead.try_acquire_owned().unwrap());
        let calls = [(); 2].map(|()| queued(&bulkhead));
        for thread in permits.map(|permit| thread::spawn(move || drop(permit))) {
            thread.join().unwrap();
        }
        drop(calls.map(granted));
        is_as_new(&bulkhead, 2);
    });
}

/// A slot is freed while the call that is next gives up.
///
/// The one behind it gets the slot, whether that was granted to the first or not.
///
/// [A granted slot that is not passed on; a call that gives up without leaving the word's count.]
#[test]
fn cancelled_waiter_passes_its_slot_on() {
    check(|| {
        let bulkhead = bulkhead(1, 2);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let first = queued(&bulkhead);
        let waiter = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || drop(bulkhead.acquire().wait().unwrap()))
        };
        let quitter = thread::spawn(move || drop(first));
        drop(permit);
        quitter.join().unwrap();
        waiter.join().unwrap();
        is_as_new(&bulkhead, 1);
    });
}

/// The time of the next call passes while a slot is freed: it has the slot, or the call behind it has.
///
/// [A call whose time is over counted as granted.]
#[test]
fn slot_goes_to_a_call_that_still_has_time() {
    check(|| {
        let time = Time::at(7);
        let bulkhead = Arc::new(Bulkhead::with_clock(1, time.clone()).queue(2));
        let permit = bulkhead.try_acquire_owned().unwrap();
        let hasty = bulkhead.acquire_owned().within(Duration::from_secs(1));
        let mut hasty: Call<Time> = Box::pin(hasty.sleeping_by(|_| pending()));
        assert!(poll(&mut hasty).is_pending());
        let patient = queued(&bulkhead);
        let passing = thread::spawn(move || time.advance(Duration::from_secs(1)));
        drop(permit);
        passing.join().unwrap();
        match poll(&mut hasty) {
            Poll::Ready(Err(full)) => assert_eq!(full.cause(), RefusalCause::TimedOut),
            Poll::Ready(Ok(permit)) => drop(permit),
            Poll::Pending => panic!("its time is over"),
        }
        drop(granted(patient));
        is_as_new(&bulkhead, 1);
    });
}

/// A newer call takes the place of a thread that blocks, while a slot is freed.
///
/// The thread has a permit or is refused, and the newer call has one.
///
/// [A refused call that is not woken.]
#[test]
fn newest_call_displaces_the_oldest() {
    check(|| {
        let bulkhead = newest_first(1, 1);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let oldest = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || bulkhead.acquire().wait().map(drop))
        };
        let newest = queued(&bulkhead);
        drop(permit);
        let newest = block_on(newest);
        assert!(newest.as_ref().map_or_else(|full| full.cause() == RefusalCause::Displaced, |_| true));
        let has_permit = newest.is_ok();
        drop(newest);
        match oldest.join().unwrap() {
            Ok(()) => {}
            // The place of a call that has been granted its slot cannot be taken.
            Err(full) => {
                assert!(has_permit && matches!(full.cause(), RefusalCause::Displaced | RefusalCause::QueueFull))
            }
        }
        is_as_new(&bulkhead, 1);
    });
}

/// Newest first: a slot is freed while a third call joins two others.
///
/// The oldest never has it. [The oldest one first.]
#[test]
fn newest_call_is_served_first() {
    check(|| {
        let bulkhead = newest_first(1, 3);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let (mut first, second) = (queued(&bulkhead), queued(&bulkhead));
        let end = thread::spawn(move || drop(permit));
        let mut third = queued(&bulkhead);
        end.join().unwrap();
        assert!(poll(&mut first).is_pending(), "the newest is served first");
        // The slot is the third call's, or the second's if that was the newest when the slot was freed.
        match poll(&mut third) {
            Poll::Ready(permit) => {
                drop(permit.unwrap());
                drop(granted(second));
            }
            Poll::Pending => {
                drop(granted(second));
                drop(granted(third));
            }
        }
        drop(granted(first));
        is_as_new(&bulkhead, 1);
    });
}

/// Two threads write beside each other, each under a permit if it gets one.
///
/// None of what they wrote is lost.
///
/// [A slot freed Relaxed; taken Relaxed.]
#[test]
fn permit_sees_what_was_done_under_the_one_before() {
    check(|| {
        let bulkhead = bulkhead(1, 0);
        let written = Arc::new(AtomicU32::new(0));
        let write = |bulkhead: &Shared, written: &AtomicU32| {
            let permit = bulkhead.try_acquire();
            if permit.is_ok() {
                // As if it were no atomic.
                written.store(written.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            u32::from(permit.is_ok())
        };
        let rival = {
            let (bulkhead, written) = (Arc::clone(&bulkhead), Arc::clone(&written));
            thread::spawn(move || write(&bulkhead, &written))
        };
        let mine = write(&bulkhead, &written);
        assert_eq!(mine + rival.join().unwrap(), written.load(Ordering::Relaxed), "each write is seen by the next");
    });
}

/// A call ends while another one takes its slot under the lock. [Taken there Relaxed.]
#[test]
fn queued_permit_sees_what_was_done_under_the_one_before() {
    check(|| {
        let bulkhead = bulkhead(1, 1);
        let written = Arc::new(AtomicU32::new(0));
        let permit = bulkhead.try_acquire_owned().unwrap();
        let waiter = {
            let (bulkhead, written) = (Arc::clone(&bulkhead), Arc::clone(&written));
            thread::spawn(move || {
                let _permit = bulkhead.acquire().wait().unwrap();
                assert_eq!(written.load(Ordering::Relaxed), 1, "what was written before is seen");
            })
        };
        written.store(1, Ordering::Relaxed);
        drop(permit);
        waiter.join().unwrap();
    });
}

/// A call ends while the only queued one gives up, and a newcomer takes the slot.
///
/// [Freed Relaxed under the lock.]
#[test]
fn slot_that_a_cancelled_waiter_leaves_publishes_what_was_done() {
    check(|| {
        let bulkhead = bulkhead(1, 1);
        let written = Arc::new(AtomicU32::new(0));
        let permit = bulkhead.try_acquire_owned().unwrap();
        let quitter = queued(&bulkhead);
        let quitter = thread::spawn(move || drop(quitter));
        let newcomer = {
            let (bulkhead, written) = (Arc::clone(&bulkhead), Arc::clone(&written));
            thread::spawn(move || {
                if let Ok(_permit) = bulkhead.try_acquire() {
                    assert_eq!(written.load(Ordering::Relaxed), 1, "what was written before is seen");
                }
            })
        };
        written.store(1, Ordering::Relaxed);
        drop(permit);
        quitter.join().unwrap();
        newcomer.join().unwrap();
        is_as_new(&bulkhead, 1);
    });
}

/// A store has room for one key.
///
/// A thread comes for it, and another for a second key, whose bulkhead takes the place of the first one's when that is
/// idle: the first key never has two calls in flight. [A bulkhead evicted between the look-up and the permit.]
#[test]
fn key_never_exceeds_its_limit_when_it_is_evicted() {
    check_preemptions(2, || {
        let bulkheads = KeyedBulkhead::<u8, _, _>::with_clock_and_hasher(1, 1, Stopped(7), Seed::new(1, 2)).unwrap();
        let (bulkheads, pool) = (Arc::new(bulkheads), Pool::new());
        let make = |bulkheads: &KeyedBulkhead<u8, Stopped>, pool: &Pool| {
            if let Ok(_permit) = bulkheads.try_acquire(&0) {
                pool.work(1);
            }
        };
        let rival = {
            let (bulkheads, pool) = (Arc::clone(&bulkheads), Arc::clone(&pool));
            thread::spawn(move || make(&bulkheads, &pool))
        };
        let other = {
            let bulkheads = Arc::clone(&bulkheads);
            thread::spawn(move || drop(bulkheads.try_acquire(&1)))
        };
        make(&bulkheads, &pool);
        rival.join().unwrap();
        other.join().unwrap();
        assert!(bulkheads.iter().all(|(_, status)| status.in_flight() == 0), "nothing is left over");
    });
}

/// The queue gets shorter while a call ends, and while another comes.
///
/// The waiter that is displaced is woken, and no slot is lost. [A shorter queue that refuses none.]
#[test]
fn shorter_queue_wakes_the_displaced_waiter() {
    check(|| {
        let bulkhead = newest_first(1, 1);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let waiter = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || drop(bulkhead.acquire().wait()))
        };
        bulkhead.set_queue(0);
        waiter.join().unwrap();
        drop(permit);
        is_as_new(&bulkhead, 1);
    });
}

/// The queue gets a place while a call ends: the call that comes is served, in it or at once.
#[test]
fn longer_queue_loses_no_call() {
    check(|| {
        let bulkhead = bulkhead(1, 0);
        let permit = bulkhead.try_acquire_owned().unwrap();
        let caller = {
            let bulkhead = Arc::clone(&bulkhead);
            thread::spawn(move || bulkhead.acquire().wait().is_ok())
        };
        bulkhead.set_queue(1);
        drop(permit);
        let is_served = caller.join().unwrap();
        is_as_new(&bulkhead, 1);
        assert!(is_served || bulkhead.total_queued() == 0, "a call that has joined is served");
    });
}
