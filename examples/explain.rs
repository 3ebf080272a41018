//! What would happen to this request? A server answers that, and takes nothing for it.
//!
//! The endpoint has an address of its own, which only operators reach.

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderName, Request, StatusCode};
use axum::{Router, routing::get};
use damper::http::{ExplainedPart, Head, PeerAddress, RateLimitLayer, client_stack, server_stack};
use damper::{BreakerConfig, CircuitBreaker, Quota};
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The client whose request is to be explained.
const CLIENT: HeaderName = HeaderName::from_static("x-client");

static PAYMENTS: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);

/// Explains a request of a client, without its body.
type Explainer = Arc<dyn Fn(&Head<'_>) -> String + Send + Sync>;

/// Explains a request with the path, the query and the headers of this one.
///
/// Its client is the one that `x-client` names.
async fn explain(State(explain): State<Explainer>, request: Request<axum::body::Body>) -> Result<String, StatusCode> {
    let (mut parts, _) = request.into_parts();
    let client = parts.headers.remove(CLIENT).and_then(|client| client.to_str().ok()?.parse::<IpAddr>().ok());
    parts.extensions.remove::<ConnectInfo<SocketAddr>>(); // the operator's own address
    parts.extensions.insert(PeerAddress(SocketAddr::new(client.ok_or(StatusCode::BAD_REQUEST)?, 0)));
    Ok(explain(&Head::from(&parts)))
}

async fn serve(app: Router) -> Result<SocketAddr, Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Ok(address)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let soft = RateLimitLayer::per_client(Quota::per_hour(60).burst(1)).named("soft")?.marking();
    let stack = server_stack()
        .client_limit_layer(soft)
        .limit_layer(RateLimitLayer::per_client(Quota::per_hour(600).burst(2)).named("hard")?)
        .bulkhead(64);
    // The explanation asks the same limits as the server.
    let explainer: Explainer = Arc::new({
        let stack = stack.clone();
        move |head| stack.explain(head).to_string()
    });
    let app = serve(Router::new().route("/", get(|_: HeaderMap| async { "page" })).layer(stack)).await?;
    let operators = serve(Router::new().fallback(explain).with_state(explainer)).await?;

    let client = reqwest::Client::new();
    let show = async || -> Result<String, Box<dyn Error>> {
        let answer =
            client.get(format!("http://{operators}/")).header(CLIENT, "127.0.0.1").send().await?.text().await?;
        println!("{answer}\n");
        Ok(answer)
    };
    for _ in 0..3 {
        assert!(show().await?.ends_with("not refused"), "however often it is asked");
    }
    for expected in [StatusCode::OK, StatusCode::OK] {
        assert_eq!(client.get(format!("http://{app}/")).send().await?.status(), expected);
    }
    let answer = show().await?;
    assert!(answer.starts_with("client limit \"soft\": marks") && answer.contains("limit \"hard\": refuses"));
    assert_eq!(client.get(format!("http://{app}/")).send().await?.status(), StatusCode::TOO_MANY_REQUESTS);

    // A client's stack says the same about a call that is not made.
    PAYMENTS.trip();
    let calls = client_stack().breakers(&PAYMENTS).limit(Quota::per_second(10)).bulkhead_per_host(64);
    let explanation = calls.explain(&Head::of(&Request::get("http://payments/refunds").body(())?));
    println!("{explanation}\n{}", explanation.to_json());
    assert_eq!(explanation.refused_by().map(ExplainedPart::place), Some("breaker"));
    Ok(())
}
