//! Metrics and logs of the layers.

use damper::deadline::SkewGuard;
use damper::http::{
    CircuitBreakerLayer, ClientConcurrencyLayer, ClientDeadlineLayer, ConcurrencyLayer, DeadlineLayer, Detail, Head,
    Limit, LimitDecision, NoWait, PacingLayer, PeerAddress, PerClient, PerHost, RateLimitLayer, Refusal, ThrottleLayer,
    client_stack,
};
use damper::metrics::Exporter;
use damper::throttle::{AdaptiveThrottle, NoPacing, PacedRetry, Pacer, RemainingDecrease};
use damper::{
    BreakerConfig, Bulkhead, CircuitBreaker, ClientAddress, Deadline, KeyedLimiter, LimitSet, ManualClock, Plan, Quota,
    QuotaTree, WhenFull,
};
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{Empty, StreamBody};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::Write;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::{Service, service_fn};

type ServiceResult = Result<Response<Empty<bytes::Bytes>>, Infallible>;

#[expect(clippy::needless_pass_by_value, reason = "a service takes requests by value")]
fn answer(request: Request<()>) -> Ready<ServiceResult> {
    let status = if request.uri().path() == "/down" { 503 } else { 200 };
    ready(Ok(Response::builder().status(status).body(Empty::new()).unwrap()))
}

fn call<S: Service<Request<()>>>(service: &mut S, request: Request<()>) -> Result<S::Response, S::Error> {
    match pin!(service.call(request)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

fn from(last: u8) -> Request<()> {
    let mut request = get("/path?secret=1");
    request.extensions_mut().insert(PeerAddress(([192, 0, 2, last], 5_000).into()));
    request
}

/// The metrics as lines, in their order.
fn all_lines(snapshotter: &Snapshotter) -> Vec<String> {
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let mut lines: Vec<_> = metrics
        .map(|(key, _, _, value)| {
            let key = key.key();
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Counter(count) => count.to_string(),
                DebugValue::Gauge(value) => value.to_string(),
                DebugValue::Histogram(_) => "?".to_owned(),
            };
            format!("{}{{{}}} {value}", key.name(), labels.join(","))
        })
        .collect();
    lines.sort();
    lines
}

/// The metrics that are not 0, as lines in their order.
fn lines(snapshotter: &Snapshotter) -> Vec<String> {
    all_lines(snapshotter).into_iter().filter(|line| !line.ends_with(" 0")).collect()
}

/// Serializes tests that install subscribers or recorders.
///
/// tracing caches the interest of its callsites per process, so concurrent tests would disable one another's.
fn lock_recorders() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client that opens many connections must not flood the log.
#[cfg(all(feature = "config", feature = "tokio"))]
#[test]
fn connections_of_a_configured_server_sample_their_logs_together() {
    let _lock = lock_recorders();
    let text = "server.http = { ratelimit.quota = '1/h', stack.concurrency = 'none' }";
    let settings = damper::config::Sources::new().toml("app", text).load().unwrap();
    let stack = settings.server.http.server_stack().unwrap();
    let logs = logged(tracing::Level::DEBUG, || {
        for last in 0..200 {
            let mut service = stack.for_peer(([192, 0, 2, last], 5_000).into()).service(service_fn(answer));
            for _ in 0..2 {
                call(&mut service, get("/")).unwrap();
            }
        }
    });
    assert!((1..=30).contains(&logs.len()), "{} lines", logs.len());
}

#[test]
fn breaker_in_a_static_is_counted_and_logged_under_a_name() {
    static PAYMENTS: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);

    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let logs = logged(tracing::Level::DEBUG, || {
        metrics::with_local_recorder(&recorder, || {
            let layer = CircuitBreakerLayer::new(&PAYMENTS).named("payments");
            let mut service = layer.layer(service_fn(answer));
            call(&mut service, get("http://one.example.com/")).unwrap();
            PAYMENTS.force_open();
            call(&mut service, get("http://one.example.com/")).unwrap_err();
            Exporter::new().layer(layer).record();
        });
    });
    let lines = lines(&snapshotter);
    for line in [
        "damper_breaker_allowed_total{breaker=payments} 1",
        "damper_breaker_refused_total{breaker=payments} 1",
        "damper_breaker_state{breaker=payments,state=forced_open} 1",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line}: {lines:?}");
    }
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert!(logs[0].contains("payments"), "{logs:?}");
}

