//! Bulkheads through their public API.

use crate::models::bulkhead::{BulkheadModel, Standing};
use crate::models::cases::cases;
use damper::AcquireFuture;
use damper::concurrency::{BulkheadPermit, RefusalCause};
use damper::{Bulkhead, BulkheadFull, CallError, Clock, Deadline, ManualClock};
use proptest::prelude::*;
use std::future::{Pending, Ready, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

type Manual = Arc<ManualClock>;
type Held = BulkheadPermit<Arc<Bulkhead<Manual>>>;
type Future = Pin<Box<AcquireFuture<Arc<Bulkhead<Manual>>, fn(Duration) -> Pending<()>>>>;

const SECOND: Duration = Duration::from_secs(1);

fn on_manual_clock(limit: u32, places: u16) -> (Arc<Bulkhead<Manual>>, Manual) {
    let clock = Arc::new(ManualClock::new());
    (Arc::new(Bulkhead::with_clock(limit, Arc::clone(&clock)).queue(places)), clock)
}

/// Counts the wake-ups of a call.
#[derive(Debug, Default)]
struct WakeUps(AtomicU32);

impl Wake for WakeUps {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll(future: &mut Future, waker: &Waker) -> Poll<Result<Held, BulkheadFull>> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// A call that is polled by hand and never sleeps.
fn future(bulkhead: &Arc<Bulkhead<Manual>>, longest: Option<Duration>) -> Future {
    let acquire = bulkhead.acquire_owned();
    let acquire = match longest {
        Some(longest) => acquire.within(longest),
        None => acquire,
    };
    Box::pin(acquire.sleeping_by(|_| pending()))
}

/// A waiting call.
struct Waiting {
    name: usize,
    future: Future,
    wake_ups: Arc<WakeUps>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    TryAcquire,
    /// A call arrives, and waits for at most this many seconds.
    Arrive(Option<u64>),
    /// A waiting call is polled.
    Ask(usize),
    /// A waiting call is cancelled.
    GiveUp(usize),
    /// A call in flight ends.
    End(usize),
    SetLimit(u32),
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let longest = prop_oneof![2 => Just(None), 1 => (0..6u64).prop_map(Some)];
    let event = prop_oneof![
        2 => Just(Event::TryAcquire),
        6 => longest.prop_map(Event::Arrive),
        4 => any::<usize>().prop_map(Event::Ask),
        2 => any::<usize>().prop_map(Event::GiveUp),
        4 => any::<usize>().prop_map(Event::End),
        1 => (0..5u32).prop_map(Event::SetLimit),
        2 => (0..4u64).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..80)
}

/// Picks one of the items, if there are any.
fn one_of<T>(items: &[T], by: usize) -> Option<usize> {
    (!items.is_empty()).then(|| by % items.len())
}

proptest! {
    #![proptest_config(cases(400))]

    /// The bulkhead admits, queues and refuses the calls that the model does.
    ///
    /// Calls arrive, wait, time out, give up and end while the limit changes. The bulkhead refuses for the model's
    /// reason, and wakes each waiter once, when its fate is decided.
    #[test]
    fn bulkhead_decides_as_the_model(limit in 0..4u32, places in 0..5u16, is_newest_first: bool, events in events()) {
        let clock = Arc::new(ManualClock::new());
        let bulkhead = Bulkhead::with_clock(limit, Arc::clone(&clock)).queue(places);
        let bulkhead = Arc::new(if is_newest_first { bulkhead.newest_first() } else { bulkhead });
        let mut model = BulkheadModel::new(limit, places.into(), is_newest_first);
        let (mut in_flight, mut waiting) = (Vec::new(), Vec::<Waiting>::new());
        for (name, event) in events.into_iter().enumerate() {
            let now = clock.now();
            match event {
                Event::TryAcquire => {
                    let permit = bulkhead.try_acquire_owned();
                    prop_assert_eq!(permit.is_ok(), model.try_acquire());
                    match permit {
                        Ok(permit) => in_flight.push(permit),
                        Err(full) => prop_assert_eq!((full.limit(), full.cause()), (model.counts()[0], RefusalCause::NoSlot)),
                    }
                }
                Event::Arrive(longest) => {
                    let longest = longest.map(Duration::from_secs);
                    let mut future = future(&bulkhead, longest);
                    let wake_ups = Arc::new(WakeUps::default());
                    let expiry = longest.map(|longest| now + longest.as_nanos() as u64);
                    let standing = model.join(name, expiry, now);
                    match poll(&mut future, &Waker::from(Arc::clone(&wake_ups))) {
                        Poll::Pending => {
                            prop_assert_eq!(standing, Standing::Waiting);
                            waiting.push(Waiting { name, future, wake_ups });
                        }
                        Poll::Ready(Ok(permit)) => {
                            prop_assert_eq!(standing, Standing::Granted);
                            in_flight.push(permit);
                        }
                        Poll::Ready(Err(full)) => prop_assert_eq!(standing, Standing::Refused(full.cause())),
                    }
                }
                Event::Ask(by) => {
                    let Some(index) = one_of(&waiting, by) else { continue };
                    let call = &mut waiting[index];
                    let standing = model.ask(call.name, now);
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
                        Poll::Ready(Err(full)) => prop_assert_eq!(standing, Standing::Refused(full.cause())),
                    }
                    waiting.remove(index);
                }
                Event::GiveUp(by) => {
                    let Some(index) = one_of(&waiting, by) else { continue };
                    model.give_up(waiting.remove(index).name, now);
                }
                Event::End(by) => {
                    let Some(index) = one_of(&in_flight, by) else { continue };
                    drop(in_flight.remove(index));
                    model.end(now);
                }
                Event::SetLimit(limit) => {
                    bulkhead.set_limit(limit);
                    model.set_limit(limit, now);
                }
                Event::Pass(seconds) => clock.advance(Duration::from_secs(seconds)),
            }
            prop_assert_eq!([bulkhead.limit(), bulkhead.in_flight(), bulkhead.queued()], model.counts());
            for call in &waiting {
                let wake_ups = call.wake_ups.0.load(Ordering::Relaxed);
                prop_assert_eq!(wake_ups, u32::from(!model.is_undecided(call.name)), "a call is woken once, when it is decided");
            }
        }
        drop((in_flight, waiting));
        prop_assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (0, 0));
    }
}

