//! Retries before HTTP clients: on tokio's paused time, and over real sockets.

use crate::support::lost_before_a_stream;
use crate::tokio_clock::TokioClock;
use bytes::Bytes;
use damper::gate::{Ending, Verdict};
use damper::http::{
    Budgets, BufferedBody, EveryStatus, Head, Hosts, Idempotent, ReplayableBody, ResponseHead, RetryLayer, Retrying,
    Statuses, client_stack,
};
use damper::retry::{Budget, Failure, GaveUp, Jitter, RetryBudgetConfig, RetryThrottle, Unlimited};
use damper::{Backoff, CallError, CircuitBreaker, CircuitOpen, Deadline, Retry, RetryBudget, RetryError};
use futures_util::stream;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::error::Error;
use std::fmt;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Service, ServiceExt, service_fn};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn clock() -> TokioClock {
    TokioClock(Instant::now())
}

/// Up to three attempts on tokio's time, 100 and 200 ms apart.
fn retry(clock: TokioClock) -> Retry<TokioClock> {
    Retry::with_clock(3, clock, 1).backoff(Backoff::DEFAULT.jitter(Jitter::None))
}

/// A request body: text, a stream, or one that turns out to be spent at the second attempt.
#[derive(Debug, PartialEq)]
enum Upload {
    Text(&'static str),
    Stream,
    Spent,
}

impl ReplayableBody for Upload {
    fn try_clone(&self) -> Option<Self> {
        match self {
            Self::Text(text) => Some(Self::Text(text)),
            Self::Stream => None,
            Self::Spent => Some(Self::Spent),
        }
    }

    fn restart_if(&self, may_start: impl FnOnce() -> bool) -> Option<Self> {
        match self {
            Self::Spent => None,
            body => may_start().then(|| body.try_clone())?,
        }
    }
}

/// A response body that counts the existing ones.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(alive))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Alive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alive")
    }
}

type Outcome = io::Result<Response<()>>;

/// The requests that reached a server.
#[derive(Default)]
struct Log {
    at: Vec<Duration>,
    bodies: Vec<Upload>,
    /// The requests with the header `x-test`.
    headers: usize,
    /// The number of responses that the client held at each call.
    alive: Vec<usize>,
}

/// A server that follows a script: the outcome of each call by its number, starting at 1.
///
/// `None` is a call that never ends.
struct Server {
    script: Arc<dyn Fn(usize) -> Option<Outcome> + Send + Sync>,
    log: Arc<Mutex<Log>>,
    alive: Arc<AtomicUsize>,
    in_flight: Arc<AtomicUsize>,
    start: Instant,
    is_ready: bool,
}

impl Server {
    fn new(script: impl Fn(usize) -> Option<Outcome> + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            log: Arc::default(),
            alive: Arc::default(),
            in_flight: Arc::default(),
            start: Instant::now(),
            is_ready: false,
        }
    }

    /// Responds with these statuses in order. The last one repeats.
    fn statuses<const N: usize>(statuses: [u16; N]) -> Self {
        Self::new(move |number| Some(Ok(response(statuses[(number - 1).min(N - 1)]))))
    }

    /// The time of each call, in milliseconds.
    fn millis(&self) -> Vec<u128> {
        self.log.lock().unwrap().at.iter().map(Duration::as_millis).collect()
    }

    fn calls(&self) -> usize {
        self.millis().len()
    }

    fn calls_in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Clones are not ready.
impl Clone for Server {
    fn clone(&self) -> Self {
        let Self { script, log, alive, in_flight, start, .. } = self;
        Self {
            script: Arc::clone(script),
            log: Arc::clone(log),
            alive: Arc::clone(alive),
            in_flight: Arc::clone(in_flight),
            start: *start,
            is_ready: false,
        }
    }
}

impl Service<Request<Upload>> for Server {
    type Response = Response<Alive>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<Alive>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Upload>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "the service was called before it was ready");
        let mut log = self.log.lock().unwrap();
        log.at.push(self.start.elapsed());
        log.alive.push(self.alive.load(Ordering::Relaxed));
        log.headers += usize::from(request.headers().contains_key("x-test"));
        log.bodies.push(request.into_body());
        let outcome = (self.script)(log.at.len());
        let (alive, in_flight) = (Arc::clone(&self.alive), Alive::new(&self.in_flight));
        Box::pin(async move {
            let _in_flight = in_flight;
            match outcome {
                Some(outcome) => outcome.map(|response| response.map(|()| Alive::new(&alive))),
                None => pending().await,
            }
        })
    }
}

