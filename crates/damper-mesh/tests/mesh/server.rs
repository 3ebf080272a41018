//! Mesh services over real sockets.

use crate::support::{SharedClock, Timer, http, look_again, post, serve, serve_mesh};
use damper::deadline::SkewGuard;
use damper::http::{DeadlineLayer, Headers, RateLimitLayer, TimeoutUnit};
use damper::limit::FixedWindow;
use damper::mesh::{
    ClientError, IncomingCall, MeshError, MeshLayer, Request, Response, Scopes, SpecifiedDeadline, refusal_body,
};
use damper::retry::Failure;
use damper::{Deadline, ManualClock, Quota};
use http_body_util::Full;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tower::{Layer, service_fn};

type Call = IncomingCall<SharedClock>;

fn clock() -> SharedClock {
    Arc::new(ManualClock::new())
}

fn request(id: &str, function: &str) -> Request {
    Request::new(id, function, "1", json!({}))
}

async fn echo(call: Call) -> Result<Value, MeshError> {
    match call.function() {
        "fail" => Err(MeshError::new("BROKEN", "It is broken").details(json!({ "part": 7 }))),
        function => Ok(json!(function)),
    }
}

#[tokio::test]
async fn refusal_over_http_has_the_wait_and_calls_no_function() {
    let clock = clock();
    let scopes = Scopes::with_clock(Arc::clone(&clock)).algorithm::<FixedWindow>().service(Quota::per_minute(1));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let address = serve_mesh(scopes.build().unwrap(), move |call: Call| {
        counted.fetch_add(1, Ordering::Relaxed);
        echo(call)
    })
    .await;
    let (status, _, document) = post(address, request("req_1", "f").to_json()).await;
    assert_eq!((status.as_u16(), &document["result"]), (200, &json!("f")));
    clock.advance(Duration::from_millis(14_500));
    let (status, retry_after, document) = post(address, request("req_2", "f").to_json()).await;
    assert_eq!((status.as_u16(), retry_after.as_deref()), (429, Some("46")));
    assert_eq!(document["id"], "req_2");
    assert_eq!(document["errors"][0]["details"]["scope"], "service");
    assert_eq!(document["meta"]["rate_limit"]["resets_in"], json!({ "value": 46, "unit": "second" }));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn errors_of_a_function_are_200_and_have_no_warning() {
    let scopes = Scopes::with_clock(clock()).algorithm::<FixedWindow>().global(Quota::per_minute(2)).build().unwrap();
    let address = serve_mesh(scopes, echo).await;
    post(address, request("req_1", "f").to_json()).await;
    let (status, _, document) = post(address, request("req_2", "fail").to_json()).await;
    assert_eq!(status.as_u16(), 200);
    let answer = Response::from_json(document.to_string().as_bytes()).unwrap();
    let usage = answer.meta.rate_limit.clone().unwrap();
    assert_eq!((usage.remaining, usage.warning), (0, None));
    assert_eq!(answer.into_result().unwrap_err().details, json!({ "part": 7 }));
}

#[tokio::test]
async fn unreadable_requests_get_400_with_the_id_if_there_is_one() {
    let address = serve_mesh(Scopes::none_with_clock(clock()), echo).await;
    let large = format!(r#"{{"id":"{}"}}"#, "x".repeat(20_000));
    let cases = [
        ("{", Value::Null),
        ("[]", Value::Null),
        (r#"{"id": "req_1"}"#, json!("req_1")),
        (&*large, Value::Null),
        (
            r#"{"protocol":{"name":"rpc","version":"1"},"id":"a","call":{"function":"f","version":"1","arguments":0}}"#,
            json!("a"),
        ),
    ];
    for (text, id) in cases {
        let (status, _, document) = post(address, text.to_owned()).await;
        assert_eq!(status.as_u16(), 400, "{text}");
        assert_eq!((&document["errors"][0]["code"], &document["id"]), (&json!("INVALID_REQUEST"), &id), "{text}");
        assert!(document["result"].is_null());
    }
}

#[tokio::test]
async fn other_methods_than_post_get_405() {
    let scopes = Scopes::with_clock(clock()).global(Quota::per_hour(5)).build().unwrap();
    let address = serve_mesh(scopes, echo).await;
    for method in [http::Method::GET, http::Method::PUT, http::Method::DELETE] {
        let body = Full::new(request("req_1", "f").to_json());
        let sent = http::Request::builder().method(&method).uri(format!("http://{address}/")).body(body).unwrap();
        let response = http().request(sent).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["allow"]),
            (405, &http::HeaderValue::from_static("POST"))
        );
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let error = Response::from_json(&body).unwrap().into_result().unwrap_err();
        assert_eq!(error.to_string(), format!("INVALID_REQUEST: the method is {method}, it must be POST"));
    }
    let (_, _, document) = post(address, request("req_2", "f").to_json()).await;
    assert_eq!(document["meta"]["rate_limit"]["used"], 1, "the other requests took no token");
}

#[tokio::test]
async fn refusal_names_its_scope_and_reports_the_limits_that_it_met() {
    let minute = Quota::per_minute;
    let with = |global, service, function, user| {
        let scopes = Scopes::with_clock(clock()).algorithm::<FixedWindow>().global(minute(global));
        scopes.service(minute(service)).function("f", minute(function)).user(minute(user)).build().unwrap()
    };
    let cases = [
        (with(1, 9, 9, 9), "global", "Rate limit exceeded", vec!["function", "global", "service", "user"]),
        (with(9, 1, 9, 9), "service", "Rate limit exceeded", vec!["function", "service", "user"]),
        (with(9, 9, 1, 9), "function", "Rate limit exceeded for f", vec!["function", "user"]),
        (with(9, 9, 9, 1), "user", "Rate limit exceeded", vec!["user"]),
    ];
    for (scopes, scope, message, met) in cases {
        let address = serve_mesh(scopes, echo).await;
        let (_, _, first) = post(address, request("req_1", "f").to_json()).await;
        assert_eq!(first["meta"]["rate_limits"].as_object().unwrap().len(), 4, "all limits that the request passed");
        let (status, _, refusal) = post(address, request("req_2", "f").to_json()).await;
        let error = &refusal["errors"][0];
        assert_eq!((status.as_u16(), &error["message"], &error["retryable"]), (429, &json!(message), &json!(true)));
        let details = error["details"].as_object().unwrap();
        assert_eq!((&details["scope"], &details["limit"], &details["used"]), (&json!(scope), &json!(1), &json!(1)));
        assert_eq!(details.get("function"), (scope == "function").then_some(&json!("f")));
        let meta = &refusal["meta"];
        match &*met {
            [_] => assert_eq!(meta["rate_limit"]["remaining"], 0, "one limit of all functions has no scope in `meta`"),
            met => {
                let reported: Vec<_> = meta["rate_limits"].as_object().unwrap().keys().collect();
                assert_eq!(reported, met);
                assert_eq!(meta["rate_limits"][scope]["remaining"], 0);
            }
        }
        assert!(!meta.to_string().contains("warning"), "no warning beside an error");
    }
}

#[tokio::test]
async fn only_the_first_version_of_capabilities_is_the_layers() {
    let scopes = Scopes::with_clock(clock()).global(Quota::per_hour(1)).build().unwrap();
    let address = serve_mesh(scopes, echo).await;
    for _ in 0..3 {
        let (status, _, document) = post(address, Request::capabilities("req_1").to_json()).await;
        assert_eq!((status.as_u16(), &document["result"]["service"]), (200, &json!("orders-api")));
        assert!(document.get("meta").is_none(), "discovery is not limited");
    }
    let second = Request::new("req_2", "mesh.capabilities", "2", json!({}));
    let (_, _, document) = post(address, second.to_json()).await;
    assert_eq!(document["result"], "mesh.capabilities", "the service's own response");
}

#[tokio::test]
async fn deadline_is_echoed_as_it_came() {
    let clock = clock();
    let time = Arc::clone(&clock);
    let scopes = Scopes::with_clock(clock).global(Quota::per_hour(4)).build().unwrap();
    let address = serve_mesh(scopes, move |call: Call| {
        time.advance(Duration::from_millis(call.arguments()["takes_ms"].as_u64().unwrap_or(0)));
        std::future::ready(Ok(json!("done")))
    })
    .await;
    let ask = async |options: &Value, takes: u64| {
        let mut request = request("req_1", "f").with_deadline(&SpecifiedDeadline::from_value(options).unwrap());
        request.call.arguments = json!({ "takes_ms": takes });
        post(address, request.to_json()).await
    };
    let minute = json!({ "value": 60, "unit": "second" });
    let (_, _, met) = ask(&minute, 20_500).await;
    let data = json!({
        "specified": minute,
        "elapsed": { "value": 20_500, "unit": "millisecond" },
        "remaining": { "value": 39_500, "unit": "millisecond" },
        "utilization": 0.342,
    });
    assert_eq!(met["extensions"][0]["data"], data, "the unit stays as received");
    let (status, _, exceeded) = ask(&minute, 60_000).await;
    let details = json!({ "deadline": minute, "elapsed": { "value": 1, "unit": "minute" } });
    assert_eq!((status.as_u16(), &exceeded["errors"][0]["details"]), (504, &details));
    assert_eq!((&exceeded["result"], &exceeded["meta"]["rate_limit"]["used"]), (&Value::Null, &json!(2)));
    assert!(!exceeded["meta"].to_string().contains("warning"), "no warning beside an error");
    let instant = json!({ "value": "2199-03-15T15:30:00.250+01:00", "unit": "iso8601" });
    let (_, _, met) = ask(&instant, 0).await;
    assert_eq!(met["extensions"][0]["data"]["specified"], instant, "offset and fraction included");
}

#[tokio::test]
async fn deadlines_beyond_every_clock_are_served_and_echoed() {
    let layer = MeshLayer::new("f", Scopes::none());
    let address = serve(layer.layer(service_fn(|call: IncomingCall| async move {
        tokio::task::yield_now().await;
        let sent = call.deadline().and_then(damper::mesh::ReceivedDeadline::downstream);
        Ok::<_, MeshError>(json!(sent.is_some()))
    })))
    .await;
    let farthest = [
        json!({ "value": 5_124_095_576_030_u64, "unit": "hour" }),
        json!({ "value": u64::MAX, "unit": "millisecond" }),
        json!({ "value": "9999-12-30T22:00:00Z", "unit": "iso8601" }),
    ];
    for options in farthest {
        let far = SpecifiedDeadline::from_value(&options).unwrap();
        let (status, _, document) = post(address, request("req_1", "f").with_deadline(&far).to_json()).await;
        assert_eq!((status.as_u16(), &document["result"]), (200, &json!(true)), "{options}");
        let data = &document["extensions"][0]["data"];
        assert_eq!((&data["specified"], &data["utilization"]), (&options, &json!(0.0)));
    }
}

#[tokio::test]
async fn deadline_ends_a_function_that_waits_and_drops_it() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (clock, dropped) = (clock(), Arc::new(AtomicUsize::new(0)));
    let (time, drops) = (Arc::clone(&clock), Arc::clone(&dropped));
    let address = serve_mesh(Scopes::none_with_clock(clock), move |_: Call| {
        let guard = Dropped(Arc::clone(&drops));
        let time = Arc::clone(&time);
        async move {
            time.advance(Duration::from_secs(29));
            tokio::task::yield_now().await;
            time.advance(Duration::from_secs(1));
            std::future::pending::<()>().await;
            drop(guard);
            Ok(json!("never"))
        }
    })
    .await;
    let thirty = SpecifiedDeadline::after(Duration::from_secs(30));
    let (status, _, document) = post(address, request("req_1", "f").with_deadline(&thirty).to_json()).await;
    assert_eq!((status.as_u16(), dropped.load(Ordering::Relaxed)), (504, 1));
    let answer = Response::from_json(document.to_string().as_bytes()).unwrap();
    assert_eq!(answer.deadline().unwrap().unwrap().elapsed.to_string(), "30 second");
    assert_eq!(answer.into_result().unwrap_err().code, "DEADLINE_EXCEEDED");
}

