//! A circuit breaker per host, for as many hosts as there is room for.
//!
//! A host that is down stops no call to another.

use damper::breaker::State;
use damper::{BreakerConfig, CallError, KeyedCircuitBreaker, ManualClock};
use std::error::Error;
use std::time::Duration;

/// The upstream: one of the hosts is down.
fn fetch(host: &str) -> Result<&'static str, &'static str> {
    if host == "down.example.com" { Err("connection refused") } else { Ok("200 OK") }
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new(); // with `new` instead of `with_clock`, real time passes
    let config = BreakerConfig::builder().failure_threshold(3).cooldown(Duration::from_secs(30)).build()?;
    let hosts = KeyedCircuitBreaker::<String, _>::with_clock(config, 1_000, &clock)?;

    for round in 1..=4 {
        for host in ["api.example.com", "down.example.com"] {
            match hosts.call(host, || fetch(host)) {
                Ok(answer) => println!("{round}: {host}: {answer}"),
                Err(CallError::Failed(error)) => println!("{round}: {host}: failed: {error}"),
                Err(CallError::Refused(open)) => println!("{round}: {host}: not called: {open}"),
            }
        }
    }
    assert_eq!(hosts.get_or_create("down.example.com").state(), State::Open);
    assert_eq!(hosts.get_or_create("api.example.com").state(), State::Closed);

    // A crawler meets a million hosts. Memory stays bounded, and what is open goes last.
    for number in 0..1_000_000 {
        let host = format!("{number}.example.org");
        assert!(hosts.call(&host, || fetch(&host)).is_ok());
    }
    let store = hosts.store();
    println!("a million hosts later: {} breakers, {} evicted", store.len(), store.evictions());
    assert!(store.len() <= store.capacity());

    let not_closed = store.iter().filter(|(_, breaker)| breaker.state() != State::Closed);
    for (host, breaker) in not_closed {
        println!("{host} is still {}", breaker.state());
    }
    assert_eq!(hosts.get_or_create("down.example.com").state(), State::Open);
    Ok(())
}
