//! A fixed limit, for comparison with adaptive limits.

use crate::concurrency::limit::{Finished, Rule};

/// Admits this many calls at once.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub u32);

impl Rule for Fixed {
    fn limit(&self) -> f64 {
        f64::from(self.0)
    }

    fn sample(&mut self, _now: f64, _call: &Finished, _in_flight: u32) {}
}
