//! The requests of the example, and the responses that they must get.

use super::services::{Fallible, Http, Received, SharedClock, SkipTime, http, inventory, orders, skipping_client};
use super::wire::{Answer, post, post_quietly};
use damper_core::ManualClock;
use damper_mesh::{Request, Response};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The protocol's own document for a propagated deadline.
const PROPAGATED: &str = include_str!("../../tests/mesh/vectors/deadline_propagated.json");

/// The result of a check.
pub(crate) struct Check {
    pub(crate) what: &'static str,
    pub(crate) passed: bool,
}

/// The two services, and the client of both.
struct Exchanges {
    http: Http,
    orders: SocketAddr,
    clock: SharedClock,
    checks: Vec<Check>,
}

/// Runs all exchanges, and returns the checks.
pub(crate) async fn run() -> Fallible<Vec<Check>> {
    let clock = Arc::new(ManualClock::new());
    let received = Received::default();
    let inventory = inventory(&clock, &received).await?;
    let orders = orders(&clock, inventory).await?;
    let mut exchanges = Exchanges { http: http(), orders, clock, checks: Vec::new() };
    exchanges.capabilities().await?;
    exchanges.usage_and_warnings().await?;
    exchanges.refusal().await?;
    exchanges.deadlines().await?;
    exchanges.propagation(&received).await?;
    exchanges.unreadable().await?;
    exchanges.client().await?;
    Ok(exchanges.checks)
}

fn call(id: &str, function: &str, arguments: Value) -> Value {
    let document = Request::new(id, function, "1", arguments).to_json();
    serde_json::from_slice(&document).unwrap_or_default()
}

fn duration(value: u64, unit: &str) -> Value {
    json!({ "value": value, "unit": unit })
}

fn with_deadline(mut request: Value, options: &Value) -> Value {
    request["extensions"] = json!([{ "urn": "urn:mesh:ext:deadline", "options": options }]);
    request
}

impl Exchanges {
    async fn post(&self, document: &Value) -> Fallible<Answer> {
        post(&self.http, self.orders, &document.to_string()).await
    }

    fn check(&mut self, what: &'static str, passed: bool) {
        self.checks.push(Check { what, passed });
    }

    async fn capabilities(&mut self) -> Fallible<()> {
        println!("== the limits in force");
        let answer = self.post(&call("req_limits", "mesh.capabilities", json!({}))).await?;
        let expected = json!({
            "service": "orders-api",
            "limits": { "rate_limits": [
                { "scope": "service", "limit": 1_000, "window": duration(1, "minute") },
                { "scope": "function", "function": "orders.create", "limit": 100, "window": duration(1, "minute") },
            ] },
        });
        self.check("capabilities name the limits in force", answer.document["result"] == expected);
        Ok(())
    }

    async fn usage_and_warnings(&mut self) -> Fallible<()> {
        println!("== usage of both scopes, and warnings");
        let answer = self.post(&call("req_1", "orders.create", json!({ "takes_ms": 89 }))).await?;
        let scopes = &answer.document["meta"]["rate_limits"];
        let used = (&scopes["function"]["used"], &scopes["service"]["used"]);
        self.check("a response reports both limits", used == (&json!(1), &json!(1)));
        let took = &answer.document["meta"]["duration"];
        self.check("a response reports the duration of the call", *took == duration(89, "millisecond"));
        for _ in 0..88 {
            post_quietly(&self.http, self.orders, &call("req_2", "orders.create", json!({})).to_string()).await?;
        }
        let warning = |answer: &Answer| answer.document["meta"]["rate_limits"]["function"]["warning"].clone();
        let answer = self.post(&call("req_90", "orders.create", json!({}))).await?;
        self.check("at 10 % left a response warns", warning(&answer) == "Approaching rate limit");
        for _ in 0..7 {
            post_quietly(&self.http, self.orders, &call("req_91", "orders.create", json!({})).to_string()).await?;
        }
        let answer = self.post(&call("req_98", "orders.create", json!({}))).await?;
        self.check("at 2 % left it warns again", warning(&answer) == "Rate limit nearly exhausted");
        Ok(())
    }

    async fn refusal(&mut self) -> Fallible<()> {
        println!("== a refusal");
        for _ in 0..2 {
            post_quietly(&self.http, self.orders, &call("req_99", "orders.create", json!({})).to_string()).await?;
        }
        self.clock.advance(Duration::from_millis(36_911)); // 37 s after the first call
        let answer = self.post(&call("req_789", "orders.create", json!({}))).await?;
        let error = json!({
            "code": "RATE_LIMITED",
            "message": "Rate limit exceeded for orders.create",
            "retryable": true,
            "details": {
                "limit": 100,
                "used": 100,
                "window": duration(1, "minute"),
                "retry_after": duration(23, "second"),
                "scope": "function",
                "function": "orders.create",
            },
        });
        self.check("the refusal names limit, wait and scope", answer.document["errors"] == json!([error]));
        let http = (answer.status.as_u16(), answer.retry_after.as_deref());
        self.check("over HTTP it is 429 with Retry-After", http == (429, Some("23")));
        let answer = self.post(&call("req_790", "reports.generate", json!({}))).await?;
        let used = &answer.document["meta"]["rate_limit"]["used"];
        self.check("a refusal takes nothing from the other limit", *used == 101);
        Ok(())
    }