#[tokio::test]
async fn deadline_passes_in_real_time() {
    let never = service_fn(|_: IncomingCall| std::future::pending::<Result<Value, MeshError>>());
    let address = serve(MeshLayer::new("f", Scopes::none()).layer(never)).await;
    let soon = SpecifiedDeadline::after(Duration::from_millis(50));
    let begun = std::time::Instant::now();
    let (status, _, document) = post(address, request("req_1", "f").with_deadline(&soon).to_json()).await;
    assert_eq!((status.as_u16(), begun.elapsed() >= Duration::from_millis(50)), (504, true));
    assert_eq!(document["extensions"][0]["data"]["remaining"], json!({ "value": 0, "unit": "millisecond" }));
}

#[tokio::test]
async fn request_without_a_deadline_gets_no_report_and_expired_ones_take_no_token() {
    let scopes = Scopes::with_clock(clock()).global(Quota::per_hour(5)).build().unwrap();
    let address = serve_mesh(scopes, echo).await;
    let (_, _, document) = post(address, request("req_1", "f").to_json()).await;
    assert!(document.get("extensions").is_none());
    let past = json!({ "value": "2024-03-15T14:30:00+01:00", "unit": "iso8601" });
    let past = SpecifiedDeadline::from_value(&past).unwrap();
    let (status, ..) = post(address, request("req_2", "f").with_deadline(&past).to_json()).await;
    assert_eq!(status.as_u16(), 504);
    let (_, _, document) = post(address, request("req_3", "f").to_json()).await;
    assert_eq!(document["meta"]["rate_limit"]["used"], 2);
}

