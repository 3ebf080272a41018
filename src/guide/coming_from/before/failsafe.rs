use failsafe::{CircuitBreaker, Config, Error, backoff, failure_policy};
use std::time::Duration;

fn main() {
    let waits = backoff::exponential(Duration::from_secs(10), Duration::from_mins(1));
    let breaker = Config::new().failure_policy(failure_policy::consecutive_failures(3, waits)).build();
    match breaker.call(|| "42".parse::<u32>()) {
        Ok(answer) => println!("{answer}"),
        Err(Error::Rejected) => println!("the circuit is open"),
        Err(Error::Inner(error)) => println!("{error}"),
    }
}
