//! Configuration: settings from files and the environment, checked, and changed live.
//!
//! # Reading
//!
//! [`Sources`](crate::config::Sources) are read in order, and a later one overrides an earlier one, key by key. A
//! file's extension determines its format. All formats have the same keys, such as `server.http.ratelimit.burst`:
//!
//! ```toml
//! [server.http.ratelimit]
//! quota = "5000/h burst 100"        # or requests_per_second and burst
//! key = "client"                    # global, client, path, or header:NAME
//! trusted_proxies = ["10.0.0.0/8"]  # they write X-Forwarded-For; with proxy_header = "forwarded", RFC 7239's
//! headers = "on_all_responses"      # on_refusals by default
//!
//! [server.http.ratelimit.tiers]     # the program says which client is in which tier
//! free = "60/minute"
//! pro = "600/minute"
//!
//! [client.http.circuit_breaker]
//! failure_threshold = 5
//! cooldown = "30s"
//! ```
//!
//! A quota and a duration have the same units: `ms`, `s`, `min`, `h`, `day`, or `minute` and the like. Shares are written
//! in percent: `failure_rate = "50%"`, `retry_budget.ratio = "20%"`. Without the sign a number has the meaning of the
//! setter in code: 50 percent for `failure_rate`, the fraction 0.2 for `ratio`. A `failure_rate` of 0.5 is refused.
//!
//! An environment variable has two underscores for each dot, because keys contain single ones:
//! `APP__SERVER__HTTP__RATELIMIT__BURST=20`. A later `quota` overrides an earlier rate and burst. A later rate or burst
//! cannot override an earlier quota, and is a mistake: a variable with only a burst would replace the quota by the
//! default rate.
//!
//! A file with other settings beside damper's is read with [`file_at`](crate::config::Sources::file_at), which uses one
//! table of it, or with [`foreign`](crate::config::Sources::foreign), which names the keys that are not damper's.
//! Otherwise all keys of a file and all variables with the prefix are damper's, and an unknown one is a mistake.
//!
//! # Stacks
//!
//! A stack has the parts that its section `stack` names, each with the settings of the section with that name:
//!
//! ```toml
//! [server.http]
//! stack = { deadline = true, ratelimit = true, concurrency = "adaptive_limit" }
//! deadline.timeout = "5s"
//!
//! [client.grpc]
//! stack = { retry = true, hedge = true, concurrency = "bulkhead_per_host" }
//! bulkhead = { limit = 32, queue = 32, max_wait = "200ms" }
//! ```
//!
//! With `stack.class_header` a server believes the [classes](super::http#one-class-from-hop-to-hop) of `trusted_callers`, and a client passes them
//! on. With `ratelimit.mark = true` a server [marks requests](super::trying#marks-instead-of-refusals) over the limit instead of refusing them.
//! With `circuit_breaker.ramp = "30s"` a client's breakers [return gradually](super::breakers#gradual-return).
//!
//! ```
//! # #[cfg(all(feature = "tonic", feature = "tokio", feature = "hyper", feature = "axum"))] {
//! use axum::{Router, routing::get};
//! use damper::config::{Reloader, Sources};
//! use damper::tonic::Grpc;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let reloader = Reloader::new(Sources::new().toml("app.toml", "server.http.ratelimit.burst = 20"))?;
//! let settings = reloader.settings();
//! let server = settings.server.http.server_stack()?.exempt(|head| head.uri.path() == "/metrics");
//! let client = settings.client.grpc.client_stack()?.protocol(Grpc::new());
//! let reloader = reloader
//!     .bind(|settings| &settings.server.http, server.clone())
//!     .bind(|settings| &settings.client.grpc, client.clone());
//!
//! let app: Router = Router::new().route("/", get(async || "page")).layer(server);
//! let channel = client.service(tonic::transport::Channel::from_static("http://localhost:50051").connect_lazy());
//! # let _ = (app, channel, reloader);
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! Deadline, a server's rate limit (50/s, burst 100, of all requests), circuit breaker and retries are on by default. A
//! client's rate limit, hedge, throttle, pacing and limits of calls in flight are off. The limits of a server never apply
//! to health checks: `/health`, `/healthz`, `/livez`, `/readyz` and the methods of `grpc.health.v1.Health`. The key
//! `stack.exempt_paths` replaces this list, and an empty list turns it off. Calls wait up to `max_wait` for a slot or a
//! token. A part that settings cannot describe, such as a limit per user, is added to `stack.parts()` with its setter.
//!
//! # Sections by themselves
//!
//! A section also provides its primitive, its settings and its layer, for programs that place these themselves:
//!
//! ```
//! use damper::config::Sources;
//! use damper::{CircuitBreaker, Retry, RetryBudget};
//!
//! let file = "[client.http.retry]\nmax_attempts = 4\nbase_delay = \"50ms\"";
//! let settings = Sources::new().toml("app.toml", file).environment("APP").load()?;
//! let client = &settings.client.http;
//! let breaker = CircuitBreaker::new(client.circuit_breaker.config());
//! let budget: RetryBudget = client.retry_budget.budget();
//! let retry: Retry<_, _> = client.retry.retry().budget(&budget);
//! assert_eq!(retry.max_attempts(), 4);
//! # let _ = breaker;
//! # Ok::<(), damper::config::ConfigError>(())
//! ```
//!
//! | section | primitive | layer (features `http` and `tokio`) |
//! |---|---|---|
//! | `ratelimit` of a server | `limiter()`, `keyed_builder()`; of other algorithms `leaky_bucket()`, `fixed_window()`, `sliding_counter()`, `sliding_log()`, or `any_limiter()` | `limit()`, `layer()`, by `algorithm` and `key`; `marking(layer)`, if `mark` is true |
//! | `ratelimit` of a client | `limiter()` | `layer()` |
//! | `circuit_breaker` | `config()` | `breakers()`, `layer()`: one for each host |
//! | `retry`, `retry_budget`, `hedge` | `retry()`, `budget()`, `hedge()` | `layer(budget)` |
//! | `bulkhead` | `bulkhead()`, `per_key()` | `layer()`, `client_layer()`, `client_layer_per_host()` |
//! | `adaptive_limit` | `limit()` | `layer()`, `client_layer()` |
//! | `admission` | `adaptive()`, `fixed()` | `layer()`, `fixed_layer()` |
//! | `throttle` | `throttle()`, `per_host()` | `layer()` |
//! | `pacing` | `pacer()`, `retry(budget)` | `pacers()`, `layer(budget)`, which repeats rejected calls |
//! | `deadline` | `timeout()` | `layer()` |
//! | `server.tree` | `builder()`, `named_plans()`, which a reload replaces | [`RateLimitLayer::tree`](crate::http::RateLimitLayer::tree) |
//! | `server.mesh` | `configured_scopes()`, by `algorithm`; `scopes()`, of token buckets (feature `mesh`) | |
//! | `client.mesh` | `builder(http, uri)` (features `mesh` and `tokio`) | |
//!
//! A primitive does not apply `max_wait`: call `acquire(1).within(settings.max_wait())`.
//!
//! # Mistakes
//!
//! [`load`](crate::config::Sources::load) accepts no mistake, and lists all of them. A message has the file, the line,
//! the key, the value and the allowed values. Unknown keys are mistakes, and the message names the nearest known key:
//! ```
//! use damper::config::Sources;
//!
//! let error = Sources::new()
//!     .toml("app.toml", "[server.http.ratelimit]\nburst = 0\nrequest_per_second = 5")
//!     .load()
//!     .unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "app.toml:2:1: server.http.ratelimit.burst is 0, it must be a whole number from 1 to 10000000\n\
//!      app.toml:3:1: server.http.ratelimit.request_per_second is no known key, \
//!      did you mean server.http.ratelimit.requests_per_second?"
//! );
//! ```
//!
//! [`normalized`](crate::config::Sources::normalized) is for a program that must start. It omits each bad value, so
//! that the value of an earlier source or the default applies, and returns the mistakes for the log. With the feature
//! `tracing` it logs each of them at `warn`, too. If values
//! contradict each other, those of the last source are omitted, or within one source the one that allows more. Zero,
//! negative numbers, NaN and infinity are out of every range that a limit is built from, and so are rates that no
//! server reaches. A quota of `unlimited` is refused.
//!
//! The resulting settings may still be looser than intended. A mistake in a *name*, such as `brust = 1`, leaves the
//! default burst of 100. A file that cannot be parsed is ignored as a whole, so one missing bracket leaves the defaults
//! of all its limits.
//!
//! Before a deployment, `damper-config check app.toml` prints the mistakes that `load` would find. `--environment APP`
//! includes the variables with that prefix. [The
//! reference](https://github.com/damper-rs/damper/blob/main/crates/damper-config/reference.md) lists every key, and a
//! JSON Schema for editors and a sample are beside it.
//!
//! # Changes
//!
//! A [`Reloader`](crate::config::Reloader) reads the sources again, and applies the changes to the limits, breakers and
//! stacks that were [bound](crate::config::Reloader::bind) to a section or a group. They keep their state: a client
//! that has used up its burst has none after the change either, an open breaker stays open until its cooldown ends, and
//! held permits still count. Either all changes are applied or none:
//!
//! | the new file | effect |
//! |---|---|
//! | has a mistake, or cannot be read | no change, and the error lists the mistakes |
//! | has no key, and had some before | no change, because it may have been truncated |
//! | changes quotas, tiers, plans, breakers, limits of bulkheads, bounds of adaptive limits or of gates, queues, retry budgets, hedges, throttles | the changes apply at once |
//! | changes timeouts, the longest wait in a queue, attempts and delays of retries | they apply to calls that begin from then on; a call keeps what it began with |
//! | changes anything else, such as an algorithm, the size of a table or a part of a stack | no change, and the error names the keys that need a restart |
//! | has a quota, or a floor of a retry budget, that the running one cannot take | no change, and the error gives the reason |
//!
//! [`CircuitBreaker::set_config`](crate::CircuitBreaker::set_config) lists what a breaker keeps. Token buckets and limits per
//! key from settings take any quota. In return their tokens are counted in larger steps: a token of `1/h` may come 14 ms
//! early on a clock of nanoseconds, and 0.44 s early on one of 24 MHz. A limit of all requests by another algorithm, and the
//! floor of a retry budget, may refuse a change: `reference.md` of `damper-config` has the table.
//!
//! Your own types can apply any key live: implement [`Reload`](crate::config::Reload). It may refuse, so it gets the
//! settings before damper's own limits do. A program that must start takes
//! [`Reloader::normalized`](crate::config::Reloader::normalized).
//!
//! Of a group only the changed sections are applied. A setting that you made for one host or key therefore stays until
//! its own section changes.
//!
//! No thread runs unless you start it. [`watch`](crate::config::Reloader::watch) starts one that compares the contents
//! of the files, so it notices a file that an editor renamed over the old one, or that Kubernetes replaced behind a
//! symbolic link. A file is read once it has been unchanged for an interval. Rename a new file over the old one, so
//! that it is never read half-written. The example `configured_server` shows all of it.
