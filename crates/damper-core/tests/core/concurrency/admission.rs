//! Admission through its public API.

use crate::models::admission::{AdmissionModel, Call, Standing};
use crate::models::cases::cases;
use crate::models::falling::Falling;
use damper::AcquireFuture;
use damper::concurrency::{
    Admission, AdmissionPermit, AdmissionRequest, Criticality, FixedLimit, LimitBounds, LimitRule, NotAdmitted,
    RefusalCause, WindowPlan, WindowSummary,
};
use damper::time::Seed;
use damper::{Clock, Deadline, DeadlineExceeded, ManualClock};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Pending, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

type Manual = Arc<ManualClock>;
type Fixed = Admission<FixedLimit, Manual>;
type Held = AdmissionPermit<Arc<Fixed>>;
type Future = Pin<Box<AcquireFuture<Arc<Fixed>, fn(Duration) -> Pending<()>>>>;

const MS: Duration = Duration::from_millis(1);
const REQUEST: AdmissionRequest = AdmissionRequest::new();

fn gate(limit: u32, places: u16) -> (Arc<Fixed>, Manual) {
    let clock = Arc::new(ManualClock::new());
    let gate = Admission::fixed_with_clock(limit, Arc::clone(&clock)).queue(places).seed(Seed::new(1, 2));
    (Arc::new(gate), clock)
}

/// Counts the wake-ups of a call.
#[derive(Debug, Default)]
struct WakeUps(AtomicU32);

