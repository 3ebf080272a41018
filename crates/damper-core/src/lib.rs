//! The rate limiters, circuit breakers, concurrency limits and retries of damper, without any protocol.
//!
//! The crate [`damper`](https://docs.rs/damper) re-exports all of it and adds HTTP and gRPC. Depend on this crate for firmware, and for
//! middleware that should not follow the versions of a protocol's crates. The examples name it `damper`, because they work there too.
//!
//! # A limiter in a static
//!
//! A limiter and a breaker are plain values that decide on one atomic word. They need no lock, no thread and no runtime. Constructors
//! are `const`:
//!
//! ```
//! # extern crate damper_core as damper;
//! # #[cfg(feature = "std")] {
//! use damper::{Quota, RateLimiter};
//!
//! static LOGINS: RateLimiter = RateLimiter::new(Quota::per_minute(30).burst(5));
//!
//! match LOGINS.check() {
//!     Ok(allowed) => println!("{} left", allowed.remaining()),
//!     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
//! }
//! # }
//! ```
//!
//! # Without std
//!
//! Firmware brings its own [`Clock`]: a timer that counts up. Here a [`ManualClock`] stands in for it, as in tests.
//!
//! ```
//! # extern crate damper_core as damper;
//! use core::time::Duration;
//! use damper::{CircuitBreaker, BreakerConfig, ManualClock, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(1), &clock);
//! assert!(limiter.check().is_ok());
//! assert!(limiter.check().is_err());
//! clock.advance(Duration::from_millis(100));
//! assert!(limiter.check().is_ok());
//!
//! // 5 consecutive failures open it for 30 s. Then one call probes.
//! let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, &clock);
//! let answer = breaker.call(|| "42".parse::<u32>());
//! assert_eq!(answer, Ok(42));
//! ```
//!
//! [The guide](https://docs.rs/damper/latest/damper/guide/) says how to choose an algorithm, a rate and a burst.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`quota`] | [`Quota`]: what is allowed, in tokens per window and a burst |
//! | [`limit`] | [`RateLimiter`], and its answers; [`Limiter`]: the trait of everything that decides without a key |
//! | [`keyed`] | [`KeyedLimiter`]: a limit per key |
//! | [`breaker`] | [`CircuitBreaker`], and its permits; [`KeyedCircuitBreaker`]: a breaker per key |
//! | [`store`] | [`BoundedStore`]: a bounded store of any value per key; [`Keyed`](store::Keyed): of values with common settings |
//! | [`deadline`] | [`Deadline`]: the time that a piece of work may take, passed on as a value |
//! | [`retry`] | [`Retry`]: tries again, with a [`Backoff`] and within a [`RetryBudget`] |
//! | [`throttle`] | [`AdaptiveThrottle`](throttle::AdaptiveThrottle): refuses calls that an overloaded service would reject; `KeyedThrottle`: per key; [`Pacer`](throttle::Pacer): sleeps before calls to a service with a limit |
//! | [`concurrency`] | [`Bulkhead`]: how many calls may be in flight at once; [`AdaptiveLimit`]: as the service's latency says; [`KeyedBulkhead`] and [`KeyedAdaptiveLimit`]: per key; `Admission`: and which calls |
//! | [`gate`] | what all of these share: [`Verdict`](gate::Verdict), how a call went; [`Permit`](gate::Permit) and [`Refusal`](gate::Refusal), what a gate answers |
//! | [`shadow`] | [`Shadowed`](shadow::Shadowed): a candidate decides beside the limiter or breaker in force, and changes nothing |
//! | `decision_log` | `DecisionLog`: the last decisions of limiters, to compute what another quota would have refused |
//! | [`word32`] | limiter and breaker in words of 32 bits, for firmware: [`RateLimiter32`], [`CircuitBreaker32`] |
//! | [`words`] | limits on words that the program owns, shared by processes or cores: [`WordLimiter`](words::WordLimiter), [`WordBulkhead`](words::WordBulkhead) |
//! | [`Acquire`] | a wait that has not begun: for tokens, for the costs of a call, or for a permit |
//! | [`Reads`] | what gates, retries and pacers read from a call, a response or an outcome: every closure does |
//! | [`Ramp`] | a gradual return: which share of the calls passes, by the time since an outage, a pause or a start |
//! | [`setting`] | [`Live`]: a timeout, a wait or the attempts of retries that change while calls are made |
//! | [`time`] | [`Clock`], the clocks there are, and how to write one; [`Sleep`](time::Sleep), seeds |
//! | [`testing`] | assertions for tests of your own code |
//!
//! # Features
//!
//! All are additive; without any the crate needs neither `std` nor `alloc`.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | the default clock and hasher; `wait`, `Striped`, `CoarseTicker` |
//! | `alloc` | yes | [`SlidingLog`], [`KeyedLimiter`]s of any size and of several quotas; [`BoundedStore`], [`KeyedCircuitBreaker`], `KeyedThrottle`, queues of [`Bulkhead`]s, [`KeyedBulkhead`], [`KeyedAdaptiveLimit`], `Admission`, `Arc`s as clocks and owned permits where the target has atomic pointers |
//! | `defmt` | | `defmt::Format` for answers, states and errors |
//! | `rustix` | | `HostMonotonic`: the monotonic clock of a Unix host, the same in all processes |
//! | `serde` | | quotas in files, as text: `"100/s burst 200"` |
//! | `tokio` | | `acquire(n).await`: futures that wait for tokens or permits by tokio's timer (with `std`) |
//! | `compared` | | rules of other libraries for adaptive limits and pacing, to compare with |
//! | `futures` | | streams and sinks whose items wait for tokens |
//!
//! # Targets without 64-bit atomics
//!
//! There a change of a 64-bit word takes a critical section, which the firmware implements with the crate `critical-section`. The types of
//! [`word32`] need none.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod acquire;
#[cfg(feature = "alloc")]
mod boxed_error;
pub mod breaker;
mod call_error;
#[cfg(feature = "alloc")]
mod capacity;
pub mod concurrency;
pub mod deadline;
#[cfg(feature = "alloc")]
pub mod decision_log;
#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
mod digest;
pub mod gate;
#[doc(hidden)]
pub mod internal;
#[cfg(feature = "alloc")]
mod invalid_text;
pub mod keyed;
pub mod limit;
mod out_of_range;
pub mod quota;
mod ramp;
mod reads;
pub mod retry;
pub mod setting;
pub mod shadow;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub mod store;
#[doc(hidden)]
pub mod sync;
pub mod testing;
pub mod throttle;
pub mod time;
pub mod word32;
#[cfg(target_has_atomic = "64")]
pub mod words;

