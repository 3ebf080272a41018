//! Settings that change while calls are made: the next call has them, a call in flight keeps its own.

use damper::retry::{Failure, GaveUp, Jitter, RetrySchedule};
use damper::setting::Setting;
use damper::{Backoff, Live, ManualClock, Retry};
use std::fmt;
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The schedule with waits of exactly these many milliseconds at first and at most.
fn schedule(attempts: u32, base: u32, longest: u32) -> RetrySchedule {
    RetrySchedule::new(attempts).base_delay(base * MILLISECOND).max_delay(longest * MILLISECOND)
}

/// Returns the waits of a call whose attempts all fail, in milliseconds.
fn waits(retry: &Retry<&ManualClock>) -> Vec<u128> {
    let mut waits = Vec::new();
    let call = |_| Err::<(), _>(fmt::Error);
    retry.call_sleeping_by(|wait| waits.push(wait.as_millis()), call).unwrap_err();
    waits
}

#[test]
fn next_call_has_the_new_attempts_and_delays() {
    static SCHEDULE: Live<RetrySchedule> = Live::new(RetrySchedule::new(3));
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1).backoff(Backoff::DEFAULT.jitter(Jitter::None)).schedule(&SCHEDULE);
    assert_eq!(waits(&retry), [100, 200]);
    SCHEDULE.set(schedule(6, 10, 35));
    assert_eq!(waits(&retry), [10, 20, 35, 35, 35]);
    SCHEDULE.set(RetrySchedule::new(1));
    assert_eq!(waits(&retry), [0_u128; 0]);
}

/// Attempts and delays are those of one change, and of the beginning of the call.
#[test]
fn call_keeps_the_schedule_that_it_began_with() {
    static SCHEDULE: Live<RetrySchedule> = Live::new(RetrySchedule::new(3));
    let clock = ManualClock::new();
    let retry = Retry::with_clock(9, &clock, 1).backoff(Backoff::DEFAULT.jitter(Jitter::None)).schedule(&SCHEDULE);
    SCHEDULE.set(schedule(3, 7, 1_000));
    let mut begun = retry.begin();
    SCHEDULE.set(schedule(1, 900, 900));
    let mut later = retry.begin();
    assert!(later.is_last(&retry) && !begun.is_last(&retry));
    assert_eq!(begun.failed(&retry, Failure::TRANSIENT), Ok(7 * MILLISECOND));
    assert_eq!(begun.failed(&retry, Failure::TRANSIENT), Ok(14 * MILLISECOND));
    assert_eq!(begun.failed(&retry, Failure::TRANSIENT), Err(GaveUp::Attempts));
    assert_eq!(later.failed(&retry, Failure::TRANSIENT), Err(GaveUp::Attempts));
}

/// The delay after a refusal for a limit is the longer of the two first delays.
#[test]
fn throttled_calls_begin_with_the_longer_delay() {
    let clock = ManualClock::new();
    let backoff = Backoff::DEFAULT.jitter(Jitter::None);
    let wait = |base: u32| {
        let retry = Retry::with_clock(3, &clock, 1).backoff(backoff).schedule(schedule(3, base, 60_000));
        retry.begin().failed(&retry, Failure::THROTTLED)
    };
    assert_eq!((wait(10), wait(5_000)), (Ok(1_000 * MILLISECOND), Ok(5_000 * MILLISECOND)));
}

#[test]
fn constant_is_a_setting_too() {
    let clock = ManualClock::new();
    let backoff = Backoff::constant(MILLISECOND).jitter(Jitter::None);
    let retry = Retry::with_clock(9, &clock, 1).backoff(backoff).schedule(schedule(3, 20, 30));
    assert_eq!((retry.max_attempts(), waits(&retry)), (3, vec![20, 20]));
    assert_eq!(format!("{:?}", Setting::from(MILLISECOND)), "1ms");
}

#[cfg(feature = "std")]
mod queues {
    use super::*;
    use damper::concurrency::{
        Admission, AdmissionRequest, Criticality, KeyedAdaptiveLimit, LimitBounds, RefusalCause,
    };
    use damper::{AdaptiveLimit, Bulkhead, KeyedBulkhead};
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    async fn never(_: Duration) {
        std::future::pending::<()>().await;
    }