fn response(status: u16) -> Response<()> {
    Response::builder().status(status).body(()).unwrap()
}

fn request(method: Method) -> Request<Upload> {
    Request::builder().method(method).header("x-test", "kept").body(Upload::Text("data")).unwrap()
}

/// A GET with a deadline on the policy's clock.
fn due(after: Duration, clock: TokioClock) -> Request<Upload> {
    let mut request = request(Method::GET);
    request.extensions_mut().insert(Deadline::with_clock(after, clock));
    request
}

async fn send<S>(client: S, request: Request<Upload>) -> Result<StatusCode, RetryError<io::Error>>
where
    S: Service<Request<Upload>, Response = Response<Alive>, Error = RetryError<io::Error>>,
{
    client.oneshot(request).await.map(|response| response.status())
}

/// Sends a request up to three times, and returns the outcome.
async fn sent(server: &Server, request: Request<Upload>) -> Result<StatusCode, RetryError<io::Error>> {
    send(RetryLayer::new(retry(clock())).layer(server.clone()), request).await
}

#[tokio::test(start_paused = true)]
async fn transient_and_throttled_responses_are_retried_and_others_returned() {
    for (status, millis) in [
        (408, vec![0, 100]),
        (502, vec![0, 100]),
        (503, vec![0, 100]),
        (504, vec![0, 100]),
        (429, vec![0, 1_000]),
        (200, vec![0]),
        (301, vec![0]),
        (400, vec![0]),
        (404, vec![0]),
        (500, vec![0]),
        (501, vec![0]),
    ] {
        let server = Server::statuses([status, 200]);
        let last = if millis.len() == 2 { 200 } else { status };
        assert_eq!(sent(&server, request(Method::GET)).await.unwrap().as_u16(), last);
        assert_eq!(server.millis(), millis, "{status}");
    }
}

/// The backoff is the policy's. Each attempt has the whole request.
#[tokio::test(start_paused = true)]
async fn last_response_is_returned_unchanged() {
    let server =
        Server::new(|number| Some(Ok(Response::builder().status(503).header("number", number).body(()).unwrap())));
    let mut client = RetryLayer::new(retry(clock())).layer(server.clone());
    let response = client.ready().await.unwrap().call(request(Method::PUT)).await.unwrap();
    assert_eq!(response.headers()["number"], "3");
    assert_eq!(server.millis(), [0, 100, 300]);
    let log = server.log.lock().unwrap();
    assert_eq!((log.headers, &log.bodies[..]), (3, &[const { Upload::Text("data") }; 3][..]));
}

