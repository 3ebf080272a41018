//! Malformed documents: each gets an error that names the mistake, and none panics.

use crate::support::{post, serve_mesh};
use damper::mesh::{MeshError, RateLimited, ReadError, Request, Response, Scopes};
use serde_json::{Value, json};

/// Returns the error of a request with these options of a deadline.
fn deadline_error(options: &Value) -> String {
    let request = json!({
        "protocol": { "name": "mesh", "version": "0.1.0" },
        "id": "req_1",
        "call": { "function": "f", "version": "1", "arguments": {} },
        "extensions": [{ "urn": "urn:mesh:ext:deadline", "options": options }],
    });
    Request::from_json(request.to_string().as_bytes()).unwrap().deadline().unwrap_err().to_string()
}

#[test]
fn malformed_deadlines_name_the_member() {
    let error = |value: Value, unit: &str| deadline_error(&json!({ "value": value, "unit": unit }));
    for value in [json!(-5), json!(0), json!(1.5), json!(1e300), json!("30"), json!(null), json!([30]), json!({})] {
        let text = error(value.clone(), "second");
        assert_eq!(text, format!("deadline: value is {value}, it must be a whole number of at least 1"));
    }
    assert_eq!(
        error(json!(u64::MAX), "hour"),
        "deadline: value 18446744073709551615 exceeds the maximum 5124095576030 of its unit"
    );
    assert_eq!(
        error(json!(1), "day"),
        r#"deadline: unit is "day", it must be millisecond, second, minute, hour or iso8601"#
    );
    for value in [json!("soon"), json!(30), json!("2024-03-15T14:30:00")] {
        let text = error(value.clone(), "iso8601");
        assert!(text.starts_with(&format!("deadline: value is {value}, it must be an instant")), "{text}");
    }
    assert_eq!(deadline_error(&json!({ "unit": "second" })), "deadline: value is missing");
    assert_eq!(deadline_error(&json!({ "value": 1 })), "deadline: unit is missing");
    assert_eq!(deadline_error(&json!("30 second")), "deadline: value is missing");
    let long = error(json!("x".repeat(1_000_000)), "iso8601");
    assert!(long.len() < 300, "the error repeats only the beginning");
}

#[test]
fn two_deadlines_are_malformed() {
    let request = Request::new("req_1", "f", "1", json!({}));
    let request = request.with_deadline(&damper::mesh::SpecifiedDeadline::after(std::time::Duration::from_secs(1)));
    let mut document: Value = serde_json::from_slice(&request.to_json()).unwrap();
    let extensions = document["extensions"].as_array_mut().unwrap();
    extensions.push(extensions[0].clone());
    let request = Request::from_json(document.to_string().as_bytes()).unwrap();
    assert_eq!(request.deadline().unwrap_err().to_string(), "deadline: the extension is repeated");
}