/// With one name for all, those of HTTP and of gRPC would share their counters.
#[cfg(all(feature = "config", feature = "tokio"))]
#[test]
fn stacks_of_settings_carry_the_names_of_their_groups() {
    use damper::config::Sources;
    use damper::metrics::NamedSource;

    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let text = "
            [server]
            http = { ratelimit.quota = '100/s', stack.concurrency = 'bulkhead' }
            grpc = { ratelimit.quota = '50/s', stack.concurrency = 'bulkhead' }
            [client]
            http.stack = { concurrency = 'bulkhead', throttle = true }
            grpc.stack = { concurrency = 'none' }
        ";
        let settings = Sources::new().toml("app", text).load().unwrap();
        let servers = [&settings.server.http, &settings.server.grpc].map(|layers| layers.server_stack().unwrap());
        let clients = [&settings.client.http, &settings.client.grpc].map(|layers| layers.client_stack().unwrap());
        assert_eq!(servers.each_ref().map(NamedSource::name), ["server.http", "server.grpc"]);
        assert_eq!(clients.each_ref().map(NamedSource::name), ["client.http", "client.grpc"]);
        for (calls, stack) in (1..).zip(servers) {
            let mut service = stack.service(service_fn(answer));
            for _ in 0..calls {
                call(&mut service, from(1)).unwrap();
            }
        }
        for stack in clients {
            let transport = service_fn(|_| ready(Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))));
            let request = Request::get("http://one.example.com/").body(Empty::<bytes::Bytes>::new()).unwrap();
            let mut client = stack.boxed(transport);
            let response = pin!(client.call(request)).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(response, Poll::Ready(Ok(_))));
        }
    });
    assert_eq!(
        lines(&snapshotter),
        [
            "damper_breaker_allowed_total{breaker=client.grpc} 1",
            "damper_breaker_allowed_total{breaker=client.http} 1",
            "damper_concurrency_allowed_total{limit=client.http,side=client} 1",
            "damper_concurrency_allowed_total{limit=server.grpc,side=server} 2",
            "damper_concurrency_allowed_total{limit=server.http,side=server} 1",
            "damper_limit_allowed_total{limit=server.grpc} 2",
            "damper_limit_allowed_total{limit=server.http} 1",
            "damper_throttle_allowed_total{throttle=client.http} 1",
        ]
    );
}

/// The lines that an exporter records of what these settings build.
#[cfg(all(feature = "config", feature = "tokio"))]
fn lines_of_settings(text: &str, add: impl Fn(&damper::config::Settings) -> Exporter) -> Vec<String> {
    let settings = damper::config::Sources::new().toml("app", text).load().unwrap();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || add(&settings).record());
    all_lines(&snapshotter)
}

#[cfg(all(feature = "config", feature = "tokio"))]
#[test]
fn exporter_reads_the_enabled_parts_of_a_client_stack_and_no_others() {
    let _lock = lock_recorders();
    let client = |stack: &str| {
        let text = format!("[client.http]\nratelimit.quota = '9/s'\nstack = {{ {stack} }}");
        lines_of_settings(&text, |settings| Exporter::new().layer(settings.client.http.client_stack().unwrap()))
    };
    let has = |lines: &[String], metric: &str| lines.iter().any(|line| line.starts_with(metric));
    let off = "circuit_breaker = false, retry = false, ratelimit = false, concurrency = 'none'";
    assert_eq!(client(off), [""; 0]);
    for (part, metrics) in [
        (
            "circuit_breaker = true, retry = false, ratelimit = false",
            &["damper_breaker_keys{breaker=client.http} 0"][..],
        ),
        (
            "circuit_breaker = false, retry = true, ratelimit = false",
            &["damper_retry_budget_retries_left{budget=client.http} "],
        ),
        (
            "circuit_breaker = false, retry = false, ratelimit = true",
            &["damper_limit_tokens_per_second{limit=client.http} 9"],
        ),
        (
            "circuit_breaker = false, retry = false, ratelimit = false, hedge = true",
            &[
                "damper_hedge_requests_total{hedge=client.http} 0",
                "damper_retry_budget_retries_left{budget=client.http} ",
            ],
        ),
        (
            "circuit_breaker = false, retry = false, ratelimit = false, pacing = true",
            &["damper_pacing_next_sleep_seconds{pacing=client.http} "],
        ),
        (
            "circuit_breaker = false, retry = false, ratelimit = false, throttle = true",
            &["damper_throttle_keys{throttle=client.http} 0"],
        ),
        (
            "circuit_breaker = false, retry = false, ratelimit = false, concurrency = 'bulkhead'",
            &["damper_concurrency_limit{limit=client.http,side=client} 64"],
        ),
        (
            "circuit_breaker = false, retry = false, ratelimit = false, concurrency = 'bulkhead_per_host'",
            &["damper_concurrency_keys{limit=client.http,side=client} 0"],
        ),
        (
            "circuit_breaker = false, retry = false, ratelimit = false, concurrency = 'adaptive_limit'",
            &["damper_concurrency_limit{limit=client.http,side=client} 20"],
        ),
    ] {
        let lines = client(part);
        assert!(metrics.iter().all(|metric| has(&lines, metric)), "{part}: {lines:?}");
        let families = |line: &str| line.split('_').nth(1).unwrap().to_owned();
        let expected: Vec<_> = metrics.iter().map(|metric| families(metric)).collect();
        assert!(lines.iter().all(|line| expected.contains(&families(line))), "{part}: {lines:?}");
    }
}

