//! The protocol's own documents, produced from damper's types and read back.

use crate::support::{SharedClock, per_minute};
use damper::limit::FixedWindow;
use damper::mesh::{
    Caller, DeadlineReport, Fragment, Iso8601, MeshError, Meta, RateLimitUsage, RateLimited, Receipt, Request,
    Response, Scopes, SpecifiedDeadline, Warnings,
};
use damper::{Deadline, ManualClock, Quota};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Compares a value with a document, and with the value read from that document.
macro_rules! assert_document {
    ($name:literal, $made:expr, $read:expr) => {
        let text = include_str!(concat!("vectors/", $name, ".json"));
        same($name, text, &$made, &$read(text.as_bytes()).expect($name));
    };
}

fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str, text: &str, made: &T, read: &T) {
    let document: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(made).unwrap(), document, "{name}, written");
    assert_eq!(serde_json::to_value(read).unwrap(), document, "{name}, read and written again");
    assert_eq!(made, read, "{name}, read");
}

fn clock() -> SharedClock {
    Arc::new(ManualClock::new())
}

/// The usage of a limit of 1,000 a minute, with `used` tokens taken, before its window ends.
fn usage(used: u32, resets_in: u64) -> RateLimitUsage {
    let clock = clock();
    let limiter = per_minute(1_000, &clock);
    limiter.check_n(used).unwrap();
    clock.advance(Duration::from_secs(60 - resets_in));
    RateLimitUsage::of(&limiter.peek()).unwrap()
}

#[test]
fn usage_and_warnings_are_the_protocols_documents() {
    let millis = Duration::from_millis;
    assert_document!("response_usage", Fragment::new(Meta::of(usage(153, 45)).took(millis(127))), Fragment::from_json);
    let warned = |usage: RateLimitUsage| usage.warned_by(&Warnings::default());
    assert_document!("response_warning", Fragment::new(Meta::of(warned(usage(950, 15)))), Fragment::from_json);
    let created = json!({ "order_id": 456, "status": "created" });
    let normal = Response::ok("req_123", created).with_meta(Meta::of(warned(usage(42, 47))).took(millis(89)));
    assert_document!("example_normal", normal, Response::from_json);
    let approaching = Response::ok("req_456", json!({ "success": true }))
        .with_meta(Meta::of(warned(usage(985, 12))).took(millis(34)));
    assert_document!("example_approaching", approaching, Response::from_json);
}

#[test]
fn refusal_is_the_protocols_document() {
    let clock = clock();
    let limiter = per_minute(1_000, &clock);
    limiter.check_n(1_000).unwrap();
    clock.advance(Duration::from_secs(15));
    let denied = limiter.check().unwrap_err();
    let refusal = Response::error(Some("req_123".to_owned()), RateLimited::by(&denied, &limiter.peek()))
        .with_meta(Meta::of(RateLimitUsage::of(&limiter.peek()).unwrap()));
    assert_document!("error_rate_limited", refusal, Response::from_json);
}

#[test]
fn scopes_are_the_protocols_documents() {
    let clock = clock();
    let scopes = Scopes::with_clock(Arc::clone(&clock)).algorithm::<FixedWindow>();
    let scopes = scopes.global(Quota::per_minute(10_000)).service(Quota::per_minute(1_000)).build().unwrap();
    let web = Caller::of("orders.create").service("web");
    scopes.check_n(web, 847).unwrap();
    for other in ["a", "b", "c", "d"] {
        scopes.check_n(web.service(other), 919).unwrap();
    }
    clock.advance(Duration::from_secs(28));
    assert_document!("response_scopes", Fragment::new(scopes.peek(web).meta()), Fragment::from_json);
}

fn orders(clock: &SharedClock) -> Scopes<SharedClock, FixedWindow> {
    let scopes = Scopes::with_clock(Arc::clone(clock)).algorithm::<FixedWindow>();
    scopes.service(Quota::per_minute(1_000)).function("orders.create", Quota::per_minute(100)).build().unwrap()
}

#[test]
fn refusal_of_a_function_is_the_protocols_document() {
    let clock = clock();
    let scopes = orders(&clock);
    let caller = Caller::of("orders.create");
    scopes.check_n(caller, 100).unwrap();
    clock.advance(Duration::from_secs(37));
    let denied = scopes.check(caller).unwrap_err();
    let refusal = Response::error(Some("req_789".to_owned()), denied.rate_limited()).with_meta(denied.meta());
    assert_document!("example_limited", refusal, Response::from_json);
}

#[test]
fn discovery_is_the_protocols_documents() {
    assert_document!("request_capabilities", Request::capabilities("req_limits"), Request::from_json);
    let capabilities = orders(&clock()).capabilities("orders-api");
    let answer = Response::ok("req_limits", capabilities.to_value());
    assert_eq!(answer.capabilities(), Ok(capabilities));
    assert_document!("response_capabilities", answer, Response::from_json);
}

