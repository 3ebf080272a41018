//! Reloads of a server of hyper while clients call it over real sockets.
#![cfg(feature = "http")]

use bytes::Bytes;
use damper_config::{Reloader, Sources};
use damper_http::{Headers, RateLimitLayer};
use http_body_util::Empty;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::{TcpListener, TcpStream};

/// Two quotas of one burst, with the policies that headers report. Limit and window both differ, so a mixture reports another one.
const QUOTAS: [(&str, &str); 2] =
    [("1/day burst 20", r#""default";q=20;w=1728000"#), ("3/360000s burst 20", r#""default";q=20;w=2400000"#)];
const CLIENTS: usize = 4;
const RELOADS: usize = 60;

async fn connect(address: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Sends a request of a client; returns the status and the policy in force.
async fn call(sender: &mut SendRequest<Empty<Bytes>>, client: &str) -> (StatusCode, String) {
    sender.ready().await.unwrap();
    let request = Request::get("/").header("host", "test").header("x-client", client).body(Empty::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let policy = response.headers()["ratelimit-policy"].to_str().unwrap().to_owned();
    let status = response.status();
    // The connection is free when the body has ended.
    http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
    (status, policy)
}

async fn serve(listener: TcpListener, layer: RateLimitLayer<damper_config::ConfiguredLimit>) {
    while let Ok((stream, peer)) = listener.accept().await {
        let hello = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) });
        let service = layer.for_peer(peer).layer(hello);
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_client_stays_exhausted_and_no_request_sees_a_mixture_of_settings() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("under_load.toml");
    let write = |quota: &str| {
        fs::write(&file, format!("server.http.ratelimit = {{ quota = '{quota}', key = 'header:x-client' }}")).unwrap();
    };
    write(QUOTAS[0].0);
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limit = reloader.settings().server.http.ratelimit.limit().unwrap();
    let layer = RateLimitLayer::new(limit.clone()).headers(Headers::OnAllResponses);
    let reloader = reloader.bind(|settings| &settings.server.http.ratelimit, limit.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, layer));

    let mut exhausted = connect(address).await;
    for _ in 0..20 {
        assert_eq!(call(&mut exhausted, "exhausted").await.0, StatusCode::OK);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let is_over = Arc::clone(&is_over);
            tokio::spawn(async move {
                let mut sender = connect(address).await;
                let mut calls = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // Each name makes as many calls as its burst allows, and one more, which is refused.
                    let (status, policy) = call(&mut sender, &format!("{client}-{}", calls / 21)).await;
                    let expected = if calls % 21 < 20 { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
                    assert_eq!(status, expected, "call {calls}");
                    assert!(QUOTAS.iter().any(|(_, known)| *known == policy), "{policy}");
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    for reload in 1..=RELOADS {
        let (quota, policy) = QUOTAS[reload % 2];
        write(quota);
        assert_eq!(reloader.reload().unwrap().len(), 1);
        assert_eq!(limit.quota().to_string(), quota);
        let answer = call(&mut exhausted, "exhausted").await;
        assert_eq!(answer, (StatusCode::TOO_MANY_REQUESTS, policy.to_owned()), "after {reload} reloads");
        // A mistake under load changes nothing.
        write("unlimited");
        assert!(reloader.reload().is_err());
        assert_eq!(limit.quota().to_string(), quota);
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.unwrap() > 0);
    }
}
