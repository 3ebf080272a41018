//! No pacing at all.

use super::{Hints, Moment, Strategy};
use core::time::Duration;

/// Never sleeps: a rejected call is retried at once. For comparisons, and to switch pacing off.
///
/// It still honours `Retry-After`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoPacing;

impl Strategy for NoPacing {
    fn before_call(&self, _: u64, _: Moment) -> Duration {
        Duration::ZERO
    }

    fn answered(&self, _: &mut u64, _: &Hints, _: Moment) -> Duration {
        Duration::ZERO
    }
}
