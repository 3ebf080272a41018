//! A quota as the script counts it.

use super::Rate;
use damper_core::{OutOfRange, Plan, Quota};

/// The terms of one limit: its quota in the numbers of the script.
///
/// Every process sends its own terms with each command. The script stores only the period of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The rate at which tokens drip in.
    pub rate: Rate,
    /// The most tokens that can be saved up.
    pub burst: u32,
    /// The deepest debt, counted from a full bucket: the burst and what a charge may take beyond it.
    pub deepest: u64,
    /// The most tokens that all holders together may have leased; 0 if nothing is leased.
    ///
    /// It only limits hoarding. The script lowers it to the burst.
    pub hold: u32,
}

impl Terms {
    /// Returns the terms of `quota`, of which at most `hold` tokens can be leased at a time.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the script cannot count the rate exactly, or if the quota is unlimited.
    pub fn new(quota: Quota, hold: u32) -> Result<Self, OutOfRange> {
        let rate = Rate::try_from(quota)?;
        let burst = quota.burst_size();
        Ok(Self { rate, burst, deepest: damper_core::internal::deepest_debt(&quota), hold: hold.min(burst) })
    }

    /// Returns how many µs after `now` at most `spare` tokens of a debt are left; `None` if they never are.
    ///
    /// The debt is the time in µs at which it is repaid or, if nothing drips in, its tokens.
    pub(crate) fn wait_with_debt(&self, debt: u64, spare: u32, now: u64) -> Option<u64> {
        let (tokens, micros) = (self.rate.tokens(), self.rate.micros());
        if tokens == 0 {
            return (debt <= spare.into()).then_some(0);
        }
        // Rounded down, so that no wait is too short. The product is below 2^80.
        let rest = u128::from(spare) * u128::from(micros) / u128::from(tokens);
        Some(debt.saturating_sub(now).saturating_sub(u64::try_from(rest).unwrap_or(u64::MAX)))
    }

    /// Returns the terms of a plan, of which nothing can be leased; `None` if it is unlimited.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Option<Self> {
        if plan.is_unlimited() {
            return None;
        }
        let quota = plan.quota();
        let deepest = damper_core::internal::deepest_debt_of_plan(plan);
        Some(Self { rate: Rate::of_plan(quota), burst: quota.burst_size(), deepest, hold: 0 })
    }
}

/// The part of the last [`Level`](super::Level) of a limit that a process remembers.
///
/// It shows the script whether the server has lost its memory of the limit. The default stands for a process without a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// [`Level::version`](super::Level::version) of that level.
    pub version: u64,
    /// [`Level::full_at`](super::Level::full_at) of that level.
    pub full_at: u64,
}