#[test]
fn deadlines_are_the_protocols_documents() {
    let thirty = SpecifiedDeadline::after(Duration::from_secs(30));
    let annual = Request::new("req_123", "reports.generate", "1", json!({ "type": "annual" })).with_deadline(&thirty);
    assert_document!("deadline_request_relative", annual, Request::from_json);
    assert_eq!(annual.deadline(), Ok(Some(thirty)));

    let instant = Iso8601::at(SystemTime::UNIX_EPOCH + Duration::from_mins(28_508_550)).unwrap();
    let instant = SpecifiedDeadline::at(instant);
    let quarterly = Request::new("req_124", "reports.generate", "1", json!({ "type": "quarterly" }));
    let quarterly = quarterly.with_deadline(&instant);
    assert_document!("deadline_request_absolute", quarterly, Request::from_json);
    assert_eq!(quarterly.deadline(), Ok(Some(instant)));

    let clock = clock();
    let deadline = Deadline::with_clock(Duration::from_secs(30), Arc::clone(&clock));
    let received = Receipt::with_clock(Arc::clone(&clock)).deadline(annual.deadline().unwrap().unwrap());
    clock.advance(Duration::from_millis(127));
    for report in [DeadlineReport::of(&deadline), received.report()] {
        let met = Response::ok("req_123", json!({ "report_url": "https://..." })).with_deadline(&report);
        assert_document!("deadline_response", met, Response::from_json);
        assert_eq!(met.deadline(), Ok(Some(report)));
    }
    clock.advance(Duration::from_millis(30_001 - 127));
    let id = || Some("req_125".to_owned());
    let by_report = Response::error(id(), &received.report()).with_deadline(&received.report());
    let error = MeshError::from(deadline.check().unwrap_err());
    let by_error = Response::error(id(), error).with_deadline(&DeadlineReport::of(&deadline));
    for exceeded in [by_report, by_error] {
        assert_document!("deadline_exceeded", exceeded, Response::from_json);
    }
}

#[test]
fn propagated_deadline_is_the_protocols_document() {
    let clock = clock();
    let received = Receipt::with_clock(&*clock).deadline(SpecifiedDeadline::after(Duration::from_secs(5)));
    clock.advance(Duration::from_secs(1));
    let downstream = Request::new("req_downstream", "inventory.check", "1", json!({ "sku": "WIDGET-01" }))
        .with_deadline(&received.downstream().unwrap());
    assert_document!("deadline_propagated", downstream, Request::from_json);
}

/// Returns the value with unknown members added to each of the protocol's own objects.
///
/// The arguments and results of functions stay as they are.
fn with_more(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let own = |name: &str| !["arguments", "options", "data", "details", "result"].contains(&name);
            let more = |(name, value): (&String, &Value)| {
                (name.clone(), if own(name) { with_more(value) } else { value.clone() })
            };
            let unknown = [("x-unknown".to_owned(), json!([{ "deep": [1] }])), (String::new(), Value::Null)];
            Value::Object(members.iter().map(more).chain(unknown).collect())
        }
        Value::Array(items) => items.iter().map(with_more).collect(),
        other => other.clone(),
    }
}

#[test]
fn unknown_members_change_none_of_the_protocols_documents() {
    fn check<T: Serialize>(name: &str, text: &str, read: impl Fn(&[u8]) -> T) {
        let document: Value = serde_json::from_str(text).unwrap();
        let more = with_more(&document);
        assert_ne!(more, document);
        assert_eq!(serde_json::to_value(read(more.to_string().as_bytes())).unwrap(), document, "{name}");
    }
    macro_rules! check {
        ($read:expr, $($name:literal),+) => {
            $(check($name, include_str!(concat!("vectors/", $name, ".json")), |text| $read(text).expect($name));)+
        };
    }
    check!(Fragment::from_json, "response_usage", "response_warning", "response_scopes");
    check!(Request::from_json, "request_capabilities", "deadline_request_relative", "deadline_request_absolute");
    check!(Request::from_json, "deadline_propagated");
    check!(Response::from_json, "response_capabilities", "deadline_response", "deadline_exceeded");
    check!(Response::from_json, "error_rate_limited", "example_normal", "example_approaching", "example_limited");
}

