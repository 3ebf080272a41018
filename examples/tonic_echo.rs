//! gRPC with tonic: a server with a limit per client, and a client with a breaker around its own retry.
//!
//! They talk over real sockets. With `--serve` it prints its address and serves until it is ended, for clients in other
//! languages.

use damper::http::{CircuitBreakerLayer, RateLimitLayer, Single};
use damper::tonic::AtTrailers;
use damper::{BreakerConfig, CircuitOpen, Quota};
use echo::Message;
use echo::echo_client::EchoClient;
use echo::echo_server::{Echo, EchoServer};
use echo::health_client::HealthClient;
use echo::health_server::{Health, HealthServer};
use futures_util::stream::{self, BoxStream, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::http;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::body::Body;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::StatusExt;
use tower::{Service, ServiceBuilder, ServiceExt};

#[allow(clippy::pedantic, dead_code, unreachable_pub, reason = "what tonic-prost-build makes of echo.proto")]
#[path = "../crates/damper-tonic/tests/grpc/echo.rs"]
mod echo;

type BoxError = Box<dyn Error + Send + Sync>;

/// Sends back what it gets; if it is sick, it says so instead. Counts its calls.
#[derive(Clone, Default)]
struct Echoing {
    is_sick: bool,
    calls: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl Echo for Echoing {
    type ServerStreamingStream = BoxStream<'static, Result<Message, Status>>;
    type BidirectionalStream = BoxStream<'static, Result<Message, Status>>;

    async fn unary(&self, request: Request<Message>) -> Result<Response<Message>, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_sick { Err(Status::unavailable("sick")) } else { Ok(Response::new(request.into_inner())) }
    }

    async fn client_streaming(&self, request: Request<Streaming<Message>>) -> Result<Response<Message>, Status> {
        let mut messages = request.into_inner();
        let mut last = Message::default();
        while let Some(message) = messages.message().await? {
            last = message;
        }
        Ok(Response::new(last))
    }

    async fn server_streaming(
        &self,
        request: Request<Message>,
    ) -> Result<Response<Self::ServerStreamingStream>, Status> {
        Ok(Response::new(stream::iter(vec![Ok(request.into_inner()); 3]).boxed()))
    }

    async fn bidirectional(
        &self,
        request: Request<Streaming<Message>>,
    ) -> Result<Response<Self::BidirectionalStream>, Status> {
        Ok(Response::new(request.into_inner().boxed()))
    }
}

#[tonic::async_trait]
impl Health for Echoing {
    async fn check(&self, request: Request<Message>) -> Result<Response<Message>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

/// Tries a unary call up to three times while its server is unavailable.
#[derive(Clone)]
struct Retry(Channel);

impl Service<http::Request<Body>> for Retry {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut channel = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let message = body.collect().await?.to_bytes();
            for wait in [10, 20] {
                let request = http::Request::from_parts(head.clone(), Body::new(Full::from(message.clone())));
                let answer = channel.ready().await?.call(request).await?;
                // Without messages, the status is in the headers.
                if Status::from_header_map(answer.headers()).is_none_or(|status| status.code() != Code::Unavailable) {
                    return Ok(answer);
                }
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            let request = http::Request::from_parts(head, Body::new(Full::from(message)));
            Ok(channel.ready().await?.call(request).await?)
        })
    }
}

fn message(text: &str) -> Message {
    Message { text: text.to_owned() }
}

fn channel(address: SocketAddr) -> Result<Channel, Box<dyn Error>> {
    Ok(Endpoint::from_shared(format!("http://{address}"))?.connect_lazy())
}

/// Three calls at once pass, and the refusal of the fourth says how long to wait.
async fn run_into_the_limit(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut client = EchoClient::new(channel(address)?);
    for _ in 0..3 {
        println!("answered: {}", client.unary(message("hello")).await?.into_inner().text);
    }
    let status = client.server_streaming(message("hello")).await.unwrap_err();
    let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
    println!("{:?}: {}, to be exact {wait:?}", status.code(), status.message());
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(wait.is_some_and(|wait| wait <= Duration::from_secs(30)));
    HealthClient::new(channel(address)?).check(message("well?")).await?;
    Ok(())
}

/// Calls of a sick server fail after three tries each.
///
/// After two calls, the breaker makes no more of them.
async fn run_into_the_breaker(address: SocketAddr, calls: &AtomicUsize) -> Result<(), Box<dyn Error>> {
    let config = BreakerConfig::builder().failure_threshold(2).build()?;
    let breaker = Single::builder(config).on_state_change(|change| println!("{change}")).build();
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(breaker).completion(AtTrailers::new()))
        .service(Retry(channel(address)?));
    let mut client = EchoClient::new(service);
    for expected in [3, 6, 6] {
        let status = client.unary(message("hello")).await.unwrap_err();
        let open = CircuitOpen::find_in(&status);
        println!("{}, after {} tries in all", status.message(), calls.load(Ordering::Relaxed));
        assert_eq!((status.code(), calls.load(Ordering::Relaxed)), (Code::Unavailable, expected));
        assert_eq!(open.is_some(), status.message() != "sick");
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into())?;
    let address = incoming.local_addr()?;
    // For each client address three calls at once, then two a minute. Health checks always pass.
    let limit = RateLimitLayer::per_client(Quota::per_minute(2).burst(3))
        .exempt(|head| head.uri.path() == "/damper.test.Health/Check");
    let server = Server::builder()
        .layer(limit)
        .add_service(EchoServer::new(Echoing::default()))
        .add_service(HealthServer::new(Echoing::default()))
        .serve_with_incoming(incoming);
    if std::env::args().any(|argument| argument == "--serve") {
        println!("{address}");
        return Ok(server.await?);
    }
    tokio::spawn(server);
    run_into_the_limit(address).await?;

    let sick = Echoing { is_sick: true, ..Echoing::default() };
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into())?;
    let address = incoming.local_addr()?;
    tokio::spawn(Server::builder().add_service(EchoServer::new(sick.clone())).serve_with_incoming(incoming));
    run_into_the_breaker(address, &sick.calls).await
}
