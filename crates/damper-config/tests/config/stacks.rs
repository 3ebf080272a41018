//! Stacks from settings: each part follows its section if it is on, and does nothing if it is off.

use bytes::Bytes;
use damper_config::{ClientLayers, ConfiguredClientStack, ConfiguredPacers, Reloader, ServerLayers, Sources};
use damper_core::breaker::State;
use damper_core::concurrency::{Admission, AdmissionRequest, NotAdmitted};
use damper_core::gate::Either;
use damper_core::retry::{Failure, RetryError};
use damper_core::{BreakerConfig, Bulkhead, BulkheadFull, Deadline};
use damper_http::{
    BoxedClient, ClassifyResponse, GiveUp, Head, HttpProtocol, ResponseHead, RetryProtocol, StackError, StackPart,
    StackProtocol,
};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt, service_fn};

type Body = Empty<Bytes>;

fn client_of(text: &str) -> ClientLayers {
    let text = format!("[client.http]\n{text}");
    Sources::new().toml("app", &text).load().unwrap().client.http
}

fn server_of(text: &str) -> ServerLayers {
    let text = format!("[server.http]\n{text}");
    Sources::new().toml("app", &text).load().unwrap().server.http
}

fn request(host: &str) -> Request<Body> {
    Request::get(format!("http://{host}/")).body(Body::new()).unwrap()
}

/// Puts a stack around a transport in a box.
///
/// The compiler takes seconds for the types of a configured stack, so the tests share this.
pub(crate) fn client(
    stack: &ConfiguredClientStack,
    transport: BoxCloneSyncService<Request<Body>, Response<Body>, io::Error>,
) -> BoxedClient<Body> {
    stack.boxed(transport)
}

/// A client whose transport answers each call by a function of its number.
struct Tried {
    client: BoxedClient<Body>,
    calls: Arc<AtomicU32>,
}