/// A response holds a connection or a permit, which others can use during the wait.
#[tokio::test(start_paused = true)]
async fn response_is_dropped_before_the_wait() {
    let server = Server::statuses([503, 503, 200]);
    let client = RetryLayer::new(retry(clock())).layer(server.clone());
    let call = tokio::spawn(client.oneshot(request(Method::GET)));
    tokio::time::sleep(50 * MILLISECOND).await;
    assert_eq!((server.calls(), server.alive.load(Ordering::Relaxed), server.calls_in_flight()), (1, 0, 0));
    assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(server.log.lock().unwrap().alive, [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn last_error_is_the_source_of_the_error() {
    let server = Server::new(|number| Some(Err(io::Error::other(format!("broken {number}")))));
    let error = sent(&server, request(Method::GET)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), error.elapsed()), (GaveUp::Attempts, 3, 300 * MILLISECOND));
    assert_eq!(error.to_string(), "gave up after 3 attempts in 300 ms: no attempts left");
    assert_eq!(error.source().unwrap().to_string(), "broken 3");
}

#[tokio::test(start_paused = true)]
async fn only_idempotent_requests_are_sent_again() {
    for (method, calls) in [
        (Method::GET, 2),
        (Method::HEAD, 2),
        (Method::OPTIONS, 2),
        (Method::TRACE, 2),
        (Method::PUT, 2),
        (Method::DELETE, 2),
        (Method::POST, 1),
        (Method::PATCH, 1),
        (Method::CONNECT, 1),
    ] {
        let server = Server::statuses([503, 200]);
        sent(&server, request(method.clone())).await.unwrap();
        assert_eq!(server.calls(), calls, "{method}");
    }
    let server = Server::statuses([503, 200]);
    let mut marked = request(Method::POST);
    marked.extensions_mut().insert(Idempotent);
    assert_eq!(sent(&server, marked).await.unwrap(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn stream_is_sent_once() {
    let server = Server::new(|_| Some(Err(io::ErrorKind::ConnectionReset.into())));
    let error = sent(&server, request(Method::PUT).map(|_| Upload::Stream)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 1));
    assert_eq!(server.calls(), 1);
}

/// Allows this many retries, and counts the calls.
#[derive(Default)]
struct Allowance {
    left: AtomicUsize,
    calls: AtomicUsize,
}

impl Budget for Allowance {
    fn began(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn try_withdraw(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

fn allowance(retries: usize) -> Arc<Allowance> {
    Arc::new(Allowance { left: retries.into(), calls: 0.into() })
}

#[tokio::test(start_paused = true)]
async fn call_counts_once_and_ends_where_the_budget_does() {
    let budget = allowance(1);
    let server = Server::new(|_| Some(Err(io::ErrorKind::TimedOut.into())));
    let layer = RetryLayer::new(retry(clock()).budget(Arc::clone(&budget)));
    let error = send(layer.layer(server.clone()), request(Method::GET)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), server.calls()), (GaveUp::Budget, 2, 2));
    assert_eq!(budget.calls.load(Ordering::Relaxed), 1);
}

fn throttle() -> Arc<RetryThrottle> {
    Arc::new(RetryThrottle::new(10, 0.1).unwrap())
}

#[tokio::test(start_paused = true)]
async fn failure_counts_in_the_budget_although_its_request_is_not_sent_again() {
    for request in [request(Method::POST), request(Method::PUT).map(|_| Upload::Stream)] {
        let throttle = throttle();
        let server = Server::statuses([503]);
        let client = RetryLayer::new(retry(clock()).budget(Arc::clone(&throttle))).layer(server.clone());
        assert_eq!(send(client, request).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((server.calls(), throttle.thousandths()), (1, 9_000));
    }
}

/// An attempt that does not start is neither withdrawn nor counted.
#[tokio::test(start_paused = true)]
async fn spent_body_takes_nothing_from_the_budget() {
    let budget = allowance(1);
    let server = Server::new(|_| Some(Err(io::ErrorKind::ConnectionReset.into())));
    let client = RetryLayer::new(retry(clock()).budget(Arc::clone(&budget))).layer(server.clone());
    let error = send(client, request(Method::PUT).map(|_| Upload::Spent)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), server.calls()), (GaveUp::NotRetryable, 1, 1));
    assert_eq!(budget.left.load(Ordering::Relaxed), 1);
}

/// The setters after the budgets share them.
#[tokio::test(start_paused = true)]
async fn budgets_need_not_be_cloneable() {
    #[derive(Default)]
    struct Apart {
        reads: Allowance,
        writes: Allowance,
    }
    impl Budgets for Apart {
        type Budget = Allowance;
        type Choice = bool;

        fn choose(&self, head: &Head<'_>) -> bool {
            head.method.is_safe()
        }

        fn budget<'a>(&'a self, is_read: &'a bool) -> &'a Allowance {
            if *is_read { &self.reads } else { &self.writes }
        }
    }
    let budgets = Apart { reads: Allowance { left: 1.into(), ..Allowance::default() }, ..Apart::default() };
    let layer = RetryLayer::new(retry(clock()))
        .budgets(budgets)
        .when(|response: Result<&ResponseHead<'_>, &io::Error>| Statuses::failure(response.map_err(|e| e as _)));
    let server = Server::statuses([503]);
    for (method, calls) in [(Method::GET, 2), (Method::PUT, 3), (Method::GET, 4)] {
        send(layer.clone().layer(server.clone()), request(method)).await.unwrap();
        assert_eq!(server.calls(), calls);
    }

    let owned = RetryBudget::new(RetryBudgetConfig::DEFAULT);
    let buffering = RetryLayer::new(retry(clock()).budget(owned)).buffering(1_024);
    let uploads = service_fn(|_: Request<BufferedBody<String>>| async { Ok::<_, io::Error>(response(200)) });
    assert_eq!(buffering.layer(uploads).oneshot(Request::default()).await.unwrap().status(), StatusCode::OK);
}

/// A budget of one retry that never refills.
fn one_retry() -> RetryBudgetConfig {
    RetryBudgetConfig::builder().ratio(0.0).floor(0).reserve(1).build().unwrap()
}

/// Sends requests to these hosts of an unavailable server, and returns the attempts of each.
async fn attempts<S, const N: usize>(server: &Server, client: S, hosts: [&str; N]) -> [usize; N]
where
    S: Service<Request<Upload>, Response = Response<Alive>, Error = RetryError<io::Error>> + Clone,
{
    let mut attempts = [0; N];
    for (host, attempts) in hosts.into_iter().zip(&mut attempts) {
        let before = server.calls();
        let mut request = request(Method::GET);
        *request.uri_mut() = format!("http://{host}/").parse().unwrap();
        assert_eq!(send(client.clone(), request).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
        *attempts = server.calls() - before;
    }
    attempts
}

#[tokio::test(start_paused = true)]
async fn each_host_has_its_own_budget() {
    let server = Server::statuses([503]);
    let client = RetryLayer::new(retry(clock())).budget_per_host(one_retry()).layer(server.clone());
    let hosts = ["a.example", "A.example.:80", "a.example:81", "b.example", "a.example"];
    assert_eq!(attempts(&server, client, hosts).await, [2, 1, 2, 2, 1]);
}

/// A host whose budget was evicted starts with a full one.
#[tokio::test(start_paused = true)]
async fn memory_for_budgets_of_hosts_is_bounded() {
    let server = Server::statuses([503]);
    let budgets = Hosts::by(1, || RetryBudget::with_clock(one_retry(), clock())).unwrap();
    let client = RetryLayer::new(retry(clock())).budgets(budgets).layer(server.clone());
    let hosts = ["a.example", "a.example", "b.example", "a.example"];
    assert_eq!(attempts(&server, client, hosts).await, [2, 1, 2, 2]);
    assert_eq!(
        Hosts::by(0, || RetryBudget::new(one_retry())).unwrap_err().to_string(),
        "capacity is 0, it must be 1 to 268435456"
    );
}

/// A call counts once in the budget of its host.
#[tokio::test(start_paused = true)]
async fn calls_fill_the_budget_of_their_host() {
    let server = Server::new(|number| Some(Ok(response(if number <= 5 { 200 } else { 503 }))));
    let config = RetryBudgetConfig::builder().ratio(0.2).floor(0).reserve(0).build().unwrap();
    let client = RetryLayer::new(retry(clock())).budget_per_host(config).layer(server.clone());
    for _ in 0..5 {
        let mut request = request(Method::GET);
        *request.uri_mut() = "http://a.example/".parse().unwrap();
        assert_eq!(send(client.clone(), request).await.unwrap(), StatusCode::OK);
    }
    assert_eq!(attempts(&server, client, ["b.example", "a.example", "a.example"]).await, [1, 2, 1]);
}

/// A refused connection delivered nothing to the server, so even a POST is safe to retry.
///
/// The first retry of a call is free.
#[tokio::test(start_paused = true)]
async fn refused_connection_is_retried_for_every_method() {
    let refused = || io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused));
    let server = Server::new(move |number| Some(if number == 1 { Err(refused()) } else { Ok(response(200)) }));
    let layer = RetryLayer::new(retry(clock()).budget(allowance(0)));
    assert_eq!(send(layer.layer(server.clone()), request(Method::POST)).await.unwrap(), StatusCode::OK);
    assert_eq!(server.calls(), 2);

    let server = Server::new(|_| Some(Err(io::ErrorKind::ConnectionReset.into())));
    let error = sent(&server, request(Method::POST)).await.unwrap_err();
    assert_eq!((error.reason(), server.calls()), (GaveUp::NotRetryable, 1));
}

/// The refusal of an inner breaker, however it is wrapped.
#[tokio::test(start_paused = true)]
async fn own_refusals_are_never_retried() {
    let server = Server::new(|_| {
        let breaker = CircuitBreaker::default();
        breaker.force_open();
        Some(Err(io::Error::other(CallError::<io::Error>::Refused(breaker.try_acquire().unwrap_err()))))
    });
    let error = sent(&server, request(Method::GET)).await.unwrap_err();
    assert_eq!((error.reason(), server.calls()), (GaveUp::NotRetryable, 1));
    assert!(CircuitOpen::find_in(&error).is_some());
}

/// Never earlier, and at most a tenth of it or the backoff's base later.
#[tokio::test(start_paused = true)]
async fn retry_after_is_kept_to_in_both_forms() {
    for (name, value) in [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("x-date", "")] {
        let after = if name == "date" { "Sun, 06 Nov 1994 08:50:07 GMT" } else { "30" };
        let server = Server::new(move |number| {
            let response = Response::builder().header(name, value).header("retry-after", after);
            Some(Ok(response.status(if number == 1 { 503 } else { 200 }).body(()).unwrap()))
        });
        assert_eq!(sent(&server, request(Method::GET)).await.unwrap(), StatusCode::OK);
        assert!((30_000..=33_001).contains(&server.millis()[1]), "{:?}", server.millis());
    }
}

/// All are refused at the same moment with a wait of 60 s.
///
/// None returns earlier, and they do not return together.
#[tokio::test(start_paused = true)]
async fn hundred_refused_clients_do_not_return_together() {
    let server = Server::new(|number| {
        let response = Response::builder().header("retry-after", "60");
        Some(Ok(response.status(if number <= 100 { 429 } else { 200 }).body(()).unwrap()))
    });
    let layer = RetryLayer::new(retry(clock()));
    let clients: Vec<_> =
        (0..100).map(|_| tokio::spawn(send(layer.layer(server.clone()), request(Method::GET)))).collect();
    for client in clients {
        assert_eq!(client.await.unwrap().unwrap(), StatusCode::OK);
    }
    let mut returned = server.millis().split_off(100);
    returned.sort_unstable();
    assert_eq!(returned.len(), 100);
    let (first, last) = (returned[0], returned[99]);
    assert!(first >= 60_000 && last <= 66_001, "from {first} to {last} ms");
    assert!(last - first >= 5_000, "from {first} to {last} ms");
    assert!(returned.windows(10).all(|ten| ten[9] > ten[0]), "they return one by one: {returned:?}");
}

/// A wait that would pass the deadline does not start.
#[tokio::test(start_paused = true)]
async fn no_wait_outlasts_the_deadline() {
    let clock = clock();
    let server = Server::statuses([503]);
    let client = RetryLayer::new(retry(clock)).layer(server.clone());
    assert_eq!(send(client, due(250 * MILLISECOND, clock)).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(server.millis(), [0, 100], "300 ms would be too late");
    assert_eq!(clock.0.elapsed(), 100 * MILLISECOND);
}

#[tokio::test(start_paused = true)]
async fn attempt_in_flight_is_dropped_at_the_earlier_deadline() {
    for (of_request, of_policy) in [(150, 1_000), (1_000, 150)] {
        let clock = clock();
        let server = Server::new(|number| (number == 1).then(|| Err(io::Error::other("first"))));
        let retry = retry(clock).deadline(Deadline::with_clock(of_policy * MILLISECOND, clock));
        let client = RetryLayer::new(retry).layer(server.clone());
        let error = send(client, due(of_request * MILLISECOND, clock)).await.unwrap_err();
        assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 2));
        assert_eq!(error.source().unwrap().to_string(), "first");
        assert_eq!((server.millis(), clock.0.elapsed().as_millis()), (vec![0, 100], 150));
        assert_eq!(server.calls_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_request_is_not_sent() {
    let clock = clock();
    let server = Server::statuses([200]);
    let client = RetryLayer::new(retry(clock)).layer(server.clone());
    let error = send(client, due(Duration::ZERO, clock)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), server.calls()), (GaveUp::Deadline { hint: None }, 0, 0));
}

/// A timer that wakes late must not send a request after the deadline.
#[tokio::test(start_paused = true)]
async fn late_timer_sends_nothing_after_the_deadline() {
    let clock = clock();
    let server = Server::statuses([503]);
    let late = |wait| tokio::time::sleep(wait + SECOND);
    let client = RetryLayer::sleeping_by(retry(clock), late).layer(server.clone());
    let error = send(client, due(SECOND, clock)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 1));
    assert_eq!(server.calls(), 1);
}

/// The outcome is ready together with the timer, and still counts in the budget.
#[tokio::test(start_paused = true)]
async fn no_result_follows_the_deadline() {
    for (outcome, tokens) in [(Ok(200), 10_000), (Ok(503), 9_000), (Err("late"), 9_000)] {
        let (clock, throttle) = (clock(), throttle());
        let late = service_fn(move |_: Request<Upload>| async move {
            tokio::time::sleep(SECOND).await;
            outcome.map(response).map_err(io::Error::other)
        });
        let mut client = RetryLayer::new(retry(clock).budget(Arc::clone(&throttle))).layer(late);
        let error = client.ready().await.unwrap().call(due(SECOND, clock)).await.unwrap_err();
        assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 1), "{outcome:?}");
        assert_eq!(error.error().map(ToString::to_string), outcome.err().map(str::to_owned));
        assert_eq!(throttle.thousandths(), tokens, "{outcome:?}");
    }
}