/// A clock that each reading moves by a millisecond.
#[derive(Clone)]
struct Moving(Arc<AtomicUsize>);

impl damper::Clock for Moving {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) as u64
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

#[tokio::test]
async fn deadline_that_passes_before_the_function_is_called_reports_no_usage() {
    let (mut unbegun, mut begun) = (0, 0);
    for millis in 1..=40 {
        let clock = Moving(Arc::default());
        let scopes = Scopes::with_clock(clock).global(Quota::per_hour(5)).build().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let service = MeshLayer::sleeping_by("orders-api", scopes, look_again as Timer).layer(service_fn(
            move |_: IncomingCall<Moving>| {
                counted.fetch_add(1, Ordering::Relaxed);
                async { Ok::<_, MeshError>(json!("done")) }
            },
        ));
        let deadline = SpecifiedDeadline::after(Duration::from_millis(millis));
        let body = Full::new(request("req_1", "f").with_deadline(&deadline).to_json());
        let request = http::Request::post("/").body(body).unwrap();
        let response = tower::ServiceExt::oneshot(service, request).await.unwrap();
        let status = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let document: Value = serde_json::from_slice(&body).unwrap();
        let is_called = calls.load(Ordering::Relaxed) > 0;
        assert_eq!(document["meta"].get("rate_limit").is_some(), is_called, "{millis} ms: {document}");
        assert!(is_called || status == 504, "{millis} ms: {document}");
        *(if is_called { &mut begun } else { &mut unbegun }) += 1;
    }
    assert!(unbegun > 3 && begun > 3, "{unbegun} not called, {begun} called");
}

