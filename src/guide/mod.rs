//! The guide: how to choose, and the exact guarantees.
//!
//! | page | answers |
//! |---|---|
//! | [`rates`] | rate and burst, refusals, debt, changes of a quota |
//! | [`waiting`] | check, wait, lease or stripe; waiting per host, and for a server that asks for a pause |
//! | [`algorithms`] | which algorithm, its cost, its worst case |
//! | [`breakers`] | when to trip, what counts as a failure, where retries go |
//! | [`concurrency`] | bulkhead, adaptive limit or admission; which calls are served under overload; a simulation of each |
//! | [`throttles`] | when to hold back calls that a service would reject |
//! | [`retries`] | how many retries, when, within which budget; their order with breakers, limits and deadlines |
//! | [`keys`] | one limit per key: the capacity, and the choice of a key |
//! | [`trees`] | any quota for any key; users, teams and organisations in one decision; estimates |
//! | [`words`] | limits that processes share; what a kill, a stop, an update and a reboot do |
//! | [`coming_from`] | the names and programs of other libraries beside damper's |
//! | [`sizing`] | from the keys you see in a minute to a capacity, and when to raise it |
//! | [`full_table`] | a full table of a keyed limiter |
//! | [`minorities`] | the most that a few callers can do to all others, and the settings that help |
//! | [`guarantees`] | the exact guarantees of each part, and their limits |
//! | [`evidence`] | what is proved, searched, tested or assumed, each with its command |
//! | [`costs`] | time, memory, many cores |
//! | `trying` | what a candidate would refuse, before it refuses anyone; the smallest quota for yesterday's traffic |
//! | [`own_gate`] | a gate of your own: what it takes, and how it goes together with damper's |
//! | [`testing`] | how to test your own code: time, refusals, layers |
//! | `across_machines` | one limit for a fleet: shares without a server, and on Redis leases, policies, losses (feature `redis`) |
//! | `http` | global, per route, per client; behind proxies; breakers and retries (feature `http`) |
//! | `configuration` | settings from files and the environment, checked, and changed live (feature `config`) |
//! | `metrics` | what to export, to look at and to be woken by (feature `metrics`) |
//! | `bytes` | bandwidth: bytes in a second, shared fairly by many connections, and for each client (feature `io`) |
//! | `logs` | log calls that repeat: one call site or all, what is suppressed and when it is reported (feature `logs`) |
//! | `live` | a page that shows limits and breakers live, and changes them (feature `live`) |
//! | `mesh` | limits of several scopes, refusals and deadlines in the protocol Mesh (feature `mesh`) |
//!
//! # Which do I need?
//!
//! | you want to | take | page |
//! |---|---|---|
//! | limit a flow of calls | [`RateLimiter`](crate::RateLimiter); with another algorithm [`RateLimiter::with_algorithm`](crate::RateLimiter::with_algorithm), such as `with_algorithm(SlidingLog::new(quota)?, clock)` | [`rates`], [`algorithms`] |
//! | limit each client, user or tenant | [`KeyedLimiter`](crate::KeyedLimiter); before a server [`http::RateLimitLayer`](crate::http::RateLimitLayer) | [`keys`], [`http`] |
//! | give each key a quota of its own, known to the caller | [`KeyedLimiter::by_plan`](crate::KeyedLimiter::by_plan) with a [`Plan`](crate::Plan) for each call | [`trees`] |
//! | limit users, teams and organisations, requests and tokens, all or nothing | [`QuotaTree`](crate::QuotaTree), on Redis [`redis::RedisTree`](crate::redis::RedisTree) | [`trees`] |
//! | hold two limits at once: ten a second and a thousand an hour | [`LimitSet`](crate::LimitSet) | [`rates`] |
//! | count requests *and* tokens *and* calls in flight in one decision, reserved by an estimate and settled by the bill | [`LimitSet::reserve`](crate::LimitSet::reserve), [`with_bulkhead`](crate::LimitSet::with_bulkhead); to wait for them in order [`queue`](crate::LimitSet::queue) and [`acquire`](crate::LimitSet::acquire) | [`rates`], [`waiting`] |
//! | wait instead of being refused | [`limiter.acquire(n).wait()`](crate::RateLimiter::acquire); in async code `limiter.acquire(n).await` (feature `tokio`); for a key's tokens [`limits.acquire(&key, n)`](crate::KeyedLimiter::acquire) | [`waiting`] |
//! | ask a million times a second from every core | [`RateLimiter::leasing`](crate::RateLimiter::leasing), [`Striped`](crate::Striped) | [`waiting`], [`costs`] |
//! | stop all callers while a server says `Retry-After` | [`Pausable`](crate::Pausable) around any limiter | [`waiting`] |
//! | divide a quota among processes that come and go, without a server | [`quota::LiveShare`](crate::quota::LiveShare); the example `shares` | [`across_machines`] |
//! | hold one limit across machines, on Redis, with most checks local | [`redis::RedisLimiter`](crate::redis::RedisLimiter), per key [`redis::KeyedRedisLimiter`](crate::redis::KeyedRedisLimiter) (feature `redis`); `cargo run --release -p damper-redis --example fleet` shows it while Redis fails | [`across_machines`] |
//! | use words of 32 bits, for firmware | [`RateLimiter32`](crate::RateLimiter32), [`CircuitBreaker32`](crate::CircuitBreaker32) | [`word32`](crate::word32) |
//! | share limits among the workers of a pre-forked server, or two cores | [`words::WordLimiter`](crate::words::WordLimiter), per key [`words::WordTable`](crate::words::WordTable), calls in flight [`words::WordBulkhead`](crate::words::WordBulkhead) | [`words`] |
//! | limit how many calls are in flight at once | [`Bulkhead`](crate::Bulkhead), per key [`KeyedBulkhead`](crate::KeyedBulkhead); before a server [`http::ConcurrencyLayer`](crate::http::ConcurrencyLayer), around a client [`http::ClientConcurrencyLayer`](crate::http::ClientConcurrencyLayer) | [`concurrency`] |
//! | find out how many calls a service can take, and keep to it | [`AdaptiveLimit`](crate::AdaptiveLimit), per key [`KeyedAdaptiveLimit`](crate::KeyedAdaptiveLimit); the same two layers | [`concurrency`] |
//! | serve the important calls under overload, and give tenants equal shares | [`Admission`](crate::Admission); before a server [`http::AdmissionLayer`](crate::http::AdmissionLayer) | [`concurrency`] |
//! | let trusted callers say how much a request counts and whose it is, and pass that on | [`http::CriticalityLayer`](crate::http::CriticalityLayer), [`http::ClientCriticalityLayer`](crate::http::ClientCriticalityLayer); `.criticality(…)` of both stacks; the example `criticality` | [`http`](self::http#one-class-from-hop-to-hop), [`concurrency`] |
//! | stop calling a service that keeps failing | [`CircuitBreaker`](crate::CircuitBreaker), per host [`KeyedCircuitBreaker`](crate::KeyedCircuitBreaker); around a client [`http::CircuitBreakerLayer`](crate::http::CircuitBreakerLayer) | [`breakers`] |
//! | let calls return little by little after an outage or a `Retry-After`, or warm up a quota | [`Ramp`](crate::Ramp), for a [breaker](crate::breaker::BreakerConfigBuilder::ramp), a [pause](crate::Pausable::ramp) or a [quota](crate::Ramp::quota_at); the example `gradual_return` | [`breakers`], [`rates`], [`waiting`] |
//! | refuse calls that an overloaded service would reject | [`throttle::AdaptiveThrottle`](crate::throttle::AdaptiveThrottle), per host [`throttle::KeyedThrottle`](crate::throttle::KeyedThrottle); before HTTP and gRPC clients [`http::ThrottleLayer`](crate::http::ThrottleLayer) | [`throttles`] |
//! | sleep before calls to a service with a limit, so that it rejects few, and retry those | [`throttle::Pacer`](crate::throttle::Pacer), with its own strategy ([`throttle::Level`](crate::throttle::Level)) or with yours; before HTTP and gRPC clients [`http::PacingLayer`](crate::http::PacingLayer) | [`throttles`] |
//! | retry calls within a budget that they share, with few retries in an outage | [`Retry`](crate::Retry) with [`Backoff`](crate::Backoff), [`RetryBudget`](crate::RetryBudget) and a [`Deadline`](crate::Deadline), because a server may ask for a wait of minutes; around a client [`http::RetryLayer`](crate::http::RetryLayer), for gRPC with [`tonic::GrpcRetries`](crate::tonic::GrpcRetries) | [`retries`] |
//! | start a second attempt beside a slow first one | [`retry::Hedge`](crate::retry::Hedge); around a client [`http::HedgeLayer`](crate::http::HedgeLayer), for gRPC with [`tonic::GrpcRetries`](crate::tonic::GrpcRetries) | [`retries`] |
//! | give a piece of work one time limit all the way down, and do no work for clients that have gone | [`Deadline`](crate::Deadline); from the client's header to the next server [`http::DeadlineLayer`](crate::http::DeadlineLayer) and [`http::ClientDeadlineLayer`](crate::http::ClientDeadlineLayer) | [`http`], [`retries`] |
//! | have these in the right order around an HTTP or gRPC client, or before a server | [`http::client_stack`](crate::http::client_stack), [`http::server_stack`](crate::http::server_stack) (feature `tokio`); for gRPC with [`tonic::Grpc`](crate::tonic::Grpc); for reqwest around [`http::HttpClient`](crate::http::HttpClient) | [`retries`], [`http`] |
//! | put a breaker, a throttle, pacing, a limit or a bulkhead around a tower service that knows no `http::Request`: `reqwest::Client`, a database | [`tower::GateLayer`](crate::tower::GateLayer), [`tower::PacingLayer`](crate::tower::PacingLayer) | [`tower`](crate::tower) |
//! | put a gate of your own into any of these places | [`gate::Gate`](crate::gate::Gate); before a service [`tower::GateLayer`](crate::tower::GateLayer) | [`own_gate`] |
//! | exchange limits and deadlines with other services in JSON | [`mesh::MeshLayer`](crate::mesh::MeshLayer), [`mesh::Client`](crate::mesh::Client) (feature `mesh`) | [`mesh`] |
//! | limit bytes in a second, of all connections together and of each client | [`io::PacedIo`](crate::io::PacedIo), [`io::PacedBody`](crate::io::PacedBody) (feature `io`); in firmware `embedded-io`; the example `bandwidth` | [`bytes`] |
//! | keep an error that repeats from filling the logs, and know how often it came | [`logs::tracing_limited!`](crate::logs::tracing_limited), [`logs::log_limited!`](crate::logs::log_limited), in firmware `defmt_limited!`; for all call sites [`logs::LimitedLayer`](crate::logs::LimitedLayer) (features `logs`, `logs-tracing`) | [`logs`] |
//! | keep a value of any kind per key, in bounded memory | [`BoundedStore`](crate::BoundedStore) | [`waiting`] |
//! | read limits, breakers, retries and whole stacks from a file or the environment, checked, and change limits and breakers live | [`config::Sources`](crate::config::Sources), [`config::Reloader`](crate::config::Reloader) (feature `config`); `damper-config check FILE` | [`configuration`] |
//! | try another quota or breaker beside the one in force | [`shadow::Shadowed`](crate::shadow::Shadowed), the layers' `shadow` | [`trying`] |
//! | let requests over a limit pass, and mark them | [`http::MarkingLayer`](crate::http::MarkingLayer); in a file `ratelimit.mark = true`; the example `marking` | [`trying`](self::trying#marks-instead-of-refusals) |
//! | ask what would happen to a request, part by part, without taking anything | [`http::ServerStack::explain`](crate::http::ServerStack::explain), [`http::ClientStack::explain`](crate::http::ClientStack::explain), [`gate::Ask::forecast`](crate::gate::Ask::forecast); the example `explain` | [`trying`](self::trying#what-would-happen-to-this-request) |
//! | find the smallest quota for yesterday's traffic | [`decision_log::DecisionLog`](crate::decision_log::DecisionLog) | [`trying`] |
//! | see limits, breakers and budgets in Prometheus and Grafana, with alerts | [`metrics::Exporter`](crate::metrics::Exporter) (feature `metrics`) | [`metrics`] |
//! | see them in OpenTelemetry, as metrics and as attributes of spans | [`metrics::OtelNames`](crate::metrics::OtelNames) (feature `opentelemetry`) | [`metrics`] |
//! | see them live, on a page of your own server or of the gateway's `--serve` | [`live::LivePage`](crate::live::LivePage) (feature `live`) | [`live`] |
//!
//! Each answers a different question, so a service often has several. [`retries`] has their order around a client, and
//! `http::server_stack` their order before a server.
//!
//! The examples advance a [`ManualClock`](crate::ManualClock). With `RateLimiter::new` they use real time.
// The table names items of every feature.
#![cfg_attr(
    not(all(
        feature = "config",
        feature = "io",
        feature = "live",
        feature = "logs-tracing",
        feature = "mesh",
        feature = "redis",
        feature = "tonic"
    )),
    allow(rustdoc::broken_intra_doc_links)
)]

#[cfg(feature = "redis")]
pub mod across_machines;
pub mod algorithms;
pub mod breakers;
#[cfg(feature = "io")]
pub mod bytes;
pub mod coming_from;
pub mod concurrency;
#[cfg(feature = "config")]
pub mod configuration;
pub mod costs;
pub mod evidence;
pub mod full_table;
pub mod guarantees;
#[cfg(feature = "http")]
pub mod http;
pub mod keys;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "logs")]
pub mod logs;
#[cfg(feature = "mesh")]
pub mod mesh;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod minorities;
pub mod own_gate;
pub mod rates;
pub mod retries;
pub mod sizing;
pub mod testing;
pub mod throttles;
#[cfg(feature = "alloc")]
pub mod trees;
pub mod trying;
pub mod waiting;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub mod words;
