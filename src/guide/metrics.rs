//! Metrics and logs: what to export, what to look at, and when to be woken.
//!
//! # Exporting
//!
//! An [`Exporter`](crate::metrics::Exporter) reads the limiters, breakers and budgets that are registered with it when
//! [`record`](crate::metrics::Exporter::record) is called. The values go to the recorder that the program has installed
//! for the crate `metrics`.
//!
//! ```
//! use damper::metrics::{Exporter, TransitionCounter};
//! use damper::{BreakerConfig, CircuitBreaker, KeyedLimiter, Quota, RateLimiter, RetryBudget};
//! use std::sync::{Arc, LazyLock};
//!
//! static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
//! static RETRIES: RetryBudget = RetryBudget::DEFAULT;
//! static PAYMENTS: LazyLock<CircuitBreaker<damper::Monotonic, TransitionCounter>> = LazyLock::new(|| {
//!     CircuitBreaker::new(BreakerConfig::default()).with_listener(TransitionCounter::new("payments"))
//! });
//!
//! let users = KeyedLimiter::<str>::builder(Quota::per_second(5))
//!     .tiers([Quota::per_second(50)], |user| usize::from(user.starts_with("pro-")));
//! let users = Arc::new(users.build()?);
//!
//! let exporter = Exporter::new()
//!     .register("logins", &LOGINS)
//!     .register("payments", &*PAYMENTS)
//!     .register("payments", &RETRIES)
//!     .register("users", Arc::clone(&users))
//!     .tiers(["free", "pro"]);
//!
//! exporter.record(); // in the handler of GET /metrics, or at an interval
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A layer brings its own name. Its requests are counted as they come, its levels are read by the exporter:
//! `Exporter::new().layer(layer.clone())`. The stacks of `damper::config` are layers too, and a
//! `MeshLayer` and a `Client` of `damper::mesh`. The example `tiered_api` is a
//! server with a handler for `/metrics`, whose text it reads back as Prometheus does.
//!
//! # Questions and their metrics
//!
//! | question | metrics |
//! |---|---|
//! | Is a limit too small, or does a client flood it? | `damper_limit_refused_total` beside `damper_limit_allowed_total`; `damper_limit_keys_exhausted` says whether few keys are refused, or many |
//! | Do callers wait? | `damper_limit_debt_tokens`, divided by `damper_limit_tokens_per_second` the wait of the next one; `damper_concurrency_queued` |
//! | Is a table large enough? | `rate(damper_limit_shared_words_busy_total)` below 0.4 of `rate(damper_limit_shared_words_seen_total)`; `damper_limit_overflows_total` and `damper_limit_refused_newcomers_total` stay at 0 |
//! | Which limit of a Mesh service refuses? | `damper_limit_refused_total` by `scope`; `damper_limit_remaining_tokens` by `scope` and `function` |
//! | Which level of a tree refuses, in which dimension and by which plan? | `damper_limit_refused_total` by `level`, `dimension` and `plan` |
//! | Did a reload arrive? | `damper_limit_tokens_per_second` and `damper_limit_burst_tokens`, per `tier` |
//! | Which service fails? | `damper_breaker_state{state="open"}`, `damper_breaker_transitions_total`, the window's failures |
//! | Is a server at its limit? | `damper_concurrency_in_flight` beside `damper_concurrency_limit`; `damper_concurrency_refused_total` by `cause` |
//! | Do retries make an outage worse? | `damper_retry_budget_retries_left`; at 0 the budget holds them back. Clients of Mesh also count `damper_retry_requests_total`, and `damper_retry_not_made_total` by `reason` |
//! | Does a client hold calls back? | `damper_throttle_refused_ratio`, `damper_pacing_next_sleep_seconds` |
//!
//! [`catalogue`](crate::metrics::catalogue) has all of them, and
//! [`reference.md`](https://github.com/damper-rs/damper/blob/main/crates/damper-metrics/reference.md) is the same list as a
//! table.
//!
//! Refusals by a bare [`RateLimiter`](crate::RateLimiter) are not counted: a refusal writes nothing, so that a flood
//! stays cheap. Count them where you handle them, or put the limiter behind a layer.
//!
//! # OpenTelemetry
//!
//! With the feature `opentelemetry`, [`OtelNames`](crate::metrics::OtelNames) gives the metrics the names of OpenTelemetry's proposals on their way to
//! a meter, such as `ratelimiter.name` for the label `limit`. [`metrics::otel`](crate::metrics::otel) has the table and an example.
//!
//! The layers of `damper::http` and of `damper::mesh` then also set attributes on the span that is current: `ratelimiter.result`, `circuitbreaker.state` and so
//! on, with the cause of a refusal. A breaker's change is an event of the span. The span may be one of the crate `opentelemetry` or, by
//! tracing-opentelemetry, of `tracing`. A span that is not recorded costs a look at a thread-local.
//!
//! # A dashboard and alerts
//!
//! [`dashboard.json`](https://github.com/damper-rs/damper/blob/main/crates/damper-metrics/dashboard.json) is imported into
//! Grafana as it is. It has a panel for every metric.
//! [`alerts.yaml`](https://github.com/damper-rs/damper/blob/main/crates/damper-metrics/alerts.yaml) is a file of rules for
//! Prometheus, named in `rule_files`. Both are generated from the catalogue, and tests parse every expression, so no panel
//! names a metric that does not exist. The thresholds of the alerts are a start:
//!
//! | alert | fires when |
//! |---|---|
//! | `DamperLimitRefusesMany` | a layer's limit refuses a tenth of the requests for ten minutes |
//! | `DamperLimitCannotDecide` | a limit has no address of a peer, or its store fails |
//! | `DamperLimitTableTooSmall`, `DamperLimitTableFills` | keys find no slot, or soon will not |
//! | `DamperBreakerOpen`, `DamperBreakerFlaps` | a service fails for five minutes, or recovers only for probes |
//! | `DamperBreakerForced` | a breaker was forced an hour ago and not reset |
//! | `DamperOpenBreakersEvicted` | more hosts fail than there is room for |
//! | `DamperConcurrencyRefusesMany`, `DamperConcurrencyQueueStays` | a server has more calls than it can serve |
//! | `DamperThrottleHoldsBack`, `DamperRetryBudgetExhausted` | a client holds back half of its calls, or all retries |
//! | `DamperDeadlinesPassOnArrival`, `DamperClocksDiffer` | requests arrive too late, or seem to |
//!
//! # Logs
//!
//! With the feature `tracing`, layers of `damper::http` and of `damper::mesh` log refusals at the level debug, with fields
//! for a search: `limit`, `scope`, `key`, `retry_after_ms`, `quota`, `cause`. A flood of refused requests makes no flood of lines: a layer logs at
//! most 20 refusals at once and 5 a second, and one of each key in 10 seconds. `suppressed` says how many were left out.
//! The key of `by_header` is the value in clear: mark secrets by `HeaderValue::set_sensitive`.
//! Changes of a breaker's state are logged at the level info, each of them.
//!
//! # Cost
//!
//! Looking changes nothing: the same calls get the same decisions, whether or not metrics are recorded, and a test holds
//! the two beside each other. Nothing is added to a decision of a primitive. Levels are read from the words that decisions
//! use anyway. Events are counted only where a lock is held: first sights of keys, evictions, calls that join a queue.
//! `record` walks through the slots of a [`KeyedLimiter`](crate::KeyedLimiter) to count keys by tier.