#[tokio::test]
async fn only_limit_of_a_service_is_reported_with_its_function() {
    let scopes = Scopes::with_clock(clock()).function("f", Quota::per_minute(1)).build().unwrap();
    let address = serve_mesh(scopes, echo).await;
    let (_, _, document) = post(address, request("req_1", "f").to_json()).await;
    assert_eq!(document["meta"]["rate_limits"]["function"]["remaining"], 0, "the usage keeps its scope");
    assert!(document["meta"].get("rate_limit").is_none());
    // The error of a refusal names the scope.
    let (_, _, document) = post(address, request("req_1", "f").to_json()).await;
    assert_eq!(document["errors"][0]["details"]["scope"], "function");
    assert_eq!(document["meta"]["rate_limit"]["remaining"], 0);
    let (_, _, document) = post(address, request("req_2", "g").to_json()).await;
    assert!(document["meta"].get("rate_limits").is_none() && document["meta"].get("rate_limit").is_none());
}

#[tokio::test]
async fn deadline_of_an_http_header_applies() {
    let layer = MeshLayer::sleeping_by("f", Scopes::none(), look_again as Timer);
    let service = layer.layer(service_fn(|call: IncomingCall| async move {
        let left = call.deadline().map(|deadline| deadline.remaining() <= Duration::from_secs(2));
        Ok::<_, MeshError>(json!(left))
    }));
    let header = http::HeaderName::from_static("x-timeout-ms");
    let deadlines = DeadlineLayer::new(Duration::from_mins(1)).header(header.clone(), TimeoutUnit::Milliseconds);
    let service = deadlines.layer(service);
    // The layer's own body.
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let mut service = service.clone();
        async move {
            use http_body_util::BodyExt;
            let response = tower::Service::call(&mut service, request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok::<_, std::convert::Infallible>(http::Response::from_parts(head, Full::new(body)))
        }
    });
    let address = serve(service).await;
    let hour = SpecifiedDeadline::after(Duration::from_hours(1));
    let body = Full::new(request("req_1", "f").with_deadline(&hour).to_json());
    let posted = http::Request::post(format!("http://{address}/")).header(header, "2000").body(body).unwrap();
    let body = http_body_util::BodyExt::collect(http().request(posted).await.unwrap().into_body()).await.unwrap();
    let answer = Response::from_json(&body.to_bytes()).unwrap();
    assert_eq!(answer.result, json!(true));
    let report = answer.deadline().unwrap().unwrap();
    assert_eq!(report.specified, hour, "the received deadline is echoed");
}

