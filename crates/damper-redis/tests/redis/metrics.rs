//! The limiters as sources of damper-metrics.

use crate::fake::{Fake, Mode};
use damper_core::{Plan, Quota};
use damper_metrics::Exporter;
use damper_redis::{RedisLimiter, WhenDown};
use metrics_exporter_prometheus::PrometheusBuilder;
use std::time::Duration;

/// The text of a scrape.
fn scrape(exporter: &Exporter) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || exporter.record());
    recorder.handle().render()
}

#[track_caller]
fn assert_shows(text: &str, line: &str) {
    assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
}

#[tokio::test]
async fn exporter_shows_who_decided_and_the_policy_in_force() {
    let fake = Fake::start(1);
    let builder = RedisLimiter::connect(fake.url()).quota(Quota::per_hour(10)).when_down(WhenDown::Closed);
    let limiter = builder.deadline(Duration::from_secs(1)).build().await.unwrap();
    let exporter = Exporter::new().register("orders", limiter.clone());
    assert!(limiter.check().await.is_ok());
    assert!(limiter.check().await.is_err());
    assert!(limiter.check().await.is_err());
    let text = scrape(&exporter);
    assert_shows(&text, r#"damper_redis_decisions_total{limit="orders",by="server",verdict="allowed"} 1"#);
    assert_shows(&text, r#"damper_redis_decisions_total{limit="orders",by="server",verdict="denied"} 1"#);
    assert_shows(&text, r#"damper_redis_decisions_total{limit="orders",by="process",verdict="denied"} 1"#);
    assert_shows(&text, r#"damper_redis_policy_in_force{limit="orders",policy="closed"} 0"#);
    assert_shows(&text, r#"damper_redis_commands_total{limit="orders"} 2"#);
    assert_shows(&text, r#"damper_redis_connections_total{limit="orders"} 1"#);
    assert_shows(&text, r#"damper_limit_burst_tokens{limit="orders"} 10"#);
    fake.set(Mode::Close);
    while limiter.status().policy.is_none() {
        // Another cost, for which there is no denial yet.
        _ = limiter.usage().await;
    }
    let text = scrape(&exporter);
    assert_shows(&text, r#"damper_redis_policy_in_force{limit="orders",policy="closed"} 1"#);
    assert_shows(&text, r#"damper_redis_policy_in_force{limit="orders",policy="open"} 0"#);
}

#[tokio::test]
async fn exporter_shows_the_keys_and_each_quota() {
    let fake = Fake::start(10);
    let builder = RedisLimiter::connect(fake.url()).quota(Quota::per_hour(10)).also(Quota::per_second(5));
    let limits = builder.deadline(Duration::from_secs(1)).build_keyed().await.unwrap();
    assert!(limits.check("a").await.is_ok() && limits.check("b").await.is_ok());
    let text = scrape(&Exporter::new().register("tenants", limits));
    assert_shows(&text, r#"damper_redis_keys{limit="tenants"} 2"#);
    assert_shows(&text, r#"damper_limit_burst_tokens{limit="tenants",part="1"} 5"#);
}

#[tokio::test]
async fn exporter_shows_the_buckets_of_a_tree_and_the_keys_by_plan() {
    let fake = Fake::start(10);
    let builder = || RedisLimiter::connect(fake.url()).deadline(Duration::from_secs(1));
    let tree = builder().build_tree(["user", "organisation"], ["tokens"]).await.unwrap();
    let users = builder().build_by_plan().await.unwrap();
    let plan = Plan::new(Quota::per_hour(10)).unwrap();
    assert!(tree.check(&[("alice", [&plan]), ("acme", [&plan])], [3]).await.is_ok());
    assert!(users.check_with("alice", &plan, 8).await.is_err());
    let text = scrape(&Exporter::new().register("tree", tree).register("users", users));
    assert_shows(&text, r#"damper_redis_keys{limit="tree"} 2"#);
    assert_shows(&text, r#"damper_redis_decisions_total{limit="tree",by="server",verdict="allowed"} 1"#);
    assert_shows(&text, r#"damper_redis_keys{limit="users"} 1"#);
    assert_shows(&text, r#"damper_redis_decisions_total{limit="users",by="server",verdict="denied"} 1"#);
}

#[tokio::test]
async fn every_metric_of_the_catalogue_has_a_source() {
    let fake = Fake::start(10);
    let builder = || RedisLimiter::connect(fake.url()).quota(Quota::per_hour(10)).deadline(Duration::from_secs(1));
    let exporter = Exporter::new().register("one", builder().build().await.unwrap());
    let text = scrape(&exporter.register("keyed", builder().build_keyed().await.unwrap()));
    let of_redis = || damper_metrics::catalogue::ALL.iter().filter(|metric| metric.name().starts_with("damper_redis_"));
    assert!(of_redis().count() > 0);
    for metric in of_redis() {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("{}{{", metric.name()))),
            "{} in\n{text}",
            metric.name()
        );
    }
}