#[cfg(all(feature = "config", feature = "tokio"))]
#[test]
fn exporter_reads_the_enabled_parts_of_a_server_stack() {
    let _lock = lock_recorders();
    let server = |text: &str| {
        let text = format!("[server.http]\n{text}");
        lines_of_settings(&text, |settings| Exporter::new().layer(settings.server.http.server_stack().unwrap()))
    };
    assert_eq!(server("stack = { ratelimit = false, concurrency = 'none' }"), [""; 0]);
    for (text, metric) in [
        (
            "ratelimit = { quota = '9/s', key = 'client' }\nstack.concurrency = 'none'",
            "damper_limit_keys{limit=server.http,tier=0} 0",
        ),
        (
            "ratelimit = { quota = '9/s', key = 'global' }\nstack.concurrency = 'none'",
            "damper_limit_remaining_tokens{limit=server.http} 9",
        ),
        (
            "ratelimit = { quota = '9/s', key = 'path' }\nstack.concurrency = 'none'",
            "damper_limit_tokens_per_second{limit=server.http,tier=0} 9",
        ),
        (
            "ratelimit = { quota = '9/s', key = 'header:x-key' }\nstack.concurrency = 'none'",
            "damper_limit_tokens_per_second{limit=server.http,tier=0} 9",
        ),
        (
            "ratelimit = { quota = '9/s', mark = true }\nstack.concurrency = 'none'",
            "damper_shadow_refusals_total{shadow=server.http",
        ),
        (
            "bulkhead.limit = 7\nstack = { ratelimit = false, concurrency = 'bulkhead' }",
            "damper_concurrency_limit{limit=server.http,side=server} 7",
        ),
        (
            "adaptive_limit.max_limit = 7\nstack = { ratelimit = false, concurrency = 'adaptive_limit' }",
            "damper_concurrency_limit{limit=server.http,side=server} 7",
        ),
        (
            "admission.max_limit = 7\nstack = { ratelimit = false, concurrency = 'admission' }",
            "damper_concurrency_limit{limit=server.http,side=server} 7",
        ),
        (
            "admission.fixed_limit = 7\nstack = { ratelimit = false, concurrency = 'fixed_admission' }",
            "damper_concurrency_limit{limit=server.http,side=server} 7",
        ),
    ] {
        let lines = server(text);
        assert!(lines.iter().any(|line| line.starts_with(metric)), "{text}: {lines:?}");
    }
}

/// A layer that is built from one section has the full name of the section.
#[cfg(all(feature = "config", feature = "tokio"))]
#[test]
fn layers_of_settings_carry_the_names_of_their_sections() {
    use damper::config::{PacingSettings, Settings};
    use damper::metrics::NamedSource;

    let settings = Settings::default();
    let (server, client) = (&settings.server.http, &settings.client.grpc);
    let budget = || Arc::new(client.retry_budget.budget());
    assert_eq!(server.ratelimit.layer().unwrap().name(), "server.http.ratelimit");
    assert_eq!(server.bulkhead.layer().name(), "server.http.bulkhead");
    assert_eq!(server.adaptive_limit.layer().name(), "server.http.adaptive_limit");
    assert_eq!(server.admission.layer().name(), "server.http.admission");
    assert_eq!(server.admission.fixed_layer().name(), "server.http.admission");
    assert_eq!(client.circuit_breaker.layer().unwrap().name(), "client.grpc.circuit_breaker");
    assert_eq!(client.throttle.layer().name(), "client.grpc.throttle");
    assert_eq!(client.pacing.layer(budget()).unwrap().name(), "client.grpc.pacing");
    assert_eq!(client.bulkhead.client_layer().name(), "client.grpc.bulkhead");
    assert_eq!(client.bulkhead.client_layer_per_host().unwrap().name(), "client.grpc.bulkhead");
    assert_eq!(client.adaptive_limit.client_layer().name(), "client.grpc.adaptive_limit");
    let alone = PacingSettings::default();
    assert_eq!((alone.name(), alone == client.pacing), ("default", true));
}

#[test]
fn limit_metrics_carry_the_layers_name() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let limits = KeyedLimiter::builder(Quota::per_hour(1).burst(2))
            .capacity(1)
            .when_full(WhenFull::EvictLeastIndebted)
            .clock(ManualClock::new())
            .build()
            .unwrap();
        let limits = Arc::new(limits);
        let layer = RateLimitLayer::new(PerClient::new(Arc::clone(&limits))).named("clients").unwrap();
        let mut service = layer.layer(service_fn(answer));
        for _ in 0..3 {
            call(&mut service, from(1)).unwrap();
        }
        call(&mut service, get("/")).unwrap();
        let mut expected = vec![
            "damper_limit_allowed_total{limit=clients} 2".to_owned(),
            "damper_limit_errors_total{limit=clients,cause=missing_peer} 1".to_owned(),
            "damper_limit_refused_total{limit=clients} 1".to_owned(),
        ];
        assert_eq!(lines(&snapshotter), expected);
        // More calls than there are slots.
        for last in 2..100 {
            call(&mut service, from(last)).unwrap();
        }
        Exporter::new().layer(layer).record();
        expected = lines(&snapshotter);
        let evictions = format!("damper_limit_evictions_total{{limit=clients}} {}", limits.evictions());
        assert!(limits.evictions() > 0 && expected.contains(&evictions), "{expected:?}");
    });
}

