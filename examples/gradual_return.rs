//! A breaker that returns gradually: after the probe a growing share of the calls passes.
//!
//! Time is moved by hand, so this takes none.

use damper::breaker::State;
use damper::{BreakerConfig, CallError, CircuitBreaker, ManualClock, OutOfRange, Ramp};
use std::time::Duration;

fn main() -> Result<(), OutOfRange> {
    let clock = ManualClock::new();
    // Half a minute, about as long as the service takes to warm up.
    let ramp = Ramp::linear(Duration::from_secs(30));
    let config = BreakerConfig::builder().cooldown(Duration::from_secs(10)).ramp(ramp).build()?;
    let breaker = CircuitBreaker::with_clock(config, &clock);

    println!("The service is down, and five consecutive failures trip the breaker:");
    while breaker.state() == State::Closed {
        assert!(breaker.call(|| Err::<(), _>("connection refused")).is_err());
    }
    println!("  {}", breaker.status());

    println!("10 s later it is back. The probe succeeds, and the breaker returns:");
    clock.advance(Duration::from_secs(10));
    assert_eq!(breaker.call(|| Ok::<_, &str>("pong")), Ok("pong"));
    assert_eq!(breaker.state(), State::Returning);
    for _ in 0..5 {
        let mut refused = None;
        let mut passed = 0;
        for _ in 0..100 {
            match breaker.call(|| Ok::<_, &str>("pong")) {
                Ok(_) => passed += 1,
                Err(CallError::Refused(open)) => refused = Some(open),
                Err(CallError::Failed(error)) => println!("  failed: {error}"),
            }
        }
        println!("  {}: {passed} of 100 passed", breaker.status());
        if let Some(open) = refused {
            println!("    not called: {open}");
        }
        clock.advance(Duration::from_secs(6));
    }
    assert_eq!(breaker.state(), State::Closed);
    println!("  {}", breaker.status());
    Ok(())
}
