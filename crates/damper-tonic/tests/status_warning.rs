//! The warning about a breaker that sees no status of gRPC.
//!
//! A separate binary, because a process logs the warning once.

#[path = "../../damper-http/tests/http/breaker_support.rs"]
#[expect(dead_code, reason = "some of it is for the other tests")]
mod breaker_support;
#[path = "grpc/support.rs"]
#[expect(dead_code, reason = "some of it is for the other tests")]
mod support;

use breaker_support::clocked;
use damper::breaker::State;
use damper::http::CircuitBreakerLayer;
use damper::tonic::AtTrailers;
use std::sync::Arc;
use support::echo::echo_client::EchoClient;
use support::{Upstream, channel, message, serve};
use tonic::Code;
use tonic::transport::Server;

/// The destination of log lines.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Without `AtTrailers` the breaker sees `200 OK` for each call, so it warns.
#[tokio::test]
async fn breaker_without_at_trailers_never_trips_and_warns_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false);
    let _guard = tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish());
    let (_, breaker) = clocked(1);
    let upstream = Upstream::default();
    let server = serve(Server::builder().add_service(upstream.echo()));
    let mut client = EchoClient::new(CircuitBreakerLayer::new(Arc::clone(&breaker)).layer(channel(server)));
    upstream.answer(Code::Unavailable);
    for _ in 0..20 {
        assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Unavailable);
    }
    assert_eq!(breaker.state(), State::Closed);
    let lines = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<_> = lines.lines().filter(|line| line.contains("WARN damper: gRPC response judged")).collect();
    assert_eq!(warnings.len(), 1, "{lines}");
    assert!(warnings[0].contains(".completion(AtTrailers::new())"), "{lines}");
    // The fix that it names.
    let layer = CircuitBreakerLayer::new(Arc::clone(&breaker)).completion(AtTrailers::new());
    let mut client = EchoClient::new(layer.layer(channel(server)));
    assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(breaker.state(), State::Open);
}
