//! Deadlines, and what is learned about them.

mod deadline;
#[cfg(feature = "std")]
mod skew_guard;
mod usual_latency;
