//! Breakers: when to trip, what counts as a failure, and where retries go.
//!
//! # Choosing a policy
//!
//! | policy | trips when | for |
//! |---|---|---|
//! | consecutive failures, the default | 5 consecutive calls failed | services that work or fail as a whole; few calls; no cost while all calls succeed |
//! | failure rate over the last calls | half of the last 48 (or of up to 4,096) failed | occasional failures in even traffic |
//! | failure rate over the last seconds | half of the calls of the last 10 s failed | uneven traffic, where old calls should not count |
//! | rate of slow calls | half of them took 2 s or longer | services that hang before they fail |
//!
//! Policies can be combined, and the first one reached trips the breaker. Five consecutive failures trip it by default.
//! For a rate alone set [`failure_threshold`](crate::breaker::BreakerConfigBuilder::failure_threshold) to `u32::MAX`. A
//! rate needs [`minimum_calls`](crate::breaker::BreakerConfigBuilder::minimum_calls), or the first failure after a
//! quiet night would be 100 %.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use core::time::Duration;
//! use damper::breaker::Window;
//! use damper::{BreakerConfig, CircuitBreaker};
//!
//! // Half of the calls of the last 10 s fail, or most are slow. An outage still trips it at once.
//! let config = BreakerConfig::builder()
//!     .failure_threshold(10)
//!     .failure_rate(50)
//!     .slow_rate(80, Duration::from_secs(2))
//!     .window(Window::last(Duration::from_secs(10)))
//!     .minimum_calls(20)
//!     // 5 s, 10 s, 20 s and at most a minute while probes fail, each randomly up to a fifth shorter.
//!     .cooldown(Duration::from_secs(5))
//!     .cooldown_factor(2.0)
//!     .max_cooldown(Duration::from_secs(60))
//!     .cooldown_jitter(20)
//!     .max_probes(3)
//!     .successes_to_close(5)
//!     .build()?;
//! let search = CircuitBreaker::new(config);
//! assert!(search.call(|| "42".parse::<u32>()).is_ok());
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Use one breaker for each thing that can fail on its own: a host, a database, a shard. A common breaker stops healthy
//! services because of a failing one. [`KeyedCircuitBreaker`](crate::KeyedCircuitBreaker) has one for every key, in
//! bounded memory. If clients choose the keys, read its notes about floods.
//!
//! # Counting failures
//!
//! A failure is something that waiting may cure: no connection, a reset, a timeout, a 5xx response. A mistake of the
//! caller (400, 404, a value that does not parse) is none, because the server is healthy, and the next caller may
//! succeed. **429 is no failure either**: the server is alive, and has said when to retry. Counting it would also stop
//! the calls that the server would have allowed. Wait instead, or limit the calls. The same holds for gRPC's
//! `RESOURCE_EXHAUSTED` with a `RetryInfo`. Without one it may be a lack of memory, and is a failure.
//! [`call_with`](crate::CircuitBreaker::call_with) takes a [`Verdict`](crate::breaker::Verdict) of your own. A cancelled call
//! says nothing about the server, so drop the permit. A call that panics is a failure, in
//! [`call`](crate::CircuitBreaker::call), in [`run`](crate::CircuitBreaker::run) and behind the layers of HTTP and
//! gRPC.
//!
//! A failing server's `Retry-After` is honoured: with [`Verdict::RetryAfter`](crate::breaker::Verdict::RetryAfter) the breaker
//! stays open at least that long, up to [`max_retry_after`](crate::breaker::BreakerConfigBuilder::max_retry_after).
//!
//! # Breaker and retry
//!
//! The breaker is outside the retries:
//!
//! ```text
//! request ──▶ breaker ──▶ retry ──▶ timeout of one attempt ──▶ transport
//!             one verdict   backs off     each attempt
//!             per request   in between    is bounded
//! ```
//!
//! A request that used up its retries is one failure, not three, and while the breaker is open a request costs no
//! backoff. In the other order, retries call the open breaker repeatedly and wait in vain.
//!
//! Everything inside the breaker needs a timeout. A timeout outside, around [`run`](crate::CircuitBreaker::run), would
//! drop the call before its verdict. A timeout inside must return an `Err`. A probe that never ends blocks others. For
//! probes without a timeout there is [`max_half_open`](crate::breaker::BreakerConfigBuilder::max_half_open).
//!
//! A stream as a probe, in gRPC or in HTTP with verdicts at the end of bodies, succeeds with its first message, which
//! shows that the service has recovered. Its end then counts like that of any other call. A stream that may be silent
//! for long needs `max_half_open`, because it blocks others until its first message.
//!
//! # Slow probes
//!
//! With [slow calls](crate::breaker::BreakerConfigBuilder::slow_rate), probes are timed too, from their permit to their
//! verdict. A slow probe is a failed probe, whatever it returned. So a server that responds after hanging for ten
//! seconds does not close the breaker that its slowness opened.
//!
//! # Gradual return
//!
//! When the probes succeed, a breaker closes, and all calls pass at once. A service that has just come back may not bear that: its
//! caches are cold, and half of its instances are still starting. With a [`Ramp`](crate::Ramp) the breaker is
//! [returning](crate::breaker::State::Returning) first. A growing share of the calls passes, and the others are refused with the
//! time after which twice as many pass.
//!
//! ```
//! use core::time::Duration;
//! use damper::{BreakerConfig, Ramp};
//!
//! // From 0.1 % to all calls, in proportion to the time.
//! let config = BreakerConfig::builder().ramp(Ramp::linear(Duration::from_secs(30))).build()?;
//! # let _ = config;
//! # Ok::<(), damper::OutOfRange>(())
//! ```
//!
//! In a [file of settings](super::configuration) it is a key, which a reload may change:
//!
//! ```
//! # #[cfg(feature = "config")] {
//! use damper::config::Sources;
//!
//! let text = r#"
//!     [client.http.circuit_breaker]
//!     ramp = "30s"
//!     ramp_shape = "linear"   # the default, or "steps"
//! "#;
//! let settings = Sources::new().toml("app.toml", text).load()?;
//! let config = settings.client.http.circuit_breaker.config(); // the stack has it too
//! assert_eq!(config.ramp().map(|ramp| ramp.to_string()).as_deref(), Some("linear in 30 s"));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - The calls that pass are spread evenly, by their number alone. A caller gets the share of *its* calls, also if it calls in bursts.
//! - They are judged as those of a closed breaker: five consecutive failures of them open it again, or a rate. Then the cooldown
//!   grows, as after a failed probe.
//! - A ramp ends by time, also without calls. It takes no call's result to grow: what could not be tried is not held back for ever.
//! - A closed breaker pays nothing for it. While it returns, each call changes one counter.
//!
//! It is off by default, because a simulation does not show that it always helps. 200 clients with a breaker each call a service that
//! returns from an outage with half of its capacity, which is 70 % of what they need, and gets the rest within the warm-up
//! (`cargo run --release -p damper-sim -- outage`; cooldowns of 10 s; the jitter changes the last digit from run to run). Hostile
//! clients have no breaker and repeat a failed call up to ten times.
//!
//! | warm-up | hostile | ramp | goodput | full service after | reopenings of a breaker |
//! |---|---:|---|---:|---:|---:|
//! | 60 s | 0 | none | 95.7 % | 19 s | 1.0 |
//! | 60 s | 0 | steps of 30 s | 90.7 % | 34 s | 0 |
//! | 60 s | 0 | linear in 30 s | 94.2 % | 31 s | 0 |
//! | 60 s | 0 | linear in 120 s | 79.2 % | 116 s | 0 |
//! | 60 s | 20 | none | 95.7 % | 19 s | 1.0 |
//! | 60 s | 20 | linear in 30 s | 94.3 % | 31 s | 0 |
//! | 180 s | 0 | none | 85.0 % | 70 s | 4.0 |
//! | 180 s | 0 | steps of 30 s | 78.7 % | 81 s | 1.0 |
//! | 180 s | 0 | linear in 30 s | 85.7 % | 73 s | 1.0 |
//! | 180 s | 0 | linear in 120 s | 79.3 % | 116 s | 0 |
//!
//! So a ramp spares the service: it is not overloaded again, and the breakers do not open again. It costs calls that the service could
//! have served. Set one if a second collapse is expensive, such as where caches are filled by calls or autoscaling takes minutes.
//! Make it shorter than the warm-up, and linear: the steps send little for two thirds of their time. `examples/gradual_return.rs`
//! shows one.
//!
//! # Answers while a breaker is open
//!
//! damper never caches or invents a response. A refused call returns an error, [`CircuitOpen`](crate::CircuitOpen),
//! which states when to retry. The fallback is the caller's choice: an older value, a default, an apology.
//! [`CircuitOpen::find_in`](crate::CircuitOpen::find_in) finds the error in any chain of sources.
//!
//! # In operation
//!
//! [`status`](crate::CircuitBreaker::status) is read without a lock.
//! [`on_state_change`](crate::CircuitBreaker::on_state_change) reports each change once. Before you rely on a breaker,
//! [`metrics_only`](crate::CircuitBreaker::metrics_only) shows what it would do, without refusing calls.
//! [`force_open`](crate::CircuitBreaker::force_open), [`force_closed`](crate::CircuitBreaker::force_closed) and
//! [`disable`](crate::CircuitBreaker::disable) override it until it is [`reset`](crate::CircuitBreaker::reset). A forced state is one more
//! state of the breaker's word, so a healthy breaker pays nothing for it. [`trip`](crate::CircuitBreaker::trip) and
//! [`trip_for`](crate::CircuitBreaker::trip_for) open it for a time, after which it is probed.
//! [`set_config`](crate::CircuitBreaker::set_config) changes its settings and keeps its state. For the breaker of a key, ask
//! `KeyedCircuitBreaker::get_or_create` first. When the store is full, it evicts a breaker that is open or forced last.
//! [`kept_evictions`](crate::BoundedStore::kept_evictions) counts those that it evicted all the same. An open breaker that is no
//! longer called counts as any other once its cooldown has passed.
//!
//! Layers take a breaker, or an `Arc` of one, that you keep to do all this:
//!
//! ```
//! use damper::breaker::State;
//! use damper::{BreakerConfig, CircuitBreaker, ManualClock};
//!
//! let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, ManualClock::new());
//! breaker.force_open(); // before maintenance
//! assert_eq!(breaker.try_acquire().unwrap_err().to_string(), "circuit forced open");
//! breaker.reset();
//! assert_eq!(breaker.status().state(), State::Closed);
//! ```