impl Tried {
    fn new<F>(stack: &ConfiguredClientStack, answer: impl Fn(u32) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = StatusCode> + Send + 'static,
    {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let transport = service_fn(move |_: Request<Body>| {
            let answer = answer(counted.fetch_add(1, Ordering::Relaxed) + 1);
            async move {
                let response = Response::builder().status(answer.await).body(Body::new());
                Ok::<_, io::Error>(response.unwrap())
            }
        });
        Self { client: client(stack, BoxCloneSyncService::new(transport)), calls }
    }

    async fn call(&self) -> Result<StatusCode, StackError> {
        let response = self.client.clone().oneshot(request("one.example.com")).await?;
        Ok(response.status())
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}

fn part(result: Result<StatusCode, StackError>) -> StackPart {
    result.unwrap_err().part()
}

#[tokio::test]
async fn retries_and_breakers_are_on_by_default_and_can_be_off() {
    let broken = |_| async { StatusCode::SERVICE_UNAVAILABLE };
    let settings = client_of("retry = { base_delay = '1ms', max_delay = '1ms', throttled_base = '1ms' }");
    let on = Tried::new(&settings.client_stack().unwrap(), broken);
    for _ in 0..5 {
        assert_eq!(on.call().await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(on.calls(), 15, "three attempts each");
    assert_eq!(part(on.call().await), StackPart::Breaker);

    let settings = client_of("stack = { retry = false, circuit_breaker = false }");
    let off = Tried::new(&settings.client_stack().unwrap(), broken);
    for _ in 0..20 {
        assert_eq!(off.call().await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(off.calls(), 20);
}

/// The retries repeat a request that provably reached no server, whatever its method is.
#[tokio::test]
async fn retries_that_are_off_repeat_no_request_that_could_not_be_sent() {
    for (is_on, expected, part) in [(true, 3, StackPart::Retry), (false, 1, StackPart::Transport)] {
        let retry = "retry = { base_delay = '1ms', max_delay = '1ms', throttled_base = '1ms' }";
        let stack = client_of(&format!("stack.retry = {is_on}\n{retry}")).client_stack().unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let refusing = service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Err::<Response<Body>, _>(io::Error::from(io::ErrorKind::ConnectionRefused)))
        });
        let client = client(&stack, BoxCloneSyncService::new(refusing));
        let error = client.oneshot(request("one.example.com")).await.unwrap_err();
        assert_eq!((calls.load(Ordering::Relaxed), error.part()), (expected, part));
    }
}

/// A protocol for which a 503 shows that no application has seen the request.
#[derive(Clone, Copy, Debug)]
struct Unseen;

impl RetryProtocol<Body> for Unseen {
    type Kept = Body;
    type Body = Body;

    fn may_repeat(&self, _: &Head<'_>) -> bool {
        false
    }

    fn keep(&self, body: Body) -> Body {
        body
    }

    fn send(&self, body: Body) -> Body {
        body
    }

    fn has_transparent_retries(&self) -> bool {
        true
    }
}

impl<E> ClassifyResponse<E, Option<Failure>> for Unseen {
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        let is_unseen = response.is_ok_and(|head| head.status == StatusCode::SERVICE_UNAVAILABLE);
        is_unseen.then_some(Failure::TRANSIENT.transparent())
    }
}

impl<E> GiveUp<E> for Unseen {
    type Error = RetryError<E>;

    fn give_up(&self, error: RetryError<E>) -> RetryError<E> {
        error
    }
}

impl StackProtocol for Unseen {
    type Completion = <HttpProtocol as StackProtocol>::Completion;
    type Rejections = <HttpProtocol as StackProtocol>::Rejections;
    type Retries = Self;
    type Hints = <HttpProtocol as StackProtocol>::Hints;

    fn completion(&self) -> Self::Completion {
        HttpProtocol.completion()
    }

    fn rejections(&self) -> Self::Rejections {
        HttpProtocol.rejections()
    }

    fn retries(&self) -> Self {
        *self
    }

    fn hints(&self) -> Self::Hints {
        HttpProtocol.hints()
    }
}

#[tokio::test]
async fn transparent_retry_is_made_after_the_last_attempt_unless_retries_are_off() {
    for (is_on, expected) in [(true, (2, StatusCode::OK)), (false, (1, StatusCode::SERVICE_UNAVAILABLE))] {
        let settings = client_of(&format!("stack.retry = {is_on}\nretry.max_attempts = 1"));
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let transport = service_fn(move |_| {
            let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            let status = if is_first { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            std::future::ready(Ok::<_, Infallible>(Response::builder().status(status).body(Body::new()).unwrap()))
        });
        let client = settings.client_stack().unwrap().protocol(Unseen).boxed(transport);
        let response = client.oneshot(request("one.example.com")).await.unwrap();
        assert_eq!((calls.load(Ordering::Relaxed), response.status()), expected);
    }
}

/// The hedges' own budget has 10 attempts, and only a hedge answers the first ten calls.
#[tokio::test]
async fn services_of_one_stack_share_its_hedge() {
    let settings = client_of("stack.hedge = true\nhedge = { fixed_delay = '1ms', max_extra = 0.001 }");
    let stack = settings.client_stack().unwrap();
    let mut calls = 0;
    for number in 0..15 {
        let tried = Tried::new(&stack.clone(), move |call| async move {
            match (call, number) {
                (1, ..10) => std::future::pending().await,
                (1, _) => sleep(Duration::from_millis(30)).await,
                _ => {}
            }
            StatusCode::OK
        });
        tried.call().await.unwrap();
        calls += tried.calls();
    }
    assert_eq!(calls, 15 + 10);
}

#[tokio::test]
async fn a_hedge_makes_another_attempt_only_if_it_is_on() {
    for (is_on, expected) in [(true, 2), (false, 1)] {
        let settings =
            client_of(&format!("stack.hedge = {is_on}\nhedge = {{ fixed_delay = '10ms', max_extra = 1.0 }}"));
        let tried = Tried::new(&settings.client_stack().unwrap(), move |call| async move {
            match (call, is_on) {
                (1, true) => std::future::pending().await,
                (1, false) => sleep(Duration::from_millis(100)).await,
                _ => {}
            }
            StatusCode::OK
        });
        tried.call().await.unwrap();
        assert_eq!(tried.calls(), expected);
    }
}

#[tokio::test]
async fn a_throttle_keeps_calls_from_an_overloaded_server_only_if_it_is_on() {
    for is_on in [true, false] {
        let off = "stack = { retry = false, circuit_breaker = false, throttle = ";
        let settings = client_of(&format!("{off}{is_on} }}\nthrottle.multiplier = 1.0"));
        let tried = Tried::new(&settings.client_stack().unwrap(), |_| async { StatusCode::SERVICE_UNAVAILABLE });
        let mut refused = 0;
        for _ in 0..200 {
            match tried.call().await {
                Ok(status) => assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE),
                Err(error) => {
                    assert_eq!(error.part(), StackPart::Throttle);
                    refused += 1;
                }
            }
        }
        assert_eq!(refused > 100, is_on, "{refused}");
    }
}

#[tokio::test]
async fn attempts_are_paced_only_if_pacing_is_on() {
    // Retries that are off make one attempt of a call.
    let of = |is_on: bool, pacing: &str| {
        client_of(&format!("stack = {{ pacing = {is_on}, retry = false, circuit_breaker = false }}\npacing = {pacing}"))
    };
    let ok = |_| async { StatusCode::OK };
    let sleeps = "{ strategy = 'remaining_decrease', initial_sleep = '100ms' }";
    let began = Instant::now();
    Tried::new(&of(true, sleeps).client_stack().unwrap(), ok).call().await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(90), "{:?}", began.elapsed());

    let too_long = "{ quota = '1/min', strategy = 'remaining_decrease', initial_sleep = '40s' }";
    let on = Tried::new(&of(true, too_long).client_stack().unwrap(), ok);
    assert_eq!(part(on.call().await), StackPart::Pacing, "the deadline of 30 s does not leave the sleep");
    assert_eq!(on.calls(), 0);
    let off = Tried::new(&of(false, too_long).client_stack().unwrap(), ok);
    assert_eq!(off.call().await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn a_rejection_slows_its_own_host_or_all_of_them() {
    for per_host in [true, false] {
        let text = format!(
            "stack = {{ pacing = true, retry = false }}\n\
             pacing = {{ quota = '1/min', strategy = 'remaining_decrease', per_host = {per_host} }}"
        );
        let stack = client_of(&text).client_stack().unwrap();
        let tried =
            Tried::new(
                &stack,
                |call| async move { if call == 1 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK } },
            );
        assert_eq!(tried.call().await.unwrap(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(part(tried.call().await), StackPart::Pacing);
        let other = tried.client.clone().oneshot(request("two.example.com")).await;
        assert_eq!(other.is_ok(), per_host);
        // Clones share the pacers, so they can be watched.
        let sleep = match stack.pacers() {
            Some(ConfiguredPacers::First(pacer)) => pacer.peek(),
            Some(ConfiguredPacers::Second(hosts)) => hosts.store().iter().map(|(_, pacer)| pacer.peek()).max().unwrap(),
            None => panic!("there are pacers"),
        };
        assert!(sleep >= Duration::from_mins(1), "{sleep:?}");
    }
}

#[tokio::test]
async fn a_pacing_layer_by_itself_makes_a_rejected_call_again() {
    for (max_attempts, expected) in [(3, StatusCode::OK), (2, StatusCode::TOO_MANY_REQUESTS)] {
        let client = client_of(&format!("pacing = {{ strategy = 'none', max_attempts = {max_attempts} }}"));
        let layer = client.pacing.layer(Arc::new(client.retry_budget.budget())).unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let transport = service_fn(move |_| {
            let rejects = calls.fetch_add(1, Ordering::Relaxed) < 2;
            let status = if rejects { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
            std::future::ready(Ok::<_, Infallible>(Response::builder().status(status).body(Body::new()).unwrap()))
        });
        assert_eq!(layer.layer(transport).oneshot(request("server")).await.unwrap().status(), expected);
    }
}

#[tokio::test]
async fn a_call_over_the_rate_waits_for_max_wait_and_no_longer() {
    let ok = |_| async { StatusCode::OK };
    let stack = "stack = { ratelimit = true, retry = false }\n";
    let waits = client_of(&format!("{stack}ratelimit = {{ quota = '20/s burst 1', max_wait = '10s' }}"));
    let waits = Tried::new(&waits.client_stack().unwrap(), ok);
    let refuses = client_of(&format!("{stack}ratelimit = {{ quota = '1/h burst 1', max_wait = '5ms' }}"));
    let refuses = Tried::new(&refuses.client_stack().unwrap(), ok);
    for tried in [&waits, &refuses] {
        tried.call().await.unwrap();
    }
    assert_eq!(waits.call().await.unwrap(), StatusCode::OK);
    assert_eq!(part(refuses.call().await), StackPart::Limit);
    let off = Tried::new(&client_of("ratelimit = { quota = '1/h', max_wait = '0s' }").client_stack().unwrap(), ok);
    for _ in 0..100 {
        off.call().await.unwrap();
    }
}

#[tokio::test]
async fn a_call_over_the_bulkhead_waits_for_max_wait_and_no_longer() {
    let hangs = |_| async {
        std::future::pending::<()>().await;
        StatusCode::OK
    };
    for concurrency in ["bulkhead", "bulkhead_per_host"] {
        let settings = format!(
            "stack = {{ concurrency = '{concurrency}', deadline = false, retry = false }}\nbulkhead = {{ limit = 1, queue = 1, max_wait = '5ms' }}"
        );
        let tried = Tried::new(&client_of(&settings).client_stack().unwrap(), hangs);
        let mut held = Box::pin(tried.call());
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut held).await.is_err());
        assert_eq!(part(tried.call().await), StackPart::Concurrency, "{concurrency}");
        let other = tried.client.clone().oneshot(request("two.example.com"));
        let other_hangs = concurrency == "bulkhead_per_host";
        let longest = if other_hangs { Duration::from_millis(100) } else { Duration::from_secs(30) };
        let other = tokio::time::timeout(longest, other).await;
        assert_eq!(other.is_err(), other_hangs, "only one that hangs has got a slot");
    }
    let adaptive = client_of(
        "stack = { concurrency = 'adaptive_limit', deadline = false, retry = false }\nadaptive_limit.max_limit = 1",
    );
    let tried = Tried::new(&adaptive.client_stack().unwrap(), hangs);
    let mut held = Box::pin(tried.call());
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut held).await.is_err());
    assert_eq!(part(tried.call().await), StackPart::Concurrency);
}

/// The timeout of a call is in force only with a deadline.
#[test]
fn attempt_timeout_may_exceed_a_timeout_that_is_not_in_force() {
    let load = |text: &str| Sources::new().toml("app", &format!("[client.http]\n{text}")).load();
    let settings = load("stack.deadline = false\ndeadline.attempt_timeout = '60s'").unwrap();
    assert_eq!(settings.client.http.deadline.attempt_timeout(), Some(Duration::from_mins(1)));
    // Whichever source turns the deadline off.
    let file = Sources::new().toml("app", "[client.http.deadline]\nattempt_timeout = '60s'");
    assert!(file.value("--no-deadline", "client.http.stack.deadline", "false").load().is_ok());

    for text in ["", "stack.deadline = true\n"] {
        let error = load(&format!("{text}deadline.attempt_timeout = '60s'")).unwrap_err();
        assert!(error.to_string().contains("attempt_timeout must be no more than timeout"), "{error}");
    }
    let grpc = "[client]\nhttp.stack.deadline = false\ngrpc.deadline.attempt_timeout = '60s'";
    assert!(Sources::new().toml("app", grpc).load().is_err(), "of another protocol");
}

/// The request would keep its place in the queue until the deadline.
#[tokio::test]
async fn call_whose_token_comes_after_its_deadline_is_refused_at_once() {
    let settings = client_of(
        "stack.ratelimit = true\nratelimit = { quota = '1/h burst 1', max_wait = '2h' }\ndeadline.timeout = '30min'",
    );
    let stack = settings.client_stack().unwrap();
    let tried = Tried::new(&stack, |_| async { StatusCode::OK });
    tried.call().await.unwrap();
    let refused = tokio::time::timeout(Duration::from_mins(1), tried.call()).await.expect("it waits");
    assert_eq!(part(refused), StackPart::Limit);
    assert_eq!(tried.calls(), 1);
}

/// A refusal of any of a server's limits.
#[test]
fn refusal_of_one_of_two_limits_is_found_and_says_its_sentence() {
    let full = Bulkhead::new(0).try_acquire().unwrap_err();
    let not_admitted = Admission::fixed(0).try_acquire(AdmissionRequest::new()).unwrap_err();
    let refusal: Either<BulkheadFull, NotAdmitted> = Either::First(full);
    assert_eq!(refusal.to_string(), full.to_string());
    assert_eq!(BulkheadFull::find_in(&refusal), Some(&full));
    let refusal: Either<BulkheadFull, Either<BulkheadFull, NotAdmitted>> = Either::Second(Either::Second(not_admitted));
    assert_eq!(refusal.to_string(), not_admitted.to_string());
    assert_eq!(NotAdmitted::find_in(&refusal), Some(&not_admitted));
}

#[tokio::test]
async fn the_deadline_and_the_timeout_of_an_attempt_end_a_call() {
    let hangs = |_| async {
        std::future::pending::<()>().await;
        StatusCode::OK
    };
    let settings = client_of("deadline.timeout = '20ms'");
    assert_eq!(part(Tried::new(&settings.client_stack().unwrap(), hangs).call().await), StackPart::Deadline);
    let settings = client_of("stack.retry = false\ndeadline.attempt_timeout = '20ms'");
    assert_eq!(part(Tried::new(&settings.client_stack().unwrap(), hangs).call().await), StackPart::AttemptTimeout);
    let settings = client_of("stack.deadline = false\ndeadline.timeout = '20ms'");
    let tried = Tried::new(&settings.client_stack().unwrap(), hangs);
    assert!(tokio::time::timeout(Duration::from_millis(200), tried.call()).await.is_err());
}

/// Serves a request by a handler that hangs on the path `/hang`.
async fn serve(stack: &damper_config::ConfiguredServerStack, path: &str) -> StatusCode {
    let handler = service_fn(|request: Request<Body>| async move {
        if request.uri().path() == "/hang" {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Response::new(Body::new()))
    });
    let request = Request::get(path).header("x-client", "a").body(Body::new()).unwrap();
    let mut service = stack.service(BoxCloneSyncService::new(handler));
    service.ready().await.unwrap().call(request).await.unwrap().status()
}

#[tokio::test]
async fn a_server_stack_limits_rate_and_time() {
    let stack = server_of("ratelimit.quota = '1/h burst 2'\ndeadline.timeout = '20ms'").server_stack().unwrap();
    assert_eq!(serve(&stack, "/").await, StatusCode::OK);
    assert_eq!(serve(&stack, "/hang").await, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(serve(&stack, "/").await, StatusCode::TOO_MANY_REQUESTS);
    let exempt = stack.exempt(|head| head.uri.path() == "/healthz");
    assert_eq!(serve(&exempt, "/healthz").await, StatusCode::OK);

    let off =
        server_of("stack = { ratelimit = false, deadline = false }\nratelimit.quota = '1/h'\ndeadline.timeout = '1ms'");
    let off = off.server_stack().unwrap();
    for _ in 0..10 {
        assert_eq!(serve(&off, "/").await, StatusCode::OK);
    }
    assert!(tokio::time::timeout(Duration::from_millis(100), serve(&off, "/hang")).await.is_err());
}

#[tokio::test]
async fn each_limit_of_requests_in_flight_refuses_over_its_limit() {
    for (concurrency, section) in [
        ("bulkhead", "bulkhead = { limit = 1, queue = 1, max_wait = '5ms' }"),
        ("adaptive_limit", "adaptive_limit.max_limit = 1"),
        ("admission", "admission = { max_limit = 1, queue = 0 }"),
        ("fixed_admission", "admission = { fixed_limit = 1, queue = 0 }"),
        ("none", ""),
    ] {
        let stack = server_of(&format!("stack = {{ concurrency = '{concurrency}', deadline = false }}\n{section}"));
        let stack = stack.server_stack().unwrap();
        let mut held = Box::pin(serve(&stack, "/hang"));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut held).await.is_err());
        let expected = if concurrency == "none" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        assert_eq!(serve(&stack, "/").await, expected, "{concurrency}");
        drop(held);
        assert_eq!(serve(&stack, "/").await, StatusCode::OK, "{concurrency}");
    }
}