#[tokio::test]
async fn rate_limit_layer_responds_with_the_document() {
    let limits = RateLimitLayer::global(Quota::per_hour(1))
        .headers(Headers::OnRefusals)
        .body(refusal_body(|head| head.headers.get("x-id")?.to_str().ok().map(str::to_owned)));
    let hello = service_fn(|_: http::Request<Full<bytes::Bytes>>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(bytes::Bytes::new())))
    });
    let mut service = limits.layer(hello);
    let get = || http::Request::get("/").header("x-id", "req_9").body(Full::default()).unwrap();
    tower::Service::call(&mut service, get()).await.unwrap();
    let response = tower::Service::call(&mut service, get()).await.unwrap();
    assert_eq!(response.status().as_u16(), 429);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let answer = Response::from_json(&body).unwrap();
    let (limited, usage) = (answer.rate_limited().unwrap().unwrap(), answer.meta.rate_limit.clone().unwrap());
    assert_eq!((answer.id.as_deref(), limited.limit, limited.scope), (Some("req_9"), 1, None));
    assert_eq!((limited.window.to_string(), usage.used), ("1 hour".to_owned(), 1));
    assert_eq!(limited.retry_after.map(|wait| wait.duration().as_secs()), Some(3_600));
}

#[tokio::test]
async fn errors_of_a_function_are_200_whatever_their_code() {
    let codes = ["RATE_LIMITED", "DEADLINE_EXCEEDED", "INVALID_REQUEST"];
    let clock = clock();
    let time = Arc::clone(&clock);
    let scopes = Scopes::with_clock(clock).global(Quota::per_hour(50)).build().unwrap();
    let address = serve_mesh(scopes, move |call: Call| {
        time.advance(Duration::from_millis(7));
        let wait = json!({ "value": 45, "unit": "second" });
        let details = json!({ "limit": 1, "used": 1, "window": wait, "retry_after": wait, "scope": "user" });
        std::future::ready(Err(MeshError::new(call.function().to_owned(), "").retryable().details(details)))
    })
    .await;
    for code in codes {
        let (status, retry_after, document) = post(address, request("req_1", code).to_json()).await;
        assert_eq!((status.as_u16(), retry_after), (200, None), "{code}: the layer did not refuse");
        assert_eq!(document["meta"]["duration"], json!({ "value": 7, "unit": "millisecond" }));
    }
}

