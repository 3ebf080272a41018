//! Paced clients of tonic, over real sockets.

use crate::support::echo::echo_client::EchoClient;
use crate::support::{Upstream, channel, message, messages, serve};
use bytes::Bytes;
use damper::Reads;
use damper::http::{Headers, PacingLayer, RateLimitLayer, ResponseHead, StackError, StackPart, client_stack};
use damper::retry::GaveUp;
use damper::throttle::{Hints, NoPacing, PaceTooSlow, PacedRetry, Pacer, RemainingDecrease};
use damper::tonic::{Grpc, IntoStatus};
use damper::{Quota, Retry, is_refusal};
use http::{HeaderName, HeaderValue, Response};
use http_body_util::Full;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tonic::body::Body;
use tonic::transport::Server;
use tonic::{Code, Request};
use tower::util::MapResponseLayer;
use tower::{ServiceExt, service_fn};

const SECOND: Duration = Duration::from_secs(1);

/// A `google.rpc.Status` whose `RetryInfo` has a delay of 2 s.
const RETRY_INFO: &str = "CAgaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAg";

fn sleeping(sleep: Duration) -> Arc<Pacer<RemainingDecrease>> {
    Arc::new(Pacer::with_strategy(RemainingDecrease::new(Quota::per_hour(4_500)).start(sleep).unwrap()))
}

/// Names the limit as the reason of a status, as limiters do.
fn push_back(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert("grpc-retry-pushback-ms", HeaderValue::from_static("0"));
    response
}

#[tokio::test]
async fn limited_server_is_paced_and_callers_see_no_rejection() {
    let upstream = Upstream::default();
    let quota = Quota::per_second(20).burst(5);
    let limit = RateLimitLayer::global(quota).headers(Headers::OnAllResponses);
    let server = serve(Server::builder().layer(limit).add_service(upstream.echo()));
    let layer = PacingLayer::single(quota).retry(PacedRetry::new(50)).protocol(Grpc::new());
    let mut client = EchoClient::new(layer.layer(channel(server)));
    let began = Instant::now();
    for number in 0..20 {
        let text = number.to_string();
        assert_eq!(client.unary(message(&text)).await.unwrap().into_inner().text, text);
    }
    assert_eq!(upstream.hits(), 20);
    assert!(began.elapsed() >= SECOND / 2, "{:?}", began.elapsed());
}

