//! Limits on words that the program owns.

mod breaker;
mod bulkhead;
mod header;
mod limiter;
mod table;

use damper::{Clock, ManualClock};

/// A clock that moves by a nanosecond after each reading.
pub(crate) struct Ticking(pub(crate) ManualClock);

impl Clock for Ticking {
    fn now(&self) -> u64 {
        let now = self.0.now();
        self.0.advance_ticks(1);
        now
    }
    fn frequency(&self) -> u64 {
        self.0.frequency()
    }
}