    #[test]
    fn bulkhead_without_a_queue_gets_one() {
        let pool = Bulkhead::new(1);
        let permit = pool.try_acquire().unwrap();
        assert_eq!(pool.acquire().wait().unwrap_err().cause(), RefusalCause::NoQueue);
        pool.set_queue(1);
        let mut waiting = pin!(pool.acquire().sleeping_by(never));
        assert!(poll(waiting.as_mut()).is_pending());
        assert_eq!(pool.acquire().wait().unwrap_err().cause(), RefusalCause::QueueFull);
        drop(permit);
        assert!(matches!(poll(waiting), Poll::Ready(Ok(_))));
    }

    /// The calls that wait keep their places, and no other joins before the queue is short enough.
    #[test]
    fn shorter_queue_keeps_the_calls_that_wait() {
        let pool = Bulkhead::new(1).queue(3);
        let mut permit = Some(pool.try_acquire().unwrap());
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(pool.acquire().sleeping_by(never))).collect();
        for call in &mut waiting {
            assert!(poll(call.as_mut()).is_pending());
        }
        pool.set_queue(1);
        assert_eq!((pool.queued(), pool.places()), (3, 1));
        for left in [2, 1] {
            assert_eq!(pool.acquire().wait().unwrap_err().cause(), RefusalCause::QueueFull);
            drop(permit.take());
            permit = match poll(waiting.remove(0).as_mut()) {
                Poll::Ready(permit) => permit.ok(),
                Poll::Pending => panic!("the slot is its own"),
            };
            assert_eq!(pool.queued(), left);
        }
        pool.set_queue(0);
        assert_eq!(pool.acquire().wait().unwrap_err().cause(), RefusalCause::NoQueue);
        drop(permit);
        assert!(matches!(poll(waiting[0].as_mut()), Poll::Ready(Ok(_))));
    }

    #[test]
    fn shorter_queue_served_newest_first_refuses_the_oldest() {
        let pool = Bulkhead::new(1).queue(3).newest_first();
        let _permit = pool.try_acquire().unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(pool.acquire().sleeping_by(never))).collect();
        for call in &mut waiting {
            assert!(poll(call.as_mut()).is_pending());
        }
        pool.set_queue(1);
        for call in &mut waiting[..2] {
            let Poll::Ready(Err(full)) = poll(call.as_mut()) else { panic!("it is displaced") };
            assert_eq!(full.cause(), RefusalCause::Displaced);
        }
        assert!(poll(waiting[2].as_mut()).is_pending());
        assert_eq!(pool.queued(), 1);
    }

    /// A place of a longer queue is as good as one of the first.
    #[test]
    fn queue_grows_and_shrinks_while_calls_wait() {
        let pool = Bulkhead::new(1);
        let permit = pool.try_acquire().unwrap();
        let mut waiting = Vec::new();
        for places in [1, 3, 2, 0, 5, 4, 8] {
            pool.set_queue(places);
            while pool.queued() < places.into() {
                waiting.push(Box::pin(pool.acquire().sleeping_by(never)));
                assert!(poll(waiting.last_mut().unwrap().as_mut()).is_pending());
            }
        }
        assert_eq!((pool.queued(), waiting.len()), (8, 8));
        drop(permit);
        for mut call in waiting {
            assert!(matches!(poll(call.as_mut()), Poll::Ready(Ok(_))), "in the order of arrival");
        }
        assert_eq!((pool.queued(), pool.in_flight()), (0, 0));
    }

    #[test]
    fn admission_refuses_the_lowest_class_of_a_shorter_queue() {
        let gate = Admission::fixed(2).queue(2);
        let held = [gate.try_acquire(AdmissionRequest::new()), gate.try_acquire(AdmissionRequest::new())];
        let admit = |class| Box::pin(gate.acquire(AdmissionRequest::new().criticality(class)).sleeping_by(never));
        let (mut low, mut high) = (admit(Criticality::Sheddable), admit(Criticality::Critical));
        assert!(poll(low.as_mut()).is_pending() && poll(high.as_mut()).is_pending());
        gate.set_queue(1);
        let Poll::Ready(Err(refused)) = poll(low.as_mut()) else { panic!("it is displaced") };
        assert_eq!((refused.cause(), gate.queued(), gate.places()), (RefusalCause::Displaced, 1, 1));
        gate.set_queue(0);
        assert!(poll(high.as_mut()).is_ready());
        drop(held);
    }

    /// The keys of now and of later have the new queue.
    #[test]
    fn all_keys_get_the_new_queue() {
        let tenants = KeyedBulkhead::<String>::new(1, 16).unwrap();
        let before = tenants.get_or_create("acme").unwrap();
        tenants.set_queue(7);
        assert_eq!((before.places(), tenants.get_or_create("initech").unwrap().places()), (7, 7));
        let adaptive = KeyedAdaptiveLimit::<String>::new(LimitBounds::DEFAULT, 16).unwrap();
        let before = adaptive.get_or_create("acme").unwrap();
        adaptive.set_queue(3);
        assert_eq!((before.places(), adaptive.get_or_create("initech").unwrap().places()), (3, 3));
    }

    #[test]
    fn adaptive_limit_gets_a_queue() {
        let limit = Arc::new(AdaptiveLimit::new(LimitBounds::new(1, 1).unwrap()));
        let _permit = limit.try_acquire_owned().unwrap();
        limit.set_queue(1);
        assert!(poll(pin!(limit.acquire_owned().sleeping_by(never))).is_pending());
    }
}

