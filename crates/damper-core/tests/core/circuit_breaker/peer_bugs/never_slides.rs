//! A window with a minimum but no end: the counts cover all calls ever made.

use crate::circuit_breaker::peer_bugs::{OfCalls, Windowed};

pub(crate) struct NeverSlides {
    minimum: u32,
    calls: u32,
    failed: u32,
}

impl OfCalls for NeverSlides {
    fn new(calls: u32) -> Self {
        Self { minimum: calls, calls: 0, failed: 0 }
    }
}

impl Windowed for NeverSlides {
    fn record(&mut self, _now: u64, failed: bool) -> bool {
        self.calls += 1;
        self.failed += u32::from(failed);
        self.calls >= self.minimum && self.failed * 2 >= self.calls
    }
}