/// The second attempt fails at the moment of the deadline.
#[tokio::test(start_paused = true)]
async fn attempt_that_fails_at_the_deadline_keeps_the_previous_error() {
    let clock = clock();
    let attempts = Arc::new(AtomicUsize::new(0));
    let failing = service_fn(move |_: Request<Upload>| {
        let is_first = attempts.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if is_first {
                return Err::<Response<Alive>, _>(io::Error::other("first"));
            }
            tokio::time::sleep(900 * MILLISECOND).await;
            Err(io::Error::other("second"))
        }
    });
    let mut client = RetryLayer::new(retry(clock)).layer(failing);
    let error = client.ready().await.unwrap().call(due(SECOND, clock)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 2));
    assert_eq!(error.error().unwrap().to_string(), "second");
    assert_eq!(error.previous_error().unwrap().to_string(), "first");
}

#[tokio::test(start_paused = true)]
async fn response_of_a_later_attempt_does_not_replace_the_last_error() {
    let clock = clock();
    let server = Server::new(|number| match number {
        1 => Some(Err(io::Error::other("first"))),
        2 => Some(Ok(response(503))),
        _ => None,
    });
    let client = RetryLayer::new(retry(clock)).layer(server.clone());
    let error = send(client, due(SECOND, clock)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 3));
    assert_eq!(error.source().unwrap().to_string(), "first");
}

