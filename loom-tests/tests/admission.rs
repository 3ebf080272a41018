//! Admission: slots that threads race for, and a queue of classes.
//!
//! Queued calls wait, become late, give way and give up. In brackets: the weakening of the code under which each model
//! was seen to fail, all of them in `weakenings/admission`.
#![cfg(loom)]

use damper_core::AcquireFuture;
use damper_core::concurrency::{
    Admission, AdmissionPermit, AdmissionRequest, Criticality, FixedLimit, NotAdmitted, RefusalCause,
};
use damper_core::time::Seed;
use damper_core::{Clock, Deadline};
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

type Gate<C> = Arc<Admission<FixedLimit, C>>;
type Permit<C> = AdmissionPermit<Gate<C>>;
type Call<C> = Pin<Box<AcquireFuture<Gate<C>, fn(Duration) -> Pending<()>>>>;

const REQUEST: AdmissionRequest = AdmissionRequest::new();
const TOP: AdmissionRequest = REQUEST.criticality(Criticality::CriticalPlus);
const LOW: AdmissionRequest = REQUEST.criticality(Criticality::Sheddable);

fn gate(limit: u32, places: u16) -> Gate<Stopped> {
    Arc::new(Admission::fixed_with_clock(limit, Stopped(7)).queue(places).seed(Seed::new(1, 2)))
}

/// A call that nothing wakes: it learns its fate when it is polled.
fn call<C: Clock>(gate: &Gate<C>, request: AdmissionRequest) -> Call<C> {
    Box::pin(gate.acquire_owned(request).sleeping_by(|_| pending()))
}

fn poll<C: Clock>(call: &mut Call<C>) -> Poll<Result<Permit<C>, NotAdmitted>> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A call that is in the queue.
fn queued<C: Clock>(gate: &Gate<C>, request: AdmissionRequest) -> Call<C> {
    let mut call = call(gate, request);
    assert!(poll(&mut call).is_pending());
    call
}

/// A thread that blocks until its call is admitted.
fn blocked(gate: &Gate<Stopped>, request: AdmissionRequest) -> thread::JoinHandle<Result<(), NotAdmitted>> {
    let gate = Arc::clone(gate);
    thread::spawn(move || gate.acquire(request).wait().map(drop))
}

/// Wakes a thread.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Blocks until a call has learnt its fate.
fn block_on(mut call: Call<Stopped>) -> Result<Permit<Stopped>, NotAdmitted> {
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
fn granted<C: Clock>(mut call: Call<C>) -> Permit<C> {
    match poll(&mut call) {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("a slot was free for the call, and it is {other:?}"),
    }
}

#[track_caller]
fn is_as_new<C>(gate: &Admission<FixedLimit, C>, limit: u32) {
    assert_eq!((gate.limit(), gate.in_flight(), gate.queued()), (limit, 0, 0), "nothing is left over");
}

/// Three threads race for a slot. [None of admission's own: the word is that of a bulkhead.]
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
    let gate = gate(1, 0);
    let calls = Arc::new(AtomicU32::new(0));
    let make = |gate: &Gate<Stopped>, calls: &AtomicU32| {
        if let Ok(_permit) = gate.try_acquire(REQUEST) {
            assert!(calls.fetch_add(1, Ordering::Relaxed) < 1, "no more calls than slots");
            calls.fetch_sub(1, Ordering::Relaxed);
        }
    };
    let rivals = [(); 2].map(|()| {
        let (gate, calls) = (Arc::clone(&gate), Arc::clone(&calls));
        thread::spawn(move || make(&gate, &calls))
    });
    make(&gate, &calls);
    for rival in rivals {
        rival.join().unwrap();
    }
    is_as_new(&gate, 1);
}

/// A thread blocks for the slot of a call that ends: it is woken, whatever it was about to do.
///
/// [A call that queues without another look at the word; a slot freed past the queue; a grant without a wake-up;
/// wake-ups counted after the look.]
#[test]
fn end_of_a_call_wakes_a_waiter() {
    check(|| {
        let gate = gate(1, 1);
        let permit = gate.try_acquire_owned(REQUEST).unwrap();
        let waiter = blocked(&gate, REQUEST);
        drop(permit);
        waiter.join().unwrap().unwrap();
        is_as_new(&gate, 1);
    });
}

