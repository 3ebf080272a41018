//! Bulkheads through their public API.
#![cfg(feature = "std")]

mod models {
    pub(crate) mod bulkhead;
}

use damper::concurrency::{AcquirePermitFuture, BulkheadPermit, FullCause};
use damper::{Bulkhead, BulkheadFull, Clock, Deadline, KeyedBulkhead, ManualClock};
use models::bulkhead::{BulkheadModel, Standing};
use proptest::prelude::*;
use std::future::{Pending, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

type Manual = Arc<ManualClock>;
type Held = BulkheadPermit<Arc<Bulkhead<Manual>>>;
type Future = Pin<Box<AcquirePermitFuture<Arc<Bulkhead<Manual>>, fn(Duration) -> Pending<()>>>>;

const SECOND: Duration = Duration::from_secs(1);

fn on_manual_clock(limit: u32, places: u16) -> (Arc<Bulkhead<Manual>>, Manual) {
    let clock = Arc::new(ManualClock::new());
    (Arc::new(Bulkhead::with_clock(limit, Arc::clone(&clock)).queue(places)), clock)
}

/// How often a call was woken.
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

/// A call that does not sleep: it is polled by hand.
fn future(bulkhead: &Arc<Bulkhead<Manual>>, longest: Option<Duration>) -> Future {
    let acquire = bulkhead.acquire_owned();
    let acquire = match longest {
        Some(longest) => acquire.within(longest),
        None => acquire,
    };
    Box::pin(acquire.sleeping_by(|_| pending()))
}

/// A call that waits.
struct Waiting {
    name: usize,
    future: Future,
    wake_ups: Arc<WakeUps>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    TryAcquire,
    /// A call comes, and waits for so many seconds at most.
    Arrive(Option<u64>),
    /// One of those that wait is polled.
    Ask(usize),
    /// One of those that wait gives up.
    GiveUp(usize),
    /// One of those in flight ends.
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

/// Picks one of these, if there are any.
fn one_of<T>(items: &[T], by: usize) -> Option<usize> {
    (!items.is_empty()).then(|| by % items.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Calls come, wait, time out, give up and end under limits that change: who is admitted, who waits and who is refused for which
    /// reason is as the model says, and whoever's fate is decided is woken.
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
                        Err(full) => prop_assert_eq!((full.limit(), full.cause()), (model.counts()[0], FullCause::NoSlot)),
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
                    // Whoever is to go on waiting has another waker from now on.
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
    assert_eq!((full.limit(), full.cause()), (2, FullCause::NoSlot));
    // Without a queue nobody waits.
    assert_eq!(POOL.acquire().wait().unwrap_err().cause(), FullCause::NoSlot);
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
fn refusals_say_why() {
    let (bulkhead, clock) = on_manual_clock(1, 1);
    let says = |bulkhead: &Arc<Bulkhead<Manual>>, longest| match poll(&mut future(bulkhead, longest), Waker::noop()) {
        Poll::Ready(Err(full)) => full.to_string(),
        other => panic!("{other:?}"),
    };
    let permit = bulkhead.try_acquire().unwrap();
    assert_eq!(bulkhead.try_acquire().unwrap_err().to_string(), "bulkhead full, limit 1");
    assert_eq!(says(&bulkhead, Some(Duration::ZERO)), "bulkhead full, limit 1, no slot in time");
    let mut queued = future(&bulkhead, Some(SECOND));
    assert!(poll(&mut queued, Waker::noop()).is_pending());
    assert_eq!(says(&bulkhead, None), "bulkhead full, limit 1, queue full");
    clock.advance(SECOND);
    let Poll::Ready(Err(full)) = poll(&mut queued, Waker::noop()) else { panic!("its time is over") };
    assert_eq!(full.cause(), FullCause::TimedOut);
    drop(permit);

    let pool = Arc::new(Bulkhead::with_clock(1, clock).queue(1).newest_first());
    let _permit = pool.try_acquire().unwrap();
    let (mut oldest, mut newest) = (future(&pool, None), future(&pool, None));
    assert!(poll(&mut oldest, Waker::noop()).is_pending() && poll(&mut newest, Waker::noop()).is_pending());
    let Poll::Ready(Err(full)) = poll(&mut oldest, Waker::noop()) else { panic!("it is displaced") };
    assert_eq!(full.to_string(), "bulkhead full, limit 1, displaced by a newer call");
}

/// A call waits until the earlier of two ends.
#[test]
fn wait_ends_by_the_deadline_or_within_its_time() {
    let (bulkhead, clock) = on_manual_clock(0, 4);
    let deadline = Deadline::with_clock(2 * SECOND, &clock);
    let acquire = || bulkhead.acquire_owned();
    let ends_after = |acquire: damper::concurrency::AcquirePermit<Arc<Bulkhead<Manual>>>| {
        let mut future: Future = Box::pin(acquire.sleeping_by(|_| pending()));
        (0..10).find(|_| {
            let is_over = poll(&mut future, Waker::noop()).is_ready();
            clock.advance(SECOND);
            is_over
        })
    };
    assert_eq!(ends_after(acquire().by(&deadline)), Some(2));
    assert_eq!(ends_after(acquire().by(&deadline)), Some(0), "it has passed");
    let deadline = Deadline::with_clock(2 * SECOND, &clock);
    assert_eq!(ends_after(acquire().by(&deadline).within(SECOND)), Some(1));
    let deadline = Deadline::with_clock(2 * SECOND, &clock);
    assert_eq!(ends_after(acquire().within(5 * SECOND).by(&deadline)), Some(2));
    assert_eq!(ends_after(acquire().by(&Deadline::never(&clock))), None);
    // A slot that is free is taken, whatever time is left.
    bulkhead.set_limit(1);
    assert_eq!(ends_after(acquire().within(Duration::ZERO)), Some(0));
}

/// More calls are let in at once than wakers are taken under one lock.
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
fn blocked_thread_gives_up_when_its_time_is_over() {
    let bulkhead = Bulkhead::new(1).queue(1);
    let _permit = bulkhead.try_acquire().unwrap();
    let full = bulkhead.acquire().within(Duration::from_millis(20)).wait().unwrap_err();
    assert_eq!((full.cause(), bulkhead.queued()), (FullCause::TimedOut, 0));
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn future_waits_by_the_runtimes_timer() {
    let bulkhead = Arc::new(Bulkhead::with_clock(1, damper::StdClock::default()).queue(2));
    let permit = bulkhead.try_acquire_owned().unwrap();
    let waiter = tokio::spawn(bulkhead.acquire_owned().into_future());
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
    assert_eq!((full.cause(), bulkhead.queued()), (FullCause::TimedOut, 0));
}

#[test]
fn keys_have_a_bulkhead_each() {
    let tenants = KeyedBulkhead::<String>::new(1, 16).unwrap().queue(1);
    let permit = tenants.try_acquire("acme").unwrap();
    assert_eq!(tenants.try_acquire("acme").unwrap_err().cause(), FullCause::NoSlot);
    assert!(tenants.try_acquire("initech").is_ok());
    let full = tenants.acquire("acme").within(Duration::ZERO).wait().unwrap_err();
    assert_eq!(full.cause(), FullCause::TimedOut, "it has a queue");
    drop(permit);
    assert!(tenants.acquire("acme").wait().is_ok());
    assert_eq!(tenants.get("acme").unwrap().in_flight(), 0);
}

#[test]
fn bulkhead_in_use_is_never_evicted() {
    const CAPACITY: u32 = 60;
    let tenants = KeyedBulkhead::<u32>::new(1, CAPACITY as usize).unwrap();
    let mut permits: Vec<_> = (0..CAPACITY).map(|key| tenants.try_acquire(&key).unwrap()).collect();
    for key in CAPACITY..1_000 {
        let full = tenants.try_acquire(&key).unwrap_err();
        assert_eq!(full.cause(), FullCause::StoreFull);
        assert_eq!(full.to_string(), "no bulkhead for another key, all are in use");
        assert_eq!(tenants.acquire(&key).wait().unwrap_err(), full);
    }
    assert_eq!((tenants.len(), tenants.evictions()), (60, 0));
    assert!((0..CAPACITY).all(|key| tenants.try_acquire(&key).is_err()), "all of them are the same ones");
    // One is idle, and makes room.
    drop(permits.swap_remove(17));
    assert!(tenants.try_acquire(&1_000).is_ok());
}

/// In a larger store an idle bulkhead is found in the end, however many others are in use.
#[test]
fn idle_bulkhead_makes_room_in_the_end() {
    const CAPACITY: u32 = 10_000;
    let tenants = KeyedBulkhead::<u32>::new(1, CAPACITY as usize).unwrap();
    let mut permits: Vec<_> =
        (0..2 * CAPACITY).filter_map(|key| Some((key, tenants.try_acquire(&key).ok()?))).collect();
    assert_eq!(tenants.len(), CAPACITY as usize, "all are in use");
    let idle = permits.swap_remove(1_234);
    drop(idle);
    let attempts = (2 * CAPACITY..).take(100_000).position(|key| tenants.try_acquire(&key).is_ok());
    assert!(attempts.is_some());
}
