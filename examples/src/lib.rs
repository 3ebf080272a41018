//! Examples of damper; this library is only their place.
//!
//! They are run with `cargo run --release -p damper-examples --example <name>`.
//!
//! The gateway, which has limits and a breaker under load and checks itself, is a package of its own in `gateway/`.
//!
//! | name | shows |
//! |---|---|
//! | `overload` | a server at three times its capacity, with and without admission, measured by turns |
//! | `rate_limiter` | a limiter in a `static` |
//! | `login_attempts`, `bytes_with_charge`, `two_limits`, `live_quota` | what else a limiter does |
//! | `llm_tokens` | calls that wait in order for three limits, settled when their bills come, checking itself |
//! | `ai_gateway` | a gateway before a language model: trees of quotas, streams that are settled, plans that change, checking itself |
//! | `worker_pool` | a lease for each worker |
//! | `admission` | classes of calls before a pool of workers |
//! | `async_client` | tasks that wait their turn |
//! | `breakers_per_host` | a breaker for each host, kept in bounds |
//! | `circuit_breaker` | how a breaker trips, probes and closes |
//! | `keyed` | a limit per client address |
//! | `candidate_quota` | what another quota would refuse, without refusing it; a log of decisions |
//! | `custom_clock` | a hardware timer that wraps as the clock |
//! | `paced_client` | clients that sleep before they ask a server with a limit |
//! | `client_stack` | a client with all its parts, put into the right order |
//! | `configured_server` | a server whose limits come from a file and change with it |
//! | `server_stack` | a server with a deadline and limits, put into the right order |
//! | `reqwest_client` | reqwest with a breaker per host, retries within a budget, a limit of its own and a deadline |
//! | `reqwest_breaker` | `reqwest::Client` itself behind a breaker per host |
//! | `fallback_upstream` | a second upstream, for as long as the circuit of the first is open |
//! | `criticality` | a gateway that says how much each request counts, and a server that believes only the gateway |
//! | `marking` | clients over a soft quota, who are marked and served last, and refused only beyond a hard one |
//! | `explain` | what would happen to a request, for operators, without taking anything |
//! | `deadline_handler` | a handler that checks its deadline before each costly step |
//! | `axum_server` | limits for all, for each user and for a route of an axum server |
//! | `tiered_api` | an axum API with tiers: quotas from a file that is reloaded, headers, metrics for Prometheus |
//! | `hyper_server` | a hyper server with a limit per client, without tower |
//! | `log_limits` | a flood of errors that fills no disk: a limit for every call site, for one, and exact counts |
//! | `limit_elsewhere` | a limit of one's own that takes its time: a task that keeps it is asked over a channel |
//! | `tonic_echo` | a tonic server with a limit per client; a client's own retry inside of a breaker |
//! | `own_gate` | a gate of one's own, which is closed at night, beside a limit per user |
//! | `own_middleware` | limits and breakers in a framework without an adapter |
