//! Limits on the calls in flight of gRPC servers and clients, over real sockets.

use crate::support::echo::Message;
use crate::support::echo::echo_client::EchoClient;
use crate::support::echo::echo_server::{Echo, EchoServer};
use crate::support::{Upstream, channel, client, message, messages, serve, uri};
use damper::breaker::State;
use damper::concurrency::{Admission, AdmissionRequest, Criticality, NotAdmitted, Outcome, RefusalCause};
use damper::gate::{AnswerOf, Ask, Gate, Never, Permit, Verdict};
use damper::http::{CircuitBreakerLayer, ClientConcurrencyLayer, ConcurrencyLayer, Head, client_stack};
use damper::tonic::{AtTrailers, Grpc, GrpcEndings, IntoStatus};
use damper::{BreakerConfig, Bulkhead, BulkheadFull, CircuitBreaker};
use futures_util::stream::{self, BoxStream, StreamExt};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tonic::transport::Server;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;
use tower::ServiceBuilder;

const LONG: Duration = Duration::from_secs(60);

type Answer<T> = Result<tonic::Response<T>, Status>;

/// Waits until the condition holds.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A service whose calls end when the test lets them. Its streams send one message first.
#[derive(Clone)]
struct Slow(Arc<Semaphore>);

impl Slow {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    async fn wait(self) {
        self.0.acquire().await.unwrap().forget();
    }

    fn stream(&self, first: Message) -> BoxStream<'static, Result<Message, Status>> {
        let end = stream::once(self.clone().wait()).filter_map(async |()| None);
        stream::iter([Ok(first)]).chain(end).boxed()
    }
}

#[tonic::async_trait]
impl Echo for Slow {
    type ServerStreamingStream = BoxStream<'static, Result<Message, Status>>;
    type BidirectionalStream = BoxStream<'static, Result<Message, Status>>;

    async fn unary(&self, request: tonic::Request<Message>) -> Answer<Message> {
        self.clone().wait().await;
        Ok(tonic::Response::new(request.into_inner()))
    }

    async fn client_streaming(&self, _: tonic::Request<Streaming<Message>>) -> Answer<Message> {
        self.clone().wait().await;
        Ok(tonic::Response::new(message("all")))
    }

    async fn server_streaming(&self, request: tonic::Request<Message>) -> Answer<Self::ServerStreamingStream> {
        Ok(tonic::Response::new(self.stream(request.into_inner())))
    }

    async fn bidirectional(&self, _: tonic::Request<Streaming<Message>>) -> Answer<Self::BidirectionalStream> {
        Ok(tonic::Response::new(self.stream(message("first"))))
    }
}

/// Serves it behind a bulkhead.
fn serve_limited(slow: &Slow, limit: u32) -> (Arc<Bulkhead>, SocketAddr) {
    let pool = Arc::new(Bulkhead::new(limit));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool));
    (pool, serve(Server::builder().layer(layer).add_service(EchoServer::new(slow.clone()))))
}

/// The four kinds of calls.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Unary,
    ClientStreaming,
    ServerStreaming,
    Bidirectional,
}

const KINDS: [Kind; 4] = [Kind::Unary, Kind::ClientStreaming, Kind::ServerStreaming, Kind::Bidirectional];

impl Kind {
    /// Makes a call, and reads its messages to the end.
    async fn call(self, server: SocketAddr) -> Result<(), Status> {
        self.call_and_report(server, Arc::default()).await
    }

    /// Whether the response begins before the call ends.
    fn streams(self) -> bool {
        matches!(self, Self::ServerStreaming | Self::Bidirectional)
    }

