//! Deadlines of gRPC servers and clients, over real sockets.

use crate::http_support;
use crate::support::echo::Message;
use crate::support::echo::echo_client::EchoClient;
use crate::support::echo::echo_server::{Echo, EchoServer};
use crate::support::{channel, message, serve};
use bytes::Bytes;
use damper::http::{ClientDeadlineLayer, DeadlineLayer, TimeoutUnit};
use damper::tonic::{Grpc, IntoStatus};
use damper::wire::{GRPC_TIMEOUT, grpc_timeout_in};
use damper::{Deadline, DeadlineExceeded};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as PooledClient;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::error::Error;
use std::future::{pending, ready};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tonic::transport::Server;
use tonic::{Code, Status, Streaming};
use tower::{ServiceExt, service_fn};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

type Answer<T> = Result<tonic::Response<T>, Status>;

type Unary = dyn Fn(tonic::Request<Message>) -> BoxFuture<'static, Answer<Message>> + Send + Sync;

/// A service of one closure. Its streams send one message and then stall.
#[derive(Clone)]
struct Scripted(Arc<Unary>);

impl Scripted {
    /// Serves a closure behind deadlines.
    fn serve<F: Future<Output = Answer<Message>> + Send + 'static>(
        unary: impl Fn(tonic::Request<Message>) -> F + Send + Sync + 'static,
    ) -> SocketAddr {
        let service = Self(Arc::new(move |request| Box::pin(unary(request))));
        serve(Server::builder().layer(DeadlineLayer::new(LONG)).add_service(EchoServer::new(service)))
    }
}

#[tonic::async_trait]
impl Echo for Scripted {
    type ServerStreamingStream = BoxStream<'static, Result<Message, Status>>;
    type BidirectionalStream = BoxStream<'static, Result<Message, Status>>;

    async fn unary(&self, request: tonic::Request<Message>) -> Answer<Message> {
        (self.0)(request).await
    }

    async fn client_streaming(&self, _: tonic::Request<Streaming<Message>>) -> Answer<Message> {
        Err(Status::unimplemented(""))
    }

    async fn server_streaming(&self, request: tonic::Request<Message>) -> Answer<Self::ServerStreamingStream> {
        Ok(tonic::Response::new(stream::iter([Ok(request.into_inner())]).chain(stream::pending()).boxed()))
    }

    async fn bidirectional(&self, _: tonic::Request<Streaming<Message>>) -> Answer<Self::BidirectionalStream> {
        Err(Status::unimplemented(""))
    }
}

fn deadline_of<T>(request: &tonic::Request<T>) -> Deadline {
    *request.extensions().get::<Deadline>().unwrap()
}

/// Responds with the deadline that the handler received, in milliseconds.
async fn respond_with_deadline(request: tonic::Request<Message>) -> Answer<Message> {
    Ok(tonic::Response::new(message(&deadline_of(&request).specified().as_millis().to_string())))
}

/// Sets the flag when it is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Calls a method with a plain HTTP/2 client, which has no timeouts of its own.
async fn send(server: SocketAddr, method: &str, content_type: &str, timeout: &str) -> Response<Incoming> {
    let stream = TokioIo::new(TcpStream::connect(server).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{server}/damper.test.Echo/{method}"))
        .header("content-type", content_type)
        .header("grpc-timeout", timeout)
        .body(Full::<Bytes>::from(vec![0; 5])); // an empty message
    sender.send_request(request.unwrap()).await.unwrap()
}

#[tokio::test]
async fn handler_gets_the_smaller_of_grpc_timeout_and_default() {
    let server = Scripted::serve(respond_with_deadline);
    for (timeout, expected) in [("2S", "2000"), ("90000000u", "60000"), ("100H", "60000"), ("1 S", "60000")] {
        let body = send(server, "Unary", "application/grpc", timeout).await.collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
        assert!(body.to_bytes().ends_with(expected.as_bytes()), "{timeout}");
    }
}

#[tokio::test]
async fn expired_request_gets_a_response_without_a_call() {
    let server = Scripted::serve(|_| async { panic!("the handler was called") });
    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc-web"] {
        let response = send(server, "Unary", content_type, "0m").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["grpc-status"], "4");
        assert_eq!(response.headers()["content-type"], content_type);
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert!(response.body().is_end_stream());
    }
}

