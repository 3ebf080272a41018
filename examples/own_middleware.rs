//! Middleware of one's own, for a framework without an adapter.
//!
//! It calls `check` before a handler, `try_acquire` before an upstream.

use damper::breaker::Verdict;
use damper::{BreakerConfig, CircuitBreaker, CircuitOpen, Denied, KeyedLimiter, Quota};
use std::error::Error;
use std::net::IpAddr;

/// The handler of some framework; its answer is a status and a text.
trait Handler {
    fn handle(&self, from: IpAddr, path: &str) -> (u16, String);
}

impl<F: Fn(IpAddr, &str) -> (u16, String)> Handler for F {
    fn handle(&self, from: IpAddr, path: &str) -> (u16, String) {
        self(from, path)
    }
}

/// The server's side: a client over the limit gets a refusal, and the handler is not called.
struct Limited<H> {
    handler: H,
    limits: KeyedLimiter<IpAddr>,
}

impl<H: Handler> Handler for Limited<H> {
    fn handle(&self, from: IpAddr, path: &str) -> (u16, String) {
        match self.limits.check(&from) {
            Ok(_) => self.handler.handle(from, path),
            Err(denied) => (429, too_many(&denied)),
        }
    }
}

/// In whole seconds, rounded up, for a header.
fn too_many(denied: &Denied) -> String {
    let seconds = denied.retry_after().map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    format!("{denied}; Retry-After: {seconds:?}")
}

/// A client's side: what keeps failing is not called.
struct Guarded<H> {
    upstream: H,
    breaker: CircuitBreaker,
}

impl<H: Handler> Guarded<H> {
    fn call(&self, from: IpAddr, path: &str) -> Result<(u16, String), CircuitOpen> {
        // Dropped without a verdict, should the upstream unwind.
        let permit = self.breaker.try_acquire()?;
        let answer = self.upstream.handle(from, path);
        permit.record(Verdict::failure_if(answer.0 >= 500));
        Ok(answer)
    }
}

impl<H: Handler> Handler for Guarded<H> {
    fn handle(&self, from: IpAddr, path: &str) -> (u16, String) {
        self.call(from, path).unwrap_or_else(|open| (503, open.to_string()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let upstream = |_: IpAddr, path: &str| if path == "/down" { (500, "down".into()) } else { (200, "up".into()) };
    let breaker = CircuitBreaker::new(BreakerConfig::builder().failure_threshold(2).build()?);
    let limits = KeyedLimiter::builder(Quota::per_minute(6).burst(4)).build()?;
    let server = Limited { handler: Guarded { upstream, breaker }, limits };

    let (alice, bob) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    for (from, path, expected) in [
        (alice, "/", 200),
        (alice, "/down", 500),
        (alice, "/down", 500),
        (alice, "/", 503), // open
        (alice, "/", 429), // over the limit
        (bob, "/", 503),   // within it, and still open
    ] {
        let (status, text) = server.handle(from, path);
        println!("{from} {path}: {status} {text}");
        assert_eq!(status, expected);
    }
    Ok(())
}
