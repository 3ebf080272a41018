//! Bulkheads before services of any request type.

use damper::concurrency::{LimitRule, RefusalCause, WindowPlan, WindowSummary};
use damper::gate::PerKey;
use damper::http::RetryLayer;
use damper::retry::{GaveUp, Unlimited};
use damper::tower::GateLayer;
use damper::{AdaptiveLimit, Backoff, Bulkhead, BulkheadFull, CallError, Deadline, KeyedBulkhead, ManualClock, Retry};
use futures_util::FutureExt;
use http::{Request, Response};
use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, pending, ready};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::oneshot;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

type Answer = Pin<Box<dyn Future<Output = Result<u32, Infallible>> + Send>>;

/// Responds when the test lets it.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<Vec<oneshot::Sender<()>>>>);

impl Held {
    fn service(&self) -> impl Service<u32, Response = u32, Error = Infallible, Future = Answer> + Clone + use<> {
        let this = self.clone();
        service_fn(move |number: u32| {
            let (sender, ended) = oneshot::channel();
            this.0.lock().unwrap().push(sender);
            async move {
                _ = ended.await;
                Ok(number)
            }
            .boxed()
        })
    }

    /// The number of calls.
    fn calls(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn end(&self, call: usize) {
        _ = self.0.lock().unwrap().remove(call).send(());
    }
}

fn cause<T>(result: Result<T, CallError<Infallible, BulkheadFull>>) -> Option<RefusalCause> {
    result.err().and_then(|error| error.refusal().map(BulkheadFull::cause))
}

fn is_pending(call: Pin<&mut impl Future>) -> bool {
    call.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// Makes a call, and polls it once.
async fn begun<S: Service<u32>>(service: &mut S, number: u32) -> Pin<Box<S::Future>>
where
    S::Error: std::fmt::Debug,
{
    let mut call = Box::pin(service.ready().await.unwrap().call(number));
    assert!(is_pending(call.as_mut()));
    call
}

#[tokio::test]
async fn call_without_a_permit_is_refused_and_the_service_not_called() {
    let (bulkhead, held) = (Arc::new(Bulkhead::new(2)), Held::default());
    let mut service = GateLayer::limit(Arc::clone(&bulkhead)).layer(held.service());
    let (one, _two) = (begun(&mut service, 1).await, begun(&mut service, 2).await);
    assert_eq!(bulkhead.in_flight(), 2);
    assert_eq!(cause(service.ready().await.unwrap().call(3).await), Some(RefusalCause::NoSlot));
    assert_eq!(held.calls(), 2);
    held.end(0);
    assert_eq!(one.await, Ok(1));
    assert_eq!(bulkhead.in_flight(), 1);
}

/// The future of a finished call may outlive it, for instance in `join_all`.
#[tokio::test]
async fn permit_is_free_when_the_call_has_ended() {
    let bulkhead = Arc::new(Bulkhead::new(1));
    let mut service = GateLayer::limit(Arc::clone(&bulkhead)).layer(service_fn(|n: u32| ready(Ok::<_, Infallible>(n))));
    let mut call = service.ready().await.unwrap().call(1);
    assert_eq!(bulkhead.in_flight(), 1, "the permit is taken in `call`");
    assert_eq!((&mut call).await, Ok(1));
    assert_eq!(bulkhead.in_flight(), 0);
    drop(call);
    assert_eq!(bulkhead.in_flight(), 0, "the permit is returned once");
}

#[tokio::test]
async fn polling_for_readiness_takes_no_permit() {
    static BULKHEAD: Bulkhead = Bulkhead::new(1);
    let layer = GateLayer::limit(&BULKHEAD);
    let mut idle = layer.layer(service_fn(|n: u32| ready(Ok::<_, Infallible>(n))));
    let mut busy = idle.clone();
    assert!(idle.ready().await.is_ok());
    assert_eq!(BULKHEAD.in_flight(), 0);
    assert_eq!(busy.ready().await.unwrap().call(1).await, Ok(1));
}

#[tokio::test]
async fn dropped_call_and_panic_give_the_permit_back() {
    let bulkhead = Arc::new(Bulkhead::new(1));
    let layer = GateLayer::limit(Arc::clone(&bulkhead));
    let mut service = layer.layer(service_fn(|_: u32| pending::<Result<u32, Infallible>>()));
    let call = begun(&mut service, 1).await;
    drop(call);
    assert_eq!(bulkhead.in_flight(), 0);
    let mut panicking = layer.layer(service_fn(|_: u32| -> std::future::Ready<Result<u32, Infallible>> {
        std::panic::resume_unwind(Box::new("in `call`"))
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| panicking.call(1))).is_err());
    assert_eq!(bulkhead.in_flight(), 0);
    let mut unwinding = layer.layer(service_fn(|_: u32| async {
        if true {
            std::panic::resume_unwind(Box::new("in the future"));
        }
        Ok::<_, Infallible>(1)
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| unwinding.call(1).now_or_never())).is_err());
    assert_eq!(bulkhead.in_flight(), 0);
}

/// A future that is dropped may still do its work, such as to close a connection.
#[tokio::test]
async fn dropped_call_holds_its_slot_until_its_work_has_ended() {
    struct Work(Arc<Bulkhead>, Arc<AtomicU32>);
    impl Drop for Work {
        fn drop(&mut self) {
            self.1.store(self.0.in_flight(), Ordering::Relaxed);
        }
    }
    let (bulkhead, in_flight) = (Arc::new(Bulkhead::new(1)), Arc::new(AtomicU32::new(0)));
    let (pool, seen) = (Arc::clone(&bulkhead), Arc::clone(&in_flight));
    let mut service = GateLayer::limit(Arc::clone(&bulkhead)).layer(service_fn(move |_: u32| {
        let work = Work(Arc::clone(&pool), Arc::clone(&seen));
        async move {
            pending::<()>().await;
            drop(work);
            Ok::<_, Infallible>(1)
        }
    }));
    drop(begun(&mut service, 1).await);
    assert_eq!((in_flight.load(Ordering::Relaxed), bulkhead.in_flight()), (1, 0));
    // Nor does a panic of the work keep the slot.
    let mut panicking = GateLayer::limit(Arc::clone(&bulkhead)).layer(service_fn(|_: u32| {
        let work = Panics;
        async move {
            pending::<()>().await;
            drop(work);
            Ok::<_, Infallible>(1)
        }
    }));
    let call = begun(&mut panicking, 1).await;
    assert!(catch_unwind(AssertUnwindSafe(|| drop(call))).is_err());
    assert_eq!(bulkhead.in_flight(), 0);
}

/// Panics when it is dropped.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("in a drop"));
    }
}

