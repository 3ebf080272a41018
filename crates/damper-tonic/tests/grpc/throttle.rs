//! Throttles before tonic's clients, over real sockets.

use crate::support::echo::echo_client::EchoClient;
use crate::support::{Upstream, channel, message, messages, serve};
use damper::gate::{Ending, Verdict};
use damper::http::{RateLimitLayer, ThrottleLayer, ThrottleService};
use damper::throttle::{AdaptiveThrottle, Throttled};
use damper::tonic::{AtTrailers, IntoStatus, rejection};
use damper::{CallError, ManualClock, Quota, is_refusal};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::{Channel, Server};
use tonic::{Code, Status};
use tonic_types::StatusExt;

type Clocked = Arc<AdaptiveThrottle<Arc<ManualClock>>>;
type Client = EchoClient<ThrottleService<Channel, Clocked, AtTrailers>>;

fn throttle() -> (Arc<ManualClock>, Clocked) {
    let clock = Arc::new(ManualClock::new());
    (Arc::clone(&clock), Arc::new(AdaptiveThrottle::with_clock(clock, 7)))
}

fn behind(throttle: &Clocked, server: SocketAddr) -> Client {
    let layer = ThrottleLayer::new(Arc::clone(throttle)).completion(AtTrailers::rejections());
    EchoClient::new(layer.layer(channel(server)))
}

fn counted(throttle: &Clocked) -> (u64, u64) {
    (throttle.status().requests(), throttle.status().accepted())
}

#[tokio::test]
async fn statuses_of_an_overloaded_server_are_rejections() {
    let upstream = Upstream::default();
    let server = serve(Server::builder().add_service(upstream.echo()));
    for (code, accepted) in [
        (Code::Ok, 1),
        (Code::Unavailable, 0),
        (Code::DeadlineExceeded, 0),
        (Code::Internal, 1),
        (Code::NotFound, 1),
        (Code::Unknown, 1),
    ] {
        upstream.answer(code);
        let (_, throttle) = throttle();
        let answer = behind(&throttle, server).unary(message("hello")).await;
        assert_eq!(answer.map_or_else(|status| status.code(), |_| Code::Ok), code, "unchanged");
        assert_eq!(counted(&throttle), (1, accepted), "{code:?}");
    }
}

/// The first message shows that the server accepted the call.
///
/// Without messages, the status is in the trailers.
#[tokio::test]
async fn stream_without_messages_is_judged_by_its_trailers() {
    let upstream = Upstream::default();
    let server = serve(Server::builder().add_service(upstream.echo()));
    upstream.answer(Code::Unavailable);
    let (_, throttle) = throttle();
    let mut client = behind(&throttle, server);
    let mut silent = client.bidirectional(messages(&["end"])).await.unwrap().into_inner();
    assert_eq!(counted(&throttle), (0, 0), "the stream continues");
    assert_eq!(silent.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(counted(&throttle), (1, 0));
    let mut answers = client.server_streaming(message("hello")).await.unwrap().into_inner();
    for _ in 0..3 {
        assert!(answers.message().await.unwrap().is_some());
        assert_eq!(counted(&throttle), (2, 1));
    }
    assert_eq!(answers.message().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(counted(&throttle), (2, 1));
}

/// It is about one quota, which the other callers of this client need not share.
#[tokio::test]
async fn refusal_of_the_servers_limiter_is_ignored() {
    let upstream = Upstream::default();
    let limit = RateLimitLayer::global(Quota::per_hour(1));
    let server = serve(Server::builder().layer(limit).add_service(upstream.echo()));
    let (_, throttle) = throttle();
    let mut client = behind(&throttle, server);
    assert!(client.unary(message("hello")).await.is_ok());
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_details_retry_info().is_some());
    assert_eq!(counted(&throttle), (1, 1));
    // A proxy's limiter responds with an HTTP status.
    let proxied = |retry_after: bool| {
        let mut response = http::Response::builder().status(429);
        if retry_after {
            response = response.header("retry-after", "1");
        }
        let response = response.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        damper::http::Completion::<_, Status, Throttled>::head(&mut AtTrailers::rejections(), &response)
    };
    let ended = |ending| ControlFlow::Break(Verdict::of(ending));
    assert_eq!(proxied(true), ended(Ending::Limited));
    assert_eq!(proxied(false), ended(Ending::Unavailable), "by gRPC's mapping");
    assert_eq!(rejection(Code::Internal), Ending::Declined);
}

#[tokio::test]
async fn unavailable_server_is_throttled_and_probed_until_it_recovers() {
    let upstream = Upstream::default();
    let server = serve(Server::builder().add_service(upstream.echo()));
    let (clock, throttle) = throttle();
    let mut client = behind(&throttle, server);
    upstream.answer(Code::Unavailable);
    let mut refused = None;
    for _ in 0..500 {
        let status = client.unary(message("hello")).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "from the server or the throttle");
        refused = Throttled::find_in(&status).copied().map(|throttled| (throttled, status)).or(refused);
        clock.advance(Duration::from_millis(20));
    }
    let hits = upstream.hits();
    assert!((15..40).contains(&hits), "{hits} of 500 in 10 s");
    let (throttled, status) = refused.expect("most were refused");
    assert!(is_refusal(&status));
    assert_eq!(status.message(), "throttled, 99 % of the calls are not sent");
    assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(throttled.retry_after()));
    upstream.answer(Code::Ok);
    let mut last = 0;
    for call in 0..800 {
        let answer = client.unary(message("hello")).await;
        last += u32::from(call >= 700 && answer.is_ok());
        clock.advance(Duration::from_millis(20));
    }
    assert!(last >= 95, "{last} of 100 after 14 s");
}

/// The port is closed.
#[tokio::test]
async fn connection_that_is_refused_is_a_rejection() {
    let dead = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let (_, throttle) = throttle();
    let mut client = behind(&throttle, dead);
    for _ in 0..10 {
        assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Unavailable);
    }
    assert_eq!(counted(&throttle), (10, 0));
    assert!(throttle.status().share_refused() > 0.98);
}

#[test]
fn error_of_a_call_becomes_a_status() {
    let (_, throttle) = throttle();
    let throttled = loop {
        match throttle.try_acquire() {
            Ok(permit) => permit.rejected(),
            Err(throttled) => break throttled,
        }
    };
    let status = CallError::<Status, Throttled>::Refused(throttled).into_status();
    assert_eq!((status.code(), Throttled::find_in(&status)), (Code::Unavailable, Some(&throttled)));
    assert_eq!(CallError::<_, Throttled>::Failed(Status::not_found("page")).into_status().code(), Code::NotFound);
}
