//! A quota as the script counts it.

use super::{Rate, RateError};
use damper_core::Quota;

/// The terms of one limit: what the script needs to know of its quota.
///
/// Every process sends its own with each command. The script stores none of them but the period of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How fast tokens drip in.
    pub rate: Rate,
    /// The most tokens that can be saved up.
    pub burst: u32,
    /// The deepest debt, counted from a full bucket: the burst and what a charge may take beyond it.
    pub deepest: u64,
    /// The most tokens that all holders may have leased together; 0 where nothing is leased.
    ///
    /// It only limits hoarding. The script takes a larger one than the burst for the burst.
    pub hold: u32,
}

impl Terms {
    /// Returns the terms of `quota`, of which at most `hold` tokens can be leased at a time.
    ///
    /// # Errors
    ///
    /// [`RateError`] if the script cannot count the rate exactly, or there is no limit to count.
    pub fn new(quota: Quota, hold: u32) -> Result<Self, RateError> {
        let rate = Rate::try_from(quota)?;
        let burst = quota.burst_size();
        Ok(Self { rate, burst, deepest: damper_core::internal::deepest_debt(&quota), hold: hold.min(burst) })
    }
}

/// The part of the last [`Level`](super::Level) of a limit that a process remembers.
///
/// The script notices by it that the server lost what it had counted. The default is of a process that has seen nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// [`Level::version`](super::Level::version) of that level.
    pub version: u64,
    /// [`Level::full_at`](super::Level::full_at) of that level.
    pub full_at: u64,
}