#[tokio::test]
async fn slow_handler_is_dropped_with_deadline_exceeded() {
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let server = Scripted::serve(move |_| {
        let flag = DropFlag(Arc::clone(&flag));
        async move {
            let _flag = flag;
            pending().await
        }
    });
    let began = Instant::now();
    let response = send(server, "Unary", "application/grpc", "300m").await;
    assert_eq!(response.headers()["grpc-status"], "4");
    assert!(began.elapsed() >= SHORT);
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn stalled_stream_ends_with_deadline_exceeded_in_its_trailers() {
    let server = Scripted::serve(respond_with_deadline);
    let began = Instant::now();
    let body = send(server, "ServerStreaming", "application/grpc", "300m").await.into_body().collect().await.unwrap();
    assert!(began.elapsed() >= SHORT);
    let trailers = body.trailers().unwrap();
    assert_eq!(trailers["grpc-status"], "4");
    assert!(trailers["grpc-message"].to_str().unwrap().starts_with("deadline%20of%20300%20ms%20exceeded"));
    assert_eq!(body.to_bytes().len(), 5, "the message before the end");
}

/// The trailers of gRPC-Web are part of the body, which the layer does not write.
#[tokio::test]
async fn stalled_stream_of_grpc_web_breaks_off() {
    let stalled = service_fn(|_: Request<Empty<Bytes>>| {
        let frames = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        ready(Ok::<_, Infallible>(Response::new(StreamBody::new(frames))))
    });
    let request = Request::post("/").header("content-type", "application/grpc-web+proto").body(Empty::new()).unwrap();
    let mut body = DeadlineLayer::new(SHORT).layer(stalled).oneshot(request).await.unwrap().into_body();
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(DeadlineExceeded::find_in(&*error).is_some());
}

/// `Request::set_timeout` and a deadline in the extensions bound one call.
///
/// The layer's own timeout bounds all calls.
#[tokio::test]
async fn client_sends_the_smallest_remaining_time() {
    let server = Scripted::serve(respond_with_deadline);
    let layer = ClientDeadlineLayer::new(Duration::from_secs(20));
    let mut client = EchoClient::new(layer.margin(Duration::from_secs(1)).layer(channel(server)));
    for (timeout, extension, expected) in
        [(None, None, 19), (Some(10), None, 9), (Some(40), None, 19), (None, Some(10), 9), (Some(10), Some(5), 4)]
    {
        let mut request = tonic::Request::new(message(""));
        if let Some(seconds) = timeout {
            request.set_timeout(Duration::from_secs(seconds));
        }
        if let Some(seconds) = extension {
            request.extensions_mut().insert(Deadline::after(Duration::from_secs(seconds)));
        }
        let sent: u64 = client.unary(request).await.unwrap().into_inner().text.parse().unwrap();
        assert!((expected * 1_000 - 900..=expected * 1_000).contains(&sent), "{sent} of {timeout:?}, {extension:?}");
    }
}

/// The server honours no deadlines.
#[tokio::test]
async fn client_cuts_off_calls_and_streams() {
    let service = Scripted(Arc::new(|_| Box::pin(pending())));
    let server = serve(Server::builder().add_service(EchoServer::new(service)));
    let mut client = EchoClient::new(ClientDeadlineLayer::new(SHORT).protocol(Grpc::new()).layer(channel(server)));

    let status = client.unary(message("")).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(DeadlineExceeded::find_in(&status).unwrap().specified(), SHORT);

    let mut messages = client.server_streaming(message("first")).await.unwrap().into_inner();
    assert_eq!(messages.message().await.unwrap().unwrap().text, "first");
    let status = messages.message().await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(DeadlineExceeded::find_in(&status).unwrap().specified(), SHORT);
}

#[tokio::test]
async fn handler_converts_a_failed_check_with_a_question_mark() {
    let server = Scripted::serve(|request| async move {
        tokio::task::yield_now().await;
        let spent = deadline_of(&request).child(LONG);
        spent.check().map_err(IntoStatus::into_status)?;
        respond_with_deadline(request).await
    });
    let status = EchoClient::new(channel(server)).unary(message("")).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

/// The suite `deadline_propagation`, without its step about a retry.
///
/// The core's `conformance/grpc_retry.rs` has that step.
#[tokio::test]
async fn deadlines_are_propagated_as_in_the_vectors() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../damper-core/tests/core/conformance/vectors/grpc.json")).unwrap();
    let suite = vectors["suites"].as_array().unwrap().iter().find(|suite| suite["id"] == "deadline_propagation");
    let mut run = 0;
    for step in suite.unwrap()["steps"].as_array().unwrap() {
        if step.get("retry_delay_ms").is_some() {
            continue;
        }
        run += 1;
        let millis = |name: &str| step.get(name).and_then(serde_json::Value::as_u64).map(Duration::from_millis);
        let elapsed = millis("elapsed_ms").unwrap();
        let layer = match millis("local_default_ms") {
            Some(own) => ClientDeadlineLayer::new(own),
            None => ClientDeadlineLayer::propagating(),
        };
        let sent = Arc::new(Mutex::new(None));
        let recorded = Arc::clone(&sent);
        let upstream = layer.protocol(Grpc::new()).layer(service_fn(move |request: Request<Empty<Bytes>>| {
            *recorded.lock().unwrap() = Some(grpc_timeout_in(request.headers()));
            ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        }));
        let post = || Request::post("/").header("content-type", "application/grpc");
        let handler = move |extension: Option<Deadline>| async move {
            tokio::time::sleep(elapsed).await;
            let mut request = post().body(Empty::<Bytes>::new()).unwrap();
            if let Some(deadline) = extension {
                request.extensions_mut().insert(deadline);
            }
            upstream.oneshot(request).await
        };
        let incoming = step["incoming"].as_str();
        let result = match incoming {
            None => handler(None).await.map(|_| ()),
            Some(timeout) => {
                let timeout =
                    grpc_timeout_in(&[(GRPC_TIMEOUT, HeaderValue::from_str(timeout).unwrap())].into_iter().collect());
                handler(Some(Deadline::after(timeout.unwrap()))).await.map(|_| ())
            }
        };
        let sent = sent.lock().unwrap().take();
        match step.get("outgoing_max_ns").and_then(serde_json::Value::as_u64) {
            Some(most) => {
                let timeout = sent.flatten().unwrap();
                assert!(timeout <= Duration::from_nanos(most) && !timeout.is_zero(), "{timeout:?}: {step}");
            }
            None if incoming.is_none() => assert_eq!(sent, Some(None), "{step}"),
            None => {
                assert_eq!(sent, None, "{step}");
                let status = Status::from_error(result.unwrap_err());
                assert_eq!(status.code(), Code::DeadlineExceeded, "{step}");
            }
        }
    }
    assert_eq!(run, 6);
}

const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

/// The response of the last server of a chain.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Answers,
    IsSilent,
    StallsInItsBody,
}

