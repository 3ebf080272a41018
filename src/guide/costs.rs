//! Costs: time, memory, and what contention adds.
//!
#![doc = include_str!("../../docs/charts/costs.md")]
//!
//! `docs/benchmarks.md` of the repository has all rows, with two threads and beside other crates, and says where one of
//! them is ahead. Repeat it with `cargo run --release --manifest-path benches/peers/Cargo.toml`. Counts of instructions,
//! which do not depend on the machine's load, are in `benches/instructions.txt`, and CI checks them.
//!
//! # The clock
//!
//! Reading the clock is most of a check. Where a millisecond of precision is enough, a
//! `CoarseClock` costs a load; a lease or a stripe reads no clock while it has tokens. See [`waiting`](super::waiting).
//!
//! # Memory
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{Bulkhead, CircuitBreaker, RateLimiter, RetryBudget};
//!
//! // Bytes of a value on a 64-bit target. Only a breaker with a large window, or one of time, allocates, at its first outcome.
//! # #[cfg(target_pointer_width = "64")]
//! # {
//! assert!(size_of::<Bulkhead>() <= 128);
//! assert!(size_of::<CircuitBreaker>() <= 320);
//! assert!(size_of::<RateLimiter>() <= 384);
//! assert!(size_of::<RetryBudget>() <= 384);
//! # }
//! # }
//! ```
//!
//! | value | heap |
//! |---|---|
//! | [`KeyedLimiter`](crate::KeyedLimiter) | 51 bytes for each key of its capacity |
//! | a breaker with a window of up to 4,096 calls | a bit or two for each call |
//! | [`Hedge`](crate::retry::Hedge) | 18 kB for its histogram |
//! | `DecisionLog` | 24 bytes for each decision that it has room for |
//! | [`Admission`](crate::Admission) | some 220 kB for its queue and the counters of tenants |
//!
//! # Many cores
//!
//! Cores that change one word take turns: each swap moves a cache line. A keyed limiter spreads its words over many lines,
//! so two cores rarely meet. For one limit that all cores ask all the time, take
//! [`RateLimiter::leasing`](crate::RateLimiter::leasing) or `Striped`. `docs/benchmarks.md` has a model of how each
//! scales.
