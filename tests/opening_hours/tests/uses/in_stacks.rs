//! In the stacks of clients and servers, over real sockets.

use crate::before_grpc::assert_closed;
use crate::grpc::echo::echo_client::EchoClient;
use crate::grpc::{self, channel, message};
use crate::web::{self, Client, Upstream};
use crate::{Calls, HOUR, MIDNIGHT, TimeOfDay, call, closed_in};
use bytes::Bytes;
use damper::breaker::State;
use damper::gate::Refusal;
use damper::http::{
    BoxedClient, ClientConcurrencyLayer, ClientGate, ConcurrencyLayer, RateLimitLayer, StackError, StackPart,
    client_stack, server_stack,
};
use damper::tonic::{AtTrailers, Grpc};
use damper::tower::GateLayer;
use damper::{BreakerConfig, CircuitBreaker, ManualClock, Quota, RateLimiter, Retry, is_refusal};
use http::{Request, Response, StatusCode};
use http_body_util::{Empty, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use tonic::transport::Server;

type Transport = legacy::Client<HttpConnector, Empty<Bytes>>;

fn transport() -> Transport {
    legacy::Client::builder(TokioExecutor::new()).build_http()
}

/// Checks that a client of HTTP sends nothing while it is closed, and that its error names the part.
async fn assert_part(time: &TimeOfDay, mut client: BoxedClient<Empty<Bytes>>, part: StackPart, message: &str) {
    let upstream = Upstream::start().await;
    time.set(MIDNIGHT);
    let error: StackError = call(&mut client, upstream.request()).await.unwrap_err();
    assert_eq!((error.part(), error.retry_after()), (part, Some(8 * HOUR)), "{error:#}");
    assert_eq!(format!("{error:#}"), format!("{message}: closed, opens at 8:00"));
    assert!(error.is_refusal() && is_refusal(&error));
    assert_eq!(closed_in(&error).unwrap().retry_after(), Some(8 * HOUR));
    assert_eq!(upstream.hits(), 0);
    time.set(8 * HOUR);
    assert_eq!(call(&mut client, upstream.request()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn refusal_in_a_clients_stack_names_the_part_and_the_wait() {
    let time = TimeOfDay::default();
    let (gate, stack) = (|| time.gate(), client_stack());
    let layer = || GateLayer::at(ClientGate::new(gate()));
    let (breaker, throttle) = ("call refused by the breaker", "call refused by the throttle");
    let (limit, concurrency) = ("call refused by the rate limit", "call refused by the concurrency limit");

    assert_part(&time, stack.breakers(gate()).boxed(transport()), StackPart::Breaker, breaker).await;
    assert_part(&time, stack.breaker_layer(layer()).boxed(transport()), StackPart::Breaker, breaker).await;
    assert_part(&time, stack.throttles(gate()).boxed(transport()), StackPart::Throttle, throttle).await;
    assert_part(&time, stack.throttle_layer(layer()).boxed(transport()), StackPart::Throttle, throttle).await;
    assert_part(&time, stack.limiter(gate()).boxed(transport()), StackPart::Limit, limit).await;
    assert_part(&time, stack.limit_layer(layer()).boxed(transport()), StackPart::Limit, limit).await;
    let plain = GateLayer::new(gate());
    assert_part(&time, stack.limit_layer(plain).boxed(transport()), StackPart::Limit, limit).await;
    let in_flight = ClientConcurrencyLayer::new(gate());
    assert_part(&time, stack.concurrency_layer(in_flight).boxed(transport()), StackPart::Concurrency, concurrency)
        .await;
    assert_part(&time, stack.concurrency(gate()).boxed(transport()), StackPart::Concurrency, concurrency).await;
}

#[tokio::test]
async fn refusal_is_not_retried_and_is_no_failure_for_a_breaker_outside() {
    let (time, upstream) = (TimeOfDay::default(), Upstream::start().await);
    let config = BreakerConfig::builder().failure_threshold(1).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::new(config));
    let stack = client_stack()
        .breakers(Arc::clone(&breaker))
        .retry(Retry::new(3))
        .throttle_layer(GateLayer::at(ClientGate::new(time.gate())));
    let mut client = stack.boxed(transport());
    let error = call(&mut client, upstream.request()).await.unwrap_err();
    assert_eq!((error.part(), error.attempts()), (StackPart::Throttle, Some(1)));
    assert_eq!((breaker.state(), upstream.hits()), (State::Closed, 0));
}

#[tokio::test]
async fn refusal_in_a_clients_stack_of_grpc_is_a_status_with_the_wait() {
    let (time, upstream) = (TimeOfDay::default(), grpc::Upstream::default());
    let server = grpc::serve(Server::builder().add_service(upstream.echo()));
    let stack = || client_stack().protocol(Grpc::new()).retry(Retry::new(3));
    let layer = || GateLayer::at(ClientGate::new(time.gate()).completion(AtTrailers::new()));
    let (by_http, plain) = (GateLayer::at(ClientGate::new(time.gate())), GateLayer::new(time.gate()));
    let clients = [
        (StackPart::Breaker, EchoClient::new(stack().breakers(time.gate()).boxed(channel(server)))),
        (StackPart::Throttle, EchoClient::new(stack().throttles(time.gate()).boxed(channel(server)))),
        (StackPart::Throttle, EchoClient::new(stack().throttle_layer(layer()).boxed(channel(server)))),
        (StackPart::Limit, EchoClient::new(stack().limiter(time.gate()).boxed(channel(server)))),
        (StackPart::Limit, EchoClient::new(stack().limit_layer(layer()).boxed(channel(server)))),
        (StackPart::Limit, EchoClient::new(stack().limit_layer(by_http).boxed(channel(server)))),
        (StackPart::Limit, EchoClient::new(stack().limit_layer(plain).boxed(channel(server)))),
        (StackPart::Concurrency, EchoClient::new(stack().concurrency(time.gate()).boxed(channel(server)))),
    ];
    for (calls, (part, mut client)) in (1..).zip(clients) {
        time.set(MIDNIGHT);
        let status = client.unary(message("hello")).await.unwrap_err();
        assert_closed(&status);
        let error = StackError::find_in(&status).unwrap();
        assert_eq!((error.part(), error.retry_after()), (part, Some(8 * HOUR)), "{error:#}");
        assert!(error.is_refusal() && is_refusal(&status));
        assert_eq!(closed_in(&status).unwrap().retry_after(), Some(8 * HOUR));
        time.set(8 * HOUR);
        client.unary(message("hello")).await.unwrap();
        assert_eq!(upstream.hits(), calls);
    }
}

/// They have nothing between them, so they stand before one service.
#[tokio::test]
async fn the_outermost_gate_of_a_stack_that_refuses_is_named() {
    let (time, upstream) = (TimeOfDay::default(), Upstream::start().await);
    let breaker = Arc::new(CircuitBreaker::default());
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_hour(1), ManualClock::new()));
    let stack = client_stack().breakers(Arc::clone(&breaker)).throttles(time.gate()).limiter(Arc::clone(&limit));
    let mut client = stack.bulkhead(8).boxed(transport());
    let mut part = async || call(&mut client, upstream.request()).await.map_err(|error| error.part()).err();

    assert_eq!(part().await, Some(StackPart::Throttle));
    assert_eq!(limit.peek().remaining(), 1, "the gate is before the limit");
    time.set(8 * HOUR);
    assert_eq!((part().await, upstream.hits()), (None, 1));
    assert_eq!(part().await, Some(StackPart::Limit));
    breaker.force_open();
    assert_eq!(part().await, Some(StackPart::Breaker));
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn server_stack_responds_503_behind_its_limits() {
    let (time, calls) = (TimeOfDay::default(), Calls::default());
    let layer = ConcurrencyLayer::new(time.gate());
    let limit = RateLimiter::with_clock(Quota::per_hour(2), ManualClock::new());
    let stack = server_stack().limit_layer(RateLimitLayer::new(Arc::new(limit))).admission_layer(layer);
    let counted = calls.clone();
    let server = web::serve(move |_| {
        let calls = counted.clone();
        stack.service(service_fn(move |_: Request<Incoming>| {
            calls.add();
            ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("welcome"))))
        }))
    })
    .await;
    let mut client = Client::of(server).await;
    let response = client.get("/").await;
    assert_eq!((response.status(), calls.count()), (StatusCode::SERVICE_UNAVAILABLE, 0));
    assert_eq!(response.headers()["retry-after"], "28800");
    time.set(8 * HOUR);
    assert_eq!((client.get("/").await.status(), calls.count()), (StatusCode::OK, 1));
    // The refused request has cost a token, because the limit is outside.
    assert_eq!((client.get("/").await.status(), calls.count()), (StatusCode::TOO_MANY_REQUESTS, 1));
}

#[tokio::test]
async fn server_stack_of_grpc_is_unavailable() {
    let (time, upstream) = (TimeOfDay::default(), grpc::Upstream::default());
    let stack = server_stack().admission_layer(ConcurrencyLayer::new(time.gate()));
    let server = grpc::serve(Server::builder().layer(stack).add_service(upstream.echo()));
    let mut client = grpc::client(server);
    assert_closed(&client.unary(message("hello")).await.unwrap_err());
    assert_eq!(upstream.hits(), 0);
    time.set(8 * HOUR);
    client.unary(message("hello")).await.unwrap();
    assert_eq!(upstream.hits(), 1);
}