/// The same for a call in a future, whose waker changes while it is granted. [An earlier waker kept.]
#[test]
fn end_of_a_call_wakes_the_newest_waker() {
    check(|| {
        let gate = gate(1, 1);
        let permit = gate.try_acquire_owned(REQUEST).unwrap();
        let call = queued(&gate, REQUEST);
        let waiter = thread::spawn(move || drop(block_on(call).unwrap()));
        drop(permit);
        waiter.join().unwrap();
        is_as_new(&gate, 1);
    });
}

/// The limit is raised while a thread blocks: it is woken. [A change that grants nothing.]
#[test]
fn higher_limit_wakes_a_waiter() {
    check(|| {
        let gate = gate(1, 1);
        let permit = gate.try_acquire_owned(REQUEST).unwrap();
        let waiter = blocked(&gate, REQUEST);
        gate.set_limit(2);
        waiter.join().unwrap().unwrap();
        drop(permit);
        is_as_new(&gate, 2);
    });
}

/// The limit and the queue become smaller while a thread blocks and a slot is freed.
///
/// The thread has a permit or is refused.
///
/// [A queue that stays as long as it was.]
#[test]
fn smaller_queue_refuses_the_waiter_it_has_no_place_for() {
    check_preemptions(3, || {
        let gate = gate(2, 2);
        let permits = [(); 2].map(|()| gate.try_acquire_owned(REQUEST).unwrap());
        let low = blocked(&gate, LOW);
        let top = queued(&gate, TOP);
        gate.set_limit(1);
        assert!(gate.queued() <= 1, "the queue is as long as the limit");
        drop(permits);
        // The higher class goes first, unless the thread came when the queue was empty.
        let top = granted(top);
        drop(top);
        let _either = low.join().unwrap();
        is_as_new(&gate, 1);
    });
}

/// A slot is freed for a queued call, and another thread comes for it: it does not get it.
///
/// [A slot freed in one swap, and granted in another.]
#[test]
fn newcomers_never_overtake_queued_calls() {
    check(|| {
        let gate = gate(1, 2);
        let permit = gate.try_acquire_owned(REQUEST).unwrap();
        let call = queued(&gate, LOW);
        let newcomer = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.try_acquire_owned(TOP).is_ok())
        };
        drop(permit);
        assert!(!newcomer.join().unwrap(), "the slot is that of the queued call");
        drop(granted(call));
        is_as_new(&gate, 1);
    });
}

/// Two permits are dropped by two threads, while two calls wait: both get a slot.
///
/// [A call that queues without another look.]
#[test]
fn permits_dropped_in_any_order_serve_all_waiters() {
    check(|| {
        let gate = gate(2, 2);
        let permits = [(); 2].map(|()| gate.try_acquire_owned(REQUEST).unwrap());
        let calls = [LOW, TOP].map(|request| queued(&gate, request));
        for thread in permits.map(|permit| thread::spawn(move || drop(permit))) {
            thread.join().unwrap();
        }
        drop(calls.map(granted));
        is_as_new(&gate, 2);
    });
}

/// A slot is freed while the call that is next gives up.
///
/// The one behind it gets the slot, whether that was granted to the first or not.
///
/// [A granted slot that is not passed on; a call that gives up without leaving the word's count.]
#[test]
fn cancelled_waiter_passes_its_slot_on() {
    check_preemptions(3, || {
        let gate = gate(2, 2);
        let permit = gate.try_acquire_owned(REQUEST).unwrap();
        let other = gate.try_acquire_owned(REQUEST).unwrap();
        let first = queued(&gate, TOP);
        let waiter = blocked(&gate, REQUEST);
        let quitter = thread::spawn(move || drop(first));
        drop(permit);
        quitter.join().unwrap();
        waiter.join().unwrap().unwrap();
        drop(other);
        is_as_new(&gate, 2);
    });
}