#[test]
fn errors_of_downstream_services_keep_their_meaning() {
    let refusal = MeshError::new("RATE_LIMITED", "Rate limit exceeded").retryable().details(json!({ "limit": 5 }));
    let error = MeshError::from_downstream(refusal);
    assert_eq!((&*error.code, error.retryable, &error.details["limit"]), ("DOWNSTREAM_RATE_LIMITED", false, &json!(5)));
    assert_eq!(Response::error(None, error).failure(), Some(Failure::FATAL), "the caller does not retry");
    let other = MeshError::new("SOLD_OUT", "Sold out").retryable();
    assert_eq!(MeshError::from_downstream(other.clone()), other);

    let exceeded = Deadline::with_clock(Duration::ZERO, clock()).check().unwrap_err();
    let error = MeshError::from(ClientError::DeadlineExceeded(exceeded));
    assert_eq!((&*error.code, error.retryable), ("DEADLINE_EXCEEDED", true));
    let error = MeshError::from(ClientError::Paced(damper::Denied::after(Duration::from_mins(1))));
    assert_eq!((&*error.code, error.retryable), ("DOWNSTREAM_RATE_LIMITED", false));
    let secret = std::io::Error::other("connection to 10.0.0.7:80 refused");
    let error = MeshError::from(ClientError::Transport(secret.into()));
    assert_eq!(error.to_string(), "DOWNSTREAM_FAILED: the HTTP client failed", "addresses are not disclosed");
}

/// Serves a request with an HTTP deadline.
async fn served_within<B>(
    scopes: &Arc<Scopes<SharedClock>>,
    clock: &SharedClock,
    within: Duration,
    body: B,
) -> (u16, Value)
where
    B: http_body::Body<Data = bytes::Bytes, Error = std::convert::Infallible> + Send + 'static,
{
    let time = Arc::clone(clock);
    let mut service =
        MeshLayer::sleeping_by("f", Arc::clone(scopes), look_again as Timer).layer(service_fn(move |_: Call| {
            time.advance(Duration::from_secs(3));
            std::future::ready(Ok::<_, MeshError>(json!("too late")))
        }));
    let mut posted = http::Request::post("/").body(body).unwrap();
    posted.extensions_mut().insert(Deadline::with_clock(within, Arc::clone(clock)));
    let response = tower::Service::call(&mut service, posted).await.unwrap();
    let status = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// A busy server polls the future later than it made it.
#[tokio::test]
async fn deadline_of_http_ends_where_its_layer_found_it() {
    let clock = clock();
    let left = |call: Call| u64::try_from(call.deadline().unwrap().remaining().as_millis()).unwrap();
    let scopes = Scopes::none_with_clock(Arc::clone(&clock));
    let function = service_fn(move |call: Call| std::future::ready(Ok::<_, MeshError>(json!(left(call)))));
    let mut service = MeshLayer::sleeping_by("f", scopes, look_again as Timer).layer(function);
    let mut posted = http::Request::post("/").body(Full::new(request("req_1", "f").to_json())).unwrap();
    posted.extensions_mut().insert(Deadline::with_clock(Duration::from_millis(100), Arc::clone(&clock)));
    let served = tower::Service::call(&mut service, posted);
    clock.advance(Duration::from_millis(60));
    let response = served.await.unwrap();
    assert_eq!(response.status(), 200);
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["result"], json!(40));
}

#[tokio::test]
async fn deadline_of_http_is_not_reported_as_that_of_the_client() {
    let clock = clock();
    let scopes = Arc::new(Scopes::with_clock(Arc::clone(&clock)).global(Quota::per_hour(5)).build().unwrap());
    let (two, hour) = (Duration::from_secs(2), json!({ "value": 1, "unit": "hour" }));
    let sent = request("req_1", "f").with_deadline(&SpecifiedDeadline::after(Duration::from_hours(1)));
    let (status, document) = served_within(&scopes, &clock, two, Full::new(sent.to_json())).await;
    assert_eq!((status, &document["extensions"][0]["data"]["specified"]), (504, &hour));
    let details = json!({ "deadline": hour, "elapsed": { "value": 3, "unit": "second" } });
    assert_eq!(document["errors"][0]["details"], details);
    let (status, document) = served_within(&scopes, &clock, two, Full::new(request("req_2", "f").to_json())).await;
    assert_eq!((status, document.get("extensions")), (504, None), "the client sent no deadline");
    assert_eq!(document["meta"]["rate_limit"]["used"], 2);
}

