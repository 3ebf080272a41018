//! Throttles of clients.

use crate::kind::Kind;
use crate::section::section;
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle};
use std::error::Error;

section! {
    /// Which calls a client does not send because an overloaded server would reject them.
    ThrottleSettings {
        /// How many calls may be made for each that the server accepts.
        multiplier: f64 = 2.0, Kind::Number { min: 1.0, max: 10.0 }, Live;
        /// The largest share of the calls that is not sent. A probe a second is always sent.
        max_refused: f64 = 0.99, Kind::Fraction { min: 0.0, max: 0.99 }, Live;
        /// For how many hosts throttles are kept, where each host has one.
        max_hosts: u32 = 1024, Kind::Count { min: 1, max: 1 << 24 }, Restart;
    }
}

impl ThrottleSettings {
    /// Builds a throttle for one server.
    #[must_use]
    pub fn throttle(&self) -> AdaptiveThrottle {
        // Never falls back to the default: the keys have the same ranges.
        self.try_throttle().unwrap_or_default()
    }

    pub(crate) fn try_throttle(&self) -> Result<AdaptiveThrottle, Box<dyn Error + Send + Sync>> {
        Ok(AdaptiveThrottle::new().multiplier(self.multiplier)?.max_refused(self.max_refused)?)
    }

    /// Builds a throttle for each host.
    #[must_use]
    pub fn per_host(&self) -> KeyedThrottle<String> {
        // Never falls back to the default: the keys have the same ranges.
        self.try_per_host().unwrap_or_default()
    }

    fn try_per_host(&self) -> Result<KeyedThrottle<String>, Box<dyn Error + Send + Sync>> {
        let hosts = KeyedThrottle::new(self.max_hosts as usize)?;
        Ok(hosts.multiplier(self.multiplier)?.max_refused(self.max_refused)?)
    }
}