#[tokio::test(start_paused = true)]
async fn dropped_call_drops_its_attempt_and_makes_no_other() {
    let server = Server::new(|_| None);
    let mut client = RetryLayer::new(retry(clock())).layer(server.clone());
    let call = client.ready().await.unwrap().call(request(Method::GET));
    assert_eq!(server.calls_in_flight(), 1);
    drop(call);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!((server.calls(), server.calls_in_flight()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn closure_chooses_what_is_retried() {
    let layer =
        RetryLayer::new(retry(clock())).when(|response: Result<&ResponseHead<'_>, &io::Error>| match response {
            Ok(head) if head.status == StatusCode::CONFLICT => Some(Failure::TRANSIENT),
            Ok(_) => None,
            Err(error) => Statuses::failure(Err(error)),
        });
    let server = Server::statuses([409, 503]);
    let status = send(layer.layer(server.clone()), request(Method::GET)).await.unwrap();
    assert_eq!((status, server.calls()), (StatusCode::SERVICE_UNAVAILABLE, 2));
}

/// A service that is ready once, and later as the function says.
#[derive(Clone)]
struct ReadyOnce(Server, fn() -> Poll<io::Result<()>>);

impl Service<Request<Upload>> for ReadyOnce {
    type Response = Response<Alive>;
    type Error = io::Error;
    type Future = <Server as Service<Request<Upload>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0.calls() {
            0 => self.0.poll_ready(context),
            _ => (self.1)(),
        }
    }

    fn call(&mut self, request: Request<Upload>) -> Self::Future {
        self.0.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn failed_readiness_ends_the_call() {
    let server = Server::statuses([503]);
    let closed = ReadyOnce(server.clone(), || Poll::Ready(Err(io::Error::other("closed"))));
    let mut client = RetryLayer::new(retry(clock())).layer(closed);
    let error = client.ready().await.unwrap().call(request(Method::GET)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), server.calls()), (GaveUp::NotRetryable, 1, 1));
    assert_eq!(error.source().unwrap().to_string(), "closed");
    let error = client.ready().await.err().unwrap();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::NotRetryable, 0));
}