/// A caller that catches the panic may keep the future.
#[tokio::test]
async fn panic_frees_the_slot_before_the_future_is_dropped() {
    let bulkhead = Arc::new(Bulkhead::new(1));
    let mut service =
        GateLayer::limit(Arc::clone(&bulkhead)).layer(service_fn(async |_: u32| -> Result<u32, Infallible> {
            std::panic::resume_unwind(Box::new("in the future"))
        }));
    let mut call = Box::pin(service.call(1));
    assert_eq!(bulkhead.in_flight(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| is_pending(call.as_mut()))).is_err());
    assert_eq!(bulkhead.in_flight(), 0);
    assert!(is_pending(call.as_mut()), "polled again");
}

/// This holds even with a free slot.
#[tokio::test]
async fn call_whose_deadline_has_passed_is_not_made() {
    let bulkhead = Arc::new(Bulkhead::new(1).queue(1));
    let service = GateLayer::limit(Arc::clone(&bulkhead))
        .waiting(Duration::from_mins(1))
        .time_left(|_: &u32| Some(Duration::ZERO))
        .layer(service_fn(|_: u32| -> std::future::Ready<Result<u32, Infallible>> {
            unreachable!("the deadline has passed")
        }));
    assert_eq!(cause(service.oneshot(1).await), Some(RefusalCause::TimedOut));
    assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (0, 0));
}