#[test]
fn malformed_envelopes_name_the_member() {
    let error = |text: &str| Request::from_json(text.as_bytes()).unwrap_err().to_string();
    let protocol = r#""protocol": {"name": "mesh", "version": "0.1.0"}"#;
    let call = r#""call": {"function": "f", "version": "1", "arguments": {}}"#;
    let starts = |text: String, start: &str| assert!(text.starts_with(start), "{text}");
    starts(error(&format!(r#"{{{protocol}, "id": 5, {call}}}"#)), "id: invalid type: integer `5`, expected a string");
    starts(
        error(&format!(r#"{{{protocol}, "id": "a", "call": {{"function": [], "version": "1"}}}}"#)),
        "call.function: ",
    );
    starts(error(&format!(r#"{{{protocol}, "id": "a"}}"#)), "missing field `call`");
    starts(error(&format!(r#"{{{protocol}, "id": "a", {call}, "extensions": {{}}}}"#)), "extensions: ");
    starts(error(&format!(r#"{{{protocol}, "id": "a", {call}}} {{}}"#)), "trailing characters");
    starts(error(&format!(r#"{{{protocol}, "id": "a", "id": "b", {call}}}"#)), "duplicate field `id`");
    starts(error(""), "EOF");
    starts(error("\u{0}"), "expected value");
    let other = error(&format!(r#"{{"protocol": {{"name": "mesh", "version": "2.0.0"}}, "id": "a", {call}}}"#));
    assert_eq!(other, r#"protocol is "mesh" "2.0.0", it must be "mesh" "0.1.0""#);
    let huge = format!(r#"{{{protocol}, "id": "a", "call": {{"function": "f", "version": "1", "arguments": 1e999}}}}"#);
    starts(error(&huge), "call.arguments: number out of range");
}

#[test]
fn deep_nesting_is_an_error() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let document = json!({
        "protocol": { "name": "mesh", "version": "0.1.0" },
        "id": "a",
        "call": { "function": "f", "version": "1", "arguments": 0 },
    });
    let text = document.to_string().replace(r#""arguments":0"#, &format!(r#""arguments":{deep}"#));
    assert!(matches!(Request::from_json(text.as_bytes()), Err(ReadError::Document { .. })));
    assert!(Request::from_json(deep.as_bytes()).is_err());
}

#[test]
fn malformed_responses_are_errors_or_plain_refusals() {
    let answer = |errors: Value, meta: Value| {
        let document = json!({
            "protocol": { "name": "mesh", "version": "0.1.0" },
            "id": "a",
            "result": null,
            "errors": errors,
            "meta": meta,
        });
        Response::from_json(document.to_string().as_bytes())
    };
    let usage = |used: Value, unit: &str| {
        let duration = json!({ "value": 1, "unit": unit });
        json!({ "rate_limit": { "limit": 5, "used": used, "remaining": 5, "window": duration, "resets_in": duration } })
    };
    let error = |meta| answer(json!([]), meta).unwrap().meta_error().unwrap().to_string();
    assert!(error(usage(json!(-1), "hour")).starts_with("meta.rate_limit.used: "));
    assert!(error(usage(json!(1e30), "hour")).starts_with("meta.rate_limit.used: "));
    let unit = error(usage(json!(1), "fortnight"));
    assert!(unit.starts_with("meta.rate_limit.resets_in") && unit.contains("`fortnight`"), "{unit}");
    assert!(error(json!({ "duration": { "value": u64::MAX, "unit": "hour" } })).contains("exceeds the maximum"));

    let refused = json!([{ "code": "RATE_LIMITED", "message": "", "retryable": true, "details": { "limit": "many" } }]);
    let answer = answer(refused, json!({})).unwrap();
    assert!(answer.rate_limited().unwrap_err().to_string().starts_with("details.limit: "));
    assert_eq!(answer.failure(), Some(damper::retry::Failure::THROTTLED), "a refusal without a readable wait");
    assert_eq!(RateLimited::of(&MeshError::new("OTHER", "")), Ok(None));
}

#[test]
fn usage_needs_each_of_its_members() {
    let second = json!({ "value": 1, "unit": "second" });
    let usage = json!({ "limit": 5, "used": 1, "remaining": 4, "window": second, "resets_in": second });
    let error = |usage: &Value| {
        let document = json!({ "meta": { "rate_limits": { "user": usage } } });
        damper::mesh::Fragment::from_json(document.to_string().as_bytes()).map_err(|error| error.to_string())
    };
    assert!(error(&usage).is_ok());
    for member in ["limit", "used", "remaining", "window", "resets_in"] {
        let mut less = usage.clone();
        less.as_object_mut().unwrap().remove(member);
        let text = error(&less).unwrap_err();
        assert!(text.starts_with(&format!("meta.rate_limits.user: missing field `{member}`")), "{text}");
    }
    for member in ["limit", "used", "window", "retry_after"] {
        let mut details = json!({ "limit": 1, "used": 1, "window": second, "retry_after": second });
        details.as_object_mut().unwrap().remove(member);
        let error = MeshError::new("RATE_LIMITED", "").details(details);
        assert_eq!(RateLimited::of(&error).is_ok(), member == "retry_after", "{member}: refusals may have no wait");
    }
}

/// A form that serde's derived readers accept for variants too, and other readers of Mesh reject.
#[test]
fn objects_are_no_names() {
    let hour = json!({ "value": 1, "unit": { "hour": null } });
    let read = |meta: Value| {
        let text = json!({ "meta": meta }).to_string();
        damper::mesh::Fragment::from_json(text.as_bytes()).unwrap_err().to_string()
    };
    let error = read(json!({ "duration": hour }));
    assert!(error.starts_with("meta.duration.unit: invalid type: map, expected a string"), "{error}");
    let limit = json!({ "scope": { "user": null }, "limit": 1, "window": { "value": 1, "unit": "hour" } });
    let answer = Response::ok("a", json!({ "service": "f", "limits": { "rate_limits": [limit] } }));
    let error = answer.capabilities().unwrap_err().to_string();
    assert!(error.starts_with("result.limits.rate_limits[0].scope: invalid type: map, expected a string"), "{error}");
    let error = MeshError::new("RATE_LIMITED", "").details(json!({ "limit": 1, "used": 1, "window": hour }));
    assert!(RateLimited::of(&error).is_err());
}

/// Values that a member of a request may have instead of a valid one.
fn hostile_values() -> Vec<Value> {
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let texts = ["", "\u{0}", "\u{202e}", "mesh", "second"].map(Value::from);
    let numbers = [json!(-1), json!(0), json!(1.5), json!(1e308), json!(u64::MAX), json!(i64::MIN)];
    let others = [Value::Null, json!(true), json!([]), json!({}), nested(100), nested(1_000)];
    texts.into_iter().chain(numbers).chain(others).chain([json!("x".repeat(2_000))]).collect()
}

#[tokio::test]
async fn hostile_requests_get_responses_over_http() {
    let clock = std::sync::Arc::new(damper::ManualClock::new());
    let address = serve_mesh(Scopes::none_with_clock(clock), |_| std::future::ready(Ok(json!("served")))).await;
    let request = json!({
        "protocol": { "name": "mesh", "version": "0.1.0" },
        "id": "req_1",
        "call": { "function": "f", "version": "1", "arguments": {} },
        "extensions": [{ "urn": "urn:mesh:ext:deadline", "options": { "value": 30, "unit": "second" } }],
    });
    let members = [
        "",
        "/protocol",
        "/protocol/name",
        "/protocol/version",
        "/id",
        "/call",
        "/call/function",
        "/call/version",
        "/call/arguments",
        "/extensions",
        "/extensions/0",
        "/extensions/0/urn",
        "/extensions/0/options",
        "/extensions/0/options/value",
        "/extensions/0/options/unit",
    ];
    let mut counted = [0, 0];
    for member in members {
        for value in hostile_values() {
            let mut request = request.clone();
            *request.pointer_mut(member).unwrap() = value.clone();
            let (status, _, answer) = post(address, request.to_string()).await;
            let is_served = status.as_u16() == 200;
            counted[usize::from(is_served)] += 1;
            let code = &answer["errors"][0]["code"];
            let expected = if is_served { Value::Null } else { json!("INVALID_REQUEST") };
            assert_eq!((status.as_u16(), code), (if is_served { 200 } else { 400 }, &expected), "{member}: {value}");
            assert_eq!(answer["result"] == "served", is_served, "{member}: {value}");
            let length = answer["errors"][0]["message"].as_str().unwrap_or_default().len();
            assert!(length < 400, "{member}: {length} bytes for {value}");
        }
    }
    assert!(counted[0] > 150 && counted[1] > 20, "{counted:?}");
}

#[test]
fn null_counts_as_absent() {
    let answer = json!({
        "protocol": { "name": "mesh", "version": "0.1.0" },
        "id": "a", "result": 7, "errors": null, "meta": null, "extensions": null,
    });
    let answer = Response::from_json(answer.to_string().as_bytes()).unwrap();
    assert_eq!(answer.meta_error(), None);
    assert_eq!(answer.into_result().unwrap(), json!(7));
    let answer = json!({
        "protocol": { "name": "mesh", "version": "0.1.0" }, "id": "a", "meta": { "rate_limit": null, "rate_limits": null },
    });
    let answer = Response::from_json(answer.to_string().as_bytes()).unwrap();
    assert_eq!(answer.meta_error(), None);
    let request = json!({
        "protocol": { "name": "mesh", "version": "0.1.0" },
        "id": "a", "call": { "function": "mesh.capabilities", "version": "1" }, "extensions": null,
    });
    let request = Request::from_json(request.to_string().as_bytes()).unwrap();
    assert_eq!((request.call.arguments.is_null(), request.extension("urn:x")), (true, None));
}

#[test]
fn wait_of_a_refusal_is_read_despite_malformed_details() {
    let refusal = |scope: &str| {
        let wait = json!({ "value": 45, "unit": "second" });
        let details = json!({ "limit": 1, "used": 1, "window": wait, "retry_after": wait, "scope": scope });
        Response::error(None, MeshError::new("RATE_LIMITED", "").retryable().details(details))
    };
    let limited = refusal("tenant").rate_limited().unwrap().unwrap();
    assert_eq!(
        (limited.scope, limited.retry_after.unwrap().value()),
        (None, 45),
        "the scope of a later version is unknown"
    );
    let mut refusal = refusal("user");
    refusal.errors[0].details["limit"] = json!("many");
    assert!(refusal.rate_limited().is_err());
    let wait = std::time::Duration::from_secs(45);
    assert_eq!(refusal.failure(), Some(damper::retry::Failure::THROTTLED.retry_after(Some(wait))));
}
