//! Documents that are malformed: each gets an error that names what is wrong, and none panics.

use damper::mesh::{DeadlineError, MeshError, RateLimited, ReadError, Request, Response};
use serde_json::{Value, json};

/// The error of a request with these options of a deadline.
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
    let mut request = request.with_deadline(&damper::mesh::SpecifiedDeadline::after(std::time::Duration::from_secs(1)));
    request.extensions.push(request.extensions[0].clone());
    assert_eq!(request.deadline(), Err(DeadlineError::Repeated));
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
fn malformed_answers_are_errors_or_plain_refusals() {
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
    assert_eq!(answer.failure(), Some(damper::retry::Failure::THROTTLED), "a refusal without a wait that can be read");
    assert_eq!(RateLimited::of(&MeshError::new("OTHER", "")), Ok(None));
}

#[test]
fn null_is_as_good_as_absent() {
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
    assert_eq!((request.call.arguments.is_null(), request.extensions.len()), (true, 0));
}

#[test]
fn wait_of_a_refusal_is_read_beside_malformed_details() {
    let refusal = |scope: &str| {
        let wait = json!({ "value": 45, "unit": "second" });
        let details = json!({ "limit": 1, "used": 1, "window": wait, "retry_after": wait, "scope": scope });
        Response::error(None, MeshError::new("RATE_LIMITED", "").retryable().details(details))
    };
    let limited = refusal("tenant").rate_limited().unwrap().unwrap();
    assert_eq!((limited.scope, limited.retry_after.unwrap().value()), (None, 45), "a scope of a later version");
    let mut refusal = refusal("user");
    refusal.errors[0].details["limit"] = json!("many");
    assert!(refusal.rate_limited().is_err());
    let wait = std::time::Duration::from_secs(45);
    assert_eq!(refusal.failure(), Some(damper::retry::Failure::THROTTLED.retry_after(Some(wait))));
}
