//! The documents on the guide's page are those that its service sends.

use crate::support::{SharedClock, post, serve_mesh};
use damper::mesh::{Request, Response, Scopes};
use damper::{ManualClock, Quota};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The page's JSON documents, in order.
fn documents() -> Vec<Value> {
    let page = include_str!("../../../../src/guide/mesh.rs").lines().filter_map(|line| line.strip_prefix("//!"));
    let page: Vec<_> = page.collect();
    let blocks = page.split(|line| line.trim() == "```json").skip(1);
    let texts = blocks.map(|block| block.iter().take_while(|line| line.trim() != "```").copied().collect::<String>());
    texts.map(|text| serde_json::from_str(&text).unwrap()).collect()
}

#[tokio::test]
async fn documents_of_the_guide_are_those_on_the_wire() {
    let [request, served, refused] = documents().try_into().unwrap();
    let clock: SharedClock = Arc::new(ManualClock::new());
    let scopes = Scopes::with_clock(Arc::clone(&clock))
        .service(Quota::per_minute(1_000))
        .function("orders.create", Quota::per_minute(100));
    let scopes = Arc::new(scopes.build().unwrap());
    let time = Arc::clone(&clock);
    let address = serve_mesh(Arc::clone(&scopes), move |call| {
        time.advance(Duration::from_millis(20));
        std::future::ready(Ok(json!({ "order_id": 456, "sku": call.arguments()["sku"] })))
    })
    .await;
    let (status, _, answer) = post(address, request.to_string()).await;
    assert_eq!((status.as_u16(), answer), (200, served.clone()));
    clock.advance(Duration::from_mins(1));
    scopes.function_limiter("orders.create").unwrap().check_n("", 100).unwrap();
    let (status, retry_after, mut answer) = post(address, request.to_string()).await;
    // The response also has a report of the deadline, which the page omits.
    answer.as_object_mut().unwrap().remove("extensions").unwrap();
    assert_eq!((status.as_u16(), retry_after.as_deref(), answer), (429, Some("1"), refused.clone()));

    Request::from_json(request.to_string().as_bytes()).unwrap();
    for answer in [served, refused] {
        Response::from_json(answer.to_string().as_bytes()).unwrap();
    }
}
