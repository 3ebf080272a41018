//! A server with a soft and a hard quota for each client.
//!
//! Beyond the soft one requests are marked, and served last. Beyond the hard one they are refused.

use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::{Extension, Router, routing::get};
use damper::Quota;
use damper::concurrency::{Admission, Criticality, LimitBounds};
use damper::http::{CallClass, Marks, RateLimitLayer, server_stack};
use std::error::Error;
use std::net::SocketAddr;

const OVER_LIMIT: HeaderName = HeaderName::from_static("x-over-limit");

async fn page(marks: Option<Extension<Marks>>, class: Option<Extension<CallClass>>, headers: HeaderMap) -> String {
    let class = class.map(|Extension(class)| class.criticality()).unwrap_or_default();
    let listed = headers.get(OVER_LIMIT).and_then(|list| list.to_str().ok()).unwrap_or("none");
    format!("{class}, {}: {listed}", if marks.is_some() { "marked" } else { "not marked" })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let soft = RateLimitLayer::per_client(Quota::per_hour(60).burst(2)).named("soft")?;
    let stack = server_stack()
        .client_limit_layer(RateLimitLayer::per_client(Quota::per_hour(600).burst(4)).named("hard")?)
        .limit_layer(soft.marking().header(OVER_LIMIT).at_most(Criticality::Sheddable))
        .admission(Admission::new(LimitBounds::DEFAULT)); // serves marked requests last
    let app = Router::new().route("/", get(page)).layer(stack);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    // Adds the peer's address to each request.
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });

    let client = reqwest::Client::new();
    for expected in ["critical, not marked: none", "critical, not marked: none", "sheddable, marked: \"soft\";t=60"] {
        let answer = client.get(&url).header(OVER_LIMIT, "made up").send().await?.text().await?;
        println!("{answer}");
        assert_eq!(answer, expected);
    }
    assert!(client.get(&url).send().await?.text().await?.starts_with("sheddable, marked"));
    let refused = client.get(&url).send().await?;
    println!("{}", refused.status());
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    Ok(())
}
