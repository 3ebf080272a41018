//! A breaker trips, refuses, probes and closes; time is moved by hand, so this takes none.

use damper::breaker::State;
use damper::{BreakerConfig, CallError, CircuitBreaker, ManualClock, OutOfRange};
use std::time::Duration;

/// The upstream, which is up or down as the caller says.
fn database(up: bool) -> Result<&'static str, &'static str> {
    if up { Ok("42 rows") } else { Err("connection refused") }
}

fn main() -> Result<(), OutOfRange> {
    let clock = ManualClock::new();
    let config = BreakerConfig::builder().failure_threshold(3).cooldown(Duration::from_secs(30)).build()?;
    let breaker = CircuitBreaker::with_clock(config, &clock);

    let call = |up: bool| {
        match breaker.call(|| database(up)) {
            Ok(rows) => println!("  {rows}"),
            Err(CallError::Failed(error)) => println!("  failed: {error}"),
            Err(CallError::Refused(open)) => println!("  not called: {open}"),
        }
        breaker.state()
    };

    println!("The database goes down:");
    call(false);
    call(false);
    assert_eq!(call(false), State::Open, "the third consecutive failure trips the breaker");
    call(false);
    clock.advance(Duration::from_secs(20));
    call(false);

    println!("30 s after the trip one call passes as a probe, and fails:");
    clock.advance(Duration::from_secs(10));
    assert_eq!(breaker.state(), State::HalfOpen);
    assert_eq!(call(false), State::Open, "a failed probe opens it again");

    println!("30 s later the database is back, and so is the breaker:");
    clock.advance(Duration::from_secs(30));
    assert_eq!(call(true), State::Closed);
    call(true);

    println!("Where a closure does not fit, a permit tells the outcome when it is known:");
    let permit = breaker.try_acquire().expect("it is closed");
    let result = database(true);
    permit.record_result(&result);
    println!("  {result:?}, {:?}", breaker.state());
    Ok(())
}
