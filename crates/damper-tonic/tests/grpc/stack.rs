//! A client's stack before a gRPC server: one setter makes breaker, retries and hedge those of gRPC.
//!
//! Over real sockets.

use crate::support::echo::echo_client::EchoClient;
use crate::support::{self, LOCALHOST, Upstream, channel, message, messages, serve};
use bytes::Bytes;
use damper::breaker::State;
use damper::gate::Ending;
use damper::http::{
    AttemptTimedOut, CircuitBreakerLayer, ClientConcurrencyLayer, RetryLayer, StackError, StackPart, client_stack,
    server_stack,
};
use damper::retry::{Hedge, HedgeConfig, Jitter};
use damper::tonic::{AtTrailers, Grpc, GrpcRetries};
use damper::tower::GateLayer;
use damper::{
    Admission, Backoff, BreakerConfig, BulkheadFull, CircuitBreaker, CircuitOpen, DeadlineExceeded, Denied, Quota,
    RateLimiter, Retry, RetryError,
};
use http::{Request, Response};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tonic::transport::Server;
use tonic::{Code, Status};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

fn quick(attempts: u32) -> Retry {
    Retry::new(attempts).backoff(Backoff::constant(Duration::from_millis(1)))
}

fn breaker(threshold: u32) -> Arc<CircuitBreaker> {
    Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(threshold).build().unwrap()))
}

fn upstream() -> (Upstream, SocketAddr) {
    let upstream = Upstream::default();
    let address = serve(Server::builder().add_service(upstream.echo()));
    (upstream, address)
}

/// A server that never responds to its first calls.
fn hanging_first(calls: usize) -> (Upstream, SocketAddr, Arc<AtomicUsize>) {
    let (upstream, hits) = (Upstream::default(), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&hits);
    let layer = tower::util::MapFutureLayer::new(move |future| {
        let number = seen.fetch_add(1, Ordering::SeqCst);
        async move {
            if number < calls {
                pending::<()>().await;
            }
            future.await
        }
    });
    let address = serve(Server::builder().layer(layer).add_service(upstream.echo()));
    (upstream, address, hits)
}

fn part(status: &Status) -> (StackPart, Option<u32>) {
    let error = StackError::find_in(status).unwrap();
    (error.part(), error.attempts())
}

#[tokio::test]
async fn one_setter_makes_breaker_retries_and_hedge_those_of_grpc() {
    for is_protocol_first in [true, false] {
        let (upstream, server) = upstream();
        let breaker = breaker(2);
        let hedge = Hedge::new(HedgeConfig::builder().fixed_delay(LONG).build().unwrap());
        let mut client = if is_protocol_first {
            let stack = client_stack().protocol(Grpc::new()).deadline(LONG).breakers(Arc::clone(&breaker));
            let stack = stack.retry(quick(3)).hedge(hedge).attempt_timeout(LONG).limit(Quota::per_second(100));
            EchoClient::new(stack.boxed(channel(server)))
        } else {
            let stack = client_stack().limit(Quota::per_second(100)).hedge(hedge).retry(quick(3));
            let stack = stack.breakers(Arc::clone(&breaker)).attempt_timeout(LONG).deadline(LONG).protocol(Grpc::new());
            EchoClient::new(stack.boxed(channel(server)))
        };
        assert_eq!(client.unary(message("hello")).await.unwrap().into_inner(), message("hello"));
        let all = client.client_streaming(messages(&["a", "b"])).await.unwrap();
        assert_eq!((all.into_inner(), upstream.hits()), (message("ab"), 2));
        upstream.answer(Code::Unavailable);
        for calls in 1..=2 {
            assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Unavailable);
            // Three attempts, and the failure of the first sent a hedge at once.
            assert!(upstream.hits() > 2 + 2 * calls, "{}", upstream.hits());
        }
        assert_eq!(breaker.state(), State::Open, "the breaker counts calls, not attempts");
        let hits = upstream.hits();
        let status = client.unary(message("hello")).await.unwrap_err();
        assert_eq!(
            (status.code(), part(&status), upstream.hits()),
            (Code::Unavailable, (StackPart::Breaker, None), hits)
        );
        assert!(status.message().starts_with("circuit open, next probe in "), "{status}");
        assert!(CircuitOpen::find_in(&status).is_some());
        assert!(damper::is_refusal(&status));
    }
}