#[test]
fn static_bulkhead_admits_up_to_its_limit() {
    static POOL: Bulkhead = Bulkhead::new(2);
    let permits = [POOL.try_acquire().unwrap(), POOL.try_acquire().unwrap()];
    let full = POOL.try_acquire().unwrap_err();
    assert_eq!((full.limit(), full.cause()), (2, RefusalCause::NoSlot));
    // Without a queue no call waits.
    let full = POOL.acquire().within(SECOND).wait().unwrap_err();
    assert_eq!(full.cause(), RefusalCause::NoQueue);
    assert_eq!(full.to_string(), "too many calls in flight, limit 2, no queue to wait in");
    drop(permits);
    assert!(POOL.acquire().wait().is_ok());
    assert_eq!(POOL.in_flight(), 0);
}

#[test]
fn limit_above_the_most_counts_as_the_most() {
    let bulkhead = Bulkhead::new(u32::MAX);
    assert_eq!(bulkhead.limit(), (1 << 24) - 1);
    bulkhead.set_limit(7);
    bulkhead.set_limit(1 << 24);
    assert_eq!((bulkhead.limit(), bulkhead.in_flight(), bulkhead.queued()), ((1 << 24) - 1, 0, 0));
}

#[test]
fn refusals_name_their_cause() {
    let (bulkhead, clock) = on_manual_clock(1, 1);
    let says = |bulkhead: &Arc<Bulkhead<Manual>>, longest| match poll(&mut future(bulkhead, longest), Waker::noop()) {
        Poll::Ready(Err(full)) => full.to_string(),
        other => panic!("{other:?}"),
    };
    let permit = bulkhead.try_acquire().unwrap();
    assert_eq!(bulkhead.try_acquire().unwrap_err().to_string(), "too many calls in flight, limit 1");
    assert_eq!(says(&bulkhead, Some(Duration::ZERO)), "too many calls in flight, limit 1, no slot in time");
    let mut queued = future(&bulkhead, Some(SECOND));
    assert!(poll(&mut queued, Waker::noop()).is_pending());
    assert_eq!(says(&bulkhead, None), "too many calls in flight, limit 1, queue full");
    clock.advance(SECOND);
    let Poll::Ready(Err(full)) = poll(&mut queued, Waker::noop()) else { panic!("its wait is over") };
    assert_eq!(full.cause(), RefusalCause::TimedOut);
    drop(permit);

    let pool = Arc::new(Bulkhead::with_clock(1, clock).queue(1).newest_first());
    let _permit = pool.try_acquire().unwrap();
    let (mut oldest, mut newest) = (future(&pool, None), future(&pool, None));
    assert!(poll(&mut oldest, Waker::noop()).is_pending() && poll(&mut newest, Waker::noop()).is_pending());
    let Poll::Ready(Err(full)) = poll(&mut oldest, Waker::noop()) else { panic!("the oldest call is displaced") };
    assert_eq!(full.to_string(), "too many calls in flight, limit 1, displaced by a newer call");
}

