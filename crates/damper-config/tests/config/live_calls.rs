//! Reloads while calls are made: the next call has the new settings, a call in flight keeps its own.

use bytes::Bytes;
use damper_config::{ConfiguredClientStack, ConfiguredServerStack, Reloader, Sources};
use damper_core::retry::{Budget, RetrySchedule};
use damper_core::{Bulkhead, Live, RetryBudget};
use damper_http::{BoxedClient, StackPart};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::sleep;
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt, service_fn};

type Body = Empty<Bytes>;

/// A file of settings, and the targets that are bound to it.
struct Program {
    file: PathBuf,
    reloader: Reloader,
}

impl Program {
    fn new(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("damper-config-live-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("app.toml");
        fs::write(&file, text).unwrap();
        Self { reloader: Reloader::new(Sources::new().file(&file)).unwrap(), file }
    }

    fn client(name: &str, text: &str) -> (Self, ConfiguredClientStack) {
        let Self { file, reloader } = Self::new(name, &format!("[client.http]\n{text}"));
        let stack = reloader.settings().client.http.client_stack().unwrap();
        let reloader = reloader.bind(|settings| &settings.client.http, stack.clone());
        (Self { file, reloader }, stack)
    }

    fn server(name: &str, text: &str) -> (Self, ConfiguredServerStack) {
        let Self { file, reloader } = Self::new(name, &format!("[server.http]\n{text}"));
        let stack = reloader.settings().server.http.server_stack().unwrap();
        let reloader = reloader.bind(|settings| &settings.server.http, stack.clone());
        (Self { file, reloader }, stack)
    }

    /// Puts settings in force, and returns how many keys changed.
    fn put(&self, text: &str) -> Result<usize, String> {
        fs::write(&self.file, text).unwrap();
        self.reloader.reload().map(|changes| changes.len()).map_err(|error| error.to_string())
    }
}

/// A transport that counts its calls, and answers 503 to each that gets a permit of `answers`.
#[derive(Clone)]
struct Unavailable {
    calls: Arc<AtomicU32>,
    answers: Arc<Semaphore>,
}

impl Unavailable {
    fn with_answers(answers: usize) -> Self {
        Self { calls: Arc::default(), answers: Arc::new(Semaphore::new(answers)) }
    }

    fn behind(&self, stack: &ConfiguredClientStack) -> BoxedClient<Body> {
        let this = self.clone();
        let transport = service_fn(move |_: Request<Body>| {
            let this = this.clone();
            async move {
                this.calls.fetch_add(1, Ordering::Relaxed);
                this.answers.acquire().await.unwrap().forget();
                let response = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE).body(Body::new());
                Ok::<_, io::Error>(response.unwrap())
            }
        });
        crate::stacks::client(stack, BoxCloneSyncService::new(transport))
    }

    /// Waits until so many calls have begun since the last time.
    async fn begun(&self, calls: u32) {
        while self.calls.load(Ordering::Relaxed) < calls {
            yield_now().await;
        }
        self.calls.store(0, Ordering::Relaxed);
    }
}

/// Makes a call, and returns its status, or the part that ended it.
async fn get(client: &BoxedClient<Body>) -> Result<StatusCode, StackPart> {
    let request = Request::get("http://api.example/").body(Body::new()).unwrap();
    client.clone().oneshot(request).await.map(|response| response.status()).map_err(|error| error.part())
}

const MANY: usize = 1_000;

#[tokio::test]
async fn call_keeps_its_attempts_over_a_reload() {
    let text =
        "circuit_breaker.failure_threshold = 1000\nretry = { max_attempts = 4, base_delay = '1ms', max_delay = '1ms' }";
    let (program, stack) = Program::client("attempts", text);
    let transport = Unavailable::with_answers(0);
    let client = transport.behind(&stack);
    let begun = tokio::spawn({
        let client = client.clone();
        async move { get(&client).await }
    });
    transport.begun(1).await;
    assert_eq!(program.put(&format!("[client.http]\n{}", text.replace("= 4", "= 2"))), Ok(1));
    transport.answers.add_permits(MANY);
    begun.await.unwrap().unwrap();
    transport.begun(3).await; // the other attempts of the call
    get(&client).await.unwrap();
    transport.begun(2).await;
    // The growth of the delays needs a restart.
    let error = program.put(&format!("[client.http]\n{}", text.replace("= 4", "= 2, factor = 3.0"))).unwrap_err();
    assert!(error.contains("retry.factor changed from 2.0 to 3.0; this needs a restart"), "{error}");
}