/// An unavailable server is no success, although its response's head is a `200 OK`.
///
/// Other codes are not retried.
#[tokio::test]
async fn codes_are_judged_like_in_layers_for_grpc() {
    let (upstream, server) = upstream();
    upstream.answer(Code::Internal);
    let breaker = breaker(1);
    let stack = client_stack().breakers(Arc::clone(&breaker)).retry(quick(3)).protocol(Grpc::new());
    let mut client = EchoClient::new(stack.service(channel(server)));
    assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Internal);
    assert_eq!((upstream.hits(), breaker.state()), (1, State::Closed));
    upstream.answer(Code::Unavailable);
    let mut stream = client.server_streaming(message("hello")).await.unwrap().into_inner();
    while let Ok(Some(_)) = stream.message().await {}
    assert_eq!(breaker.state(), State::Open, "judged by a stream's trailers");
}

/// An unavailable server rejects calls, although the heads of its streams are `200 OK`.
#[tokio::test]
async fn throttle_counts_the_trailers_and_its_refusal_is_unavailable() {
    let (upstream, server) = upstream();
    upstream.answer(Code::Unavailable);
    let stack = client_stack().throttle_single().protocol(Grpc::new());
    let mut client = EchoClient::new(stack.service(channel(server)));
    let status = loop {
        let Ok(stream) = client.bidirectional(messages(&["end"])).await else {
            break client.unary(message("hello")).await;
        };
        let mut stream = stream.into_inner();
        while let Ok(Some(_)) = stream.message().await {}
        assert!(upstream.hits() < 1_000, "the throttle refuses");
    };
    // This call may have been sent by chance.
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    if status.message() != "as scripted" {
        assert_eq!(part(&status), (StackPart::Throttle, None));
    }
}

/// A status among the sources of the stack's error is judged by its code.
///
/// A breaker directly around the client judges it the same way.
#[tokio::test]
async fn status_that_the_client_returns_as_an_error_is_judged_by_its_code() {
    for (code, state) in [(Code::Internal, State::Closed), (Code::Unavailable, State::Open)] {
        let breaker = breaker(1);
        let failing = tower::service_fn(move |_: Request<tonic::body::Body>| {
            std::future::ready(Err::<Response<tonic::body::Body>, _>(Status::new(code, "as scripted")))
        });
        let stack = client_stack().breakers(Arc::clone(&breaker)).protocol(Grpc::new());
        let status = EchoClient::new(stack.service(failing)).unary(message("hello")).await.unwrap_err();
        assert_eq!((status.code(), status.message(), part(&status).0), (code, "as scripted", StackPart::Transport));
        assert_eq!(breaker.state(), state, "{code:?}");
    }
}

#[tokio::test]
async fn settings_of_the_protocol_hold_for_all_parts() {
    let (upstream, server) = upstream();
    upstream.answer(Code::Aborted);
    let breaker = breaker(1);
    let protocol = Grpc::new().retries(GrpcRetries::on([Code::Aborted])).completion(
        AtTrailers::new().classify(|code| if code == Code::Aborted { Ending::Failed } else { Ending::Success }),
    );
    let stack = client_stack().breakers(Arc::clone(&breaker)).protocol(protocol).retry(quick(3));
    let mut client = EchoClient::new(stack.service(channel(server)));
    assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Aborted);
    assert_eq!((upstream.hits(), breaker.state()), (3, State::Open));
}

#[tokio::test]
async fn limit_is_resource_exhausted_and_not_retried() {
    let (upstream, server) = upstream();
    let breaker = breaker(1);
    let stack = client_stack().limit(Quota::per_minute(1)).retry(quick(3)).breakers(Arc::clone(&breaker));
    let mut client = EchoClient::new(stack.protocol(Grpc::new()).service(channel(server)));
    client.unary(message("hello")).await.unwrap();
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status)), (Code::ResourceExhausted, (StackPart::Limit, Some(1))));
    assert!(status.message().starts_with("rate limit exceeded, retry in "), "{status}");
    let wait = StackError::find_in(&status).unwrap().retry_after();
    assert_eq!(wait, find::<Denied>(&status).unwrap().retry_after());
    assert!(wait.is_some());
    assert_eq!((upstream.hits(), breaker.state()), (1, State::Closed), "the refusal is no failure of the server");
}

fn find<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