/// A wait ends at the earlier of the deadline and the longest wait.
#[test]
fn wait_ends_by_the_deadline_or_within_its_time() {
    let (bulkhead, clock) = on_manual_clock(0, 4);
    let deadline = Deadline::with_clock(2 * SECOND, &clock);
    let acquire = || bulkhead.acquire_owned();
    let ends_after = |acquire: damper::Acquire<Arc<Bulkhead<Manual>>>| {
        let mut future: Future = Box::pin(acquire.sleeping_by(|_| pending()));
        (0..10).find(|_| {
            let is_over = poll(&mut future, Waker::noop()).is_ready();
            clock.advance(SECOND);
            is_over
        })
    };
    assert_eq!(ends_after(acquire().by(&deadline)), Some(2));
    assert_eq!(ends_after(acquire().by(&deadline)), Some(0), "the deadline has passed");
    let deadline = Deadline::with_clock(2 * SECOND, &clock);
    assert_eq!(ends_after(acquire().by(&deadline).within(SECOND)), Some(1));
    let deadline = Deadline::with_clock(2 * SECOND, &clock);
    assert_eq!(ends_after(acquire().within(5 * SECOND).by(&deadline)), Some(2));
    assert_eq!(ends_after(acquire().by(&Deadline::never(&clock))), None);
    // Of two deadlines the earlier one applies, in either order.
    for [first, second] in [[2, 5], [5, 2]] {
        let [first, second] = [first, second].map(|seconds| Deadline::with_clock(seconds * SECOND, &clock));
        assert_eq!(ends_after(acquire().by(&first).by(&second)), Some(2));
    }
    let deadline = Deadline::with_clock(2 * SECOND, &clock);
    assert_eq!(ends_after(acquire().by(&deadline).by(&Deadline::never(&clock))), Some(2));
    // A free slot is taken, however little time is left.
    bulkhead.set_limit(1);
    assert_eq!(ends_after(acquire().within(Duration::ZERO)), Some(0));
}

/// A raised limit admits more calls than the bulkhead wakes under one lock.
#[test]
fn raised_limit_wakes_all_that_fit() {
    let (bulkhead, _) = on_manual_clock(0, 100);
    let wake_ups = Arc::new(WakeUps::default());
    let waker = Waker::from(Arc::clone(&wake_ups));
    let mut calls: Vec<_> = (0..100).map(|_| future(&bulkhead, None)).collect();
    assert!(calls.iter_mut().all(|call| poll(call, &waker).is_pending()));
    bulkhead.set_limit(77);
    assert_eq!(wake_ups.0.load(Ordering::Relaxed), 77);
    let permits: Vec<_> = calls[..77].iter_mut().map(|call| poll(call, &waker)).collect();
    assert!(permits.iter().all(|permit| matches!(permit, Poll::Ready(Ok(_)))));
    assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (77, 23));
}

#[test]
fn longest_queue_has_65535_places() {
    let (bulkhead, _) = on_manual_clock(0, u16::MAX);
    let mut calls: Vec<_> = (0..u16::MAX).map(|_| future(&bulkhead, None)).collect();
    assert!(calls.iter_mut().all(|call| poll(call, Waker::noop()).is_pending()));
    assert!(poll(&mut future(&bulkhead, None), Waker::noop()).is_ready());
    assert_eq!(bulkhead.queued(), 65_535);
    bulkhead.set_limit(65_535);
    assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (65_535, 0));
    drop(calls);
    assert_eq!(bulkhead.in_flight(), 0);
}

// CLAIM: Bulkhead
#[test]
fn blocked_threads_are_served_and_never_exceed_the_limit() {
    const THREADS: u32 = 8;
    let bulkhead = Bulkhead::new(2).queue(THREADS as u16);
    let (inside, start) = (AtomicU32::new(0), Barrier::new(THREADS as usize));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..200 {
                    let _permit = bulkhead.acquire().wait().unwrap();
                    assert!(inside.fetch_add(1, Ordering::Relaxed) < 2);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (0, 0));
}

