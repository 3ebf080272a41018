//! Metrics of [damper](https://docs.rs/damper)'s limiters, breakers, concurrency limits, throttles and retry budgets.
//!
//! The crate [`damper`](https://docs.rs/damper) has it as `damper::metrics`, with the feature `metrics`.
//!
//! # Exporting
//!
//! An [`Exporter`] reads what is registered with it when [`record`](Exporter::record) is called, on a scrape or at an interval. The
//! values go to the recorder that the program has installed for the crate [`metrics`](https://docs.rs/metrics), such as
//! metrics-exporter-prometheus.
//!
//! ```
//! use damper_core::{Bulkhead, Quota, RateLimiter, RetryBudget};
//! use damper_metrics::Exporter;
//! use metrics_exporter_prometheus::PrometheusBuilder;
//!
//! static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
//! static REPORTS: Bulkhead = Bulkhead::new(8);
//! static RETRIES: RetryBudget = RetryBudget::DEFAULT;
//!
//! let prometheus = PrometheusBuilder::new().install_recorder()?;
//! let exporter =
//!     Exporter::new().register("logins", &LOGINS).register("reports", &REPORTS).register("upstream", &RETRIES);
//!
//! LOGINS.check()?;
//! // In the handler of GET /metrics:
//! exporter.record();
//! let text = prometheus.render();
//! assert!(text.contains("damper_limit_remaining_tokens{limit=\"logins\"} 4"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | source | registered |
//! |---|---|
//! | limiters: `RateLimiter`, `RateLimiter32`, `Striped`, `LimitSet`, `Pausable`, `KeyedLimiter` with its tiers, `QuotaTree` with its levels | by [`register`](Exporter::register), as a reference to a `static` or an `Arc` |
//! | `CircuitBreaker`, `CircuitBreaker32`, `KeyedCircuitBreaker`; their state changes by a [`TransitionCounter`] | by `register` |
//! | `Bulkhead`, `AdaptiveLimit`, `Admission`, limits in flight per key | by `register` |
//! | `AdaptiveThrottle`, `KeyedThrottle`, `Pacer`, retry budgets, `Hedge`, `UsualLatency`, `BoundedStore` | by `register` |
//! | limiters of `damper::redis` | by `register` |
//! | layers of `damper::http`, and the layer and the client of `damper::mesh` | by [`layer`](Exporter::layer), under the name that they have |
//! | your own | by `register`, with an implementation of [`Source`] |
//!
//! # Cost
//!
//! Nothing is added to a decision. Values are read from the words that decisions use, counted on paths that hold a lock anyway, or counted
//! by a walk through a table when `record` is called. Only the layers of `damper::http`, and the layer and the client of
//! `damper::mesh`, count each request, with the feature `metrics`.
//! Reading changes no decision.
//!
//! # Names
//!
//! The [`catalogue`] has the name, the kind, the unit, the labels and the help text of each metric. A dashboard of Grafana and alert rules
//! of Prometheus are generated from it:
//! [`dashboard.json`](https://github.com/damper-rs/damper/blob/main/crates/damper-metrics/dashboard.json) and
//! [`alerts.yaml`](https://github.com/damper-rs/damper/blob/main/crates/damper-metrics/alerts.yaml).
//!
//! With the feature `opentelemetry`, the recorder `OtelNames` gives them the names that OpenTelemetry's proposals have.
#![cfg_attr(docsrs, feature(doc_cfg))]

// | file | idea |
// |---|---|
// | `metric` | the description of a metric |
// | `catalogue` | all metrics |
// | `source`, `readings` | the things that an exporter reads, and their values |
// | `sources/` | the metrics of each primitive |
// | `exporter` | the exporter |
// | `otel` | the names of OpenTelemetry |
// | `transition_counter` | counts the state changes of breakers |

pub mod catalogue;
mod exporter;
mod metric;
#[cfg(feature = "opentelemetry")]
pub mod otel;
mod readings;
mod source;
mod sources;
mod transition_counter;

pub use exporter::Exporter;
pub use metric::{Kind, Metric};
#[cfg(feature = "opentelemetry")]
pub use otel::OtelNames;
pub use readings::Readings;
pub use source::{NamedSource, Source};
pub use transition_counter::TransitionCounter;

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