/// The setting of one host survives a change of an unrelated section.
#[test]
fn reload_of_a_group_leaves_sections_alone_that_did_not_change() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("sections.toml");
    let text = |burst: u32, failures: u32| {
        format!(
            "[client.http]\nstack.ratelimit = true\nratelimit.burst = {burst}\ncircuit_breaker.failure_threshold = {failures}"
        )
    };
    std::fs::write(&file, text(10, 7)).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let stack = reloader.settings().client.http.client_stack().unwrap();
    let reloader = reloader.bind(|settings| &settings.client.http, stack.clone());
    let breaker = || stack.breakers().unwrap().breaker("a:80");
    breaker().set_config(&BreakerConfig::builder().failure_threshold(1).build().unwrap()).unwrap();
    std::fs::write(&file, text(20, 7)).unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 1);
    _ = breaker().call(|| Err::<(), _>(()));
    assert_eq!(breaker().state(), State::Open, "its own threshold");

    breaker().reset();
    std::fs::write(&file, text(20, 6)).unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 1);
    _ = breaker().call(|| Err::<(), _>(()));
    assert_eq!(breaker().state(), State::Closed, "that of all hosts");
}

#[tokio::test]
async fn server_stack_without_a_deadline_sets_none() {
    for (is_on, is_never) in [(true, false), (false, true)] {
        let stack = server_of(&format!("stack.deadline = {is_on}")).server_stack().unwrap();
        let handler = service_fn(move |request: Request<Body>| async move {
            let deadline: Option<&Deadline> = request.extensions().get();
            assert_eq!(deadline.is_none_or(Deadline::is_never), is_never);
            Ok::<_, Infallible>(Response::new(Body::new()))
        });
        let response = stack.service(handler).oneshot(request("server")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn request_without_a_deadline_waits_at_a_gate_for_max_wait_and_no_longer() {
    for concurrency in ["admission", "fixed_admission"] {
        let stack = server_of(&format!(
            "stack = {{ concurrency = '{concurrency}', deadline = false }}\n\
             admission = {{ max_limit = 1, fixed_limit = 1, max_wait = '20ms' }}"
        ));
        let stack = stack.server_stack().unwrap();
        let mut held = Box::pin(serve(&stack, "/hang"));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut held).await.is_err());
        let waiting = tokio::time::timeout(Duration::from_secs(20), serve(&stack, "/")).await;
        assert_eq!(waiting.expect("it is refused"), StatusCode::SERVICE_UNAVAILABLE, "{concurrency}");
        drop(held);
        assert_eq!(serve(&stack, "/").await, StatusCode::OK, "{concurrency}");
    }
}

#[tokio::test]
async fn each_algorithm_and_each_key_limits() {
    for algorithm in ["token_bucket", "leaky_bucket", "fixed_window", "sliding_counter", "sliding_log"] {
        let settings = format!("ratelimit = {{ quota = '3/h burst 3', algorithm = '{algorithm}' }}");
        let stack = server_of(&settings).server_stack().unwrap();
        for _ in 0..3 {
            assert_eq!(serve(&stack, "/").await, StatusCode::OK, "{algorithm}");
        }
        assert_eq!(serve(&stack, "/").await, StatusCode::TOO_MANY_REQUESTS, "{algorithm}");
    }
    for (key, algorithm) in [
        ("path", "token_bucket"),
        ("path", "sliding_counter"),
        ("header:x-client", "token_bucket"),
        ("header:x-client", "fixed_window"),
    ] {
        let settings = format!("ratelimit = {{ quota = '1/h', algorithm = '{algorithm}', key = '{key}' }}");
        let stack = server_of(&settings).server_stack().unwrap();
        assert_eq!(serve(&stack, "/one").await, StatusCode::OK, "{key}");
        assert_eq!(serve(&stack, "/one").await, StatusCode::TOO_MANY_REQUESTS, "{key}");
        let expected = if key == "path" { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        assert_eq!(serve(&stack, "/two").await, expected, "{key}");
    }
}

#[tokio::test]
async fn the_layer_of_each_section_is_a_layer() {
    use tower::ServiceBuilder;

    let (server, client) = (server_of(""), client_of(""));
    let handler = service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::new())) });
    let service = ServiceBuilder::new()
        .layer(server.deadline.layer())
        .layer(server.ratelimit.layer().unwrap())
        .layer(server.bulkhead.layer())
        .layer(server.adaptive_limit.layer())
        .layer(server.admission.layer())
        .layer(server.admission.fixed_layer())
        .service(handler);
    assert_eq!(service.oneshot(request("server")).await.unwrap().status(), StatusCode::OK);

    let budget = Arc::new(client.retry_budget.budget());
    let transport = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Body::new())) });
    let stack = damper_http::client_stack()
        .deadline_layer(client.deadline.layer())
        .breaker_layer(client.circuit_breaker.layer().unwrap())
        .retry_layer(client.retry.layer(Arc::clone(&budget)))
        .pacing_layer(client.pacing.layer(Arc::clone(&budget)).unwrap().without_retries())
        .hedge_layer(client.hedge.layer(budget))
        .throttle_layer(client.throttle.layer())
        .limit_layer(client.ratelimit.layer())
        .concurrency_layer(client.bulkhead.client_layer_per_host().unwrap());
    assert_eq!(stack.service(transport).oneshot(request("client")).await.unwrap().status(), StatusCode::OK);
}
