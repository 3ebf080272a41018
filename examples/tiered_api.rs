//! An axum API with tiers, whose quotas come from a file that is reloaded while clients run.
//!
//! Responses have headers with the standing of the key, and Prometheus can scrape the metrics. A candidate quota decides beside those in
//! force, and changes nothing.

use axum::{Router, http::StatusCode, routing::get};
use damper::Quota;
use damper::config::{Reloader, Sources};
use damper::http::{ByKey, Head, Headers, RateLimitLayer};
use damper::metrics::Exporter;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use prometheus_parse::{Scrape, Value};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const SETTINGS: &str = "\
[server.http.ratelimit]
quota = \"60/h burst 3\"     # free keys
tiers = [\"600/h burst 6\"]  # pro keys
";

/// A quota on trial, for all keys.
const CANDIDATE: Quota = Quota::per_hour(60).burst(2);

type AnyError = Box<dyn Error + Send + Sync>;

/// The API key of a request. All requests without one share a quota.
fn api_key(head: &Head<'_>) -> String {
    head.headers.get("x-api-key").map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned()).unwrap_or_default()
}

/// Stands in for a look into a database: it believes what a key says of itself.
fn tier(key: &str) -> usize {
    usize::from(key.starts_with("pro-"))
}

/// The API, and the reloader of its quotas.
fn api(file: &Path, prometheus: PrometheusHandle) -> Result<(Router, Reloader), AnyError> {
    let reloader = Reloader::new(Sources::new().file(file))?;
    let settings = reloader.settings().server.http.ratelimit.clone();
    let keys = Arc::new(settings.keyed_builder().tiers(settings.tiers(), |key: &String| tier(key)).build()?);
    let limit = RateLimitLayer::new(ByKey::new(api_key, Arc::clone(&keys))).named("api")?;
    let limit = limit.headers(Headers::OnAllResponses).shadow(CANDIDATE);
    let exporter = Arc::new(Exporter::new().layer(limit.clone()).tiers(["free", "pro"]));
    let scrape = move || {
        exporter.record();
        std::future::ready(prometheus.render())
    };
    let router = Router::new().route("/items", get(|| async { "items\n" })).layer(limit).route("/metrics", get(scrape));
    Ok((router, reloader.bind(|settings| &settings.server.http.ratelimit, keys)))
}

/// Writes a new file and renames it over the old one, so that no reader sees half of it.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    std::fs::write(file.with_extension("new"), text)?;
    std::fs::rename(file.with_extension("new"), file)
}

/// A client of the API, and a server of Prometheus.
#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    async fn get(&self, key: &str) -> reqwest::Result<reqwest::Response> {
        self.http.get(format!("{}/items", self.url)).header("x-api-key", key).send().await
    }

    async fn scrape(&self) -> Result<Scrape, AnyError> {
        let text = self.http.get(format!("{}/metrics", self.url)).send().await?.text().await?;
        Ok(Scrape::parse(text.lines().map(|line| Ok(line.to_owned())))?)
    }
}

/// The sum of a metric of the limit, or of one of its tiers.
fn sum(scrape: &Scrape, name: &str, tier: Option<&str>) -> u64 {
    let samples = scrape.samples.iter().filter(|sample| sample.metric == name && sample.labels.get("tier") == tier);
    let values = samples.map(|sample| match sample.value {
        // All of these are whole numbers.
        Value::Counter(value) | Value::Gauge(value) => value as u64,
        _ => 0,
    });
    values.sum()
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let file = std::env::temp_dir().join(format!("tiered_api-{}.toml", std::process::id()));
    write(&file, SETTINGS)?;
    let (api, reloader) = api(&file, PrometheusBuilder::new().install_recorder()?)?;
    let (sender, reloads) = mpsc::channel();
    let _watch = Arc::new(reloader).watch(Duration::from_millis(20), move |result| _ = sender.send(result))?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, api).await });

    let client = Client { http: reqwest::Client::new(), url };
    // Each tier has its burst, and says so in headers.
    for (key, burst) in [("free-alice", 3), ("pro-bob", 6)] {
        for left in (0..burst).rev() {
            let response = client.get(key).await?;
            let standing = response.headers()["ratelimit"].to_str()?;
            assert!(response.status() == StatusCode::OK && standing.contains(&format!("r={left};")), "{standing}");
        }
        let refused = client.get(key).await?;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        println!("{key}: {burst} requests, then {} and {:?}", refused.status(), refused.headers()["retry-after"]);
    }
    let before = client.scrape().await?;
    assert_eq!(sum(&before, "damper_limit_allowed_total", None), 9);
    // A layer knows the numbers of tiers, and not their names.
    for tier in ["0", "1"] {
        assert_eq!(sum(&before, "damper_limit_refused_total", Some(tier)), 1);
    }
    let by_candidate = sum(&before, "damper_shadow_refusals_total", None);
    println!("{CANDIDATE} would have refused {by_candidate} of 11 requests");
    assert_eq!(by_candidate, 7);
    for (tier, burst) in [("free", 3), ("pro", 6)] {
        assert_eq!(sum(&before, "damper_limit_keys_exhausted", Some(tier)), 1);
        assert_eq!(sum(&before, "damper_limit_burst_tokens", Some(tier)), burst);
    }
    // A larger burst of pro keys, while another client runs. Tokens that were taken stay taken.
    let mallory = client.clone();
    let flood = tokio::spawn(async move {
        let mut served = 0;
        for _ in 0..500 {
            served += u32::from(mallory.get("free-mallory").await?.status() == StatusCode::OK);
        }
        Ok::<_, reqwest::Error>(served)
    });
    write(&file, &SETTINGS.replace("burst 6", "burst 8"))?;
    for change in tokio::task::spawn_blocking(move || reloads.recv()).await??? {
        println!("{change}");
    }
    for expected in [StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(client.get("pro-bob").await?.status(), expected, "two more of a larger burst");
    }
    assert_eq!(client.get("free-alice").await?.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(flood.await??, 3, "a burst, whatever was reloaded meanwhile");
    let after = client.scrape().await?;
    assert_eq!(sum(&after, "damper_limit_burst_tokens", Some("pro")), 8);
    assert_eq!(sum(&after, "damper_limit_allowed_total", None), 14);
    println!("{} samples were scraped", after.samples.len());
    Ok(std::fs::remove_file(&file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_follow_from_keys() {
        assert_eq!(["", "free-alice", "pro-bob"].map(tier), [0, 0, 1]);
    }

    #[test]
    fn settings_have_a_quota_for_each_tier() {
        let settings = Sources::new().toml("settings", SETTINGS).load().unwrap();
        assert_eq!(settings.server.http.ratelimit.tiers().len(), 1);
    }

    #[test]
    fn api_starts_with_a_limit_that_can_be_reloaded() {
        let file = std::env::temp_dir().join(format!("tiered_api-test-{}.toml", std::process::id()));
        write(&file, SETTINGS).unwrap();
        let (_, reloader) = api(&file, PrometheusBuilder::new().build_recorder().handle()).unwrap();
        write(&file, &SETTINGS.replace("burst 3", "burst 4")).unwrap();
        let changes = reloader.reload().unwrap();
        assert_eq!(changes.len(), 1);
        write(&file, &SETTINGS.replace("[\"600/h burst 6\"]", "[]")).unwrap();
        assert!(reloader.reload().unwrap_err().to_string().contains("restart"), "a tier less");
        std::fs::remove_file(&file).unwrap();
    }
}
