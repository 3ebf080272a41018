//! No limit.

use crate::concurrency::limit::{Finished, Rule};

/// As many calls as a server has memory for.
const MEMORY: f64 = 1_000_000.0;

/// Admits every call that the server has memory for.
#[derive(Clone, Copy, Debug)]
pub struct NoLimit;

impl Rule for NoLimit {
    fn limit(&self) -> f64 {
        MEMORY
    }

    fn sample(&mut self, _now: f64, _call: &Finished, _in_flight: u32) {}
}
