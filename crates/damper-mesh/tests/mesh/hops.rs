//! Deadlines across two services, from the first request to the last response, over real sockets.

use crate::support::{SharedClock, Timer, http, look_again, post, serve_mesh};
use bytes::Bytes;
use damper::mesh::{Client, ClientBuilder, IncomingCall, MeshError, Request, Scopes, SpecifiedDeadline};
use damper::retry::RetryBudget;
use damper::{ManualClock, Retry};
use http_body_util::Full;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Http = hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>;

type Call = IncomingCall<SharedClock>;

/// Two services: the first works for a while and calls the second.
struct Hops {
    first: SocketAddr,
    /// The requests that the second service received.
    asked: Arc<Mutex<Vec<Value>>>,
}

fn client(address: SocketAddr, clock: &SharedClock) -> Client<Http, Timer, RetryBudget, SharedClock> {
    let retry = Retry::with_clock(5, Arc::clone(clock), 1).budget(RetryBudget::DEFAULT);
    let uri = format!("http://{address}/").parse().unwrap();
    ClientBuilder::sleeping_by(http(), uri, look_again as Timer).retry(retry).build()
}

/// The first service works for `first`, the second for `second`.
async fn hops(first: Duration, second: Duration) -> Hops {
    let clock: SharedClock = Arc::new(ManualClock::new());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, time) = (Arc::clone(&asked), Arc::clone(&clock));
    let inventory = serve_mesh(Scopes::none_with_clock(Arc::clone(&clock)), move |call: Call| {
        log.lock().unwrap().push(serde_json::from_slice(&call.request().to_json()).unwrap());
        time.advance(second);
        std::future::ready(Ok(json!({ "in_stock": 7 })))
    })
    .await;
    let inventory = client(inventory, &clock);
    let time = Arc::clone(&clock);
    let orders = serve_mesh(Scopes::none_with_clock(clock), move |call: Call| {
        let (time, inventory) = (Arc::clone(&time), inventory.clone());
        async move {
            time.advance(first);
            let request = Request::new("req_downstream", "inventory.check", "1", json!({ "sku": "WIDGET-01" }));
            let answer = inventory.call_within(call.deadline(), request).await?;
            answer.into_result().map_err(MeshError::from_downstream)
        }
    });
    Hops { first: orders.await, asked }
}

impl Hops {
    /// Calls the first service. Returns the status, the response, and the second service's requests.
    async fn ask(&self, options: Option<&Value>) -> (u16, Value, Vec<Value>) {
        let mut request = Request::new("req_1", "orders.reserve", "1", json!({}));
        if let Some(options) = options {
            request = request.with_deadline(&SpecifiedDeadline::from_value(options).unwrap());
        }
        let (status, _, answer) = post(self.first, request.to_json()).await;
        (status.as_u16(), answer, std::mem::take(&mut *self.asked.lock().unwrap()))
    }
}

fn duration(value: u64, unit: &str) -> Value {
    json!({ "value": value, "unit": unit })
}

/// The deadlines of the requests.
fn deadlines(asked: &[Value]) -> Vec<Value> {
    asked.iter().map(|request| request["extensions"][0]["options"].clone()).collect()
}

#[tokio::test]
async fn second_service_gets_the_remaining_time_of_the_first() {
    let hops = hops(Duration::from_secs(1), Duration::from_millis(500)).await;
    let (status, answer, asked) = hops.ask(Some(&duration(5, "second"))).await;
    assert_eq!((status, &answer["result"]), (200, &json!({ "in_stock": 7 })));
    let expected: Value = serde_json::from_str(include_str!("vectors/deadline_propagated.json")).unwrap();
    assert_eq!(asked, [expected], "the protocol's own document");
    let report = &answer["extensions"][0]["data"];
    assert_eq!((&report["specified"], &report["elapsed"]), (&duration(5, "second"), &duration(1_500, "millisecond")));
    let (_, answer, asked) = hops.ask(None).await;
    assert_eq!((answer.get("extensions"), asked[0].get("extensions")), (None, None), "no deadline is sent without one");
}

#[tokio::test]
async fn rest_is_sent_in_the_largest_exact_unit() {
    let hops = hops(Duration::from_millis(1_001), Duration::ZERO).await;
    for (specified, sent) in [
        (duration(5, "second"), duration(3_999, "millisecond")),
        (duration(61_001, "millisecond"), duration(1, "minute")),
        (duration(1, "hour"), duration(3_598_999, "millisecond")),
    ] {
        let (_, _, asked) = hops.ask(Some(&specified)).await;
        assert_eq!(deadlines(&asked), [sent], "{specified}");
    }
}

#[tokio::test]
async fn instant_reaches_the_second_service_as_it_came() {
    let hops = hops(Duration::from_secs(1), Duration::ZERO).await;
    for text in ["2199-03-15T14:30:00Z", "2199-03-15T15:30:00.250+01:00"] {
        let instant = json!({ "value": text, "unit": "iso8601" });
        let (status, answer, asked) = hops.ask(Some(&instant)).await;
        assert_eq!((status, deadlines(&asked)), (200, vec![instant.clone()]));
        assert_eq!(answer["extensions"][0]["data"]["specified"], instant, "the report repeats it");
    }
    let (_, _, asked) = hops.ask(Some(&duration(2, "hour"))).await;
    assert_eq!(deadlines(&asked)[0]["unit"], "iso8601", "more than an hour is left");
}

#[tokio::test]
async fn deadline_that_passes_in_the_second_service_ends_both() {
    let hops = hops(Duration::from_secs(1), Duration::from_secs(4)).await;
    let (status, answer, asked) = hops.ask(Some(&duration(5, "second"))).await;
    assert_eq!((status, asked.len()), (504, 1));
    assert!(answer["result"].is_null());
    let details = json!({ "deadline": duration(5, "second"), "elapsed": duration(5, "second") });
    assert_eq!(answer["errors"][0]["details"], details, "as the client specified it");
}

#[tokio::test]
async fn spent_deadline_is_not_sent_on() {
    let hops = hops(Duration::from_secs(5), Duration::ZERO).await;
    let (status, _, asked) = hops.ask(Some(&duration(5, "second"))).await;
    assert_eq!((status, asked), (504, vec![]));
}
