//! A clock that may step back.

use damper::{Clock, ManualClock};
use std::time::Duration;

/// A clock that is set by hand, and that states how far it may step back.
pub(crate) struct Skewed(pub(crate) ManualClock, pub(crate) Duration);

impl Clock for Skewed {
    fn now(&self) -> u64 {
        self.0.now()
    }
    fn frequency(&self) -> u64 {
        self.0.frequency()
    }
    fn max_step_back(&self) -> u64 {
        self.1.as_nanos() as u64
    }
}
