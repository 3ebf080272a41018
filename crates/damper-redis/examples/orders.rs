//! One limit of 1,000 orders a second for all processes that run this program.
//!
//! Start a server, and this program several times:
//!
//! ```text
//! redis-server &
//! cargo run -p damper-redis --example orders -- redis://127.0.0.1/
//! ```

use damper_core::Quota;
use damper_redis::{RedisEvent, RedisLimiter, WhenDown};
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1/".to_owned());
    let orders = RedisLimiter::connect(url)
        .name("orders")
        .quota(Quota::per_second(1_000))
        .when_down(WhenDown::LocalShare)
        .on_event(|event: &RedisEvent| eprintln!("{event}"))
        .build()
        .await?;

    let begun = Instant::now();
    let mut admitted = 0_u64;
    while begun.elapsed() < Duration::from_secs(5) {
        match orders.check().await {
            Ok(_) => admitted += 1,
            // A client would be told to come back after `denied.retry_after()`.
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
    let (status, counts) = (orders.status(), orders.counts());
    println!("{admitted} orders in 5 s, one of {} processes", status.processes);
    println!("{} commands; {} tokens came from leases", counts.commands, counts.tokens_by_lease);

    // The estimate of a cost is settled when the bill is known.
    let reservation = orders.reserve(10).await?;
    reservation.settle(7);
    Ok(())
}