#[tokio::test]
async fn calls_wait_in_their_order() {
    let (bulkhead, held) = (Arc::new(Bulkhead::new(1).queue(2)), Held::default());
    let layer = GateLayer::limit(Arc::clone(&bulkhead)).waiting(Duration::from_mins(1));
    let mut service = layer.layer(held.service());
    let one = begun(&mut service, 1).await;
    let (mut two, mut three) = (begun(&mut service, 2).await, begun(&mut service, 3).await);
    assert_eq!((bulkhead.queued(), held.calls()), (2, 1));
    assert_eq!(cause(service.ready().await.unwrap().call(4).await), Some(RefusalCause::QueueFull));
    held.end(0);
    assert_eq!(one.await, Ok(1));
    assert!(is_pending(three.as_mut()) && is_pending(two.as_mut()));
    assert_eq!((bulkhead.in_flight(), bulkhead.queued(), held.calls()), (1, 1, 1), "the second is in flight");
    held.end(0);
    assert_eq!(two.await, Ok(2));
    assert!(is_pending(three.as_mut()));
    held.end(0);
    assert_eq!(three.await, Ok(3));
    assert_eq!((bulkhead.in_flight(), bulkhead.queued()), (0, 0));
}

#[tokio::test]
async fn call_dropped_while_it_waits_leaves_its_place() {
    let (bulkhead, held) = (Arc::new(Bulkhead::new(1).queue(2)), Held::default());
    let layer = GateLayer::limit(Arc::clone(&bulkhead)).waiting(Duration::from_mins(1));
    let mut service = layer.layer(held.service());
    let one = begun(&mut service, 1).await;
    let (two, mut three) = (begun(&mut service, 2).await, begun(&mut service, 3).await);
    drop(two);
    assert_eq!(bulkhead.queued(), 1);
    held.end(0);
    assert_eq!(one.await, Ok(1));
    assert!(is_pending(three.as_mut()));
    assert_eq!((bulkhead.in_flight(), held.calls()), (1, 1), "the third was called");
    drop(three);
    assert_eq!(bulkhead.in_flight(), 0);
}

#[tokio::test]
async fn call_that_waits_too_long_is_refused() {
    let (bulkhead, held) = (Arc::new(Bulkhead::new(1).queue(2)), Held::default());
    let layer = GateLayer::limit(bulkhead).waiting_by(Duration::from_millis(20), tokio::time::sleep);
    let mut service = layer.layer(held.service());
    let _one = begun(&mut service, 1).await;
    assert_eq!(cause(service.ready().await.unwrap().call(2).await), Some(RefusalCause::TimedOut));
    assert_eq!(held.calls(), 1);
}

/// The layer lets calls wait for a minute, and this one has 20 ms.
#[tokio::test]
async fn call_waits_until_its_deadline_at_most() {
    struct Query(Deadline);

    let bulkhead = Arc::new(Bulkhead::new(1).queue(2));
    let layer = GateLayer::limit(Arc::clone(&bulkhead)).waiting(Duration::from_mins(1));
    let mut service = layer
        .time_left(|query: &Query| Some(query.0.remaining()))
        .layer(service_fn(|_: Query| pending::<Result<u32, Infallible>>()));
    let first = service.ready().await.unwrap().call(Query(Deadline::after(Duration::from_mins(1))));
    let began = std::time::Instant::now();
    let second = service.ready().await.unwrap().call(Query(Deadline::after(Duration::from_millis(20))));
    assert_eq!(cause(second.await), Some(RefusalCause::TimedOut));
    assert!(began.elapsed() < Duration::from_secs(30));
    drop(first);
}