/// The limit that refused is that of a tier, of a set, or of a wider prefix.
#[test]
fn refusals_of_a_limit_are_counted_by_tier_prefix_and_part() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let tier_of = |client: &ClientAddress| usize::from(client.address() == IpAddr::from([192, 0, 2, 1]));
        let burst = |burst| Quota::per_hour(1).burst(burst);
        let each = KeyedLimiter::builder(burst(1)).tiers([burst(3)], tier_of).build().unwrap();
        let networks = Arc::new(KeyedLimiter::builder(burst(7)).build().unwrap());
        let layer = RateLimitLayer::new(PerClient::new(Arc::new(each)).prefix_v4(24, networks));
        let hook = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&hook);
        let layer = layer.on_limited(move |_, limited| {
            kept.lock().unwrap().push((limited.tier(), limited.prefix().map(|prefix| prefix.to_string())));
        });
        let mut service = layer.layer(service_fn(answer));
        for last in [1, 1, 1, 1, 2, 2, 3, 4, 5, 6] {
            call(&mut service, from(last)).unwrap();
        }
        let set = LimitSet::new([burst(9), burst(0)]);
        call(&mut RateLimitLayer::new(Arc::new(set)).layer(service_fn(answer)), from(1)).unwrap();
        let network = (None, Some("ipv4/24".to_owned()));
        assert_eq!(*hook.lock().unwrap(), [(Some(1), None), (Some(0), None), network]);
        assert_eq!(
            lines(&snapshotter),
            [
                "damper_limit_allowed_total{limit=default} 7",
                "damper_limit_refused_total{limit=default,part=1} 1",
                "damper_limit_refused_total{limit=default,prefix=ipv4/24} 1",
                "damper_limit_refused_total{limit=default,tier=0} 1",
                "damper_limit_refused_total{limit=default,tier=1} 1",
            ]
        );
    });
}

/// A log has what the metrics of a refusal have as labels, and that of a candidate has it too.
#[test]
fn refusals_of_a_limit_are_logged_with_tier_prefix_part_level_and_plan() {
    let _lock = lock_recorders();
    let burst = |burst| Quota::per_hour(1).burst(burst);
    let logs = logged(tracing::Level::DEBUG, || {
        let each = || {
            let tier_of = |client: &ClientAddress| usize::from(client.address() == IpAddr::from([192, 0, 2, 1]));
            PerClient::new(Arc::new(KeyedLimiter::builder(burst(1)).tiers([burst(0)], tier_of).build().unwrap()))
        };
        let networks = Arc::new(KeyedLimiter::builder(burst(1)).build().unwrap());
        let mut service = RateLimitLayer::new(each().prefix_v4(24, networks)).layer(service_fn(answer));
        for last in [1, 2, 3] {
            call(&mut service, from(last)).unwrap();
        }
        let set = LimitSet::new([burst(9), burst(0)]);
        call(&mut RateLimitLayer::new(Arc::new(set)).layer(service_fn(answer)), from(1)).unwrap();
        let shadowed = RateLimitLayer::per_client(burst(9)).shadow(each());
        call(&mut shadowed.layer(service_fn(answer)), from(1)).unwrap();
        let tree = Arc::new(QuotaTree::<str, 1, 1>::builder(["user"], ["tokens"]).build().unwrap());
        let layer = RateLimitLayer::tree(tree, move |_| Some([("alice".into(), [Plan::new(burst(1)).unwrap()])]));
        let layer = layer.plan_names(|_| ["free".into()]);
        let mut service = layer.layer(service_fn(answer));
        for _ in 0..2 {
            call(&mut service, get("/")).unwrap();
        }
    });
    let expected = [
        "limit=\"default\" method=\"GET\" path=\"/path\" key=\"192.0.2.1\" tier=1 ",
        "limit=\"default\" method=\"GET\" path=\"/path\" key=\"192.0.2.3\" prefix=ipv4/24 ",
        "limit=\"default\" method=\"GET\" path=\"/path\" part=1 ",
        "shadow=\"default\" in_force=\"allowed\" method=\"GET\" path=\"/path\" key=\"192.0.2.1\" tier=1 ",
        "limit=\"default\" method=\"GET\" path=\"/\" level=\"user\" dimension=\"tokens\" plan=\"free\" ",
    ];
    assert_eq!(logs.len(), expected.len(), "{logs:?}");
    for (line, fields) in logs.iter().zip(expected) {
        assert!(line.contains(fields), "{fields}: {line}");
    }
}

/// Calls of a server and of a client, refusals by cause, and gauges on demand.
#[test]
fn concurrency_metrics_carry_the_layers_name_its_side_and_the_cause() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let pool = Arc::new(Bulkhead::new(2));
        let server = ConcurrencyLayer::new(Arc::clone(&pool)).named("pool");
        let client = ClientConcurrencyLayer::new(Arc::clone(&pool)).named("upstream");
        let held = call(&mut server.layer(service_fn(answer_pending)), get("/")).unwrap();
        call(&mut client.layer(service_fn(answer)), get("/")).unwrap();
        pool.set_limit(1);
        assert_eq!(call(&mut server.layer(service_fn(answer)), get("/")).unwrap().status(), 503);
        assert!(call(&mut client.layer(service_fn(answer)), get("/")).is_err());
        let waiting = server.clone().waiting_by(Duration::from_secs(1), |_| ready(()));
        assert_eq!(
            call(&mut waiting.layer(service_fn(answer)), get("/")).unwrap().status(),
            503,
            "the gate has no queue"
        );
        Exporter::new().layer(server).layer(client).record();
        let expected = [
            "damper_concurrency_allowed_total{limit=pool,side=server} 1",
            "damper_concurrency_allowed_total{limit=upstream,side=client} 1",
            "damper_concurrency_in_flight{limit=pool,side=server} 1",
            "damper_concurrency_in_flight{limit=upstream,side=client} 1",
            "damper_concurrency_limit{limit=pool,side=server} 1",
            "damper_concurrency_limit{limit=upstream,side=client} 1",
            "damper_concurrency_refused_total{limit=pool,side=server,cause=no_queue} 1",
            "damper_concurrency_refused_total{limit=pool,side=server,cause=no_slot} 1",
            "damper_concurrency_refused_total{limit=upstream,side=client,cause=no_slot} 1",
        ];
        assert_eq!(lines(&snapshotter), expected);
        drop(held);
    });
}

