//! Throttles of clients.

use crate::kind::Kind;
use crate::section::section;
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle, MultiplierError};

section! {
    /// Which calls a client does not send because an overloaded server would reject them.
    ThrottleSettings {
        /// How many calls may be made for each that the server accepts.
        multiplier: f64 = 2.0, Kind::Number { min: 1.0, max: 10.0 }, Restart;
        /// For how many hosts throttles are kept, where each host has one.
        max_hosts: u32 = 1024, Kind::Count { min: 1, max: 1 << 24 }, Restart;
    }
}

impl ThrottleSettings {
    /// Builds a throttle for one server.
    #[must_use]
    pub fn throttle(&self) -> AdaptiveThrottle {
        // Never falls back to the default: the key has the same range.
        self.try_throttle().unwrap_or_default()
    }

    pub(crate) fn try_throttle(&self) -> Result<AdaptiveThrottle, MultiplierError> {
        AdaptiveThrottle::new().multiplier(self.multiplier)
    }

    /// Builds a throttle for each host.
    #[must_use]
    pub fn per_host(&self) -> KeyedThrottle<String> {
        // Never falls back to the default: the keys have the same ranges.
        KeyedThrottle::new(self.max_hosts as usize).unwrap_or_default().multiplier(self.multiplier).unwrap_or_default()
    }
}
