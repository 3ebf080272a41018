//! Services with boxed errors behind every layer that judges errors: one `map_err` serves all.

use damper::breaker::State;
use damper::concurrency::{AdaptiveLimit, Outcome};
use damper::gate::Ending;
use damper::http::{
    CircuitBreakerLayer, ClientConcurrencyLayer, HedgeLayer, RetryLayer, Statuses, ThrottleLayer, client_stack,
};
use damper::retry::{EveryErr, Failure, GaveUp, Hedge, HedgeConfig};
use damper::throttle::AdaptiveThrottle;
use damper::tower::{ClassifyResult as _, GateLayer};
use damper::{
    Backoff, BoxedError, BreakerConfig, Bulkhead, BulkheadFull, CallError, CircuitBreaker, Deadline, DeadlineExceeded,
    Retry, is_refusal,
};
use http::{Request, Response};
use std::error::Error;
use std::future::{Ready, pending, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

type Body = http_body_util::Empty<bytes::Bytes>;

const MILLISECOND: Duration = Duration::from_millis(1);

/// An error of damper's own, which says nothing about a server.
fn refusal() -> BoxError {
    let full: BulkheadFull = Bulkhead::new(0).try_acquire().unwrap_err();
    BoxError::from(io::Error::other(BoxError::from(full)))
}

fn broken() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

fn exceeded() -> BoxError {
    Deadline::after(Duration::ZERO).check().unwrap_err().into()
}

/// Trips at the first failure.
fn breaker() -> Arc<CircuitBreaker> {
    Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()))
}

fn request() -> Request<Body> {
    Request::get("http://api.example/").body(Body::new()).unwrap()
}

/// The response of a service whose error is this one.
fn failing(error: BoxError) -> Ready<Result<Response<Body>, BoxError>> {
    ready(Err(error))
}

/// A kind of error, with the state of a breaker that it leads to and its ending.
type Kind = (fn() -> BoxError, State, Ending);

fn kinds() -> [Kind; 3] {
    [
        (refusal, State::Closed, Ending::NotSent),
        (broken, State::Open, Ending::Broken),
        (exceeded, State::Open, Ending::TimedOut),
    ]
}

#[test]
fn error_in_a_box_is_looked_into() {
    for (error, _, ending) in kinds() {
        let boxed = BoxedError::from(error());
        let inside = boxed.get_ref();
        assert_eq!((boxed.to_string(), format!("{boxed:?}")), (inside.to_string(), format!("{inside:?}")));
        assert_eq!((Ending::of_error(&boxed), is_refusal(&boxed)), (ending, ending == Ending::NotSent));
        let failed = CallError::<_, BulkheadFull>::Failed(boxed);
        assert_eq!(Ending::of_error(&failed), ending);
        assert_eq!(Statuses::judge(Err(&failed)).ending, ending);
    }
    let boxed = BoxedError::from(refusal());
    assert!(BulkheadFull::find_in(&boxed).is_some() && BulkheadFull::find_in(&*boxed.into_inner()).is_some());
    assert!(DeadlineExceeded::find_in(&BoxedError::from(exceeded())).is_some());
    let debug = format!("{:?}", CallError::<_, BulkheadFull>::Failed(BoxedError::from(BoxError::from("down"))));
    assert_eq!(debug.matches("down").count(), 1, "{debug}");
}

#[tokio::test]
async fn plain_layers_judge_errors_in_boxes() {
    for (error, state, _) in kinds() {
        let (breaker, throttle) = (breaker(), Arc::new(AdaptiveThrottle::new()));
        let service = ServiceBuilder::new()
            .layer(GateLayer::new(Arc::clone(&breaker)))
            .layer(GateLayer::new(Arc::clone(&throttle)))
            .layer(GateLayer::limit(Arc::new(Bulkhead::new(4))))
            .map_err(BoxedError::from)
            .service(service_fn(move |()| async move { Err::<(), BoxError>(error()) }));
        assert!(service.oneshot(()).await.is_err());
        assert_eq!(breaker.state(), state);
        let rejected = throttle.status().requests() - throttle.status().accepted();
        assert_eq!(rejected, u64::from(state == State::Open));
    }
}

/// The errors of tower's and of tokio's timers are timeouts, which is overload for an adaptive limit.
#[tokio::test(start_paused = true)]
async fn elapsed_timeouts_are_timeouts() {
    let tower = ServiceBuilder::new()
        .map_err(BoxedError::from)
        .timeout(MILLISECOND)
        .service(service_fn(|()| async { pending::<Result<(), BoxError>>().await }));
    let by_tower = tower.oneshot(()).await.unwrap_err();
    let by_tokio = tokio::time::timeout(MILLISECOND, pending::<()>()).await.unwrap_err();
    let by_tokio = BoxedError::from(BoxError::from(by_tokio));
    assert_eq!(Ending::of_error(&by_tokio), Ending::TimedOut);
    for error in [&by_tower, &by_tokio] {
        assert_eq!(Statuses::judge(Err(error)).ending, Ending::TimedOut);
    }
    let outcome = Outcome::from(&EveryErr.verdict(&Err::<(), _>(by_tower)));
    assert_eq!(outcome, Outcome::Overloaded);
}

