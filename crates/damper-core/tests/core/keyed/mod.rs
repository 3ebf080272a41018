//! The keyed limiter.

#[cfg(feature = "std")]
mod by_plan;
#[cfg(feature = "std")]
mod limiter;
mod slots;
#[cfg(feature = "std")]
mod tree;
#[cfg(feature = "std")]
mod tree_day;
#[cfg(feature = "std")]
mod tree_fairness;
#[cfg(feature = "std")]
mod tree_guarantees;
#[cfg(feature = "std")]
mod tree_orders;
#[cfg(feature = "std")]
mod tree_settling;
#[cfg(feature = "std")]
mod tree_waiting;
#[cfg(feature = "std")]
mod tree_waiting_guarantees;
#[cfg(feature = "std")]
mod windows;