/// A body that never ends.
fn answer_pending(_: Request<()>) -> Ready<Result<Response<PendingBody>, Infallible>> {
    ready(Ok(Response::new(StreamBody::new(stream::pending()))))
}

type PendingBody = StreamBody<stream::Pending<Result<http_body::Frame<bytes::Bytes>, Infallible>>>;

/// Metrics of each table carry the layer's name and the prefix, for every `WhenFull`.
#[test]
fn exporter_reads_every_keyed_table_of_a_layer() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        for (name, when_full) in [
            ("shared", WhenFull::SharedOverflow),
            ("evicting", WhenFull::EvictLeastIndebted),
            ("denying", WhenFull::DenyNew),
        ] {
            let limits = |quota| {
                let limits = KeyedLimiter::builder(quota).capacity(1).when_full(when_full).clock(ManualClock::new());
                Arc::new(limits.build().unwrap())
            };
            let (each, networks) = (limits(Quota::per_hour(1).burst(2)), limits(Quota::per_hour(3600).burst(500)));
            let limit = PerClient::new(Arc::clone(&each)).prefix_v4(24, Arc::clone(&networks));
            let layer = RateLimitLayer::new(limit).named(name).unwrap();
            let mut service = layer.layer(service_fn(answer));
            for last in 1..100 {
                call(&mut service, from(last)).unwrap();
            }
            // A snapshot resets all of them.
            lines(&snapshotter);
            Exporter::new().layer(layer).record();
            let mut expected = Vec::new();
            for (prefix, limits) in [("", each), (",prefix=ipv4/24", networks)] {
                let census = limits.census();
                let tier = census[0];
                let mut push = |metric: &str, labels: &str, value: String| {
                    if value != "0" {
                        expected.push(format!("damper_limit_{metric}{{limit={name}{prefix}{labels}}} {value}"));
                    }
                };
                let rate = f64::from(limits.quota().limit()) / 3_600.0;
                push("tokens_per_second", ",tier=0", rate.to_string());
                push("burst_tokens", ",tier=0", limits.quota().burst_size().to_string());
                push("keys", ",tier=0", tier.keys().to_string());
                push("keys_owing", ",tier=0", tier.owing().to_string());
                push("keys_exhausted", ",tier=0", tier.exhausted().to_string());
                push("keys_capacity", "", "1".to_owned());
                push("evictions_total", "", limits.evictions().to_string());
                push("overflows_total", "", limits.overflows().to_string());
                push("refused_newcomers_total", "", limits.refused_newcomers().to_string());
                let crowding = limits.crowding();
                push("shared_words_seen_total", "", crowding.looked().to_string());
                push("shared_words_busy_total", "", crowding.busy().to_string());
            }
            expected.sort();
            assert!(expected.len() >= 10, "{name} has metrics: {expected:?}");
            assert_eq!(lines(&snapshotter), expected);
        }
    });
}

#[test]
fn breaker_state_counts_breakers_and_transitions_are_counted() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_hours(1)).build();
        let hosts = PerHost::builder(config.unwrap()).capacity(2).named("upstreams").build().unwrap();
        let layer = CircuitBreakerLayer::new(hosts);
        let mut service = layer.layer(service_fn(answer));
        for _ in 0..3 {
            _ = call(&mut service, get("http://a.example/down"));
        }
        _ = call(&mut service, get("http://b.example/down"));
        call(&mut service, get("http://c.example/")).unwrap();
        Exporter::new().layer(layer).record();
        assert_eq!(
            lines(&snapshotter),
            [
                "damper_breaker_allowed_total{breaker=upstreams} 3",
                // One of the two open breakers was evicted.
                "damper_breaker_evictions_total{breaker=upstreams} 1",
                "damper_breaker_kept_evictions_total{breaker=upstreams} 1",
                "damper_breaker_keys_capacity{breaker=upstreams} 2",
                "damper_breaker_keys{breaker=upstreams} 2",
                "damper_breaker_refused_total{breaker=upstreams} 2",
                "damper_breaker_state{breaker=upstreams,state=closed} 1",
                "damper_breaker_state{breaker=upstreams,state=open} 1",
                "damper_breaker_transitions_total{breaker=upstreams,from=closed,to=open} 2",
            ]
        );
    });
}