#[tokio::test]
async fn without_a_queue_a_call_does_not_wait() {
    let (bulkhead, held) = (Arc::new(Bulkhead::new(1)), Held::default());
    let mut service = GateLayer::limit(bulkhead).waiting(Duration::from_mins(1)).layer(held.service());
    let _one = begun(&mut service, 1).await;
    assert!(cause(service.ready().await.unwrap().call(2).await).is_some());
}

#[tokio::test]
async fn keys_have_bulkheads_of_their_own() {
    let tenants = Arc::new(KeyedBulkhead::<u32>::new(1, 64).unwrap().queue(1));
    let held = Held::default();
    let layer = GateLayer::limit(PerKey::new(|number: &u32| number % 10, Arc::clone(&tenants)));
    let mut refusing = layer.layer(held.service());
    let _one = begun(&mut refusing, 1).await;
    assert!(cause(refusing.ready().await.unwrap().call(11).await).is_some());
    let two = begun(&mut refusing, 2).await;
    let mut waiting = layer.waiting(Duration::from_mins(1)).layer(held.service());
    let mut other = begun(&mut waiting, 12).await;
    assert_eq!(tenants.status(&2).unwrap().queued(), 1);
    held.end(1);
    assert_eq!(two.await, Ok(2));
    assert!(is_pending(other.as_mut()));
    held.end(1);
    assert_eq!(other.await, Ok(12));
}

/// Each attempt takes a separate permit, a backoff holds none, and a refusal ends the call.
#[tokio::test]
async fn bulkhead_inside_a_retry_is_not_retried() {
    static REQUESTS: AtomicU32 = AtomicU32::new(0);
    let bulkhead = Arc::new(Bulkhead::new(1));
    let retry = Retry::new(5).backoff(Backoff::constant(Duration::from_millis(1))).budget(Unlimited);
    let of_server = Arc::clone(&bulkhead);
    let mut client = ServiceBuilder::new()
        .layer(RetryLayer::new(retry))
        .layer(GateLayer::limit(Arc::clone(&bulkhead)))
        .service_fn(move |_: Request<String>| {
            assert_eq!(of_server.in_flight(), 1);
            if REQUESTS.fetch_add(1, Ordering::Relaxed) == 1 {
                of_server.set_limit(0);
            }
            ready(Err::<Response<()>, _>(io::Error::other("connection reset")))
        });
    let error = client.ready().await.unwrap().call(Request::new(String::new())).await.unwrap_err();
    assert_eq!(REQUESTS.load(Ordering::Relaxed), 2);
    assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 3));
    assert!(BulkheadFull::find_in(error.source().unwrap()).is_some());
    assert_eq!(bulkhead.in_flight(), 0);
}

/// An adaptive limit learns from the calls that succeed.
#[tokio::test]
async fn adaptive_limit_counts_ok_as_success_and_ignores_errors() {
    static WINDOWS: AtomicU32 = AtomicU32::new(0);
    let clock = Arc::new(ManualClock::new());
    let limit = Arc::new(AdaptiveLimit::with_rule(EachCall(&WINDOWS), Arc::clone(&clock)));
    let parse = service_fn(|number: &'static str| {
        clock.advance(Duration::from_millis(10));
        ready(number.parse::<u32>())
    });
    let mut service = GateLayer::limit(Arc::clone(&limit)).waiting(Duration::from_secs(1)).layer(parse);
    // The first call starts the first window, and belongs to none.
    for (number, windows) in [("1", 0), ("x", 0), ("2", 1), ("y", 1), ("3", 2)] {
        let result = service.ready().await.unwrap().call(number).await;
        assert_eq!(result.is_ok(), number.parse::<u32>().is_ok());
        assert_eq!((WINDOWS.load(Ordering::Relaxed), limit.in_flight()), (windows, 0), "{number}");
    }
}

/// A rule that treats each call as a window, and counts them.
#[derive(Clone, Copy, Debug)]
struct EachCall(&'static AtomicU32);

impl LimitRule for EachCall {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(8) }
    }

    fn next(&mut self, _: &WindowSummary) -> WindowPlan {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.first()
    }
}
