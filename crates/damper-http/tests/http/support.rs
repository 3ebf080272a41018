//! Servers and clients over real sockets.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

pub(crate) const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
pub(crate) const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

type BoxError = Box<dyn Error + Send + Sync>;

type BoxedAnswer = Pin<Box<dyn Future<Output = Result<Response<UnsyncBoxBody<Bytes, io::Error>>, io::Error>> + Send>>;

type BoxedService = Box<dyn Fn(Request<Incoming>) -> BoxedAnswer + Send>;

/// Returns hyper's error for a request whose connection is lost while it waits for a stream.
pub(crate) async fn lost_before_a_stream() -> hyper::Error {
    let (client, server) = tokio::io::duplex(1024);
    let service = service_fn(|request: Request<Incoming>| async move {
        if request.uri().path() == "/hanging" {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let mut server_side = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let server = server_side.max_concurrent_streams(1).serve_connection(TokioIo::new(server), service);
    let server = tokio::spawn(server);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    let to = |path: &str| Request::get(format!("http://test.example{path}")).body(Empty::<Bytes>::new()).unwrap();
    sender.send_request(to("/")).await.expect("the client then knows the limit of streams");
    let _hanging = tokio::spawn(sender.send_request(to("/hanging")));
    let waiting = tokio::spawn(sender.send_request(to("/waiting")));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    server.abort();
    waiting.await.unwrap().unwrap_err()
}

/// Serves every connection, over HTTP/1.1 and HTTP/2, with a service made for its peer.
pub(crate) async fn serve<S, R>(service: impl Fn(SocketAddr) -> S + Send + 'static) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<R>, Future: Send, Error: Into<BoxError>> + Send + 'static,
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    serve_boxed(Box::new(move |peer| {
        let service = service(peer);
        Box::new(move |request| {
            let answer = service.call(request);
            Box::pin(async {
                let response = answer.await.map_err(io::Error::other)?;
                Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
            })
        })
    }))
    .await
}

/// Hyper's connection is compiled once, and not for each service of a test.
async fn serve_boxed(service: Box<dyn Fn(SocketAddr) -> BoxedService + Send>) -> SocketAddr {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let service = service(peer);
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                // An error means that the client went away.
                _ = server.serve_connection(TokioIo::new(stream), service_fn(service)).await;
            });
        }
    });
    address
}

/// Serves an axum router, with the peers' addresses.
#[cfg(feature = "axum")]
pub(crate) async fn serve_axum(app: axum::Router) -> SocketAddr {
    let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// A port at which nothing answers.
///
/// It is bound and does not listen, so that no other test gets it while this is there.
pub(crate) struct ClosedPort(TcpSocket);

impl ClosedPort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((LOCALHOST, 0).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }
}

pub(crate) fn hello<B>(_: Request<B>) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    ready(Ok(Response::new(Full::from("hello"))))
}

/// One connection.
pub(crate) enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    /// Connects over HTTP/1.1.
    pub(crate) async fn of(server: SocketAddr) -> Self {
        Self::from(LOCALHOST, server).await
    }

    /// Connects over HTTP/1.1 from an address of this machine.
    pub(crate) async fn from(address: Ipv4Addr, server: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        let stream = TokioIo::new(socket.connect(server).await.unwrap());
        let (sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(sender)
    }

    /// Connects over HTTP/2.
    pub(crate) async fn http2(server: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(server).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Bytes> {
        let answer = match self {
            Self::Http1(sender) => {
                sender.ready().await.unwrap();
                sender.send_request(request).await
            }
            Self::Http2(sender) => sender.send_request(request).await,
        };
        let (head, body) = answer.unwrap().into_parts();
        Response::from_parts(head, body.collect().await.unwrap().to_bytes())
    }

    /// Gets a path, with headers.
    pub(crate) async fn get_with(&mut self, path: &str, headers: &[(&'static str, &str)]) -> Response<Bytes> {
        let mut request = Request::get(format!("http://test.example{path}"));
        if let Self::Http1(_) = self {
            request = Request::get(path).header("host", "test.example");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::default()).unwrap()).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Response<Bytes> {
        self.get_with(path, &[]).await
    }

    /// Sends requests, and returns how many passed with 200. Those must be the first ones.
    pub(crate) async fn passes(&mut self, requests: usize) -> usize {
        let mut passed = 0;
        for number in 0..requests {
            let status = self.get("/").await.status();
            if status == StatusCode::OK {
                assert_eq!(passed, number, "a request passed after a refused one");
                passed += 1;
            } else {
                assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
            }
        }
        passed
    }
}

/// A server whose response the test chooses, and which counts its hits.
#[derive(Clone)]
pub(crate) struct Upstream {
    status: Arc<AtomicU16>,
    hits: Arc<AtomicUsize>,
    pub(crate) address: SocketAddr,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let (status, hits) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicUsize::new(0)));
        let (of_server, hits_of_server) = (Arc::clone(&status), Arc::clone(&hits));
        let address = serve(move |_| {
            let (status, hits) = (Arc::clone(&of_server), Arc::clone(&hits_of_server));
            service_fn(move |_: Request<Incoming>| {
                hits.fetch_add(1, Ordering::Relaxed);
                let status = StatusCode::from_u16(status.load(Ordering::Relaxed)).unwrap();
                let answer = Response::builder().status(status).body(Full::<Bytes>::from("upstream"));
                async move { Ok::<_, Infallible>(answer.unwrap()) }
            })
        })
        .await;
        Self { status, hits, address }
    }

    pub(crate) fn answer(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    pub(crate) fn request(&self) -> Request<Empty<Bytes>> {
        Request::get(format!("http://{}/", self.address)).body(Empty::new()).unwrap()
    }
}
