use axum::Router;
use std::sync::Arc;
use std::time::Duration;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::SmartIpKeyExtractor;

fn app() -> Router {
    // One request each 20 ms, and 100 at once.
    let config = GovernorConfigBuilder::default()
        .period(Duration::from_millis(20))
        .burst_size(100)
        .key_extractor(SmartIpKeyExtractor)
        .use_headers()
        .finish()
        .expect("neither is zero");
    let limiter = Arc::clone(config.limiter());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_mins(1));
            limiter.retain_recent();
        }
    });
    Router::new().layer(GovernorLayer::new(config))
}

fn main() {
    let _app = app();
}
