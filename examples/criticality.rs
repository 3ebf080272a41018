//! A gateway that says how much each request counts, and a server that believes only the gateway.
//!
//! The class, the tenant and the deadline of a request go with the calls that are made for it.

use axum::http::{HeaderName, HeaderValue, Request, StatusCode};
use axum::{Extension, Router, routing::get};
use bytes::Bytes;
use damper::Deadline;
use damper::concurrency::{Admission, Criticality, LimitBounds};
use damper::http::{
    CallClass, ClassHeaders, ClientDeadlineLayer, CriticalityLayer, DeadlineLayer, PeerAddress, TimeoutUnit,
    client_stack, server_stack,
};
use damper::wire::TrustedProxies;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tower::ServiceExt;

const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

/// The headers of all servers of this system.
fn headers() -> ClassHeaders {
    ClassHeaders::new(HeaderName::from_static("x-criticality")).tenant(HeaderName::from_static("x-tenant"))
}

/// The server.
///
/// Under overload its admission serves the higher classes first, and in each the tenants alike.
fn server(gateways: TrustedProxies) -> Router {
    let stack = server_stack()
        .criticality(CriticalityLayer::new(headers()).trusting(gateways))
        .deadline_layer(DeadlineLayer::new(Duration::from_secs(5)).header(TIMEOUT, TimeoutUnit::Milliseconds))
        .admission(Admission::new(LimitBounds::DEFAULT));
    let price = async |Extension(class): Extension<CallClass>, Extension(deadline): Extension<Deadline>| {
        let (criticality, tenant) = (class.criticality(), class.tenant_name().unwrap_or("none"));
        format!("{criticality}, tenant {tenant}, in time: {}", deadline.specified() <= Duration::from_secs(2))
    };
    Router::new().route("/price", get(price)).layer(stack)
}

/// The gateway: it believes no caller.
///
/// It gives a request its class after it has seen the customer's key.
fn gateway(server: SocketAddr) -> Router {
    let client = client_stack()
        .criticality(headers())
        .deadline_layer(ClientDeadlineLayer::new(Duration::from_secs(2)).header(TIMEOUT, TimeoutUnit::Milliseconds))
        .service(Client::builder(TokioExecutor::new()).build_http());
    let price = async move |Extension(class): Extension<CallClass>, request: Request<axum::body::Body>| {
        let class = match request.headers().get("x-key").map(HeaderValue::as_bytes) {
            Some(b"secret-of-acme") => CallClass::new(Criticality::CriticalPlus).tenant("acme").unwrap_or(class),
            _ => class, // what the layer found: from outside at most the default
        };
        let call = Request::get(format!("http://{server}/price")).extension(class).body(Empty::<Bytes>::new());
        let response = client.oneshot(call.map_err(|_| StatusCode::BAD_REQUEST)?).await;
        let body = response.map_err(|_| StatusCode::BAD_GATEWAY)?.into_body().collect().await;
        Ok::<_, StatusCode>(body.map_err(|_| StatusCode::BAD_GATEWAY)?.to_bytes())
    };
    let classes = CriticalityLayer::new(headers()).default_class(Criticality::SheddablePlus).urgency();
    Router::new().route("/price", get(price)).layer(server_stack().criticality(classes))
}

/// Serves an app, and returns its address.
async fn serve(app: Router) -> Result<SocketAddr, Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Adds the peer's address to each request.
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Ok(address)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server_address = serve(server(TrustedProxies::new(["127.0.0.1"])?)).await?;
    let gateway_address = serve(gateway(server_address)).await?;

    let client = reqwest::Client::new();
    for (name, value, expected) in [
        ("x-key", "secret-of-acme", "critical plus, tenant acme, in time: true"),
        ("x-criticality", "critical-plus", "sheddable plus, tenant none, in time: true"), // made up
        ("x-tenant", "acme", "sheddable plus, tenant none, in time: true"),               // made up
        ("priority", "u=0", "sheddable plus, tenant none, in time: true"),                // raises nothing
        ("priority", "u=7", "sheddable, tenant none, in time: true"),                     // lowers its own request
    ] {
        let response = client.get(format!("http://{gateway_address}/price")).header(name, value).send().await?;
        let answer = response.text().await?;
        println!("{name}: {value}: {answer}");
        assert_eq!(answer, expected);
    }

    // A caller that reaches the server without the gateway is not believed either.
    let mut outside = Request::get("/price").header("x-criticality", "critical-plus").body(axum::body::Body::empty())?;
    outside.extensions_mut().insert(PeerAddress(([203, 0, 113, 9], 5_000).into()));
    let answer = server(TrustedProxies::new(["127.0.0.1"])?).oneshot(outside).await?.into_body().collect().await?;
    assert!(answer.to_bytes().starts_with(b"critical, tenant none"));
    Ok(())
}