#[test]
fn unknown_members_of_details_options_and_results_are_ignored() {
    fn with_more(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), with_more(value)));
                Value::Object(members.chain([("x-unknown".to_owned(), json!([{ "deep": [1] }]))]).collect())
            }
            Value::Array(items) => items.iter().map(with_more).collect(),
            other => other.clone(),
        }
    }
    let read = |text: &str| with_more(&serde_json::from_str(text).unwrap()).to_string();
    let limited = Response::from_json(read(include_str!("vectors/example_limited.json")).as_bytes()).unwrap();
    assert_eq!(limited.rate_limited().unwrap().unwrap().function.as_deref(), Some("orders.create"));
    let relative = Request::from_json(read(include_str!("vectors/deadline_request_relative.json")).as_bytes());
    assert_eq!(relative.unwrap().deadline().unwrap().unwrap().to_string(), "30 second");
    let met = Response::from_json(read(include_str!("vectors/deadline_response.json")).as_bytes()).unwrap();
    assert_eq!(met.deadline().unwrap().unwrap().remaining.to_string(), "29873 millisecond");
    let published = Response::from_json(read(include_str!("vectors/response_capabilities.json")).as_bytes()).unwrap();
    assert_eq!(published.capabilities().unwrap().rate_limits().len(), 2);
}

#[test]
fn duration_of_a_call_is_in_milliseconds_however_long_it_is() {
    let took = |duration| serde_json::to_value(Meta::default().took(duration)).unwrap()["duration"].clone();
    assert_eq!(took(Duration::ZERO), json!({ "value": 0, "unit": "millisecond" }));
    assert_eq!(took(Duration::from_hours(1)), json!({ "value": 3_600_000, "unit": "millisecond" }));
}

/// Arrays with an object's members in order, which serde's derived readers accept as that object.
#[test]
fn arrays_are_no_objects() {
    let protocol = r#"{"name":"mesh","version":"0.1.0"}"#;
    let call = r#"{"function":"f","version":"1","arguments":{}}"#;
    let request = |protocol: &str, call: &str, extensions: &str| {
        let text = format!(r#"{{"protocol":{protocol},"id":"r","call":{call},"extensions":[{extensions}]}}"#);
        Request::from_json(text.as_bytes()).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(request(protocol, call, r#"{"urn":"u","options":{}}"#), Ok(()));
    let refused = |result: Result<(), String>, member: &str| {
        let error = result.expect_err(member);
        assert!(error.starts_with(&format!("{member}invalid type: sequence, expected an object")), "{error}");
    };
    refused(request(r#"["mesh","0.1.0"]"#, call, ""), "protocol: ");
    refused(request(protocol, r#"["f","1",{}]"#, ""), "call: ");
    refused(request(protocol, call, r#"["u",{}]"#), "extensions[0]: ");
    let whole = format!(r#"[{protocol},"r",{call},[]]"#);
    refused(Request::from_json(whole.as_bytes()).map(drop).map_err(|error| error.to_string()), "");

    let response = |rest: &str| {
        let text = format!(r#"{{"protocol":{protocol},"id":"r","result":null,{rest}}}"#);
        Response::from_json(text.as_bytes())
    };
    let unreadable = |rest: &str| response(rest).map(drop).map_err(|error| error.to_string());
    refused(unreadable(r#""errors":[["C","m",false,null]]"#), "errors[0]: ");
    refused(unreadable(r#""extensions":[["u",{}]]"#), "extensions[0]: ");
    let whole = format!(r#"[{protocol},"r",null,[],{{}},[]]"#);
    refused(Response::from_json(whole.as_bytes()).map(drop).map_err(|error| error.to_string()), "");

    let second = r#"{"value":1,"unit":"second"}"#;
    let meta = |text: &str| {
        let error = response(&format!(r#""meta":{text}"#)).unwrap().meta_error().map(ToString::to_string);
        error.map_or(Ok(()), Err)
    };
    let usage = format!(r"[1,1,0,{second},{second},null]");
    refused(meta(r"[null,null,{}]"), "meta: ");
    refused(meta(r#"{"duration":[1,"second"]}"#), "meta.duration: ");
    refused(meta(&format!(r#"{{"rate_limit":{usage}}}"#)), "meta.rate_limit: ");
    refused(meta(r#"{"rate_limits":[null,null,null,null]}"#), "meta.rate_limits: ");
    for scope in ["global", "service", "function", "user"] {
        refused(meta(&format!(r#"{{"rate_limits":{{"{scope}":{usage}}}}}"#)), &format!("meta.rate_limits.{scope}: "));
    }
    refused(Fragment::from_json(br"[{}]").map(drop).map_err(|error| error.to_string()), "");
    refused(Fragment::from_json(br#"{"meta":[]}"#).map(drop).map_err(|error| error.to_string()), "meta: ");

    let published = |result: Value| {
        let answer = Response::ok("r", result);
        answer.capabilities().map(drop).map_err(|error| error.to_string())
    };
    refused(published(json!(["orders", { "rate_limits": [] }])), "result: ");
    refused(published(json!({ "service": "orders", "limits": [[]] })), "result.limits: ");
    let limit = json!(["global", null, 1, { "value": 1, "unit": "second" }]);
    refused(
        published(json!({ "service": "orders", "limits": { "rate_limits": [limit] } })),
        "result.limits.rate_limits[0]: ",
    );
}
