//! The pacers of a client: one, or one for each host.

use crate::settings::{ConfiguredStrategy, PacingSettings};
use damper_core::OutOfRange;
use damper_core::Reads;
use damper_core::gate::PacerSource;
use damper_core::throttle::Pacer;
use damper_core::time::DefaultClock;
use damper_http::{Head, Hosts};
use std::sync::Arc;

/// The pacers that settings describe, to be put into a [`PacingLayer`](damper_http::PacingLayer).
///
/// Clones share their state.
#[derive(Clone, Debug)]
#[cfg(feature = "http")]
pub enum ConfiguredPacers {
    /// One for all calls.
    Single(Arc<Pacer<ConfiguredStrategy>>),
    /// One for each host.
    PerHost(Hosts<Pacer<ConfiguredStrategy>>),
}

#[cfg(feature = "http")]
impl PacingSettings {
    /// Builds the pacers, for `PacingLayer::new`, and to watch them.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    pub fn pacers(&self) -> Result<ConfiguredPacers, OutOfRange> {
        if !self.per_host() {
            return Ok(ConfiguredPacers::Single(Arc::new(self.pacer())));
        }
        let settings = self.clone();
        let hosts = Hosts::by(self.max_hosts() as usize, move || settings.pacer())?;
        Ok(ConfiguredPacers::PerHost(hosts))
    }
}

impl PacerSource for ConfiguredPacers {
    type Strategy = ConfiguredStrategy;
    type Clock = DefaultClock;
    type Pacer = Arc<Pacer<ConfiguredStrategy>>;
}

impl Reads<Head<'_>, <Self as PacerSource>::Pacer> for ConfiguredPacers {
    #[inline]
    fn read_from(&self, head: &Head<'_>) -> <Self as PacerSource>::Pacer {
        match self {
            Self::Single(pacer) => Arc::clone(pacer),
            Self::PerHost(hosts) => hosts.read_from(head),
        }
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for ConfiguredPacers {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        match self {
            Self::Single(pacer) => pacer.read(readings),
            Self::PerHost(hosts) => hosts.read(readings),
        }
    }
}