#[test]
fn throttle_metrics_carry_the_layers_name_and_refusals_are_logged() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        // Each is called by a separate client. With this seed the first calls of an outage are refused.
        let throttle = || Arc::new(AdaptiveThrottle::with_clock(ManualClock::new(), 1));
        let mut service = ThrottleLayer::new(throttle()).named("search").layer(service_fn(answer));
        let log = logged(tracing::Level::DEBUG, || {
            for _ in 0..12 {
                _ = call(&mut service, get("/down"));
            }
        });
        let line = "DEBUG damper: throttled, 99 % of the calls are not sent throttle=\"search\" share_refused=0.99 retry_after_ms=";
        assert!(log.len() == 2 && log.iter().all(|logged| logged.starts_with(line)), "{log:?}");
        let mut unnamed = ThrottleLayer::new(throttle()).layer(service_fn(answer));
        call(&mut unnamed, get("/")).unwrap();
    });
    assert_eq!(
        lines(&snapshotter),
        [
            "damper_throttle_allowed_total{throttle=default} 1",
            "damper_throttle_allowed_total{throttle=search} 10",
            "damper_throttle_refused_total{throttle=search} 2",
        ]
    );
}

/// The gates of a stack decide as one, but each has its own metrics.
#[test]
fn gate_of_a_stack_counts_a_call_that_an_inner_gate_refuses() {
    static POOL: Bulkhead = Bulkhead::new(1);

    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _taken = POOL.try_acquire().unwrap();
    metrics::with_local_recorder(&recorder, || {
        let stack = client_stack().throttle_single().concurrency(&POOL);
        let request = Request::get("http://one.example.com/").body(Empty::<bytes::Bytes>::new()).unwrap();
        let transport = service_fn(|_: Request<Empty<bytes::Bytes>>| {
            ready(Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new())))
        });
        let mut client = stack.service(transport);
        assert!(matches!(
            pin!(client.call(request)).poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(Err(_))
        ));
    });
    assert_eq!(
        lines(&snapshotter),
        [
            "damper_concurrency_refused_total{limit=default,side=client,cause=no_slot} 1",
            "damper_throttle_allowed_total{throttle=default} 1",
        ]
    );
}

/// The calls sleep on a timer that is ready at once.
#[test]
fn pacing_metrics_carry_the_layers_name_and_rejections_are_logged() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let pacer = Arc::new(Pacer::with_strategy(NoPacing));
        let rejecting = service_fn(|_: Request<()>| {
            ready(Ok::<_, std::io::Error>(Response::builder().status(429).body(Empty::<bytes::Bytes>::new()).unwrap()))
        });
        let layer = PacingLayer::sleeping_by(pacer, |_| ready(())).retry(PacedRetry::new(2)).named("search");
        let log = logged(tracing::Level::DEBUG, || {
            call(&mut layer.layer(rejecting), get("/")).unwrap();
        });
        let line = "DEBUG damper: rejected by the server's limit pacing=\"search\" sleep_ms=0";
        assert_eq!(log, [line, line]);
        let slow = RemainingDecrease::new(Quota::per_hour(4_500)).start(Duration::from_secs(8)).unwrap();
        let layer = PacingLayer::sleeping_by(Arc::new(Pacer::with_strategy(slow)), |_| ready(()));
        call(&mut layer.layer(service_fn(answer)), get("/")).unwrap();
        let mut late = get("/");
        late.extensions_mut().insert(Deadline::after(Duration::from_secs(1)));
        call(&mut layer.layer(service_fn(answer)), late).unwrap_err();
    });
    let lines = lines(&snapshotter);
    for expected in [
        "damper_pacing_calls_total{pacing=default} 1",
        "damper_pacing_calls_total{pacing=search} 1",
        "damper_pacing_refused_total{pacing=default} 1",
        "damper_pacing_rejected_total{pacing=search} 2",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    }
    assert!(lines.iter().any(|line| line.starts_with("damper_pacing_sleep_seconds{pacing=default}")), "{lines:?}");
}

#[test]
fn probes_are_counted() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_nanos(1)).build();
        let mut service = CircuitBreakerLayer::single(config.unwrap()).layer(service_fn(answer));
        call(&mut service, get("/down")).unwrap();
        while call(&mut service, get("/")).is_err() {}
        let lines = lines(&snapshotter);
        assert!(lines.contains(&"damper_breaker_allowed_total{breaker=default} 2".to_owned()), "{lines:?}");
        assert!(lines.contains(&"damper_breaker_probes_total{breaker=default} 1".to_owned()), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("state")), "the breaker closed again: {lines:?}");
    });
}

/// The cooldown ends between `poll_ready`, which did not poll the service, and `call`.
///
/// The call is refused.
#[test]
fn call_refused_for_missing_readiness_is_counted_as_refused() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let cooldown = Duration::from_millis(20);
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(cooldown).build().unwrap();
        let mut service = CircuitBreakerLayer::single(config).layer(service_fn(answer));
        call(&mut service, get("/down")).unwrap();
        let ready = service.poll_ready(&mut Context::from_waker(Waker::noop()));
        assert!(ready.is_ready());
        std::thread::sleep(cooldown);
        assert!(call(&mut service, get("/")).is_err());
        let lines = lines(&snapshotter);
        assert!(lines.contains(&"damper_breaker_allowed_total{breaker=default} 1".to_owned()), "{lines:?}");
        assert!(lines.contains(&"damper_breaker_refused_total{breaker=default} 1".to_owned()), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("probes")), "{lines:?}");
    });
}

