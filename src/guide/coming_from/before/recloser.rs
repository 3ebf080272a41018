use recloser::{Error, Recloser};
use std::time::Duration;

fn main() {
    let breaker =
        Recloser::custom().error_rate(0.5).closed_len(100).half_open_len(10).open_wait(Duration::from_secs(30)).build();
    match breaker.call(|| "42".parse::<u32>()) {
        Ok(answer) => println!("{answer}"),
        Err(Error::Rejected) => println!("the circuit is open"),
        Err(Error::Inner(error)) => println!("{error}"),
    }
}
