//! A breaker on the given clock whose window uses the system's clock.

use crate::circuit_breaker::peer_bugs::{OfTime, Windowed};
use std::time::{Duration, Instant};

pub(crate) struct ClockOfItsOwn {
    length: Duration,
    calls: Vec<(Instant, bool)>,
}

impl OfTime for ClockOfItsOwn {
    fn new(millis: u64) -> Self {
        Self { length: Duration::from_millis(millis), calls: Vec::new() }
    }
}

impl Windowed for ClockOfItsOwn {
    fn record(&mut self, _now: u64, failed: bool) -> bool {
        let now = Instant::now();
        self.calls.push((now, failed));
        self.calls.retain(|(began, _)| now - *began < self.length);
        self.calls.len() >= 10 && self.calls.iter().filter(|(_, failed)| *failed).count() * 2 >= self.calls.len()
    }
}