#[tokio::test(start_paused = true)]
async fn deadline_ends_a_wait_for_readiness() {
    let clock = clock();
    let server = Server::statuses([503]);
    let busy = ReadyOnce(server.clone(), || Poll::Pending);
    let error = send(RetryLayer::new(retry(clock)).layer(busy), due(SECOND, clock)).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 1));
    assert_eq!((server.calls(), clock.0.elapsed()), (1, SECOND));
}

/// A call without retries, or of a stream, needs no clone of the service.
#[tokio::test(start_paused = true)]
async fn service_is_cloned_only_for_retries() {
    struct Counted(Arc<AtomicUsize>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Self(Arc::clone(&self.0))
        }
    }
    impl Service<Request<Upload>> for Counted {
        type Response = Response<()>;
        type Error = io::Error;
        type Future = std::future::Ready<io::Result<Response<()>>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Upload>) -> Self::Future {
            std::future::ready(Ok(response(200)))
        }
    }
    let clones = Arc::new(AtomicUsize::new(0));
    let once = Retry::with_clock(1, clock(), 1);
    let mut client: Retrying<_, _, Unlimited, _, _> = RetryLayer::new(once).layer(Counted(Arc::clone(&clones)));
    client.call(request(Method::GET)).await.unwrap();
    let mut client = RetryLayer::new(retry(clock())).layer(Counted(Arc::clone(&clones)));
    client.call(request(Method::GET).map(|_| Upload::Stream)).await.unwrap();
    assert_eq!(clones.load(Ordering::Relaxed), 0);
    client.call(request(Method::GET)).await.unwrap();
    assert_eq!(clones.load(Ordering::Relaxed), 1);
}