pub use acquire::{Acquire, AcquireFuture};
#[cfg(feature = "alloc")]
pub use boxed_error::BoxedError;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use breaker::KeyedCircuitBreaker;
pub use breaker::{BreakerConfig, BreakerStatus, CircuitBreaker, CircuitOpen};
pub use call_error::CallError;
pub use concurrency::{AdaptiveLimit, Bulkhead, BulkheadFull, LimitSetRefusal};
#[cfg(feature = "alloc")]
pub use concurrency::{Admission, AdmissionRequest, Criticality, NotAdmitted};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use concurrency::{KeyedAdaptiveLimit, KeyedBulkhead};
pub use deadline::{Deadline, DeadlineExceeded};
pub use gate::is_refusal;
#[cfg(feature = "alloc")]
pub use invalid_text::InvalidText;
pub use keyed::{ClientAddress, KeyedLimiter, TierError, WhenFull};
#[cfg(feature = "alloc")]
pub use keyed::{QuotaTree, TreeDenied, TreeRefusal, TreeReservation};
#[cfg(feature = "std")]
pub use limit::Striped;
pub use limit::{
    Alignment, Allowed, Denied, FixedWindow, KeyedAlgorithm, LeakyBucket, LeakyQueue, Lease, LeaseReservation,
    LeasingBucket, LimitSet, LimitSetDenied, LimitSetQuotaError, Limiter, Pausable, RateLimiter, Reservation,
    SetReservation, SlidingCounter, TokenBucket, Usage,
};
#[cfg(feature = "alloc")]
pub use limit::{ByPlan, SlidingLog};
pub use out_of_range::OutOfRange;
#[cfg(any(feature = "alloc", target_has_atomic = "64"))]
pub use quota::Plan;
pub use quota::{ParseQuotaError, Quota, SetQuotaError};
pub use ramp::Ramp;
pub use reads::Reads;
pub use retry::{Backoff, Retry, RetryBudget, RetryError};
pub use setting::Live;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use store::BoundedStore;
pub use time::{Clock, CoarseClock, ManualClock};
#[cfg(feature = "std")]
pub use time::{CoarseTicker, Monotonic, StdClock};
pub use word32::{CircuitBreaker32, RateLimiter32};

/// The README's examples are tests.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