#[tokio::test]
async fn attempt_that_times_out_is_unavailable_and_tried_again() {
    let (_, server, hits) = hanging_first(1);
    let stack = client_stack().attempt_timeout(SHORT).retry(quick(2)).protocol(Grpc::new());
    let mut client = EchoClient::new(stack.service(channel(server)));
    client.unary(message("hello")).await.unwrap();
    assert_eq!(hits.load(Ordering::SeqCst), 2);

    let (_, server, hits) = hanging_first(9);
    let breaker = breaker(1);
    let stack = client_stack().attempt_timeout(SHORT).retry(quick(2)).breakers(Arc::clone(&breaker));
    let mut client = EchoClient::new(stack.protocol(Grpc::new()).service(channel(server)));
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status)), (Code::Unavailable, (StackPart::Retry, Some(2))));
    assert!(AttemptTimedOut::find_in(&status).is_some());
    assert!(find::<RetryError<StackError>>(&status).is_some());
    assert_eq!((hits.load(Ordering::SeqCst), breaker.state()), (2, State::Open));
}

#[tokio::test]
async fn deadline_is_deadline_exceeded_and_reaches_the_server() {
    let (_, server, _) = hanging_first(9);
    let stack = client_stack().deadline(SHORT).retry(quick(2)).protocol(Grpc::new());
    let mut client = EchoClient::new(stack.service(channel(server)));
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status).0), (Code::DeadlineExceeded, StackPart::Deadline));
    assert!(DeadlineExceeded::find_in(&status).is_some());
}

/// The retries find no time left for another attempt.
#[tokio::test]
async fn retries_without_time_left_are_deadline_exceeded() {
    let (upstream, server) = upstream();
    let dead = std::net::TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let retry = Retry::new(9).backoff(Backoff::constant(LONG).max_delay(LONG).jitter(Jitter::None));
    let breaker = breaker(1);
    let stack = client_stack().deadline(LONG / 2).retry(retry).breakers(Arc::clone(&breaker)).protocol(Grpc::new());
    let mut client = EchoClient::new(stack.service(channel(dead)));
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status)), (Code::DeadlineExceeded, (StackPart::Retry, Some(1))));
    assert_eq!(breaker.state(), State::Open);
    // A response is returned unchanged.
    upstream.answer(Code::Unavailable);
    breaker.force_closed();
    let mut client = EchoClient::new(stack.service(channel(server)));
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "as scripted"));
}

#[tokio::test]
async fn transport_that_cannot_connect_is_unavailable() {
    let dead = std::net::TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut client = EchoClient::new(client_stack().protocol(Grpc::new()).service(channel(dead)));
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status)), (Code::Unavailable, (StackPart::Transport, None)));
    assert!(find::<tonic::transport::Error>(&status).is_some());
}

/// Limits on calls in flight of a client and a server. Streams hold their slots until their trailers.
#[tokio::test]
async fn bulkhead_is_unavailable_and_not_retried() {
    let (upstream, server) = upstream();
    let breaker = breaker(1);
    let stack = client_stack().bulkhead(1).retry(quick(3)).breakers(Arc::clone(&breaker)).protocol(Grpc::new());
    let client = EchoClient::new(stack.service(channel(server)));
    let open = client.clone().bidirectional(futures_util::stream::pending()).await.unwrap();
    let status = client.clone().unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status)), (Code::Unavailable, (StackPart::Concurrency, Some(1))));
    assert_eq!(status.message(), "too many calls in flight, limit 1");
    assert!(find::<BulkheadFull>(&status).is_some());
    assert_eq!((upstream.hits(), breaker.state()), (1, State::Closed), "the refusal is no failure of the server");
    drop(open);
    client.clone().unary(message("hello")).await.unwrap();

    let upstream = Upstream::default();
    let server = serve(Server::builder().layer(server_stack().bulkhead(1)).add_service(upstream.echo()));
    let open = support::client(server).bidirectional(futures_util::stream::pending()).await.unwrap();
    let status = support::client(server).unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "too many calls in flight, limit 1"));
    drop(open);
    let gate = Arc::new(Admission::fixed(0));
    let server = serve(Server::builder().layer(server_stack().admission(gate)).add_service(upstream.echo()));
    let status = support::client(server).unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "not admitted, the limit is 0"));
}

