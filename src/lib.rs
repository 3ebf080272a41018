//! Lock-free rate limiters and circuit breakers.
#![no_std]
#![deny(clippy::std_instead_of_core)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", test, loom))]
extern crate std;

#[doc(hidden)]
pub mod atomic;
pub mod breaker;
pub mod clock;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "std")]
pub mod keyed;
pub mod limit;
pub mod quota;
#[cfg(feature = "hyper")]
pub mod wire;

pub use breaker::{BreakerConfig, BreakerConfigError, CallError, CircuitBreaker, CircuitOpen, Permit, State};
#[cfg(feature = "std")]
pub use clock::Monotonic;
pub use clock::{Clock, ManualClock};
#[cfg(feature = "std")]
pub use keyed::{KeyedLimiter, KeyedLimiterError};
pub use limit::{Allowed, Denied, RateLimiter, TokenBucket, Usage};
pub use quota::{Quota, QuotaError};
