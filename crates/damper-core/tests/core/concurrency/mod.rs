//! Limits on the calls in flight.

#[cfg(feature = "std")]
mod adaptive_limit;
#[cfg(feature = "std")]
mod admission;
#[cfg(feature = "std")]
mod bulkhead;
#[cfg(feature = "std")]
mod keyed;
#[cfg(feature = "std")]
mod peer_bugs;
