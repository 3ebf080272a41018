//! Metrics and logs of the layer and of the client.

use bytes::Bytes;
use damper_core::deadline::SkewGuard;
use damper_core::retry::{Budget, Retry, RetryBudget, RetryBudgetConfig, Unlimited};
use damper_core::time::{ManualClock, Sleep};
use damper_core::{Deadline, FixedWindow, Quota};
use damper_mesh::{
    Caller, Client, ClientBuilder, ClientError, IncomingCall, Iso8601, MeshBackoff, MeshError, MeshLayer, Receipt,
    Request, Scopes, SpecifiedDeadline,
};
use damper_metrics::{Exporter, Metric, catalogue};
use http_body_util::Full;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service, ServiceExt, service_fn};

type SharedClock = Arc<ManualClock>;

type Answer = http::Response<Full<Bytes>>;

/// Moves the clock instead of waiting.
#[derive(Clone)]
struct Skip(SharedClock);

impl Sleep for Skip {
    type Sleeping = Ready<()>;

    fn sleep(&self, duration: Duration) -> Ready<()> {
        self.0.advance(duration);
        ready(())
    }
}

/// Serializes the tests.
///
/// tracing caches the interest of its callsites per process, so concurrent tests would disable one another's.
fn lock_recorders() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that a test recorded.
struct Recorded {
    snapshotter: Snapshotter,
    log: Vec<String>,
}

/// The destination of log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs `work` with a recorder of metrics and a subscriber at the level debug.
fn record(work: impl Future<Output = ()>) -> Recorded {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let log = Log::default();
    let writer = log.clone();
    crate::subscribers::register_two();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        tracing::subscriber::with_default(subscriber, || runtime.block_on(work));
    });
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let log = text.lines().map(|line| line.trim_start().to_owned()).collect();
    Recorded { snapshotter: recorder.snapshotter(), log }
}

impl Recorded {
    /// Returns the metrics that are not 0 or empty as lines, in their order.
    ///
    /// Each of them is in the catalogue, with these labels.
    fn lines(&self) -> Vec<String> {
        let metrics = self.snapshotter.snapshot().into_vec().into_iter();
        let mut lines: Vec<_> = metrics
            .map(|(key, _, _, value)| {
                let key = key.key();
                let described = catalogue::ALL.iter().find(|metric| metric.name() == key.name());
                let known = described.map_or_else(|| panic!("{} is unknown", key.name()), Metric::labels);
                for label in key.labels() {
                    assert!(known.contains(&label.key()), "{} has no label {}", key.name(), label.key());
                }
                let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
                let value = match value {
                    DebugValue::Counter(count) => count.to_string(),
                    DebugValue::Gauge(value) => value.to_string(),
                    DebugValue::Histogram(samples) => format!("{samples:?}"),
                };
                format!("{}{{{}}} {value}", key.name(), labels.join(","))
            })
            .filter(|line| !line.ends_with(" 0") && !line.ends_with(" []"))
            .collect();
        lines.sort();
        lines
    }
}

fn clock() -> SharedClock {
    Arc::new(ManualClock::new())
}

fn request(function: &str) -> Request {
    Request::new("req_1", function, "1", json!({}))
}

/// Returns the HTTP request of a user, behind an authentication that verified the names.
fn posted(request: &Request, service: &str, user: &str) -> http::Request<Full<Bytes>> {
    let mut posted = http::Request::post("/mesh?secret=1").body(Full::new(request.to_json())).unwrap();
    posted.extensions_mut().insert(Verified { service: service.to_owned(), user: user.to_owned() });
    posted
}

#[derive(Clone)]
struct Verified {
    service: String,
    user: String,
}

type OrdersLayer = MeshLayer<Skip, SharedClock, FixedWindow>;

