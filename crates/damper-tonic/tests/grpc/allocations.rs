//! A gRPC call that passes a limit or a breaker allocates nothing.
//!
//! The allocator of this binary counts for each thread, so other tests may run meanwhile.

use allocation_counter::measure;
use bytes::Bytes;
use damper::http::{CircuitBreakerLayer, PeerAddress, RateLimitLayer};
use damper::tonic::{AtTrailers, IntoStatus, unavailability};
use damper::{BreakerConfig, CircuitBreaker, Quota};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tower::Service;

/// A message and trailers, created before the count begins.
struct ScriptedBody {
    frames: std::vec::IntoIter<Frame<Bytes>>,
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frames.next().map(Ok))
    }
}

type Prepared = Request<Option<Response<ScriptedBody>>>;

fn respond(request: Prepared) -> Ready<Result<Response<ScriptedBody>, Infallible>> {
    ready(Ok(request.into_body().expect("prepared")))
}

fn request() -> Prepared {
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
    let frames = vec![Frame::data(Bytes::from_static(b"\0\0\0\0\0")), Frame::trailers(trailers)].into_iter();
    let answer = Response::builder().header("content-type", "application/grpc").body(ScriptedBody { frames }).unwrap();
    let mut request = Request::post("https://Api.example.com/damper.test.Echo/Unary").body(Some(answer)).unwrap();
    request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    request.extensions_mut().insert(PeerAddress(([192, 0, 2, 7], 5_000).into()));
    request
}

/// Returns how many allocations ten calls make after the first. Each response is read to its end.
fn allocations<S, B>(mut service: S) -> u64
where
    S: Service<Prepared, Response = Response<B>, Error: std::fmt::Debug>,
    B: Body<Error: std::fmt::Debug>,
{
    let context = &mut Context::from_waker(Waker::noop());
    let mut call = |request| {
        let Poll::Ready(answer) = pin!(service.call(request)).poll(context) else {
            panic!("the call is ready at once")
        };
        let mut body = pin!(answer.unwrap().into_body());
        while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(context) {
            frame.unwrap();
        }
    };
    call(request());
    let mut requests: Vec<_> = (0..10).map(|_| request()).collect();
    measure(|| requests.drain(..).for_each(&mut call)).count_total
}

#[test]
fn allowed_grpc_call_allocates_nothing() {
    static BREAKER: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
    let (config, quota) = (BreakerConfig::default(), Quota::per_second(1_000));
    let respond = tower::service_fn(respond);
    assert_eq!(allocations(RateLimitLayer::per_client(quota).layer(respond)), 0);
    assert_eq!(allocations(CircuitBreakerLayer::new(&BREAKER).completion(AtTrailers::new()).layer(respond)), 0);
    assert_eq!(allocations(CircuitBreakerLayer::single(config).completion(AtTrailers::new()).layer(respond)), 0);
    let at_trailers = AtTrailers::new().classify(unavailability);
    assert_eq!(allocations(CircuitBreakerLayer::per_host(config).completion(at_trailers).layer(respond)), 0);
    BREAKER.force_open();
    assert!(measure(|| drop(BREAKER.try_acquire().unwrap_err().into_status())).count_total > 0, "it counts");
}
