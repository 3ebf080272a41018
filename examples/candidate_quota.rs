//! A candidate beside a limit per client, and a log of the decisions on the clients that came.

use damper::Quota;
use damper::decision_log::DecisionLog;
use damper::http::{PeerAddress, RateLimitLayer};
use hyper::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::error::Error;
use std::net::Ipv4Addr;
use tower::{Service, ServiceExt, service_fn};

/// The last 65,536 decisions, in 1.5 MiB.
static LOG: DecisionLog = DecisionLog::new(65_536);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let candidate = Quota::per_minute(10);
    let clients =
        RateLimitLayer::per_client(Quota::per_minute(600)).named("clients")?.shadow(candidate).decision_log(&LOG);
    let mut service =
        clients.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(String::from("hello")))));

    // Client n sends n requests.
    for client in 1..=20 {
        for _ in 0..client {
            let mut request = Request::new(());
            request.extensions_mut().insert(PeerAddress((Ipv4Addr::new(192, 0, 2, client), 5_000).into()));
            let response = service.ready().await?.call(request).await?;
            assert_eq!(response.status(), StatusCode::OK, "the candidate refuses nobody");
        }
    }

    let report = clients.shadow_report().ok_or("the layer has a candidate")?;
    println!("{candidate} would have refused {} of 210 requests", report.only_by_candidate);
    assert_eq!(report.only_by_candidate, (1..=10).sum::<u64>());

    // A program would append to a file every few seconds, for `damper-sim replay FILE --refuse-at-most 0.1%`.
    let mut file = Vec::new();
    let written = LOG.reader().write_to(&mut file)?;
    println!(
        "{written} decisions in the log, the first of them:\n    {}",
        String::from_utf8(file)?.lines().next().unwrap_or("")
    );
    assert_eq!(written, 210);
    Ok(())
}