#[tokio::test]
async fn expired_deadline_of_http_takes_no_token() {
    let clock = clock();
    let scopes = Arc::new(Scopes::with_clock(Arc::clone(&clock)).global(Quota::per_hour(5)).build().unwrap());
    let body = || Full::new(request("req_1", "f").to_json());
    let (status, document) = served_within(&scopes, &clock, Duration::ZERO, body()).await;
    assert_eq!((status, document["errors"][0]["code"].as_str()), (504, Some("DEADLINE_EXCEEDED")));
    let (_, document) = served_within(&scopes, &clock, Duration::from_secs(9), body()).await;
    assert_eq!(document["meta"]["rate_limit"]["used"], 1);
}

#[tokio::test]
async fn deadline_of_http_ends_the_reading_of_the_body() {
    /// A body that takes a while and never ends.
    struct Slow(SharedClock);
    impl http_body::Body for Slow {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
            self.0.advance(Duration::from_secs(1));
            std::task::Poll::Pending
        }
    }
    let clock = clock();
    let scopes = Arc::new(Scopes::with_clock(Arc::clone(&clock)).build().unwrap());
    let served = served_within(&scopes, &clock, Duration::from_secs(2), Slow(Arc::clone(&clock)));
    let (status, document) = tokio::time::timeout(Duration::from_secs(20), served).await.expect("it ends");
    assert_eq!((status, &document["id"]), (504, &Value::Null));
}

#[tokio::test]
async fn skew_guard_serves_instants_of_wrong_clocks() {
    let clock = clock();
    let guard = Arc::new(SkewGuard::with_clock(Arc::clone(&clock)));
    let layer = MeshLayer::sleeping_by("f", Scopes::none_with_clock(clock), look_again as Timer);
    let past = json!({ "value": "2024-03-15T14:30:00Z", "unit": "iso8601" });
    let past = SpecifiedDeadline::from_value(&past).unwrap();
    let mut refused = Vec::new();
    for layer in [layer.clone(), layer.skew_guard(Arc::clone(&guard))] {
        let mut service =
            layer.layer(service_fn(|call: Call| async move { Ok::<_, MeshError>(json!(call.deadline().is_none())) }));
        let mut statuses = Vec::new();
        for _ in 0..60 {
            let body = Full::new(request("req_1", "f").with_deadline(&past).to_json());
            let posted = http::Request::post("/").body(body).unwrap();
            let response = tower::Service::call(&mut service, posted).await.unwrap();
            statuses.push(response.status().as_u16());
        }
        refused.push(statuses.iter().filter(|status| **status == 504).count());
    }
    assert_eq!(refused, [60, 49], "a few late requests are refused, but not all");
    assert_eq!(guard.served_expired(), 11);
}

/// A clock that moves by a millisecond with each reading.
#[derive(Clone, Default)]
struct Ticking(Arc<AtomicUsize>);

impl damper::Clock for Ticking {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) as u64
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

#[tokio::test]
async fn result_is_reported_with_the_time_by_which_it_was_in_time() {
    let mut statuses = [0, 0];
    for millis in 1..30 {
        let layer = MeshLayer::sleeping_by("f", Scopes::none_with_clock(Ticking::default()), look_again as Timer);
        let mut service =
            layer.layer(service_fn(|_: IncomingCall<Ticking>| std::future::ready(Ok::<_, MeshError>(json!("ok")))));
        let sent = request("req_1", "f").with_deadline(&SpecifiedDeadline::after(Duration::from_millis(millis)));
        let posted = http::Request::post("/").body(Full::new(sent.to_json())).unwrap();
        let response = tower::Service::call(&mut service, posted).await.unwrap();
        let is_ok = response.status().as_u16() == 200;
        statuses[usize::from(is_ok)] += 1;
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let report = Response::from_json(&body).unwrap().deadline().unwrap().unwrap();
        assert_eq!(is_ok, report.remaining.value() > 0, "{millis} ms: {report:?}");
    }
    assert!(statuses.iter().all(|count| *count > 0), "{statuses:?}");
}
