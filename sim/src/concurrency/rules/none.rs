//! No limit.

use crate::concurrency::limit::{Finished, Rule};

/// The number of calls for which a server has memory.
const MEMORY: f64 = 1_000_000.0;

/// Admits every call for which the server has memory.
#[derive(Clone, Copy, Debug)]
pub struct NoLimit;

impl Rule for NoLimit {
    fn limit(&self) -> f64 {
        MEMORY
    }

    fn sample(&mut self, _now: f64, _call: &Finished, _in_flight: u32) {}
}
