//! Throttles of clients.

use crate::kind::Kind;
use crate::section::section;
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle};

section! {
    /// Which calls a client does not send because an overloaded server would reject them.
    ThrottleSettings {
        /// How many calls may be made for each that the server accepts.
        multiplier: f64 = 2.0, Kind::Number { min: 1.0, max: 10.0 }, Restart;
        /// For how many hosts throttles are kept, where each host has one.
        max_hosts: u32 = 1024, Kind::Count { min: 1, max: 1 << 24 }, Restart;
    }
    check |_, _| None
}

impl ThrottleSettings {
    /// Builds a throttle for one server.
    #[must_use]
    pub fn throttle(&self) -> AdaptiveThrottle {
        // The range is that of the key.
        AdaptiveThrottle::new().multiplier(self.multiplier).unwrap_or_default()
    }

    /// Builds a throttle for each host.
    #[must_use]
    pub fn per_host(&self) -> KeyedThrottle<String> {
        // The ranges are those of the keys.
        KeyedThrottle::new(self.max_hosts as usize).unwrap_or_default().multiplier(self.multiplier).unwrap_or_default()
    }
}
