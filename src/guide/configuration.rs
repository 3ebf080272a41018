//! Configuration: settings from files and the environment, checked, and changed live in part.
//!
//! # Reading
//!
//! [`Sources`](crate::config::Sources) are read in their order, and a later one overrides an earlier one. The extension of a file says
//! its format. All formats have the same keys, such as `server.http.ratelimit.burst`:
//!
//! ```toml
//! [server.http.ratelimit]
//! quota = "5000/h burst 100"        # or requests_per_second and burst
//! key = "client"                    # global, client, or header:NAME
//! trusted_proxies = ["10.0.0.0/8"]
//!
//! [client.http.circuit_breaker]
//! failure_threshold = 5
//! cooldown = "30s"
//! ```
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
//! A section gives the primitive, its settings, or the layer that the program puts into place. Settings do not put a layer into place by
//! themselves: a section that is missing has the defaults, and a program that builds a limit always has one.
//!
//! | section | gives |
//! |---|---|
//! | `ratelimit` of a server | `limit()` and `layer()` (feature `http`), `limiter()`, `keyed_builder()` |
//! | `ratelimit` of a client | `limiter()`, and `effective_quota()` for `client_stack().limit(…)` |
//! | `circuit_breaker` | `config()`; `breakers()`, one for each host, for `CircuitBreakerLayer::new` (feature `http`) |
//! | `retry`, `retry_budget`, `hedge` | `retry()`, `budget()`, `config()` |
//! | `bulkhead`, `adaptive_limit`, `admission` | `bulkhead()` and `per_key()`; `limit()`; `adaptive()` and `fixed()` |
//! | `throttle` | `throttle()`, `per_host()` |
//! | `deadline` | `timeout()`, and of a client `attempt_timeout()` |
//!
//! No limit that is built of them applies `max_wait` or a deadline: the program passes these to the call that waits, or to the layer of
//! deadlines. A bulkhead with a queue waits without an end otherwise. `key`, `ipv6_prefix` and `trusted_proxies` are for `limit()` and `layer()`.
//!
//! An environment variable has two underscores for each dot, because keys have single ones: `APP__SERVER__HTTP__RATELIMIT__BURST=20`.
//!
//! # Mistakes
//!
//! [`load`](crate::config::Sources::load) accepts no mistake, and lists all of them. A message has the file, the line, the key, the value
//! and what is allowed. Unknown keys are mistakes, and the nearest known key is named:
//!
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
//! [`normalized`](crate::config::Sources::normalized) is for a program that must start: it leaves out each bad value, so that the one of an
//! earlier source or the default is in force, and returns what was wrong, for the log. Of values that do not fit each other, those of the
//! last source are left out; of one source, the one that allows more. What is in force then may still be looser than what was meant: a
//! misspelled key, or a file that cannot be read, leaves the default. Zero, negative numbers, NaN and infinity are out of every range that a limit is built from, and so are rates that no server reaches. A
//! quota of `unlimited` is refused.
//!
//! `damper-config check app.toml` says before a deployment what `load` would say. [The
//! reference](https://github.com/damper-rs/damper/blob/main/crates/damper-config/reference.md) has every key; a JSON Schema for editors
//! and a sample are beside it.
//!
//! # Changes
//!
//! A [`Reloader`](crate::config::Reloader) reads the sources again, and applies what has changed to the limits that were
//! [bound](crate::config::Reloader::bind) to a section. They keep their state: a client that has used up its burst has none after the
//! change either, and a permit that is held is counted. All changes are applied, or none:
//!
//! | the new file | what happens |
//! |---|---|
//! | has a mistake, or cannot be read | nothing changes, and the error lists the mistakes |
//! | has no key, and had some before | nothing changes: it may have been truncated |
//! | changes quotas, tiers, limits of bulkheads or of fixed gates | they are in force at once |
//! | changes anything else, such as a breaker's cooldown or the bounds of an adaptive limit | nothing changes, and the error names the keys that need a restart |
//! | has a quota that the limiter cannot take, because it counts in steps that suit the first one | nothing changes, and the error says why |
//!
//! Circuit breakers and adaptive limits are **not reloaded yet**: a file that changes one of their keys needs a restart, and changes no
//! quota either until then.
//!
//! A limiter accepts a quota a thousand times as fast as its first one. What is yours can take any key live: implement
//! [`Reload`](crate::config::Reload).
//!
//! No thread runs unless you ask for it. [`watch`](crate::config::Reloader::watch) starts one that compares the contents of the files, so that
//! it sees a file which an editor has renamed over the old one, and one that Kubernetes has exchanged behind a symbolic link. A file counts
//! once it is the same for an interval; rename a new file over the old one, so that none is read half-written. The example `configured_server` shows all of it.