/// Starts a chain HTTP → gRPC → HTTP.
///
/// Returns the address of the first server, and the timeouts that the three received.
async fn chain(last: Last) -> (SocketAddr, Arc<Mutex<Vec<Duration>>>, Arc<AtomicBool>) {
    type BoxError = Box<dyn Error + Send + Sync>;
    let timeouts = Arc::new(Mutex::new(Vec::new()));
    let dropped = Arc::new(AtomicBool::new(false));
    let record = |timeouts: &Arc<Mutex<Vec<Duration>>>| {
        let timeouts = Arc::clone(timeouts);
        move |deadline: &Deadline| timeouts.lock().unwrap().push(deadline.specified())
    };
    let server = || DeadlineLayer::new(LONG).header(TIMEOUT, TimeoutUnit::Milliseconds);
    let client = || ClientDeadlineLayer::new(LONG).header(TIMEOUT, TimeoutUnit::Milliseconds);

    let (recorded, flag) = (record(&timeouts), Arc::clone(&dropped));
    let third = http_support::serve(move |_| {
        let (recorded, flag) = (recorded.clone(), Arc::clone(&flag));
        server().layer(hyper::service::service_fn(move |request: Request<Incoming>| {
            recorded(request.extensions().get().unwrap());
            let flag = DropFlag(Arc::clone(&flag));
            async move {
                if last == Last::IsSilent {
                    let _flag = flag;
                    return pending().await;
                }
                let rest = if last == Last::Answers { stream::empty().boxed() } else { stream::pending().boxed() };
                let frames = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("third")))]).chain(rest);
                Ok::<_, Infallible>(Response::new(StreamBody::new(frames.inspect(move |_| _ = &flag))))
            }
        }))
    })
    .await;

    let recorded = record(&timeouts);
    let second = Scripted::serve(move |request| {
        recorded(&deadline_of(&request));
        async move {
            let get = Request::get(format!("http://{third}/")).extension(deadline_of(&request));
            let upstream = client().layer(PooledClient::builder(TokioExecutor::new()).build_http());
            let failed = |error: BoxError| Status::from_error(error);
            let response = upstream.oneshot(get.body(Empty::<Bytes>::new()).unwrap()).await.map_err(failed)?;
            if response.status() == StatusCode::GATEWAY_TIMEOUT {
                return Err(Status::deadline_exceeded("third"));
            }
            let body = response.into_body().collect().await.map_err(failed)?.to_bytes();
            Ok(tonic::Response::new(message(std::str::from_utf8(&body).unwrap())))
        }
    });

    let recorded = record(&timeouts);
    let first = http_support::serve(move |_| {
        let recorded = recorded.clone();
        server().layer(hyper::service::service_fn(move |request: Request<Incoming>| {
            let deadline: Deadline = *request.extensions().get().unwrap();
            recorded(&deadline);
            async move {
                let mut call = tonic::Request::new(message(""));
                call.extensions_mut().insert(deadline);
                let answer = EchoClient::new(client().layer(channel(second))).unary(call).await;
                let (status, text) = match answer {
                    Ok(answer) => (StatusCode::OK, answer.into_inner().text),
                    Err(status) if status.code() == Code::DeadlineExceeded => {
                        (StatusCode::GATEWAY_TIMEOUT, String::new())
                    }
                    Err(status) => (StatusCode::BAD_GATEWAY, status.to_string()),
                };
                let response = Response::builder().status(status).body(Full::<Bytes>::from(text));
                Ok::<_, Infallible>(response.unwrap())
            }
        }))
    })
    .await;
    (first, timeouts, dropped)
}