#[cfg(all(feature = "http", feature = "tower", feature = "tokio"))]
mod timeouts {
    use super::*;
    use damper::http::{AttemptTimedOut, AttemptTimeoutLayer, ClientDeadlineLayer, DeadlineLayer};
    use damper::tower::GateLayer;
    use damper::{Bulkhead, CallError, DeadlineExceeded};
    use http::{Request, Response, StatusCode};
    use std::convert::Infallible;
    use std::sync::Arc;
    use tokio::task::yield_now;
    use tokio::time::sleep;
    use tower::{Layer, ServiceExt, service_fn};

    type Body = http_body_util::Empty<bytes::Bytes>;

    async fn lasting(time: Duration) -> Result<Response<Body>, Infallible> {
        sleep(time).await;
        Ok(Response::new(Body::new()))
    }

    fn request() -> Request<Body> {
        Request::new(Body::new())
    }

    /// Real time, because deadlines are on the default clock.
    #[tokio::test]
    async fn request_keeps_the_timeout_that_it_began_with() {
        let timeout = Arc::new(Live::new(Duration::from_secs(60)));
        let server = DeadlineLayer::new(Arc::clone(&timeout));
        let client = ClientDeadlineLayer::new(Arc::clone(&timeout));
        let attempt = AttemptTimeoutLayer::new(Arc::clone(&timeout));
        let short = || service_fn(|_: Request<Body>| lasting(150 * MILLISECOND));
        let mut begun = (
            Box::pin(server.layer(short()).oneshot(request())),
            Box::pin(client.layer(short()).oneshot(request())),
            Box::pin(attempt.layer(short()).oneshot(request())),
        );
        tokio::select! {
            biased;
            _ = &mut begun.0 => panic!("it lasts longer"),
            _ = &mut begun.1 => panic!("it lasts longer"),
            _ = &mut begun.2 => panic!("it lasts longer"),
            () = yield_now() => {}
        }
        timeout.set(20 * MILLISECOND);
        let long = || service_fn(|_: Request<Body>| lasting(Duration::from_secs(60)));
        let later = tokio::join!(
            server.layer(long()).oneshot(request()),
            client.layer(long()).oneshot(request()),
            attempt.layer(long()).oneshot(request()),
        );
        assert_eq!(later.0.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
        assert!(DeadlineExceeded::find_in(&*later.1.err().unwrap()).is_some());
        assert_eq!(AttemptTimedOut::find_in(&*later.2.err().unwrap()).unwrap().timeout(), 20 * MILLISECOND);
        assert_eq!(begun.0.await.unwrap().status(), StatusCode::OK);
        assert!(begun.1.await.is_ok() && begun.2.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn call_in_the_queue_keeps_its_longest_wait() {
        static LONGEST: Live<Duration> = Live::new(Duration::from_secs(10));
        let pool = Arc::new(Bulkhead::new(1).queue(4));
        let permit = pool.try_acquire_owned().unwrap();
        let service = GateLayer::limit(Arc::clone(&pool))
            .waiting(&LONGEST)
            .layer(service_fn(|()| async { Ok::<_, Infallible>(()) }));
        let first = tokio::spawn(service.clone().oneshot(()));
        yield_now().await;
        LONGEST.set(Duration::from_secs(1));
        assert!(matches!(service.clone().oneshot(()).await, Err(CallError::Refused(_))));
        sleep(Duration::from_secs(5)).await;
        assert!(!first.is_finished());
        drop(permit);
        assert!(first.await.unwrap().is_ok());
    }
}