/// A breaker that judges gRPC by the HTTP status never trips on a gRPC status, so it warns, once.
#[test]
fn grpc_judged_by_http_is_logged() {
    let _lock = lock_recorders();
    let work = || {
        let answer_grpc = |_: Request<()>| {
            let response =
                Response::builder().header("content-type", "application/grpc+proto").header("grpc-status", "14");
            ready(Ok::<_, Infallible>(response.body(Empty::<bytes::Bytes>::new()).unwrap()))
        };
        let layer = CircuitBreakerLayer::single(BreakerConfig::default());
        call(&mut layer.layer(service_fn(answer_grpc)), get("/")).unwrap();
        call(&mut layer.clone().when_body_ends().layer(service_fn(answer_grpc)), get("/")).unwrap();
        call(&mut layer.layer(service_fn(answer)), get("/")).unwrap();
        #[cfg(feature = "tonic")]
        {
            let at_trailers = layer.completion(damper::tonic::AtTrailers::new());
            call(&mut at_trailers.layer(service_fn(answer_grpc)), get("/")).unwrap();
        }
    };
    let line = "DEBUG damper: gRPC response judged by its HTTP status; `AtTrailers` judges by its gRPC status";
    let warned = logged(tracing::Level::WARN, work);
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].starts_with("WARN damper: gRPC response judged by its HTTP status"), "{warned:?}");
    assert_eq!(logged(tracing::Level::DEBUG, work), [line, line]);
    assert!(logged(tracing::Level::INFO, work).is_empty());
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

/// Returns the lines that `work` logs at this level.
fn logged(level: tracing::Level, work: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let writer = log.clone();
    crate::subscribers::register_two();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| line.trim_start().to_owned()).collect()
}

#[test]
fn refusals_are_logged_with_request_and_key() {
    let _lock = lock_recorders();
    let work = || {
        let nothing = Quota::per_second(0).burst(0);
        call(&mut RateLimitLayer::per_client(nothing).layer(service_fn(answer)), from(7)).unwrap();
        let by_key = RateLimitLayer::by_header(http::HeaderName::from_static("x-key"), nothing);
        let request = Request::get("/").header("x-key", "k".repeat(1_000)).body(()).unwrap();
        call(&mut by_key.layer(service_fn(answer)), request).unwrap();
    };
    let key = "k".repeat(64);
    assert_eq!(
        logged(tracing::Level::DEBUG, work),
        [
            "DEBUG damper: rate limit exceeded, and no wait helps limit=\"default\" method=\"GET\" path=\"/path\" \
             key=\"192.0.2.7\" quota=0/s burst 0",
            &format!(
                "DEBUG damper: rate limit exceeded, and no wait helps limit=\"default\" method=\"GET\" path=\"/\" \
                 key=\"{key}\" quota=0/s burst 0"
            ),
        ]
    );
    assert!(logged(tracing::Level::INFO, work).is_empty());
}

#[test]
fn state_changes_are_logged_with_their_cause() {
    let _lock = lock_recorders();
    let lines = logged(tracing::Level::INFO, || {
        let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
        let mut service = CircuitBreakerLayer::per_host(config).layer(service_fn(answer));
        call(&mut service, get("http://api.example/down")).unwrap();
        assert!(call(&mut service, get("http://api.example/down")).is_err());
    });
    assert_eq!(
        lines,
        ["INFO damper: circuit changed its state breaker=\"default\" host=\"api.example:80\" from=closed to=open \
             why=consecutive failures"]
    );
}

#[test]
fn missing_peer_is_logged_as_an_error() {
    let _lock = lock_recorders();
    let lines = logged(tracing::Level::ERROR, || {
        call(&mut RateLimitLayer::per_client(Quota::per_second(1)).layer(service_fn(answer)), get("/")).unwrap();
    });
    assert!(lines[0].starts_with("ERROR damper: the rate limit could not decide"), "{lines:?}");
    assert!(lines[0].contains("for_peer(address)"), "{lines:?}");
}

