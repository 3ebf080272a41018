//! Rate limits without keys: each algorithm, sets of limits, refunds, leases and reservations.

mod algorithms;
#[cfg(feature = "std")]
mod audits;
mod leases;
#[cfg(feature = "std")]
mod limit_set;
#[cfg(feature = "std")]
mod limit_set_costs;
#[cfg(feature = "std")]
mod limit_set_settling;
#[cfg(feature = "std")]
mod limit_set_waiting;
#[cfg(feature = "std")]
mod limiter_trait;
mod long_run;
mod look_first;
#[cfg(feature = "std")]
mod pausable;
mod peer_bugs;
mod quota_text;
mod rate_limiter;
mod refunds;
#[cfg(feature = "std")]
mod reservations;
#[cfg(feature = "alloc")]
mod resets;
#[cfg(feature = "alloc")]
mod shares;
#[cfg(feature = "alloc")]
mod sliding_log;
mod token_bucket_operations;
