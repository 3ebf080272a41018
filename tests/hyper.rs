//! The wrappers for hyper, over real sockets, on a manual clock.
#![cfg(feature = "hyper")]

use bytes::Bytes;
use damper::hyper::{CircuitBreak, RateLimit};
use damper::{BreakerConfig, CallError, CircuitBreaker, Denied, KeyedLimiter, ManualClock, Quota, RateLimiter, State};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::RETRY_AFTER;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Serves every connection with the service that `serve` makes for its peer.
async fn server<F, S, R>(serve: F) -> SocketAddr
where
    F: Fn(SocketAddr) -> S + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: std::error::Error + Send + Sync,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: std::error::Error + Send + Sync,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let service = serve(peer);
            tokio::spawn(async move {
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

async fn connect(stream: TcpStream) -> SendRequest<Empty<Bytes>> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn client(server: SocketAddr) -> SendRequest<Empty<Bytes>> {
    connect(TcpStream::connect(server).await.unwrap()).await
}

async fn client_from(address: [u8; 4], server: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address, 0).into()).unwrap();
    connect(socket.connect(server).await.unwrap()).await
}

async fn get(client: &mut SendRequest<Empty<Bytes>>, path: &str) -> Response<Bytes> {
    let request = Request::get(path).header("host", "test").body(Empty::new()).unwrap();
    let (head, body) = client.send_request(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

/// The scenario of the specification: a limit of two a second, five rapid requests, three of them refused.
#[tokio::test]
async fn two_a_second_refuses_three_of_five() {
    let clock = Arc::new(ManualClock::new());
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(2).burst(2), Arc::clone(&clock)));
    let server = server(move |_| {
        let limiter = Arc::clone(&limiter);
        RateLimit::new(service_fn(hello), move |request: &Request<Incoming>| match request.uri().path() {
            "/healthz" => Ok(()),
            _ => limiter.check().map(drop),
        })
    })
    .await;
    let mut client = client(server).await;
    for _ in 0..2 {
        let response = get(&mut client, "/").await;
        assert_eq!((response.status(), &**response.body()), (StatusCode::OK, &b"hello"[..]));
    }
    for _ in 0..3 {
        let response = get(&mut client, "/").await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "1", "500 ms, rounded up");
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        assert_eq!(&**response.body(), b"rate limit exceeded, retry in 500 ms\n");
    }
    for _ in 0..5 {
        assert_eq!(get(&mut client, "/healthz").await.status(), StatusCode::OK);
    }
    clock.advance(Duration::from_millis(500));
    assert_eq!(get(&mut client, "/").await.status(), StatusCode::OK);
    assert_eq!(get(&mut client, "/").await.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn addresses_are_limited_apart_and_connections_of_one_together() {
    let clock = Arc::new(ManualClock::new());
    let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_minute(1).burst(3)).clock(clock).build().unwrap();
    let limits = Arc::new(limits);
    let server = server(move |peer| {
        let limits = Arc::clone(&limits);
        RateLimit::new(service_fn(hello), move |_: &Request<Incoming>| limits.check(&peer.ip()).map(drop))
    })
    .await;
    let mut allowed = [0; 2];
    for _ in 0..4 {
        for (count, address) in allowed.iter_mut().zip([[127, 0, 0, 2], [127, 0, 0, 3]]) {
            let mut client = client_from(address, server).await;
            let response = get(&mut client, "/").await;
            *count += i32::from(response.status() == StatusCode::OK);
            if response.status() != StatusCode::OK {
                assert_eq!(response.headers()[RETRY_AFTER], "60");
            }
        }
    }
    assert_eq!(allowed, [3, 3]);
}

/// Waiting does not help a request that asks for more than the burst, so there is no `Retry-After`.
#[tokio::test]
async fn no_retry_after_where_no_wait_helps() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(1).burst(2)));
    let server = server(move |_| {
        let limiter = Arc::clone(&limiter);
        RateLimit::new(service_fn(hello), move |_: &Request<Incoming>| limiter.check_n(3).map(drop))
    })
    .await;
    let response = get(&mut client(server).await, "/").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!response.headers().contains_key(RETRY_AFTER));
}

/// A refusal is there at the first poll, and the service is not called.
#[test]
fn a_refusal_is_ready_at_once() {
    let limiter = RateLimiter::new(Quota::per_second(1).burst(0));
    let denied: Denied = limiter.check().unwrap_err();
    let called = AtomicUsize::new(0);
    let inner = |_: Request<()>| {
        called.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
    };
    let service = RateLimit::new(Plain(inner), |_: &Request<()>| Err(denied));
    let future = std::pin::pin!(service.call(Request::new(())));
    let polled = future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(polled, std::task::Poll::Ready(Ok(response)) if response.status() == 429));
    assert_eq!(called.into_inner(), 0);
}