#[tokio::test]
async fn chain_of_three_passes_one_deadline_on() {
    let (first, timeouts, _) = chain(Last::Answers).await;
    let mut client = http_support::Client::of(first).await;
    let response = client.get_with("/", &[("x-timeout-ms", "20000")]).await;
    assert_eq!((response.status(), &response.body()[..]), (StatusCode::OK, &b"third"[..]));
    let timeouts = timeouts.lock().unwrap().clone();
    assert_eq!(timeouts[0], Duration::from_secs(20));
    assert_eq!(timeouts.len(), 3);
    assert!(timeouts.is_sorted_by(|before, after| before > after), "{timeouts:?}");
}

#[tokio::test]
async fn no_result_follows_the_deadline_of_a_chain() {
    for last in [Last::IsSilent, Last::StallsInItsBody] {
        let (first, timeouts, dropped) = chain(last).await;
        let mut client = http_support::Client::of(first).await;
        let began = Instant::now();
        let response = client.get_with("/", &[("x-timeout-ms", "300")]).await;
        let elapsed = began.elapsed();
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        // The servers' own deadline is a minute.
        assert!(elapsed >= Duration::from_millis(290) && elapsed < Duration::from_secs(20), "{elapsed:?}");
        let timeouts = timeouts.lock().unwrap().clone();
        assert_eq!((timeouts.len(), timeouts[0]), (3, Duration::from_millis(300)));
        assert!(timeouts.is_sorted_by(|before, after| before > after), "{timeouts:?}");
        // The last server drops its work too, by its own deadline or because its client disconnected.
        for _ in 0..100 {
            if dropped.load(Ordering::SeqCst) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(dropped.load(Ordering::SeqCst));
    }
}
