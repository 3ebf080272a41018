//! Before servers and clients of HTTP, over real sockets.

use crate::web::{Client, Upstream, hello, serve};
use crate::{Calls, HOUR, MIDNIGHT, TimeOfDay, call};
use bytes::Bytes;
use damper::gate::{Ask, Refusal};
use damper::http::{ClientGate, ConcurrencyLayer, refusal_response};
use damper::tower::GateLayer;
use damper::{CallError, is_refusal};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;
use tower::Layer;

/// Checks the whole response to a request at midnight.
fn assert_closed(response: &Response<Bytes>) {
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("retry-after"), Some("28800"));
    assert_eq!(header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(header("cache-control"), Some("no-store"));
    assert_eq!(response.body(), "closed, opens at 8:00\n");
}

#[tokio::test]
async fn server_responds_503_until_the_hour_of_opening() {
    let (time, calls) = (TimeOfDay::default(), Calls::default());
    let (layer, counted) = (ConcurrencyLayer::new(time.gate()), calls.clone());
    let server = serve(move |_| {
        let calls = counted.clone();
        layer.layer(service_fn(move |_: Request<Incoming>| {
            calls.add();
            ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("welcome"))))
        }))
    })
    .await;
    for (served, mut client) in [Client::of(server).await, Client::http2(server).await].into_iter().enumerate() {
        time.set(MIDNIGHT);
        assert_closed(&client.get("/").await);
        time.set(Duration::from_secs(8 * 3_600 - 1));
        assert_eq!(client.get("/").await.headers()["retry-after"], "1");
        assert_eq!(calls.count(), served);
        time.set(8 * HOUR);
        let response = client.get("/").await;
        assert_eq!((response.status(), calls.count()), (StatusCode::OK, served + 1));
        assert_eq!(response.body(), "welcome");
    }
}

#[tokio::test]
async fn health_checks_are_served_while_the_gate_is_closed() {
    let layer = ConcurrencyLayer::new(TimeOfDay::default().gate()).exempt(|head| head.uri.path() == "/healthz");
    let server = serve(move |_| layer.layer(service_fn(hello))).await;
    let mut client = Client::of(server).await;
    assert_eq!(client.get("/healthz").await.status(), StatusCode::OK);
    assert_closed(&client.get("/").await);
}

/// A handler that asks the gate itself, for a part of its work.
#[tokio::test]
async fn handler_responds_with_the_refusal_as_the_layer_does() {
    let gate = TimeOfDay::default().gate();
    let server = serve(move |_| {
        let gate = gate.clone();
        service_fn(move |request: Request<Incoming>| {
            ready(Ok::<_, Infallible>(match gate.ask(&request).into_result() {
                Ok(()) => Response::new(String::from("welcome")),
                Err(closed) => refusal_response(closed),
            }))
        })
    })
    .await;
    assert_closed(&Client::of(server).await.get("/").await);
}

#[tokio::test]
async fn client_sends_nothing_while_the_gate_is_closed() {
    let (time, upstream) = (TimeOfDay::default(), Upstream::start().await);
    let transport = legacy::Client::builder(TokioExecutor::new()).build_http();
    let mut client = GateLayer::at(ClientGate::new(time.gate())).layer(transport);
    let error = call(&mut client, upstream.request()).await.unwrap_err();
    assert!(is_refusal(&error));
    let CallError::Refused(closed) = error else { panic!("{error}") };
    assert_eq!((closed.retry_after(), upstream.hits()), (Some(8 * HOUR), 0));
    time.set(8 * HOUR);
    let response = call(&mut client, upstream.request()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "upstream");
    assert_eq!(upstream.hits(), 1);
}
