//! A window always has five slices of whole milliseconds, however short it is.

use crate::circuit_breaker::peer_bugs::{OfTime, Windowed};

pub(crate) struct SlicesOfNothing {
    millis_per_slice: u64,
    /// Each slice's number, its calls, and how many of them failed.
    slices: [(u64, u32, u32); 5],
}

impl OfTime for SlicesOfNothing {
    fn new(millis: u64) -> Self {
        Self { millis_per_slice: millis / 5, slices: [(0, 0, 0); 5] }
    }
}

impl Windowed for SlicesOfNothing {
    fn record(&mut self, now: u64, failed: bool) -> bool {
        let number = now / self.millis_per_slice;
        let slice = &mut self.slices[(number % 5) as usize];
        if slice.0 != number {
            *slice = (number, 0, 0);
        }
        *slice = (number, slice.1 + 1, slice.2 + u32::from(failed));
        let in_window = self.slices.iter().filter(|slice| slice.0 + 5 > number);
        let (calls, failed) = in_window.fold((0, 0), |sum, slice| (sum.0 + slice.1, sum.1 + slice.2));
        calls >= 10 && failed * 2 >= calls
    }
}