fn layer(clock: &SharedClock, scopes: impl Into<Arc<Scopes<SharedClock, FixedWindow>>>) -> OrdersLayer {
    MeshLayer::sleeping_by("orders-api", scopes, Skip(Arc::clone(clock))).caller(|caller, head, _| {
        match head.extensions.get::<Verified>() {
            Some(Verified { service, user }) => caller.service(service).user(user),
            None => caller,
        }
    })
}

async fn served(layer: &OrdersLayer, request: http::Request<Full<Bytes>>) -> Answer {
    let Ok(answer) = layer.layer(service_fn(echo)).oneshot(request).await;
    answer
}

async fn echo(call: IncomingCall<SharedClock>) -> Result<Value, MeshError> {
    if call.function() == "hang" {
        pending::<()>().await;
    }
    Ok(json!(call.function()))
}

fn scopes(clock: &SharedClock) -> damper_mesh::ScopesBuilder<SharedClock, FixedWindow> {
    Scopes::with_clock(Arc::clone(clock)).algorithm::<FixedWindow>()
}

/// Each scope refuses once. The metrics name the kind of the scope, the log also the key.
#[test]
fn refusals_are_counted_and_logged_by_scope() {
    let quota = |is_tight| if is_tight { Quota::per_minute(1) } else { Quota::per_minute(100) };
    for (scope, subject, key) in [
        ("global", "global", ""),
        ("service", "service", r#" key="web-7""#),
        ("function", "function orders.create", ""),
        ("user", "user", r#" key="alice""#),
    ] {
        let recorded = record(async {
            let clock = clock();
            let scopes = scopes(&clock)
                .global(quota(scope == "global"))
                .service(quota(scope == "service"))
                .function("orders.create", quota(scope == "function"))
                .user(quota(scope == "user"));
            let layer = layer(&clock, scopes.build().unwrap());
            for status in [200, 429] {
                let answer = served(&layer, posted(&request("orders.create"), "web-7", "alice")).await;
                assert_eq!(answer.status(), status, "{scope}");
            }
        });
        let expected = [
            "damper_limit_allowed_total{limit=orders-api} 1".to_owned(),
            format!("damper_limit_refused_total{{limit=orders-api,scope={scope}}} 1"),
        ];
        assert_eq!(recorded.lines(), expected);
        let line = format!(
            r#"DEBUG damper: {subject}: rate limit exceeded, retry in 60 s limit="orders-api" scope="{scope}" method="POST" path="/mesh" function="orders.create"{key} retry_after_ms=60000 quota=1/min burst 1"#
        );
        assert_eq!(recorded.log, [line]);
    }
}

#[test]
fn refusals_of_one_layer_are_counted_apart() {
    let recorded = record(async {
        let clock = clock();
        let quota = Quota::per_minute;
        let scopes = scopes(&clock).user(quota(1)).function("f", quota(2)).service(quota(3)).global(quota(4));
        let layer = layer(&clock, scopes.build().unwrap());
        for (user, function, service, status) in [
            ("alice", "f", "web", 200),
            ("alice", "f", "web", 429), // by the user's limit
            ("bob", "f", "web", 200),
            ("carol", "f", "web", 429), // by the function's
            ("carol", "g", "web", 200),
            ("dave", "g", "web", 429), // by the service's
            ("dave", "g", "jobs", 200),
            ("erin", "g", "mail", 429), // by that of all clients
        ] {
            assert_eq!(served(&layer, posted(&request(function), service, user)).await.status(), status, "{user}");
        }
    });
    assert_eq!(
        recorded.lines(),
        [
            "damper_limit_allowed_total{limit=orders-api} 4",
            "damper_limit_refused_total{limit=orders-api,scope=function} 1",
            "damper_limit_refused_total{limit=orders-api,scope=global} 1",
            "damper_limit_refused_total{limit=orders-api,scope=service} 1",
            "damper_limit_refused_total{limit=orders-api,scope=user} 1",
        ]
    );
}

/// The layer counts calls of functions only.
///
/// Discovery meets no limit, and an unreadable request has no function.
#[test]
fn discovery_and_unreadable_requests_are_not_counted() {
    let recorded = record(async {
        let clock = clock();
        let layer = layer(&clock, scopes(&clock).global(Quota::per_minute(1)).build().unwrap());
        assert_eq!(served(&layer, posted(&request("mesh.capabilities"), "", "")).await.status(), 200);
        let unreadable = http::Request::post("/mesh").body(Full::new(Bytes::from_static(b"{"))).unwrap();
        assert_eq!(served(&layer, unreadable).await.status(), 400);
    });
    assert!(recorded.lines().is_empty(), "{:?}", recorded.lines());
    assert!(recorded.log.is_empty(), "{:?}", recorded.log);
}

#[test]
fn flood_of_refusals_is_counted_in_full_and_logged_in_samples() {
    let recorded = record(async {
        let clock = clock();
        let layer = layer(&clock, scopes(&clock).user(Quota::per_hour(0)).build().unwrap());
        for _ in 0..100 {
            served(&layer, posted(&request("f"), "", "mallory")).await;
        }
        served(&layer, posted(&request("f"), "", "alice")).await;
        for number in 0..1_000 {
            served(&layer, posted(&request("f"), "", &number.to_string())).await;
        }
    });
    assert_eq!(recorded.lines(), ["damper_limit_refused_total{limit=orders-api,scope=user} 1101"]);
    let count = |part: &str| recorded.log.iter().filter(|line| line.contains(part)).count();
    assert_eq!((count("mallory"), count("alice")), (1, 1), "one line for each key: {:?}", recorded.log);
    assert_eq!(count("suppressed=99"), 1, "the next line says how many were left out: {:?}", recorded.log);
    assert!((20..100).contains(&recorded.log.len()), "{} lines", recorded.log.len());
}

/// No name of a user, of a service or of a function without a limit becomes a label.
#[test]
fn labels_have_no_keys() {
    let recorded = record(async {
        let clock = clock();
        let scopes = scopes(&clock)
            .global(Quota::per_minute(1_000))
            .service(Quota::per_minute(2))
            .function("orders.create", Quota::per_minute(5))
            .user(Quota::per_minute(2))
            .build()
            .unwrap();
        let layer = layer(&clock, scopes).skew_guard(SkewGuard::with_clock(Arc::clone(&clock)));
        for number in 0..1_500 {
            let function = if number % 3 == 0 { "orders.create".to_owned() } else { format!("key-{number}") };
            let request = request(&function).with_deadline(&SpecifiedDeadline::after(Duration::from_secs(1)));
            let (service, user) = (format!("key-{}", number % 7), format!("key-{number}"));
            served(&layer, posted(&request, &service, &user)).await;
        }
        Exporter::new().layer(layer).record();
    });
    let lines = recorded.lines();
    assert!(lines.iter().any(|line| line.contains("scope=service")), "there are refusals: {lines:?}");
    assert!(lines.iter().all(|line| !line.contains("key-")), "{lines:?}");
    assert!(lines.len() < 40, "{} series", lines.len());
    for line in &lines {
        let labels = &line[line.find('{').unwrap() + 1..line.find('}').unwrap()];
        for label in labels.split(',') {
            let (label, value) = label.split_once('=').unwrap();
            let allowed: &[&str] = match label {
                "limit" => &["orders-api"],
                "scope" => &["global", "service", "function", "user"],
                "function" => &["orders.create"],
                "tier" => &["0"],
                other => panic!("{other} in {line}"),
            };
            assert!(allowed.contains(&value), "{line}");
        }
    }
}

#[test]
fn exporter_reads_each_limit_of_a_layer_under_its_scope() {
    let recorded = record(async {
        let clock = clock();
        let scopes = scopes(&clock)
            .global(Quota::per_second(50))
            .user(Quota::per_second(3))
            .function("orders.create", Quota::per_second(10))
            .function("orders.list", Quota::per_second(20))
            .capacity(8)
            .build()
            .unwrap();
        let scopes = Arc::new(scopes);
        scopes.check_n(Caller::of("orders.create").user("alice"), 3).unwrap();
        Exporter::new().layer(layer(&clock, Arc::clone(&scopes))).register("again", scopes).record();
    });
    let (own, registered): (Vec<_>, Vec<_>) =
        recorded.lines().into_iter().partition(|line| line.contains("limit=orders-api"));
    let expected = [
        "damper_limit_burst_tokens{limit=orders-api,scope=function,function=orders.create} 10",
        "damper_limit_burst_tokens{limit=orders-api,scope=function,function=orders.list} 20",
        "damper_limit_burst_tokens{limit=orders-api,scope=global} 50",
        "damper_limit_burst_tokens{limit=orders-api,scope=user,tier=0} 3",
        "damper_limit_keys_capacity{limit=orders-api,scope=user} 8",
        "damper_limit_keys_exhausted{limit=orders-api,scope=user,tier=0} 1",
        "damper_limit_keys_owing{limit=orders-api,scope=user,tier=0} 1",
        "damper_limit_keys{limit=orders-api,scope=user,tier=0} 1",
        "damper_limit_remaining_tokens{limit=orders-api,scope=function,function=orders.create} 7",
        "damper_limit_remaining_tokens{limit=orders-api,scope=function,function=orders.list} 20",
        "damper_limit_remaining_tokens{limit=orders-api,scope=global} 47",
        "damper_limit_tokens_per_second{limit=orders-api,scope=function,function=orders.create} 10",
        "damper_limit_tokens_per_second{limit=orders-api,scope=function,function=orders.list} 20",
        "damper_limit_tokens_per_second{limit=orders-api,scope=global} 50",
        "damper_limit_tokens_per_second{limit=orders-api,scope=user,tier=0} 3",
    ];
    let own: Vec<_> = own.into_iter().filter(|line| !line.contains("shared_words")).collect();
    assert_eq!(own, expected);
    assert!(registered.iter().any(|line| line.starts_with("damper_limit_remaining_tokens{limit=again,scope=global}")));
}

/// A deadline may have passed on arrival, or passes while the function runs.
#[test]
fn deadlines_of_a_server_are_counted_and_logged_by_stage() {
    let recorded = record(async {
        let clock = clock();
        let layer = layer(&clock, scopes(&clock).global(Quota::per_minute(5)).build().unwrap());
        let past = SpecifiedDeadline::at(Iso8601::parse("2001-01-01T00:00:00Z").unwrap());
        let late = served(&layer, posted(&request("f").with_deadline(&past), "", "")).await;
        assert_eq!(late.status(), 504);
        let soon = SpecifiedDeadline::after(Duration::from_secs(2));
        let hanging = served(&layer, posted(&request("hang").with_deadline(&soon), "", "")).await;
        assert_eq!(hanging.status(), 504);
        // The deadline of an HTTP layer, which passed before the request was read.
        let mut expired = posted(&request("f"), "", "");
        expired.extensions_mut().insert(Deadline::with_clock(Duration::ZERO, Arc::clone(&clock)));
        assert_eq!(served(&layer, expired).await.status(), 504);
    });
    assert_eq!(
        recorded.lines(),
        [
            "damper_deadline_exceeded_total{deadline=orders-api,side=server,stage=arrival} 2",
            "damper_deadline_exceeded_total{deadline=orders-api,side=server,stage=response} 1",
            "damper_limit_allowed_total{limit=orders-api} 1",
        ]
    );
    let begun = r#"DEBUG damper: deadline of 2 s exceeded, 2 s elapsed deadline="orders-api" side="server" stage="response" specified_ms=2000 elapsed_ms=2000"#;
    assert_eq!(recorded.log.len(), 3, "{:?}", recorded.log);
    assert_eq!(recorded.log[1], begun);
    assert!(recorded.log[0].contains(r#"stage="arrival" specified_ms=0"#), "{:?}", recorded.log);
}

#[test]
fn skewed_deadlines_are_counted_and_logged_at_powers_of_two() {
    let recorded = record(async {
        let clock = clock();
        let layer = layer(&clock, Scopes::with_clock(Arc::clone(&clock)).algorithm().build().unwrap());
        let layer = layer.skew_guard(SkewGuard::with_clock(Arc::clone(&clock)));
        let past = SpecifiedDeadline::at(Iso8601::parse("2001-01-01T00:00:00Z").unwrap());
        for _ in 0..60 {
            served(&layer, posted(&request("f").with_deadline(&past), "", "")).await;
        }
    });
    assert_eq!(
        recorded.lines(),
        [
            "damper_deadline_exceeded_total{deadline=orders-api,side=server,stage=arrival} 49",
            "damper_deadline_skewed_total{deadline=orders-api} 11",
            "damper_limit_allowed_total{limit=orders-api} 11",
        ]
    );
    let warned = recorded.log.iter().filter(|line| line.starts_with("WARN damper: deadlines are served")).count();
    assert_eq!(warned, 4, "at 1, 2, 4 and 8: {:?}", recorded.log);
}

fn builder<S>(http: S, clock: &SharedClock) -> ClientBuilder<S, Skip, Unlimited, SharedClock> {
    ClientBuilder::sleeping_by(http, "http://orders.example.com/mesh".parse().unwrap(), Skip(Arc::clone(clock)))
        .retry(Retry::with_clock(3, Arc::clone(clock), 1))
        .backoff(MeshBackoff::default().jitter(0))
        .named("orders")
}

/// Responds with these errors and this metadata.
fn answering(
    errors: &Value,
    meta: &Value,
) -> impl Service<http::Request<Full<Bytes>>, Response = Answer, Error = Infallible, Future: Send> + Clone + use<> {
    let document = json!({
        "protocol": { "name": "mesh", "version": "0.1.0" },
        "id": "req_1",
        "result": null,
        "errors": errors,
        "meta": meta,
    });
    service_fn(move |_| ready(Ok(http::Response::new(Full::new(Bytes::from(document.to_string()))))))
}

fn refusal(seconds: u32) -> Value {
    let duration = |value| json!({ "value": value, "unit": "second" });
    let details = json!({ "limit": 1, "used": 1, "window": duration(60), "retry_after": duration(seconds) });
    json!([{ "code": "RATE_LIMITED", "message": "Rate limit exceeded", "retryable": true, "details": details }])
}

fn unavailable() -> Value {
    json!([{ "code": "UNAVAILABLE", "message": "Try again", "retryable": true }])
}

/// A refused attempt is retried after the wait that the service named, and then succeeds.
#[test]
fn retry_of_a_client_is_counted_on_both_sides() {
    let recorded = record(async {
        let clock = clock();
        let scopes = Arc::new(scopes(&clock).global(Quota::per_minute(1)).build().unwrap());
        scopes.check(Caller::of("orders.create")).unwrap();
        let client = builder(layer(&clock, scopes).layer(service_fn(echo)), &clock).build();
        let answer = client.call(request("orders.create")).await.unwrap();
        assert_eq!(answer.into_result().unwrap(), "orders.create");
    });
    assert_eq!(
        recorded.lines(),
        [
            "damper_limit_allowed_total{limit=orders-api} 1",
            "damper_limit_refused_total{limit=orders-api,scope=global} 1",
            "damper_pacing_calls_total{pacing=orders} 1",
            "damper_pacing_rejected_total{pacing=orders} 1",
            "damper_retry_requests_total{retry=orders} 1",
        ]
    );
    assert_eq!(recorded.log.len(), 2, "{:?}", recorded.log);
    assert_eq!(recorded.log[1], r#"DEBUG damper: rejected by the server's limit pacing="orders" sleep_ms=60000"#);
}

/// The first call learns that nothing is left, so the second one sleeps, and a third one is not sent.
#[test]
fn slowed_and_refused_calls_of_a_client_are_counted() {
    let recorded = record(async {
        let clock = clock();
        let scopes = scopes(&clock).global(Quota::per_minute(1)).build().unwrap();
        let service = layer(&clock, scopes).layer(service_fn(echo));
        let client = builder(service, &clock).max_pacing_wait(Duration::from_mins(1)).build();
        for _ in 0..2 {
            client.call(request("orders.create")).await.unwrap();
        }
        let timeout = Deadline::with_clock(Duration::from_secs(5), Arc::clone(&clock));
        let received = Receipt::with_clock(Arc::clone(&clock)).deadline(SpecifiedDeadline::after(timeout.remaining()));
        let error = client.call_within(Some(&received), request("orders.create")).await.unwrap_err();
        assert!(matches!(error, ClientError::Paced(_)), "{error}");
    });
    assert_eq!(
        recorded.lines(),
        [
            "damper_limit_allowed_total{limit=orders-api} 2",
            "damper_pacing_calls_total{pacing=orders} 2",
            "damper_pacing_refused_total{pacing=orders} 1",
            "damper_pacing_sleep_seconds{pacing=orders} [60.0]",
        ]
    );
    let line =
        r#"DEBUG damper: the limits of the service do not allow the call in time pacing="orders" retry_after_ms=60000"#;
    assert_eq!(recorded.log, [line]);
}

/// A service of HTTP that is ready for one request.
#[derive(Clone)]
struct ReadyOnce<S>(S, Arc<AtomicBool>);

impl<S: Service<http::Request<Full<Bytes>>>> Service<http::Request<Full<Bytes>>> for ReadyOnce<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.1.load(Ordering::Relaxed) { Poll::Pending } else { self.0.poll_ready(context) }
    }

    fn call(&mut self, request: http::Request<Full<Bytes>>) -> S::Future {
        self.1.store(true, Ordering::Relaxed);
        self.0.call(request)
    }
}

/// Allows no retry.
struct NoRetries;

impl Budget for NoRetries {
    fn succeeded(&self) {}

    fn failed(&self) {}

    fn try_withdraw(&self) -> bool {
        false
    }
}

/// A failure that could be retried is counted with the reason why it was not.
#[test]
fn retries_that_are_not_made_are_counted_by_reason() {
    let usage = |remaining| {
        let duration = |value| json!({ "value": value, "unit": "second" });
        let used = 10 - remaining;
        json!({ "rate_limit": {
            "limit": 10, "used": used, "remaining": remaining, "window": duration(60), "resets_in": duration(60)
        } })
    };
    let recorded = record(async {
        let clock = clock();
        let call = || request("f");
        let attempts = builder(answering(&unavailable(), &json!({})), &clock).named("attempts").build();
        attempts.call(call()).await.unwrap();
        let budget = builder(answering(&unavailable(), &json!({})), &clock).named("budget");
        budget.retry(Retry::with_clock(3, Arc::clone(&clock), 1).budget(NoRetries)).build().call(call()).await.unwrap();
        let deadline = builder(answering(&refusal(60), &json!({})), &clock).named("deadline");
        deadline.timeout(Duration::from_secs(2)).build().call(call()).await.unwrap();
        let unready = ReadyOnce(answering(&refusal(1), &json!({})), Arc::default());
        let unready = builder(unready, &clock).named("unready").timeout(Duration::from_secs(2)).build();
        let response = unready.call(call()).await.expect("the last response is returned");
        assert_eq!(response.errors[0].code, MeshError::RATE_LIMITED);
        let pacing = builder(answering(&unavailable(), &usage(0)), &clock).named("pacing");
        pacing.max_pacing_wait(Duration::from_secs(1)).build().call(call()).await.unwrap();
        let failed = json!([{ "code": "BROKEN", "message": "It is broken", "retryable": false }]);
        builder(answering(&failed, &json!({})), &clock).build().call(call()).await.unwrap();
    });
    let lines: Vec<_> = recorded.lines().into_iter().filter(|line| !line.contains("_calls_total")).collect();
    assert_eq!(
        lines,
        [
            "damper_pacing_rejected_total{pacing=deadline} 1",
            "damper_pacing_rejected_total{pacing=unready} 1",
            "damper_retry_not_made_total{retry=attempts,reason=attempts} 1",
            "damper_retry_not_made_total{retry=budget,reason=budget} 1",
            "damper_retry_not_made_total{retry=deadline,reason=deadline} 1",
            "damper_retry_not_made_total{retry=pacing,reason=pacing} 1",
            "damper_retry_not_made_total{retry=unready,reason=deadline} 1",
            "damper_retry_requests_total{retry=attempts} 2",
        ]
    );
}

/// A call ends by its deadline before it is sent, or without a response.
#[test]
fn deadlines_of_a_client_are_counted_and_logged_by_stage() {
    let recorded = record(async {
        let clock = clock();
        let hanging = service_fn(|_: http::Request<Full<Bytes>>| pending::<Result<Answer, Infallible>>());
        let client = builder(hanging, &clock).timeout(Duration::from_secs(2)).build();
        let error = client.call(request("f")).await.unwrap_err();
        assert!(matches!(error, ClientError::DeadlineExceeded(_)), "{error}");
        let received = Receipt::with_clock(Arc::clone(&clock)).deadline(SpecifiedDeadline::after(Duration::ZERO));
        clock.advance(Duration::from_secs(1));
        let error = client.call_within(Some(&received), request("f")).await.unwrap_err();
        assert!(matches!(error, ClientError::DeadlineExceeded(_)), "{error}");
    });
    assert_eq!(
        recorded.lines(),
        [
            "damper_deadline_exceeded_total{deadline=orders,side=client,stage=departure} 1",
            "damper_deadline_exceeded_total{deadline=orders,side=client,stage=response} 1",
            "damper_pacing_calls_total{pacing=orders} 1",
        ]
    );
    let line = r#"DEBUG damper: deadline of 2 s exceeded, 2 s elapsed deadline="orders" side="client" stage="response" specified_ms=2000 elapsed_ms=2000"#;
    assert_eq!(recorded.log[0], line);
    assert!(recorded.log[1].contains(r#"side="client" stage="departure""#), "{:?}", recorded.log);
}

#[test]
fn exporter_reads_the_next_sleep_and_the_budget_of_a_client() {
    let recorded = record(async {
        let clock = clock();
        let scopes = scopes(&clock).global(Quota::per_minute(1)).build().unwrap();
        let service = layer(&clock, scopes).layer(service_fn(echo));
        let budget = RetryBudget::with_clock(RetryBudgetConfig::default(), Arc::clone(&clock));
        let left = budget.retries_left();
        assert!(left > 0);
        let retry = Retry::with_clock(3, Arc::clone(&clock), 1).budget(budget);
        let client = builder(service, &clock).retry(retry).build();
        client.call(request("f")).await.unwrap();
        Exporter::new().layer(client).record();
    });
    let lines = recorded.lines();
    let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
    assert!(has("damper_pacing_next_sleep_seconds{pacing=orders} 60"), "{lines:?}");
    assert!(has("damper_retry_budget_retries_left{budget=orders} "), "{lines:?}");
}

/// A client without a name has that of the HTTP layers without one.
#[test]
fn unnamed_client_is_the_default() {
    let recorded = record(async {
        let clock = clock();
        let uri = "http://orders.example.com/mesh".parse().unwrap();
        let client: Client<_, _> =
            ClientBuilder::sleeping_by(answering(&json!([]), &json!({})), uri, Skip(Arc::clone(&clock))).build();
        client.call(request("f")).await.unwrap();
    });
    assert_eq!(recorded.lines(), ["damper_pacing_calls_total{pacing=default} 1"]);
}