/// If a server passes no peer addresses, every request fails in the same way.
///
/// The log reports the 1st, 2nd, 4th, 8th … Errors of other kinds may differ, so each is logged.
#[test]
fn repeated_missing_peer_is_logged_at_powers_of_two() {
    let _lock = lock_recorders();
    let lines = logged(tracing::Level::ERROR, || {
        let mut service = RateLimitLayer::per_client(Quota::per_second(1)).layer(service_fn(answer));
        for _ in 0..100 {
            call(&mut service, get("/")).unwrap();
        }
    });
    let counts: Vec<_> = lines.iter().map(|line| line.rsplit_once("requests=").unwrap().1).collect();
    assert_eq!(counts, ["1", "2", "4", "8", "16", "32", "64"], "{lines:?}");
    let lines = logged(tracing::Level::ERROR, || {
        let mut service = RateLimitLayer::new(FailingLimit).layer(service_fn(answer));
        for _ in 0..3 {
            call(&mut service, get("/")).unwrap();
        }
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
}

/// There is one line for a key that is refused often, and a few lines for many keys.
///
/// A line says how many refusals before it have none.
#[test]
fn refused_flood_is_logged_in_samples_with_the_number_left_out() {
    let _lock = lock_recorders();
    let log = logged(tracing::Level::DEBUG, || {
        let by_key = RateLimitLayer::by_header(http::HeaderName::from_static("x-key"), Quota::per_hour(1).burst(0));
        let mut service = by_key.layer(service_fn(answer));
        let mut refuse = |key: &str| {
            let request = Request::get("/").header("x-key", key).body(()).unwrap();
            assert_eq!(call(&mut service, request).unwrap().status(), 429);
        };
        (0..100).for_each(|_| refuse("mallory"));
        refuse("alice");
        (0..10_000).for_each(|number| refuse(&format!("{number}")));
    });
    let count = |part: &str| log.iter().filter(|line| line.contains(part)).count();
    assert_eq!((count("mallory"), count("alice")), (1, 1), "{log:?}");
    assert_eq!(count("suppressed=99"), 1, "the line of the next key says how many were left out: {log:?}");
    assert!((20..100).contains(&log.len()), "{} lines", log.len());
}

/// A limit whose store is unreachable.
#[derive(Clone)]
struct FailingLimit;

impl Limit for FailingLimit {
    type Future = NoWait;

    fn decide(&self, _: &Head<'_>, _: u32, _: Detail) -> LimitDecision<Self::Future> {
        LimitDecision::Refuse(Refusal::failed("the store is unreachable"))
    }
}

#[test]
fn error_counters_carry_the_cause() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        call(&mut RateLimitLayer::per_client(Quota::per_second(1)).layer(service_fn(answer)), get("/")).unwrap();
        call(&mut RateLimitLayer::new(FailingLimit).named("store").unwrap().layer(service_fn(answer)), get("/"))
            .unwrap();
    });
    assert_eq!(
        lines(&snapshotter),
        [
            "damper_limit_errors_total{limit=default,cause=missing_peer} 1",
            "damper_limit_errors_total{limit=store,cause=other} 1",
        ]
    );
}

/// A body whose data is ready only after the deadline.
struct Late;

impl http_body::Body for Late {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Infallible>>> {
        std::thread::sleep(TIMEOUT);
        Poll::Ready(Some(Ok(http_body::Frame::data(bytes::Bytes::from("late")))))
    }
}

const TIMEOUT: Duration = Duration::from_millis(20);

/// Never wakes the task, so lateness is found at a poll.
async fn no_sleep(_: Duration) {
    std::future::pending::<()>().await;
}

#[test]
fn deadlines_are_counted_and_logged_by_stage() {
    let _lock = lock_recorders();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let log = logged(tracing::Level::DEBUG, || {
        metrics::with_local_recorder(&recorder, || {
            let instant = http::HeaderName::from_static("x-deadline-unix-ms");
            let deadlines = DeadlineLayer::sleeping_by(TIMEOUT, no_sleep).named("api").instant_header(instant.clone());
            let late_body = |_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Late)));
            let mut service = deadlines.clone().skew_guard(SkewGuard::new()).layer(service_fn(late_body));
            let expired = || Request::get("/").header(&instant, 1).body(()).unwrap();
            // Of 60 requests with an expired instant, 49 are refused.
            for _ in 0..60 {
                call(&mut service, expired()).unwrap();
            }
            let body = call(&mut service, get("/")).unwrap().into_body();
            assert!(
                pin!(http_body_util::BodyExt::collect(body)).poll(&mut Context::from_waker(Waker::noop())).is_ready()
            );
            let mut slow = deadlines.layer(service_fn(|_: Request<()>| async {
                std::thread::sleep(TIMEOUT);
                Ok::<_, Infallible>(Response::new(Late))
            }));
            call(&mut slow, get("/")).unwrap();
            let client = ClientDeadlineLayer::sleeping_by(TIMEOUT, no_sleep).named("upstream").margin(TIMEOUT);
            assert!(call(&mut client.layer(service_fn(late_body)), get("/")).is_err());
            assert_eq!(
                lines(&snapshotter),
                [
                    "damper_deadline_exceeded_total{deadline=api,side=server,stage=arrival} 49",
                    "damper_deadline_exceeded_total{deadline=api,side=server,stage=body} 1",
                    "damper_deadline_exceeded_total{deadline=api,side=server,stage=response} 1",
                    "damper_deadline_exceeded_total{deadline=upstream,side=client,stage=departure} 1",
                    "damper_deadline_skewed_total{deadline=api} 11",
                ]
            );
        });
    });
    let count = |part: &str| log.iter().filter(|line| line.contains(part)).count();
    assert_eq!(count("clocks differ"), 4, "logged at 1, 2, 4 and 8: {log:?}");
    // Of the refusals, which metrics count, the log has a sample.
    assert!((20..=25).contains(&count(r#"stage="arrival""#)), "{log:?}");
    assert!(count("specified_ms=20 ") >= 1 && count(r#"side="client""#) == 1, "{log:?}");
}
