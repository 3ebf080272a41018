//! A hyper server behind a limit per client, without tower.
//!
//! A client runs into the limit, over a real socket.

use bytes::Bytes;
use damper::Quota;
use damper::http::RateLimitLayer;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, client, server};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use tokio::net::{TcpListener, TcpStream};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // For each client address three requests at once, then one every two seconds.
    let limits =
        RateLimitLayer::per_client(Quota::per_minute(30).burst(3)).exempt(|head| head.uri.path() == "/healthz");
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            // All connections share the limits; each knows where it is from.
            let service = limits.for_peer(peer).layer(service_fn(hello));
            tokio::spawn(server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });

    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    for number in 1..=5 {
        sender.ready().await?;
        let path = if number == 5 { "/healthz" } else { "/" };
        let request = Request::get(path).header("host", address.to_string()).body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let (status, retry_after) = (response.status(), response.headers().get(RETRY_AFTER).cloned());
        let text = response.into_body().collect().await?.to_bytes();
        print!("{number}: {status}, {}", String::from_utf8_lossy(&text).trim_end());
        println!("{}", retry_after.as_ref().map_or_else(String::new, |wait| format!(", Retry-After: {wait:?}")));
        assert_eq!(status, if number == 4 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK });
        assert_eq!(retry_after.is_some(), number == 4);
    }
    Ok(())
}
