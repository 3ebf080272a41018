//! Sends a document, and prints the exchange.

use super::services::{Fallible, Http};
use http_body_util::{BodyExt, Full};
use hyper::header::RETRY_AFTER;
use hyper::{Request, StatusCode};
use serde_json::Value;
use std::net::SocketAddr;

/// The response.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    pub(crate) document: Value,
}

/// Posts a text unchanged, and prints both sides.
pub(crate) async fn post(http: &Http, address: SocketAddr, text: &str) -> Fallible<Answer> {
    println!("> POST {text}");
    let answer = post_quietly(http, address, text).await?;
    let after = answer.retry_after.as_ref().map_or(String::new(), |seconds| format!(" (Retry-After: {seconds})"));
    println!("< {}{after} {}\n", answer.status.as_u16(), answer.document);
    Ok(answer)
}

/// Posts a text unchanged.
pub(crate) async fn post_quietly(http: &Http, address: SocketAddr, text: &str) -> Fallible<Answer> {
    let request = Request::post(format!("http://{address}/")).header("x-service", "web");
    let response = http.request(request.body(Full::from(text.to_owned()))?).await?;
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let status = response.status();
    let document = serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
    Ok(Answer { status, retry_after, document })
}