#[tokio::test]
async fn layers_of_http_clients_judge_errors_in_boxes() {
    for (error, state, ending) in kinds() {
        let (breaker, throttle) = (breaker(), Arc::new(AdaptiveThrottle::new()));
        let (calls, limit) = (Arc::new(AtomicU32::new(0)), Arc::new(AdaptiveLimit::default()));
        let counted = Arc::clone(&calls);
        let retry = Retry::new(3).backoff(Backoff::constant(MILLISECOND));
        let hedge = Hedge::new(HedgeConfig::builder().fixed_delay(Duration::from_secs(60)).build().unwrap());
        let service = ServiceBuilder::new()
            .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)))
            .layer(RetryLayer::new(retry))
            .layer(ClientConcurrencyLayer::new(limit))
            .layer(ThrottleLayer::new(Arc::clone(&throttle)))
            .layer(HedgeLayer::new(hedge))
            .map_err(BoxedError::from)
            .service(service_fn(move |_: Request<Body>| {
                counted.fetch_add(1, Ordering::Relaxed);
                failing(error())
            }));
        let error = service.oneshot(request()).await.unwrap_err();
        assert_eq!(breaker.state(), state, "{error:?}");
        assert_eq!(Ending::of_error(&error), ending);
        // Refusals and passed deadlines are not repeated, broken connections are.
        let is_repeated = ending == Ending::Broken;
        assert_eq!(calls.load(Ordering::Relaxed) > 1, is_repeated, "{error:?}");
    }
}

/// A stack takes errors in boxes as they are.
#[tokio::test]
async fn stack_takes_errors_in_boxes() {
    for (error, state, ending) in kinds() {
        let breaker = breaker();
        let service = client_stack()
            .breakers(Arc::clone(&breaker))
            .retry(Retry::new(2).backoff(Backoff::constant(MILLISECOND)))
            .service(service_fn(move |_: Request<Body>| failing(error())));
        let error = service.oneshot(request()).await.unwrap_err();
        assert_eq!((breaker.state(), Ending::of_error(&error)), (state, ending), "{error:?}");
    }
}

/// A closed connection in a box is found: the request reached no server, so any method is sent again.
#[tokio::test]
async fn unprocessed_request_in_a_box_is_sent_again() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Retry::new(2).backoff(Backoff::constant(MILLISECOND))))
        .map_err(BoxedError::from)
        .service(service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            failing(io::Error::from(io::ErrorKind::ConnectionRefused).into())
        }));
    let request = Request::post("http://api.example/").body(Body::new()).unwrap();
    let error = service.oneshot(request).await.unwrap_err();
    assert_eq!((error.reason(), calls.load(Ordering::Relaxed)), (GaveUp::Attempts, 2));
}

/// The policies of the core take them too.
#[test]
fn retry_takes_errors_in_boxes() {
    let retry = Retry::new(3).backoff(Backoff::constant(MILLISECOND));
    let attempts =
        |error: fn() -> BoxError| retry.call(|_| Err::<(), _>(BoxedError::from(error()))).unwrap_err().attempts();
    assert_eq!((attempts(broken), attempts(refusal), attempts(exceeded)), (3, 1, 1));
    assert_eq!(EveryErr::judge(&BoxedError::from(broken())), Failure::TRANSIENT);
}

#[cfg(feature = "tonic")]
mod grpc {
    use super::*;
    use damper::tonic::{AtTrailers, Grpc, GrpcRetries};
    use tonic::{Code, Status};

    type GrpcBody = tonic::body::Body;

    fn failing(error: BoxError) -> Ready<Result<Response<GrpcBody>, BoxError>> {
        ready(Err(error))
    }

    fn request() -> Request<GrpcBody> {
        Request::post("http://api.example/echo.Echo/Say").body(GrpcBody::empty()).unwrap()
    }

    fn unavailable() -> BoxError {
        Status::unavailable("down").into()
    }

    #[tokio::test]
    async fn breaker_judges_errors_in_boxes() {
        for (error, state, _) in
            kinds().into_iter().chain([(unavailable as fn() -> _, State::Open, Ending::Unavailable)])
        {
            let breaker = breaker();
            let service = ServiceBuilder::new()
                .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()))
                .service(service_fn(move |_: Request<GrpcBody>| failing(error())));
            let status: Status = service.oneshot(request()).await.unwrap_err();
            assert_eq!(breaker.state(), state, "{status:?}");
        }
    }

    #[tokio::test]
    async fn retries_judge_errors_in_boxes() {
        for (error, attempts) in [(refusal as fn() -> BoxError, 1), (unavailable, 2)] {
            let calls = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&calls);
            let retry = Retry::new(2).backoff(Backoff::constant(MILLISECOND));
            let service = ServiceBuilder::new()
                .layer(RetryLayer::new(retry).protocol(GrpcRetries::on([Code::Unavailable])))
                .map_err(BoxedError::from)
                .service(service_fn(move |_| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    failing(error())
                }));
            let status: Status = service.oneshot(request()).await.unwrap_err();
            assert_eq!(calls.load(Ordering::Relaxed), attempts, "{status:?}");
        }
    }

    #[tokio::test]
    async fn stack_takes_errors_in_boxes() {
        let breaker = breaker();
        let service = client_stack()
            .protocol(Grpc::new())
            .breakers(Arc::clone(&breaker))
            .retry(Retry::new(2).backoff(Backoff::constant(MILLISECOND)))
            .service(service_fn(|_| failing(unavailable())));
        let error = service.oneshot(request()).await.unwrap_err();
        assert_eq!(breaker.state(), State::Open, "{error:?}");
    }
}

/// The errors of damper around a boxed one are errors.
#[test]
fn errors_around_boxes_are_errors() {
    fn is_error<E: Error>() {}
    is_error::<CallError<BoxedError, BulkheadFull>>();
    is_error::<damper::RetryError<BoxedError>>();
}
