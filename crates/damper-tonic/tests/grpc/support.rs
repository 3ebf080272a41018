//! A gRPC server whose responses the test chooses, and clients of it, over real sockets.

#[allow(clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
#[path = "echo.rs"]
pub(crate) mod echo;

use bytes::Bytes;
use echo::Message;
use echo::echo_client::EchoClient;
use echo::echo_server::{Echo, EchoServer};
use echo::health_server::{Health, HealthServer};
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use http::{Request, Response};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use tonic::body::Body;
use tonic::codegen::http::Uri;
use tonic::service::Routes;
use tonic::transport::server::{Router, TcpIncoming};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tower::{Layer, Service};

pub(crate) const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A service whose status the test chooses, and which counts its calls.
#[derive(Clone, Default)]
pub(crate) struct Upstream {
    code: Arc<AtomicI32>,
    hits: Arc<AtomicUsize>,
}

impl Upstream {
    pub(crate) fn answer(&self, code: Code) {
        self.code.store(code.into(), Ordering::Relaxed);
    }

    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    pub(crate) fn echo(&self) -> EchoServer<Self> {
        EchoServer::new(self.clone())
    }

    pub(crate) fn health(&self) -> HealthServer<Self> {
        HealthServer::new(self.clone())
    }

    fn called(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    fn status(&self) -> Result<(), Status> {
        match Code::from_i32(self.code.load(Ordering::Relaxed)) {
            Code::Ok => Ok(()),
            code => Err(Status::new(code, "as scripted")),
        }
    }
}

type Answer<T> = Result<tonic::Response<T>, Status>;

pub(crate) fn message(text: &str) -> Message {
    Message { text: text.to_owned() }
}

#[tonic::async_trait]
impl Echo for Upstream {
    type ServerStreamingStream = BoxStream<'static, Result<Message, Status>>;
    type BidirectionalStream = BoxStream<'static, Result<Message, Status>>;

    /// Returns the chosen status, or the message.
    async fn unary(&self, request: tonic::Request<Message>) -> Answer<Message> {
        self.called();
        self.status()?;
        Ok(tonic::Response::new(request.into_inner()))
    }

    /// Joins all messages into one, and then responds like `unary`.
    async fn client_streaming(&self, request: tonic::Request<Streaming<Message>>) -> Answer<Message> {
        self.called();
        let mut messages = request.into_inner();
        let mut all = String::new();
        while let Some(message) = messages.message().await? {
            all += &message.text;
        }
        self.status()?;
        Ok(tonic::Response::new(message(&all)))
    }

    /// Sends the message three times, and then the status.
    async fn server_streaming(&self, request: tonic::Request<Message>) -> Answer<Self::ServerStreamingStream> {
        self.called();
        let messages = vec![Ok(request.into_inner()); 3];
        let end = self.status().err().map(Err);
        Ok(tonic::Response::new(stream::iter(messages.into_iter().chain(end)).boxed()))
    }

    /// Sends back each message until one is `end`, and then the status.
    async fn bidirectional(&self, request: tonic::Request<Streaming<Message>>) -> Answer<Self::BidirectionalStream> {
        self.called();
        let this = self.clone();
        let answers = request.into_inner().map(move |message| match message {
            Ok(message) if message.text == "end" => this.status().map(|()| message),
            message => message,
        });
        Ok(tonic::Response::new(answers.boxed()))
    }
}

#[tonic::async_trait]
impl Health for Upstream {
    async fn check(&self, request: tonic::Request<Message>) -> Answer<Message> {
        Ok(tonic::Response::new(request.into_inner()))
    }
}

/// Serves a router.
pub(crate) fn serve<L, B>(router: Router<L>) -> SocketAddr
where
    L: Layer<Routes> + Clone + Send + 'static,
    L::Service: Service<Request<Body>, Response = Response<B>, Future: Send, Error: Into<BoxError> + Send>
        + Clone
        + Send
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let incoming = TcpIncoming::bind((LOCALHOST, 0).into()).unwrap();
    let address = incoming.local_addr().unwrap();
    tokio::spawn(router.serve_with_incoming(incoming));
    address
}

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

pub(crate) fn uri(server: SocketAddr) -> Uri {
    format!("http://{server}").parse().unwrap()
}

pub(crate) fn channel(server: SocketAddr) -> Channel {
    Endpoint::from(uri(server)).connect_lazy()
}

pub(crate) fn client(server: SocketAddr) -> EchoClient<Channel> {
    EchoClient::new(channel(server))
}

/// A stream of these messages that ends after the last.
pub(crate) fn messages(texts: &[&str]) -> impl Stream<Item = Message> + Send + use<> {
    stream::iter(texts.iter().map(|text| message(text)).collect::<Vec<_>>())
}
