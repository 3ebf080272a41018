//! Runs the exchanges of the example over real HTTP.

#[path = "../../examples/mesh/exchanges.rs"]
mod exchanges;
#[path = "../../examples/mesh/services.rs"]
mod services;
#[path = "../../examples/mesh/wire.rs"]
mod wire;

#[tokio::test]
async fn exchanges_of_the_example_are_as_specified() {
    let checks = exchanges::run().await.expect("the services respond");
    let failed: Vec<_> = checks.iter().filter(|check| !check.passed).map(|check| check.what).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(checks.len() >= 20, "{} checks", checks.len());
}