/// An inner layer that does not know gRPC.
#[tokio::test]
async fn refusal_of_an_inner_layer_has_the_code_of_its_kind() {
    let (upstream, server) = upstream();
    let breaker = breaker(1);
    let at_trailers = || CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new());
    let empty = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    empty.check().unwrap();
    let limited = tower::ServiceBuilder::new().layer(at_trailers()).layer(GateLayer::limit(empty));
    let status = EchoClient::new(limited.service(channel(server))).unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), find::<Denied>(&status).is_some()), (Code::ResourceExhausted, true), "{status:?}");
    let full = tower::ServiceBuilder::new().layer(at_trailers()).layer(ClientConcurrencyLayer::bulkhead(0));
    let status = EchoClient::new(full.service(channel(server))).unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), find::<BulkheadFull>(&status).is_some()), (Code::Unavailable, true), "{status:?}");
    assert_eq!(status.message(), "too many calls in flight, limit 0");
    let retried = RetryLayer::new(quick(3)).protocol(GrpcRetries::new());
    let retried = tower::ServiceBuilder::new().layer(retried).layer(ClientConcurrencyLayer::bulkhead(0));
    let status = EchoClient::new(retried.service(channel(server))).unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), find::<BulkheadFull>(&status).is_some()), (Code::Unavailable, true), "{status:?}");
    assert_eq!((upstream.hits(), breaker.state()), (0, State::Closed));
}

/// A stack around tonic's server responds with gRPC statuses.
#[tokio::test]
async fn stack_of_a_server_responds_with_statuses() {
    let upstream = Upstream::default();
    let stack = server_stack().limit(Quota::per_hour(1).burst(1)).deadline(SHORT);
    let server = serve(Server::builder().layer(stack).add_service(upstream.echo()));
    let mut client = support::client(server);
    client.unary(message("hello")).await.unwrap();
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), upstream.hits()), (Code::ResourceExhausted, 1));

    let hanging = tower::service_fn(|_: Request<tonic::body::Body>| {
        pending::<Result<Response<http_body_util::Empty<Bytes>>, std::io::Error>>()
    });
    let mut direct = EchoClient::new(server_stack().deadline(SHORT).service(hanging));
    let status = direct.unary(message("hello")).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

/// Checks that the sentences of an error and of its sources are `count` different ones.
#[track_caller]
fn assert_states_once(error: &StackError, count: usize) {
    let text = format!("{error:#}");
    let sentences: Vec<_> = text.split(": ").collect();
    assert_eq!(sentences.len(), count, "{text}");
    for (number, sentence) in sentences.iter().enumerate() {
        assert!(!sentences.get(..number).unwrap().contains(sentence), "{text}");
    }
}

#[tokio::test]
async fn alternate_display_repeats_no_message() {
    let (upstream, server) = upstream();
    for is_throttled in [false, true] {
        let stack = client_stack().protocol(Grpc::new()).breakers(breaker(1)).retry(quick(2));
        let status = if is_throttled {
            let stack = stack.throttle_single().limit(Quota::per_hour(0));
            EchoClient::new(stack.service(channel(server))).unary(message("hello")).await.unwrap_err()
        } else {
            let stack = stack.limit(Quota::per_hour(0));
            EchoClient::new(stack.service(channel(server))).unary(message("hello")).await.unwrap_err()
        };
        let error = StackError::find_in(&status).unwrap();
        assert_states_once(error, 3);
        assert!(format!("{error:#}").starts_with("call refused by the rate limit: rate limit exceeded"), "{error:#}");
    }
    let breaker = breaker(1);
    breaker.force_open();
    let stack = client_stack().protocol(Grpc::new()).breakers(breaker).retry(quick(2)).throttle_single();
    let status = EchoClient::new(stack.service(channel(server))).unary(message("hello")).await.unwrap_err();
    let error = StackError::find_in(&status).unwrap();
    assert_eq!(format!("{error:#}"), "call refused by the breaker: circuit forced open");
    let stack = client_stack().protocol(Grpc::new()).attempt_timeout(SHORT).retry(quick(2)).throttle_single();
    let (_, hanging, _) = hanging_first(9);
    let client = stack.breaker_single(BreakerConfig::default()).service(channel(hanging));
    let status = EchoClient::new(client).unary(message("hello")).await.unwrap_err();
    let error = StackError::find_in(&status).unwrap();
    assert_states_once(error, 5);
    assert_eq!(upstream.hits(), 0);
}

/// A middleware wraps the stack's error.
#[tokio::test]
async fn layer_that_wraps_the_error_of_the_stack_repeats_no_sentence() {
    #[derive(Debug)]
    struct Wrapped(StackError);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("not greeted")
        }
    }

    impl std::error::Error for Wrapped {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    let (_, server) = upstream();
    let wrapping = tower::util::MapErrLayer::new(|error| Box::new(Wrapped(error)) as support::BoxError);
    let stack = client_stack().concurrency_layer(ClientConcurrencyLayer::bulkhead(0)).deadline_layer(wrapping);
    let mut client = stack.service(channel(server));
    let request = Request::new(tonic::body::Body::empty());
    let error = tower::Service::call(&mut client, request).await.unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "call refused by the concurrency limit: not greeted: too many calls in flight, limit 0"
    );
}