#[tokio::test]
async fn call_keeps_its_timeouts_over_a_reload() {
    let text = "stack.retry = false\ndeadline = { timeout = '1h', attempt_timeout = '1h' }";
    let (program, stack) = Program::client("timeouts", text);
    let transport = Unavailable::with_answers(0);
    let client = transport.behind(&stack);
    let begun = tokio::spawn({
        let client = client.clone();
        async move { get(&client).await }
    });
    transport.begun(1).await;
    let deadline = |timeouts| program.put(&format!("[client.http]\nstack.retry = false\ndeadline = {{ {timeouts} }}"));
    assert_eq!(deadline("timeout = '1h', attempt_timeout = '20ms'"), Ok(1));
    assert_eq!(get(&client).await, Err(StackPart::AttemptTimeout));
    assert_eq!(deadline("timeout = '20ms', attempt_timeout = '20ms'"), Ok(1));
    assert!(matches!(get(&client).await, Err(StackPart::Deadline | StackPart::AttemptTimeout)));
    let error = deadline("timeout = '20ms'").unwrap_err();
    assert!(error.contains("to unset attempt_timeout needs a restart"), "{error}");
    transport.answers.add_permits(MANY);
    assert_eq!(begun.await.unwrap(), Ok(StatusCode::SERVICE_UNAVAILABLE));
}

/// A part that the stack does not have takes no settings.
#[tokio::test]
async fn absent_parts_need_a_restart() {
    let parts = "stack = { retry = false, deadline = false, ratelimit = false }";
    let (program, stack) = Program::client("absent", parts);
    for key in
        ["retry.max_attempts = 5", "retry_budget.ratio = '1%'", "deadline.timeout = '1s'", "ratelimit.max_wait = '2s'"]
    {
        let error = program.put(&format!("[client.http]\n{parts}\n{key}")).expect_err(key);
        assert!(error.contains("what is bound to this section does not take it"), "{error}");
    }
    let error = program.put(&format!("[client.http]\n{parts}\ndeadline.attempt_timeout = '1s'")).unwrap_err();
    assert!(error.contains("attempt_timeout changed from unset"), "{error}");
    drop(stack);
}

#[tokio::test]
async fn budget_of_a_stack_changes() {
    let text = "circuit_breaker.failure_threshold = 1000\nretry = { base_delay = '1ms', max_delay = '1ms' }";
    let (program, stack) = Program::client("budget", text);
    let transport = Unavailable::with_answers(MANY);
    let client = transport.behind(&stack);
    get(&client).await.unwrap();
    transport.begun(3).await;
    let budget = "retry_budget = { ratio = '0%', floor = 0, reserve = 1 }";
    assert_eq!(program.put(&format!("[client.http]\n{text}\n{budget}")), Ok(3));
    // One retry is left of the reserve, and those that the calls before brought have not expired.
    for _ in 0..5 {
        _ = get(&client).await;
    }
    transport.calls.store(0, Ordering::Relaxed);
    _ = get(&client).await;
    assert_eq!(transport.calls.load(Ordering::Relaxed), 1, "no retry");
}