    async fn deadlines(&mut self) -> Fallible<()> {
        println!("== deadlines");
        let request =
            with_deadline(call("req_123", "reports.generate", json!({ "takes_ms": 127 })), &duration(30, "second"));
        let answer = self.post(&request).await?;
        let data = json!({
            "specified": duration(30, "second"),
            "elapsed": duration(127, "millisecond"),
            "remaining": duration(29_873, "millisecond"),
            "utilization": 0.004,
        });
        self.check("a deadline that is met is reported", answer.document["extensions"][0]["data"] == data);
        let request =
            with_deadline(call("req_125", "reports.generate", json!({ "takes_ms": 30_001 })), &duration(30, "second"));
        let answer = self.post(&request).await?;
        let details = json!({ "deadline": duration(30, "second"), "elapsed": duration(30_001, "millisecond") });
        self.check("no result follows a deadline", answer.document["result"].is_null());
        self.check("the error has the elapsed time", answer.document["errors"][0]["details"] == details);
        self.check("over HTTP it is 504", answer.status.as_u16() == 504);
        let past = json!({ "value": "2024-03-15T14:30:00Z", "unit": "iso8601" });
        let answer = self.post(&with_deadline(call("req_124", "reports.generate", json!({})), &past)).await?;
        let error = &answer.document["errors"][0];
        let is_echoed = error["code"] == "DEADLINE_EXCEEDED" && error["details"]["deadline"] == past;
        self.check("an instant in the past is exceeded at once, and echoed unchanged", is_echoed);
        let answer =
            self.post(&with_deadline(call("req_126", "reports.generate", json!({})), &duration(0, "second"))).await?;
        let is_refused = answer.status.as_u16() == 400 && answer.document["id"] == "req_126";
        self.check("a deadline of 0 seconds is malformed", is_refused);
        Ok(())
    }

    async fn propagation(&mut self, received: &Received) -> Fallible<()> {
        println!("== a deadline over two hops");
        let request =
            with_deadline(call("req_127", "orders.reserve", json!({ "takes_ms": 1_000 })), &duration(5, "second"));
        let answer = self.post(&request).await?;
        let downstream = received.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        println!("  orders-api > inventory {downstream}\n");
        let expected: Value = serde_json::from_str(PROPAGATED)?;
        self.check("the second hop gets the remaining time of the first", downstream == expected);
        self.check("the result returns over both hops", answer.document["result"]["in_stock"] == 7);
        Ok(())
    }

    async fn unreadable(&mut self) -> Fallible<()> {
        println!("== a document that is not Mesh");
        for text in [
            "{",
            r#"{"protocol": {"name": "rpc", "version": "2.0"}, "id": "req_1", "call": {"function": "f", "version": "1", "arguments": {}}}"#,
        ] {
            let answer = post(&self.http, self.orders, text).await?;
            self.check("it gets 400", answer.status.as_u16() == 400);
        }
        Ok(())
    }

    async fn client(&mut self) -> Fallible<()> {
        println!("== a client slows down, and backs off");
        self.clock.advance(Duration::from_millis(51_872)); // two minutes after the first call
        let sleep = SkipTime::on(&self.clock);
        let client = skipping_client(self.orders, sleep.clone())?;
        let create = |id| Request::new(id, "orders.create", "1", json!({}));
        let mut answered = 0;
        for _ in 0..91 {
            answered += u32::from(client.call(create("req_paced")).await?.errors.is_empty());
        }
        self.check("the client does not wait while more than 10 % is left", sleep.take().is_empty() && answered == 91);
        client.call(create("req_paced")).await?;
        let waits = sleep.take();
        println!("  waits with 9 of 100 left: {waits:?}");
        self.check("with 9 left the client waits a ninth of the time", waits == [Duration::from_secs(60) / 9]);
        // Another client takes the remaining tokens.
        for _ in 0..8 {
            post_quietly(&self.http, self.orders, &call("req_other", "orders.create", json!({})).to_string()).await?;
        }
        let answer: Response = client.call(create("req_refused")).await?;
        let waits = sleep.take();
        println!("  waits, the last of them after a refusal: {waits:?}");
        let expected = [Duration::from_millis(6_750), Duration::from_secs(47)];
        self.check(
            "after a refusal the client waits as long as stated, and is served",
            answer.errors.is_empty() && waits == expected,
        );
        Ok(())
    }
}
