//! Examples of damper, run with `cargo run --release --example <name>`; this library is only their place.
//!
//! | name | shows |
//! |---|---|
//! | `gateway` | limits and a breaker in a gateway under load, checking itself |
//! | `rate_limiter` | a limiter in a `static` |
//! | `login_attempts`, `bytes_with_charge`, `llm_tokens`, `two_limits`, `live_quota` | what else a limiter does |
//! | `worker_pool` | a lease for each worker |
//! | `async_client` | tasks that wait their turn |
//! | `breakers_per_host` | a breaker for each host, kept in bounds |
//! | `circuit_breaker` | how a breaker trips, probes and closes |
//! | `keyed` | a limit per client address |
//! | `custom_clock` | a timer of one's own as the clock |
//! | `hyper_server` | a hyper server that answers 429 |