#[test]
fn blocked_thread_gives_up_after_its_longest_wait() {
    let bulkhead = Bulkhead::new(1).queue(1);
    let _permit = bulkhead.try_acquire().unwrap();
    let full = bulkhead.acquire().within(Duration::from_millis(20)).wait().unwrap_err();
    assert_eq!((full.cause(), bulkhead.queued()), (RefusalCause::TimedOut, 0));
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn future_has_its_slot_before_its_timer_ends() {
    let bulkhead = Arc::new(Bulkhead::with_clock(1, damper::StdClock::default()).queue(2));
    let permit = bulkhead.try_acquire_owned().unwrap();
    let waiter = tokio::spawn(bulkhead.acquire_owned().within(SECOND).into_future());
    tokio::task::yield_now().await;
    assert_eq!(bulkhead.queued(), 1);
    drop(permit);
    drop(waiter.await.unwrap().unwrap());
    assert_eq!(bulkhead.in_flight(), 0);
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn future_times_out() {
    let bulkhead = Bulkhead::new(0).queue(2);
    let full = bulkhead.acquire().within(Duration::from_millis(20)).await.unwrap_err();
    assert_eq!((full.cause(), bulkhead.queued()), (RefusalCause::TimedOut, 0));
}

/// A sleep that ends at once neither ends the wait nor blocks the thread.
///
/// Each poll returns and wakes the task.
#[test]
fn sleep_that_ends_at_once_only_wakes_its_task() {
    let (bulkhead, clock) = on_manual_clock(0, 1);
    let mut future = Box::pin(bulkhead.acquire_owned().within(SECOND).sleeping_by(|_| ready(()) as Ready<()>));
    let wake_ups = Arc::new(WakeUps::default());
    let waker = Waker::from(Arc::clone(&wake_ups));
    for polls in 1..5 {
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(wake_ups.0.load(Ordering::Relaxed), polls);
    }
    clock.advance(SECOND);
    let Poll::Ready(Err(full)) = future.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("its wait is over")
    };
    assert_eq!(full.cause(), RefusalCause::TimedOut);
}

#[test]
fn call_holds_a_slot_while_it_is_made() {
    let pool = Bulkhead::new(1).queue(1);
    assert_eq!(pool.call(|| Ok::<_, &str>(pool.in_flight())), Ok(1));
    assert_eq!(pool.call(|| Err::<(), _>("down")), Err(CallError::Failed("down")));
    let refused = pool.call(|| pool.call(|| Ok::<_, &str>(())).map_err(|error| error.refusal().copied()));
    let Err(CallError::Failed(Some(full))) = refused else { panic!("{refused:?}") };
    assert_eq!((full.cause(), pool.queued()), (RefusalCause::NoSlot, 0), "`call` never waits");
    let panicked = catch_unwind(AssertUnwindSafe(|| pool.call(|| -> Result<(), &str> { panic!("in the call") })));
    assert!(panicked.is_err());
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn future_holds_a_slot_while_it_runs() {
    let pool = Bulkhead::new(1);
    let mut first = Box::pin(pool.run(pending::<Result<(), &str>>()));
    let mut second = Box::pin(pool.run(async { Ok::<_, &str>(pool.in_flight()) }));
    assert_eq!(pool.in_flight(), 0, "the future was not polled");
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let Poll::Ready(Err(error)) = second.as_mut().poll(&mut context) else { panic!("the slot is taken") };
    assert_eq!(error.refusal().map(BulkheadFull::cause), Some(RefusalCause::NoSlot));
    drop(first);
    let mut third = Box::pin(pool.run(async { Err::<(), _>(pool.in_flight()) }));
    assert_eq!(third.as_mut().poll(&mut context), Poll::Ready(Err(CallError::Failed(1))));
    drop(third);
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn status_is_consistent() {
    let (bulkhead, _) = on_manual_clock(1, 2);
    let permit = bulkhead.try_acquire().unwrap();
    let mut queued = future(&bulkhead, None);
    assert!(poll(&mut queued, Waker::noop()).is_pending());
    let status = bulkhead.status();
    assert_eq!((status.limit(), status.in_flight(), status.queued()), (1, 1, 1));
    assert_eq!(status.to_string(), "1 of 1 in flight, 1 queued");
    drop(permit);
}

/// A waker that panics.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("in the waker");
    }
}

fn panics(act: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(act)).expect_err("it panics");
    assert_eq!(payload.downcast_ref(), Some(&"in the waker"));
}