/// The time of the next call passes while a slot is freed, before or after it is granted the slot.
///
/// The call behind it gets that.
///
/// [A late call that is granted a slot; one that uses the slot it was granted in time; one that does not pass it on.]
#[test]
fn slot_goes_to_a_call_that_still_has_time() {
    check(|| {
        let time = Time::at(7);
        let gate = Arc::new(Admission::fixed_with_clock(2, time.clone()).queue(2).seed(Seed::new(1, 2)));
        let permit = gate.try_acquire_owned(REQUEST).unwrap();
        let other = gate.try_acquire_owned(REQUEST).unwrap();
        let mut hasty = queued(&gate, TOP.by(&Deadline::with_clock(Duration::from_secs(1), &time)));
        let patient = queued(&gate, REQUEST);
        let passing = {
            let time = time.clone();
            thread::spawn(move || time.advance(Duration::from_secs(1)))
        };
        let is_late = time.now() > 7;
        drop(permit);
        assert!(!is_late || gate.queued() == 0, "no slot is given to a call that is late");
        passing.join().unwrap();
        match poll(&mut hasty) {
            Poll::Ready(Err(refused)) => assert_eq!(refused.cause(), RefusalCause::Late),
            Poll::Ready(Ok(_)) => panic!("no slot is used by a call that is late"),
            Poll::Pending => panic!("its time is over"),
        }
        drop(granted(patient));
        drop(other);
        is_as_new(&gate, 2);
    });
}

/// A call of a higher class takes the place of a thread that blocks.
///
/// The thread is refused, while no other call ends.
///
/// [A displaced call that is not woken.]
#[test]
fn displaced_waiter_is_woken() {
    check(|| {
        let gate = gate(1, 1);
        let permit = gate.try_acquire_owned(REQUEST).unwrap();
        let low = blocked(&gate, LOW);
        let top = queued(&gate, TOP);
        let refused = low.join().unwrap().unwrap_err();
        assert!(matches!(refused.cause(), RefusalCause::Displaced | RefusalCause::QueueFull));
        drop(permit);
        drop(granted(top));
        is_as_new(&gate, 1);
    });
}

/// Two threads end calls.
///
/// The first one's long call does not bring the median back that there was before the other one's two short calls.
///
/// [A median that is stored and not swapped.]
// WORD: The median of an admission's calls
#[test]
fn slow_thread_does_not_undo_what_others_have_learnt() {
    check(|| {
        let time = Time::at(0);
        let gate = Arc::new(Admission::fixed_with_clock(4, time.clone()).queue(0).seed(Seed::new(1, 2)));
        let admit = |wait: u64| {
            let permit = gate.try_acquire_owned(REQUEST).unwrap();
            time.advance(Duration::from_nanos(wait));
            permit
        };
        let (long, first, short, other_short) = (admit(1_000), admit(990), admit(0), admit(10));
        first.success();
        assert_eq!(gate.median_service_time(), Some(Duration::from_nanos(1_000)));
        let rival = thread::spawn(move || long.success());
        short.success();
        other_short.success();
        rival.join().unwrap();
        let median = gate.median_service_time().unwrap();
        assert!(median <= Duration::from_nanos(1_000), "the short calls are forgotten: {median:?}");
    });
}

/// A call ends while another one takes its slot from the queue.
///
/// [None of admission's own: the orderings are those of a bulkhead's word.]
#[test]
fn queued_permit_sees_what_was_done_under_the_one_before() {
    check(|| {
        let gate = gate(1, 1);
        let written = Arc::new(AtomicU32::new(0));
        let permit = gate.try_acquire_owned(REQUEST).unwrap();
        let waiter = {
            let (gate, written) = (Arc::clone(&gate), Arc::clone(&written));
            thread::spawn(move || {
                let _permit = gate.acquire(REQUEST).wait().unwrap();
                assert_eq!(written.load(Ordering::Relaxed), 1, "what was written before is seen");
            })
        };
        written.store(1, Ordering::Relaxed);
        drop(permit);
        waiter.join().unwrap();
    });
}
