//! A hyper server behind a limit, and a client that runs into it: over a real socket.

use bytes::Bytes;
use damper::hyper::RateLimit;
use damper::{Quota, RateLimiter};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, client, server};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use tokio::net::{TcpListener, TcpStream};

/// Three requests at once, then one every two seconds.
static LIMIT: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(3));

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // This is all: the closure decides what is checked, and sees the request.
            let limited = RateLimit::new(service_fn(hello), |_: &Request<Incoming>| LIMIT.check().map(drop));
            tokio::spawn(server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), limited));
        }
    });

    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    for number in 1..=4 {
        sender.ready().await?;
        let request = Request::get("/").header("host", address.to_string()).body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let (status, retry_after) = (response.status(), response.headers().get(RETRY_AFTER).cloned());
        let text = response.into_body().collect().await?.to_bytes();
        print!("{number}: {status}, {}", String::from_utf8_lossy(&text).trim_end());
        println!("{}", retry_after.as_ref().map_or_else(String::new, |wait| format!(", Retry-After: {wait:?}")));
        assert_eq!(status, if number <= 3 { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS });
        assert_eq!(retry_after.is_some(), number > 3);
    }
    Ok(())
}