    /// Makes a call, and counts the messages of a stream as they arrive.
    async fn call_and_report(self, server: SocketAddr, arrived: Arc<AtomicUsize>) -> Result<(), Status> {
        let mut client = client(server);
        let mut answers = match self {
            Self::Unary => return client.unary(message("hello")).await.map(drop),
            Self::ClientStreaming => return client.client_streaming(messages(&["a", "b"])).await.map(drop),
            Self::ServerStreaming => client.server_streaming(message("hello")).await?.into_inner(),
            Self::Bidirectional => client.bidirectional(messages(&["a"])).await?.into_inner(),
        };
        while answers.message().await?.is_some() {
            arrived.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// The refusal of each kind of call is a status, and the handler is not called.
#[tokio::test]
async fn call_over_the_limit_is_unavailable() {
    let (slow, hits) = (Slow::new(), Upstream::default());
    let layer = ConcurrencyLayer::bulkhead(0).retry_after(Duration::from_millis(1_500));
    let server = serve(Server::builder().layer(layer).add_service(hits.echo()));
    for kind in KINDS {
        let status = kind.call(server).await.unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "too many calls in flight, limit 0"),
            "{kind:?}"
        );
        let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
        assert_eq!(wait, Some(Duration::from_millis(1_500)), "exactly");
    }
    assert_eq!(hits.hits(), 0);
    // The layer around a single service.
    let echo = ConcurrencyLayer::bulkhead(0).layer(EchoServer::new(slow));
    let server = serve(Server::builder().add_service(echo).add_service(hits.health()));
    assert_eq!(Kind::Unary.call(server).await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn calls_of_every_kind_hold_their_slots_until_their_trailers() {
    let slow = Slow::new();
    let (pool, server) = serve_limited(&slow, 1);
    for kind in KINDS {
        let arrived = Arc::new(AtomicUsize::new(0));
        let call = tokio::spawn(kind.call_and_report(server, Arc::clone(&arrived)));
        eventually("the call is in flight", || pool.in_flight() == 1).await;
        eventually("the first message has arrived", || arrived.load(Ordering::SeqCst) == usize::from(kind.streams()))
            .await;
        assert_eq!(Kind::Unary.call(server).await.unwrap_err().code(), Code::Unavailable, "{kind:?}");
        assert_eq!(pool.in_flight(), 1, "{kind:?}");
        slow.0.add_permits(1);
        call.await.unwrap().unwrap();
        eventually("the slot is free", || pool.in_flight() == 0).await;
    }
}

#[tokio::test]
async fn calls_that_the_client_cancels_free_their_slots() {
    let slow = Slow::new();
    let (pool, server) = serve_limited(&slow, 1);
    for kind in KINDS {
        let call = tokio::spawn(kind.call(server));
        eventually("the call is in flight", || pool.in_flight() == 1).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        call.abort();
        eventually(&format!("the slot of {kind:?} is free"), || pool.in_flight() == 0).await;
    }
}

#[tokio::test]
async fn call_of_a_client_over_its_limit_is_unavailable_and_names_the_limit() {
    let upstream = Upstream::default();
    let server = serve(Server::builder().add_service(upstream.echo()));
    let pool = Arc::new(Bulkhead::new(1));
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::builder().failure_threshold(1).build().unwrap()));
    let service = ServiceBuilder::new()
        .layer(CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new()))
        .layer(ClientConcurrencyLayer::new(Arc::clone(&pool)))
        .service(channel(server));
    // Behind a breaker with gRPC's completion, and in a stack with gRPC's protocol.
    let mut guarded = EchoClient::new(service);
    let stack = client_stack().protocol(Grpc::new()).concurrency_layer(ClientConcurrencyLayer::new(Arc::clone(&pool)));
    let mut bare = EchoClient::new(stack.service(channel(server)));
    let mut open =
        bare.bidirectional(stream::iter([message("a")]).chain(stream::pending())).await.unwrap().into_inner();
    assert_eq!(open.message().await.unwrap(), Some(message("a")));
    for status in [bare.unary(message("b")).await.unwrap_err(), guarded.unary(message("b")).await.unwrap_err()] {
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(BulkheadFull::find_in(&status).unwrap().cause(), RefusalCause::NoSlot, "{status:?}");
    }
    assert_eq!((breaker.state(), upstream.hits()), (State::Closed, 1));
    drop(open);
    assert_eq!(pool.in_flight(), 0, "at once");
    guarded.unary(message("b")).await.unwrap();
    assert_eq!(pool.in_flight(), 0);
}

#[tokio::test]
async fn host_that_hangs_takes_no_slots_from_others() {
    let (slow, upstream) = (Slow::new(), Upstream::default());
    let hanging = serve(Server::builder().add_service(EchoServer::new(slow)));
    let healthy = serve(Server::builder().add_service(upstream.echo()));
    let layer = ClientConcurrencyLayer::bulkhead_per_host(1);
    let stack = client_stack().protocol(Grpc::new()).concurrency_layer(layer);
    let of = |server| EchoClient::with_origin(stack.service(channel(server)), uri(server));
    let (mut first, mut second) = (of(hanging), of(hanging));
    // The calls are sent in this order.
    let mut hangs = pin!(first.unary(message("a")));
    assert!(poll_once(hangs.as_mut()).await.is_pending());
    assert_eq!(second.unary(message("a")).await.unwrap_err().code(), Code::Unavailable);
    for _ in 0..3 {
        of(healthy).unary(message("b")).await.unwrap();
    }
}

async fn poll_once<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(Pin::new(&mut future).poll(context))).await
}

#[tokio::test]
async fn waiting_call_gets_the_slot_of_one_that_ends() {
    let slow = Slow::new();
    let pool = Arc::new(Bulkhead::new(1).queue(1));
    let layer = ConcurrencyLayer::new(Arc::clone(&pool)).waiting(LONG);
    let server = serve(Server::builder().layer(layer).add_service(EchoServer::new(slow.clone())));
    let calls = [tokio::spawn(Kind::ServerStreaming.call(server)), tokio::spawn(Kind::Unary.call(server))];
    eventually("one waits", || pool.queued() == 1).await;
    slow.0.add_permits(2);
    for call in calls {
        call.await.unwrap().unwrap();
    }
    eventually("the slot is free", || pool.in_flight() == 0).await;
}

