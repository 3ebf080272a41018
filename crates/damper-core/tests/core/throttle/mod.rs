//! Throttles and pacers.

#[cfg(feature = "alloc")]
mod adaptive;
#[cfg(feature = "std")]
mod keyed;
mod pacer;
#[cfg(feature = "std")]
mod pacer_short_runs;
