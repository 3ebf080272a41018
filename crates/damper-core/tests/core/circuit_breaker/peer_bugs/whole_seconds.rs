//! The length of a window is read in whole seconds.

use crate::circuit_breaker::peer_bugs::{OfTime, Windowed};
use std::time::Duration;

pub(crate) struct WholeSeconds {
    seconds: u64,
    /// When each call began, in milliseconds, and whether it failed.
    calls: Vec<(u64, bool)>,
}

impl OfTime for WholeSeconds {
    fn new(millis: u64) -> Self {
        Self { seconds: Duration::from_millis(millis).as_secs(), calls: Vec::new() }
    }
}

impl Windowed for WholeSeconds {
    fn record(&mut self, now: u64, failed: bool) -> bool {
        self.calls.push((now, failed));
        self.calls.retain(|(began, _)| now - began < self.seconds * 1_000);
        self.calls.len() >= 10 && self.calls.iter().filter(|(_, failed)| *failed).count() * 2 >= self.calls.len()
    }
}
