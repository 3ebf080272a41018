//! The keyed limiter.

#[cfg(feature = "std")]
mod limiter;
mod slots;
#[cfg(feature = "std")]
mod windows;