/// A closure as a service, for request bodies that hyper's `service_fn` does not take.
#[derive(Clone)]
struct Plain<F>(F);

impl<F, B, T, E, Fut> Service<Request<B>> for Plain<F>
where
    F: Fn(Request<B>) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Response = T;
    type Error = E;
    type Future = Fut;

    fn call(&self, request: Request<B>) -> Fut {
        (self.0)(request)
    }
}

/// An upstream whose status can be set and whose hits are counted.
#[derive(Clone)]
struct Upstream {
    status: Arc<AtomicU16>,
    hits: Arc<AtomicUsize>,
}

impl Upstream {
    async fn start() -> (Self, SocketAddr) {
        let upstream = Self { status: Arc::new(AtomicU16::new(200)), hits: Arc::default() };
        let own = upstream.clone();
        let address = server(move |_| {
            let own = own.clone();
            service_fn(move |_: Request<Incoming>| {
                own.hits.fetch_add(1, Ordering::Relaxed);
                let status = StatusCode::from_u16(own.status.load(Ordering::Relaxed)).unwrap();
                let response = Response::builder().status(status).body(Full::<Bytes>::from("upstream"));
                async move { Ok::<_, Infallible>(response.unwrap()) }
            })
        })
        .await;
        (upstream, address)
    }

    fn answer(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn server_errors_trip_and_client_errors_do_not() {
    let clock = Arc::new(ManualClock::new());
    let breaker = Arc::new(CircuitBreaker::with_clock(BreakerConfig::default(), Arc::clone(&clock)));
    let (upstream, address) = Upstream::start().await;
    let client = Arc::new(tokio::sync::Mutex::new(client(address).await));
    let service = CircuitBreak::new(
        Plain(move |request: Request<Empty<Bytes>>| {
            let client = Arc::clone(&client);
            async move { client.lock().await.send_request(request).await }
        }),
        Arc::clone(&breaker),
    );
    let request = || Request::get("/").header("host", "test").body(Empty::new()).unwrap();
    let status = async || {
        let response = service.call(request()).await?;
        let status = response.status();
        // The connection is used again only after the body.
        response.into_body().collect().await.unwrap();
        Ok::<_, CallError<hyper::Error>>(status)
    };

    for code in [StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS] {
        upstream.answer(code);
        for _ in 0..10 {
            assert_eq!(status().await.unwrap(), code, "unchanged");
        }
    }
    assert_eq!(breaker.state(), State::Closed);

    upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
    for _ in 0..5 {
        assert_eq!(status().await.unwrap(), StatusCode::SERVICE_UNAVAILABLE, "unchanged");
    }
    assert_eq!(breaker.state(), State::Open);
    let hits = upstream.hits();
    let refused = status().await.unwrap_err();
    let CallError::Open(open) = refused else { panic!("{refused:?}") };
    assert_eq!(open.retry_after(), Some(Duration::from_secs(30)));
    assert_eq!(upstream.hits(), hits, "not called");

    clock.advance(Duration::from_secs(30));
    upstream.answer(StatusCode::OK);
    assert_eq!(status().await.unwrap(), StatusCode::OK);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test]
async fn transport_errors_trip_and_reach_the_caller() {
    let clock = Arc::new(ManualClock::new());
    let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, clock));
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let connect =
        Plain(move |_: Request<()>| async move { TcpStream::connect(closed).await.map(|_| Response::new(())) });
    let service = CircuitBreak::new(connect, Arc::clone(&breaker)).clone();
    for _ in 0..2 {
        let error = service.call(Request::new(())).await.unwrap_err();
        assert!(matches!(error, CallError::Failed(error) if error.kind() == std::io::ErrorKind::ConnectionRefused));
    }
    assert!(matches!(service.call(Request::new(())).await, Err(CallError::Open(_))));
}

/// A probe whose future is dropped decides nothing, and its place is free again.
#[tokio::test]
async fn a_cancelled_probe_gives_its_place_back() {
    let clock = Arc::new(ManualClock::new());
    let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
    breaker.try_acquire().unwrap().failure();
    clock.advance(Duration::from_secs(30));
    let hanging = Plain(|_: Request<()>| std::future::pending::<Result<Response<()>, Infallible>>());
    let service = CircuitBreak::new(hanging, Arc::clone(&breaker));
    let probe = service.call(Request::new(()));
    assert!(breaker.try_acquire().is_err());
    drop(probe);
    assert!(breaker.try_acquire().is_ok());
    assert_eq!(breaker.state(), State::HalfOpen);
}