/// Each attempt times out, and the backoff after it exceeds the remaining deadline.
#[tokio::test]
async fn deadline_after_an_attempt_timeout_is_deadline_exceeded() {
    let (_, server, _) = hanging_first(9);
    let retry = Retry::new(9).backoff(Backoff::constant(LONG).max_delay(LONG).jitter(Jitter::None));
    let stack = client_stack().deadline(LONG / 2).attempt_timeout(SHORT).retry(retry).protocol(Grpc::new());
    let status = EchoClient::new(stack.service(channel(server))).unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status)), (Code::DeadlineExceeded, (StackPart::Retry, Some(1))));
    assert!(AttemptTimedOut::find_in(&status).is_some());
}

/// tonic makes a status of an error's message if there is no status in its chain.
#[tokio::test]
async fn status_of_an_unknown_error_states_its_cause() {
    let failing = || {
        tower::service_fn(|_: Request<tonic::body::Body>| {
            std::future::ready(Err::<Response<tonic::body::Body>, _>(std::io::Error::other("cable unplugged")))
        })
    };
    let bare = client_stack().protocol(Grpc::new());
    let plain = EchoClient::new(bare.service(failing())).unary(message("hello")).await.unwrap_err();
    let retry = client_stack().protocol(Grpc::new()).retry(quick(2));
    let retried = EchoClient::new(retry.service(failing())).unary(message("hello")).await.unwrap_err();
    assert_eq!(part(&retried), (StackPart::Retry, Some(2)), "the connection was lost");
    let breaker = client_stack().protocol(Grpc::new()).breakers(breaker(9)).retry(quick(2));
    let broken = EchoClient::new(breaker.service(failing())).unary(message("hello")).await.unwrap_err();
    for status in [plain, retried, broken] {
        assert!(status.message().contains("cable unplugged"), "{status:?}");
        let error = StackError::find_in(&status).unwrap();
        assert_eq!(format!("{error:#}").matches("cable unplugged").count(), 1, "{error:#}");
    }
}

/// A throttle and a breaker inside make a status of each error of the transport.
#[tokio::test]
async fn lost_connection_is_retried_and_a_failure_also_behind_parts_that_make_a_status_of_it() {
    type Lost = fn() -> Box<dyn std::error::Error + Send + Sync>;
    let lost: [Lost; 2] =
        [|| std::io::Error::from(std::io::ErrorKind::ConnectionReset).into(), || "the connection is gone".into()];
    for error in lost {
        for is_throttled in [false, true] {
            let hits = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&hits);
            let transport = tower::service_fn(move |_: Request<tonic::body::Body>| {
                counted.fetch_add(1, Ordering::SeqCst);
                std::future::ready(Err::<Response<tonic::body::Body>, _>(error()))
            });
            let breaker = breaker(1);
            let stack = client_stack().breakers(Arc::clone(&breaker)).retry(quick(3)).protocol(Grpc::new());
            let status = if is_throttled {
                EchoClient::new(stack.throttle_single().boxed(transport)).unary(message("hello")).await
            } else {
                EchoClient::new(stack.boxed(transport)).unary(message("hello")).await
            };
            let status = status.unwrap_err();
            assert_eq!(hits.load(Ordering::SeqCst), 3, "{status:?}, behind a throttle: {is_throttled}");
            assert_eq!(breaker.state(), State::Open, "{status:?}, behind a throttle: {is_throttled}");
        }
    }
}

/// The status that a layer gives an error decides the verdict.
#[tokio::test]
async fn status_that_a_layer_made_by_its_own_rule_is_judged_by_its_code() {
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    let transport = tower::service_fn(move |_: Request<tonic::body::Body>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut status = Status::permission_denied("no certificate");
        status.set_source(Arc::new(std::io::Error::other("no certificate")));
        std::future::ready(Err::<Response<tonic::body::Body>, _>(status))
    });
    let breaker = breaker(1);
    let stack = client_stack().breakers(Arc::clone(&breaker)).retry(quick(3)).throttle_single().protocol(Grpc::new());
    let status = EchoClient::new(stack.boxed(transport)).unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), hits.load(Ordering::SeqCst)), (Code::PermissionDenied, 1));
    assert_eq!(breaker.state(), State::Closed);
}
