//! The pacers of a client: one, or one for each host.

use crate::settings::{ConfiguredStrategy, PacingSettings};
use damper_core::OutOfRange;
use damper_core::gate::Either;
use damper_core::throttle::Pacer;
use damper_http::Hosts;
use std::sync::Arc;

/// The pacers that settings describe, to be put into a [`PacingLayer`](damper_http::PacingLayer).
///
/// The first is one pacer for all calls, and the second has one for each host. Clones share their state.
pub type ConfiguredPacers = Either<Arc<Pacer<ConfiguredStrategy>>, Hosts<Pacer<ConfiguredStrategy>>>;

#[cfg(feature = "http")]
impl PacingSettings {
    /// Builds the pacers, for `PacingLayer::new`, and to watch them.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    pub fn pacers(&self) -> Result<ConfiguredPacers, OutOfRange> {
        if !self.per_host() {
            return Ok(Either::First(Arc::new(self.pacer())));
        }
        let settings = self.clone();
        let hosts = Hosts::by(self.max_hosts() as usize, move || settings.pacer())?;
        Ok(Either::Second(hosts))
    }
}