/// An upload that its own client breaks off says nothing about the server.
#[tokio::test]
async fn failed_upload_is_no_failure_of_the_server() {
    let upload = || {
        let frames = [Ok(Frame::data(Bytes::from("begun"))), Err(io::Error::other("the client went away"))];
        Request::post("http://api.example.com/").body(StreamBody::new(stream::iter(frames))).unwrap()
    };
    let (stream, _server) = tokio::io::duplex(1024);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let of_http1 = sender.send_request(upload()).await.unwrap_err();
    let (stream, _server) = tokio::io::duplex(1024);
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let of_http2 = sender.send_request(upload()).await.unwrap_err();
    for error in [of_http1, of_http2] {
        assert_eq!(Statuses::judge(Err(&error)), Verdict::of(Ending::NotSent), "{error:?}");
        assert_eq!(EveryStatus::judge(Err(&error)), Verdict::of(Ending::NotSent), "{error:?}");
        assert_eq!(Statuses::failure(Err(&error)), Some(Failure::FATAL), "{error:?}");
    }
}

/// hyper drops the connection's task then, as if the connection were lost.
#[tokio::test]
async fn upload_that_panics_is_no_failure_of_the_server() {
    let frames = stream::poll_fn(|_| -> Poll<Option<Result<Frame<Bytes>, io::Error>>> { panic!("in the body") });
    let upload = Request::post("http://api.example.com/").body(StreamBody::new(frames)).unwrap();
    let (stream, _server) = tokio::io::duplex(1024);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let error = sender.send_request(upload).await.unwrap_err();
    assert_eq!(Statuses::judge(Err(&error)), Verdict::of(Ending::NotSent), "{error:?}");
    assert_eq!(Statuses::failure(Err(&error)), Some(Failure::FATAL), "{error:?}");
}

/// hyper calls it an error of its user that a connection is lost while a request waits for a stream.
#[tokio::test]
async fn request_whose_connection_is_lost_before_it_has_a_stream_is_retried() {
    let error = lost_before_a_stream().await;
    assert!(error.is_user(), "{error:?}");
    assert_eq!(Statuses::failure(Err(&error)), Some(Failure::TRANSIENT), "{error}");
    assert_eq!(Statuses::judge(Err(&error)), Verdict::of(Ending::Broken), "{error}");
}

mod hyper_services {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::service::{Service, service_fn};

    #[tokio::test(start_paused = true)]
    async fn calls_of_hyper_services_are_retried() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let server = service_fn(move |_: Request<Full<Bytes>>| {
            let status = if counted.fetch_add(1, Ordering::Relaxed) == 0 { 503 } else { 200 };
            async move { Ok::<_, io::Error>(response(status).map(|()| Full::<Bytes>::default())) }
        });
        let client = RetryLayer::new(retry(clock())).layer(server);
        assert_eq!(client.call(Request::default()).await.unwrap().status(), StatusCode::OK);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}

mod sockets {
    use super::*;
    use crate::support::{ClosedPort, Upstream};
    use bytes::Bytes;
    use damper::http::CircuitBreakerLayer;
    use damper::retry::RetryBudgetConfig;
    use damper::{BreakerConfig, RetryBudget};
    use http_body_util::{BodyExt, Empty};
    use hyper_util::client::legacy::Client;
    use hyper_util::client::legacy::connect::HttpConnector;
    use hyper_util::rt::TokioExecutor;
    use tokio::task::JoinSet;

    fn client() -> Client<HttpConnector, Empty<Bytes>> {
        Client::builder(TokioExecutor::new()).build_http()
    }

