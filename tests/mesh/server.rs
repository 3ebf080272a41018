//! Services of Mesh over real sockets.

use super::support::{SharedClock, Timer, http, look_again, post, serve, serve_mesh};
use damper::http::{DeadlineLayer, Headers, RateLimitLayer, TimeoutUnit};
use damper::limit::FixedWindow;
use damper::mesh::{IncomingCall, MeshError, MeshLayer, Request, Response, Scopes, SpecifiedDeadline, refusal_body};
use damper::{ManualClock, Quota};
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
async fn refusal_over_http_has_the_wait_and_calls_nothing() {
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

#[tokio::test]
async fn deadline_of_an_http_header_counts_too() {
    let layer = MeshLayer::sleeping_by("f", Scopes::none(), look_again as Timer);
    let service = layer.layer(service_fn(|call: IncomingCall| async move {
        let left = call.deadline().map(|deadline| deadline.remaining() <= Duration::from_secs(2));
        Ok::<_, MeshError>(json!(left))
    }));
    let header = http::HeaderName::from_static("x-timeout-ms");
    let deadlines = DeadlineLayer::new(Duration::from_secs(60)).header(header.clone(), TimeoutUnit::Milliseconds);
    let service = deadlines.layer(service);
    // The layer's body is its own.
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
    let hour = SpecifiedDeadline::after(Duration::from_secs(3_600));
    let body = Full::new(request("req_1", "f").with_deadline(&hour).to_json());
    let posted = http::Request::post(format!("http://{address}/")).header(header, "2000").body(body).unwrap();
    let body = http_body_util::BodyExt::collect(http().request(posted).await.unwrap().into_body()).await.unwrap();
    let answer = Response::from_json(&body.to_bytes()).unwrap();
    assert_eq!(answer.result, json!(true));
    let report = answer.deadline().unwrap().unwrap();
    assert_eq!(report.specified, hour, "what came in is echoed");
}

#[tokio::test]
async fn rate_limit_layer_answers_with_the_document() {
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