impl Wake for WakeUps {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A waker that panics.
struct Trap;

impl Wake for Trap {
    fn wake(self: Arc<Self>) {
        panic!("the waker panics");
    }
}

fn poll(future: &mut Future, waker: &Waker) -> Poll<Result<Held, NotAdmitted>> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// A call that is polled by hand and never sleeps.
fn future(gate: &Arc<Fixed>, request: AdmissionRequest) -> Future {
    Box::pin(gate.acquire_owned(request).sleeping_by(|_| pending()))
}

/// A call that is in the queue.
fn queued(gate: &Arc<Fixed>, request: AdmissionRequest) -> Future {
    let mut future = future(gate, request);
    assert!(poll(&mut future, Waker::noop()).is_pending());
    future
}

#[track_caller]
fn refused(mut future: Future) -> NotAdmitted {
    match poll(&mut future, Waker::noop()) {
        Poll::Ready(Err(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn granted(mut future: Future) -> Held {
    match poll(&mut future, Waker::noop()) {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("{other:?}"),
    }
}

/// A request whose deadline is this far ahead.
fn within(time: Duration, clock: &Manual) -> AdmissionRequest {
    REQUEST.by(&Deadline::with_clock(time, clock))
}

/// Makes calls that take this long, so that the gate learns their service time.
fn teach(gate: &Arc<Fixed>, clock: &Manual, time: Duration) {
    for _ in 0..200 {
        let permit = gate.try_acquire(REQUEST).unwrap();
        clock.advance(time);
        permit.success();
    }
}

/// A waiting call.
struct Waiting {
    name: usize,
    future: Future,
    wake_ups: Arc<WakeUps>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A call arrives with this many milliseconds left. It either waits or does not.
    Arrive {
        class: usize,
        tenant: u32,
        left: Option<u64>,
        waits: bool,
    },
    /// A waiting call is polled.
    Ask(usize),
    /// A waiting call is cancelled.
    GiveUp(usize),
    /// A call in flight ends, successfully or not.
    End(usize, bool),
    SetLimit(u32),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let left = prop_oneof![1 => Just(None), 1 => (0..12u64).prop_map(Some)];
    let arrive = (0..4usize, 0..4u32, left, prop::bool::weighted(0.8));
    let event = prop_oneof![
        9 => arrive.prop_map(|(class, tenant, left, waits)| Event::Arrive { class, tenant, left, waits }),
        4 => any::<usize>().prop_map(Event::Ask),
        2 => any::<usize>().prop_map(Event::GiveUp),
        5 => any::<(usize, bool)>().prop_map(|(by, is_success)| Event::End(by, is_success)),
        1 => (0..6u32).prop_map(Event::SetLimit),
        2 => (0..4u64).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..120)
}

/// Picks one of the items, if there are any.
fn one_of<T>(items: &[T], by: usize) -> Option<usize> {
    (!items.is_empty()).then(|| by % items.len())
}

proptest! {
    #![proptest_config(cases(400))]

    /// The gate admits, queues and refuses the calls that the model does.
    ///
    /// Calls of all classes and several tenants arrive, wait, become late, give up and end while the limit changes. The
    /// gate refuses for the model's reason, and wakes each waiter once, when its fate is decided.
    #[test]
    fn gate_decides_as_the_model(limit in 0..5u32, places in 0..6u16, events in events()) {
        let (gate, clock) = gate(limit, places);
        let mut model = AdmissionModel::new(limit, places.into());
        let (mut in_flight, mut waiting) = (Vec::new(), Vec::<Waiting>::new());
        for (name, event) in events.into_iter().enumerate() {
            let now = clock.now();
            let needed = || gate.median_service_time().map_or(0, |median| median.as_nanos() as u64);
            match event {
                Event::Arrive { class, tenant, left, waits } => {
                    let left = left.map(|left| MS * left as u32);
                    let mut request = REQUEST.criticality(Criticality::ALL[class]).tenant(&tenant);
                    if let Some(left) = left {
                        request = request.by(&Deadline::with_clock(left, &clock));
                    }
                    let deadline = left.map(|left| now + left.as_nanos() as u64);
                    let call = Call { name, class, tenant, deadline };
                    let mut future = future(&gate, request);
                    let wake_ups = Arc::new(WakeUps::default());
                    let standing = if waits { model.join(call, now, needed()) } else { model.try_acquire(&call, now) };
                    let poll = if waits {
                        poll(&mut future, &Waker::from(Arc::clone(&wake_ups)))
                    } else {
                        Poll::Ready(gate.try_acquire_owned(request))
                    };
                    match poll {
                        Poll::Pending => {
                            prop_assert_eq!(standing, Standing::Waiting);
                            waiting.push(Waiting { name, future, wake_ups });
                        }
                        Poll::Ready(Ok(permit)) => {
                            prop_assert_eq!(standing, Standing::Granted);
                            in_flight.push(permit);
                        }
                        Poll::Ready(Err(refused)) => prop_assert_eq!(standing, Standing::Refused(refused.cause())),
                    }
                }
                Event::Ask(by) => {
                    let Some(index) = one_of(&waiting, by) else { continue };
                    let call = &mut waiting[index];
                    let standing = model.ask(call.name, now, needed());
                    // A call that keeps waiting is woken by its new waker.
                    let wake_ups = Arc::new(WakeUps::default());
                    match poll(&mut call.future, &Waker::from(Arc::clone(&wake_ups))) {
                        Poll::Pending => {
                            prop_assert_eq!(standing, Standing::Waiting);
                            call.wake_ups = wake_ups;
                            continue;
                        }
                        Poll::Ready(Ok(permit)) => {
                            prop_assert_eq!(standing, Standing::Granted);
                            in_flight.push(permit);
                        }
                        Poll::Ready(Err(refused)) => prop_assert_eq!(standing, Standing::Refused(refused.cause())),
                    }
                    waiting.remove(index);
                }
                Event::GiveUp(by) => {
                    let Some(index) = one_of(&waiting, by) else { continue };
                    model.give_up(waiting.remove(index).name, now, needed());
                }
                Event::End(by, is_success) => {
                    let Some(index) = one_of(&in_flight, by) else { continue };
                    let permit: Held = in_flight.remove(index);
                    if is_success { permit.success() } else { permit.ignore() }
                    model.end(now, needed());
                }
                Event::SetLimit(limit) => {
                    gate.set_limit(limit);
                    model.set_limit(limit, now, needed());
                }
                Event::Pass(millis) => clock.advance(MS * millis as u32),
            }
            prop_assert_eq!([gate.limit(), gate.in_flight(), gate.queued()], model.counts());
            for class in Criticality::ALL {
                prop_assert_eq!(gate.queued_of(class), model.queued_of(class.class().into()));
            }
            for call in &waiting {
                let wake_ups = call.wake_ups.0.load(Ordering::Relaxed);
                prop_assert_eq!(wake_ups, u32::from(!model.is_undecided(call.name)), "a call is woken once, when it is decided");
            }
        }
        drop((in_flight, waiting));
        prop_assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
    }
}

#[test]
fn free_slot_is_taken_whoever_calls() {
    let (gate, clock) = gate(2, 8);
    let lowest = REQUEST.criticality(Criticality::Sheddable);
    let permits = [gate.try_acquire(lowest).unwrap(), gate.try_acquire(lowest).unwrap()];
    let refused = gate.try_acquire(REQUEST.criticality(Criticality::CriticalPlus)).unwrap_err();
    assert_eq!((refused.cause(), refused.limit()), (RefusalCause::NoSlot, 2));
    drop(permits);
    let late = gate.try_acquire(within(Duration::ZERO, &clock)).unwrap_err();
    assert_eq!(late.cause(), RefusalCause::Late);
    assert_eq!(gate.in_flight(), 0);
}

#[test]
fn highest_class_then_fewest_starts_then_newest_is_granted_first() {
    let (gate, _) = gate(2, 8);
    let of = |class: usize, tenant: u32| queued(&gate, REQUEST.criticality(Criticality::ALL[class]).tenant(&tenant));
    let mut permits = vec![gate.try_acquire_owned(REQUEST).unwrap(), gate.try_acquire_owned(REQUEST).unwrap()];
    let (first_of_one, second_of_one) = (of(1, 1), of(1, 1));
    drop(permits.pop());
    permits.push(granted(second_of_one));
    let of_two = of(1, 2);
    drop(permits.pop());
    // Tenant 1 has already had a slot.
    permits.push(granted(of_two));
    let top = of(0, 1);
    drop(permits.pop());
    permits.push(granted(top));
    drop(permits.pop());
    drop(granted(first_of_one));
}

#[test]
fn lowest_class_then_most_queued_then_oldest_is_displaced() {
    let (gate, _) = gate(3, 8);
    let permits = [(); 3].map(|()| gate.try_acquire(REQUEST).unwrap());
    let of = |class: usize, tenant: u32| future(&gate, REQUEST.criticality(Criticality::ALL[class]).tenant(&tenant));
    let wait = |mut call: Future| {
        assert!(poll(&mut call, Waker::noop()).is_pending());
        call
    };
    let (lonely, older, newer) = (wait(of(2, 1)), wait(of(2, 2)), wait(of(2, 2)));
    assert_eq!(refused(of(3, 9)).cause(), RefusalCause::QueueFull, "the newcomer has the lowest class");
    let third = wait(of(2, 1));
    assert_eq!(
        refused(lonely).cause(),
        RefusalCause::Displaced,
        "both tenants then have two calls, and this is the oldest"
    );
    let top = wait(of(0, 1));
    assert_eq!(refused(older).cause(), RefusalCause::Displaced, "its tenant has two calls queued");
    drop((newer, third, top, permits));
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
}

#[test]
fn queue_is_as_long_as_the_limit() {
    let (gate, _) = gate(4, 8);
    let permits = [(); 4].map(|()| gate.try_acquire(REQUEST).unwrap());
    let mut calls: Vec<_> = (0..4).map(|_| queued(&gate, REQUEST)).collect();
    let newest = queued(&gate, REQUEST);
    assert_eq!(gate.queued(), 4);
    gate.set_limit(2);
    assert_eq!(gate.queued(), 2);
    for oldest in calls.drain(..3) {
        assert_eq!(refused(oldest).cause(), RefusalCause::Displaced);
    }
    drop((newest, calls, permits));
}

#[test]
fn call_that_cannot_end_in_time_is_refused_where_others_wait() {
    let (gate, clock) = gate(2, 8);
    teach(&gate, &clock, 10 * MS);
    assert_eq!(gate.median_service_time(), Some(10 * MS));
    let (permit, other) = (gate.try_acquire(within(MS, &clock)).unwrap(), gate.try_acquire(REQUEST).unwrap());
    assert_eq!(refused(future(&gate, within(9 * MS, &clock))).cause(), RefusalCause::Late);
    let (soon, later) = (queued(&gate, within(12 * MS, &clock)), queued(&gate, within(30 * MS, &clock)));
    clock.advance(5 * MS);
    drop(permit);
    drop(granted(later));
    assert_eq!(refused(soon).cause(), RefusalCause::Late);
    drop(other);
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
}

/// A call can tell from its permit whether there is time for another attempt.
#[test]
fn permit_knows_the_service_time_of_its_gate() {
    let (gate, clock) = gate(2, 8);
    let early = gate.try_acquire(REQUEST).unwrap();
    assert_eq!(early.median_service_time(), None, "no call has ended yet");
    teach(&gate, &clock, 10 * MS);
    assert_eq!(early.median_service_time(), Some(10 * MS));
}

/// A service becomes slower than every deadline, so all calls fail.
#[test]
fn median_rises_while_every_call_is_ended_at_its_deadline() {
    let (gate, clock) = gate(2, 8);
    teach(&gate, &clock, 10 * MS);
    let ends = |after: Duration, calls: u32| {
        for _ in 0..calls {
            let permit = gate.try_acquire(REQUEST).unwrap();
            clock.advance(after);
            permit.overloaded();
        }
        gate.median_service_time()
    };
    assert_eq!(ends(MS, 300), Some(10 * MS), "an early failure is no sample");
    assert_eq!(ends(100 * MS, 300), Some(100 * MS), "a call ended at its deadline takes at least that long");
    let permits = [(); 2].map(|()| gate.try_acquire_owned(REQUEST).unwrap());
    let call = queued(&gate, within(115 * MS, &clock));
    clock.advance(100 * MS);
    drop(permits);
    assert_eq!(refused(call).cause(), RefusalCause::Late, "15 ms are left");
    assert_eq!(gate.in_flight(), 0);
}

/// After an incident the median exceeds every deadline.
///
/// Calls that find a free slot lower it again.
#[test]
fn median_longer_than_every_deadline_recovers() {
    let (gate, clock) = gate(4, 8);
    teach(&gate, &clock, Duration::from_secs(5));
    for _ in 0..300 {
        let mut calls: Vec<_> = (0..8).map(|_| future(&gate, within(100 * MS, &clock))).collect();
        let polls: Vec<_> = calls.iter_mut().map(|call| poll(call, Waker::noop())).collect();
        clock.advance(10 * MS);
        for poll in polls {
            if let Poll::Ready(Ok(permit)) = poll {
                permit.success();
            }
        }
    }
    assert_eq!(gate.median_service_time(), Some(10 * MS));
    let permits = [(); 4].map(|()| gate.try_acquire(REQUEST).unwrap());
    drop((queued(&gate, within(100 * MS, &clock)), permits));
}

#[test]
fn refusals_name_a_wait() {
    let (gate, clock) = gate(2, 2);
    let permits = [gate.try_acquire(REQUEST).unwrap(), gate.try_acquire(REQUEST).unwrap()];
    let unknown = gate.try_acquire(REQUEST).unwrap_err();
    assert_eq!((unknown.retry_after(), &*unknown.to_string()), (None, "not admitted, limit 2 reached"));
    drop(permits);
    teach(&gate, &clock, 100 * MS);
    let permits = [gate.try_acquire(REQUEST).unwrap(), gate.try_acquire(REQUEST).unwrap()];
    // A slot every 50 ms.
    let full = gate.try_acquire(REQUEST).unwrap_err();
    assert_eq!(
        (full.retry_after(), &*full.to_string()),
        (Some(50 * MS), "not admitted, limit 2 reached, retry in 50 ms")
    );
    let calls = [queued(&gate, REQUEST), queued(&gate, REQUEST)];
    let full = refused(future(&gate, REQUEST.criticality(Criticality::Sheddable)));
    assert_eq!(full.to_string(), "not admitted, limit 2 reached, queue full, retry in 150 ms");
    let late = gate.try_acquire(within(Duration::ZERO, &clock)).unwrap_err();
    assert_eq!(late.to_string(), "not admitted, too little time is left before its deadline");
    let newest = queued(&gate, REQUEST);
    let [oldest, other] = calls;
    assert_eq!(refused(oldest).to_string(), "not admitted, limit 2 reached, displaced from the queue, retry in 150 ms");
    drop((newest, other, permits));
    let (slow, clock) = self::gate(1, 1);
    teach(&slow, &clock, Duration::from_secs(600));
    let permit = slow.try_acquire(REQUEST).unwrap();
    let wait = slow.try_acquire(REQUEST).unwrap_err().retry_after();
    assert_eq!(wait, Some(Duration::from_secs(60)), "at most a minute");
    drop(permit);
}

#[test]
fn permit_has_the_deadline_of_the_request() {
    let (gate, clock) = gate(1, 1);
    let request =
        within(30 * MS, &clock).by(&Deadline::with_clock(20 * MS, &clock)).by(&Deadline::with_clock(40 * MS, &clock));
    let permit = gate.try_acquire(request).unwrap();
    clock.advance(5 * MS);
    assert_eq!((permit.deadline().specified(), permit.deadline().remaining()), (20 * MS, 15 * MS));
    drop(permit);
    assert!(gate.try_acquire(REQUEST.by(&Deadline::NEVER)).unwrap().deadline().is_never());
}

/// An error that is either the deadline's or the work's own.
#[derive(Debug, PartialEq)]
enum Failed {
    Exceeded(DeadlineExceeded),
    Work,
}

impl From<DeadlineExceeded> for Failed {
    fn from(exceeded: DeadlineExceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

#[test]
fn work_is_ended_at_its_deadline() {
    let (gate, clock) = gate(1, 1);
    let permit = gate.try_acquire_owned(within(30 * MS, &clock)).unwrap();
    let held = Arc::new(());
    let work = {
        let held = Arc::clone(&held);
        async move {
            let result = pending::<Result<(), Failed>>().await;
            drop(held);
            result
        }
    };
    let sleep = {
        let clock = Arc::clone(&clock);
        // The timer fires early.
        move |time: Duration| {
            clock.advance(time.min(7 * MS));
            ready(())
        }
    };
    let mut run = Box::pin(permit.run_sleeping_by(work, sleep));
    let exceeded = loop {
        match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => assert!(clock.now() < 30_000_000, "its deadline has passed"),
            Poll::Ready(Err(Failed::Exceeded(exceeded))) => break exceeded,
            Poll::Ready(result) => panic!("{result:?}"),
        }
    };
    assert_eq!((exceeded.specified(), exceeded.elapsed()), (30 * MS, 30 * MS));
    assert_eq!((gate.in_flight(), Arc::strong_count(&held)), (0, 1), "before the future is dropped");
    assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(gate.median_service_time(), None);
}

/// For example because the timer's clock is not the gate's.
#[test]
fn sleep_that_is_ready_at_once_does_not_hold_the_thread() {
    let (gate, clock) = gate(1, 4);
    let sleeps = Arc::new(AtomicU32::new(0));
    let sleep = || {
        let (sleeps, clock) = (Arc::clone(&sleeps), Arc::clone(&clock));
        move |_: Duration| {
            if sleeps.fetch_add(1, Ordering::Relaxed) == 1_000 {
                clock.advance(Duration::from_secs(1));
            }
            ready(())
        }
    };
    let wake_ups = Arc::new(WakeUps::default());
    let waker = Waker::from(Arc::clone(&wake_ups));
    let mut context = Context::from_waker(&waker);
    let permit = gate.try_acquire_owned(within(Duration::from_secs(1), &clock)).unwrap();
    let mut call = Box::pin(gate.acquire_owned(within(Duration::from_secs(1), &clock)).sleeping_by(sleep()));
    let mut work = Box::pin(permit.run_sleeping_by(pending::<Result<(), Failed>>(), sleep()));
    for poll in 1..=2 {
        assert!(call.as_mut().poll(&mut context).is_pending(), "poll returns");
        assert!(work.as_mut().poll(&mut context).is_pending(), "poll returns");
        assert_eq!(wake_ups.0.load(Ordering::Relaxed), 2 * poll, "and asks to be polled again");
    }
    assert!(sleeps.load(Ordering::Relaxed) <= 8);
}

#[test]
fn call_granted_but_polled_after_its_deadline_passes_its_slot_on() {
    let (gate, clock) = gate(2, 4);
    let (permit, other) = (gate.try_acquire(REQUEST).unwrap(), gate.try_acquire(REQUEST).unwrap());
    let behind = queued(&gate, REQUEST);
    let hasty = queued(&gate, within(100 * MS, &clock).criticality(Criticality::CriticalPlus));
    drop(permit);
    assert_eq!((gate.in_flight(), gate.queued()), (2, 1), "the slot went to the call of the higher class");
    clock.advance(100 * MS);
    assert_eq!(refused(hasty).cause(), RefusalCause::Late);
    drop((granted(behind), other));
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
}

#[test]
fn work_is_not_polled_after_its_deadline() {
    let (gate, clock) = gate(1, 1);
    let permit = gate.try_acquire_owned(within(30 * MS, &clock)).unwrap();
    clock.advance(30 * MS);
    let work = async { panic!("the work is polled after its deadline") };
    let mut run = Box::pin(permit.run_sleeping_by::<_, (), Failed, _>(work, |_| pending::<()>()));
    let result = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(result, Poll::Ready(Err(Failed::Exceeded(_)))), "{result:?}");
    assert_eq!((gate.in_flight(), gate.median_service_time()), (0, None));
}

/// The cause does not depend on when the caller polls the call.
#[test]
fn refused_call_keeps_the_cause_of_its_refusal() {
    let (gate, clock) = gate(1, 1);
    teach(&gate, &clock, 50 * MS);
    let permit = gate.try_acquire(REQUEST).unwrap();
    let displaced = queued(&gate, within(100 * MS, &clock));
    let late = queued(&gate, within(110 * MS, &clock));
    clock.advance(61 * MS);
    drop(permit);
    let displaced = refused(displaced);
    assert_eq!(displaced.cause(), RefusalCause::Displaced, "it was displaced before it became late");
    assert!(displaced.retry_after().is_some());
    teach(&gate, &clock, Duration::from_nanos(1));
    let late = refused(late);
    assert_eq!((late.cause(), late.retry_after()), (RefusalCause::Late, None), "it was late when it was refused");
}

/// A call with a longest wait but no deadline is queued even if calls take longer than that.
#[test]
fn call_waits_for_its_longest_wait() {
    let (gate, clock) = gate(1, 1);
    teach(&gate, &clock, 50 * MS);
    let permit = gate.try_acquire(REQUEST).unwrap();
    let mut waiting = queued(&gate, REQUEST.wait_at_most(20 * MS));
    clock.advance(19 * MS);
    assert!(poll(&mut waiting, Waker::noop()).is_pending());
    clock.advance(MS);
    let timed_out = refused(waiting);
    assert_eq!((timed_out.cause(), gate.queued(), gate.in_flight()), (RefusalCause::TimedOut, 0, 1));
    let estimate = timed_out.retry_after().expect("the gate knows how long calls take");
    let message = timed_out.to_string();
    assert!(message.starts_with("not admitted, limit 1 reached, no slot in time, retry in "), "{message} {estimate:?}");
    let refused_at_once = refused(future(&gate, REQUEST.wait_at_most(Duration::ZERO)));
    assert_eq!(refused_at_once.cause(), RefusalCause::TimedOut);
    // A deadline still applies.
    let late = refused(future(&gate, within(40 * MS, &clock).wait_at_most(20 * MS)));
    assert_eq!(late.cause(), RefusalCause::Late);
    // A slot that was granted in time is kept, however late the call is polled.
    let waiting = queued(&gate, REQUEST.wait_at_most(20 * MS));
    drop(permit);
    clock.advance(60 * MS);
    drop(granted(waiting));
    assert_eq!((gate.queued(), gate.in_flight()), (0, 0));
}

#[test]
fn blocked_thread_waits_for_its_longest_wait() {
    let gate = Admission::fixed(1);
    let _permit = gate.try_acquire(REQUEST).unwrap();
    let refused = gate.acquire(REQUEST.wait_at_most(5 * MS)).wait().unwrap_err();
    assert_eq!((refused.cause(), gate.queued()), (RefusalCause::TimedOut, 0));
}

#[test]
fn gate_without_a_queue_has_no_slot() {
    for (limit, places) in [(1, 0), (0, 4)] {
        let (gate, _) = gate(limit, places);
        let _permit = gate.try_acquire(REQUEST);
        let refused = refused(future(&gate, REQUEST));
        assert_eq!(refused.cause(), RefusalCause::NoSlot, "limit {limit}, {places} places");
    }
}

/// Granted calls that were not polled since keep their places: half of the queue or more.
#[test]
fn lower_class_is_displaced_where_granted_calls_fill_the_queue() {
    for more in [0, 1] {
        let (gate, _) = gate(8, 4);
        let low = || queued(&gate, REQUEST.criticality(Criticality::Sheddable));
        let mut permits: Vec<_> = (0..8).map(|_| gate.try_acquire(REQUEST).unwrap()).collect();
        let granted: Vec<_> = (0..4).map(|_| low()).collect();
        permits.truncate(4);
        let mut waiting: Vec<_> = (0..4).map(|_| low()).collect();
        permits.truncate(4 - more);
        let queued_before = gate.queued();
        assert_eq!((gate.in_flight(), queued_before), (8, 4 - more as u32));
        let top = queued(&gate, REQUEST.criticality(Criticality::CriticalPlus));
        assert_eq!((gate.queued_of(Criticality::CriticalPlus), gate.queued()), (1, queued_before));
        assert_eq!(refused(waiting.remove(0)).cause(), RefusalCause::Displaced);
        drop((top, granted, waiting, permits));
        assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
    }
}

#[test]
fn work_that_ends_in_time_is_a_sample_if_it_succeeds() {
    let (gate, clock) = gate(1, 1);
    let run = |outcome: Result<u32, Failed>| {
        let permit = gate.try_acquire_owned(within(30 * MS, &clock)).unwrap();
        clock.advance(3 * MS);
        let mut run = Box::pin(permit.run_sleeping_by(ready(outcome), |_| pending::<()>()));
        run.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
    assert_eq!(run(Err(Failed::Work)), Poll::Ready(Err(Failed::Work)));
    assert_eq!((gate.in_flight(), gate.median_service_time()), (0, None));
    assert_eq!(run(Ok(7)), Poll::Ready(Ok(7)));
    assert_eq!((gate.in_flight(), gate.median_service_time()), (0, Some(3 * MS)));
}

/// A limit that follows the service is raised while calls succeed, and shrinks when work is ended.
#[test]
fn adaptive_limit_follows_the_calls() {
    let clock = Arc::new(ManualClock::new());
    let bounds = LimitBounds::new(1, 100).unwrap();
    let gate = Arc::new(Admission::with_clock(bounds, Arc::clone(&clock)));
    let turn = |is_overloaded: bool| {
        for _ in 0..1_000 {
            let permits: Vec<_> = std::iter::from_fn(|| gate.try_acquire(REQUEST).ok()).collect();
            clock.advance(10 * MS);
            for permit in permits {
                if is_overloaded { permit.overloaded() } else { permit.success() }
            }
        }
    };
    turn(false);
    let risen = gate.limit();
    assert!(risen > 20 && gate.baseline().is_some(), "{risen}");
    turn(true);
    assert!(gate.limit() < risen / 2, "{} after {risen}", gate.limit());
}

/// Many calls wait and no new ones arrive. Each completion starts the next one.
#[test]
fn calls_from_the_queue_count_towards_reaching_the_limit() {
    let clock = Arc::new(ManualClock::new());
    let gate = Admission::with_clock(LimitBounds::DEFAULT, Arc::clone(&clock));
    let mut context = Context::from_waker(Waker::noop());
    // The queue is as long as the limit. The first calls find free slots.
    let mut permits: VecDeque<_> = (0..20).map(|_| gate.try_acquire(REQUEST).unwrap()).collect();
    for _ in 0..50 {
        let sleep = |_| pending::<()>();
        let mut waiting: Vec<_> = (0..20).map(|_| Box::pin(gate.acquire(REQUEST).sleeping_by(sleep))).collect();
        while !waiting.is_empty() {
            waiting.retain_mut(|call| match call.as_mut().poll(&mut context) {
                Poll::Ready(Ok(permit)) => {
                    permits.push_back(permit);
                    false
                }
                Poll::Ready(Err(_)) => false,
                Poll::Pending => true,
            });
            clock.advance(10 * MS);
            permits.drain(..).for_each(AdmissionPermit::overloaded);
        }
    }
    assert!(gate.limit() < 20, "all calls were overloaded: {gate:?}");
}

/// A limit of 2, then of 200 if the window was full, else of 100.
#[derive(Clone, Copy, Debug)]
struct ByFullness;

impl LimitRule for ByFullness {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(2) }
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        WindowPlan::new(if window.is_full(2) { 200 } else { 100 })
    }
}

/// Returns the limit after a window that was full or not.
///
/// It begins with the end of a call, whose slot goes to a queued one, and ends with that of another call. Meanwhile a newcomer may be refused, and the queued call may be polled.
fn limit_after_a_window(is_refused: bool, is_polled: bool) -> u32 {
    let clock = Arc::new(ManualClock::new());
    let gate = Arc::new(Admission::with_rule(ByFullness, Arc::clone(&clock)));
    let [first, second] = [(); 2].map(|()| gate.try_acquire(REQUEST).unwrap());
    let mut queued = Box::pin(gate.acquire(REQUEST).sleeping_by(|_| pending::<()>()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(queued.as_mut().poll(&mut context).is_pending());
    clock.advance(MS);
    first.success();
    assert_eq!((gate.in_flight(), gate.queued()), (2, 0), "the slot was granted");
    if is_refused {
        assert!(gate.try_acquire(REQUEST).is_err());
    }
    let polled = is_polled.then(|| queued.as_mut().poll(&mut context));
    clock.advance(MS);
    second.success();
    drop(polled);
    gate.limit()
}

#[test]
fn window_is_full_if_a_call_was_refused_or_had_to_wait() {
    assert_eq!(limit_after_a_window(false, false), 100, "nothing has found the limit reached");
    assert_eq!(limit_after_a_window(true, false), 200, "a call was refused");
    assert_eq!(limit_after_a_window(false, true), 200, "a call had to wait");
}

/// A call that can't end in time any more is refused then, not at its deadline.
#[test]
fn queued_call_sleeps_until_it_is_too_late_to_begin() {
    let (gate, clock) = gate(1, 4);
    teach(&gate, &clock, 50 * MS);
    let until_late = (200 * MS).checked_sub(gate.median_service_time().unwrap()).unwrap();
    let _permit = gate.try_acquire(REQUEST).unwrap();
    let slept = Arc::new(Mutex::new(Vec::new()));
    let sleep = {
        let slept = Arc::clone(&slept);
        move |time| {
            slept.lock().unwrap().push(time);
            pending::<()>()
        }
    };
    let mut call = Box::pin(gate.acquire(within(200 * MS, &clock)).sleeping_by(sleep));
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(*slept.lock().unwrap(), [until_late]);
    clock.advance(until_late);
    let Poll::Ready(Err(late)) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it is too late")
    };
    assert_eq!(late.cause(), RefusalCause::Late);
}

/// A waker that panics loses no slot, and the others are woken.
#[test]
fn panicking_waker_loses_no_slot() {
    let (gate, _) = gate(4, 8);
    let permits = [(); 4].map(|()| gate.try_acquire_owned(REQUEST).unwrap());
    let trap = Waker::from(Arc::new(Trap));
    let wake_ups = Arc::new(WakeUps::default());
    let mut calls: Vec<_> = (0..4).map(|_| future(&gate, REQUEST)).collect();
    for (call, waker) in calls.iter_mut().zip([&trap, &Waker::from(Arc::clone(&wake_ups)), &trap, &trap]) {
        assert!(poll(call, waker).is_pending());
    }
    gate.set_limit(4);
    assert!(catch_unwind(AssertUnwindSafe(|| gate.set_limit(5))).is_err(), "the newest call's");
    // A newcomer displaces a call whose waker panics. The newcomer's place is freed.
    let calls_before = gate.queued();
    let mut newcomers: Vec<_> = (0..6).map(|_| future(&gate, REQUEST)).collect();
    let panics = newcomers
        .iter_mut()
        .filter_map(|call| catch_unwind(AssertUnwindSafe(|| drop(poll(call, Waker::noop())))).err());
    assert!(panics.count() > 0 && calls_before == 3);
    drop((newcomers, calls, permits));
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
    gate.set_limit(2);
    assert!(gate.try_acquire(REQUEST).is_ok());
}

#[test]
fn other_calls_are_woken_when_one_waker_panics() {
    let (gate, _) = gate(0, 8);
    gate.set_limit(3);
    let permits = [(); 3].map(|()| gate.try_acquire_owned(REQUEST).unwrap());
    let wake_ups = Arc::new(WakeUps::default());
    let waker = Waker::from(Arc::clone(&wake_ups));
    let mut calls: Vec<_> = (0..3).map(|_| future(&gate, REQUEST)).collect();
    let trap = Waker::from(Arc::new(Trap));
    for (call, waker) in calls.iter_mut().zip([&waker, &waker, &trap]) {
        assert!(poll(call, waker).is_pending());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| gate.set_limit(6))).is_err());
    assert_eq!((gate.in_flight(), wake_ups.0.load(Ordering::Relaxed)), (6, 2));
    drop((calls, permits));
    assert_eq!(gate.in_flight(), 0);
}

/// Polls a call when it is woken.
struct Polls(Mutex<Option<Future>>);

impl Wake for Polls {
    fn wake(self: Arc<Self>) {
        let mut call = self.0.lock().unwrap().take().expect("it is woken once");
        drop(poll(&mut call, Waker::noop()));
    }
}

/// Panics when its last copy is dropped.
struct DropTrap;

impl Wake for DropTrap {
    fn wake(self: Arc<Self>) {}
}

impl Drop for DropTrap {
    fn drop(&mut self) {
        panic!("a waker panics");
    }
}

/// A granted call is polled before its wake-up, and its waker panics when it is dropped.
#[test]
fn granted_call_that_a_waker_unwinds_frees_its_slot() {
    let (gate, _) = gate(1, 2);
    gate.set_limit(2);
    let permits = [(); 2].map(|()| gate.try_acquire_owned(REQUEST).unwrap());
    let polls = Arc::new(Polls(Mutex::default()));
    let mut calls = [future(&gate, REQUEST), future(&gate, REQUEST)];
    // The newest call is woken first.
    assert!(poll(&mut calls[0], &Waker::from(Arc::new(DropTrap))).is_pending());
    assert!(poll(&mut calls[1], &Waker::from(Arc::clone(&polls))).is_pending());
    let [trapped, other] = calls;
    *polls.0.lock().unwrap() = Some(trapped);
    assert!(catch_unwind(AssertUnwindSafe(|| gate.set_limit(4))).is_err());
    drop((other, permits));
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
}

/// With so many tenants some share a group of counters.
#[test]
fn more_tenants_than_counters_are_served() {
    let (gate, _) = gate(2_000, 2_000);
    let permits: Vec<_> = (0..2_000).map(|_| gate.try_acquire_owned(REQUEST).unwrap()).collect();
    let calls: Vec<_> = (0..2_000).map(|tenant| queued(&gate, REQUEST.tenant(&tenant))).collect();
    drop(permits);
    assert_eq!((gate.in_flight(), gate.queued()), (2_000, 0));
    drop(calls);
    assert_eq!(gate.in_flight(), 0);
}

/// A queue is as long as the limit, so it has a place for each other thread, and no call is refused.
#[test]
fn blocked_threads_are_served_and_never_exceed_the_limit() {
    const LIMIT: u32 = 4;
    const THREADS: u32 = 2 * LIMIT;
    let (gate, _) = gate(LIMIT, 64);
    let (inside, start) = (AtomicU32::new(0), Barrier::new(THREADS as usize));
    thread::scope(|scope| {
        for tenant in 0..THREADS {
            let (gate, inside, start) = (&gate, &inside, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..200 {
                    let class = Criticality::ALL[(tenant + round) as usize % 4];
                    let permit = gate.acquire(REQUEST.criticality(class).tenant(&tenant)).wait().unwrap();
                    assert!(inside.fetch_add(1, Ordering::Relaxed) < LIMIT);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::Relaxed);
                    permit.success();
                }
            });
        }
    });
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
}

#[test]
fn blocked_thread_gives_up_at_its_deadline() {
    let gate = Admission::fixed(1);
    let _permit = gate.try_acquire(REQUEST).unwrap();
    let refused = gate.acquire(REQUEST.by(&Deadline::after(20 * MS))).wait().unwrap_err();
    assert_eq!((refused.cause(), gate.queued()), (RefusalCause::Late, 0));
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn future_gives_up_at_its_deadline_and_work_is_ended() {
    let gate = Arc::new(Admission::fixed(1));
    let permit = gate.acquire(REQUEST.by(&Deadline::after(200 * MS))).await.unwrap();
    let waiter = tokio::spawn(gate.acquire_owned(REQUEST.by(&Deadline::after(20 * MS))).into_future());
    let refused = waiter.await.unwrap().unwrap_err();
    assert_eq!((refused.cause(), gate.in_flight(), gate.queued()), (RefusalCause::Late, 1, 0));
    assert!(permit.run(pending::<Result<(), DeadlineExceeded>>()).await.is_err());
    assert_eq!(gate.in_flight(), 0);
}

/// Twelve calls hold their slots for good, and the others fill a limit of 20, which a probe halves.
#[test]
fn gate_serves_on_beside_calls_that_never_end() {
    let clock = ManualClock::new();
    let gate = Admission::with_clock(LimitBounds::new(1, 20).unwrap(), &clock);
    let held: Vec<_> = (0..12).map(|_| gate.try_acquire(REQUEST).unwrap()).collect();
    let (mut lowest, mut idle) = (20, 0);
    for _ in 0..60_000 / 14 {
        let permits: Vec<_> = std::iter::from_fn(|| gate.try_acquire(REQUEST).ok()).collect();
        idle = if permits.is_empty() { idle + 14 } else { 0 };
        assert!(idle <= 11_000, "no call was served for {idle} ms at a limit of {}", gate.limit());
        lowest = lowest.min(gate.limit());
        clock.advance(14 * MS);
        permits.into_iter().for_each(AdmissionPermit::success);
    }
    assert!(lowest <= 12, "there was no probe");
    drop(held);
}

/// Calls end without an outcome before, which raises no limit.
#[test]
fn queued_calls_notice_that_no_call_ends() {
    let clock = ManualClock::new();
    let gate = Admission::with_rule(Falling, &clock).queue(4);
    gate.try_acquire(REQUEST).unwrap().success();
    gate.try_acquire(REQUEST).unwrap().success();
    for second in 0..20 {
        let permit = gate.try_acquire(REQUEST).unwrap();
        assert!(gate.try_acquire(REQUEST).is_err(), "raised after {second} s");
        clock.advance(1_000 * MS);
        drop(permit);
    }
    let held = gate.try_acquire(REQUEST).unwrap();
    let slept = Cell::new(Duration::ZERO);
    let sleep = |time| {
        slept.set(time);
        pending::<()>()
    };
    let mut context = Context::from_waker(Waker::noop());
    let mut call = Box::pin(gate.acquire(REQUEST).sleeping_by(sleep));
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert_eq!(slept.get(), 10_000 * MS);
    clock.advance(slept.get());
    // This wakes it.
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert!(call.as_mut().poll(&mut context).is_ready());
    assert_eq!((gate.limit(), gate.queued()), (2, 0));
    drop(held);
}

/// A clock that is a tick earlier with every reading.
struct Backwards(AtomicU32);

impl Clock for Backwards {
    fn now(&self) -> u64 {
        self.0.fetch_sub(1, Ordering::Relaxed).into()
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

#[test]
fn call_without_time_left_is_refused_though_the_clock_steps_back() {
    let gate = Admission::fixed_with_clock(1, Backwards(AtomicU32::new(1_000)));
    let late = REQUEST.by(&Deadline::with_clock(Duration::ZERO, &ManualClock::new()));
    let refused = gate.try_acquire(late).map(drop).unwrap_err();
    assert_eq!(refused.cause(), RefusalCause::Late);
}

#[test]
fn bounds_of_an_adaptive_gate_change_while_it_is_used() {
    let gate = Admission::new(LimitBounds::new(1, 100).unwrap());
    assert_eq!(gate.limit(), 20);
    gate.set_bounds(LimitBounds::new(1, 1).unwrap());
    let permit = gate.try_acquire(AdmissionRequest::new()).unwrap();
    assert!(gate.try_acquire(AdmissionRequest::new()).is_err());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| gate.acquire(AdmissionRequest::new()).wait().is_ok());
        while gate.queued() == 0 {
            thread::yield_now();
        }
        gate.set_bounds(LimitBounds::new(2, 3).unwrap());
        assert!(waiting.join().unwrap());
    });
    drop(permit);
}