/// The messages are kept, and sent again.
#[tokio::test]
async fn rejected_stream_is_made_again_with_its_messages() {
    let upstream = Upstream::default();
    let quota = Quota::per_second(2).burst(1);
    let server = serve(Server::builder().layer(RateLimitLayer::global(quota)).add_service(upstream.echo()));
    let pacer = Arc::new(Pacer::with_strategy(NoPacing));
    let layer = PacingLayer::new(pacer).protocol(Grpc::new());
    let mut client = EchoClient::new(layer.layer(channel(server)));
    for _ in 0..2 {
        let all = client.client_streaming(messages(&["a", "b", "c"])).await.unwrap();
        assert_eq!(all.into_inner().text, "abc");
    }
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn call_that_is_given_up_has_the_servers_status() {
    let upstream = Upstream::default();
    upstream.answer(Code::ResourceExhausted);
    let server = serve(Server::builder().layer(MapResponseLayer::new(push_back)).add_service(upstream.echo()));
    let layer =
        PacingLayer::new(Arc::new(Pacer::with_strategy(NoPacing))).retry(PacedRetry::new(3)).protocol(Grpc::new());
    let status = EchoClient::new(layer.layer(channel(server))).unary(message("a")).await.unwrap_err();
    assert_eq!((status.code(), status.message(), upstream.hits()), (Code::ResourceExhausted, "as scripted", 3));
    // Other failures are not of the limit.
    upstream.answer(Code::Unavailable);
    let status = EchoClient::new(layer.layer(channel(server))).unary(message("a")).await.unwrap_err();
    assert_eq!((status.code(), upstream.hits()), (Code::Unavailable, 4));
}

#[tokio::test]
async fn sleep_beyond_the_calls_timeout_fails_at_once() {
    let upstream = Upstream::default();
    let server = serve(Server::builder().add_service(upstream.echo()));
    let in_a_second = || {
        let mut request = Request::new(message("a"));
        request.set_timeout(SECOND);
        request
    };
    let began = Instant::now();
    let layer = PacingLayer::new(sleeping(8 * SECOND));
    let status = EchoClient::new(layer.clone().protocol(Grpc::new()).layer(channel(server))).unary(in_a_second()).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(PaceTooSlow::find_in(&status).is_some() && is_refusal(&status), "{status:?}");
    // Also in a stack, which says which part it was.
    let stack = client_stack().pacers(sleeping(8 * SECOND)).retry(Retry::new(3)).protocol(Grpc::new());
    let status = EchoClient::new(stack.service(channel(server))).unary(in_a_second()).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(StackError::find_in(&status).map(StackError::part), Some(StackPart::Pacing));
    assert!(PaceTooSlow::find_in(&status).is_some());
    assert!(began.elapsed() < SECOND && upstream.hits() == 0);
}

#[tokio::test]
async fn in_a_stack_each_attempt_is_paced_and_learned_from() {
    let upstream = Upstream::default();
    upstream.answer(Code::ResourceExhausted);
    let server = serve(Server::builder().layer(MapResponseLayer::new(push_back)).add_service(upstream.echo()));
    let pacer = sleeping(Duration::ZERO);
    let stack = client_stack().pacers(Arc::clone(&pacer)).protocol(Grpc::new());
    let status = EchoClient::new(stack.service(channel(server))).unary(message("a")).await.unwrap_err();
    assert_eq!((status.code(), upstream.hits()), (Code::ResourceExhausted, 1));
    assert!(pacer.peek() >= SECOND / 2, "{:?}", pacer.peek());
}

/// A negative pushback forbids retries.
#[tokio::test]
async fn server_that_forbids_retries_is_obeyed() {
    let calls = Arc::new(AtomicU32::new(0));
    let server = {
        let calls = Arc::clone(&calls);
        service_fn(move |_: http::Request<tonic::body::Body>| {
            calls.fetch_add(1, Ordering::Relaxed);
            let response = Response::builder().header("grpc-status", "8").header("grpc-retry-pushback-ms", "-1");
            std::future::ready(Ok::<_, std::io::Error>(response.body(Full::<Bytes>::default()).unwrap()))
        })
    };
    let client = PacingLayer::new(Arc::new(Pacer::with_strategy(NoPacing))).protocol(Grpc::new()).layer(server);
    let response = client.oneshot(http::Request::new(Full::<Bytes>::default())).await.unwrap();
    assert_eq!(response.extensions().get(), Some(&GaveUp::Declined));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn hints_are_read_from_statuses_and_pushback() {
    let read = |headers: &[(&'static str, &'static str)]| {
        let mut response = Response::new(());
        for (name, value) in headers {
            response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Grpc::new().read_from(&ResponseHead::of(&response))
    };
    let exhausted = ("grpc-status", "8");
    assert_eq!(read(&[]), Hints::ACCEPTED, "messages follow");
    assert_eq!(read(&[("grpc-status", "5")]), Hints::ACCEPTED);
    assert_eq!(read(&[("grpc-status", "14")]), Hints::UNKNOWN);
    assert_eq!(read(&[exhausted]), Hints::UNKNOWN, "a message that is too large, say");
    let pushed = read(&[exhausted, ("grpc-retry-pushback-ms", "1500"), ("ratelimit", r#""default";r=0;t=9"#)]);
    assert!(pushed.is_rejected());
    assert_eq!((pushed.retry_after, pushed.remaining), (Some(Duration::from_millis(1_500)), Some(0)));
    assert_eq!(read(&[exhausted, ("grpc-retry-pushback-ms", "-1")]), Hints::REJECTED);
    let twice = read(&[exhausted, ("grpc-retry-pushback-ms", "1500"), ("grpc-retry-pushback-ms", "10")]);
    assert_eq!(twice, Hints::REJECTED, "two pushbacks name no wait");
    let limited = read(&[exhausted, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9")]);
    assert_eq!((limited.is_rejected(), limited.remaining), (true, Some(0)));
    // The delay is 2 s.
    let info = read(&[exhausted, ("grpc-status-details-bin", RETRY_INFO)]);
    assert_eq!(info, Hints::REJECTED.retry_after(Some(2 * SECOND)));
    // A proxy's.
    let mut response = Response::builder().status(429).header("grpc-status", "14").header("retry-after", "7");
    assert_eq!(
        Grpc::new().read_from(&ResponseHead::of(&response.body(()).unwrap())),
        Hints::REJECTED.retry_after(Some(7 * SECOND))
    );
    response = Response::builder().status(429).header("grpc-status", "8").header("grpc-retry-pushback-ms", "1500");
    let pushed = Grpc::new().read_from(&ResponseHead::of(&response.header("retry-after", "7").body(()).unwrap()));
    assert_eq!(pushed, Hints::REJECTED.retry_after(Some(Duration::from_millis(1_500))));
}

#[test]
fn sleep_that_is_too_long_is_a_status() {
    let too_slow = PaceTooSlow::new(12 * SECOND, 2 * SECOND);
    let status = too_slow.into_status();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.message(), "pacing sleep of 12 s exceeds the 2 s until the deadline");
    assert_eq!(PaceTooSlow::find_in(&status), Some(&too_slow));
}
