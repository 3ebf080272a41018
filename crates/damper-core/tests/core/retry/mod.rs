//! Retries, their delays and budgets, and hedges.

mod attempts;
mod backoff;
mod budget;
#[cfg(feature = "tokio")]
mod hedge;
mod peer_bugs;
