//! Breakers: when to trip, what counts as a failure, and where retries go.
//!
//! # Choosing a policy
//!
//! | policy | trips when | for |
//! |---|---|---|
//! | consecutive failures, the default | 5 calls failed and none succeeded between | what either works or does not; few calls; costs nothing while all is well |
//! | failure rate over the last calls | half of the last 48 (or of up to 4,096) failed | what fails now and then; the traffic is even |
//! | failure rate over the last seconds | half of the calls of the last 10 s failed | traffic that comes and goes: old calls should not be held against it |
//! | rate of slow calls | half of them took 2 s or longer | what hangs before it fails |
//!
//! They can be combined; whichever is reached first trips. Five consecutive failures do unless told otherwise: for a rate
//! alone set [`failure_threshold`](crate::breaker::BreakerConfigBuilder::failure_threshold) to `u32::MAX`. A rate needs
//! [`minimum_calls`](crate::breaker::BreakerConfigBuilder::minimum_calls), or the first failure after a quiet night
//! would be 100 %.
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
//! use core::time::Duration;
//! use damper::{BreakerConfig, CircuitBreaker, Window};
//!
//! // Half of the calls of the last 10 s fail, or most are slow; an outage trips it at once all the same.
//! let config = BreakerConfig::builder()
//!     .failure_threshold(10)
//!     .failure_rate(50)
//!     .slow_rate(80, Duration::from_secs(2))
//!     .window(Window::last(Duration::from_secs(10)))
//!     .minimum_calls(20)
//!     // 5 s, 10 s, 20 s and at most a minute while probes fail, each up to a fifth shorter by chance.
//!     .cooldown(Duration::from_secs(5))
//!     .cooldown_factor(2.0)
//!     .max_cooldown(Duration::from_mins(1))
//!     .cooldown_jitter(20)
//!     .max_probes(3)
//!     .successes_to_close(5)
//!     .build()?;
//! let search = CircuitBreaker::new(config);
//! assert!(search.call(|| "42".parse::<u32>()).is_ok());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! One breaker is for one thing that can fail on its own: a host, a database, a shard. One for all of them stops what
//! works because of what does not. [`KeyedCircuitBreaker`](crate::KeyedCircuitBreaker) has one for every key, in bounded memory;
//! where others choose the keys, read what it says about floods.
//!
//! # What counts as a failure
//!
//! What waiting may cure: no connection, a reset, a timeout, an answer of 5xx. Not what the caller did wrong (400, 404,
//! a value that does not parse): the callee is fine, and the next caller may do better. **And not 429**: whoever
//! answers that is alive, and has said when to come back. To take it for a failure stops the calls that would have been
//! allowed, too; wait instead, or limit the calls. The same holds for gRPC's `RESOURCE_EXHAUSTED` if it has a
//! `RetryInfo`; without one it may be a lack of memory, and is a failure. [`call_with`](crate::CircuitBreaker::call_with) takes a
//! [`Verdict`](crate::Verdict) of your own. What was cancelled says nothing: drop the permit. A call that panics has
//! failed, in [`call`](crate::CircuitBreaker::call), in [`run`](crate::CircuitBreaker::run) and behind the layers of
//! HTTP and gRPC.
//!
//! A callee that fails and says `Retry-After` is believed: [`Verdict::RetryAfter`](crate::Verdict::RetryAfter) makes
//! the breaker stay open for no less, up to [`max_retry_after`](crate::breaker::BreakerConfigBuilder::max_retry_after).
//!
//! # Breaker and retry
//!
//! The breaker is outside of the retries:
//!
//! ```text
//! request ──▶ breaker ──▶ retry ──▶ timeout of one attempt ──▶ transport
//!             one verdict   backs off     each attempt
//!             per request   in between    is bounded
//! ```
//!
//! One request that used up its retries is one failure, not three; and while the breaker is open a request costs no
//! backoff at all. The other way round, retries run against the open breaker, wait, and learn nothing.
//!
//! Whatever is inside of the breaker needs a timeout. Outside, around [`run`](crate::CircuitBreaker::run), it would
//! drop the call before there is a verdict; inside it has to end as an
//! `Err`. A probe that never ends keeps the others out;
//! [`max_half_open`](crate::breaker::BreakerConfigBuilder::max_half_open) is there for what has none.
//!
//! A stream that is a probe, of gRPC or of HTTP where the verdict waits for the body, has succeeded with its first
//! message: that shows that the service is back. Its end then counts as that of any other call. A stream that may be
//! silent for long needs `max_half_open`, because until its first message it keeps others out.
//!
//! # Slow probes
//!
//! Where [slow calls](crate::breaker::BreakerConfigBuilder::slow_rate) count, probes are timed too, from their permit to
//! their verdict. A slow probe is a failed probe, whatever it returned: a server that hangs for ten seconds and then
//! answers does not close the breaker that its slowness opened.
//!
//! # What it never does
//!
//! No answer is ever cached or invented. A call that is refused is an error, [`CircuitOpen`](crate::CircuitOpen), and
//! says when to come back; what to do instead is the caller's to know: an older value, a default, an apology. It is
//! found in any chain of sources by [`CircuitOpen::find_in`](crate::CircuitOpen::find_in).
//!
//! # In operation
//!
//! [`status`](crate::CircuitBreaker::status) is read without a lock;
//! [`on_state_change`](crate::CircuitBreaker::on_state_change) tells of each change once. Before a breaker is trusted,
//! [`metrics_only`](crate::CircuitBreaker::metrics_only) shows what it would do while it refuses nothing.
//! [`force_open`](crate::CircuitBreaker::force_open), [`force_closed`](crate::CircuitBreaker::force_closed) and
//! [`disable`](crate::CircuitBreaker::disable) overrule it until it is [`reset`](crate::CircuitBreaker::reset):
//!
//! ```
//! use damper::{BreakerConfig, CircuitBreaker, ManualClock, State};
//!
//! let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, ManualClock::new());
//! breaker.force_open(); // before maintenance
//! assert_eq!(breaker.try_acquire().unwrap_err().to_string(), "circuit forced open");
//! breaker.reset();
//! assert_eq!(breaker.status().state(), State::Closed);
//! ```