/// An unlimited limit whose permits record their outcomes.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Vec<Outcome>>>);

struct WatchedPermit {
    limit: Watched,
    told: Option<Outcome>,
}

impl Permit for WatchedPermit {
    fn answered(&mut self, verdict: &Verdict) {
        let outcome = Outcome::from(verdict);
        self.limit.0.lock().unwrap().push(outcome);
        self.told = Some(outcome);
    }

    fn end(mut self, verdict: &Verdict) {
        let outcome = Outcome::from(verdict);
        if self.told.is_none() || (outcome == Outcome::Overloaded && self.told != Some(outcome)) {
            self.answered(verdict);
        }
    }
}

impl Gate for Watched {
    type Permit = WatchedPermit;
    type Refusal = BulkheadFull;
    type Wait = Never<WatchedPermit, BulkheadFull>;
}

impl Ask<Head<'_>> for Watched {
    fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
        damper::gate::Answer::Pass(WatchedPermit { limit: self.clone(), told: None })
    }
}

/// At the server and at the client, in heads and in trailers.
#[tokio::test]
async fn statuses_of_overload_are_signs_of_overload() {
    let (upstream, of_server, of_client) = (Upstream::default(), Watched::default(), Watched::default());
    let layer = ConcurrencyLayer::new(of_server.clone());
    let server = serve(Server::builder().layer(layer).add_service(upstream.echo()));
    let mut client = EchoClient::new(ClientConcurrencyLayer::new(of_client.clone()).layer(channel(server)));
    for (code, outcome) in [
        (Code::Ok, Outcome::Success),
        (Code::NotFound, Outcome::Ignored),
        (Code::Unavailable, Outcome::Overloaded),
        (Code::ResourceExhausted, Outcome::Ignored),
        (Code::DeadlineExceeded, Outcome::Overloaded),
    ] {
        upstream.answer(code);
        _ = client.unary(message("a")).await;
        let is_overload = outcome == Outcome::Overloaded;
        let mut expected = vec![outcome];
        let mut answers = client.server_streaming(message("b")).await.unwrap().into_inner();
        while let Ok(Some(_)) = answers.message().await {}
        expected.push(Outcome::Success);
        if is_overload {
            expected.push(Outcome::Overloaded);
        }
        for limit in [&of_server, &of_client] {
            assert_eq!(std::mem::take(&mut *limit.0.lock().unwrap()), expected, "{code:?}");
        }
    }
}

/// tonic's timeouts and other layers return them in place of a response.
#[test]
fn statuses_and_timeouts_of_tonic_in_errors_are_signs_of_overload() {
    let refusal = Bulkhead::new(0).try_acquire().unwrap_err();
    let errors: [(Box<dyn std::error::Error + Send + Sync>, Outcome); 7] = [
        (Box::new(tonic::TimeoutExpired(())), Outcome::Overloaded),
        (Box::new(std::io::Error::other(tonic::TimeoutExpired(()))), Outcome::Overloaded),
        (Box::new(Status::unavailable("full")), Outcome::Overloaded),
        (Box::new(Status::deadline_exceeded("late")), Outcome::Overloaded),
        (Box::new(Status::resource_exhausted("too large")), Outcome::Ignored),
        (Box::new(Status::internal("broken")), Outcome::Ignored),
        (Box::new(refusal.into_status()), Outcome::Ignored),
    ];
    for (error, outcome) in errors {
        assert_eq!(Outcome::from(&GrpcEndings::judge_boxed(Err(&error))), outcome, "{error:?}");
    }
}

/// Never `RESOURCE_EXHAUSTED`, which means that the client has used up its own quota.
#[tokio::test]
async fn call_that_is_not_admitted_is_unavailable() {
    let layer = ConcurrencyLayer::admission(Admission::fixed(0))
        .criticality(|_| Criticality::Sheddable)
        .tenant(|head| head.headers.get("x-tenant").cloned());
    let server = serve(Server::builder().layer(layer).add_service(Upstream::default().echo()));
    for kind in KINDS {
        let status = kind.call(server).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.message(), "not admitted, the limit is 0");
        let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
        assert_eq!(wait, Some(Duration::from_secs(1)), "{kind:?}");
    }
    let refused = Admission::fixed(0).try_acquire(AdmissionRequest::new()).unwrap_err();
    let status = refused.into_status();
    assert_eq!((status.code(), NotAdmitted::find_in(&status)), (Code::Unavailable, Some(&refused)));
}

#[test]
fn refusal_of_a_bulkhead_becomes_a_status() {
    let full = Bulkhead::new(0).try_acquire().unwrap_err();
    let status = full.into_status();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "too many calls in flight, limit 0"));
    assert_eq!(BulkheadFull::find_in(&status), Some(&full));
    let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
    assert_eq!(wait, Some(Duration::from_secs(1)));
}