async fn serve(stack: &ConfiguredServerStack, lasts: Duration) -> StatusCode {
    let service = service_fn(move |_: Request<Body>| async move {
        sleep(lasts).await;
        Ok::<_, Infallible>(Response::new(Body::new()))
    });
    let request = Request::get("/orders").body(Body::new()).unwrap();
    stack.service(BoxCloneSyncService::new(service)).oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn queue_and_longest_wait_of_a_server_change() {
    let parts = "stack = { ratelimit = false, concurrency = 'bulkhead' }";
    let (program, stack) = Program::server("queue", &format!("{parts}\nbulkhead.limit = 1"));
    let put = |bulkhead| program.put(&format!("[server.http]\n{parts}\nbulkhead = {{ limit = 1, {bulkhead} }}"));
    let two = || async {
        let second = async {
            yield_now().await;
            serve(&stack, Duration::ZERO).await
        };
        tokio::join!(serve(&stack, Duration::from_millis(300)), second).1
    };
    assert_eq!(two().await, StatusCode::SERVICE_UNAVAILABLE, "there is no queue");
    assert_eq!(put("queue = 4, max_wait = '20ms'"), Ok(2));
    assert_eq!(two().await, StatusCode::SERVICE_UNAVAILABLE, "the wait is too long");
    assert_eq!(put("queue = 4, max_wait = '1m'"), Ok(1));
    assert_eq!(two().await, StatusCode::OK);
    assert_eq!(put("queue = 0, max_wait = '1m'"), Ok(1));
    assert_eq!(two().await, StatusCode::SERVICE_UNAVAILABLE);
}

/// Each kind of limit keeps the requests in flight, and lets more of them in.
#[tokio::test]
async fn concurrency_limits_of_a_server_take_another_limit() {
    for (kind, section, others) in [
        ("bulkhead", "bulkhead = { limit = LIMIT }", "admission.queue = 1"),
        ("adaptive_limit", "adaptive_limit = { min_limit = LIMIT, max_limit = LIMIT }", "bulkhead.limit = 5"),
        ("admission", "admission = { min_limit = LIMIT, max_limit = LIMIT, queue = 0 }", "bulkhead.limit = 5"),
        ("fixed_admission", "admission = { fixed_limit = LIMIT, queue = 0 }", "adaptive_limit.max_limit = 5"),
    ] {
        let parts = format!("stack = {{ ratelimit = false, concurrency = '{kind}' }}");
        let settings = |limit: &str| format!("{parts}\n{}", section.replace("LIMIT", limit));
        let (program, stack) = Program::server(&format!("server-{kind}"), &settings("1"));
        let in_flight = || {
            let stack = stack.clone();
            tokio::spawn(async move { serve(&stack, Duration::from_hours(1)).await })
        };
        let first = in_flight();
        yield_now().await;
        assert_eq!(serve(&stack, Duration::ZERO).await, StatusCode::SERVICE_UNAVAILABLE, "{kind}");
        program.put(&format!("[server.http]\n{}", settings("2"))).unwrap();
        assert_eq!(serve(&stack, Duration::ZERO).await, StatusCode::OK, "{kind}");
        let second = in_flight();
        yield_now().await;
        assert_eq!(serve(&stack, Duration::ZERO).await, StatusCode::SERVICE_UNAVAILABLE, "{kind}: the first counts");
        let error = program.put(&format!("[server.http]\n{}\n{others}", settings("2"))).expect_err(kind);
        assert!(error.contains("what is bound to this section does not take it"), "{error}");
        first.abort();
        second.abort();
    }
}

#[tokio::test]
async fn timeout_of_a_server_changes_for_the_next_request() {
    let parts = "stack.ratelimit = false";
    let (program, stack) = Program::server("timeout", &format!("{parts}\ndeadline.timeout = '1h'"));
    let begun = tokio::spawn({
        let stack = stack.clone();
        async move { serve(&stack, Duration::from_millis(200)).await }
    });
    yield_now().await;
    assert_eq!(program.put(&format!("[server.http]\n{parts}\ndeadline.timeout = '10ms'")), Ok(1));
    let start = Instant::now();
    assert_eq!(serve(&stack, Duration::from_hours(1)).await, StatusCode::GATEWAY_TIMEOUT);
    assert!(start.elapsed() < Duration::from_mins(1));
    assert_eq!(begun.await.unwrap(), StatusCode::OK);
}

/// Targets of sections, for programs without a stack.
#[test]
fn sections_have_live_targets() {
    let Program { file, reloader } = Program::new("targets", "");
    let settings = reloader.settings();
    let (client, server) = (&settings.client.http, &settings.server.http);
    let schedule = Arc::new(Live::new(client.retry.schedule()));
    let budget = Arc::new(client.retry_budget.budget());
    let timeout = Arc::new(Live::new(client.deadline.timeout()));
    let pool: Arc<Bulkhead> = Arc::new(server.bulkhead.bulkhead());
    let max_wait = Arc::new(Live::new(server.bulkhead.max_wait()));
    let reloader = reloader
        .bind(|settings| &settings.client.http.retry, Arc::clone(&schedule))
        .bind(|settings| &settings.client.http.retry_budget, Arc::clone(&budget))
        .bind(|settings| &settings.client.http.deadline, Arc::clone(&timeout))
        .bind(|settings| &settings.server.http.bulkhead, (Arc::clone(&pool), Arc::clone(&max_wait)));
    let program = Program { file, reloader };
    let text = "[client.http]\nretry.max_attempts = 7\nretry_budget = { ratio = '0%', floor = 0, reserve = 2 }\n\
                deadline.timeout = '4s'\n[server.http]\nbulkhead = { limit = 9, queue = 8, max_wait = '7s' }";
    assert_eq!(program.put(text), Ok(8));
    assert_eq!((schedule.get(), timeout.get()), (RetrySchedule::new(7), Duration::from_secs(4)));
    assert_eq!((pool.limit(), pool.places(), max_wait.get()), (9, 8, Duration::from_secs(7)));
    let allows = |budget: &RetryBudget| budget.try_withdraw();
    assert_eq!([allows(&budget), allows(&budget), allows(&budget)], [true, true, false]);
}

/// Each kind of limit keeps the calls in flight, and lets more of them out.
#[tokio::test]
async fn concurrency_limits_of_a_client_take_another_limit() {
    for (kind, section, others) in [
        ("bulkhead", "bulkhead.limit = LIMIT", "adaptive_limit.max_limit = 5"),
        ("bulkhead_per_host", "bulkhead.limit = LIMIT", "adaptive_limit.max_limit = 5"),
        ("adaptive_limit", "adaptive_limit = { min_limit = LIMIT, max_limit = LIMIT }", "bulkhead.limit = 5"),
    ] {
        let parts = format!("stack = {{ retry = false, concurrency = '{kind}' }}");
        let settings = |limit: &str| format!("{parts}\n{}", section.replace("LIMIT", limit));
        let (program, stack) = Program::client(&format!("client-{kind}"), &settings("1"));
        let transport = Unavailable::with_answers(0);
        let client = transport.behind(&stack);
        let in_flight = || {
            let client = client.clone();
            tokio::spawn(async move { get(&client).await })
        };
        let first = in_flight();
        transport.begun(1).await;
        assert_eq!(get(&client).await, Err(StackPart::Concurrency), "{kind}");
        program.put(&format!("[client.http]\n{}", settings("2"))).unwrap();
        let second = in_flight();
        transport.begun(1).await;
        assert_eq!(get(&client).await, Err(StackPart::Concurrency), "{kind}: the first counts");
        let error = program.put(&format!("[client.http]\n{}\n{others}", settings("2"))).expect_err(kind);
        assert!(error.contains("what is bound to this section does not take it"), "{error}");
        transport.answers.add_permits(MANY);
        for call in [first, second] {
            assert_eq!(call.await.unwrap(), Ok(StatusCode::SERVICE_UNAVAILABLE), "{kind}");
        }
    }
}

#[tokio::test]
async fn throttle_of_a_client_refuses_the_share_that_is_set() {
    let parts = "circuit_breaker.failure_threshold = 1000\nstack = { retry = false, throttle = true }";
    let (program, stack) = Program::client("throttle", parts);
    let transport = Unavailable::with_answers(MANY);
    let client = transport.behind(&stack);
    let sent_of_200 = async || {
        for _ in 0..200 {
            _ = get(&client).await;
        }
        transport.calls.swap(0, Ordering::Relaxed)
    };
    sent_of_200().await;
    let few = sent_of_200().await;
    assert_eq!(program.put(&format!("[client.http]\n{parts}\nthrottle.max_refused = '10%'")), Ok(1));
    let most = sent_of_200().await;
    assert!(few < 50 && most > 150, "{few}, then {most}");
}
