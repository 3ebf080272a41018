//! An axum server with a limit for all, one for each user, and one for a single route.
//!
//! A client runs into each of them, over a real socket.

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{Router, routing::get};
use bytes::Bytes;
use damper::Quota;
use damper::http::{Head, Headers, RateLimitLayer};
use http_body_util::Empty;
use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

#[derive(Clone, Hash)]
struct User(Arc<str>);

/// Stands in for the check of a token or a cookie: it believes any name that a client claims.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let name = request.headers().get("x-user").and_then(|name| name.to_str().ok());
    if let Some(user) = name.map(|name| User(name.into())) {
        request.extensions_mut().insert(user);
    }
    next.run(request).await
}

/// `None` for requests without a user, which share one limit.
fn user(head: &Head<'_>) -> Option<User> {
    head.extensions.get().cloned()
}

fn app() -> Result<Router, Box<dyn Error>> {
    let report = RateLimitLayer::global(Quota::per_minute(1).burst(2)).named("report")?;
    let each_user =
        RateLimitLayer::by(user, Quota::per_hour(60).burst(4)).headers(Headers::OnAllResponses).named("user")?;
    let each_client = RateLimitLayer::per_client(Quota::per_hour(120).burst(10))
        .exempt(|head| head.uri.path() == "/healthz")
        .on_limited(|head, limited| println!("    {:?} of {}: {limited}", head.peer(), head.uri));
    // The layer that is added last is asked first.
    Ok(Router::new()
        .route("/", get(|| async { "home\n" }))
        .route("/report", get(|| async { "expensive\n" }).layer(report))
        .layer(each_user)
        .layer(middleware::from_fn(authenticate))
        .route("/healthz", get(|| async { "healthy\n" }))
        .layer(each_client))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Adds the peer's address to each request.
    let service = app()?.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });

    let client = Client::builder(TokioExecutor::new()).build_http();
    let get = async |path: &str, user: &str| -> Result<StatusCode, Box<dyn Error>> {
        let request = hyper::Request::get(format!("http://{address}{path}")).header("x-user", user);
        let response = client.request(request.body(Empty::<Bytes>::new())?).await?;
        let headers = response.headers();
        println!(
            "{user} {path}: {}, {:?}, {:?}",
            response.status(),
            headers.get("ratelimit"),
            headers.get(RETRY_AFTER)
        );
        Ok(response.status())
    };
    let (ok, too_many) = (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS);

    assert_eq!([get("/report", "alice").await?, get("/report", "bob").await?], [ok, ok]);
    assert_eq!(get("/report", "carol").await?, too_many, "two reports a minute for all users");
    for expected in [ok, ok, ok, too_many] {
        assert_eq!(get("/", "alice").await?, expected, "four requests of one user at once, the report among them");
    }
    assert_eq!([get("/", "bob").await?, get("/", "bob").await?, get("/", "bob").await?], [ok; 3]);
    assert_eq!(get("/", "dave").await?, too_many, "ten from one address, whichever user sends them");
    assert_eq!(get("/healthz", "nobody").await?, ok, "never");
    Ok(())
}