/// One of the wakers panics, with more wakers than one lock covers.
///
/// All other calls are woken, and no slot is lost.
#[test]
fn panicking_waker_does_not_stop_other_wake_ups() {
    for at in [0, 3, 7, 8, 19] {
        let (bulkhead, _) = on_manual_clock(0, 20);
        let wake_ups = Arc::new(WakeUps::default());
        let mut calls: Vec<_> = (0..20).map(|_| future(&bulkhead, None)).collect();
        for (index, call) in calls.iter_mut().enumerate() {
            let waker = if index == at { Waker::from(Arc::new(Panics)) } else { Arc::clone(&wake_ups).into() };
            assert!(poll(call, &waker).is_pending());
        }
        panics(|| bulkhead.set_limit(20));
        assert_eq!(wake_ups.0.load(Ordering::Relaxed), 19, "all others are woken");
        let permits: Vec<_> = calls.iter_mut().map(|call| poll(call, Waker::noop())).collect();
        assert!(permits.iter().all(|permit| matches!(permit, Poll::Ready(Ok(_)))));
        drop(permits);
        assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (0, 0));
    }
}

/// A newcomer displaces a call whose waker panics.
///
/// The newcomer's own call does not stay in the queue.
#[test]
fn newcomer_that_a_waker_unwinds_leaves_the_queue() {
    let pool = Arc::new(Bulkhead::new(1).queue(1).newest_first());
    let oldest = || {
        let mut oldest = Box::pin(pool.acquire_owned().sleeping_by(|_| pending::<()>()));
        let waker = Waker::from(Arc::new(Panics));
        assert!(oldest.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        oldest
    };
    let permit = pool.try_acquire().unwrap();
    let displaced = oldest();
    let mut newcomer = Box::pin(pool.acquire_owned().sleeping_by(|_| pending::<()>()));
    panics(|| _ = newcomer.as_mut().poll(&mut Context::from_waker(Waker::noop())));
    assert_eq!(pool.queued(), 1, "the future is still in the queue");
    drop((newcomer, displaced));
    assert_eq!(pool.queued(), 0);

    let displaced = oldest();
    panics(|| _ = pool.acquire().wait());
    assert_eq!(pool.queued(), 0, "the blocked thread left the queue");
    drop((displaced, permit));
    assert_eq!(pool.in_flight(), 0);
    assert!(pool.try_acquire().is_ok(), "no slot went to a dropped call");
}

/// Polls a call when it is woken.
struct Polls(Mutex<Option<Future>>);

impl Wake for Polls {
    fn wake(self: Arc<Self>) {
        let mut future = self.0.lock().unwrap().take().unwrap();
        _ = poll(&mut future, Waker::noop());
    }
}

/// A call takes its permit while the bulkhead wakes others, and one of their wakers panics.
///
/// The slot is not lost.
#[test]
fn granted_call_that_a_waker_unwinds_frees_its_slot() {
    let (bulkhead, _) = on_manual_clock(0, 20);
    let mut calls: Vec<_> = (0..20).map(|_| future(&bulkhead, None)).collect();
    let polls = Arc::new(Polls(Mutex::default()));
    for (index, call) in calls.iter_mut().enumerate() {
        let waker = match index {
            0 => Waker::from(Arc::clone(&polls)),
            12 => Waker::from(Arc::new(Panics)),
            _ => Waker::noop().clone(),
        };
        assert!(poll(call, &waker).is_pending());
    }
    *polls.0.lock().unwrap() = Some(calls.remove(9));
    panics(|| bulkhead.set_limit(20));
    drop(calls);
    assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (0, 0));
}

/// A sleep that panics when it is dropped.
struct Sleeping;

impl core::future::Future for Sleeping {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        panic!("in the waker");
    }
}

#[test]
fn granted_call_whose_sleep_panics_frees_its_slot() {
    let (bulkhead, _) = on_manual_clock(1, 1);
    let permit = bulkhead.try_acquire().unwrap();
    let mut call = Box::pin(bulkhead.acquire_owned().within(SECOND).sleeping_by(|_| Sleeping));
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(permit);
    panics(|| _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop())));
    assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (0, 0));
}
