//! Limiters whose decisions are logged.

use crate::{Readings, Source};
use damper_core::decision_log::Logged;

/// The limiter, without its log.
impl<L: Source, G> Source for Logged<L, G> {
    fn read(&self, readings: &Readings<'_>) {
        self.limiter().read(readings);
    }
}