    fn quick(attempts: u32) -> Retry {
        Retry::new(attempts).backoff(Backoff::constant(MILLISECOND))
    }

    /// 1,000 callers use a server that always responds with 503.
    ///
    /// Without a budget it would receive three requests for each call.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn dead_upstream_gets_no_more_retries_than_the_budget_allows() {
        const CALLERS: usize = 1_000;
        const CALLS: usize = 3;
        let config = RetryBudgetConfig::builder().ratio(0.2).floor(10).reserve(50).build().unwrap();
        let budget = Arc::new(RetryBudget::new(config));
        let upstream = Upstream::start().await;
        upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
        let client = RetryLayer::new(quick(3).budget(Arc::clone(&budget))).layer(client());
        let start = std::time::Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (mut client, upstream) = (client.clone(), upstream.clone());
            callers.spawn(async move {
                for _ in 0..CALLS {
                    let response = client.ready().await.unwrap().call(upstream.request()).await.unwrap();
                    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
                    response.into_body().collect().await.unwrap();
                }
            });
        }
        callers.join_all().await;
        let (calls, elapsed) = (CALLERS * CALLS, start.elapsed());
        let allowed = 50 + calls / 5 + usize::try_from(elapsed.as_millis()).unwrap().div_ceil(100);
        let retries = upstream.hits() - calls;
        assert!(retries <= allowed, "{retries} retries, at most {allowed}");
        assert!(retries >= calls / 10, "{retries} retries, the budget allows more");
    }

    /// A call that used up its attempts is one failure. An open breaker responds without a wait.
    #[tokio::test]
    async fn breaker_outside_counts_calls_and_costs_no_backoff() {
        let upstream = Upstream::start().await;
        upstream.answer(StatusCode::SERVICE_UNAVAILABLE);
        let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
        let mut client = tower::ServiceBuilder::new()
            .layer(CircuitBreakerLayer::per_host(config))
            .layer(RetryLayer::new(quick(3)))
            .service(client());
        for calls in 1..=2 {
            let response = client.ready().await.unwrap().call(upstream.request()).await.unwrap();
            assert_eq!((response.status(), upstream.hits()), (StatusCode::SERVICE_UNAVAILABLE, 3 * calls));
        }
        let mut refused = std::pin::pin!(client.ready().await.unwrap().call(upstream.request()));
        let polled = refused.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(CallError::Refused(_)))));
        assert_eq!(upstream.hits(), 6);
    }

    /// Each attempt is refused, and the call returns the last refusal.
    #[tokio::test]
    async fn post_is_retried_while_its_connection_is_refused() {
        let closed_port = ClosedPort::new();
        let mut client = RetryLayer::new(quick(3)).layer(client());
        let request = Request::post(format!("http://{}/", closed_port.address())).body(Empty::new()).unwrap();
        let error = client.ready().await.unwrap().call(request).await.unwrap_err();
        assert_eq!((error.reason(), error.attempts()), (GaveUp::Attempts, 3));
        assert!(error.error().unwrap().is_connect());
    }
}

/// Counts what a budget hears.
#[derive(Default)]
struct Heard {
    succeeded: AtomicUsize,
    retries_succeeded: AtomicUsize,
    failed: AtomicUsize,
}

impl Budget for Heard {
    fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    fn retry_succeeded(&self, _: Failure) {
        self.retries_succeeded.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn try_withdraw(&self) -> bool {
        true
    }
}

/// The budget of the policy is the budget of the stack, not one beside it.
#[tokio::test(start_paused = true)]
async fn budget_of_a_policy_hears_of_the_calls_of_a_stack() {
    let budget = Arc::new(Heard::default());
    let heard =
        || [&budget.succeeded, &budget.retries_succeeded, &budget.failed].map(|count| count.load(Ordering::Relaxed));
    let server = Server::statuses([200, 503, 200, 503, 503, 503]);
    let stack = client_stack().retry(retry(clock()).budget(Arc::clone(&budget)));
    let client = stack.service(server.clone());
    let call = async || client.clone().oneshot(request(Method::GET)).await.unwrap().status();
    assert_eq!((call().await, heard()), (StatusCode::OK, [1, 0, 0]));
    assert_eq!((call().await, heard()), (StatusCode::OK, [1, 1, 1]));
    assert_eq!((call().await, server.calls()), (StatusCode::SERVICE_UNAVAILABLE, 6));
    assert_eq!(heard(), [1, 1, 4]);
}
