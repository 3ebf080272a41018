use std::time::Duration;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_circuitbreaker::CircuitBreakerLayer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let breaker = CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_size(100)
        .minimum_number_of_calls(20)
        .wait_duration_in_open(Duration::from_secs(30))
        .permitted_calls_in_half_open(3)
        .build()?;
    let query = service_fn(async |query: &'static str| query.parse::<u32>());
    let mut database = ServiceBuilder::new().layer(breaker).service(query);
    assert_eq!(database.ready().await?.call("42").await?, 42);

    let _bulkhead = BulkheadLayer::builder().max_concurrent_calls(64).reject_when_full().build()?;
    Ok(())
}
